//! The way to a mounted drive.

use std::time::Duration;

use super::fixtures::*;
use crate::drive::hosts::{Client, Contact};
use crate::drive::observed::{Observed, SeenInstance, SeenVolume};
use crate::drive::plan::{Done, Next, Step};
use crate::drive::stuck::{Head, Why};
use crate::drive::tags::SnapshotKind;
use crate::ec2::{AttachmentState, InstanceState, SnapshotState, Zone};
use crate::host::Mounted;
use crate::ids::{Generation, SessionId};

fn world(
    instances: Vec<SeenInstance>,
    volumes: Vec<SeenVolume>,
    snapshots: Vec<crate::drive::observed::SeenSnapshot>,
) -> Observed {
    Observed {
        instances,
        volumes,
        snapshots,
        ..nothing()
    }
}

#[test]
fn with_nothing_there_an_instance_is_launched_anywhere() {
    assert_eq!(words(&ready(&nothing())), "launch an instance");
}

#[test]
fn a_surviving_volume_pins_the_zone_of_the_launch() {
    let seen = world(vec![], vec![volume(1, 0, 3)], vec![]);
    assert_eq!(words(&ready(&seen)), "launch an instance in a");
}

#[test]
fn a_new_drive_is_made_only_from_settled_lists() {
    let booting = SeenInstance {
        contact: Contact::Unreachable,
        ..host(1)
    };
    let mut seen = world(vec![booting], vec![], vec![]);
    assert_eq!(words(&ready(&seen)), "create an empty volume in a");
    seen.me.announced = Some(at(NOW - 14));
    assert_eq!(words(&ready(&seen)), "wait: Settle");
    seen.me.announced = Some(at(NOW - 15));
    assert_eq!(words(&ready(&seen)), "create an empty volume in a");
    seen.instances[0].listed = false;
    assert_eq!(words(&ready(&seen)), "wait: Settle");
}

#[test]
fn a_volume_is_made_from_the_newest_snapshot_while_the_host_boots() {
    let booting = SeenInstance {
        state: InstanceState::Pending,
        contact: Contact::NotAsked,
        ..host(1)
    };
    let mut seen = world(
        vec![booting],
        vec![],
        vec![snapshot(1, 1, 1), snapshot(2, 2, 2)],
    );
    seen.me.announced = Some(at(NOW));
    assert_eq!(words(&ready(&seen)), "create a volume from snap-2 in a");
}

#[test]
fn the_newest_is_the_highest_generation_and_a_final_snapshot_before_a_checkpoint() {
    let checkpoint = crate::drive::observed::SeenSnapshot {
        kind: SnapshotKind::Checkpoint,
        ..snapshot(9, 1, 4)
    };
    let seen = world(
        vec![host(1)],
        vec![],
        vec![checkpoint, snapshot(3, 1, 4), snapshot(5, 1, 2)],
    );
    assert_eq!(words(&ready(&seen)), "create a volume from snap-3 in a");
}

#[test]
fn the_way_in_is_announce_then_attach_then_mount() {
    let spare = SeenVolume {
        snapshot: Some(snap(1)),
        ..volume(2, 4, 4)
    };
    let mut seen = world(vec![host(1)], vec![spare], vec![snapshot(1, 1, 4)]);
    assert_eq!(words(&ready(&seen)), "announce generation 5 on vol-2");

    seen.volumes[0].generation = Generation(5);
    seen.me.raised = Some((vol(2), Generation(5)));
    assert_eq!(words(&ready(&seen)), "attach vol-2 to i-1");

    seen.me.raised = None;
    let free = seen.volumes[0].clone();
    seen.volumes[0] = held(1, AttachmentState::Attaching, free.clone());
    seen.volumes[0].since = at(NOW - 1);
    assert_eq!(words(&ready(&seen)), "mount vol-2");
    seen.volumes[0] = on(1, free);
    assert_eq!(words(&ready(&seen)), "mount vol-2");

    seen.instances[0].contact = answers(Client::Me, false, Mounted::Volume(vol(2)));
    let done = Done::Ready {
        instance: id(1),
        volume: vol(2),
        generation: Generation(5),
    };
    assert_eq!(ready(&seen), Next::Done(done));
}

#[test]
fn every_attachment_needs_a_raise_of_its_own() {
    let seen = world(vec![host(1)], vec![volume(2, 4, 5)], vec![]);
    assert_eq!(words(&ready(&seen)), "announce generation 6 on vol-2");
}

#[test]
fn a_generation_is_raised_only_when_the_lists_are_settled() {
    let mut seen = world(vec![host(1)], vec![volume(2, 4, 5)], vec![]);
    seen.me.announced = Some(at(NOW - 1));
    assert_eq!(words(&ready(&seen)), "wait: Settle");
    seen.me.announced = None;
    seen.me.unsure = Some(at(NOW - 1));
    assert_eq!(words(&ready(&seen)), "wait: Settle");
    seen.me.unsure = None;
    seen.first = at(NOW - 1);
    assert_eq!(words(&ready(&seen)), "wait: Settle");
}

