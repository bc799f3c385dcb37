//! Prices of storage, in US cents a month in us-east-1 (<https://aws.amazon.com/ebs/pricing/>). Those of other
//! regions differ by up to a half.

use super::{GibiBytes, Speed};

/// The price of a GiB of a gp3 volume.
const VOLUME_CENTS: u64 = 8;

/// The price of a GiB of a standard snapshot.
const SNAPSHOT_CENTS: u64 = 5;

/// The cost of a gp3 volume of `size` and `speed`, about.
#[must_use]
pub fn volume_cents(size: GibiBytes, speed: Speed) -> u64 {
    u64::from(size) * VOLUME_CENTS + speed.cents()
}

/// The cost of a snapshot of a volume of `size` at most, about.
#[must_use]
pub fn snapshot_cents(size: GibiBytes) -> u64 {
    stored_cents(u64::from(size) << 30)
}

/// The cost of so many bytes in snapshots, about.
#[must_use]
pub fn stored_cents(bytes: u64) -> u64 {
    (bytes >> 20) * SNAPSHOT_CENTS / 1024
}
