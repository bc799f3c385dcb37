//! The values that the real code reads, from the model's records: ids, tags, moments.

use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use xdrive::clock::{BootTime, Clock};
use xdrive::drive::tags::{self, Carried, Identity, Leaving, SnapshotKind, SnapshotTags};
use xdrive::drive::{CopyOrder, CopySource};
use xdrive::ec2;
use xdrive::ids::{DriveAt, DriveName, Generation, InstanceId, SessionId, SnapshotId, VolumeId};

use super::copies::Original;
use super::runs;
use super::world::{Deadline, Instance, Mark, Snapshot, Tick, Volume};

/// The length of a tick. A re-read counts for 10 s: in the tick after it, and not in the next. A
/// host's answer in a look counts for 5 s: in the tick of its look.
pub(super) const TICK: Duration = Duration::from_secs(6);

/// How long a snapshot may be unreadable.
pub(super) const VERDICT: Duration = Duration::from_secs(2 * TICK.as_secs());

/// The device name of the drive's volume, as the record has it.
const DEVICE: &str = xdrive::drive::observed::DEVICE;

/// The volume id that AWS gives to a copied snapshot.
const COPIED: &str = "vol-ffffffff";

pub(super) fn moment(tick: Tick) -> BootTime {
    static START: OnceLock<BootTime> = OnceLock::new();
    *START.get_or_init(|| Clock::system().boot()) + TICK * u32::from(tick)
}

/// How many whole ticks ago that was.
pub(super) fn age(moment: BootTime, now: Tick) -> u64 {
    self::moment(now).since(moment).as_secs() / TICK.as_secs()
}

pub(super) fn ticks(count: u32) -> Duration {
    TICK * count
}

pub(super) fn whole_ticks(span: Duration) -> Tick {
    Tick::try_from(span.as_secs() / TICK.as_secs()).unwrap()
}

pub(super) fn drive() -> &'static DriveName {
    static NAME: OnceLock<DriveName> = OnceLock::new();
    NAME.get_or_init(|| "demo".parse().unwrap())
}

/// The name that a drive gets which is renamed.
pub(super) fn other_name() -> DriveName {
    "other".parse().unwrap()
}

pub(super) fn who(session: u8) -> Identity {
    Identity::new(self::session(session), "arn:demo".to_owned())
}

pub(super) fn session(number: u8) -> SessionId {
    SessionId(format!("s{number}"))
}

pub(super) fn instance_id(id: u8) -> InstanceId {
    format!("i-{id:02x}").parse().unwrap()
}

pub(super) fn volume_id(id: u8) -> VolumeId {
    format!("vol-{id:02x}").parse().unwrap()
}

pub(super) fn snapshot_id(id: u8) -> SnapshotId {
    format!("snap-{id:02x}").parse().unwrap()
}

/// The number in an id of the model.
pub(super) fn number(id: &str) -> u8 {
    let (_, hex) = id.split_once('-').unwrap();
    u8::from_str_radix(hex, 16).unwrap()
}

pub(super) fn op(number: u8) -> String {
    format!("op-{number}")
}

pub(super) fn zone(number: u8) -> ec2::Zone {
    ec2::Zone(["a", "b"][usize::from(number)].to_owned())
}

pub(super) fn zone_number(zone: &ec2::Zone) -> u8 {
    u8::from(zone.0 == "b")
}

pub(super) fn generation(number: u8) -> Generation {
    Generation(number.into())
}

pub(super) fn generation_number(generation: Generation) -> u8 {
    u8::try_from(generation.0).unwrap()
}

/// The wall clock of every laptop at that tick.
pub(super) fn wall(tick: Tick) -> Timestamp {
    Timestamp::UNIX_EPOCH + TICK * u32::from(tick)
}

/// The tick of that moment of the wall clock.
pub(super) fn tick(wall: Timestamp) -> Deadline {
    let seconds = u64::try_from(wall.as_second()).unwrap();
    Deadline(Tick::try_from(seconds / TICK.as_secs()).unwrap())
}

/// The creation time of a resource, by AWS's clock, of which only the order counts.
fn stamp(id: u8) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_secs(id.into())
}

/// When an instance was launched.
pub(super) fn instance_stamp(id: u8) -> Timestamp {
    stamp(id)
}

