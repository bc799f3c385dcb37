//! The table of unusual states, row by row.

use super::fixtures::*;
use crate::drive::Billed;
use crate::drive::hosts::{Client, Contact};
use crate::drive::observed::{
    Observed, Refusal, SeenChecks, SeenInstance, SeenSnapshot, SeenVolume,
};
use crate::drive::plan::Next;
use crate::drive::stuck::{Head, Why};
use crate::ec2::{
    AttachmentState, Check, InstanceState, SnapshotState, StatusChecks, StoragePrices, VolumeState,
};
use crate::host::{Closed, Mounted};

fn failed(number: u8, of: u8, generation: u64) -> SeenSnapshot {
    SeenSnapshot {
        state: SnapshotState::Error,
        ..snapshot(number, of, generation)
    }
}

#[test]
fn a_failed_snapshot_is_taken_again_after_a_while_three_times() {
    let mut seen = Observed {
        volumes: vec![volume(1, 4, 5)],
        snapshots: vec![failed(1, 1, 5)],
        ..nothing()
    };
    assert_eq!(words(&saved(&seen)), "delete failed snap-1; snapshot vol-1");
    seen.snapshots[0].since = at(NOW - 5);
    assert!(words(&saved(&seen)).starts_with("wait: SnapshotGap"));
    seen.snapshots = vec![failed(1, 1, 5), failed(2, 1, 5), failed(3, 1, 5)];
    assert_eq!(why(saved(&seen)), Why::SnapshotsFail(vol(1)));
}

#[test]
fn a_failed_newest_snapshot_without_its_volume_is_never_passed_over() {
    let seen = Observed {
        snapshots: vec![snapshot(1, 1, 4), failed(2, 2, 5)],
        ..nothing()
    };
    let expected = Why::NewestFailed {
        failed: snap(2),
        older: Some(snap(1)),
    };
    assert_eq!(why(ready(&seen)), expected);
    assert_eq!(why(saved(&seen)), expected);
}

#[test]
fn a_failed_snapshot_does_not_hinder_the_volume_it_was_taken_of() {
    let seen = Observed {
        volumes: vec![volume(1, 4, 5)],
        snapshots: vec![failed(2, 1, 5)],
        ..nothing()
    };
    assert_eq!(words(&ready(&seen)), "launch an instance in a");
}

#[test]
fn a_volume_in_error_is_deleted_if_it_was_never_attached() {
    let broken = SeenVolume {
        state: VolumeState::Error,
        ..volume(1, 4, 4)
    };
    let seen = Observed {
        instances: vec![host(1)],
        volumes: vec![broken],
        snapshots: vec![snapshot(1, 9, 4)],
        ..nothing()
    };
    assert_eq!(
        words(&ready(&seen)),
        "create a volume from snap-1 in a; delete vol-1"
    );
    assert_eq!(words(&saved(&seen)), "delete vol-1; terminate i-1");
}

#[test]
fn a_used_volume_in_error_is_the_end_of_the_way() {
    let broken = SeenVolume {
        state: VolumeState::Error,
        ..volume(1, 4, 5)
    };
    let seen = Observed {
        volumes: vec![broken],
        ..nothing()
    };
    assert_eq!(why(ready(&seen)), Why::VolumeError(vol(1)));
    assert_eq!(why(saved(&seen)), Why::VolumeError(vol(1)));
}

#[test]
fn half_a_format_is_thrown_away_and_made_anew() {
    let blank = SeenVolume {
        formatted: false,
        ..volume(1, 0, 1)
    };
    let mut seen = Observed {
        instances: vec![host(1)],
        volumes: vec![on(1, blank.clone())],
        ..nothing()
    };
    seen.me.refused = Some((vol(1), Refusal::Garbled));
    assert_eq!(words(&ready(&seen)), "detach vol-1 from i-1");
    seen.volumes = vec![blank];
    assert_eq!(
        words(&ready(&seen)),
        "create an empty volume in a; delete vol-1"
    );
}

#[test]
fn garbage_where_a_drive_was_used_is_never_thrown_away() {
    for (generation, formatted, with_snapshot) in
        [(2, false, false), (1, true, false), (1, false, true)]
    {
        let used = SeenVolume {
            formatted,
            ..volume(1, 0, generation)
        };
        let mut seen = Observed {
            instances: vec![host(1)],
            volumes: vec![on(1, used)],
            ..nothing()
        };
        if with_snapshot {
            // An older one: the volume is ahead of it.
            seen.snapshots = vec![snapshot(1, 1, 0)];
        }
        seen.me.refused = Some((vol(1), Refusal::Garbled));
        assert!(matches!(why(ready(&seen)), Why::Damaged(..)));
    }
}

