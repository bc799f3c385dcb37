//! A state directory, with instances for logins.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use xdrive::clock::Clock;
use xdrive::local::plane::{Machine, Plane, PlaneError, Up};

use harness::cloud::plane;
use harness::{DEADLINE, eventually_within, id, leaks};

/// A state directory; the test fails if anything of it is left.
pub(super) struct Site {
    pub(super) plane: Box<dyn Plane>,
    folder: tempfile::TempDir,
    dir: PathBuf,
    /// Whether it is mounted for this test alone.
    mounted: bool,
}

/// An instance that answered.
pub(super) struct Host {
    pub(super) id: String,
    pub(super) up: Up,
    key: PathBuf,
}

impl Site {
    pub(super) fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), false)
    }

    /// Makes a site on a new file system of so many MiB.
    pub(super) fn small(mebibytes: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={mebibytes}m");
        let mount = folder.path().to_str().unwrap();
        succeed(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs", mount]));
        Self::in_folder(folder, true)
    }

    /// Makes a site on an overlay, which cannot hold the upper layer of another.
    pub(super) fn on_overlay() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().to_str().unwrap();
        let layers = "lowerdir=/etc:/usr/share/misc";
        succeed(Command::new("mount").args(["-t", "tmpfs", "tmpfs", mount]));
        for name in ["upper", "work", "state"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let options = format!("{layers},upperdir={mount}/upper,workdir={mount}/work");
        let state = format!("{mount}/state");
        succeed(Command::new("mount").args(["-t", "overlay", "-o", &options, "overlay", &state]));
        Self::in_folder(folder, true)
    }

    fn in_folder(folder: tempfile::TempDir, mounted: bool) -> Self {
        let dir = folder.path().join("state");
        std::fs::create_dir_all(&dir).unwrap();
        let plane = Box::new(plane(&dir));
        Self {
            plane,
            folder,
            dir,
            mounted,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
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
            host.ssh("root", &host.key, "true").status.success()
        });
        host
    }

    /// Checks that nothing of it is left in the running system once its last user has unmounted. A
    /// program that another test starts holds copies of this process's locks until its exec: a user
    /// that ended meanwhile took it for another user and left the unmounting to it, so one more
    /// user follows.
    pub(super) fn has_no_leaks(&self) {
        eventually_within(
            DEADLINE,
            || format!("no leaks, but {:#?}", leaks(&self.dir)),
            || {
                let none = leaks(&self.dir).is_empty();
                if !none {
                    self.plane.delete_volume(&id("vol")).unwrap();
                }
                none
            },
        );
    }

    /// The test's key pair.
    pub(super) fn key(&self) -> PathBuf {
        let key = self.folder.path().join("key");
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

impl Drop for Site {
    fn drop(&mut self) {
        let swept = self.plane.sweep(&[], &[], &[]);
        let mut left = leaks(&self.dir);
        if self.mounted {
            left.retain(|line| !line.starts_with("mount overlay"));
            // A mount inside may keep it busy for a moment.
            let unmounted = || {
                let mut umount = Command::new("umount");
                let umount = umount.arg("--recursive").arg(self.folder.path());
                umount.stderr(Stdio::null()).status().unwrap().success()
            };
            until("end of its file system", unmounted);
        }
        if !std::thread::panicking() {
            swept.unwrap();
            assert_eq!(left, [""; 0], "left behind");
        }
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
        Command::new("ssh")
            .args([
                "-F",
                "none",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=2",
            ])
            .args([
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "UserKnownHostsFile=/dev/null",
            ])
            .args([
                "-o",
                "LogLevel=ERROR",
                "-o",
                "IdentitiesOnly=yes",
                "-o",
                "IdentityAgent=none",
            ])
            .arg("-i")
            .arg(key)
            .arg(format!("{user}@{}", self.address()))
            .arg(command)
            .output()
            .unwrap()
    }
}

/// Waits until `done`, [`DEADLINE`] at most.
pub(super) fn until(what: &str, done: impl FnMut() -> bool) {
    eventually_within(DEADLINE, || what.to_owned(), done);
}

pub(super) fn succeed(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}