#[test]
fn a_volume_whose_generation_a_snapshot_has_is_raised_again_before_use() {
    let mut seen = world(
        vec![host(1)],
        vec![volume(2, 4, 5)],
        vec![snapshot(3, 2, 5)],
    );
    seen.me.raised = Some((vol(2), Generation(5)));
    assert_eq!(words(&ready(&seen)), "announce generation 6 on vol-2");
    seen.volumes[0] = on(1, volume(2, 4, 5));
    assert_eq!(words(&ready(&seen)), "announce generation 6 on vol-2");
}

#[test]
fn a_new_volume_is_formatted_only_at_its_first_mount_and_marked_before_use() {
    let blank = SeenVolume {
        formatted: false,
        ..volume(1, 0, 1)
    };
    let mut seen = world(vec![host(1)], vec![on(1, blank)], vec![]);
    let Next::Do(steps) = ready(&seen) else {
        panic!("a mount was expected")
    };
    assert!(matches!(&steps[..], [Step::Mount { order, .. }] if order.blank));

    seen.instances[0].contact = answers(Client::Me, false, Mounted::Volume(vol(1)));
    assert_eq!(words(&ready(&seen)), "record that vol-1 is formatted");

    seen.volumes[0].formatted = true;
    seen.instances[0].contact = answers(Client::Me, false, Mounted::Nothing);
    let Next::Do(steps) = ready(&seen) else {
        panic!("a mount was expected")
    };
    assert!(matches!(&steps[..], [Step::Mount { order, .. }] if !order.blank));
}

#[test]
fn the_earliest_launch_wins_then_the_lowest_id_and_the_loser_clears_away() {
    let later = |number, seconds| SeenInstance {
        launched: jiff::Timestamp::UNIX_EPOCH + Duration::from_secs(seconds),
        ..host(number)
    };
    let spare = SeenVolume {
        snapshot: Some(snap(1)),
        ..volume(2, 4, 4)
    };
    let theirs = SeenInstance {
        contact: Contact::Unreachable,
        ..others(1)
    };
    let seen = world(
        vec![theirs.clone(), later(2, 1)],
        vec![spare],
        vec![snapshot(1, 1, 4)],
    );
    assert_eq!(words(&ready(&seen)), "terminate i-2; delete vol-2");

    let same_second = world(vec![theirs.clone(), later(2, 0)], vec![], vec![]);
    assert_eq!(words(&ready(&same_second)), "terminate i-2");

    let mut earlier = theirs;
    earlier.launched = jiff::Timestamp::UNIX_EPOCH + Duration::from_secs(9);
    let mut seen = world(vec![earlier, later(2, 1)], vec![], vec![snapshot(1, 1, 4)]);
    seen.me.announced = Some(at(0));
    assert_eq!(words(&ready(&seen)), "create a volume from snap-1 in a");
}

#[test]
fn a_drive_that_somebody_uses_is_left_alone() {
    let mounted = SeenInstance {
        contact: answers(somebody(), false, Mounted::Volume(vol(1))),
        ..others(1)
    };
    let seen = world(vec![mounted], vec![on(1, volume(1, 0, 3))], vec![]);
    assert_eq!(words(&ready(&seen)), "busy: i-1");
    assert_eq!(words(&saved(&seen)), "busy: i-1");
}

#[test]
fn a_mounted_drive_whose_client_was_killed_is_claimed_at_once() {
    let orphan = SeenInstance {
        contact: answers(Client::Nobody, false, Mounted::Volume(vol(1))),
        since: at(NOW),
        ..others(1)
    };
    let seen = world(vec![orphan], vec![on(1, volume(1, 0, 3))], vec![]);
    assert_eq!(words(&ready(&seen)), "log in to i-1");
}

#[test]
fn a_host_just_launched_by_another_is_left_to_it_for_a_while() {
    let mut theirs = SeenInstance {
        contact: answers(Client::Nobody, false, Mounted::Nothing),
        since: at(NOW - 1),
        ..others(1)
    };
    let seen = world(vec![theirs.clone()], vec![], vec![]);
    assert_eq!(
        words(&ready(&seen)),
        "wait: OtherStarting(InstanceId(\"i-1\"))"
    );
    theirs.since = at(NOW - 20);
    assert_eq!(
        words(&ready(&world(vec![theirs], vec![], vec![]))),
        "log in to i-1"
    );
}

#[test]
fn a_host_that_began_to_close_is_never_mounted_on_again() {
    let closing = |client, mounted| SeenInstance {
        contact: answers(client, true, mounted),
        ..host(1)
    };
    let of = |host| world(vec![host], vec![on(1, volume(1, 0, 3))], vec![]);
    let half = of(closing(Client::Nobody, Mounted::Volume(vol(1))));
    assert_eq!(words(&ready(&half)), "close the drive on i-1");
    let closed = of(closing(Client::Nobody, Mounted::Nothing));
    assert_eq!(words(&ready(&closed)), "terminate i-1");
    let theirs = of(closing(somebody(), Mounted::Volume(vol(1))));
    assert_eq!(words(&ready(&theirs)), "wait: Closing(InstanceId(\"i-1\"))");
}

