//! A drive that is nearly full: what is said of it, and the command that helps.

use std::fmt::Write as _;

use super::Session;
use crate::config::SIZES;
use crate::ec2::GibiBytes;
use crate::host::room::Room;
use crate::launch::offers::gib;

/// How much more is proposed at most: whoever has terabytes need not pay for as many again.
const MORE: GibiBytes = 256;

/// When a drive can grow: when it is next made from its snapshot.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    /// It is saved: at the next connect.
    Saved,
    /// It is in use: not before that.
    InUse,
}

impl Session {
    /// Warns of a drive that has hardly any room left, with the command that makes it larger.
    pub(super) fn warn_of(&self, room: Option<Room>, when: When) {
        let connect = format!("{} connect {}", self.cloud.command, self.request.drive);
        if let Some(words) =
            room.and_then(|room| words(self.request.drive.as_str(), room, &connect, when))
        {
            self.report.print(&words);
        }
    }
}

/// The warning, if there is one; `connect` is the command that grows it.
fn words(drive: &str, room: Room, connect: &str, when: When) -> Option<String> {
    let mut text = String::new();
    let of = GibiBytes::try_from(room.bytes.div_ceil(1 << 30)).unwrap_or(GibiBytes::MAX);
    if room.lacks_bytes() {
        let free = gib(u32::try_from(room.free_bytes >> 20).unwrap_or(u32::MAX));
        let _ = writeln!(
            text,
            "warning: {drive} is nearly full: {free} of {of} GiB are free"
        );
    }
    if room.lacks_inodes() {
        let _ = writeln!(
            text,
            "warning: {drive} is nearly full: it has room for {} more files",
            room.free_inodes
        );
    }
    if text.is_empty() {
        return None;
    }
    let size = of.saturating_add(of.min(MORE)).min(*SIZES.end());
    let when = match when {
        When::Saved => "",
        When::InUse => ",\n  once this session has saved it",
    };
    let _ = if size > of {
        write!(text, "  {connect} --size {size}  makes it larger{when}")
    } else {
        write!(text, "  no volume is larger than {of} GiB")
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(bytes: u64, free_bytes: u64, inodes: u64, free_inodes: u64) -> Room {
        Room {
            bytes: bytes << 30,
            free_bytes: free_bytes << 20,
            inodes,
            free_inodes,
        }
    }

    #[test]
    fn what_is_proposed_is_a_size_that_a_volume_can_have() {
        let said = |gib| {
            words(
                "demo",
                room(gib, 100, 9, 9),
                "xdrive connect demo",
                When::Saved,
            )
        };
        for (gib, size) in [(8, 16), (256, 512), (2048, 2304), (65_500, 65_536)] {
            let said = said(gib).unwrap();
            assert!(
                said.contains(&format!("--size {size}  makes it larger")),
                "{said}"
            );
        }
        let largest = said(65_536).unwrap();
        assert!(!largest.contains("--size"), "{largest}");
    }

    #[test]
    fn both_kinds_of_room_are_said_and_one_command() {
        let said = words(
            "demo",
            room(8, 700, 90, 3),
            "xdrive connect demo",
            When::InUse,
        );
        assert_eq!(
            said.unwrap(),
            "warning: demo is nearly full: 0.7 of 8 GiB are free\n\
             warning: demo is nearly full: it has room for 3 more files\n  \
             xdrive connect demo --size 16  makes it larger,\n  \
             once this session has saved it"
        );
        let enough = words(
            "demo",
            room(8, 900, 90, 9),
            "xdrive connect demo",
            When::InUse,
        );
        assert_eq!(enough, None);
    }
}
