//! The names of parts, by which they are found again, and never copied.

use std::io;

use sha2::{Digest as _, Sha256};

use super::super::paths::split;
use crate::host::sftp::Attributes;
use crate::ids::random_id;

/// The name of a part of the file at `path`, which is another one once the file has changed, and for
/// every thing that is `frozen`. A part from such a thing is taken for a beginning unread, so that
/// its whole path counts.
pub(super) fn part_name(path: &[u8], source: &Attributes, frozen: Option<&str>) -> String {
    let named = if frozen.is_some() {
        path
    } else {
        split(path).1
    };
    let mut digest = Sha256::new();
    digest.update(named);
    // It ends the path, as no path has it.
    digest.update(b"\0");
    digest.update(frozen.unwrap_or_default());
    digest.update(source.size.to_be_bytes());
    digest.update(source.changed.to_be_bytes());
    format!(".xdrive-{}.part", &hex::encode(digest.finalize())[..16])
}

/// Whether a file of this name is a part: of a large file, by its digest or id, or of a small one, by
/// the process that writes it and a number (`beside` in `transfer/local.rs`, `PART` in
/// `shell/host/files.py`).
pub(crate) fn is_part(name: &[u8]) -> bool {
    let name = std::str::from_utf8(name).unwrap_or_default();
    let id = name.strip_prefix(".xdrive-");
    let Some(id) = id.and_then(|rest| rest.strip_suffix(".part")) else {
        return false;
    };
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    match id.split_once('-') {
        Some((process, number)) => is_number(process) && is_number(number),
        None => id.len() == 16 && id.bytes().all(|it| it.is_ascii_hexdigit()),
    }
}

/// A name that no other part has.
pub(super) fn own_name() -> io::Result<String> {
    let id = random_id().map_err(io::Error::other)?;
    Ok(format!(".xdrive-{id}.part"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(size: u64, changed: i64) -> Attributes {
        Attributes {
            mode: 0o100_644,
            size,
            changed,
        }
    }

    #[test]
    fn a_part_is_of_one_name_size_and_time() {
        let name = part_name(b"a", &source(1, 2), None);
        assert_eq!(name, part_name(b"a", &source(1, 2), None));
        assert_eq!(name, part_name(b"x/a", &source(1, 2), None));
        assert_ne!(name, part_name(b"b", &source(1, 2), None));
        assert_ne!(name, part_name(b"a", &source(2, 2), None));
        assert_ne!(name, part_name(b"a", &source(1, 3), None));
        assert_ne!(name, part_name(b"a", &source(1, 2), Some("snap-1")));
        assert!(name.starts_with(".xdrive-") && name.len() < 40, "{name}");
    }

    #[test]
    fn a_part_of_a_frozen_file_is_of_its_whole_path_too() {
        let name = |path: &[u8], frozen| part_name(path, &source(1, 2), Some(frozen));
        assert_eq!(name(b"x/a", "snap-1"), name(b"x/a", "snap-1"));
        assert_ne!(name(b"x/a", "snap-1"), name(b"y/a", "snap-1"));
        assert_ne!(name(b"x/a", "snap-1"), name(b"x/a", "snap-2"));
    }

    #[test]
    fn every_part_is_known_by_its_name() {
        let (shared, own) = (part_name(b"a", &source(1, 2), None), own_name().unwrap());
        for part in [&*shared, &*own, ".xdrive-4711-0.part"] {
            assert!(is_part(part.as_bytes()), "{part}");
        }
        for other in [
            ".xdrive-4711.part",
            ".xdrive-4711-.part",
            ".xdrive-4711-0-1.part",
            ".xdrive-4711-a.part",
            ".xdrive-notes.part",
            ".xdrive-4711-0",
            "4711-0.part",
        ] {
            assert!(!is_part(other.as_bytes()), "{other}");
        }
        assert!(!is_part(b".xdrive-\xff-0.part"));
    }
}
