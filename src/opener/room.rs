//! The warning that a drive is nearly full, and the command that makes it larger.

use super::drive::Drive;
use crate::config::quantity::SIZES;
use crate::ec2::GibiBytes;
use crate::host::room::Room;
use crate::launch::offers::gib;
use crate::report::{Label, Text};

/// The largest proposed increase: a drive is doubled only up to this.
const MORE: GibiBytes = 256;

/// When a drive can grow.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Growth {
    /// The drive is saved: its next volume can be larger.
    AtNextConnect,
    /// The drive is in use: its volume can be made larger.
    Now,
}

impl Drive {
    /// Warns if the drive is nearly full, with the command that makes it larger.
    pub(crate) fn warn_if_full(&self, room: Option<Room>, growth: Growth) {
        let (command, drive) = (&self.cloud.command, self.name.as_str());
        if let Some(warning) = room.and_then(|room| warning(drive, room, command, growth)) {
            self.report.print(&warning);
        }
    }
}

/// How many GiB are free, such as `0.7`.
pub(crate) fn free_words(room: Room) -> String {
    gib(u32::try_from(room.free_bytes >> 20).unwrap_or(u32::MAX))
}

/// The warning, if there is one; `xdrive` begins the command that makes the drive larger.
fn warning(drive: &str, room: Room, xdrive: &str, growth: Growth) -> Option<Text> {
    let mut lines = Vec::new();
    let of = GibiBytes::try_from(room.bytes.div_ceil(1 << 30)).unwrap_or(GibiBytes::MAX);
    if room.lacks_bytes() {
        let free = free_words(room);
        lines.push(format!(
            "{drive} is nearly full: {free} of {of} GiB are free"
        ));
    }
    if room.lacks_inodes() {
        lines.push(format!(
            "{drive} is nearly full: it has room for {} more files",
            room.free_inodes
        ));
    }
    let mut warnings = lines
        .iter()
        .map(|words| Text::labelled(Label::Warning, words));
    let mut text = warnings.next()?;
    warnings.for_each(|warning| text.push_line(&warning));
    let size = of.saturating_add(of.min(MORE)).min(*SIZES.end());
    text.push_line(&match growth {
        _ if size <= of => format!("  no volume is larger than {of} GiB"),
        Growth::AtNextConnect => {
            format!("  {xdrive} connect {drive} --size {size}  makes it larger")
        }
        Growth::Now => format!("  {xdrive} resize {drive} {size}  makes it larger at once"),
    });
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
    fn the_proposed_size_is_one_that_a_volume_can_have() {
        let warned = |gib| {
            warning(
                "demo",
                room(gib, 100, 9, 9),
                "xdrive",
                Growth::AtNextConnect,
            )
        };
        for (gib, size) in [(8, 16), (256, 512), (2048, 2304), (65_500, 65_536)] {
            let warned = warned(gib).unwrap().to_string();
            assert!(
                warned.contains(&format!("--size {size}  makes it larger")),
                "{warned}"
            );
        }
        let largest = warned(65_536).unwrap().to_string();
        assert!(!largest.contains("--size"), "{largest}");
    }

    #[test]
    fn both_kinds_of_room_are_named_with_one_command() {
        let warned = warning("demo", room(8, 700, 90, 3), "xdrive", Growth::Now);
        assert_eq!(
            warned.unwrap().to_string(),
            "warning: demo is nearly full: 0.7 of 8 GiB are free\n\
             warning: demo is nearly full: it has room for 3 more files\n  \
             xdrive resize demo 16  makes it larger at once"
        );
        let enough = warning("demo", room(8, 900, 90, 9), "xdrive", Growth::Now);
        assert_eq!(enough, None);
    }
}
