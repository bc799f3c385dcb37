//! File systems that are made to do harm, or that are simply broken.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use super::super::{Error, Kind};
use super::image::{Image, content, there};

fn refused(image: &Image) -> String {
    image.open().map(drop).unwrap_err().to_string()
}

fn small() -> Image {
    Image::make(8, &["-t", "ext4", "-b", "1024"])
}

#[test]
fn sizes_that_no_file_system_has_are_refused_before_anything_is_made_by_them() {
    for (what, at, bytes, error) in [
        (
            "blocks of 1 GiB",
            0x18,
            &[20, 0, 0, 0][..],
            "blocks have an impossible size",
        ),
        (
            "blocks beyond all",
            0x18,
            &[0xFF; 4],
            "blocks have an impossible size",
        ),
        (
            "2^48 blocks",
            0x150,
            &[0, 0, 1, 0],
            "its size is impossible",
        ),
        ("no block", 0x4, &[0; 4], "its size is impossible"),
        (
            "groups of no block",
            0x20,
            &[0; 4],
            "groups have an impossible size",
        ),
        (
            "groups of one block",
            0x20,
            &[1, 0, 0, 0],
            "groups have an impossible size",
        ),
        (
            "groups without inodes",
            0x28,
            &[0; 4],
            "groups have an impossible size",
        ),
        (
            "groups of all inodes",
            0x28,
            &[0xFF; 4],
            "groups have an impossible size",
        ),
        (
            "inodes of no bytes",
            0x58,
            &[0; 2],
            "inodes have an impossible size",
        ),
        (
            "inodes of 300 bytes",
            0x58,
            &[44, 1],
            "inodes have an impossible size",
        ),
        (
            "inodes longer than a block",
            0x58,
            &[0, 8],
            "inodes have an impossible size",
        ),
        (
            "descriptors of no bytes",
            0xFE,
            &[0; 2],
            "descriptors have an impossible size",
        ),
        (
            "descriptors of 33 bytes",
            0xFE,
            &[33, 0],
            "descriptors have an impossible size",
        ),
    ] {
        let image = small();
        image.write_superblock(at, bytes);
        let found = refused(&image);
        assert!(found.contains(error), "{what}: {found}");
        assert!(found.contains("is damaged"), "{what}: {found}");
    }
    // Nothing is made for eight thousand million groups, of which the first are where they were.
    let image = small();
    image.write_superblock(0x150, &[0x0F, 0, 0, 0]);
    image.write_superblock(0x20, &[8, 0, 0, 0]);
    let found = image.open().and_then(|fs| there(&fs));
    assert!(matches!(
        found,
        Ok(_) | Err(Error::Damaged(_) | Error::Disk(_))
    ));
}

#[test]
fn a_block_that_is_no_ext4_or_has_another_checksum_is_refused() {
    let image = small();
    image.write(1024 + 0x38, &[0, 0]);
    assert!(refused(&image).contains("holds no ext4"));
    let image = small();
    image.write(1024 + 0x78, b"name");
    assert!(refused(&image).contains("checksum"));
}

#[test]
fn features_that_are_not_read_are_named() {
    for (bits, named) in [
        (0x1, "it uses compression, which"),
        (0x1000, "dirdata"),
        (0x8, "another file system's journal"),
        (0x8000_0000, "newer than it (incompatible 0x80000000)"),
    ] {
        let image = small();
        let head = image.bytes();
        let now = u32::from_le_bytes(head[1024 + 0x60..][..4].try_into().unwrap());
        image.write_superblock(0x60, &(now | bits).to_le_bytes());
        let found = refused(&image);
        assert!(found.contains(named), "{found}");
        let is_helpful = found.contains("does not read while a drive is asleep");
        assert!(is_helpful && !found.contains("damaged"), "{found}");
    }
}

/// A file system without checksums, in which lies have to be found by themselves.
fn trusting(words: &[&str], fill: impl FnOnce(&Path)) -> Image {
    let from = tempfile::tempdir().unwrap();
    fill(from.path());
    let from = from.path().to_str().unwrap();
    let options = ["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,^64bit"];
    Image::make(16, &[&options, words, &["-d", from]].concat())
}

#[test]
fn a_zeroed_block_of_extents_is_an_error_of_its_file_alone() {
    let image = trusting(&[], |folder| {
        fs::write(folder.join("other"), "other").unwrap();
        let comb = fs::File::create(folder.join("comb")).unwrap();
        for tooth in 0..200 {
            use std::os::unix::fs::FileExt as _;
            comb.write_all_at(&[7; 512], tooth * 8192).unwrap();
        }
    });
    let blocks = image.debugfs("blocks /comb\nex /comb\n");
    let fs = image.open().unwrap();
    let root = fs.root().unwrap();
    let comb = fs.child(&root, b"comb").unwrap();
    content(&fs, &comb, u64::MAX).unwrap();
    // The first entry of the root of its extents.
    let node = u32::from_le_bytes(comb.places[16..20].try_into().unwrap());
    assert!(comb.places[6] > 0, "{blocks}");
    image.write(u64::from(node) * 1024, &[0; 1024]);
    let fs = image.open().unwrap();
    let error = content(&fs, &comb, u64::MAX).unwrap_err();
    assert!(
        error.to_string().contains("wrong tree of extents"),
        "{error}"
    );
    let other = fs.child(&root, b"other").unwrap();
    content(&fs, &other, u64::MAX).unwrap();
}

