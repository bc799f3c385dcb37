//! The superblock of an ext4 in a snapshot: whether it is the drive's, and how it was left.
//!
//! Source: Linux kernel documentation, *ext4 Data Structures and Algorithms*, *Super Block*. It
//! stands at byte 1024 of the disk. Only its UUID, features and state are read; `e2fsck` finds other
//! damage at the next mount. The signatures of others are those that blkid knows.

use crate::ids::Uuid;

use super::tags::SnapshotKind;

/// The superblock's offset on the disk, in bytes.
const START: usize = 1024;
/// Offsets of its fields, in bytes; all numbers are little-endian.
const MAGIC_AT: usize = 0x38;
const STATE_AT: usize = 0x3A;
const INCOMPATIBLE_AT: usize = 0x60;
const READ_ONLY_AT: usize = 0x64;
const UUID_AT: usize = 0x68;

const MAGIC: u16 = 0xEF53;
/// `s_state`: unmounted, or mounted with a journal (to be replayed).
const VALID: u16 = 1;
/// `s_state`: the kernel found errors in it.
const ERRORS: u16 = 2;
/// `s_state`: files that were deleted while open are being cleaned up.
const ORPHANS: u16 = 4;
/// `s_feature_incompat`: the journal is to be replayed.
const RECOVER: u32 = 4;

/// Checks a snapshot's first block (none if nothing was ever written there): an ext4 with the
/// recorded UUID, if there is one, and without errors. In a [`SnapshotKind::Clean`] snapshot it has
/// been unmounted; in others its journal may be to be replayed. The error is what is wrong.
pub fn check(
    block: Option<&[u8]>,
    recorded: Option<Uuid>,
    kind: SnapshotKind,
) -> Result<(), String> {
    let block = block.ok_or("its beginning was never written")?;
    let bytes = |at: usize| block.get(START + at..);
    let short = |at| Some(u16::from_le_bytes(*bytes(at)?.first_chunk()?));
    let long = |at| Some(u32::from_le_bytes(*bytes(at)?.first_chunk()?));
    let uuid = || Some(Uuid::from_bytes(*bytes(UUID_AT)?.first_chunk()?));
    let (Some(magic), Some(state), Some(incompatible), Some(uuid)) = (
        short(MAGIC_AT),
        short(STATE_AT),
        long(INCOMPATIBLE_AT),
        uuid(),
    ) else {
        return Err("its beginning is cut short".to_owned());
    };
    if magic != MAGIC {
        return Err("it holds no ext4".to_owned());
    }
    if let Some(recorded) = recorded
        && recorded != uuid
    {
        return Err(format!("its UUID is {uuid}, and the drive's is {recorded}"));
    }
    if state & ERRORS != 0 {
        return Err("its file system has errors".to_owned());
    }
    let recovering = incompatible & RECOVER != 0 || state & ORPHANS != 0;
    if kind == SnapshotKind::Clean && (recovering || state & VALID == 0) {
        return Err("it was not unmounted when it was taken".to_owned());
    }
    Ok(())
}

/// Features of an ext4 that an ext3 does not have, of `s_feature_incompat` and
/// `s_feature_ro_compat`: any of them makes it one, as for blkid and the host.
const EXT4: (u32, u32) = (!0x1E, !0x07);

/// The signatures of other things at the beginning of a disk: offset, bytes, and what it is.
const OTHERS: [(usize, &[u8], &str); 9] = [
    (512, b"EFI PART", "a partition table (GPT)"),
    (512, b"LABELONE", "a physical volume of LVM"),
    (0, b"LABELONE", "a physical volume of LVM"),
    (0, b"LUKS\xba\xbe", "an encrypted disk (LUKS)"),
    (0, b"XFSB", "an XFS"),
    (0x1_0040, b"_BHRfS_M", "a Btrfs"),
    (4086, b"SWAPSPACE2", "swap space"),
    (3, b"NTFS    ", "an NTFS"),
    (510, b"\x55\xaa", "a partition table (MBR)"),
];

