//! The content of a snapshot's file, block by block. Holes of the file are unwritten blocks.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use anyhow::Context as _;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::PlaneError;
use super::copies::Disks;

/// The size of a block, in bytes (EBS user guide, *Concepts for EBS direct APIs*).
pub const BLOCK: usize = 512 << 10;

/// The blocks of a snapshot that may hold data, in order.
pub(super) fn list(disks: &Disks, snapshot: &str) -> Result<Vec<u32>, PlaneError> {
    let path = disks.existing(snapshot)?;
    let reading = || format!("reading {}", path.display());
    let file = File::open(&path).with_context(reading)?;
    let mut blocks: Vec<u32> = Vec::new();
    let mut from = 0;
    loop {
        let data = match seek(&file, SeekFrom::Data(from)) {
            Ok(data) => data,
            // The rest of the file is a hole.
            Err(Errno::NXIO) => return Ok(blocks),
            Err(error) => return Err(anyhow::Error::new(error).context(reading()).into()),
        };
        let hole = seek(&file, SeekFrom::Hole(data)).with_context(reading)?;
        let next = blocks.last().map_or(0, |last| last + 1);
        let first = index(data).with_context(reading)?.max(next);
        let last = index(hole.saturating_sub(1)).with_context(reading)?;
        blocks.extend(first..=last);
        from = hole;
    }
}

/// Reads a whole block of a snapshot.
pub(super) fn read(disks: &Disks, snapshot: &str, index: u32) -> Result<Vec<u8>, PlaneError> {
    let path = disks.existing(snapshot)?;
    let reading = || format!("reading {}", path.display());
    let file = File::open(&path).with_context(reading)?;
    let mut block = vec![0; BLOCK];
    file.read_exact_at(&mut block, u64::from(index) * BLOCK as u64)
        .with_context(reading)?;
    Ok(block)
}

fn index(offset: u64) -> anyhow::Result<u32> {
    Ok(u32::try_from(offset / BLOCK as u64)?)
}
