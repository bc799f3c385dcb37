//! A journal that was not replayed: a snapshot was taken while the file system was mounted, or after
//! a crash. It is replayed in memory.
//!
//! Source: the kernel's `fs/jbd2/recovery.c` and `include/linux/jbd2.h`; all numbers are big-endian.
//! All that was committed counts, up to the first transaction that was not.

mod head;
mod log;
mod tags;

use super::error::Error;
use super::superblock;
use super::volume::Volume;

use head::Journal;
use log::Log;

/// The volume as its journal has it.
pub(super) fn replayed(volume: Volume) -> Result<Volume, Error> {
    let inode = match volume.superblock.to_replay {
        None => return Ok(volume),
        Some(superblock::Journal::Elsewhere) => {
            let what = "a journal on another disk, which is not replayed yet";
            return Err(Error::Unsupported(what.to_owned()));
        }
        Some(superblock::Journal::Inside(inode)) => inode,
    };
    let Some(journal) = Journal::open(&volume, inode)? else {
        return Ok(volume);
    };
    let blocks = Log::read(&journal)?;
    drop(journal);
    volume.replay(blocks)
}
