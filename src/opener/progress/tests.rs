//! The lines of steps and waits: names before ids, and within a terminal's width.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::*;
use crate::clock::{BootTime, Clock};
use crate::drive::observed::Observed;
use crate::drive::overlay::{Overlay, Sweep};
use crate::drive::proof::{DeletionGrounds, FailedSnapshot, PruningGrounds, TerminationGrounds};
use crate::drive::stuck::Head;
use crate::drive::tags::{self, Carried, Identity, SnapshotTags};
use crate::drive::{Contact, Timing};
use crate::ec2::{
    Instance, InstanceState, Market, Snapshot, SnapshotState, Volume, VolumeState, Zone,
};
use crate::host::{AtMount, MountOrder};
use crate::ids::{Generation, SessionId, Uuid};
use crate::report::WIDTH;

/// Ids as long as EC2's, and how the expected lines abbreviate them.
const IDS: [(&str, &str); 3] = [
    ("i-0123456789abcdef0", "i-1"),
    ("vol-0123456789abcdef0", "vol-1"),
    ("snap-0123456789abcdef0", "snap-1"),
];

/// The columns before a finished step's line, for its time.
const TIME: usize = "   0.00 s  ".len();

fn demo() -> DriveName {
    "demo".parse().unwrap()
}

fn instance() -> InstanceId {
    IDS[0].0.parse().unwrap()
}

fn volume() -> VolumeId {
    IDS[1].0.parse().unwrap()
}

fn snapshot() -> SnapshotId {
    IDS[2].0.parse().unwrap()
}

fn zone() -> Zone {
    Zone("us-east-1a".to_owned())
}

fn who() -> Identity {
    Identity::new(SessionId("a test".to_owned()), "a test".to_owned())
}

/// The observation of a session with these resources.
fn seen(instances: Vec<Instance>, volumes: Vec<Volume>, snapshots: Vec<Snapshot>) -> Observed {
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
    Overlay::new(who()).observe(sweep, &Timing::aws())
}

fn an_instance() -> Instance {
    Instance {
        id: instance(),
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
    }
}

fn a_volume() -> Volume {
    let carried = Carried::default();
    Volume {
        id: volume(),
        state: VolumeState::Available,
        zone: zone(),
        size: 8,
        created: Timestamp::UNIX_EPOCH,
        snapshot: None,
        attachment: None,
        tags: tags::volume(&demo(), &who(), Generation::EMPTY, true, None, &carried),
    }
}

fn a_snapshot(state: SnapshotState) -> Snapshot {
    let own = SnapshotTags {
        generation: Generation(1),
        kind: SnapshotKind::Clean,
        op: "op".to_owned(),
        uuid: None,
        number: 0,
    };
    Snapshot {
        id: snapshot(),
        state,
        volume: Some(volume()),
        size: 8,
        full_size: None,
        started: Timestamp::UNIX_EPOCH,
        message: String::new(),
        tags: tags::snapshot(&demo(), &who(), &own, &Carried::default()),
    }
}

fn mount() -> Step {
    Step::Mount {
        instance: instance(),
        order: MountOrder {
            volume: volume(),
            generation: Generation(2),
            blank: false,
            uuid: None,
            device: "/dev/sdf".to_owned(),
            size: None,
            wait: Duration::from_secs(1),
            dirty_bytes: 0,
            frozen: AtMount::Leave,
            hot: false,
        },
    }
}

/// The steps that terminate and delete.
fn destroying() -> [Step; 4] {
    let alone = seen(vec![an_instance()], Vec::new(), Vec::new());
    let quiet = TerminationGrounds::prove(&alone, &alone.instances[0]).unwrap();
    let unused = seen(Vec::new(), vec![a_volume()], Vec::new());
    let spent = DeletionGrounds::prove(&unused, &unused.volumes[0]).unwrap();
    let failure = vec![a_snapshot(SnapshotState::Error)];
    let failing = seen(Vec::new(), vec![a_volume()], failure);
    let failed = FailedSnapshot::prove(&failing, &failing.snapshots[0]).unwrap();
    let whole = vec![a_snapshot(SnapshotState::Completed)];
    let saved = seen(Vec::new(), Vec::new(), whole);
    let old = PruningGrounds::prove_scratch(&saved, &saved.snapshots[0]).unwrap();
    [
        Step::Terminate(quiet),
        Step::DeleteVolume(spent),
        Step::DeleteSnapshot(failed),
        Step::Prune(old),
    ]
}

/// The line with abbreviated ids. Fails if an id in it is bare, or if it is longer than a terminal
/// with `before` it.
fn short(line: &str, before: usize) -> String {
    assert!(before + line.chars().count() <= WIDTH, "{line}");
    IDS.iter().fold(line.to_owned(), |line, (id, short)| {
        let named = line.replace(&format!(" ({id})"), &format!(" ({short})"));
        assert!(!named.contains(id), "a bare id: {line}");
        named
    })
}

/// Checks the lines of `step`, which made `made`: under way, and finished.
#[track_caller]
fn has(step: &Step, made: Option<&str>, under_way: &str, finished: Option<&str>) {
    // The spinner and the seconds.
    let around = "     ⠋    ".chars().count();
    assert_eq!(short(&describe_step(step, &demo()), around), under_way);
    let line = done(step, made, &demo()).map(|line| short(&line, TIME));
    assert_eq!(line.as_deref(), finished);
}

