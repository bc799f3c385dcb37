//! File systems of the kernel, mke2fs and debugfs, read as they have them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{CWD, FallocateFlags, FileType, Mode, XattrFlags, fallocate, mknodat, setxattr};

use super::image::{Files, Image, compare, here, run, there};

/// Ways to make a file system: how large it is in MiB, and the words for mke2fs.
const KINDS: &[(u32, &[&str])] = &[
    (64, &["-t", "ext2"]),
    (64, &["-t", "ext2", "-b", "1024"]),
    (64, &["-t", "ext2", "-r", "0"]),
    (64, &["-t", "ext3"]),
    (64, &["-t", "ext3", "-b", "1024", "-I", "128"]),
    (64, &["-t", "ext4"]),
    (64, &["-t", "ext4", "-b", "1024"]),
    (64, &["-t", "ext4", "-b", "2048"]),
    (64, &["-t", "ext4", "-I", "128"]),
    (64, &["-t", "ext4", "-I", "512", "-O", "inline_data"]),
    (64, &["-t", "ext4", "-I", "1024", "-O", "inline_data"]),
    (64, &["-t", "ext4", "-O", "inline_data"]),
    (64, &["-t", "ext4", "-O", "inline_data,^metadata_csum"]),
    (64, &["-t", "ext4", "-O", "^extent,^64bit"]),
    (64, &["-t", "ext4", "-O", "^extent,^64bit", "-b", "1024"]),
    (64, &["-t", "ext4", "-O", "^64bit"]),
    (64, &["-t", "ext4", "-O", "^metadata_csum,uninit_bg"]),
    (64, &["-t", "ext4", "-O", "^metadata_csum,^uninit_bg"]),
    (64, &["-t", "ext4", "-O", "metadata_csum_seed"]),
    (
        256,
        &["-t", "ext4", "-O", "meta_bg,^resize_inode", "-b", "1024"],
    ),
    (64, &["-t", "ext4", "-O", "meta_bg,^resize_inode,^flex_bg"]),
    (
        256,
        &[
            "-t",
            "ext4",
            "-O",
            "meta_bg,^resize_inode,^64bit,^sparse_super",
            "-b",
            "1024",
        ],
    ),
    (256, &["-t", "ext4", "-O", "sparse_super2", "-b", "1024"]),
    (
        256,
        &[
            "-t",
            "ext4",
            "-O",
            "sparse_super2,meta_bg,^resize_inode",
            "-b",
            "1024",
        ],
    ),
    (64, &["-t", "ext4", "-O", "^flex_bg,^resize_inode"]),
    (64, &["-t", "ext4", "-O", "bigalloc", "-C", "16384"]),
    (
        64,
        &["-t", "ext4", "-O", "bigalloc", "-b", "1024", "-C", "16384"],
    ),
    (64, &["-t", "ext4", "-O", "large_dir,ea_inode"]),
    (64, &["-t", "ext4", "-O", "large_dir", "-b", "1024"]),
    (64, &["-t", "ext4", "-O", "^dir_index"]),
    (64, &["-t", "ext4", "-O", "^filetype"]),
    (64, &["-t", "ext4", "-O", "^has_journal"]),
    (
        64,
        &[
            "-t",
            "ext4",
            "-O",
            "^huge_file,^dir_nlink,^extra_isize,^large_file",
        ],
    ),
    (64, &["-t", "ext4", "-O", "mmp"]),
    (64, &["-t", "ext4", "-O", "encrypt,verity,stable_inodes"]),
    (64, &["-t", "ext4", "-O", "orphan_file,fast_commit"]),
    (
        64,
        &[
            "-t",
            "ext4",
            "-E",
            "hash_seed=01234567-89ab-cdef-0123-456789abcdef",
        ],
    ),
];

/// Removes a mount at its end.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        // What another test starts may hold one of its files for a moment.
        for _ in 0..50 {
            let done = Command::new("umount").arg(&self.0).output();
            if done.is_ok_and(|done| done.status.success()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn mounted(image: &Image, options: &str) -> Mounted {
    let at = image.path_beside("mounted");
    let path = image.path();
    let words = ["-t", "ext4", "-o", options];
    let places = [path.to_str().unwrap(), at.to_str().unwrap()];
    run("mount", &[&words[..], &places].concat());
    Mounted(at)
}

/// Bytes that are not all the same.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_u32;
    let bytes = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    });
    bytes.take(length).collect()
}

