//! The superblock: how the file system is laid out, and what it uses.

use super::bytes::{joined, le16, le32, part};
use super::checksum::crc32c;
use super::error::Error;

/// Where it stands on the disk, and how long it is, in bytes.
pub(super) const START: u64 = 1024;
pub(super) const LENGTH: usize = 1024;

const MAGIC: u16 = 0xEF53;

/// The largest disk that EC2 has, in bytes (EBS user guide, *io2 Block Express volumes*: 64 TiB).
pub(super) const LARGEST: u64 = 64 << 40;

/// The largest block, in bytes.
const LARGEST_BLOCK: u32 = 64 << 10;

/// `s_feature_compat`.
const HAS_JOURNAL: u32 = 0x4;
const SPARSE_SUPER2: u32 = 0x200;

/// `s_feature_incompat`: what a reader has to know.
const FILE_TYPE: u32 = 0x2;
const RECOVER: u32 = 0x4;
const META_BG: u32 = 0x10;
const WIDE: u32 = 0x80;
const CHECKSUM_SEED: u32 = 0x2000;
const LARGE_FOLDER: u32 = 0x4000;
/// The features that are read: the ones above, extents, MMP, flexible groups, attributes in inodes, data in inodes, encryption (which
/// is named where it is met) and folded case (whose names are read as they were written).
const READ: u32 = 0x3_E7D6;
const COMPRESSION: u32 = 0x1;

/// Names of the others.
const NAMED: [(u32, &str); 3] = [
    (COMPRESSION, "compression"),
    (0x8, "a whole disk as another file system's journal"),
    (0x1000, "data in folders' entries (dirdata)"),
];

/// `s_feature_ro_compat`.
const SPARSE_SUPER: u32 = 0x1;
const METADATA_CHECKSUMS: u32 = 0x400;

/// `s_flags`.
const SIGNED_HASH: u32 = 0x1;
const UNSIGNED_HASH: u32 = 0x2;

/// The layout of a file system.
#[derive(Debug, Clone)]
pub(super) struct Superblock {
    /// The bytes of a block: a power of two from 1024 to 65 536.
    pub(super) block: u32,
    pub(super) blocks: u64,
    pub(super) first_data_block: u32,
    pub(super) blocks_per_group: u32,
    pub(super) inodes: u32,
    /// Not 0.
    pub(super) inodes_per_group: u32,
    /// The bytes of an inode: at least 128, at most a block.
    pub(super) inode: u16,
    /// The bytes of a group's descriptor: at least 32, at most a block.
    pub(super) descriptor: u16,
    first_meta_group: Option<u32>,
    backups: Backups,
    pub(super) has_file_types: bool,
    pub(super) has_large_folders: bool,
    /// The CRC that the checksums of metadata begin with; none if there are none.
    pub(super) seed: Option<u32>,
    /// The inode of the journal that has to be replayed.
    pub(super) to_replay: Option<Journal>,
    pub(super) hash_seed: [u32; 4],
    /// Whether names are hashed as signed bytes; none if that is not known.
    pub(super) hash_is_signed: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Journal {
    /// In this inode.
    Inside(u32),
    /// On another disk.
    Elsewhere,
}

/// The groups that have a copy of the superblock.
#[derive(Debug, Clone, Copy)]
enum Backups {
    All,
    /// 0, 1, and the powers of 3, 5 and 7.
    Sparse,
    /// 0 and these two.
    Two([u32; 2]),
}

impl Superblock {
    /// Reads the [`LENGTH`] bytes at [`START`].
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if le16(bytes, 0x38)? != MAGIC {
            return Err(Error::damaged("its disk holds no ext4"));
        }
        let compatible = le32(bytes, 0x5C)?;
        let incompatible = le32(bytes, 0x60)?;
        let read_only = le32(bytes, 0x64)?;
        supported(incompatible)?;
        let has_checksums = read_only & METADATA_CHECKSUMS != 0;
        if has_checksums && crc32c(!0, part(bytes, 0, 0x3FC)?) != le32(bytes, 0x3FC)? {
            return Err(Error::damaged("the checksum of its superblock is wrong"));
        }
        let seed = match (has_checksums, incompatible & CHECKSUM_SEED) {
            (false, _) => None,
            (true, 0) => Some(crc32c(!0, part(bytes, 0x68, 16)?)),
            (true, _) => Some(le32(bytes, 0x270)?),
        };
        let is_wide = incompatible & WIDE != 0;
        let high = if is_wide { le32(bytes, 0x150)? } else { 0 };
        let revision = le32(bytes, 0x4C)?;
        let flags = le32(bytes, 0x160)?;
        let first_meta_group = if incompatible & META_BG != 0 {
            Some(le32(bytes, 0x104)?)
        } else {
            None
        };
        let backups = if compatible & SPARSE_SUPER2 != 0 {
            Backups::Two([le32(bytes, 0x24C)?, le32(bytes, 0x250)?])
        } else if read_only & SPARSE_SUPER != 0 {
            Backups::Sparse
        } else {
            Backups::All
        };
        let to_replay = if compatible & HAS_JOURNAL == 0 || incompatible & RECOVER == 0 {
            None
        } else {
            Some(match le32(bytes, 0xE0)? {
                0 => Journal::Elsewhere,
                inode => Journal::Inside(inode),
            })
        };
        let mut hash_seed = [0; 4];
        for (at, word) in hash_seed.iter_mut().enumerate() {
            *word = le32(bytes, 0xEC + 4 * at)?;
        }
        let log_block = le32(bytes, 0x18)?;
        let found = Self {
            block: 1024_u32
                .checked_shl(log_block)
                .filter(|it| (1024..=LARGEST_BLOCK).contains(it))
                .ok_or_else(|| Error::damaged("its blocks have an impossible size"))?,
            blocks: joined(high, le32(bytes, 0x4)?),
            first_data_block: le32(bytes, 0x14)?,
            blocks_per_group: le32(bytes, 0x20)?,
            inodes: le32(bytes, 0x0)?,
            inodes_per_group: le32(bytes, 0x28)?,
            inode: if revision == 0 {
                128
            } else {
                le16(bytes, 0x58)?
            },
            descriptor: if is_wide { le16(bytes, 0xFE)? } else { 32 },
            first_meta_group,
            backups,
            has_file_types: incompatible & FILE_TYPE != 0,
            has_large_folders: incompatible & LARGE_FOLDER != 0,
            seed,
            to_replay,
            hash_seed,
            hash_is_signed: match flags & (SIGNED_HASH | UNSIGNED_HASH) {
                SIGNED_HASH => Some(true),
                UNSIGNED_HASH => Some(false),
                _ => None,
            },
        };
        found.check()?;
        Ok(found)
    }

