//! A file system of anybody's, as a fuzzer makes it: all of it is read within bounds, and nothing that
//! is read breaks what its reader promises.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::LazyLock;
use std::{env, fs};

use super::containers;
use super::ext4::{Disk, Error, Ext4, Inode, Kind};
use super::runs;
use super::tree::Tree;
use crate::host::sftp::Entry;

/// The bytes of a disk, and how much is read of one.
const DISK: u64 = 4 << 20;
const FOLDERS: usize = 24;
const NAMES: usize = 300;
const BYTES: u64 = 64 << 10;
const ALL: u64 = 512 << 10;

/// How often one disk is read: a file system that is four times as long has as many blocks.
const READS: u32 = 100_000;

/// How many changes an input makes.
const CHANGES: usize = 64;

/// A file system that `mke2fs` made, and where something stands in it.
struct Base {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

/// The file systems of the folder that the environment names.
static BASES: LazyLock<Vec<Base>> = LazyLock::new(|| {
    let folder = PathBuf::from(env::var_os("XDRIVE_FUZZ_IMAGES").unwrap_or_default());
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.sort();
    let read = files.iter().map(|file| {
        let bytes = fs::read(file).expect("a file system can be read");
        // All but the content of files, which is one byte again and again.
        let says = |at: &usize| !matches!(bytes[*at], 0 | 7 | 9);
        let places = (0..bytes.len()).filter(says).collect();
        Base { bytes, places }
    });
    read.collect()
});

/// A disk: the bytes of a base with some changed, or those of the input and zeros.
#[derive(Clone)]
struct Changed {
    own: Rc<[u8]>,
    base: Option<&'static Base>,
    changes: Rc<Vec<(usize, Vec<u8>)>>,
    reads: Rc<Cell<u32>>,
}

impl Disk for Changed {
    fn read(&mut self, start: u64, into: &mut [u8]) -> Result<(), String> {
        self.reads.set(self.reads.get() + 1);
        assert!(self.reads.get() < READS, "a disk is read without an end");
        let end = start.checked_add(into.len() as u64).ok_or("beyond all")?;
        if end > DISK {
            return Err("beyond its end".to_owned());
        }
        let start = usize::try_from(start).map_err(|error| error.to_string())?;
        let bytes = self.base.map_or(&*self.own, |base| &base.bytes);
        let found = bytes.get(start.min(bytes.len())..).unwrap_or_default();
        for (into, byte) in into
            .iter_mut()
            .zip(found.iter().chain(std::iter::repeat(&0)))
        {
            *into = *byte;
        }
        for (at, change) in self.changes.iter() {
            for (at, byte) in (*at..).zip(change) {
                if let Some(into) = at.checked_sub(start).and_then(|at| into.get_mut(at)) {
                    *into = *byte;
                }
            }
        }
        Ok(())
    }
}

/// The disk of an input: its first byte is the base, if that is one; then come changes.
fn disk(input: &[u8]) -> Option<Changed> {
    let (first, mut rest) = input.split_first()?;
    let base = BASES.get(usize::from(*first));
    let mut changes = Vec::new();
    if let Some(base) = base {
        while changes.len() < CHANGES
            && let [head, one, other, after @ ..] = rest
        {
            let place = usize::from(u16::from_le_bytes([*one, *other]));
            // At something that is there, or anywhere.
            let at = if head & 0x80 == 0 {
                base.places[(place * base.places.len()) >> 16]
            } else {
                place << 6 | usize::from(head >> 1 & 0x3C)
            };
            let (change, after) = after.split_at_checked(usize::from(head & 7) + 1)?;
            changes.push((at, change.to_vec()));
            rest = after;
        }
    }
    Some(Changed {
        own: rest.into(),
        base,
        changes: Rc::new(changes),
        reads: Rc::default(),
    })
}

/// Reads the file system of an input to its end, as far as its bounds go.
pub(crate) fn read(input: &[u8]) {
    let Some(disk) = disk(input) else {
        return;
    };
    let load = || {
        disk.reads.set(0);
        Ext4::load(Box::new(disk.clone()))
    };
    let Ok(fs) = load() else {
        return;
    };
    // Errors are what a damaged file system is for.
    let _ = walk(&fs);
    let Ok(fs) = load() else {
        panic!("a file system is read once, and not twice");
    };
    let _ = containers::on_record(&fs);
    disk.reads.set(0);
    let _ = runs::on_record(&fs);
    let place = "demo".parse().expect("a name");
    let Ok(tree) = Tree::open(fs, place) else {
        return;
    };
    for path in [&b"/"[..], b"", b"/work/a", b"/etc", b"data"] {
        disk.reads.set(0);
        let Ok(entries) = tree.list(path) else {
            continue;
        };
        for entry in entries.iter().take(32) {
            check(entry);
            disk.reads.set(0);
            let path = [path, b"/", &entry.name].concat();
            let _ = tree.look(&path, true);
            if let Ok(file) = tree.file(&path) {
                content(&tree.fs, &file, BYTES);
            }
        }
    }
}

fn check(entry: &Entry) {
    name(&entry.name);
    assert!(entry.target.len() <= 4096, "a target is too long");
}

/// Checks that a name leads nowhere else.
fn name(name: &[u8]) {
    assert!(!matches!(name, b"" | b"." | b".."), "{name:?}");
    assert!(name.len() <= 255, "{name:?}");
    assert!(!name.iter().any(|it| matches!(it, b'/' | 0)), "{name:?}");
}

fn walk(fs: &Ext4) -> Result<(), Error> {
    let mut folders = vec![fs.root()?];
    let mut seen = 0;
    let mut rest = ALL;
    while let Some(folder) = folders.pop() {
        seen += 1;
        if seen > FOLDERS {
            break;
        }
        let mut names = Vec::new();
        let _ = fs.each(&folder, |found, number| {
            name(found);
            names.push((found.to_vec(), number));
            if names.len() < NAMES {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        for (nth, (name, number)) in names.into_iter().enumerate() {
            if nth % 8 == 0 {
                let _ = fs.child(&folder, &name);
            }
            let Ok(inode) = fs.inode(number) else {
                continue;
            };
            assert!(inode.changed.1 < 1_000_000_000, "a time has no such part");
            match inode.kind() {
                Kind::Folder => folders.push(inode),
                Kind::Link => {
                    if let Ok(target) = fs.target(&inode) {
                        assert!((1..=4096).contains(&target.len()), "a target's length");
                    }
                }
                Kind::File => rest -= content(fs, &inode, BYTES.min(rest)),
                Kind::CharacterDevice | Kind::Other => {}
            }
        }
    }
    Ok(())
}

/// Reads the beginning of a file, and its end. Returns how much of its beginning there was.
fn content(fs: &Ext4, file: &Inode, most: u64) -> u64 {
    let mut chunk = [0; 16 << 10];
    let mut at = 0;
    while at < most {
        match fs.read(file, at, &mut chunk) {
            Ok(0) => {
                assert!(at >= file.size, "a file ends early");
                break;
            }
            Ok(more) => at += more as u64,
            Err(_) => break,
        }
        assert!(at <= file.size, "a file is longer than it says");
    }
    let _ = fs.prepare(file, file.size / 2);
    let end = file.size.saturating_sub(5);
    if let Ok(more) = fs.read(file, end, &mut chunk) {
        assert!(more <= 5, "a file goes on behind its end");
    }
    at.min(most)
}