/// Makes files of every kind that a reader may take for another one.
fn fill(root: &Path, largest: usize) {
    for length in [
        0, 1, 59, 60, 61, 100, 150, 160, 161, 900, 1023, 1024, 4095, 4096, 4097, 300_000,
    ] {
        fs::write(root.join(format!("bytes-{length}")), noise(length)).unwrap();
    }
    // Holes, and a depth of every kind of map: 80 MiB has three levels of blocks of 1 KiB.
    let sparse = File::create(root.join("sparse")).unwrap();
    for at in [0, 70_000, 1 << 20, 5_000_000, 40 << 20, 79 << 20] {
        sparse.write_all_at(&noise(3000), at).unwrap();
    }
    sparse.set_len(80 << 20).unwrap();
    // A tree of extents with more than one level.
    let comb = File::create(root.join("comb")).unwrap();
    for tooth in 0..1200 {
        comb.write_all_at(&noise(700), tooth * 8192).unwrap();
    }
    comb.sync_all().unwrap();
    // Allocated, in part written.
    let allocated = File::create(root.join("allocated")).unwrap();
    if fallocate(&allocated, FallocateFlags::empty(), 0, 200_000).is_ok() {
        allocated.write_all_at(&noise(5000), 60_000).unwrap();
    }
    for (name, seconds, nanoseconds) in [
        ("1901", -0x7FFF_FFFF_i64, 0),
        ("1969", -1, 5),
        ("1970", 0, 999_999_999),
        ("2039", 0x8000_0001, 1),
        ("2107", 0x1_0000_0000, 123_456_789),
        ("2300", 0x2_7000_0000, 7),
        ("2446", 0x3_7FFF_FFFF, 0),
    ] {
        let file = File::create(root.join(name)).unwrap();
        let nanoseconds = Duration::from_nanos(nanoseconds);
        let time = match u64::try_from(seconds) {
            Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + nanoseconds,
            Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + nanoseconds,
        };
        file.set_modified(time).unwrap();
    }
    for length in [1, 59, 60, 61, 130, 500, 1023] {
        let target = "t".repeat(length);
        symlink(target, root.join(format!("link-{length}"))).unwrap();
    }
    for (name, kind, device) in [
        ("pipe", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        ("null", FileType::CharacterDevice, 0x103),
        ("loop", FileType::BlockDevice, 0x700),
    ] {
        let path = root.join(name);
        mknodat(CWD, &path, kind, Mode::from(0o640), device).unwrap();
    }
    fs::hard_link(root.join("bytes-100"), root.join("hard")).unwrap();
    let odd = [
        &b"\xFF\xFEbytes"[..],
        "\u{e4}\u{f6}\u{fc}".as_bytes(),
        b"new\nline",
        &[b'n'; 255],
    ];
    for name in odd {
        fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    // Data that is in the inode has less room beside attributes.
    for (name, length) in [("attribute", 20), ("attributes", 900)] {
        let path = root.join(name);
        fs::write(&path, noise(130)).unwrap();
        let value = noise(length);
        let _ = setxattr(&path, "user.test", &value, XattrFlags::empty());
    }
    fill_folders(root, largest);
}

fn fill_folders(root: &Path, largest: usize) {
    // Of one block, of an index, of two levels of one, and those that lost most names.
    for (name, count) in [
        ("few", 3),
        ("inline", 1),
        ("hundreds", 700),
        ("thousands", largest),
    ] {
        let folder = root.join(name);
        fs::create_dir(&folder).unwrap();
        for nth in 0..count {
            // Some bytes are negative where they are signed.
            let name = format!("{nth}-{}\u{e9}", "x".repeat(nth % 40));
            fs::write(folder.join(name), "").unwrap();
        }
    }
    let lost = root.join("lost");
    fs::create_dir(&lost).unwrap();
    for nth in 0..900 {
        fs::write(lost.join(format!("name-{nth}")), "").unwrap();
    }
    for nth in (0..900).filter(|nth| nth % 7 != 0) {
        fs::remove_file(lost.join(format!("name-{nth}"))).unwrap();
    }
    let mut deep = root.to_owned();
    for nth in 0..30 {
        deep.push(format!("deep-{nth}"));
        fs::create_dir(&deep).unwrap();
    }
    fs::write(deep.join("end"), "end").unwrap();
    // Folded case: the kernel takes this flag only of an empty folder.
    let folded = root.join("folded");
    fs::create_dir(&folded).unwrap();
    let flag = Command::new("chattr")
        .arg("+F")
        .arg(&folded)
        .output()
        .unwrap();
    for nth in 0..if flag.status.success() { 400 } else { 1 } {
        fs::write(folded.join(format!("Name-{nth}-\u{c4}")), "").unwrap();
    }
}

/// Fills an image by the kernel, and takes down what the kernel then shows.
fn filled(image: &Image, largest: usize) -> Files {
    drop({
        let mounted = mounted(image, "loop");
        fill(&mounted.0, largest);
        mounted
    });
    let mounted = mounted(image, "loop,ro");
    here(&mounted.0)
}

#[test]
#[ignore = "needs root (loop devices)"]
fn every_file_system_that_mke2fs_makes_is_read_as_the_kernel_reads_it() {
    let mut of_all = 0;
    for (size, words) in KINDS {
        let image = Image::make(*size, words);
        let expected = filled(&image, 900);
        assert!(expected.len() > 1800, "{words:?}");
        of_all += expected.len();
        let fs = image.open().unwrap();
        compare(&there(&fs).unwrap(), &expected, &format!("{words:?}"));
    }
    assert!(of_all > 65_000, "{of_all}");
}

#[test]
#[ignore = "needs root (loop devices)"]
fn folders_are_found_by_every_hash_of_names() {
    for hash in ["legacy", "half_md4", "tea"] {
        for sign in [1, 2] {
            let image = Image::make(32, &["-t", "ext4", "-b", "1024"]);
            let path = image.path();
            run(
                "tune2fs",
                &["-E", &format!("hash_alg={hash}"), path.to_str().unwrap()],
            );
            image.write_superblock(0x160, &u32::to_le_bytes(sign));
            // Two levels of an index of blocks of 1 KiB.
            let expected = filled(&image, 6000);
            let found = there(&image.open().unwrap()).unwrap();
            compare(&found, &expected, &format!("{hash} {sign}"));
        }
    }
}

#[test]
fn features_that_some_kernels_do_not_mount_are_read_as_debugfs_reads_them() {
    let from = tempfile::tempdir().unwrap();
    for length in [0, 1, 100, 70_000, 900_000] {
        fs::write(from.path().join(format!("bytes-{length}")), noise(length)).unwrap();
    }
    symlink("target".repeat(30), from.path().join("link")).unwrap();
    let many = from.path().join("many");
    fs::create_dir(&many).unwrap();
    for nth in 0..1200 {
        fs::write(many.join(format!("{nth}-{}", "y".repeat(nth % 90))), "").unwrap();
    }
    for words in [
        &["-t", "ext4", "-b", "65536"][..],
        &["-t", "ext4", "-b", "32768", "-I", "2048"],
        &["-t", "ext2", "-b", "16384"],
        // Kernels without Unicode and quotas do not mount these.
        &["-t", "ext4", "-O", "casefold"],
        &["-t", "ext4", "-O", "quota,project"],
        &["-t", "ext4", "-b", "1024", "-O", "inline_data"],
    ] {
        let words = [words, &["-N", "4000", "-d", from.path().to_str().unwrap()]].concat();
        let image = Image::make(64, &words);
        let fs = image.open().unwrap();
        let found = there(&fs).unwrap();
        let out = image.path_beside("out");
        let path = image.path();
        for name in [
            "bytes-0",
            "bytes-100",
            "bytes-70000",
            "bytes-900000",
            "many",
        ] {
            let command = format!("rdump /{name} {}", out.display());
            run("debugfs", &["-R", &command, path.to_str().unwrap()]);
        }
        let (dumped, own) = (here(&out), here(from.path()));
        assert_eq!(dumped.len(), 1205, "{words:?}");
        for (path, what) in own.into_iter().chain(dumped) {
            let found = &found[&path];
            let of = format!("{words:?} {}", path.display());
            assert_eq!(
                (&found.content, found.mode),
                (&what.content, what.mode),
                "{of}"
            );
        }
        let link = &found[Path::new("link")];
        assert_eq!(link.content, "target".repeat(30), "{words:?}");
    }
}

#[test]
#[ignore = "needs root (loop devices)"]
fn a_journal_that_was_not_replayed_is_read_as_the_kernel_has_it() {
    for (words, options) in [
        (&["-t", "ext4"][..], "loop"),
        (&["-t", "ext4", "-b", "1024"], "loop"),
        (&["-t", "ext3"], "loop"),
        (&["-t", "ext4", "-O", "^metadata_csum,^64bit"], "loop"),
        (
            &["-t", "ext4", "-O", "^metadata_csum"],
            "loop,journal_checksum",
        ),
        (
            &["-t", "ext4", "-O", "^metadata_csum"],
            "loop,journal_async_commit,data=writeback",
        ),
        (&["-t", "ext4", "-b", "1024"], "loop,data=journal"),
        (
            &["-t", "ext4", "-O", "^metadata_csum,^64bit", "-b", "1024"],
            "loop,data=journal",
        ),
    ] {
        let of = format!("{words:?} {options}");
        let image = Image::make(96, words);
        let mounted = mounted(&image, options);
        fill(&mounted.0, 900);
        run("sync", &["-f", mounted.0.to_str().unwrap()]);
        // After that only single files are synced: what the journal has of them and of the rest is
        // written nowhere else yet. Blocks are freed and used again, so that some are revoked, and some
        // begin as the journal's own do.
        for round in 0..4 {
            let folder = mounted.0.join(format!("round-{round}"));
            fs::create_dir(&folder).unwrap();
            for nth in 0..40 {
                let content = [&[0xC0, 0x3B, 0x39, 0x98], &*noise(2000)].concat();
                let file = File::create(folder.join(format!("file-{nth}"))).unwrap();
                file.write_all_at(&content, 0).unwrap();
                file.sync_all().unwrap();
            }
            if round % 2 == 0 {
                fs::remove_dir_all(&folder).unwrap();
            }
            File::open(&mounted.0).unwrap().sync_all().unwrap();
        }
        let expected = here(&mounted.0);
        let copy = image.copied();
        let head = copy.bytes();
        assert_eq!(
            head[1024 + 0x60] & 4,
            4,
            "{of}: the journal is not to be replayed"
        );
        let fs = copy.open().unwrap();
        compare(&there(&fs).unwrap(), &expected, &of);
        // It is read otherwise without it, or nothing is shown here.
        copy.write_superblock(0x60, &[head[1024 + 0x60] & !4]);
        let without = copy.open().and_then(|fs| there(&fs));
        assert!(without.is_err() || without.unwrap() != expected, "{of}");
    }
}

#[test]
#[ignore = "needs root (loop devices)"]
fn fast_commits_that_were_not_replayed_are_named() {
    let image = Image::make(64, &["-t", "ext4", "-O", "fast_commit"]);
    let mounted = mounted(&image, "loop,commit=300");
    fs::write(mounted.0.join("first"), "first").unwrap();
    run("sync", &["-f", mounted.0.to_str().unwrap()]);
    let copy = image.copied();
    assert!(
        there(&copy.open().unwrap())
            .unwrap()
            .contains_key(Path::new("first"))
    );
    let file = File::create(mounted.0.join("second")).unwrap();
    file.write_all_at(b"second", 0).unwrap();
    file.sync_all().unwrap();
    let copy = image.copied();
    let error = copy.open().map(drop).unwrap_err().to_string();
    let expected = "it uses fast commits in a journal that was not replayed, which xdrive does not \
                    read while a drive is asleep";
    assert_eq!(error, expected);
}
