//! Throwaway volumes: the way to a mounted one, their ends, and what never becomes of them.

use jiff::Timestamp;

use super::fixtures::*;
use crate::drive::hosts::{Client, Contact};
use crate::drive::observed::{Observed, SeenInstance, SeenThrowaway, SeenVolume};
use crate::drive::plan::{Done, Goal, Next, orphans};
use crate::drive::proof::{DeletionGrounds, Reread};
use crate::drive::stuck::{Head, Why};
use crate::drive::tags::{self, Carried, Identity, SnapshotKind, SnapshotTags};
use crate::ec2::{self, AttachmentState, InstanceState, SnapshotState, VolumeState, Zone};
use crate::host::Mounted;
use crate::ids::{Generation, SessionId};

fn theirs() -> SessionId {
    SessionId("other".into())
}

/// A free volume of snapshot 1, which has generation 4, that `by` throws away.
fn thrown(number: u8, by: SessionId) -> SeenThrowaway {
    SeenThrowaway {
        volume: SeenVolume {
            snapshot: Some(snap(1)),
            blank: false,
            formatted: true,
            session: by,
            ..volume(number, 4, 4)
        },
    }
}

/// A throwaway volume, attached to the instance `host`.
fn thrown_on(host: u8, number: u8, by: SessionId) -> SeenThrowaway {
    let volume = on(host, thrown(number, by).volume);
    SeenThrowaway { volume }
}

/// The host of this session's throwaway volume.
fn own_host(mounted: Mounted) -> SeenInstance {
    SeenInstance {
        throwaway: Some(mine()),
        contact: answers(Client::Me, false, mounted),
        ..host(1)
    }
}

/// The host of another session's throwaway volume.
fn their_host(client: Client, mounted: Mounted) -> SeenInstance {
    SeenInstance {
        throwaway: Some(theirs()),
        contact: answers(client, false, mounted),
        ..others(2)
    }
}

/// A drive with one save.
fn world(instances: Vec<SeenInstance>, throwaways: Vec<SeenThrowaway>) -> Observed {
    Observed {
        instances,
        throwaways,
        snapshots: vec![snapshot(1, 9, 4)],
        ..nothing()
    }
}

fn discard(seen: &Observed) -> Next {
    next(&Goal::Throwaway, seen)
}

fn forced(seen: &Observed) -> Next {
    next(&Goal::Saved { even_if_used: true }, seen)
}

#[test]
fn the_way_to_one_raises_no_generation() {
    assert_eq!(
        words(&discard(&world(vec![], vec![]))),
        "launch an instance"
    );
    let booting = SeenInstance {
        contact: Contact::Unreachable,
        ..own_host(Mounted::Nothing)
    };
    let made = "create a volume from snap-1 in a";
    assert_eq!(words(&discard(&world(vec![booting], vec![]))), made);
    let up = || vec![own_host(Mounted::Nothing)];
    let mut seen = world(up(), vec![thrown(2, mine())]);
    seen.me.announced = Some(at(NOW - 5));
    assert_eq!(words(&discard(&seen)), "wait: Settle");
    seen.me.announced = None;
    assert_eq!(words(&discard(&seen)), "attach vol-2 to i-1");
    let attached = || vec![thrown_on(1, 2, mine())];
    assert_eq!(words(&discard(&world(up(), attached()))), "mount vol-2");
    let mounted = vec![own_host(Mounted::Volume(vol(2)))];
    assert_eq!(
        discard(&world(mounted, attached())),
        Next::Done(Done::Ready {
            instance: id(1),
            volume: vol(2),
            generation: Generation(4),
        })
    );
}

#[test]
fn a_drive_that_is_not_wholly_saved_is_not_tried_out() {
    assert_eq!(why(discard(&nothing())), Why::NothingSaved);
    let mut seen = world(vec![], vec![]);
    seen.volumes = vec![volume(2, 4, 5)];
    assert_eq!(why(discard(&seen)), Why::NotAtRest);
    // Even one that a snapshot has all of.
    seen.snapshots.push(snapshot(2, 2, 5));
    assert_eq!(why(discard(&seen)), Why::NotAtRest);
    let mut seen = world(vec![], vec![]);
    seen.snapshots[0].state = SnapshotState::Pending;
    assert_eq!(words(&discard(&seen)), format!("wait: Copy({:?})", snap(1)));
    // One that was never attached has nothing of its own.
    let mut seen = world(vec![], vec![]);
    seen.volumes = vec![SeenVolume {
        snapshot: Some(snap(1)),
        ..volume(2, 4, 4)
    }];
    assert_eq!(words(&discard(&seen)), "launch an instance");
}

