//! The verification of a snapshot, before its volume is deleted.

use super::fixtures::*;
use crate::drive::hosts::Client;
use crate::drive::observed::{Observed, SeenVolume, Verdict};
use crate::drive::plan::{Next, Step};
use crate::drive::stuck::Why;
use crate::drive::tags::SnapshotKind;
use crate::ec2::VolumeState;
use crate::host::{Closed, Mounted};
use crate::ids::{Generation, SessionId, Uuid};

const UUID: Uuid = Uuid::from_bytes([7; 16]);

/// A saved volume whose instance is gone, with a snapshot that is not verified yet.
fn saved_volume() -> Observed {
    let mut seen = Observed {
        volumes: vec![SeenVolume {
            uuid: Some(UUID),
            ..volume(1, 4, 5)
        }],
        snapshots: vec![snapshot(1, 1, 5)],
        ..nothing()
    };
    seen.me.verdicts.clear();
    seen
}

fn with(verdict: Verdict) -> Observed {
    let mut seen = saved_volume();
    seen.me.verdicts.insert(snap(1), verdict);
    seen
}

#[test]
fn a_volume_is_deleted_after_a_look_into_its_snapshot() {
    let look = Step::Verify {
        snapshot: snap(1),
        uuid: Some(UUID),
        kind: SnapshotKind::Clean,
    };
    assert_eq!(saved(&saved_volume()), Next::Do(vec![look]));
    assert_eq!(words(&saved(&with(Verdict::Sound))), "delete vol-1");
    let unverifiable = with(Verdict::Unverifiable("not allowed".into()));
    assert_eq!(words(&saved(&unverifiable)), "delete vol-1");
}

#[test]
fn an_answer_that_does_not_come_is_asked_for_again_after_a_while() {
    let open = |last| {
        with(Verdict::Open {
            first: at(NOW - 60),
            last: at(last),
        })
    };
    assert_eq!(
        words(&saved(&open(NOW - 1))),
        "wait: Verdict(SnapshotId(\"snap-1\"))"
    );
    assert_eq!(words(&saved(&open(NOW - 5))), "verify snap-1");
}

#[test]
fn a_snapshot_that_is_not_the_drive_keeps_its_volume_and_says_how_to_go_on() {
    let mut seen = with(Verdict::Unsound("it holds no ext4".into()));
    let Next::Stuck(stuck) = saved(&seen) else {
        panic!("{}", words(&saved(&seen)))
    };
    let reason = stuck.why.to_string();
    for part in [
        "snap-1",
        "it holds no ext4",
        "volume (vol-1), which is kept",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    let demo = "demo".parse().unwrap();
    assert_eq!(stuck.commands(&demo), ["xdrive connect demo --from vol-1"]);
    // That is what a connect goes on from.
    assert_eq!(words(&ready(&seen)), "launch an instance in a");
    // A volume that failed cannot be chosen: the snapshots before it, then its own.
    seen.volumes[0].state = VolumeState::Error;
    seen.snapshots.insert(0, snapshot(2, 9, 4));
    let Why::Unsound { ways, .. } = why(saved(&seen)) else {
        panic!("{}", words(&saved(&seen)))
    };
    let ways: Vec<String> = ways.iter().map(ToString::to_string).collect();
    assert_eq!(ways, ["snap-2", "snap-1"]);
}

#[test]
fn one_sound_snapshot_of_two_is_enough() {
    let mut seen = with(Verdict::Unsound("it holds no ext4".into()));
    seen.snapshots.push(snapshot(2, 1, 5));
    assert_eq!(words(&saved(&seen)), "verify snap-2");
    seen.me.verdicts.insert(snap(2), Verdict::Sound);
    assert_eq!(words(&saved(&seen)), "delete vol-1");
}

#[test]
fn the_bill_is_stopped_before_anything_is_looked_into() {
    let mut seen = saved_volume();
    seen.instances = vec![host(1)];
    seen.instances[0].contact = answers(Client::Me, true, Mounted::Nothing);
    seen.volumes = vec![on(1, seen.volumes[0].clone())];
    seen.me.closes.insert(id(1), Closed::Unmounted);
    assert_eq!(words(&saved(&seen)), "terminate i-1; verify snap-1");
}

#[test]
fn a_volume_that_is_behind_goes_after_the_same_look() {
    let mut seen = with(Verdict::Sound);
    seen.me.verdicts.clear();
    seen.instances = vec![host(1)];
    seen.volumes[0].session = SessionId("other".into());
    let next = SeenVolume {
        uuid: Some(UUID),
        ..volume(2, 5, 6)
    };
    seen.volumes.push(on(1, next));
    seen.instances[0].contact = answers(Client::Me, false, Mounted::Nothing);
    assert_eq!(words(&ready(&seen)), "mount vol-2; verify snap-1");
    seen.me.verdicts.insert(snap(1), Verdict::Sound);
    assert_eq!(words(&ready(&seen)), "mount vol-2; delete vol-1");
}

#[test]
fn the_mounted_uuid_must_be_the_recorded_one_and_is_recorded_once() {
    let mut seen = Observed {
        instances: vec![host(1)],
        volumes: vec![on(1, saved_volume().volumes[0].clone())],
        ..nothing()
    };
    let Next::Do(steps) = ready(&seen) else {
        panic!("{}", words(&ready(&seen)))
    };
    assert!(
        matches!(&steps[0], Step::Mount { order, .. } if order.uuid == Some(UUID)),
        "{steps:?}"
    );
    seen.instances[0].contact = answers(Client::Me, false, Mounted::Volume(vol(1)));
    seen.volumes[0].uuid = None;
    assert!(words(&ready(&seen)).starts_with("done: Ready"));
    seen.me.reported = Some((vol(1), UUID));
    let mark = Step::MarkUuid {
        volume: vol(1),
        uuid: UUID,
    };
    assert_eq!(ready(&seen), Next::Do(vec![mark]));
    seen.volumes[0].uuid = Some(UUID);
    assert!(words(&ready(&seen)).starts_with("done: Ready"));
}

#[test]
fn a_save_is_clean_only_where_the_drive_is_known_to_have_been_unmounted() {
    let kind = |seen: &Observed| match saved(seen) {
        Next::Do(steps) => match steps[..] {
            [Step::Snapshot { kind, .. }] => kind,
            _ => panic!("{steps:?}"),
        },
        next => panic!("{}", words(&next)),
    };
    // Raised to be attached, and never was: as it was left before.
    let mut seen = Observed {
        volumes: vec![volume(1, 4, 6)],
        ..nothing()
    };
    seen.me.raised = Some((vol(1), Generation(6)));
    assert_eq!(kind(&seen), SnapshotKind::Crashed);
    seen.snapshots = vec![snapshot(1, 1, 5)];
    assert_eq!(kind(&seen), SnapshotKind::Clean);
    seen.snapshots[0].kind = SnapshotKind::Crashed;
    assert_eq!(kind(&seen), SnapshotKind::Crashed);
    // Mounted there, and closed.
    seen.me.raised = None;
    seen.me.closed = Some((vol(1), Generation(6)));
    assert_eq!(kind(&seen), SnapshotKind::Crashed);
    seen.me.unmounted = Some((vol(1), Generation(6)));
    assert_eq!(kind(&seen), SnapshotKind::Clean);
}