#[test]
fn extents_that_lead_to_themselves_and_beyond_the_end_are_refused() {
    let image = trusting(&[], |folder| {
        let comb = fs::File::create(folder.join("comb")).unwrap();
        for tooth in 0..200 {
            use std::os::unix::fs::FileExt as _;
            comb.write_all_at(&[7; 512], tooth * 8192).unwrap();
        }
    });
    let fs = image.open().unwrap();
    let comb = fs.child(&fs.root().unwrap(), b"comb").unwrap();
    let node = u32::from_le_bytes(comb.places[16..20].try_into().unwrap());
    let bytes = image.bytes();
    let leaf = &bytes[node as usize * 1024..][..1024];
    // A node that says of itself what its root says, and has itself below it.
    let mut cycle = leaf.to_vec();
    cycle[6] = 1;
    cycle[16..20].copy_from_slice(&node.to_le_bytes());
    cycle[20..24].fill(0);
    let mut beyond = leaf.to_vec();
    beyond[20..24].fill(0xFF);
    let mut early = leaf.to_vec();
    early[20..24].fill(0);
    let mut full = leaf.to_vec();
    full[2..6].fill(0xFF);
    for changed in [cycle, beyond, early, full] {
        image.write(u64::from(node) * 1024, &changed);
        let fs = image.open().unwrap();
        let error = content(&fs, &comb, u64::MAX).unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{error}");
    }
}

#[test]
fn a_folder_as_long_as_it_says_and_a_record_of_terabytes_take_no_memory() {
    let image = trusting(&[], |folder| {
        fs::create_dir(folder.join("folder")).unwrap();
        fs::write(folder.join("folder/name"), "").unwrap();
        let record = fs::File::create(folder.join("record")).unwrap();
        record
            .set_len(15 << 40)
            .unwrap_or_else(|_| record.set_len(15 << 30).unwrap());
    });
    let fs = image.open().unwrap();
    let error = fs.record(b"/record", 64 << 10).unwrap_err();
    assert!(matches!(error, Error::TooLarge(_)), "{error}");
    assert!(fs.record(b"/folder", 64 << 10).is_err());
    // Holes are no names.
    for (size, is_read) in [(64_u64 << 20, true), (1 << 40, false)] {
        image.debugfs(&format!("sif /folder size {size}\n"));
        let fs = image.open().unwrap();
        let folder = fs.find(b"/folder").unwrap();
        assert_eq!(folder.kind(), Kind::Folder);
        let mut names = 0;
        let all = fs.each(&folder, |_, _| {
            names += 1;
            ControlFlow::<()>::Continue(())
        });
        // Its upper half counts only where folders may be that long.
        assert!(
            names == 1 && all.is_ok() == is_read || all.is_ok(),
            "{all:?}"
        );
    }
}

#[test]
fn names_that_are_none_are_refused() {
    for (from, to) in [(&b"name-1"[..], &b"na/e-1"[..]), (b"name-1", b"na\0e-1")] {
        let image = trusting(&[], |folder| {
            fs::create_dir(folder.join("folder")).unwrap();
            fs::write(folder.join("folder/name-1"), "").unwrap();
        });
        let at = image.bytes().windows(6).position(|it| it == from).unwrap();
        image.write(at as u64, to);
        let error = there(&image.open().unwrap()).unwrap_err();
        assert!(error.to_string().contains("wrong entry"), "{error}");
    }
}

#[test]
fn an_encrypted_folder_is_named_and_other_files_are_read() {
    let image = trusting(&["-O", "encrypt"], |folder| {
        fs::create_dir(folder.join("secret")).unwrap();
        fs::write(folder.join("secret/name"), "").unwrap();
        fs::write(folder.join("other"), "other").unwrap();
    });
    image.debugfs("sif /secret flags 0x80800\n");
    let fs = image.open().unwrap();
    let secret = fs.find(b"/secret").unwrap();
    assert_eq!(secret.kind(), Kind::Folder);
    let error = fs.child(&secret, b"name").map(drop).unwrap_err();
    let expected =
        "it uses encryption (fscrypt), which xdrive does not read while a drive is asleep";
    assert_eq!(error.to_string(), expected);
    assert_eq!(fs.record(b"/other", 9).unwrap(), b"other");
}

#[test]
fn a_checksum_that_is_wrong_is_named() {
    let image = Image::make(8, &["-t", "ext4", "-b", "1024"]);
    let from = image.path_beside("from");
    fs::write(from.join("file"), "content").unwrap();
    let write = format!("write {} file\n", from.join("file").display());
    image.debugfs(&write);
    let fs = image.open().unwrap();
    assert_eq!(fs.record(b"/file", 9).unwrap(), b"content");
    let place = image.debugfs("imap /file\n");
    // "… located at block N, offset 0xM".
    let words: Vec<&str> = place.split([' ', ',', '\n']).collect();
    let after = |word: &str| {
        let at = words.iter().rposition(|it| *it == word).unwrap();
        words[at + 1]
    };
    let block: u64 = after("block").parse().unwrap();
    let offset = u64::from_str_radix(after("offset").trim_start_matches("0x"), 16).unwrap();
    // Another user's.
    image.write(block * 1024 + offset + 2, &[1]);
    let error = image.open().unwrap().record(b"/file", 9).unwrap_err();
    assert!(
        error.to_string().contains("has a wrong checksum"),
        "{error}"
    );
    let checked = Command::new("e2fsck")
        .args(["-fn"])
        .arg(image.path())
        .output()
        .unwrap();
    assert!(!checked.status.success(), "e2fsck finds nothing wrong");
}
