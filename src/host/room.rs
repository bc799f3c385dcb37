//! The free room of a mounted drive, parsed from the host's fact.

use std::str::FromStr;

use super::facts::Facts;

/// A drive is nearly full with less than a tenth of it free, the usual limit of monitoring: of 8
/// GiB that is 0.8.
const PART: u64 = 10;

/// With less than this free, a drive is nearly full too. A tenth of a large drive is room for
/// years. A commit writes the container's layer once more, and an environment with a GPU's
/// libraries has 5 to 10 GiB.
const BYTES: u64 = 16 << 30;

/// With fewer inodes than this free, a drive is nearly full as well: two environments with a GPU's
/// libraries have as many files.
const INODES: u64 = 200_000;

/// The size of a mounted drive, and its free part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The volume's size in bytes.
    pub bytes: u64,
    /// The bytes that are free.
    pub free_bytes: u64,
    /// The most files and directories that the file system can hold.
    pub inodes: u64,
    /// How many of them are free.
    pub free_inodes: u64,
}

impl Room {
    /// The room in a script's facts; `None` if it cannot be parsed, since only a warning depends on
    /// it.
    pub(super) fn read(facts: &Facts) -> Option<Self> {
        facts.get("room")?.parse().ok()
    }

    /// Whether hardly any bytes are left.
    #[must_use]
    pub fn lacks_bytes(&self) -> bool {
        self.free_bytes < (self.bytes / PART).min(BYTES)
    }

    /// Whether hardly any files may be added.
    #[must_use]
    pub fn lacks_inodes(&self) -> bool {
        self.free_inodes < (self.inodes / PART).min(INODES)
    }
}

/// Text that is not a [`Room`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

impl FromStr for Room {
    type Err = NoRoom;

    fn from_str(text: &str) -> Result<Self, NoRoom> {
        let numbers: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[bytes, free_bytes, inodes, free_inodes]) => Ok(Self {
                bytes,
                free_bytes,
                inodes,
                free_inodes,
            }),
            _ => Err(NoRoom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_drives_are_nearly_full_where_it_hurts() {
        let lacks = |gib: u64, free: u64| {
            let room = Room {
                bytes: gib << 30,
                free_bytes: free << 30,
                inodes: gib << 16,
                free_inodes: gib << 16,
            };
            assert!(!room.lacks_inodes());
            room.lacks_bytes()
        };
        assert!(lacks(8, 0) && !lacks(8, 1));
        assert!(lacks(32, 3) && !lacks(32, 4));
        assert!(lacks(2048, 15) && !lacks(2048, 16));
    }

    #[test]
    fn files_are_counted_as_well() {
        let lacks = |gib: u64, free_inodes: u64| {
            let inodes = gib << 16;
            let text = format!("{0} {0} {inodes} {free_inodes}", gib << 30);
            let room: Room = text.parse().unwrap();
            assert!(!room.lacks_bytes());
            room.lacks_inodes()
        };
        assert!(lacks(8, 52_427) && !lacks(8, 52_429));
        assert!(lacks(2048, 199_999) && !lacks(2048, 200_000));
    }

    #[test]
    fn half_a_fact_is_no_room() {
        for text in ["", "1 2 3", "1 2 3 x", "1 2 3 4 5", "1  2 3 4"] {
            assert_eq!(text.parse::<Room>(), Err(NoRoom), "{text}");
        }
    }
}
