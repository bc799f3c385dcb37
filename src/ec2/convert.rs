//! Conversions from the SDK's types, where everything is optional, to those of [`super::model`].
//!
//! A resource without an id, or in a state unknown here, is an error: no plan is made from an
//! incomplete list. Nothing here makes a call.

use std::fmt::Display;
use std::str::FromStr;

use aws_sdk_ec2::operation::create_snapshot::CreateSnapshotOutput;
use aws_sdk_ec2::operation::create_volume::CreateVolumeOutput;
use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types as sdk;
use jiff::Timestamp;

use super::{
    Attachment, AttachmentState, GibiBytes, Instance, InstanceState, Mapping, Market, Snapshot,
    SnapshotState, Tags, Volume, VolumeState, Zone,
};

/// The problem of an answer that cannot be converted.
type Doubt = String;

pub(super) fn instance(answer: &sdk::Instance) -> Result<Instance, Doubt> {
    let id = id("an instance's id", answer.instance_id())?;
    let about = |what: &str| format!("{id}'s {what}");
    let state = answer.state().and_then(sdk::InstanceState::name);
    Ok(Instance {
        state: match state {
            Some(sdk::InstanceStateName::Pending) => InstanceState::Pending,
            Some(sdk::InstanceStateName::Running) => InstanceState::Running,
            Some(sdk::InstanceStateName::Stopping) => InstanceState::Stopping,
            Some(sdk::InstanceStateName::Stopped) => InstanceState::Stopped,
            Some(sdk::InstanceStateName::ShuttingDown) => InstanceState::ShuttingDown,
            Some(sdk::InstanceStateName::Terminated) => InstanceState::Terminated,
            other => return Err(unknown(&about("state"), other)),
        },
        zone: zone(
            &about("zone"),
            answer
                .placement()
                .and_then(sdk::Placement::availability_zone),
        )?,
        subnet: match (answer.subnet_id(), answer.vpc_id()) {
            (Some(subnet), Some(vpc)) => Some((
                self::id(&about("subnet"), Some(subnet))?,
                self::id(&about("VPC"), Some(vpc))?,
            )),
            _ => None,
        },
        instance_type: answer
            .instance_type()
            .ok_or_else(|| absent(&about("type")))?
            .as_str()
            .to_owned(),
        arch: answer
            .architecture()
            .and_then(|arch| arch.as_str().parse().ok()),
        market: match answer.instance_lifecycle() {
            Some(sdk::InstanceLifecycleType::Spot) => Market::Spot,
            _ => Market::OnDemand,
        },
        address: address(
            &about("address"),
            [answer.public_ip_address(), answer.private_ip_address()],
        )?,
        private: address(&about("private address"), [answer.private_ip_address()])?,
        ipv6: address(
            &about("IPv6 address"),
            [answer.ipv6_address(), of_an_interface(answer)],
        )?,
        launched: time(&about("launch time"), answer.launch_time())?,
        image: answer.image_id().unwrap_or_default().to_owned(),
        mappings: mappings(&about("disks"), answer.block_device_mappings())?,
        groups: answer
            .security_groups()
            .iter()
            .map(|group| self::id(&about("security group"), group.group_id()))
            .collect::<Result<_, _>>()?,
        ended: answer.state_transition_reason().and_then(time_in),
        has_role: answer.iam_instance_profile().is_some(),
        has_public: answer.public_ip_address().is_some(),
        tags: tags(answer.tags()),
        id,
    })
}

