//! Files of this computer. All of it blocks.

use std::fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{
    FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, OFlags, SeekFrom, Timespec, Timestamps, seek, utimensat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::host::sftp::{Attributes, Entry, Kind};

const SECOND: i64 = 1_000_000_000;

/// How much is hashed at once, in bytes.
const PIECE: usize = 1 << 20;

/// How many links may lead to a file: as in Linux (`path_resolution(7)`).
const LINKS: usize = 40;

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

/// Reads the entry at `path`: where that is a link, the entry it leads to if `follows`; none if
/// there is nothing.
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

/// The path that is written where `path` was typed: what a link leads to, also if that is not there
/// yet, as scp and `open` with `O_CREAT` take it; a link of the kernel's own that leads to no path is
/// refused. A link to a folder, to a device and the like stays as it is.
pub(super) fn destination(path: &Path) -> io::Result<PathBuf> {
    let typed = fs::metadata(path);
    let is_file = typed.as_ref().is_ok_and(Metadata::is_file);
    if typed.is_ok() && !is_file {
        return Ok(path.to_owned());
    }
    let mut leads = path.to_owned();
    for _ in 0..LINKS {
        let Ok(target) = fs::read_link(&leads) else {
            return match (typed, fs::symlink_metadata(&leads)) {
                (Ok(typed), Ok(found)) if is_same(&typed, &found) => Ok(leads),
                (Err(_), _) => Ok(leads),
                (Ok(_), _) => Err(io::Error::other("it leads to a file that has no name")),
            };
        };
        leads = leads.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(io::Error::other("its links lead nowhere"))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
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

/// Opens a file to be read; also its attributes then. What is none by now is not waited for.
pub(super) fn open(path: &Path) -> io::Result<(File, Attributes)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags(OFlags::NONBLOCK))
        .open(path)?;
    let found = file.metadata()?;
    demand(found.is_file())?;
    Ok((file, attributes(&found)))
}

fn demand(is_right: bool) -> io::Result<()> {
    if is_right {
        return Ok(());
    }
    Err(io::Error::other("something else has its name here"))
}

/// The next bytes of a file from `at` on that are no hole: where they begin and end; none if there is
/// only a hole. Where the file system has no answer, all of it.
pub(super) fn data(file: &File, at: u64, size: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= size {
        return Ok(None);
    }
    let begin = match seek(file, SeekFrom::Data(at)) {
        Ok(begin) => begin,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::NOTSUP) => return Ok(Some((at, size))),
        Err(error) => return Err(error.into()),
    };
    let end = seek(file, SeekFrom::Hole(begin))?;
    Ok((begin < size).then(|| (begin, end.min(size))))
}

/// A small file, as it was before its content was read; none if it has more than `most` bytes.
pub(super) fn read(path: &Path, most: usize) -> io::Result<Option<(Attributes, Bytes)>> {
    let (file, attributes) = open(path)?;
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
fn part_path(path: &Path) -> PathBuf {
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
    let part = part_path(path);
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

/// Sets them of a file or folder that is there, and of nothing else: a link could lead to any other.
pub(super) fn set(path: &Path, attributes: &Attributes) -> io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
        .open(path)?;
    let found = file.metadata()?;
    demand(found.is_file() || found.is_dir())?;
    keep(&file, attributes)
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
    let part = part_path(path);
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
            demand(fs::symlink_metadata(path)?.is_dir())?;
            Ok(false)
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
    demand(file.metadata()?.is_file())?;
    file.try_lock()?;
    Ok(file)
}

fn flags(flags: OFlags) -> i32 {
    i32::try_from(flags.bits()).unwrap_or_default()
}

/// The SHA-256 of `length` bytes of a file from `at` on, as far as it has them.
pub(super) fn hash(file: &File, mut at: u64, length: u64) -> io::Result<Vec<u8>> {
    let end = at.saturating_add(length);
    let mut digest = Sha256::new();
    let mut piece = vec![0; PIECE];
    loop {
        let most = usize::try_from(end.saturating_sub(at)).unwrap_or(PIECE);
        match read_at(file, &mut piece[..most.min(PIECE)], at)? {
            0 => return Ok(digest.finalize().to_vec()),
            length => {
                digest.update(&piece[..length]);
                at += length as u64;
            }
        }
    }
}

/// Reads until the piece is full, or the file ends; how many bytes.
pub(super) fn read_at(file: &File, piece: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < piece.len() {
        match file.read_at(&mut piece[length..], at + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn with_mode(mode: u32, size: u64, changed: i64) -> Attributes {
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
            write(&path, &with_mode(mode, 3, changed), b"abc").unwrap();
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
        write(&folder.path().join("c"), &with_mode(0o600, 1, 0), b"x").unwrap_err();
        let mut names: Vec<_> = list(folder.path()).unwrap();
        names.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<&[u8]> = names.iter().map(|entry| &*entry.name).collect();
        assert_eq!(names, [b"a", b"b", b"c"]);
    }

    #[test]
    fn a_link_is_no_folder_to_write_into() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let attributes = with_mode(0o755, 0, 0);
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
        let digest = |at, length| hash(&first, at, length).unwrap();
        assert_eq!(digest(0, 2), Sha256::digest("ab").to_vec());
        assert_eq!(digest(1, 9), Sha256::digest("bc").to_vec());
    }

    #[test]
    fn attributes_and_parts_are_those_of_files_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.path().join(name));
        write(&file, &with_mode(0o600, 1, 7), b"x").unwrap();
        symlink("file", &link).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for other in [&link, &pipe] {
            set(other, &with_mode(0o666, 1, 9)).unwrap_err();
            open_part(other).unwrap_err();
        }
        open(&pipe).unwrap_err();
        let (_, found) = open(&file).unwrap();
        assert_eq!((found.permissions(), found.changed), (0o600, 7));
    }

    #[test]
    fn a_destination_that_is_a_link_is_followed_to_the_file_that_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "x").unwrap();
        fs::create_dir(at("folder")).unwrap();
        for (target, link) in [
            ("file", "link"),
            ("link", "twice"),
            ("folder/new", "dangling"),
            ("folder", "to-folder"),
            ("loop", "loop"),
            ("/dev/null", "to-device"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        for (typed, written) in [
            ("file", "file"),
            ("new", "new"),
            ("link", "file"),
            ("twice", "file"),
            ("dangling", "folder/new"),
            // It is written into, and is refused.
            ("to-folder", "to-folder"),
            ("to-device", "to-device"),
        ] {
            assert_eq!(destination(&at(typed)).unwrap(), at(written), "{typed}");
        }
        destination(&at("loop")).unwrap_err();
        let open = File::open(at("file")).unwrap();
        let of_kernel = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        assert_eq!(destination(&of_kernel).unwrap(), at("file"));
        fs::remove_file(at("file")).unwrap();
        destination(&of_kernel).unwrap_err();
    }

    #[test]
    fn holes_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "abc").unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let size = 64 << 20;
        file.set_len(size).unwrap();
        file.write_all_at(b"x", 32 << 20).unwrap();
        let (begin, end) = data(&file, 0, size).unwrap().unwrap();
        assert!(begin == 0 && (3..1 << 20).contains(&end), "{end}");
        let (begin, end) = data(&file, end, size).unwrap().unwrap();
        assert!(begin <= 32 << 20 && end > 32 << 20 && end < 33 << 20);
        assert_eq!(data(&file, end, size).unwrap(), None);
        assert_eq!(data(&file, size, size).unwrap(), None);
    }
}
