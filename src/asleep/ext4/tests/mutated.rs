//! File systems with some bytes changed at random, always the same ones: whatever they say, each is
//! read to an end, soon, and without a panic.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt as _, symlink};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::super::{Disk, Error, Ext4, Kind};
use super::image::{Image, content};

/// How many file systems are made of each kind.
const EACH: u32 = 500;

/// How long one is read at most, and how much of it: a walk that goes round is stopped by whoever
/// asks for it, and each of its steps ends by itself.
const LONGEST: Duration = Duration::from_secs(5);
const FOLDERS: usize = 60;
const NAMES: usize = 3000;
const BYTES: u64 = 1 << 20;
const ALL: u64 = 8 << 20;

/// Bytes in memory, and how many were read.
#[derive(Clone)]
struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Disk for Bytes {
    fn read(&mut self, start: u64, into: &mut [u8]) -> Result<(), String> {
        let bytes = self.0.borrow();
        let start = usize::try_from(start).map_err(|error| error.to_string())?;
        let end = start.checked_add(into.len()).ok_or("beyond all")?;
        into.copy_from_slice(bytes.get(start..end).ok_or("beyond the end")?);
        Ok(())
    }
}

/// The next number of a fixed row.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn fill(folder: &std::path::Path) {
    fs::create_dir_all(folder.join("work/a/b/c")).unwrap();
    fs::create_dir(folder.join("many")).unwrap();
    for nth in 0..120 {
        fs::write(
            folder.join(format!("many/{nth}-{}", "z".repeat(nth % 30))),
            "",
        )
        .unwrap();
    }
    for length in [10, 100, 3000, 40_000] {
        fs::write(folder.join(format!("work/bytes-{length}")), vec![7; length]).unwrap();
    }
    let comb = fs::File::create(folder.join("work/comb")).unwrap();
    for tooth in 0..150 {
        comb.write_all_at(&[7; 512], tooth * 4096).unwrap();
    }
    symlink("a", folder.join("work/short")).unwrap();
    symlink("long/".repeat(40), folder.join("work/long")).unwrap();
}

/// Reads all that there is, within these limits. Returns how much could be read.
fn read(fs: &Ext4) -> Result<usize, Error> {
    let mut folders = VecDeque::from([fs.root()?]);
    let mut found = 0;
    let mut seen = 0;
    let mut rest = ALL;
    while let Some(folder) = folders.pop_front() {
        seen += 1;
        if seen > FOLDERS {
            break;
        }
        let mut names = Vec::new();
        let all = fs.each(&folder, |name, number| {
            names.push((name.to_vec(), number));
            if names.len() < NAMES {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        found += usize::from(all.is_ok());
        for (nth, (name, number)) in names.into_iter().enumerate() {
            if nth % 16 == 0 {
                let _ = fs.child(&folder, &name);
            }
            let Ok(inode) = fs.inode(number) else {
                continue;
            };
            found += usize::from(match inode.kind() {
                Kind::Folder => {
                    folders.push_back(inode);
                    true
                }
                Kind::Link => fs.target(&inode).is_ok(),
                Kind::File => {
                    let most = BYTES.min(rest);
                    rest = rest.saturating_sub(inode.size);
                    content(fs, &inode, most).is_ok()
                }
                Kind::CharacterDevice | Kind::Other => true,
            });
        }
    }
    Ok(found)
}

/// Changes some bytes that are not zero, and those around them: what says something.
fn mutate(bytes: &mut [u8], places: &[usize], state: &mut u64) {
    for _ in 0..=next(state) % 6 {
        let at = places[usize::try_from(next(state)).unwrap() % places.len()];
        let near = at + usize::try_from(next(state) % 4).unwrap();
        let Some(byte) = bytes.get_mut(near) else {
            continue;
        };
        *byte = match next(state) % 4 {
            0 => 0,
            1 => 0xFF,
            2 => *byte ^ 1 << (next(state) % 8),
            _ => next(state).to_le_bytes()[0],
        };
    }
}

#[test]
fn whatever_a_disk_says_it_is_read_to_an_end_without_a_panic() {
    let from = tempfile::tempdir().unwrap();
    fill(from.path());
    let from = from.path().to_str().unwrap();
    for (words, journal) in [
        (&["-t", "ext4", "-O", "^metadata_csum,^64bit"][..], false),
        (
            &[
                "-t",
                "ext4",
                "-O",
                "^metadata_csum,inline_data,meta_bg,^resize_inode",
            ],
            false,
        ),
        (&["-t", "ext2"], false),
        (&["-t", "ext4"], false),
        (&["-t", "ext4", "-O", "^metadata_csum,^64bit"], true),
    ] {
        let small = ["-b", "1024", "-N", "400", "-d", from];
        let image = Image::make(4, &[words, &small].concat());
        if journal {
            let data = image.path_beside("data").join("data");
            fs::write(&data, vec![9; 20 * 1024]).unwrap();
            let data = data.display();
            image.debugfs(&format!(
                "jo\njw -b 3000-3019 {data}\njw -r 3004-3005\njc\n"
            ));
        }
        let whole = image.bytes();
        let disk = Bytes(Rc::new(RefCell::new(whole.clone())));
        let load = || Ext4::load(Box::new(disk.clone()));
        let all = read(&load().unwrap()).unwrap();
        assert!(all > 120, "{words:?}: {all}");
        // All but the content of files, of which most is one byte again and again.
        let places: Vec<usize> = (0..whole.len())
            .filter(|at| !matches!(whole[*at], 0 | 7 | 9))
            .collect();
        let mut state = 0x0DDB_1A5E_5BAD_5EED;
        let mut worked = 0;
        for round in 0..EACH {
            let mut changed = whole.clone();
            mutate(&mut changed, &places, &mut state);
            *disk.0.borrow_mut() = changed;
            let began = Instant::now();
            let found = load().and_then(|fs| read(&fs));
            let took = began.elapsed();
            assert!(took < LONGEST, "{words:?}, {round}: {took:?}");
            worked += u32::from(found.is_ok());
        }
        // Most of them are still read, so that the rest of the reader was met.
        assert!(worked > EACH / 3, "{words:?}: {worked}");
    }
}
