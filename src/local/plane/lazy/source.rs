//! The snapshot that a volume is made from, and how its blocks come.

use serde::{Deserialize, Serialize};

/// How the blocks of a volume come from its snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Lazy {
    /// Whether they come late at all.
    pub lazy: bool,
    /// How long half of them take at most, in milliseconds.
    pub median_ms: u32,
    /// How long 99 of 100 take at most, in milliseconds.
    pub p99_ms: u32,
    /// How many come at once.
    pub at_once: u16,
    /// How many MiB come a second, of all together.
    pub mib_a_second: u32,
}

/// Measured by others on volumes that were made from snapshots: 30 ms the first access and about 17 MB/s over a
/// whole volume (ldoughty.com, 2018), 5 MB/s by `dd` and 100 MB/s by `fio` on the same file (blog.techotom.com,
/// 2024). The slowest hundredth and how many come at once follow from these; AWS says neither.
impl Default for Lazy {
    fn default() -> Self {
        Self {
            lazy: false,
            median_ms: 30,
            p99_ms: 150,
            at_once: 32,
            mib_a_second: 100,
        }
    }
}

/// The snapshot that a volume is made from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The id.
    pub snapshot: &'a str,
    /// How its blocks come, if they come late.
    pub lazy: Option<&'a Lazy>,
    /// MiB a second at which they come from the start (`VolumeInitializationRate`), if that was bought.
    pub rate: Option<u32>,
    /// The volume's own speed, also of what is there.
    pub speed: Speed,
}

/// The most that a volume does a second (EBS user guide, *General Purpose SSD volumes*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speed {
    /// MiB.
    pub throughput: u32,
    /// Operations of at most 256 KiB.
    pub iops: u32,
}

impl Default for Speed {
    /// The baseline of gp3.
    fn default() -> Self {
        Self {
            throughput: 125,
            iops: 3000,
        }
    }
}

impl<'a> From<&'a str> for Source<'a> {
    /// A snapshot whose blocks are all there at once.
    fn from(snapshot: &'a str) -> Self {
        Self {
            snapshot,
            lazy: None,
            rate: None,
            speed: Speed::default(),
        }
    }
}
