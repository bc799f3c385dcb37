//! The drive's request to mount a volume, as an order for the host's scripts.

use std::time::Duration;

use crate::drive::MountOrder;
use crate::drive::observed::DEVICE;
use crate::host::scripts;

/// How long a mount waits for the device of a volume that is being attached (a few seconds,
/// mostly), before the caller looks at the attachment in EC2 again.
const WAIT: Duration = Duration::from_secs(15);

/// The baseline throughput of a gp3 volume in MiB a second (EBS user guide, *General Purpose SSD
/// volumes*).
const THROUGHPUT: u32 = 125;

/// How long the volume may take to write unwritten data. A spot instance ends two minutes after its
/// notice; the close has 100 seconds of them, and programs that end write too.
const DRAIN: Duration = Duration::from_secs(20);

/// `order` for a host to which the volume is attached as [`DEVICE`].
pub(super) fn order(order: &MountOrder) -> scripts::MountOrder {
    scripts::MountOrder {
        volume: order.volume.to_string(),
        generation: order.generation.0,
        blank: order.format,
        uuid: order.uuid.map(|uuid| uuid.to_string()),
        device: DEVICE.to_owned(),
        size: order.size.map(|gib| u64::from(gib) << 30),
        wait: WAIT,
        dirty_bytes: unwritten(order.throughput.unwrap_or(THROUGHPUT)),
    }
}

/// How many bytes may wait to be written to a volume of `throughput` MiB a second: those of
/// [`DRAIN`]. The host applies the other bound, a tenth of its memory.
fn unwritten(throughput: u32) -> u64 {
    (u64::from(throughput) << 20) * DRAIN.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_takes_what_waits_to_be_written_in_twenty_seconds() {
        assert_eq!(unwritten(THROUGHPUT), 2500 << 20);
        assert_eq!(unwritten(1000), 20_000 << 20);
    }

    #[test]
    fn what_was_bought_for_the_volume_counts() {
        let with = |throughput| MountOrder {
            volume: "vol-0abc".parse().unwrap(),
            size: Some(8),
            throughput,
            generation: crate::ids::Generation(1),
            format: false,
            uuid: None,
        };
        assert_eq!(order(&with(None)).dirty_bytes, 2500 << 20);
        assert_eq!(order(&with(Some(300))).dirty_bytes, 6000 << 20);
    }
}
