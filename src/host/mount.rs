//! The order to mount a volume as the drive, and the mounted drive, read from the facts of
//! `drive mount`.

use std::time::Duration;

use super::facts::{Facts, ScriptError};
use super::room::Room;
use crate::ids::{Generation, Uuid, VolumeId};

/// A request to mount a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MountOrder {
    /// The volume; must be attached, or be on the way.
    pub volume: VolumeId,
    /// The generation of this mount.
    pub generation: Generation,
    /// Whether the volume may be formatted if it reads as blank (P5: by its tags it was created
    /// empty, attached just once, and never used). The host checks that it reads as blank, right
    /// before.
    pub blank: bool,
    /// The file system's recorded UUID, if there is one: another file system is not mounted.
    pub uuid: Option<Uuid>,
    /// The device name it was attached under, such as `/dev/sdf`: for machines whose disks have no
    /// serial numbers.
    pub device: String,
    /// The volume's size in bytes, if known: without it a device name proves nothing.
    pub size: Option<u64>,
    /// How long to wait for the device to appear.
    pub wait: Duration,
    /// The most bytes that may wait to be written (`vm.dirty_bytes`); the host uses a tenth of its
    /// memory if that is less.
    pub dirty_bytes: u64,
    /// The order for the commands that are frozen on the drive.
    pub frozen: AtMount,
    /// Whether the host fetches the blocks that the last sessions read at their start, and records which those
    /// are now.
    pub hot: bool,
}

/// The order, at a mount, for the commands that are frozen on the drive. They become processes by
/// root's hand, and whoever had the drive last may have written them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtMount {
    /// They may go on, on this mount or, if that ends before, on a later one.
    Keep,
    /// They are removed.
    Forget,
    /// They do not go on, neither on this mount nor later; the next one removes them.
    Leave,
}

/// A mounted drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedDrive {
    /// The file system's UUID.
    pub uuid: Uuid,
    /// The volume's size in bytes.
    pub size: u64,
    /// The drive's free room, if known.
    pub room: Option<Room>,
    /// Whether it was blank and is formatted now.
    pub formatted: bool,
    /// The image that its container was made from (as in [`super::scripts::Image`]), if it has one.
    pub source: Option<String>,
    /// How many containers, plugins and swarms that xdrive did not make dockerd was kept from starting.
    pub held: u32,
    /// The machine's GPUs.
    pub gpus: Gpus,
    /// How many bytes may wait to be written to it; none if that could not be limited.
    pub dirty_bytes: Option<u64>,
    /// How many commands are frozen on it.
    pub frozen: u32,
    /// How many frozen commands this mount has removed.
    pub forgotten: u32,
    /// Whether it was full, and has got back some of the room that is reserved for that.
    pub released: bool,
    /// The steps and how long they took, in order.
    pub timings: Vec<(String, Duration)>,
}

/// A host's NVIDIA GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gpus {
    /// None on its bus.
    None,
    /// Some, whose driver has not answered yet: see [`super::scripts::Host::gpus`].
    Waiting,
    /// Some, with their driver.
    Ready,
}

/// The inputs of `drive mount`.
pub(super) fn inputs(order: &MountOrder) -> [(&'static str, String); 10] {
    let blank = if order.blank { "yes" } else { "no" };
    let frozen = match order.frozen {
        AtMount::Keep => "keep",
        AtMount::Forget => "forget",
        AtMount::Leave => "",
    };
    let hot = if order.hot { "yes" } else { "no" };
    let uuid = order.uuid.map(|uuid| uuid.to_string());
    let size = order.size.map(|bytes| bytes.to_string());
    [
        ("XDRIVE_VOLUME", order.volume.to_string()),
        ("XDRIVE_GENERATION", order.generation.to_string()),
        ("XDRIVE_BLANK", blank.to_owned()),
        ("XDRIVE_UUID", uuid.unwrap_or_default()),
        ("XDRIVE_WAIT", order.wait.as_secs().to_string()),
        ("XDRIVE_DEVICE", order.device.clone()),
        ("XDRIVE_SIZE", size.unwrap_or_default()),
        ("XDRIVE_DIRTY_BYTES", order.dirty_bytes.to_string()),
        ("XDRIVE_FROZEN", frozen.to_owned()),
        ("XDRIVE_HOT", hot.to_owned()),
    ]
}

impl MountedDrive {
    pub(super) fn read(facts: &Facts) -> Result<Self, ScriptError> {
        let count = |key| facts.get(key).and_then(|text| text.parse().ok());
        Ok(Self {
            uuid: facts.require("uuid")?,
            size: facts.require("size")?,
            room: Room::read(facts),
            formatted: facts.yes("formatted"),
            source: facts.get("source").map(str::to_owned),
            held: count("held").unwrap_or(0),
            gpus: match facts.require::<String>("gpus")?.as_str() {
                "none" => Gpus::None,
                "yes" => Gpus::Waiting,
                "ready" => Gpus::Ready,
                _ => return Err(facts.garbled("gpus")),
            },
            dirty_bytes: facts.get("dirty").and_then(|text| text.parse().ok()),
            frozen: count("frozen_commands").unwrap_or(0),
            forgotten: count("forgotten").unwrap_or(0),
            released: facts.yes("released"),
            timings: facts.timings(),
        })
    }
}