#[test]
fn a_drive_that_is_in_use_is_not_tried_out() {
    assert_eq!(
        words(&discard(&world(vec![others(2)], vec![]))),
        "busy: i-2"
    );
    let idle = SeenInstance {
        contact: answers(Client::Nobody, false, Mounted::Nothing),
        ..others(2)
    };
    assert_eq!(why(discard(&world(vec![idle], vec![]))), Why::NotAtRest);
    // Two that begin at once: the earlier one goes on.
    let launched = |second, instance| SeenInstance {
        launched: Timestamp::UNIX_EPOCH + std::time::Duration::from_secs(second),
        ..instance
    };
    let own = || own_host(Mounted::Nothing);
    let late = world(vec![launched(2, own()), launched(1, others(2))], vec![]);
    assert_eq!(words(&discard(&late)), "busy: i-2");
    let early = world(vec![launched(1, own()), launched(2, others(2))], vec![]);
    assert_eq!(words(&discard(&early)), "create a volume from snap-1 in a");
    let both = |own, other| {
        let rival = SeenInstance {
            throwaway: Some(theirs()),
            ..launched(other, others(2))
        };
        ready(&world(vec![launched(own, host(1)), rival], vec![]))
    };
    assert_eq!(words(&both(2, 1)), "terminate i-1");
    assert_eq!(words(&both(1, 2)), "create a volume from snap-1 in a");
}

#[test]
fn it_is_never_the_drives_newest_state() {
    // Its host is in use, is abandoned, is gone; the volume stays out of it.
    let used = their_host(somebody(), Mounted::Volume(vol(2)));
    let seen = world(vec![used], vec![thrown_on(2, 2, theirs())]);
    assert_eq!(words(&ready(&seen)), "busy: i-2");
    assert_eq!(words(&saved(&seen)), "busy: i-2");
    assert_eq!(words(&forced(&seen)), "close the drive on i-2");
    let abandoned = their_host(Client::Nobody, Mounted::Volume(vol(2)));
    let seen = world(vec![abandoned], vec![thrown_on(2, 2, theirs())]);
    for next in [ready(&seen), saved(&seen), forced(&seen), discard(&seen)] {
        assert_eq!(words(&next), "log in to i-2");
    }
    let claimed = their_host(Client::Me, Mounted::Volume(vol(2)));
    let seen = world(vec![claimed], vec![thrown_on(2, 2, theirs())]);
    for next in [ready(&seen), saved(&seen), forced(&seen), discard(&seen)] {
        assert_eq!(words(&next), "terminate i-2");
    }
    let seen = world(vec![], vec![thrown(2, theirs())]);
    assert_eq!(words(&ready(&seen)), "launch an instance");
    let both = "launch an instance; delete vol-2";
    assert_eq!(words(&discard(&seen)), both);
    assert_eq!(words(&saved(&seen)), "delete vol-2");
    let seen = world(vec![host(1)], vec![thrown(2, theirs())]);
    let both = "create a volume from snap-1 in a; delete vol-2";
    assert_eq!(words(&ready(&seen)), both);
    // It is not to be chosen, and no part of the drive is deleted, renamed or pruned meanwhile.
    let seen = world(vec![], vec![thrown(2, theirs())]);
    assert!(matches!(
        why(from(Head::Volume(vol(2)), &seen)),
        Why::From(..)
    ));
    let shown = seen.snapshots.iter().map(|it| it.id.clone()).collect();
    for goal in [
        Goal::Deleted { shown },
        Goal::Renamed("lab".parse().unwrap()),
    ] {
        assert_eq!(why(next(&goal, &seen)), Why::NotAtRest);
    }
    let mut seen = seen;
    seen.snapshots.push(snapshot(2, 8, 5));
    assert!(super::super::outdated(&seen, 1).is_empty());
}

#[test]
fn its_session_ends_without_a_close_and_touches_nothing_else() {
    let inside = own_host(Mounted::Volume(vol(2)));
    let mut seen = world(vec![inside], vec![thrown_on(1, 2, mine())]);
    seen.volumes = vec![SeenVolume {
        session: theirs(),
        ..volume(3, 4, 5)
    }];
    assert_eq!(words(&plan_end(&seen)), "terminate i-1");
    seen.instances[0].state = InstanceState::ShuttingDown;
    seen.instances[0].contact = Contact::NotAsked;
    let released = format!("wait: Release({:?})", vol(2));
    assert_eq!(words(&plan_end(&seen)), released);
    seen.instances.clear();
    seen.throwaways = vec![thrown(2, mine())];
    assert_eq!(words(&plan_end(&seen)), "delete vol-2");
    seen.throwaways.clear();
    assert!(matches!(plan_end(&seen), Next::Done(Done::Saved(_))));
}

#[test]
fn who_has_saved_the_drive_ends_one_that_is_abandoned_and_waits_for_no_other() {
    let with = |client| {
        let host = their_host(client, Mounted::Volume(vol(2)));
        let mut seen = world(vec![host], vec![thrown_on(2, 2, theirs())]);
        seen.me.closed = Some((vol(9), Generation(4)));
        words(&saved(&seen))
    };
    assert_eq!(with(Client::Nobody), "log in to i-2");
    let used = with(somebody());
    assert!(used.starts_with("done: Saved"), "{used}");
}

