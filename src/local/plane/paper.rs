//! What is on a paper disk: as much of an ext4 as tells whose it is and how it was left.

use serde::{Deserialize, Serialize};

use super::BLOCK;

/// An ext4's superblock, in its three words that matter (Linux kernel documentation, *ext4 Data
/// Structures and Algorithms*, *Super Block*).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaperSuperblock {
    /// The file system's UUID.
    pub uuid: [u8; 16],
    /// `s_state`: 1 is cleanly unmounted, 2 has errors.
    pub state: u16,
    /// Whether its journal is to be replayed: it is mounted, or was when this was copied.
    pub recover: bool,
}

impl PaperSuperblock {
    /// As `mkfs` or an unmount leaves it.
    #[must_use]
    pub fn clean(uuid: [u8; 16]) -> Self {
        Self {
            uuid,
            state: 1,
            recover: false,
        }
    }

    /// As it is while it is mounted.
    #[must_use]
    pub fn mounted(uuid: [u8; 16]) -> Self {
        Self {
            recover: true,
            ..Self::clean(uuid)
        }
    }

    /// The disk's first block.
    #[must_use]
    pub fn block(&self) -> Vec<u8> {
        const START: usize = 1024;
        let mut block = vec![0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| {
            block[START + at..START + at + bytes.len()].copy_from_slice(bytes);
        };
        put(0x38, &0xEF53_u16.to_le_bytes());
        put(0x3A, &self.state.to_le_bytes());
        // Revision 1: features and UUID count.
        put(0x4C, &1_u32.to_le_bytes());
        let incompatible = if self.recover { 0x0246_u32 } else { 0x0242 };
        put(0x60, &incompatible.to_le_bytes());
        put(0x68, &self.uuid);
        block
    }
}
