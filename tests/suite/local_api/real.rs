//! Calls on real machines and disks: the records agree with the system.

mod firewall;
mod wide;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use xdrive::clock::Clock;
use xdrive::local::wire::Xml;
use xdrive::local::{Local, OpenOptions, Settings};

use super::{call, find, launch_params, text, texts};
use crate::local_instances::until;
use crate::session::site::Site;
use harness::cloud::plane;

/// The API of an EC2 in a folder with real parts.
pub(super) struct Real {
    local: Local,
    pub(super) site: Site,
}

fn open(dir: &Path, settings: Settings) -> Local {
    let mut options = OpenOptions::new(dir, plane(dir), Clock::system());
    options.settings = settings;
    Local::open(options).unwrap()
}

impl Real {
    pub(super) fn new() -> Self {
        Self::on(Site::machines())
    }

    pub(super) fn with(settings: Settings) -> Self {
        let site = Site::machines();
        let local = open(&site.dir(), settings);
        Self { local, site }
    }

    pub(super) fn on(site: Site) -> Self {
        let local = site.local();
        Self { local, site }
    }

    #[track_caller]
    pub(super) fn call(&self, action: &str, params: &[(&str, &str)]) -> Xml {
        call(&self.local, action, params).unwrap_or_else(|error| panic!("{action}: {error}"))
    }

    #[track_caller]
    pub(super) fn launch(&self) -> String {
        let id = text(
            &self.call("RunInstances", &launch_params("us-east-1a")),
            "instanceId",
        );
        until("it runs", || self.state(&id) == "running");
        id
    }

    #[track_caller]
    pub(super) fn volume(&self) -> String {
        let params = [("AvailabilityZone", "us-east-1a"), ("Size", "1")];
        let id = text(&self.call("CreateVolume", &params), "volumeId");
        until("it is available", || self.volume_state(&id) == "available");
        id
    }

    pub(super) fn attach(&self, volume: &str, instance: &str) {
        let params = [
            ("VolumeId", volume),
            ("InstanceId", instance),
            ("Device", "/dev/sdf"),
        ];
        self.call("AttachVolume", &params);
    }

    pub(super) fn state(&self, instance: &str) -> String {
        let seen = self.call("DescribeInstances", &[("InstanceId.1", instance)]);
        text(find(&seen, "instanceState").unwrap(), "name")
    }

    pub(super) fn volume_state(&self, volume: &str) -> String {
        text(
            &self.call("DescribeVolumes", &[("VolumeId.1", volume)]),
            "status",
        )
    }

