//! The leak check: what is left of a state directory's instances and disks, found without xdrive's
//! own records.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Lists all resources of the state directory `dir` that are still in the running system, a line
/// each: loop devices, mounts, processes, and the network namespaces, links and cgroups of every
/// instance with a record or a console in `dir`.
pub fn leaks(dir: &Path) -> Vec<String> {
    let dir = fs::canonicalize(dir).unwrap();
    let text = dir.to_str().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(file.trim_end()).starts_with(&dir) {
            found.push(format!("loop device {}: {file}", entry.path().display()));
        }
    }
    for line in fs::read_to_string("/proc/mounts").unwrap().lines() {
        if line
            .split(' ')
            .nth(1)
            .is_some_and(|mount| Path::new(mount).starts_with(&dir))
        {
            found.push(format!("mount {line}"));
        }
    }
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let pid: Option<u32> = name.to_str().and_then(|name| name.parse().ok());
        if pid.is_none_or(|pid| pid == std::process::id()) {
            continue;
        }
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(text) {
            found.push(format!("process {}: {command}", name.display()));
        }
    }
    for instance in fs::read_dir(dir.join("instances"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let id = instance.file_name().into_string().unwrap();
        let name = format!("xd-{}", &id[id.len() - 8..]);
        let mut places = vec![
            format!("/run/netns/{name}"),
            format!("/sys/fs/cgroup/{name}"),
        ];
        for hierarchy in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
            places.push(format!("{}/{name}", hierarchy.path().display()));
        }
        found.extend(routers().filter_map(|router| {
            let shown = Command::new("ip")
                .args(["-netns", &router, "link", "show", &name])
                .output()
                .unwrap();
            shown
                .status
                .success()
                .then(|| format!("{name} in {router}"))
        }));
        found.extend(
            places
                .into_iter()
                .filter(|place| fs::symlink_metadata(place).is_ok()),
        );
    }
    found
}

/// The names of the routers' network namespaces.
pub fn routers() -> impl Iterator<Item = String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("xd-vpc-"))
}
