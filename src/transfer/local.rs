//! Files of this computer. All of it blocks.

use std::fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, OFlags, Timespec, Timestamps, utimensat};
use sha2::{Digest as _, Sha256};

use crate::host::sftp::{Attributes, Entry, Kind};

const SECOND: i64 = 1_000_000_000;

/// How much is hashed at once, in bytes.
const PIECE: usize = 1 << 20;

pub(super) fn attributes(found: &Metadata) -> Attributes {
    let nanoseconds = found.mtime_nsec().clamp(0, SECOND - 1);
    Attributes {
        mode: found.mode(),
        size: found.size(),
        changed: found
            .mtime()
            .saturating_mul(SECOND)
            .saturating_add(nanoseconds),
    }
}

/// What there is at `path`, where that is a link what it leads to if `follows`; none if nothing.
pub(super) fn look(path: &Path, follows: bool) -> io::Result<Option<Entry>> {
    let found = if follows {
        fs::metadata(path)
    } else {
        fs::symlink_metadata(path)
    };
    match found {
        Ok(found) => entry(path, Vec::new(), &found).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn entry(path: &Path, name: Vec<u8>, found: &Metadata) -> io::Result<Entry> {
    let attributes = attributes(found);
    let target = match attributes.kind() {
        Kind::Link => fs::read_link(path)?.into_os_string().into_vec(),
        _ => Vec::new(),
    };
    Ok(Entry {
        name,
        attributes,
        target,
    })
}

/// All that is in a folder.
pub(super) fn list(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for found in fs::read_dir(folder)? {
        let found = found?;
        let name = found.file_name().into_vec();
        let described = found.metadata();
        match described.and_then(|metadata| entry(&found.path(), name, &metadata)) {
            Ok(entry) => entries.push(entry),
            // It is gone by now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(entries)
}

/// A small file, as it was before its content was read; none if it has more than `most` bytes.
pub(super) fn read(path: &Path, most: usize) -> io::Result<Option<(Attributes, Bytes)>> {
    let file = File::open(path)?;
    let attributes = attributes(&file.metadata()?);
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    if attributes.size > most {
        return Ok(None);
    }
    let mut content = Vec::with_capacity(usize::try_from(attributes.size).unwrap_or(0) + 1);
    file.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Ok(None);
    }
    Ok(Some((attributes, content.into())))
}

/// A name for what is to be `path`, beside it.
fn beside(path: &Path) -> PathBuf {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".xdrive-{}-{number}.part", std::process::id()))
}

/// Removes a part that is not to become anything, and keeps the `error`.
fn undo<T>(part: &Path, done: io::Result<T>) -> io::Result<T> {
    if done.is_err() {
        // The first error is the one that counts.
        let _ = fs::remove_file(part);
    }
    done
}

/// Writes a file, in place of what has its path.
pub(super) fn write(path: &Path, attributes: &Attributes, content: &[u8]) -> io::Result<()> {
    let part = beside(path);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(attributes.permissions())
        .open(&part)?;
    let written = file
        .write_all(content)
        .and_then(|()| finish(&file, &part, path, attributes));
    undo(&part, written)
}

/// Makes a part the file at `path`.
pub(super) fn finish(
    file: &File,
    part: &Path,
    path: &Path,
    attributes: &Attributes,
) -> io::Result<()> {
    keep(file, attributes)?;
    fs::rename(part, path)
}

/// Sets permissions and the time of change. A folder keeps its set-ID and sticky bits.
fn keep(file: &File, attributes: &Attributes) -> io::Result<()> {
    let found = file.metadata()?;
    let special = if found.is_dir() {
        found.mode() & 0o7000
    } else {
        0
    };
    let permissions = attributes.permissions() | special;
    if found.mode() & 0o7777 != permissions {
        file.set_permissions(Permissions::from_mode(permissions))?;
    }
    let time = time(attributes.changed);
    file.set_times(FileTimes::new().set_accessed(time).set_modified(time))
}

/// The same, of a file or folder that is there.
pub(super) fn set(path: &Path, attributes: &Attributes) -> io::Result<()> {
    keep(&File::open(path)?, attributes)
}

fn time(nanoseconds: i64) -> SystemTime {
    let length = Duration::from_nanos(nanoseconds.unsigned_abs());
    if nanoseconds < 0 {
        SystemTime::UNIX_EPOCH - length
    } else {
        SystemTime::UNIX_EPOCH + length
    }
}

/// Makes a link, in place of what has its path.
pub(super) fn link(path: &Path, target: &[u8], changed: i64) -> io::Result<()> {
    let part = beside(path);
    symlink(std::ffi::OsStr::from_bytes(target), &part)?;
    let time = Timespec {
        tv_sec: changed.div_euclid(SECOND),
        tv_nsec: changed.rem_euclid(SECOND),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    let made = utimensat(CWD, &part, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(io::Error::from)
        .and_then(|()| fs::rename(&part, path));
    undo(&part, made)
}

/// Makes a folder; false if it is there. A link to one is none: what a container has could lead out
/// of the folder that was named.
pub(super) fn make_folder(path: &Path, attributes: &Attributes) -> io::Result<bool> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut folder = fs::DirBuilder::new();
    match folder.mode(attributes.permissions() | 0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::symlink_metadata(path)?.is_dir() {
                Ok(false)
            } else {
                Err(io::Error::other("something else has its name here"))
            }
        }
        Err(error) => Err(error),
    }
}

/// Opens the part of a large file, or begins it. Fails while another process has it.
pub(super) fn open_part(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
        .open(path)?;
    file.try_lock()?;
    Ok(file)
}

fn flags(flags: OFlags) -> i32 {
    i32::try_from(flags.bits()).unwrap_or_default()
}

/// The SHA-256 of the first `length` bytes of a file, as far as it has them.
pub(super) fn hash(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?.take(length);
    let mut digest = Sha256::new();
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(digest.finalize().to_vec()),
            length => digest.update(&piece[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mode: u32, size: u64, changed: i64) -> Attributes {
        Attributes {
            mode,
            size,
            changed,
        }
    }

    #[test]
    fn a_file_is_written_whole_with_its_permissions_and_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for (mode, changed) in [(0o444, 1_700_000_000_123_456_789), (0o660, -5)] {
            write(&path, &of(mode, 3, changed), b"abc").unwrap();
            let (attributes, content) = read(&path, 3).unwrap().unwrap();
            assert_eq!(&content[..], b"abc");
            assert_eq!(attributes.permissions(), mode);
            assert_eq!(attributes.changed, changed);
        }
        assert!(read(&path, 2).unwrap().is_none());
        link(&folder.path().join("b"), b"a", 7).unwrap();
        let found = look(&folder.path().join("b"), false).unwrap().unwrap();
        assert_eq!((&*found.target, found.attributes.changed), (&b"a"[..], 7));
        // A folder is in the way: nothing is left of it.
        fs::create_dir(folder.path().join("c")).unwrap();
        write(&folder.path().join("c"), &of(0o600, 1, 0), b"x").unwrap_err();
        let mut names: Vec<_> = list(folder.path()).unwrap();
        names.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<&[u8]> = names.iter().map(|entry| &*entry.name).collect();
        assert_eq!(names, [b"a", b"b", b"c"]);
    }

    #[test]
    fn a_link_is_no_folder_to_write_into() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let attributes = of(0o755, 0, 0);
        assert!(make_folder(&path, &attributes).unwrap());
        assert!(!make_folder(&path, &attributes).unwrap());
        symlink(&path, folder.path().join("b")).unwrap();
        make_folder(&folder.path().join("b"), &attributes).unwrap_err();
    }

    #[test]
    fn a_part_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        let first = open_part(&path).unwrap();
        open_part(&path).unwrap_err();
        // By its end alone it is not free at once: a program that another test starts has it, too, until
        // it is executed.
        first.unlock().unwrap();
        open_part(&path).unwrap();
        fs::write(&path, "abc").unwrap();
        assert_eq!(hash(&path, 2).unwrap(), Sha256::digest("ab").to_vec());
        assert_eq!(hash(&path, 9).unwrap(), Sha256::digest("abc").to_vec());
    }
}
