//! The copies of `xdrive cp`, and what is left of them when it is stopped.

mod wide;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};

use super::super::connection_lost::recorded;
use super::{end, leading, noise};
use crate::session::site::{SESSION, Site};
use harness::eventually_within;

/// A path's mode, time of change in nanoseconds, and content or target.
type Found = (u32, i128, Vec<u8>);

/// All that is below a folder.
fn tree(top: &Path) -> BTreeMap<PathBuf, Found> {
    let mut found = BTreeMap::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .as_os_str()
                    .as_bytes()
                    .to_vec()
            } else if metadata.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            let time =
                i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
            let below = path.strip_prefix(top).unwrap().to_owned();
            found.insert(below, (metadata.mode(), time, content));
        }
    }
    found
}

fn is_same(one: &Path, other: &Path) {
    let (one, other) = (tree(one), tree(other));
    assert!(
        one.keys().eq(other.keys()),
        "{:?}\n{:?}",
        one.keys(),
        other.keys()
    );
    for (path, found) in one {
        assert!(found == other[&path], "{} differs", path.display());
    }
}

/// The names of parts that copies which were cut off have left, and servers that were killed.
const PARTS: [&str; 2] = [".xdrive-0123456789abcdef.part", ".xdrive-4711-1.part"];

/// The folder `/work` of the container.
pub(super) fn work(site: &Site) -> PathBuf {
    let init = recorded(site, "init.json").as_raw_nonzero();
    format!("/proc/{init}/root/v1/work").into()
}

