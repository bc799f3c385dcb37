//! Commands that lose the connection to their host, and go on; or the host itself: the drive is
//! saved.

mod wide;

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::site::{Ended, Running, Site};

/// A command under way that never ends by itself.
fn working(site: &Site) -> Running {
    let image = site.image();
    let command = "echo kept >/work/note; echo at work >&2; sleep 600";
    let mut running = site.start(&[
        "connect", "demo", "--image", &image, "--", "sh", "-c", command,
    ]);
    running.reports("at work");
    running
}

/// The folder of the newest instance that has a network, and the name of that.
pub(super) fn instance(site: &Site) -> (PathBuf, String) {
    let instances = fs::read_dir(site.dir().join("instances")).unwrap();
    let networks = instances.map(|instance| {
        let folder = instance.unwrap().path();
        let id = folder.file_name().unwrap().to_str().unwrap();
        let network = format!("xd-{}", &id[id.len() - 8..]);
        (folder, network)
    });
    let is_up = |network: &str| Path::new("/run/netns").join(network).exists();
    let up = networks.filter(|(_, network)| is_up(network));
    let made = |folder: &Path| fs::metadata(folder).unwrap().created().unwrap();
    up.max_by_key(|(folder, _)| made(folder)).unwrap()
}

/// The process that is recorded in this file of the newest instance.
pub(super) fn recorded(site: &Site, file: &str) -> Pid {
    let text = fs::read_to_string(instance(site).0.join(file)).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    Pid::from_raw(i32::try_from(record["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

/// The processes of the only instance that serve this laptop's connections.
pub(super) fn connections(site: &Site) -> Vec<Pid> {
    let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let init = recorded(site, "init.json").as_raw_nonzero().to_string();
    let own = space(&init).unwrap();
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").unwrap() {
        let name = process.unwrap().file_name().into_string().unwrap();
        let command = fs::read_to_string(format!("/proc/{name}/cmdline")).unwrap_or_default();
        // OpenSSH 9.8 and later have a program of its own for what serves a connection.
        let serves = ["sshd: root@", "sshd-session: root@"]
            .iter()
            .any(|title| command.starts_with(title));
        if serves && space(&name).as_ref() == Some(&own) {
            found.push(Pid::from_raw(name.parse().unwrap()).unwrap());
        }
    }
    found
}

/// Cuts this laptop's connections on the host: where one serves another, that ends with it.
pub(super) fn cut(site: &Site) {
    for connection in connections(site) {
        let killed = kill_process(connection, Signal::KILL);
        assert!(matches!(killed, Ok(()) | Err(Errno::SRCH)), "{killed:?}");
    }
}

/// Lines with the numbers before `count`.
pub(super) fn numbers(prefix: &str, count: u32) -> String {
    let lines = (0..count).map(|number| format!("{prefix}{number}\n"));
    lines.collect::<Vec<_>>().concat()
}

/// The lines of numbers that begin with an e, among those of xdrive's own.
pub(super) fn errors(ended: &Ended) -> String {
    let lines = ended.stderr.lines().filter(|line| {
        let number = line.strip_prefix('e').map(str::parse::<u32>);
        matches!(number, Some(Ok(_)))
    });
    let lines: Vec<String> = lines.map(|line| format!("{line}\n")).collect();
    lines.concat()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_command_goes_on_over_another_connection_when_the_first_goes_silent() {
    let site = Site::new();
    let image = site.image();
    // Longer than a silence of 25 s, after which every connection is given up.
    let command = "i=0; while [ $i -lt 400 ]; do echo $i; echo e$i >&2; i=$((i+1)); sleep 0.1; done; \
                   echo kept >/work/note; exit 7";
    let mut running = site.start(&[
        "connect", "demo", "--image", &image, "--", "sh", "-c", command,
    ]);
    running.prints("\n20\n");
    let connections = connections(&site);
    assert!(connections.len() >= 2, "{connections:?}");
    for connection in connections {
        kill_process(connection, Signal::STOP).unwrap();
    }
    let ended = running.end();
    ended
        .is(7)
        .reports("the connection was lost: ")
        .reports(" again after ")
        .reports("demo is saved");
    assert_eq!(ended.stdout, numbers("", 400));
    assert_eq!(errors(&ended), numbers("e", 400));
    site.is_saved("demo", 1);
    let after = site.run(&["connect", "demo", "--", "cat", "/work/note"]);
    assert_eq!(after.is(0).stdout, "kept\n");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_that_vanishes_is_reported_and_what_was_synced_is_saved() {
    let site = Site::new();
    let running = working(&site);
    kill_process(recorded(&site, "supervisor.json"), Signal::KILL).unwrap();
    let ended = running.end();
    ended
        .is(255)
        .reports("the drive was not closed by its last host")
        .reports("demo is saved");
    site.is_saved("demo", 1);
    let things = site.drive("demo")["things"].to_string();
    assert!(things.contains("crashed"), "{things}");
}