    fn check(&self) -> Result<(), Error> {
        let block = self.block;
        let sizes = self.blocks.checked_mul(u64::from(block));
        if sizes.is_none_or(|size| size > LARGEST) || self.blocks <= self.first_data_block.into() {
            return Err(Error::damaged("its size is impossible"));
        }
        let in_a_bitmap = 1..=8 * block;
        if !in_a_bitmap.contains(&self.inodes_per_group)
            // Of 16 clusters by default, and of 32 768 at most, where there are clusters.
            || self.blocks_per_group < 8
            || self.first_data_block > 1
        {
            return Err(Error::damaged("its groups have an impossible size"));
        }
        let is_power = |size: u16| size.is_power_of_two() && u32::from(size) <= block;
        if self.inode < 128 || !is_power(self.inode) {
            return Err(Error::damaged("its inodes have an impossible size"));
        }
        if self.descriptor < 32 || !is_power(self.descriptor) {
            return Err(Error::damaged("its descriptors have an impossible size"));
        }
        Ok(())
    }

    /// The block with the superblock.
    pub(super) fn own_block(&self) -> u64 {
        START / u64::from(self.block)
    }

    pub(super) fn groups(&self) -> u64 {
        let blocks = self.blocks - u64::from(self.first_data_block);
        blocks.div_ceil(self.blocks_per_group.into())
    }

    /// The block with the descriptor of a group, and the descriptor's place in it.
    pub(super) fn descriptor_place(&self, group: u64) -> (u64, usize) {
        let a_block = self.block / u32::from(self.descriptor);
        let (nth, at) = (group / u64::from(a_block), group % u64::from(a_block));
        // Less than a block.
        let at = usize::try_from(at).unwrap_or_default() * usize::from(self.descriptor);
        if self.first_meta_group.is_none_or(|it| nth < it.into()) {
            return (self.own_block() + 1 + nth, at);
        }
        let group = nth * u64::from(a_block);
        let first = u64::from(self.first_data_block) + group * u64::from(self.blocks_per_group);
        // With blocks of 1 KiB the superblock is in block 1, also where data begins at block 0.
        let is_late = self.block == 1024 && nth == 0 && self.first_data_block == 0;
        let before = u64::from(self.has_backup(group)) + u64::from(is_late);
        (first + before, at)
    }

    fn has_backup(&self, group: u64) -> bool {
        let is_power = |of: u64| {
            let powers = std::iter::successors(Some(of), |power| power.checked_mul(of));
            powers
                .take_while(|power| *power <= group)
                .any(|power| power == group)
        };
        match self.backups {
            _ if group == 0 => true,
            Backups::All => true,
            Backups::Sparse => group == 1 || [3, 5, 7].into_iter().any(is_power),
            Backups::Two(those) => those.iter().any(|it| u64::from(*it) == group),
        }
    }
}

/// Refuses what a reader has to know and this one does not, by its name.
fn supported(incompatible: u32) -> Result<(), Error> {
    let others = incompatible & !READ;
    if others == 0 {
        return Ok(());
    }
    let mut names: Vec<String> = Vec::new();
    let mut rest = others;
    for (bit, name) in NAMED {
        if others & bit != 0 {
            names.push(name.to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 {
        names.push(format!(
            "a feature that is newer than it (incompatible {rest:#x})"
        ));
    }
    Err(Error::Unsupported(names.join(" and ")))
}