/// The moment in a `StateTransitionReason`, such as `User initiated (2026-11-29 12:07:05 GMT)` (EC2 user guide,
/// *Troubleshoot Amazon EC2 instance termination issues*).
fn time_in(reason: &str) -> Option<Timestamp> {
    let (_, at) = reason.strip_suffix(" GMT)")?.split_once('(')?;
    let at = jiff::civil::DateTime::strptime("%Y-%m-%d %H:%M:%S", at).ok()?;
    Some(at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

/// The first address in `given`. A terminated instance has none, one in a private subnet no public
/// one.
fn address<T: FromStr, const N: usize>(
    what: &str,
    given: [Option<&str>; N],
) -> Result<Option<T>, Doubt> {
    given
        .into_iter()
        .flatten()
        .find(|address| !address.is_empty())
        .map(|address| address.parse().map_err(|_| unknown(what, Some(&address))))
        .transpose()
}

/// The first IPv6 address of an instance's network interfaces (EC2 API reference,
/// `InstanceNetworkInterface`).
fn of_an_interface(answer: &sdk::Instance) -> Option<&str> {
    let interfaces = answer.network_interfaces().iter();
    let mut addresses = interfaces.flat_map(sdk::InstanceNetworkInterface::ipv6_addresses);
    addresses.find_map(sdk::InstanceIpv6Address::ipv6_address)
}

fn mappings(what: &str, disks: &[sdk::InstanceBlockDeviceMapping]) -> Result<Vec<Mapping>, Doubt> {
    disks
        .iter()
        .filter_map(|disk| Some((disk.device_name()?, disk.ebs()?)))
        .map(|(device, ebs)| {
            Ok(Mapping {
                device: device.to_owned(),
                volume: id(what, ebs.volume_id())?,
                delete_on_termination: ebs.delete_on_termination().unwrap_or(false),
            })
        })
        .collect()
}

pub(super) fn volume(answer: &sdk::Volume) -> Result<Volume, Doubt> {
    let id = id("a volume's id", answer.volume_id())?;
    let about = |what: &str| format!("{id}'s {what}");
    Ok(Volume {
        state: match answer.state() {
            Some(sdk::VolumeState::Creating) => VolumeState::Creating,
            Some(sdk::VolumeState::Available) => VolumeState::Available,
            Some(sdk::VolumeState::InUse) => VolumeState::InUse,
            Some(sdk::VolumeState::Deleting) => VolumeState::Deleting,
            Some(sdk::VolumeState::Deleted) => VolumeState::Deleted,
            Some(sdk::VolumeState::Error) => VolumeState::Error,
            other => return Err(unknown(&about("state"), other)),
        },
        zone: zone(&about("zone"), answer.availability_zone())?,
        size: size(&about("size"), answer.size())?,
        created: time(&about("creation time"), answer.create_time())?,
        // EC2 writes an empty id for a volume that was made empty.
        snapshot: optional_id(&about("snapshot"), answer.snapshot_id())?,
        // A drive is never on a Multi-Attach volume, so there is at most one.
        attachment: answer
            .attachments()
            .first()
            .map(|attachment| self::attachment(&about("attachment"), attachment))
            .transpose()?,
        tags: tags(answer.tags()),
        id,
    })
}

fn attachment(what: &str, answer: &sdk::VolumeAttachment) -> Result<Attachment, Doubt> {
    Ok(Attachment {
        instance: id(what, answer.instance_id())?,
        device: answer.device().unwrap_or_default().to_owned(),
        state: match answer.state() {
            Some(sdk::VolumeAttachmentState::Attaching) => AttachmentState::Attaching,
            Some(sdk::VolumeAttachmentState::Attached) => AttachmentState::Attached,
            Some(sdk::VolumeAttachmentState::Detaching) => AttachmentState::Detaching,
            Some(sdk::VolumeAttachmentState::Detached) => AttachmentState::Detached,
            Some(sdk::VolumeAttachmentState::Busy) => AttachmentState::Busy,
            other => return Err(unknown(what, other)),
        },
        since: time(what, answer.attach_time())?,
        delete_on_termination: answer.delete_on_termination().unwrap_or(false),
    })
}

/// `CreateVolume` answers with a volume under another name.
pub(super) fn created_volume(answer: CreateVolumeOutput) -> Result<Volume, Doubt> {
    volume(
        &sdk::Volume::builder()
            .set_volume_id(answer.volume_id)
            .set_state(answer.state)
            .set_availability_zone(answer.availability_zone)
            .set_size(answer.size)
            .set_create_time(answer.create_time)
            .set_snapshot_id(answer.snapshot_id)
            .set_attachments(answer.attachments)
            .set_tags(answer.tags)
            .build(),
    )
}

pub(super) fn snapshot(answer: &sdk::Snapshot) -> Result<Snapshot, Doubt> {
    let id = id("a snapshot's id", answer.snapshot_id())?;
    let about = |what: &str| format!("{id}'s {what}");
    Ok(Snapshot {
        state: match answer.state() {
            // `recovering`: on its way back from the recycle bin.
            Some(sdk::SnapshotState::Pending | sdk::SnapshotState::Recovering) => {
                SnapshotState::Pending
            }
            Some(sdk::SnapshotState::Completed) => SnapshotState::Completed,
            Some(sdk::SnapshotState::Error) => SnapshotState::Error,
            other => return Err(unknown(&about("state"), other)),
        },
        volume: optional_id(&about("volume"), answer.volume_id())?,
        size: size(&about("size"), answer.volume_size())?,
        // It is only reported.
        full_size: answer
            .full_snapshot_size_in_bytes()
            .and_then(|bytes| u64::try_from(bytes).ok()),
        started: time(&about("start time"), answer.start_time())?,
        message: answer.state_message().unwrap_or_default().to_owned(),
        tags: tags(answer.tags()),
        id,
    })
}

/// `CreateSnapshot` answers with a snapshot under another name.
pub(super) fn created_snapshot(answer: CreateSnapshotOutput) -> Result<Snapshot, Doubt> {
    snapshot(
        &sdk::Snapshot::builder()
            .set_snapshot_id(answer.snapshot_id)
            .set_state(answer.state)
            .set_volume_id(answer.volume_id)
            .set_volume_size(answer.volume_size)
            .set_start_time(answer.start_time)
            .set_state_message(answer.state_message)
            .set_tags(answer.tags)
            .build(),
    )
}

pub(super) fn tags(answer: &[sdk::Tag]) -> Tags {
    answer
        .iter()
        .filter_map(|tag| {
            Some((
                tag.key()?.to_owned(),
                tag.value().unwrap_or_default().to_owned(),
            ))
        })
        .collect()
}

pub(super) fn id<T: FromStr<Err: Display>>(what: &str, given: Option<&str>) -> Result<T, Doubt> {
    given
        .ok_or_else(|| absent(what))?
        .parse()
        .map_err(|error| format!("{what}: {error}"))
}

fn optional_id<T: FromStr<Err: Display>>(
    what: &str,
    given: Option<&str>,
) -> Result<Option<T>, Doubt> {
    match given {
        None | Some("") => Ok(None),
        given => id(what, given).map(Some),
    }
}

pub(super) fn zone(what: &str, given: Option<&str>) -> Result<Zone, Doubt> {
    given
        .map(|zone| Zone(zone.to_owned()))
        .ok_or_else(|| absent(what))
}

fn size(what: &str, given: Option<i32>) -> Result<GibiBytes, Doubt> {
    let given = given.ok_or_else(|| absent(what))?;
    given.try_into().map_err(|_| unknown(what, Some(&given)))
}

pub(super) fn time(what: &str, given: Option<&DateTime>) -> Result<Timestamp, Doubt> {
    let given = given.ok_or_else(|| absent(what))?;
    i32::try_from(given.subsec_nanos())
        .ok()
        .and_then(|nanos| Timestamp::new(given.secs(), nanos).ok())
        .ok_or_else(|| unknown(what, Some(given)))
}

pub(super) fn absent(what: &str) -> Doubt {
    format!("{what} is missing")
}

fn unknown(what: &str, given: Option<&impl std::fmt::Debug>) -> Doubt {
    match given {
        None => absent(what),
        Some(given) => format!("{what} is {given:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_instance_is_read_from_the_reason_of_its_transition() {
        let read = |reason| time_in(reason).map(|at| at.to_string());
        let asked = "User initiated (2026-11-29 12:07:05 GMT)";
        assert_eq!(read(asked).as_deref(), Some("2026-11-29T12:07:05Z"));
        for other in ["", "Server.InternalError", "User initiated", "x (soon GMT)"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