#[test]
fn a_stopped_instance_loses_the_volume_and_is_terminated() {
    let stopped = SeenInstance {
        state: InstanceState::Stopped,
        contact: Contact::NotAsked,
        ..others(1)
    };
    let mut seen = Observed {
        instances: vec![stopped],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    };
    assert_eq!(words(&ready(&seen)), "detach vol-1 from i-1");
    assert_eq!(words(&saved(&seen)), "detach vol-1 from i-1");
    seen.volumes = vec![volume(1, 4, 5)];
    assert_eq!(
        words(&ready(&seen)),
        "terminate i-1; launch an instance in a"
    );
    assert_eq!(words(&saved(&seen)), "snapshot vol-1; terminate i-1");
    seen.instances[0].state = InstanceState::Stopping;
    seen.volumes = vec![on(1, volume(1, 4, 5))];
    seen.volumes[0].since = at(NOW - 60);
    assert!(words(&ready(&seen)).starts_with("wait: Release"));
}

#[test]
fn an_instance_on_its_way_out_is_given_a_quarter_of_an_hour() {
    let ending = SeenInstance {
        state: InstanceState::ShuttingDown,
        contact: Contact::NotAsked,
        ..others(1)
    };
    let mut seen = Observed {
        instances: vec![ending],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    };
    // However long it was attached before.
    seen.volumes[0].since = at(0);
    seen.instances[0].since = at(NOW - 14 * 60);
    assert!(words(&ready(&seen)).starts_with("wait: Release"));
    seen.me.closes.insert(id(1), Closed::Unmounted);
    seen.instances[0].since = at(NOW - 60);
    assert!(words(&ready(&seen)).starts_with("wait: Release"));
    seen.me.closes.clear();
    seen.instances[0].since = at(NOW - 16 * 60);
    assert_eq!(why(ready(&seen)), Why::NeverEnds(id(1)));
    // It reported that it had unmounted: the volume may be detached.
    seen.me.closes.insert(id(1), Closed::Unmounted);
    assert_eq!(words(&ready(&seen)), "detach vol-1 from i-1");
}

#[test]
fn an_attachment_that_never_comes_is_taken_back_and_the_host_replaced() {
    let mut seen = Observed {
        instances: vec![host(1)],
        volumes: vec![held(1, AttachmentState::Attaching, volume(1, 4, 5))],
        ..nothing()
    };
    seen.volumes[0].since = at(NOW - 119);
    assert_eq!(words(&ready(&seen)), "mount vol-1");
    seen.volumes[0].since = at(NOW - 120);
    assert_eq!(words(&ready(&seen)), "detach vol-1 from i-1");
    seen.me.rejected = vec![id(1)];
    seen.volumes = vec![volume(1, 4, 5)];
    assert_eq!(words(&ready(&seen)), "terminate i-1");
    seen.instances.clear();
    assert_eq!(words(&ready(&seen)), "launch an instance in a");
}

#[test]
fn a_volume_that_its_host_has_mounted_counts_as_attached_whatever_ec2_says() {
    let mut seen = Observed {
        instances: vec![host(1)],
        volumes: vec![held(1, AttachmentState::Attaching, volume(1, 4, 5))],
        ..nothing()
    };
    seen.volumes[0].since = at(NOW - 3600);
    seen.instances[0].contact = answers(Client::Me, false, Mounted::Volume(vol(1)));
    assert!(matches!(ready(&seen), Next::Done(_)));
    assert_eq!(words(&saved(&seen)), "close the drive on i-1");
}

#[test]
fn a_host_that_never_answers_shows_its_console_and_is_replaced() {
    let silent = |seconds| SeenInstance {
        contact: Contact::Unreachable,
        since: at(NOW - seconds),
        ..host(1)
    };
    let of = |host| Observed {
        instances: vec![host],
        volumes: vec![volume(1, 4, 5)],
        ..nothing()
    };
    assert!(words(&ready(&of(silent(299)))).starts_with("wait: Host"));
    assert_eq!(
        words(&ready(&of(silent(300)))),
        "read the console of i-1; terminate i-1"
    );
}

#[test]
fn a_host_that_ec2_says_boots_still_is_waited_for_and_one_that_is_impaired_is_not() {
    let silent = |check, since| SeenInstance {
        contact: Contact::Unreachable,
        since: at(NOW - 600),
        made: at(NOW - 620),
        checks: Some(SeenChecks {
            checks: StatusChecks {
                system: Check::Passed,
                instance: check,
            },
            since: at(NOW - since),
        }),
        ..host(1)
    };
    let next = |host| {
        words(&ready(&Observed {
            instances: vec![host],
            volumes: vec![volume(1, 4, 5)],
            ..nothing()
        }))
    };
    let given_up = "read the console of i-1; terminate i-1";
    let booting = silent(Check::Initializing, 500);
    assert!(next(booting.clone()).starts_with("wait: Host"));
    for over in [
        SeenInstance {
            made: at(NOW - 900),
            ..booting.clone()
        },
        silent(Check::Impaired, 1),
        silent(Check::Unknown, 1),
        silent(Check::Passed, 60),
    ] {
        assert_eq!(next(over.clone()), given_up, "{over:?}");
    }
    assert!(next(silent(Check::Passed, 59)).starts_with("wait: Host"));
    // Until it runs there is nothing to check.
    let pending = SeenInstance {
        state: InstanceState::Pending,
        contact: Contact::NotAsked,
        checks: None,
        ..booting
    };
    assert!(next(pending.clone()).starts_with("wait: Host"));
    let made = at(NOW - 900);
    assert_eq!(next(SeenInstance { made, ..pending }), given_up);
}

