//! Machines and disks that a test makes by itself, without sessions.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use xdrive::clock::Clock;
use xdrive::local::plane::{Machine, PlaneError, Up};

use crate::session::site::Site;
use harness::{DEADLINE, eventually_within, id};

/// The options of an SSH that asks nothing, keeps nothing and has no other key.
const OPTIONS: &str = "-F none -o BatchMode=yes -o LogLevel=ERROR \
                       -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
                       -o IdentitiesOnly=yes -o IdentityAgent=none";

/// A file system on a folder, unmounted when this is dropped.
pub(crate) struct Mount {
    folder: PathBuf,
}

/// An instance that answered.
pub(crate) struct Host {
    pub(crate) id: String,
    pub(crate) up: Up,
    key: PathBuf,
}

impl Mount {
    /// Mounts `what` of this type and with these options on `folder`.
    fn new(folder: &Path, what: &str, options: &str) -> Self {
        succeed(
            Command::new("mount")
                .args(["-t", what, "-o", options, what])
                .arg(folder),
        );
        let folder = folder.to_owned();
        Self { folder }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A mount inside may keep it busy for a moment.
        until("the end of its file system", || {
            let mut umount = Command::new("umount");
            let umount = umount.arg("--recursive").arg(&self.folder);
            umount.stderr(Stdio::null()).status().unwrap().success()
        });
    }
}

impl Site {
    /// Makes a site for machines and disks that a test makes by itself.
    pub(crate) fn machines() -> Self {
        Self::of_machines(tempfile::tempdir().unwrap(), Vec::new())
    }

    /// Makes a site for machines on a new file system of so many MiB.
    pub(super) fn small(mebibytes: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mount = Mount::new(folder.path(), "tmpfs", &format!("size={mebibytes}m"));
        Self::of_machines(folder, vec![mount])
    }

    /// Makes a site for machines on an overlay, which cannot hold the upper layer of another.
    pub(super) fn on_overlay() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let below = Mount::new(folder.path(), "tmpfs", "size=10%");
        let path = folder.path().display().to_string();
        for name in ["lower", "upper", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let layers = format!("lowerdir={path}/lower,upperdir={path}/upper,workdir={path}/work");
        let above = Mount::new(folder.path(), "overlay", &layers);
        Self::of_machines(folder, vec![above, below])
    }

    /// A machine that authorizes this test's key for root, by a boot hook as xdrive's machines do.
    pub(super) fn machine(&self, script: &str) -> Machine {
        let key = self.key();
        let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
        let user_data = format!(
            "#cloud-boothook\n#!/bin/sh\nset -e\nmkdir -p -m 700 /root/.ssh\n\
             echo '{}' >/root/.ssh/authorized_keys\n{script}\n",
            public.trim()
        );
        let images = self.plane.images().unwrap();
        let image = images.first().expect("shell/local/machine.sh was run");
        Machine {
            instance: id("i"),
            image: image.id.clone(),
            instance_type: "m7i.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            user_data: user_data.into_bytes(),
            tokens_required: true,
            hop_limit: 1,
            role: None,
            public: true,
            account: "000000000000".to_owned(),
            vpc_cidrs: vec!["172.31.0.0/16".to_owned()],
            gpu: None,
            boots: Clock::system().boot(),
        }
    }

    /// Plugs the volume in, at once.
    pub(super) fn attach(
        &self,
        volume: &str,
        instance: &str,
        device: &str,
    ) -> Result<(), PlaneError> {
        let due = Clock::system().boot();
        self.plane.attach(volume, instance, device, due)
    }

    /// Launches it and waits until it accepts this test's login.
    pub(super) fn launch(&self) -> Host {
        let machine = self.machine("");
        let up = self.plane.launch(&machine).unwrap();
        self.reach(machine.instance, up)
    }

    /// Waits until the instance accepts this test's login.
    pub(super) fn reach(&self, id: String, up: Up) -> Host {
        let host = Host {
            id,
            up,
            key: self.key(),
        };
        until("a login", || {
            // What asks before the network is there would wait for long.
            let asked = host.ssh_within(2, "root", &host.key, "true");
            asked.status.success()
        });
        host
    }

    /// The test's key pair.
    pub(super) fn key(&self) -> PathBuf {
        let key = self.path("key");
        if !key.exists() {
            succeed(
                Command::new("ssh-keygen")
                    .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                    .arg(&key),
            );
        }
        key
    }
}

impl Host {
    pub(super) fn address(&self) -> Ipv4Addr {
        self.up.address
    }

    /// Runs `command` as root, which must succeed; its output.
    pub(super) fn run(&self, command: &str) -> String {
        let output = self.ssh("root", &self.key, command);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{command}: {}\n{errors}",
            output.status
        );
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    pub(super) fn ssh(&self, user: &str, key: &Path, command: &str) -> Output {
        self.ssh_within(DEADLINE.as_secs(), user, key, command)
    }

    /// As [`Host::ssh`], and gives a login up after so many seconds.
    fn ssh_within(&self, seconds: u64, user: &str, key: &Path, command: &str) -> Output {
        Command::new("ssh")
            .args(OPTIONS.split(' '))
            .arg(format!("-oConnectTimeout={seconds}"))
            .arg("-i")
            .arg(key)
            .arg(format!("{user}@{}", self.address()))
            .arg(command)
            .output()
            .unwrap()
    }
}

/// Waits until `done`, [`DEADLINE`] at most.
pub(crate) fn until(what: &str, done: impl FnMut() -> bool) {
    eventually_within(DEADLINE, || what.to_owned(), done);
}

pub(crate) fn succeed(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}
