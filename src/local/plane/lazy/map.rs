//! Which blocks of a volume have come, in a file beside the volume's: a line of JSON, padded, and a byte a block.
//!
//! Written as soon as a block is asked for: the volume may go to another instance at any moment.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use xdrive_ground::clock::Clock;

use super::super::copies::Disks;
use super::super::{PlaneError, blocks};
use super::source::{Lazy, Source, Speed};

/// The end of a map's name, after the volume's id.
pub(super) const SUFFIX: &str = ".lazy";

/// The bytes of the line.
const HEAD: usize = 512;

/// A block's byte: there is nothing of it in the snapshot.
const NONE: u8 = b'.';
/// A block's byte: it has not been asked for.
const COLD: u8 = b'c';
/// A block's byte: it has been asked for.
const WARM: u8 = b'w';

/// The line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Head {
    /// How blocks come.
    pub(super) lazy: Lazy,
    /// MiB a second at which all come from the start, in order.
    pub(super) rate: Option<u32>,
    /// The volume's own speed.
    pub(super) speed: Speed,
    /// When the volume was made.
    pub(super) since: Timestamp,
}

/// The file.
#[derive(Debug)]
pub(super) struct Map {
    file: File,
}

pub(super) fn path(disks: &Disks, volume: &str) -> PathBuf {
    disks.folder().join(format!("{volume}{SUFFIX}"))
}

/// Makes the map of a volume that is made from a snapshot now, with all of that cold.
pub(super) fn create(
    disks: &Disks,
    volume: &str,
    source: &Source<'_>,
    lazy: &Lazy,
) -> Result<(), PlaneError> {
    let data = blocks::list(disks, source.snapshot)?;
    let length = data.last().map_or(0, |last| *last as usize + 1);
    let mut bytes = vec![NONE; length];
    for block in data {
        bytes[block as usize] = COLD;
    }
    let head = Head {
        lazy: lazy.clone(),
        rate: source.rate,
        speed: source.speed,
        since: Clock::system().now(),
    };
    let path = path(disks, volume);
    let write = || -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(&head)?;
        text.resize(HEAD - 1, b' ');
        text.push(b'\n');
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&path)?;
        file.write_all(&text)?;
        file.write_all(&bytes)?;
        Ok(file.sync_all()?)
    };
    Ok(write().with_context(|| format!("writing {}", path.display()))?)
}

impl Map {
    /// Opens the map of a volume. Also returns its line, and for each block that the snapshot has whether it is
    /// still cold.
    pub(super) fn open(
        disks: &Disks,
        volume: &str,
    ) -> anyhow::Result<(Self, Head, Vec<Option<bool>>)> {
        let path = path(disks, volume);
        let reading = || format!("reading {}", path.display());
        let bytes = fs::read(&path).with_context(reading)?;
        let (head, states) = bytes
            .split_at_checked(HEAD)
            .ok_or_else(|| anyhow!("{} is cut off", path.display()))?;
        let head = serde_json::from_slice(head).with_context(reading)?;
        let states = states.iter().map(|state| match *state {
            NONE => None,
            state => Some(state == COLD),
        });
        let states = states.collect();
        let file = File::options().write(true).open(&path);
        let file = file.with_context(reading)?;
        Ok((Self { file }, head, states))
    }

    /// Writes that a block is there, or soon will be.
    pub(super) fn warm(&self, block: usize) -> std::io::Result<()> {
        self.file.write_all_at(&[WARM], (HEAD + block) as u64)
    }
}
