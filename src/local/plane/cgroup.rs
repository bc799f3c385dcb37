//! The cgroups of one instance, which hold all its processes, so that all can be found and ended.
//!
//! Hosts come in two kinds (cgroups(7)): v1 hierarchies side by side, with or without an empty v2
//! one next to them ("hybrid"), or a single v2 hierarchy. An instance gets one cgroup of its own
//! at the top of each hierarchy, and sees only what is below it.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, Signal, kill_process};

use super::PlaneError;

/// A mounted cgroup hierarchy of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    /// Where it is mounted.
    mount: PathBuf,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// v1, with the options that mount it again: `cpu,cpuacct`, `none,name=systemd`.
    Controllers(String),
    /// v2 beside v1 hierarchies: it has no controllers.
    Hybrid,
    /// v2 alone.
    Unified,
}

/// The cgroups of one instance.
#[derive(Debug)]
pub(super) struct Cgroups {
    hierarchies: Vec<Hierarchy>,
    name: String,
}

impl Cgroups {
    /// The cgroups called `name`, which need not exist.
    pub(super) fn new(name: &str) -> Result<Self, PlaneError> {
        let mounts =
            fs::read_to_string("/proc/self/mounts").context("reading /proc/self/mounts")?;
        let hierarchies = parse_mounts(&mounts);
        if hierarchies.is_empty() {
            return Err(PlaneError::Missing(
                "no cgroup hierarchy is mounted below /sys/fs/cgroup".to_owned(),
            ));
        }
        Ok(Self {
            hierarchies,
            name: name.to_owned(),
        })
    }

    /// Makes them.
    pub(super) fn create(&self) -> Result<(), PlaneError> {
        for hierarchy in &self.hierarchies {
            if hierarchy.kind == Kind::Unified {
                enable_controllers(&hierarchy.mount);
            }
            let path = hierarchy.mount.join(&self.name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(anyhow::Error::new(error)
                        .context(format!("making the cgroup {}", path.display()))
                        .into());
                }
                _ => {}
            }
            // A v1 cpuset starts out without processors and memory, and takes no process then.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if let Ok(all) = fs::read(hierarchy.mount.join(file))
                    && matches!(hierarchy.kind, Kind::Controllers(_))
                {
                    fs::write(path.join(file), all)
                        .with_context(|| format!("setting {file} of {}", path.display()))?;
                }
            }
        }
        Ok(())
    }

    /// The list that the boot script takes: `FOLDER=OPTIONS`, separated by spaces.
    pub(super) fn list(&self) -> String {
        let entries = self.hierarchies.iter().map(|hierarchy| {
            let options = match &hierarchy.kind {
                Kind::Controllers(options) => options,
                Kind::Hybrid => "v2-unified",
                Kind::Unified => "v2",
            };
            format!("{}={options}", hierarchy.mount.join(&self.name).display())
        });
        entries.collect::<Vec<_>>().join(" ")
    }

    /// The processes in them, as the host counts.
    pub(super) fn processes(&self) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        for folder in self.folders() {
            // A cgroup that was removed meanwhile has no processes.
            let list = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            // A process of a namespace that is not below ours reads as 0.
            found.extend(
                list.lines()
                    .filter_map(|line| line.parse().ok())
                    .filter(|pid: &i32| *pid > 0),
            );
        }
        found
    }

    /// Ends every process in them, and waits until all are gone.
    pub(super) fn kill(&self) -> Result<(), PlaneError> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let processes = self.processes();
            if processes.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(anyhow!("processes of {} do not end: {processes:?}", self.name).into());
            }
            for pid in processes.into_iter().filter_map(Pid::from_raw) {
                // It fails only for a process that has ended meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Removes them, when they are empty of processes.
    pub(super) fn remove(&self) -> Result<(), PlaneError> {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            // Deepest first. The kernel may answer "busy" for a moment after the last process
            // ended.
            let mut stuck = None;
            for folder in self.folders().into_iter().rev() {
                match fs::remove_dir(&folder) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        stuck = Some((folder, error));
                    }
                    _ => {}
                }
            }
            let Some((folder, error)) = stuck else {
                return Ok(());
            };
            if Instant::now() > deadline {
                return Err(anyhow::Error::new(error)
                    .context(format!("removing the cgroup {}", folder.display()))
                    .into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Every cgroup of the instance, those it made inside included, outer ones first.
    fn folders(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = self
            .hierarchies
            .iter()
            .map(|hierarchy| hierarchy.mount.join(&self.name))
            .filter(|path| path.is_dir())
            .collect();
        let mut next = 0;
        while let Some(folder) = found.get(next) {
            // One that is removed meanwhile has nothing below it.
            let below: Vec<PathBuf> = fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path())
                .collect();
            found.extend(below);
            next += 1;
        }
        found
    }
}

