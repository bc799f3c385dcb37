//! Orders to mount the drive's volume on a host.

use std::time::Duration;

use crate::ec2::speed;
use crate::host::{AtMount, MountOrder};
use crate::ids::{Generation, VolumeId};

use super::observed::{DEVICE, SeenVolume};

/// How long a mount waits for the device of a volume that is being attached (a few seconds,
/// mostly), before the caller looks at the attachment in EC2 again.
const WAIT: Duration = Duration::from_secs(15);

/// How long the volume may take to write unwritten data. A spot instance ends two minutes after its
/// notice; the close has 100 seconds of them, and programs that end write too.
const DRAIN: Duration = Duration::from_secs(20);

/// An order to mount `volume`, which may be formatted if it reads as `blank`.
pub(super) fn order(volume: &SeenVolume, blank: bool) -> MountOrder {
    MountOrder {
        blank,
        uuid: volume.uuid,
        size: Some(u64::from(volume.size) << 30),
        dirty_bytes: unwritten(volume.throughput),
        ..order_for_mounted(&volume.id, volume.generation)
    }
}

/// An order for a volume that is mounted already, of which no more is known.
pub(crate) fn order_for_mounted(volume: &VolumeId, generation: Generation) -> MountOrder {
    MountOrder {
        volume: volume.clone(),
        generation,
        blank: false,
        uuid: None,
        device: DEVICE.to_owned(),
        size: None,
        wait: WAIT,
        dirty_bytes: unwritten(None),
        // For whom it is mounted the plan does not know.
        frozen: AtMount::Leave,
        hot: false,
    }
}

/// How many bytes may wait to be written to a volume of `throughput` MiB a second, which is a gp3
/// volume's baseline where none was asked for: those of [`DRAIN`]. The host applies the other bound,
/// a tenth of its memory.
fn unwritten(throughput: Option<u32>) -> u64 {
    let throughput = throughput.unwrap_or(*speed::THROUGHPUT.start());
    (u64::from(throughput) << 20) * DRAIN.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_takes_what_waits_to_be_written_in_twenty_seconds() {
        assert_eq!(unwritten(None), 2500 << 20);
        assert_eq!(unwritten(Some(300)), 6000 << 20);
        assert_eq!(unwritten(Some(1000)), 20_000 << 20);
    }
}