pub(super) fn instance(id: u8, record: &Instance) -> ec2::Instance {
    let mapping = |(volume, delete_on_termination)| ec2::Mapping {
        device: DEVICE.to_owned(),
        volume: volume_id(volume),
        delete_on_termination,
    };
    ec2::Instance {
        id: instance_id(id),
        state: record.state,
        zone: zone(record.zone),
        subnet: None,
        instance_type: "t3.medium".to_owned(),
        arch: None,
        market: ec2::Market::Spot,
        address: Some([127, 0, 0, id].into()),
        private: None,
        ipv6: None,
        launched: stamp(id),
        image: "ami-1".to_owned(),
        mappings: record.disk.map(mapping).into_iter().collect(),
        groups: Vec::new(),
        ended: None,
        has_role: false,
        has_public: false,
        tags: tags::instance(drive(), &who(record.session), "a key", wall(record.until.0))
            .into_iter()
            .chain(thrown(record.thrown))
            .collect(),
    }
}

/// The tag of what that session throws away.
fn thrown(by: Option<u8>) -> ec2::Tags {
    by.map(|by| tags::throwaway(&session(by)))
        .unwrap_or_default()
}

pub(super) fn volume(id: u8, record: &Volume) -> ec2::Volume {
    let base = generation(record.base);
    let by = who(record.session);
    let carried = Carried {
        run: runs::tags(record.run),
        ..Carried::default()
    };
    let mut tags = tags::volume(drive(), &by, base, record.blank, None, &carried);
    if record.generation != record.base {
        tags.extend(tags::raised(&by, generation(record.generation)));
    }
    if record.formatted {
        tags.extend(tags::formatted(generation(record.generation)));
    }
    tags.extend(thrown(record.thrown));
    ec2::Volume {
        id: volume_id(id),
        state: record.state,
        zone: zone(record.zone),
        size: 8,
        created: stamp(id),
        snapshot: record.snapshot.map(snapshot_id),
        attachment: record.attachment.map(|attachment| ec2::Attachment {
            instance: instance_id(attachment.instance),
            device: DEVICE.to_owned(),
            state: attachment.state,
            since: Timestamp::UNIX_EPOCH,
            delete_on_termination: attachment.dies_with_it,
        }),
        tags,
    }
}

pub(super) fn snapshot(id: u8, record: &Snapshot) -> ec2::Snapshot {
    let own = SnapshotTags {
        generation: generation(record.generation),
        kind: record.kind,
        op: op(record.op),
        uuid: None,
        number: record.number.into(),
    };
    let carried = Carried {
        run: runs::tags(record.run),
        ..Carried::default()
    };
    let mut tags = tags::snapshot(drive(), &who(0), &own, &carried);
    let leaving = record.mark.map(|mark| match mark {
        Mark::Deleting => Leaving::Deleted,
        Mark::Renaming => Leaving::Renamed(other_name()),
    });
    tags.extend(
        leaving
            .map(|leaving| leaving.tags(&who(0)))
            .unwrap_or_default(),
    );
    // They have the op of all copies of one original.
    let copied = record.forked.map(|original| copy_order(original).tags);
    tags.extend(copied.unwrap_or_default());
    let of = match record.volume {
        Some(volume) => volume_id(volume),
        None => COPIED.parse().unwrap(),
    };
    ec2::Snapshot {
        id: snapshot_id(id),
        state: record.state,
        volume: Some(of),
        size: 8,
        full_size: None,
        started: Timestamp::UNIX_EPOCH,
        message: String::new(),
        tags,
    }
}

/// The order for a copy of `original`, with the tags that a fork gives it.
pub(super) fn copy_order(original: Original) -> CopyOrder {
    let source = snapshot_id(original.id());
    let generation = generation(original.generation());
    let own = SnapshotTags {
        generation,
        kind: SnapshotKind::Clean,
        op: op(0),
        uuid: None,
        number: 0,
    };
    let of = tags::snapshot(&other_name(), &who(0), &own, &Carried::default());
    let from = DriveAt {
        name: other_name(),
        generation: Some(generation),
    };
    let (own, tags) = tags::fork(&of, &source, &from).unwrap();
    CopyOrder {
        region: "eu-central-1".to_owned(),
        source: CopySource::Snapshot(source),
        op: own.op,
        tags,
    }
}