/// Hands the host's controllers down, one by one: the kernel refuses some on some hosts (`cpu`
/// with real-time tasks), and an instance does without those.
fn enable_controllers(mount: &Path) {
    let all = fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
    for controller in all.split_ascii_whitespace() {
        if let Err(error) = fs::write(
            mount.join("cgroup.subtree_control"),
            format!("+{controller}"),
        ) {
            tracing::debug!(controller, %error, "instances do without this controller");
        }
    }
}

/// The hierarchies in the form of `/proc/mounts` (proc(5)).
fn parse_mounts(mounts: &str) -> Vec<Hierarchy> {
    let root = Path::new("/sys/fs/cgroup");
    let mut found = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(mount), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let mount = PathBuf::from(mount);
        let kind = match kind {
            "cgroup2" if mount == root => Kind::Unified,
            "cgroup2" => Kind::Hybrid,
            "cgroup" => Kind::Controllers(v1_options(options)),
            _ => continue,
        };
        if mount.starts_with(root) {
            found.push(Hierarchy { mount, kind });
        }
    }
    found
}

/// The options of a v1 mount that name the hierarchy; the rest are flags of the mount.
fn v1_options(options: &str) -> String {
    let flags = ["rw", "ro", "nosuid", "nodev", "noexec", "relatime", "xattr"];
    let kept: Vec<&str> = options
        .split(',')
        .filter(|option| !flags.contains(option) && !option.starts_with("release_agent="))
        .collect();
    if kept.iter().all(|option| option.starts_with("name=")) {
        format!("none,{}", kept.join(","))
    } else {
        kept.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_host_has_v1_hierarchies_and_an_empty_v2_one() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs ro,mode=755 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0\n\
            cgroup /sys/fs/cgroup/systemd cgroup rw,nosuid,xattr,name=systemd 0 0\n\
            cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n";
        let found = parse_mounts(mounts);
        assert_eq!(found[0].kind, Kind::Hybrid);
        assert_eq!(
            found[1].kind,
            Kind::Controllers("none,name=systemd".to_owned())
        );
        assert_eq!(found[2].kind, Kind::Controllers("cpu,cpuacct".to_owned()));
        let cgroups = Cgroups {
            hierarchies: found,
            name: "xd-1".to_owned(),
        };
        assert_eq!(
            cgroups.list(),
            "/sys/fs/cgroup/unified/xd-1=v2-unified \
             /sys/fs/cgroup/systemd/xd-1=none,name=systemd \
             /sys/fs/cgroup/cpu,cpuacct/xd-1=cpu,cpuacct"
        );
    }

    #[test]
    fn a_unified_host_has_one_hierarchy() {
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,nsdelegate 0 0\n\
            cgroup /tmp/elsewhere cgroup rw,cpu 0 0\n";
        let found = parse_mounts(mounts);
        let cgroups = Cgroups {
            hierarchies: found,
            name: "xd-1".to_owned(),
        };
        assert_eq!(cgroups.list(), "/sys/fs/cgroup/xd-1=v2");
    }
}
