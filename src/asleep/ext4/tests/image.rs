//! Images of file systems, and what is in them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Read as _;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::super::checksum::crc32c;
use super::super::{Disk, Error, Ext4, Inode, Kind};

/// How much of a file is looked at together.
const CHUNK: usize = 64 << 10;

/// A file that is read as a disk.
pub(super) struct FileDisk(pub(super) File);

impl Disk for FileDisk {
    fn read(&mut self, start: u64, into: &mut [u8]) -> Result<(), String> {
        let read = self.0.read_exact_at(into, start);
        read.map_err(|error| error.to_string())
    }
}

/// The file of a file system.
pub(super) struct Image {
    dir: TempDir,
}

/// A file, folder or link, as both sides have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct What {
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) changed: (i64, i64),
    /// A link's target, or what tells a file's content from others.
    pub(super) content: String,
}

pub(super) type Files = BTreeMap<PathBuf, What>;

pub(super) fn run(program: &str, words: &[&str]) -> String {
    let done = Command::new(program)
        .env("MKE2FS_SKIP_PROGRESS", "1")
        .args(words)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{program} {words:?}: {errors}");
    String::from_utf8_lossy(&done.stdout).into_owned() + &errors
}

impl Image {
    /// A file system of so many MiB, made by `mke2fs` with these words.
    pub(super) fn make(mebibytes: u32, words: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let image = Self { dir };
        let (path, size) = (image.path(), format!("{mebibytes}M"));
        let mut all = vec!["-q", "-F"];
        all.extend(words);
        all.extend([path.to_str().unwrap(), &size]);
        run("mke2fs", &all);
        image
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    /// A folder beside it.
    pub(super) fn path_beside(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Copies the image, as it is now, into another file.
    pub(super) fn copied(&self) -> Self {
        let dir = TempDir::new_in(self.dir.path().parent().unwrap()).unwrap();
        let copy = Self { dir };
        let (from, to) = (self.path(), copy.path());
        let words = [
            "--sparse=always",
            from.to_str().unwrap(),
            to.to_str().unwrap(),
        ];
        run("cp", &words);
        copy
    }

    /// Opens it with the reader.
    pub(super) fn open(&self) -> Result<Ext4, Error> {
        let file = File::open(self.path()).unwrap();
        Ext4::load(Box::new(FileDisk(file)))
    }

    /// Has debugfs write these commands to it.
    pub(super) fn debugfs(&self, commands: &str) -> String {
        let script = self.dir.path().join("commands");
        fs::write(&script, commands).unwrap();
        let (script, path) = (script.to_str().unwrap(), self.path());
        run("debugfs", &["-w", "-f", script, path.to_str().unwrap()])
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(self.path()).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    /// Writes to the superblock, and its checksum.
    pub(super) fn write_superblock(&self, at: usize, bytes: &[u8]) {
        let mut superblock = self.bytes()[1024..2048].to_vec();
        superblock[at..at + bytes.len()].copy_from_slice(bytes);
        let crc = crc32c(!0, &superblock[..0x3FC]);
        superblock[0x3FC..].copy_from_slice(&crc.to_le_bytes());
        self.write(1024, &superblock);
    }
}

/// Tells content from other content: what is not zero, where it is.
#[derive(Default)]
pub(super) struct Sum(DefaultHasher);

impl Sum {
    pub(super) fn add(&mut self, at: u64, bytes: &[u8]) {
        static ZEROS: [u8; CHUNK] = [0; CHUNK];
        if bytes != &ZEROS[..bytes.len()] {
            self.0.write_u64(at);
            self.0.write(bytes);
        }
    }

    pub(super) fn end(self) -> String {
        format!("{:016x}", self.0.finish())
    }
}

/// All that is in a folder of this computer.
pub(super) fn here(root: &Path) -> Files {
    let mut found = Files::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let attributes = fs::symlink_metadata(&path).unwrap();
            let mut content = String::new();
            if attributes.is_dir() {
                folders.push(path.clone());
            } else if attributes.is_symlink() {
                content = fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_string()
                    .unwrap();
            } else if attributes.is_file() {
                let (mut sum, mut at) = (Sum::default(), 0);
                let mut file = File::open(&path).unwrap();
                let mut chunk = vec![0; CHUNK];
                loop {
                    let mut length = 0;
                    while length < CHUNK {
                        match file.read(&mut chunk[length..]).unwrap() {
                            0 => break,
                            more => length += more,
                        }
                    }
                    if length == 0 {
                        break;
                    }
                    sum.add(at, &chunk[..length]);
                    at += length as u64;
                }
                content = sum.end();
            }
            let what = What {
                mode: attributes.mode(),
                size: attributes.size(),
                changed: (attributes.mtime(), attributes.mtime_nsec()),
                content,
            };
            let path = path.strip_prefix(root).unwrap().to_owned();
            found.insert(path, what);
        }
    }
    found
}

/// All that is in a file system. Each name is also looked for by itself.
pub(super) fn there(fs: &Ext4) -> Result<Files, Error> {
    let mut found = Files::new();
    let mut folders = vec![(PathBuf::new(), fs.root()?)];
    while let Some((above, folder)) = folders.pop() {
        let mut names = Vec::new();
        fs.each(&folder, |name, number| {
            names.push((name.to_vec(), number));
            ControlFlow::<()>::Continue(())
        })?;
        for (name, number) in names {
            let inode = fs.child(&folder, &name)?;
            assert_eq!(inode.number, number, "{name:?}");
            let path = above.join(std::ffi::OsStr::from_bytes(&name));
            let content = match inode.kind() {
                Kind::Folder => {
                    folders.push((path.clone(), inode.clone()));
                    String::new()
                }
                Kind::Link => String::from_utf8(fs.target(&inode)?).unwrap(),
                Kind::File => content(fs, &inode, u64::MAX)?,
                Kind::CharacterDevice | Kind::Other => String::new(),
            };
            let what = What {
                mode: inode.mode.into(),
                size: inode.size,
                changed: (inode.changed.0, inode.changed.1.into()),
                content,
            };
            found.insert(path, what);
        }
    }
    Ok(found)
}

/// A sum of the first so many bytes of a file.
pub(super) fn content(fs: &Ext4, inode: &Inode, most: u64) -> Result<String, Error> {
    let (mut sum, mut at) = (Sum::default(), 0);
    let mut chunk = vec![0; CHUNK];
    while at < most {
        let mut length = 0;
        while length < CHUNK {
            match fs.read(inode, at + length as u64, &mut chunk[length..])? {
                0 => break,
                more => length += more,
            }
        }
        if length == 0 {
            break;
        }
        sum.add(at, &chunk[..length]);
        at += length as u64;
    }
    Ok(sum.end())
}

/// Compares what both sides have, and names what differs.
pub(super) fn compare(there: &Files, here: &Files, of: &str) {
    for (path, what) in here {
        assert_eq!(there.get(path), Some(what), "{of}: {}", path.display());
    }
    for path in there.keys() {
        assert!(here.contains_key(path), "{of}: {}", path.display());
    }
}