#[test]
fn a_pending_newest_snapshot_is_waited_for_unless_its_volume_is_there() {
    let pending = crate::drive::observed::SeenSnapshot {
        state: SnapshotState::Pending,
        ..snapshot(2, 1, 5)
    };
    let seen = world(vec![], vec![], vec![snapshot(1, 9, 4), pending.clone()]);
    assert_eq!(words(&ready(&seen)), "wait: Copy(SnapshotId(\"snap-2\"))");
    let seen = world(vec![], vec![volume(1, 4, 5)], vec![pending]);
    assert_eq!(words(&ready(&seen)), "launch an instance in a");
}

#[test]
fn two_lines_from_one_base_are_both_named_and_nothing_is_chosen() {
    let cases = [
        world(vec![], vec![volume(1, 4, 5), volume(2, 4, 5)], vec![]),
        world(vec![], vec![volume(1, 4, 5)], vec![snapshot(2, 2, 5)]),
        world(vec![], vec![volume(1, 4, 5)], vec![snapshot(2, 2, 6)]),
        world(vec![], vec![], vec![snapshot(1, 1, 5), snapshot(2, 2, 5)]),
    ];
    for mut seen in cases {
        for volume in &mut seen.volumes {
            volume.session = SessionId("other".into());
        }
        for next in [ready(&seen), saved(&seen)] {
            let Why::Forked(heads) = why(next) else {
                panic!("not forked")
            };
            assert_eq!(heads.len(), 2, "{heads:?}");
        }
    }
}

#[test]
fn a_copied_snapshot_is_no_second_line() {
    let copy = crate::drive::observed::SeenSnapshot {
        volume: Some("vol-ffffffff".parse().unwrap()),
        op: "op-1".into(),
        ..snapshot(2, 2, 5)
    };
    let seen = world(vec![], vec![], vec![snapshot(1, 1, 5), copy]);
    assert_eq!(words(&ready(&seen)), "launch an instance");
}

#[test]
fn nobody_is_frightened_by_a_stale_list() {
    let mut seen = world(vec![], vec![volume(1, 4, 5), volume(2, 4, 5)], vec![]);
    seen.first = at(NOW - 3);
    assert_eq!(words(&ready(&seen)), "wait: Settle");
}

#[test]
fn volumes_and_snapshots_that_were_not_chosen_are_kept_as_forks_oldest_first() {
    let mut a = volume(1, 4, 5);
    let mut b = volume(2, 4, 5);
    a.session = SessionId("a".into());
    b.session = SessionId("b".into());
    let seen = world(vec![], vec![a, b], vec![snapshot(1, 1, 4)]);
    assert_eq!(
        words(&from(Head::Volume(vol(1)), &seen)),
        "keep vol-2 as a fork"
    );

    let older = world(
        vec![],
        vec![],
        vec![snapshot(5, 5, 5), snapshot(3, 3, 3), snapshot(4, 4, 4)],
    );
    let next = from(Head::Snapshot(snap(3)), &older);
    assert_eq!(words(&next), "keep snap-4 as a fork; keep snap-5 as a fork");

    let newest = from(Head::Snapshot(snap(5)), &older);
    assert_eq!(words(&newest), "launch an instance");
}

#[test]
fn a_choice_that_is_not_there_or_mounted_elsewhere_is_refused() {
    let seen = world(vec![], vec![], vec![snapshot(1, 1, 4)]);
    assert!(matches!(
        why(from(Head::Snapshot(snap(7)), &seen)),
        Why::From(..)
    ));

    let orphan = SeenInstance {
        contact: answers(Client::Nobody, false, Mounted::Volume(vol(2))),
        ..others(1)
    };
    let mut used = on(1, volume(2, 4, 5));
    used.session = SessionId("other".into());
    let seen = world(vec![orphan], vec![used], vec![snapshot(1, 1, 4)]);
    assert!(matches!(
        why(from(Head::Snapshot(snap(1)), &seen)),
        Why::Mounted(_)
    ));
}

#[test]
fn a_choice_does_not_turn_against_what_was_made_from_it() {
    let child = SeenVolume {
        snapshot: Some(snap(1)),
        ..volume(2, 4, 5)
    };
    let mut seen = world(vec![host(1)], vec![child], vec![snapshot(1, 1, 4)]);
    seen.me.raised = Some((vol(2), Generation(5)));
    assert_eq!(
        words(&from(Head::Snapshot(snap(1)), &seen)),
        "attach vol-2 to i-1"
    );
}

#[test]
fn a_host_in_the_wrong_zone_is_replaced() {
    let elsewhere = SeenInstance {
        zone: Zone("b".into()),
        ..host(1)
    };
    let seen = world(vec![elsewhere], vec![volume(1, 0, 3)], vec![]);
    assert_eq!(words(&ready(&seen)), "terminate i-1");
}