#[test]
fn a_silent_host_of_one_is_left_to_its_lease() {
    let silent = SeenInstance {
        contact: Contact::Unreachable,
        lease: Some(crate::drive::observed::SeenLease {
            until: Timestamp::UNIX_EPOCH,
            off_by: at(NOW + 60),
        }),
        since: at(0),
        ..their_host(Client::Nobody, Mounted::Nothing)
    };
    let mut seen = world(vec![silent], vec![thrown_on(2, 2, theirs())]);
    assert!(matches!(saved(&seen), Next::Wait(..)));
    seen.instances[0].lease.as_mut().unwrap().off_by = at(NOW - 1);
    assert!(words(&saved(&seen)).ends_with("terminate i-2"));
}

#[test]
fn one_whose_snapshot_is_gone_is_kept_and_in_nobodys_way() {
    let mut seen = world(vec![], vec![thrown(2, theirs())]);
    seen.snapshots = vec![snapshot(2, 8, 5)];
    assert!(matches!(saved(&seen), Next::Done(Done::Saved(_))));
    assert_eq!(orphans(&seen).count(), 1);
    assert_eq!(words(&ready(&seen)), "launch an instance");
    // While it is attached its session may need it.
    seen.throwaways = vec![SeenThrowaway {
        volume: held(2, AttachmentState::Attached, thrown(2, theirs()).volume),
    }];
    assert_eq!(orphans(&seen).count(), 0);
}

/// The volume of [`thrown`], as EC2 has it.
fn in_ec2(generation: u64, is_thrown_away: bool) -> ec2::Volume {
    let who = Identity::new(mine(), "me".into());
    let (drive, carried) = ("demo".parse().unwrap(), Carried::default());
    let mut tags = tags::volume(&drive, &who, Generation(4), false, None, &carried);
    if generation > 4 {
        tags.extend(tags::raised(&who, Generation(generation)));
    }
    if is_thrown_away {
        tags.extend(tags::throwaway(&mine()));
    }
    ec2::Volume {
        id: vol(2),
        state: VolumeState::Available,
        zone: Zone("a".into()),
        size: 8,
        created: Timestamp::UNIX_EPOCH,
        snapshot: Some(snap(1)),
        attachment: None,
        tags,
    }
}

fn origin(number: u8, state: SnapshotState) -> ec2::Snapshot {
    let who = Identity::new(mine(), "me".into());
    let own = SnapshotTags {
        generation: Generation(4),
        kind: SnapshotKind::Clean,
        op: "op".into(),
        uuid: None,
        number: 0,
    };
    ec2::Snapshot {
        id: snap(number),
        state,
        volume: Some(vol(9)),
        size: 8,
        full_size: None,
        started: Timestamp::UNIX_EPOCH,
        message: String::new(),
        tags: tags::snapshot(&"demo".parse().unwrap(), &who, &own, &Carried::default()),
    }
}

#[test]
fn one_is_deleted_only_while_its_snapshot_is_there_and_the_drives_volume_never() {
    let seen = world(vec![], vec![thrown(2, mine())]);
    let grounds = DeletionGrounds::prove_discarded(&seen, &seen.throwaways[0]).unwrap();
    assert_eq!(grounds.snapshot(), Some(&snap(1)));
    let now = at(NOW);
    let confirm = |volume: &ec2::Volume, snapshot: Option<&ec2::Snapshot>| {
        let reread = Reread {
            asked: now,
            now,
            failing: None,
        };
        grounds.confirm(reread, volume, snapshot).is_some()
    };
    let there = origin(1, SnapshotState::Completed);
    let volume = in_ec2(4, true);
    assert!(confirm(&volume, Some(&there)));
    // Its snapshot is gone, has failed, or is another one.
    assert!(!confirm(&volume, None));
    assert!(!confirm(&volume, Some(&origin(1, SnapshotState::Error))));
    assert!(!confirm(
        &volume,
        Some(&origin(3, SnapshotState::Completed))
    ));
    // It is a volume of the drive.
    assert!(!confirm(&in_ec2(4, false), Some(&there)));
    assert!(!confirm(&in_ec2(5, false), Some(&there)));
    assert!(!confirm(&in_ec2(5, true), Some(&there)));
    let elsewhere = ec2::Volume {
        snapshot: Some(snap(3)),
        ..in_ec2(4, true)
    };
    assert!(!confirm(&elsewhere, Some(&there)));
    // Grounds to delete a volume of the drive are none for one that is thrown away.
    let mut own = seen.clone();
    own.volumes = vec![thrown(2, mine()).volume];
    let unused = DeletionGrounds::prove(&own, &own.volumes[0]).unwrap();
    let reread = Reread {
        asked: now,
        now,
        failing: None,
    };
    assert!(unused.confirm(reread, &volume, Some(&there)).is_none());
    for state in [SnapshotState::Pending, SnapshotState::Error] {
        let mut seen = seen.clone();
        seen.snapshots[0].state = state;
        let grounds = DeletionGrounds::prove_discarded(&seen, &seen.throwaways[0]);
        assert_eq!(grounds, None, "{state:?}");
    }
}