#[test]
fn the_silence_of_a_host_that_holds_the_drive_proves_nothing() {
    let silent = SeenInstance {
        contact: Contact::Unreachable,
        since: at(0),
        ..others(1)
    };
    let seen = Observed {
        instances: vec![silent],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    };
    assert_eq!(why(ready(&seen)), Why::Unreachable(id(1)));
    assert_eq!(why(saved(&seen)), Why::Unreachable(id(1)));
}

#[test]
fn a_volume_that_would_die_with_its_instance_is_protected_before_anything_else() {
    let mut seen = Observed {
        instances: vec![SeenInstance {
            contact: answers(Client::Me, true, Mounted::Nothing),
            ..host(1)
        }],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    };
    if let Some(attachment) = &mut seen.volumes[0].attachment {
        attachment.delete_on_termination = true;
    }
    for next in [ready(&seen), saved(&seen), plan_end(&seen)] {
        assert_eq!(words(&next), "keep /dev/sdf of i-1 when it ends");
    }
}

#[test]
fn launching_again_and_again_has_an_end() {
    let mut seen = nothing();
    seen.me.launches = 3;
    assert_eq!(why(ready(&seen)), Why::NoHost(3));
}

#[test]
fn making_volumes_that_fail_again_and_again_has_an_end() {
    let mut seen = Observed {
        instances: vec![host(1)],
        ..nothing()
    };
    seen.me.failed.insert(vol(1));
    assert!(words(&ready(&seen)).starts_with("create an empty volume in "));
    seen.me.failed.insert(vol(2));
    assert_eq!(why(ready(&seen)), Why::NoVolume(vol(2)));
    // What this session made is ended all the same.
    assert!(words(&plan_end(&seen)).starts_with("terminate i-1"));
}

#[test]
fn a_snapshot_with_unreadable_tags_may_be_the_newest() {
    let mut seen = Observed {
        snapshots: vec![snapshot(1, 1, 4)],
        ..nothing()
    };
    seen.unreadable = vec![(
        "snap-2".into(),
        "its tag xdrive:generation is missing".into(),
    )];
    assert!(matches!(why(ready(&seen)), Why::Unreadable(_)));
    assert!(matches!(why(saved(&seen)), Why::Unreadable(_)));
}

#[test]
fn every_way_of_being_stuck_prints_a_command() {
    let seen = Observed {
        volumes: vec![volume(1, 4, 5), volume(2, 4, 5)],
        ..nothing()
    };
    let Next::Stuck(stuck) = ready(&seen) else {
        panic!("not stuck")
    };
    let demo = "demo".parse().unwrap();
    let commands = stuck.commands(&demo);
    assert_eq!(
        commands,
        [
            "xdrive connect demo --from vol-1",
            "xdrive connect demo --from vol-2"
        ]
    );
    assert_eq!(
        Billed::all(&stuck.left, StoragePrices::default())[0].to_string(),
        "volume vol-1, 8 GiB, about $0.64 a month"
    );
}

#[test]
fn a_volume_that_failed_is_refused_before_anything_is_kept_as_a_fork() {
    let mut seen = Observed {
        volumes: vec![volume(1, 4, 5), volume(2, 4, 5)],
        ..nothing()
    };
    for volume in &mut seen.volumes {
        volume.session = crate::ids::SessionId("other".into());
    }
    seen.volumes[0].state = VolumeState::Error;
    let chosen = from(Head::Volume(vol(1)), &seen);
    assert_eq!(words(&chosen), "stuck: --from vol-1: this volume failed");
    assert_eq!(
        words(&from(Head::Volume(vol(2)), &seen)),
        "keep vol-1 as a fork"
    );
}

#[test]
fn a_drive_whose_only_snapshot_failed_can_begin_anew() {
    let mut seen = Observed {
        snapshots: vec![SeenSnapshot {
            state: SnapshotState::Error,
            ..snapshot(1, 1, 5)
        }],
        ..nothing()
    };
    let Next::Stuck(stuck) = ready(&seen) else {
        panic!("{}", words(&ready(&seen)))
    };
    let demo = "demo".parse().unwrap();
    let way = "xdrive connect demo --from empty";
    assert_eq!(stuck.commands(&demo), [way]);
    let head: Head = way.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(words(&from(head.clone(), &seen)), "keep snap-1 as a fork");
    seen.snapshots.clear();
    assert_eq!(words(&from(head, &seen)), "launch an instance");
}