/// A folder with one of everything.
fn things(site: &Site) -> PathBuf {
    let folder = site.path("things");
    fs::create_dir_all(folder.join("deep/er")).unwrap();
    fs::write(folder.join("large"), noise(5 << 20)).unwrap();
    fs::write(folder.join("deep/er/gr\u{fc}n"), "x").unwrap();
    fs::write(folder.join("empty"), "").unwrap();
    fs::write(folder.join("a:b"), "colon").unwrap();
    fs::write(folder.join(OsStr::from_bytes(b"\xff\xfe")), "bytes").unwrap();
    fs::write(folder.join("closed"), "mine").unwrap();
    fs::set_permissions(folder.join("closed"), Permissions::from_mode(0o460)).unwrap();
    symlink("deep/er", folder.join("link")).unwrap();
    symlink("nowhere", folder.join("dangling")).unwrap();
    for number in 0..300 {
        fs::write(folder.join(format!("deep/{number}")), number.to_string()).unwrap();
    }
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for path in ["large", "empty", "deep/er"] {
        let file = File::open(folder.join(path)).unwrap();
        file.set_times(FileTimes::new().set_modified(old)).unwrap();
    }
    fs::set_permissions(folder.join("deep/er"), Permissions::from_mode(0o555)).unwrap();
    folder
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn everything_is_copied_there_and_back_and_nothing_twice() {
    let site = Site::new();
    let lead = leading(&site, &site.image());
    let folder = things(&site);
    let work = work(&site);
    site.run(&["cp", "things", "demo:"])
        .is(0)
        .reports("copied 308 files, 5.0 MiB\n");
    is_same(&folder, &work.join("things"));
    site.run(&["cp", "-r", "things", "demo.xdrive:/work"])
        .is(0)
        .reports("copied 0 files, 0 bytes; 308 were there already\n");
    site.run(&["cp", "--ignore-times", "things/.", "demo:things"])
        .is(0)
        .reports("copied 306 files, 5.0 MiB; 2 were there already\n");
    fs::write(folder.join("deep/7"), "seven").unwrap();
    for part in PARTS {
        fs::write(folder.join(part), "half").unwrap();
    }
    fs::set_permissions(folder.join("large"), Permissions::from_mode(0o600)).unwrap();
    site.run(&["cp", "things/", "demo:"])
        .is(0)
        .reports("copied 2 files, 5 bytes; 306 were there already\n");
    for part in PARTS {
        fs::remove_file(folder.join(part)).unwrap();
    }
    is_same(&folder, &work.join("things"));

    site.run(&["cp", "demo:things", "back"])
        .is(0)
        .reports("copied 308 files, 5.0 MiB\n");
    is_same(&folder, &site.path("back"));
    site.run(&["cp", "demo:things/.", "back"])
        .is(0)
        .reports("copied 0 files, 0 bytes; 308 were there already\n");
    fs::write(work.join("things/deep/8"), "eight").unwrap();
    for part in PARTS {
        fs::write(work.join("things").join(part), "half").unwrap();
    }
    fs::set_permissions(work.join("things/large"), Permissions::from_mode(0o640)).unwrap();
    site.run(&["cp", "demo:things/", "."])
        .is(0)
        .reports("copied 2 files, 5 bytes; 306 were there already\n");
    for part in PARTS {
        fs::remove_file(work.join("things").join(part)).unwrap();
    }
    is_same(&folder, &work.join("things"));

    // One by one: names with a colon, links that are named, the home folder.
    fs::write(site.path("c:d"), "here").unwrap();
    site.run(&["cp", "./c:d", "things/link", "demo:~/"]).is(0);
    site.run(&["cp", "demo:~/c:d", "demo:things/link", "things/deep/er"])
        .is(0);
    let copied = folder.join("deep/er");
    assert_eq!(fs::read(copied.join("c:d")).unwrap(), b"here");
    assert_eq!(fs::read(copied.join("link/gr\u{fc}n")).unwrap(), b"x");
    site.run(&["cp", "./c:d", "demo:renamed"]).is(0);
    assert_eq!(fs::read(work.join("renamed")).unwrap(), b"here");
    // A link that is named is written through; one in the folder that is named is replaced.
    symlink("renamed", work.join("named")).unwrap();
    fs::write(site.path("through"), "through").unwrap();
    site.run(&["cp", "through", "demo:named"]).is(0);
    assert_eq!(fs::read(work.join("renamed")).unwrap(), b"through");
    fs::write(site.path("target"), "old").unwrap();
    symlink("target", site.path("named")).unwrap();
    site.run(&["cp", "demo:named", "named"]).is(0);
    assert_eq!(fs::read(site.path("target")).unwrap(), b"through");
    assert!(site.path("named").is_symlink() && work.join("named").is_symlink());
    fs::write(work.join("renamed"), "here").unwrap();
    symlink("renamed", work.join("leads")).unwrap();
    fs::write(site.path("leads"), "not there").unwrap();
    site.run(&["cp", "leads", "demo:"]).is(0);
    assert_eq!(fs::read(work.join("renamed")).unwrap(), b"here");
    assert_eq!(fs::read(work.join("leads")).unwrap(), b"not there");
    opens_no_device(&site);
    refuses(&site, &work);
    leaves_alone(&site, &work);
    end(&site, lead);
    site.is_saved("demo", 1);
}

/// Checks what is said of what cannot be copied, and that the rest is.
fn refuses(site: &Site, work: &Path) {
    site.run(&["cp", "none", "demo:"])
        .is(1)
        .reports("error: none was not copied: there is no such file or folder\n");
    site.run(&["cp", "demo:none", "."])
        .is(1)
        .reports("error: none was not copied: no such file or folder\n");
    site.run(&["cp", "./c:d", "things", "demo:renamed"])
        .is(1)
        .reports("error: renamed is no folder in the container\n");
    site.run(&["cp", "./c:d", "demo:nowhere/"])
        .is(1)
        .reports("error: nowhere/ is no folder in the container\n");
    site.run(&["cp", "./c:d", "demo:nowhere/x"])
        .is(1)
        .reports("error: ./c:d was not copied: no such file or folder\n");
    fs::create_dir(work.join("odd")).unwrap();
    fs::create_dir(work.join("odd/c:d")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(site.path("pipe"))
        .status();
    assert!(pipe.unwrap().success());
    fs::write(site.path("well"), "well").unwrap();
    let some = site.run(&["cp", "./c:d", "pipe", "well", "demo:odd"]);
    some.is(1)
        .reports("not copied: ./c:d: a folder has its name in the container\n")
        .reports("not copied: pipe: it is no file, folder or link\n")
        .reports("error: 2 files or folders were not copied\n");
    assert_eq!(fs::read(work.join("odd/well")).unwrap(), b"well");
}

/// Checks that no device of the drive's opens anything, in its host or in its container.
fn opens_no_device(site: &Site) {
    let init = recorded(site, "init.json").as_raw_nonzero();
    let mounts = fs::read_to_string(format!("/proc/{init}/mountinfo")).unwrap();
    let drive = mounts.lines().find(|line| line.contains(" /v1 ")).unwrap();
    assert!(drive.contains(",nodev"), "{drive}");
    let device = drive.split(' ').nth(2).unwrap();
    let mut works = 0;
    for process in fs::read_dir("/proc").unwrap() {
        let mounts = process.unwrap().path().join("mountinfo");
        for line in fs::read_to_string(mounts).unwrap_or_default().lines() {
            if line.contains(&format!(" {device} ")) && line.contains(" /work ") {
                assert!(line.contains(",nodev"), "{line}");
                works += 1;
            }
        }
    }
    assert!(works > 0, "no container has /work");
}

/// Checks that what was there keeps what no copy is to change, and what is odd is read all the same.
fn leaves_alone(site: &Site, work: &Path) {
    let odd = work.join("odd");
    let pipe = std::process::Command::new("mkfifo")
        .arg(odd.join("pipe"))
        .status();
    assert!(pipe.unwrap().success());
    for (pipe, link) in [
        (site.path("pipe"), site.path("to-pipe")),
        (odd.join("pipe"), odd.join("to-pipe")),
    ] {
        symlink("pipe", &link).unwrap();
        assert!(fs::metadata(pipe).unwrap().file_type().is_fifo());
    }
    for (source, to, side) in [
        ("demo:odd/well", "pipe", "on this computer"),
        ("demo:odd/well", "to-pipe", "on this computer"),
        ("well", "demo:odd/pipe", "in the container"),
        ("well", "demo:odd/to-pipe", "in the container"),
    ] {
        site.run(&["cp", source, to])
            .is(1)
            .reports(&format!("something else has its name {side}\n"));
    }
    for top in [site.path(""), odd.clone()] {
        let kind = fs::symlink_metadata(top.join("pipe")).unwrap().file_type();
        assert!(kind.is_fifo() && top.join("to-pipe").is_symlink());
    }

    // A folder into which content is copied, and one within that.
    let mode = |path: &str| fs::metadata(work.join(path)).unwrap().mode() & 0o7777;
    fs::create_dir_all(site.path("some/within")).unwrap();
    fs::create_dir(odd.join("within")).unwrap();
    fs::set_permissions(odd.join("within"), Permissions::from_mode(0o2700)).unwrap();
    fs::set_permissions(&odd, Permissions::from_mode(0o1777)).unwrap();
    fs::set_permissions(site.path("some/within"), Permissions::from_mode(0o750)).unwrap();
    site.run(&["cp", "some/.", "demo:odd"]).is(0);
    assert_eq!((mode("odd"), mode("odd/within")), (0o1777, 0o2750));

    let late = SystemTime::UNIX_EPOCH + Duration::from_secs(10_000_000_000);
    let file = File::open(odd.join("well")).unwrap();
    file.set_times(FileTimes::new().set_modified(late)).unwrap();
    site.run(&["ls", "demo:odd"]).is(0).prints(" well\n");
    site.run(&["cat", "demo:/proc/version"])
        .is(0)
        .prints("Linux version ");

    // A reader that stands still (`| less`) holds up neither the connection nor an end.
    fs::write(work.join("long"), noise(8 << 20)).unwrap();
    let mut cat = site.command(&["cat", "demo:long"]);
    let mut cat = cat.stdout(Stdio::piped()).spawn().unwrap();
    let unread = cat.stdout.take().unwrap();
    // It holds 64 KiB, of which each page may have a gap.
    let is_full = || ioctl_fionread(&unread).unwrap() > 48 << 10;
    eventually_within(SESSION, || "a full pipe".to_owned(), is_full);
    kill_process(Pid::from_child(&cat), Signal::INT).unwrap();
    let mut ended = None;
    let has_ended = || {
        ended = cat.try_wait().unwrap();
        ended.is_some()
    };
    eventually_within(SESSION, || "the end of cat".to_owned(), has_ended);
    assert_eq!(ended.unwrap().code(), Some(130));
}

/// The part of a large file that is being copied into this folder; none before there is one of so
/// many bytes.
fn part(folder: &Path, least: u64) -> Option<PathBuf> {
    let mut entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.find(|path| {
        let name = path.file_name().unwrap().as_bytes();
        let is_part = name.starts_with(b".xdrive-") && name.ends_with(b".part");
        is_part && fs::metadata(path).is_ok_and(|it| it.len() >= least)
    })
}
