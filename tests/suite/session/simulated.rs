//! A site with a paper EC2: xdrive as its user runs it, up to the wait for a host.

use std::process::Command;

use xdrive::cloud::folder;
use xdrive::ec2::{Ec2, VolumeOrder, Zone};
use xdrive::ids::{SnapshotId, VolumeId};
use xdrive::local::Fault;

use super::site::{Ended, Running, Site};
use harness::cloud::{self, made_snapshot, until_available, volume_order};
use harness::evidence::may_delete;

/// An EC2 on paper with EC2's delays.
pub(super) const SLOW: &str =
    "plane = \"paper\"\ndelays = \"aws\"\nstale-lists-ms = 0\nstale-reads-ms = 0\n";

/// A site whose EC2 is on paper: nothing there needs a machine.
pub(super) fn paper() -> Site {
    Site::with_settings("plane = \"paper\"\n")
}

/// `xdrive --local connect demo` with these flags, an image, and a log of every call.
pub(super) fn connect(site: &Site, flags: &[&str]) -> Ended {
    let image = site.image();
    let all = [
        &["connect", "demo", "--image", &image],
        flags,
        &["--", "true"],
    ]
    .concat();
    traced(site, &all)
}

pub(super) fn dry_run(site: &Site, flags: &[&str]) -> Ended {
    connect(site, &[flags, &["--dry-run"]].concat())
}

pub(super) fn traced(site: &Site, arguments: &[&str]) -> Ended {
    let mut command = with_log(site, arguments);
    Ended::from_output(command.env("NO_COLOR", "1").output().unwrap())
}

/// Starts a command whose standard error shows each call.
pub(super) fn start_traced(site: &Site, arguments: &[&str]) -> Running {
    site.start_command(with_log(site, arguments))
}

fn with_log(site: &Site, arguments: &[&str]) -> Command {
    let mut command = site.command(arguments);
    command.env("XDRIVE_LOG", "xdrive::ec2=debug");
    command
}

/// The calls that were sent, in order.
pub(super) fn calls(ended: &Ended) -> Vec<String> {
    let sent = ended.stderr.lines().filter(|line| line.contains("sending"));
    let name = |line: &str| {
        line.split("call=\"")
            .nth(1)?
            .split('"')
            .next()
            .map(str::to_owned)
    };
    sent.filter_map(name).collect()
}

pub(super) fn count(ended: &Ended, call: &str) -> usize {
    calls(ended).iter().filter(|name| *name == call).count()
}

/// Makes a drive of generation 1: a volume in `zone` with these further tags.
pub(super) fn with_volume(site: &Site, zone: &str, tags: &[(&str, &str)]) -> VolumeId {
    let own = [
        ("Name", "demo"),
        ("xdrive:drive", "demo"),
        ("xdrive:session", "an earlier one"),
        ("xdrive:owner", "arn:aws:iam::000000000000:user/local"),
        ("xdrive:base", "0"),
        ("xdrive:generation", "1"),
        ("xdrive:blank", "yes"),
        ("xdrive:formatted", "1"),
    ];
    let order = VolumeOrder {
        zone: Zone(zone.to_owned()),
        ..volume_order(
            &format!("{zone} {tags:?}"),
            cloud::tags(&[&own, tags].concat()),
        )
    };
    in_the_cloud(site, async |ec2| {
        ec2.create_volume(&order).await.unwrap().id
    })
}

/// Makes the drive as a completed snapshot alone.
pub(super) fn with_snapshot(site: &Site, tags: &[(&str, &str)]) -> SnapshotId {
    let volume = with_volume(site, "us-east-1a", tags);
    let own = [("xdrive:kind", "clean"), ("xdrive:op", "op")];
    in_the_cloud(site, async |ec2| {
        let mut tags = cloud::tags(&own);
        tags.extend(until_available(&ec2, &volume).await.unwrap().tags);
        let snapshot = made_snapshot(&ec2, &volume, &tags).await.unwrap();
        ec2.delete_volume(may_delete(&volume)).await.unwrap();
        snapshot
    })
}

pub(super) fn in_the_cloud<T>(site: &Site, what: impl AsyncFnOnce(Ec2) -> T) -> T {
    let ec2 = folder::ec2(&site.local());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(what(ec2))
}

/// Makes so many saves of `drive`, of generation 1 and the following.
pub(super) fn with_saves(site: &Site, drive: &str, count: usize) {
    for generation in 1..=count {
        let tags = [
            ("Name", drive),
            ("xdrive:drive", drive),
            ("xdrive:generation", &generation.to_string()),
        ];
        with_snapshot(site, &tags);
    }
}

pub(super) fn plant(site: &Site, fault: Fault) {
    site.local().plant(fault).unwrap();
}

pub(super) fn vcpu_limit() -> Fault {
    Fault::new(
        "RunInstances",
        400,
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current vCPU limit of 0 allows.",
    )
}