#[test]
fn a_step_that_makes_something_names_it_before_its_id() {
    let [made_instance, made_volume, made_snapshot] = IDS.map(|(id, _)| Some(id));
    has(
        &Step::Launch {
            zone: Some(zone()),
            throwaway: false,
        },
        made_instance,
        "launch an instance in us-east-1a",
        Some("launched demo's instance (i-1)"),
    );
    let create = |from| Step::CreateVolume { zone: zone(), from };
    has(
        &create(Source::Empty),
        made_volume,
        "create an empty volume in us-east-1a",
        Some("created demo's volume (vol-1), empty"),
    );
    has(
        &create(Source::Snapshot(snapshot(), Generation(1))),
        made_volume,
        "restore demo's snapshot (snap-1) in us-east-1a",
        Some("created demo's volume (vol-1) from its snapshot"),
    );
    let take = Step::Snapshot {
        volume: volume(),
        generation: Generation(1),
        kind: SnapshotKind::Clean,
    };
    has(
        &take,
        made_snapshot,
        "snapshot demo's volume (vol-1)",
        Some("started demo's snapshot (snap-1)"),
    );
    let fork = Step::Fork {
        head: Head::Snapshot(snapshot()),
        lineage: None,
    };
    has(
        &fork,
        Some("demo.fork-1"),
        "keep demo's snapshot (snap-1) as a fork",
        Some("kept demo's snapshot (snap-1) as demo.fork-1"),
    );
}

#[test]
fn a_step_on_the_way_to_a_mounted_drive_names_what_it_is_about() {
    has(
        &Step::Claim(instance()),
        None,
        "log in to demo's instance (i-1)",
        Some("logged in to demo's instance (i-1)"),
    );
    let raise = Step::Raise {
        volume: volume(),
        to: Generation(2),
    };
    has(
        &raise,
        None,
        "announce generation 2 on demo's volume (vol-1)",
        None,
    );
    let attach = Step::Attach {
        volume: volume(),
        instance: instance(),
        generation: Generation(2),
    };
    has(
        &attach,
        None,
        "attach demo's volume (vol-1)",
        Some("attached demo's volume (vol-1)"),
    );
    has(
        &mount(),
        None,
        "mount demo's volume (vol-1)",
        Some("mounted, generation 2"),
    );
    let formatted = Step::MarkFormatted {
        volume: volume(),
        generation: Generation(2),
    };
    has(
        &formatted,
        None,
        "record that demo's volume (vol-1) is formatted",
        None,
    );
    let identified = Step::MarkUuid {
        volume: volume(),
        uuid: Uuid::nil(),
    };
    has(
        &identified,
        None,
        "record the file system of demo's volume (vol-1)",
        None,
    );
    let keep = Step::KeepOnTermination {
        instance: instance(),
        device: "/dev/sdf".to_owned(),
    };
    has(
        &keep,
        None,
        "keep /dev/sdf of demo's instance (i-1) when it ends",
        None,
    );
}

#[test]
fn a_step_of_a_save_names_what_it_is_about() {
    let close = |volume| Step::Close {
        instance: instance(),
        volume,
    };
    has(
        &close(Some((volume(), Generation(2)))),
        None,
        "close demo on its instance (i-1)",
        Some("container stopped, demo's volume (vol-1) unmounted"),
    );
    has(
        &close(None),
        None,
        "close demo on its instance (i-1)",
        Some("closed the host"),
    );
    let detach = Step::Detach {
        volume: volume(),
        instance: instance(),
        reject: false,
    };
    has(
        &detach,
        None,
        "detach demo's volume (vol-1)",
        Some("detached demo's volume (vol-1)"),
    );
    let verify = Step::Verify {
        snapshot: snapshot(),
        uuid: None,
        kind: SnapshotKind::Clean,
    };
    has(
        &verify,
        Some(IDS[2].0),
        "verify demo's snapshot (snap-1)",
        Some("verified demo's snapshot (snap-1)"),
    );
    has(&verify, None, "verify demo's snapshot (snap-1)", None);
    has(
        &Step::ShowConsole(instance()),
        None,
        "read the console of demo's instance (i-1)",
        None,
    );
}

#[test]
fn a_step_that_destroys_names_what_is_gone() {
    let [terminate, delete, failed, old] = destroying();
    has(
        &terminate,
        None,
        "terminate demo's instance (i-1)",
        Some("terminated demo's instance (i-1)"),
    );
    has(
        &delete,
        None,
        "delete demo's volume (vol-1)",
        Some("deleted demo's volume (vol-1)"),
    );
    has(
        &failed,
        None,
        "delete demo's failed snapshot (snap-1)",
        Some("deleted demo's failed snapshot (snap-1)"),
    );
    has(
        &old,
        None,
        "delete demo's superseded snapshot (snap-1)",
        Some("deleted demo's superseded snapshot (snap-1)"),
    );
}

#[test]
fn a_wait_names_what_it_is_for() {
    let finished = |what: &Waiting| describe_wait_end(what, &demo()).map(|line| short(&line, TIME));
    for (what, under_way, line) in [
        (
            Waiting::Host(instance()),
            "wait for the instance to boot (i-1)",
            Some("demo's instance (i-1) is up"),
        ),
        (
            Waiting::Closing(instance()),
            "wait for the instance to close the drive (i-1)",
            Some("demo's instance (i-1) has closed the drive"),
        ),
        (
            Waiting::Copy(snapshot()),
            "wait for the snapshot to be completed (snap-1)",
            Some("demo's snapshot (snap-1) is completed"),
        ),
        (
            Waiting::Termination(instance()),
            "wait for the instance to be terminated (i-1)",
            Some("demo's instance (i-1) is terminated"),
        ),
        (
            Waiting::Release(volume()),
            "wait for the volume to be detached (vol-1)",
            None,
        ),
    ] {
        assert_eq!(short(&waiting(&what), TIME), under_way);
        assert_eq!(finished(&what).as_deref(), line);
    }
}