/// How an ext4 that xdrive did not make was left, by a snapshot's first block (none if nothing was
/// ever written there): one that was not unmounted, or has errors, is checked at its first mount, as
/// after a crash. The error is what is there instead.
pub fn identify(block: Option<&[u8]>) -> Result<SnapshotKind, &'static str> {
    let block = block.ok_or("nothing at its beginning")?;
    let bytes = |at: usize| block.get(START + at..);
    let short = |at| Some(u16::from_le_bytes(*bytes(at)?.first_chunk()?));
    let long = |at| Some(u32::from_le_bytes(*bytes(at)?.first_chunk()?));
    if short(MAGIC_AT) != Some(MAGIC) {
        let mut others = OTHERS.iter();
        let other = others.find(|(at, bytes, _)| {
            let there = block.get(*at..).unwrap_or_default();
            there.starts_with(bytes)
        });
        return Err(other.map_or("nothing that is known", |(_, _, what)| what));
    }
    let features = [INCOMPATIBLE_AT, READ_ONLY_AT].map(|at| long(at).unwrap_or_default());
    if features[0] & EXT4.0 == 0 && features[1] & EXT4.1 == 0 {
        return Err("an ext2 or ext3");
    }
    Ok(match check(Some(block), None, SnapshotKind::Clean) {
        Ok(()) => SnapshotKind::Clean,
        Err(_) => SnapshotKind::Crashed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::plane::PaperSuperblock;

    const MINE: Uuid = Uuid::from_bytes(*b"0123456789abcdef");

    fn verdict(sheet: &PaperSuperblock, kind: SnapshotKind) -> Result<(), String> {
        check(Some(&sheet.block()), Some(MINE), kind)
    }

    #[test]
    fn a_drive_that_was_unmounted_is_sound() {
        for kind in [SnapshotKind::Clean, SnapshotKind::Crashed] {
            assert_eq!(
                verdict(&PaperSuperblock::clean(MINE.into_bytes()), kind),
                Ok(())
            );
        }
    }

    #[test]
    fn a_journal_to_be_replayed_is_sound_only_where_the_host_vanished() {
        let mounted = PaperSuperblock::mounted(MINE.into_bytes());
        assert_eq!(verdict(&mounted, SnapshotKind::Crashed), Ok(()));
        let problem = verdict(&mounted, SnapshotKind::Clean).unwrap_err();
        assert!(problem.contains("not unmounted"), "{problem}");
    }

    #[test]
    fn errors_and_other_file_systems_are_never_sound() {
        let broken = PaperSuperblock {
            state: VALID | ERRORS,
            ..PaperSuperblock::clean(MINE.into_bytes())
        };
        let foreign = PaperSuperblock::clean(*b"fedcba9876543210");
        for kind in [SnapshotKind::Clean, SnapshotKind::Crashed] {
            verdict(&broken, kind).unwrap_err();
            let problem = verdict(&foreign, kind).unwrap_err();
            assert!(problem.contains(&MINE.to_string()), "{problem}");
            for block in [None, Some(&[0; 4096][..]), Some(&[0; 100][..])] {
                check(block, None, kind).unwrap_err();
            }
        }
    }

    #[test]
    fn without_a_record_any_uuid_will_do() {
        let block = PaperSuperblock::clean(*b"fedcba9876543210").block();
        assert_eq!(check(Some(&block), None, SnapshotKind::Clean), Ok(()));
    }

    #[test]
    fn another_file_system_is_named() {
        let ext4 = PaperSuperblock::clean(MINE.into_bytes());
        assert_eq!(identify(Some(&ext4.block())), Ok(SnapshotKind::Clean));
        let mounted = PaperSuperblock::mounted(MINE.into_bytes());
        assert_eq!(identify(Some(&mounted.block())), Ok(SnapshotKind::Crashed));
        let mut ext3 = ext4.block();
        ext3[START + INCOMPATIBLE_AT..][..2].copy_from_slice(&[0x02, 0]);
        assert_eq!(identify(Some(&ext3)), Err("an ext2 or ext3"));
        assert_eq!(identify(None), Err("nothing at its beginning"));
        for (at, bytes, what) in OTHERS {
            let mut block = vec![0; 1 << 19];
            block[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(identify(Some(&block)), Err(what));
        }
        let mut gpt = vec![0; 1 << 19];
        gpt[510..520].copy_from_slice(b"\x55\xaaEFI PART");
        assert_eq!(identify(Some(&gpt)), Err("a partition table (GPT)"));
        for short in [&[][..], &[0; 1030][..]] {
            assert_eq!(identify(Some(short)), Err("nothing that is known"));
        }
    }
}
