//! Journals that no present kernel writes, made by debugfs and replayed by e2fsck.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use super::super::volume::Volume;
use super::super::{Error, journal};
use super::image::{FileDisk, Image, run};

/// Blocks of 1 KiB that are used by nothing.
const FIRST: u64 = 6000;
const BLOCKS: u64 = 40;

/// The words for one whose journal has checksums of whole transactions, if it has any.
const OLDEST: &[&str] = &["-O", "^metadata_csum,64bit"];

/// A file system whose journal has blocks of that kind of checksums that are not replayed.
fn written(version: &str, words: &[&str]) -> Image {
    let image = Image::make(16, &[&["-t", "ext4", "-b", "1024"], words].concat());
    let data = image.path_beside("data").join("data");
    let content: Vec<u8> = (0..BLOCKS * 1024).map(|at| (at % 251) as u8).collect();
    fs::write(&data, content).unwrap();
    let last = FIRST + BLOCKS - 1;
    let data = data.display();
    // Of the oldest checksums, debugfs counts revoked blocks in, and e2fsck and the kernel do not.
    let revoked = if words == OLDEST {
        String::new()
    } else {
        format!("jw -r {}-{}\n", FIRST + 3, FIRST + 9)
    };
    let again = FIRST + 5;
    image.debugfs(&format!(
        "jo {version}\njw -b {FIRST}-{last} {data}\n{revoked}jw -b {again} {data}\njc\n"
    ));
    image
}

/// Reads these blocks.
fn read(image: &Image) -> Result<Vec<u8>, Error> {
    let file = File::open(image.path()).unwrap();
    let volume = journal::replayed(Volume::open(Box::new(FileDisk(file)))?)?;
    let mut all = Vec::new();
    for block in FIRST..FIRST + BLOCKS {
        all.extend_from_slice(&volume.read(block)?);
    }
    Ok(all)
}

#[test]
fn journals_with_every_kind_of_checksum_are_replayed_as_by_e2fsck() {
    for (version, words) in [
        ("", &["-O", "^metadata_csum,^64bit"][..]),
        ("", &["-O", "^metadata_csum,64bit,^flex_bg"]),
        ("-c -v 1", OLDEST),
        ("-c -v 2", &["-O", "metadata_csum,64bit"]),
        ("-c -v 2", &["-O", "metadata_csum,^64bit"]),
        ("-c -v 3", &["-O", "metadata_csum,64bit"]),
        ("-c -v 3", &["-O", "metadata_csum,^64bit"]),
    ] {
        let image = written(version, words);
        let found = read(&image).unwrap_or_else(|error| panic!("{version} {words:?}: {error}"));
        let replayed = image.copied();
        let path = replayed.path();
        run(
            "e2fsck",
            &["-y", "-E", "journal_only", path.to_str().unwrap()],
        );
        let mut expected = vec![0; found.len()];
        let file = File::open(&path).unwrap();
        file.read_exact_at(&mut expected, FIRST * 1024).unwrap();
        assert!(found == expected, "{version} {words:?}");
        // The revoked ones were never written.
        let is_revoked = words != OLDEST;
        let is_empty = found[3 * 1024..4 * 1024] == [0; 1024];
        assert_eq!(is_empty, is_revoked, "{version} {words:?}");
        assert_ne!(found[5 * 1024..6 * 1024], [0; 1024], "{version} {words:?}");
        assert_ne!(found[..1024], [0; 1024], "{version} {words:?}");
    }
}

#[test]
fn a_block_of_the_journal_that_was_changed_is_refused() {
    let image = written("-c -v 3", &["-O", "metadata_csum,64bit"]);
    let bytes = image.bytes();
    // The data of the log: the only copy of it there.
    let content: Vec<u8> = (0..1024_u64).map(|at| (at % 251) as u8).collect();
    let at = bytes.windows(1024).position(|it| it == content).unwrap();
    image.write(at as u64 + 100, b"changed");
    let error = read(&image).unwrap_err();
    assert_eq!(error, Error::damaged("its journal has a wrong checksum"));
}

#[test]
fn a_journal_on_another_disk_is_named() {
    let image = written("-c -v 3", &["-O", "metadata_csum,64bit"]);
    image.write_superblock(0xE0, &[0; 4]);
    let error = image.open().map(drop).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
}
