//! A reader of ext4, and of ext2 and ext3, for disks that nobody here has made: what is on them is
//! input like a packet of the network.
//!
//! Every number that is read is checked before something is allocated, read or repeated by it; a
//! walk has a bound that the disk does not set; nothing recurses deeper than the format allows. What
//! cannot be read is an [`Error`]: damage, or a feature by its name.
//!
//! A journal that was not replayed is replayed in memory. Checksums of metadata are compared where
//! the file system has them, as the kernel does: an extent that points elsewhere is not another
//! file's content. Nothing here knows where the bytes come from ([`Disk`]).
//!
//! Sources: Linux kernel documentation, *ext4 Data Structures and Algorithms*; the kernel's
//! `fs/ext4` and `fs/jbd2`, where that says less than they do.

mod bytes;
mod checksum;
mod content;
mod error;
mod folder;
mod hash;
mod index;
mod inode;
mod journal;
mod map;
mod superblock;
#[cfg(test)]
mod tests;
mod volume;
mod whole;

pub(super) use error::Error;
pub(super) use inode::{Inode, Kind};
pub(super) use volume::Disk;
pub(super) use whole::Ext4;
