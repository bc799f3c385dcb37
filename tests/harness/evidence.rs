//! Proofs from made-up evidence, for tests of the calls that take them, and to delete what a test
//! made. xdrive itself proves by what it observed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use xdrive::clock::{BootTime, Clock};
use xdrive::drive::observed::Observed;
use xdrive::drive::overlay::{Overlay, Sweep};
use xdrive::drive::proof::{
    DeletionGrounds, FailedSnapshot, MayDelete, MayPrune, MayTerminate, Reread, TerminationGrounds,
};
use xdrive::drive::tags::{self, Carried, Identity, SnapshotKind, SnapshotTags};
use xdrive::drive::{Contact, Timing};
use xdrive::ec2::{
    Instance, InstanceState, Market, Snapshot, SnapshotState, Volume, VolumeState, Zone,
};
use xdrive::ids::{DriveName, Generation, InstanceId, SessionId, SnapshotId, VolumeId};

/// An instance that has no volume of a drive.
pub fn may_terminate(id: &InstanceId) -> MayTerminate {
    let instance = Instance {
        id: id.clone(),
        state: InstanceState::Running,
        zone: zone(),
        subnet: None,
        instance_type: "t3.medium".to_owned(),
        arch: None,
        market: Market::OnDemand,
        address: None,
        private: None,
        ipv6: None,
        launched: Timestamp::UNIX_EPOCH,
        image: String::new(),
        mappings: Vec::new(),
        groups: Vec::new(),
        ended: None,
        has_role: false,
        has_public: false,
        tags: tags::claim(&who()),
    };
    let (seen, at) = seen(vec![instance.clone()], Vec::new(), Vec::new());
    let quiet = TerminationGrounds::prove(&seen, &seen.instances[0]).expect("it has no volume");
    quiet
        .confirm(at, &instance, None)
        .expect("nothing has changed")
}

/// A volume that was never attached.
pub fn may_delete(id: &VolumeId) -> MayDelete {
    let volume = volume(id);
    let (seen, at) = seen(Vec::new(), vec![volume.clone()], Vec::new());
    let spent = DeletionGrounds::prove(&seen, &seen.volumes[0]).expect("it was never attached");
    spent
        .confirm(at, &volume, None)
        .expect("nothing has changed")
}

/// A snapshot that failed, of a volume that exists.
pub fn may_prune(id: &SnapshotId) -> MayPrune {
    let volume = volume(&"vol-1".parse().expect("an id"));
    let own = SnapshotTags {
        generation: Generation::EMPTY.next(),
        kind: SnapshotKind::Clean,
        op: "op".to_owned(),
        uuid: None,
        number: 0,
    };
    let snapshot = Snapshot {
        id: id.clone(),
        state: SnapshotState::Error,
        volume: Some(volume.id.clone()),
        size: 1,
        full_size: None,
        started: Timestamp::UNIX_EPOCH,
        message: String::new(),
        tags: tags::snapshot(&drive(), &who(), &own, &Carried::default()),
    };
    let (seen, at) = seen(Vec::new(), vec![volume.clone()], vec![snapshot.clone()]);
    let failed = FailedSnapshot::prove(&seen, &seen.snapshots[0]).expect("it failed");
    failed
        .confirm(at, &snapshot, &volume)
        .expect("nothing has changed")
}

fn volume(id: &VolumeId) -> Volume {
    let carried = Carried::default();
    Volume {
        id: id.clone(),
        state: VolumeState::Available,
        zone: zone(),
        size: 1,
        created: Timestamp::UNIX_EPOCH,
        snapshot: None,
        attachment: None,
        tags: tags::volume(&drive(), &who(), Generation::EMPTY, true, None, &carried),
    }
}

fn seen(
    instances: Vec<Instance>,
    volumes: Vec<Volume>,
    snapshots: Vec<Snapshot>,
) -> (Observed, Reread) {
    let now: BootTime = Clock::system().boot();
    let sweep = Sweep {
        began: now,
        wall: Timestamp::UNIX_EPOCH,
        stored: now,
        instances: instances
            .into_iter()
            .map(|instance| (instance, Contact::NotAsked))
            .collect(),
        volumes,
        snapshots,
        unlisted: BTreeSet::new(),
    };
    let seen = Overlay::new(who()).observe(sweep, &Timing::aws());
    (
        seen,
        Reread {
            asked: now,
            now,
            failing: None,
        },
    )
}

fn who() -> Identity {
    Identity::new(SessionId("a test".to_owned()), "a test".to_owned())
}

fn drive() -> DriveName {
    "evidence".parse().expect("a drive's name")
}

fn zone() -> Zone {
    Zone("us-east-1a".to_owned())
}
