//! Small worlds for the plan. All are settled and an hour old, and all snapshots were verified,
//! unless a test changes that.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::super::{Goal, Next, plan};
use crate::clock::{BootTime, Clock};
use crate::drive::hosts::{Client, Contact, HostView};
use crate::drive::observed::{
    DEVICE, Me, Observed, SeenAttachment, SeenChecks, SeenInstance, SeenSnapshot, SeenVolume,
    Verdict,
};
use crate::drive::stuck::{Head, Why};
use crate::drive::tags::SnapshotKind;
use crate::drive::timing::Timing;
use crate::ec2::{
    AttachmentState, Check, InstanceState, SnapshotState, StatusChecks, VolumeState, Zone,
};
use crate::host::Mounted;
use crate::ids::{Generation, InstanceId, SessionId, SnapshotId, VolumeId};

/// The moment so many seconds after this process's first look.
pub(super) fn at(seconds: u64) -> BootTime {
    static START: OnceLock<BootTime> = OnceLock::new();
    *START.get_or_init(|| Clock::system().boot()) + Duration::from_secs(seconds)
}

/// When the tests' sweep began, and when they plan.
pub(super) const NOW: u64 = 3600;

pub(super) fn id(number: u8) -> InstanceId {
    format!("i-{number:x}").parse().unwrap()
}

pub(super) fn vol(number: u8) -> VolumeId {
    format!("vol-{number:x}").parse().unwrap()
}

pub(super) fn snap(number: u8) -> SnapshotId {
    format!("snap-{number:x}").parse().unwrap()
}

pub(super) fn mine() -> SessionId {
    SessionId("mine".into())
}

pub(super) fn nothing() -> Observed {
    Observed {
        me: Me {
            session: mine(),
            announced: None,
            unsure: None,
            launches: 0,
            raised: None,
            attached: None,
            closed: None,
            closes: std::collections::BTreeMap::new(),
            unmounted: None,
            reported: None,
            leaving: BTreeSet::new(),
            not_pruned: std::collections::BTreeSet::new(),
            verdicts: (0..16)
                .map(|number| (snap(number), Verdict::Sound))
                .collect(),
            refused: None,
            rejected: Vec::new(),
            attempts: Vec::new(),
            hung: None,
            failed: BTreeSet::new(),
        },
        first: at(0),
        began: at(NOW),
        instances: Vec::new(),
        volumes: Vec::new(),
        throwaways: Vec::new(),
        snapshots: Vec::new(),
        unreadable: Vec::new(),
    }
}

/// A running instance of mine that answers and that this process holds.
pub(super) fn host(number: u8) -> SeenInstance {
    SeenInstance {
        id: id(number),
        state: InstanceState::Running,
        zone: Zone("a".into()),
        launched: Timestamp::UNIX_EPOCH,
        session: mine(),
        owner: "me".into(),
        listed: true,
        contact: answers(Client::Me, false, Mounted::Nothing),
        since: at(NOW - 60),
        made: at(0),
        checks: None,
        lease: None,
        throwaway: None,
        spared: None,
    }
}

/// Any results of EC2's status checks.
pub(super) fn checks() -> impl Strategy<Value = SeenChecks> {
    let check = prop_oneof![
        Just(Check::Initializing),
        Just(Check::Passed),
        Just(Check::Impaired),
        Just(Check::Unknown),
    ];
    (check.clone(), check, 0..=NOW).prop_map(|(system, instance, since)| SeenChecks {
        checks: StatusChecks { system, instance },
        since: at(since),
    })
}

/// A running instance of another session's, held by its client.
pub(super) fn others(number: u8) -> SeenInstance {
    SeenInstance {
        session: SessionId("other".into()),
        owner: "somebody".into(),
        contact: answers(somebody(), false, Mounted::Nothing),
        ..host(number)
    }
}

pub(super) fn somebody() -> Client {
    Client::Other {
        owner: "somebody".into(),
        since: "today".into(),
    }
}

pub(super) fn answers(client: Client, closing: bool, mounted: Mounted) -> Contact {
    Contact::Reached(HostView {
        client,
        guests: 0,
        closing,
        noticed: false,
        mounted,
        unmounted: None,
    })
}

/// A host that is closed and unmounted this volume.
pub(super) fn unmounted(client: Client, volume: u8) -> Contact {
    Contact::Reached(HostView {
        client,
        guests: 0,
        closing: true,
        noticed: false,
        mounted: Mounted::Nothing,
        unmounted: Some(vol(volume)),
    })
}

/// A free volume of mine.
pub(super) fn volume(number: u8, base: u64, generation: u64) -> SeenVolume {
    SeenVolume {
        id: vol(number),
        state: VolumeState::Available,
        zone: Zone("a".into()),
        size: 8,
        throughput: None,
        created: Timestamp::UNIX_EPOCH,
        snapshot: None,
        attachment: None,
        base: Generation(base),
        generation: Generation(generation),
        blank: base == 0,
        formatted: base == 0 && generation > 0,
        uuid: None,
        session: mine(),
        has_owner: true,
        listed: true,
        since: at(0),
    }
}

pub(super) fn on(host: u8, volume: SeenVolume) -> SeenVolume {
    held(host, AttachmentState::Attached, volume)
}

pub(super) fn held(host: u8, state: AttachmentState, volume: SeenVolume) -> SeenVolume {
    SeenVolume {
        state: VolumeState::InUse,
        attachment: Some(SeenAttachment {
            instance: id(host),
            state,
            device: DEVICE.into(),
            delete_on_termination: false,
        }),
        ..volume
    }
}

/// A completed, clean snapshot.
pub(super) fn snapshot(number: u8, of: u8, generation: u64) -> SeenSnapshot {
    SeenSnapshot {
        id: snap(number),
        state: SnapshotState::Completed,
        volume: Some(vol(of)),
        size: 8,
        generation: Generation(generation),
        kind: SnapshotKind::Clean,
        op: format!("op-{number}"),
        uuid: None,
        has_owner: true,
        number: 0,
        leaving: None,
        is_forked: false,
        since: at(0),
        is_everywhere: true,
    }
}

pub(super) fn next(goal: &Goal, seen: &Observed) -> Next {
    plan(goal, seen, at(NOW), &Timing::aws())
}

pub(super) fn ready(seen: &Observed) -> Next {
    next(&Goal::Ready { from: None }, seen)
}

pub(super) fn from(head: Head, seen: &Observed) -> Next {
    next(&Goal::Ready { from: Some(head) }, seen)
}

pub(super) fn saved(seen: &Observed) -> Next {
    next(
        &Goal::Saved {
            even_if_used: false,
        },
        seen,
    )
}

pub(super) fn plan_end(seen: &Observed) -> Next {
    next(&Goal::Ended, seen)
}

/// The steps in words, or what else there is.
pub(super) fn words(next: &Next) -> String {
    match next {
        Next::Do(steps) => {
            let words: Vec<String> = steps.iter().map(ToString::to_string).collect();
            words.join("; ")
        }
        Next::Wait(what, _) => format!("wait: {what:?}"),
        Next::Done(done) => format!("done: {done:?}"),
        Next::Busy(instance) => format!("busy: {instance}"),
        Next::Stuck(stuck) => format!("stuck: {}", stuck.why),
    }
}

pub(super) fn why(next: Next) -> Why {
    match next {
        Next::Stuck(stuck) => stuck.why,
        other => panic!("not stuck: {}", words(&other)),
    }
}