    /// Loop devices of this folder's volumes.
    fn loops(&self) -> usize {
        let list = Command::new("losetup")
            .args(["-l", "-n", "-O", "BACK-FILE"])
            .output()
            .unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        let volumes = list
            .lines()
            .map(|line| Path::new(line.trim()))
            .filter(|path| {
                path.starts_with(self.site.dir())
                    && path
                        .file_name()
                        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"vol-"))
            });
        volumes.count()
    }

    pub(super) fn kill_supervisor(&self, instance: &str) {
        let state = std::fs::read(self.site.dir().join("state.json")).unwrap();
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
        let pid = &state["instances"][instance]["machine"]["supervisor"];
        let pid = pid.as_i64().unwrap().try_into().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and a machine tree"]
fn records_and_machines_live_and_end_together() {
    let real = Real::new();
    let (instance, volume) = (real.launch(), real.volume());
    real.attach(&volume, &instance);
    assert_eq!(real.loops(), 1);
    let snapshot = text(
        &real.call("CreateSnapshot", &[("VolumeId", &volume)]),
        "snapshotId",
    );
    until("the snapshot is completed", || {
        text(
            &real.call("DescribeSnapshots", &[("SnapshotId.1", &snapshot)]),
            "status",
        ) == "completed"
    });
    let params = [
        ("AvailabilityZone", "us-east-1b"),
        ("SnapshotId", snapshot.as_str()),
    ];
    let restored = text(&real.call("CreateVolume", &params), "volumeId");
    real.call("DetachVolume", &[("VolumeId", &volume)]);
    assert_eq!(real.loops(), 0);
    until("the volume is free", || {
        real.volume_state(&volume) == "available"
    });
    real.attach(&volume, &instance);
    real.call("TerminateInstances", &[("InstanceId.1", &instance)]);
    assert_eq!(real.state(&instance), "shutting-down");
    assert_eq!(real.volume_state(&volume), "in-use");
    until("it is terminated", || real.state(&instance) == "terminated");
    assert_eq!(real.volume_state(&volume), "available");
    assert_eq!(real.loops(), 0);
    for id in [&volume, &restored] {
        until("it can be deleted", || real.volume_state(id) == "available");
        real.call("DeleteVolume", &[("VolumeId", id)]);
    }
    real.call("DeleteSnapshot", &[("SnapshotId", &snapshot)]);
}

/// Not a test: the process that `a_killed_call_is_completed_or_undone` runs and kills.
#[test]
#[ignore = "the other process of a_killed_call_is_completed_or_undone"]
fn caller() {
    let Ok(order) = std::env::var("XDRIVE_TEST_CALL") else {
        return;
    };
    let mut words = order.split(' ');
    let settings = Settings {
        enforce_groups: Some(true),
        ..Settings::default()
    };
    let local = open(Path::new(words.next().unwrap()), settings);
    let action = words.next().unwrap();
    let params: Vec<_> = words.map(|word| word.split_once('=').unwrap()).collect();
    call(&local, action, &params).unwrap();
}

impl Real {
    /// Has another process make a call, and kills it so long after it recorded its intent; whether
    /// it was killed in the middle.
    fn killed(&self, after: Duration, action: &str, params: &[(&str, &str)]) -> bool {
        let mut order = format!("{} {action}", self.site.dir().display());
        for (name, value) in params {
            write!(order, " {name}={value}").unwrap();
        }
        let mut caller = Command::new(std::env::current_exe().unwrap())
            .args([test_name!(caller), "--exact", "--ignored"])
            .env("XDRIVE_TEST_CALL", order)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let unfinished = || {
            let state = std::fs::read_to_string(self.site.dir().join("state.json")).unwrap();
            !state.contains("\"unfinished\":null")
        };
        while !unfinished() && caller.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(after);
        caller.kill().unwrap();
        caller.wait().unwrap();
        let half_done = unfinished();
        // Any next call, a reading one too, cleans up.
        self.call("DescribeRegions", &[]);
        assert!(!unfinished());
        self.agrees();
        half_done
    }

    /// The ids that a Describe call lists, sorted, without repeats.
    fn ids(&self, action: &str, name: &str) -> Vec<String> {
        let mut ids = texts(&self.call(action, &[]), name);
        ids.sort();
        ids.dedup();
        ids
    }

    /// Checks that the machines and plugged volumes are those of the records.
    #[track_caller]
    fn agrees(&self) {
        let instances = self.site.dir().join("instances");
        let mut machines: Vec<String> = std::fs::read_dir(&instances).map_or(Vec::new(), |all| {
            let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            // Of a cleared instance only the console stays.
            names
                .filter(|name| instances.join(name).join("upper").exists())
                .collect()
        });
        machines.sort();
        assert_eq!(machines, self.ids("DescribeInstances", "instanceId"));
        // A detaching volume is unplugged at once, and listed until it is detached.
        until("the loop devices agree with the records", || {
            let volumes = self.call("DescribeVolumes", &[]);
            let devices = texts(&volumes, "device");
            let plugged = devices.iter().filter(|device| *device == "/dev/sdf");
            self.loops() == plugged.count()
        });
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and a machine tree"]
fn a_killed_call_is_completed_or_undone() {
    let real = Real::new();
    let (instance, volume) = (real.launch(), real.volume());
    let attach = [
        ("VolumeId", volume.as_str()),
        ("InstanceId", instance.as_str()),
        ("Device", "/dev/sdf"),
    ];
    let launch = launch_params("us-east-1a");
    let create = [("AvailabilityZone", "us-east-1a"), ("Size", "1")];
    let this = &attach[..1];
    let mut half_done = 0;
    for after in [0, 2, 8, 30, 120].map(Duration::from_millis) {
        half_done += u32::from(real.killed(after, "RunInstances", &launch));
        half_done += u32::from(real.killed(after, "CreateVolume", &create));
        half_done += u32::from(real.killed(after, "CreateSnapshot", this));
        half_done += u32::from(real.killed(after, "AttachVolume", &attach));
        if real.volume_state(&volume) == "available" {
            real.attach(&volume, &instance);
        }
        half_done += u32::from(real.killed(after, "DetachVolume", this));
        if real.loops() == 1 {
            real.call("DetachVolume", this);
        }
        until("it is free", || real.volume_state(&volume) == "available");
    }
    assert!(
        half_done >= 5,
        "only {half_done} of 25 calls were killed in the middle"
    );
    // Everything with a record is whole.
    for snapshot in real.ids("DescribeSnapshots", "snapshotId") {
        let params = [
            ("AvailabilityZone", "us-east-1b"),
            ("SnapshotId", snapshot.as_str()),
        ];
        until("it can be restored", || {
            call(&real.local, "CreateVolume", &params).is_ok()
        });
    }
    for id in real.ids("DescribeInstances", "instanceId") {
        real.call("TerminateInstances", &[("InstanceId.1", &id)]);
        until("it is terminated", || real.state(&id) == "terminated");
    }
    assert_eq!(real.loops(), 0);
}
