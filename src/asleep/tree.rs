//! The folders of a container that does not run: the layers of its image and its own, `/work`, and
//! what else of the drive is mounted.
//!
//! Links are followed here and not by the library, since in the container they lead elsewhere than on
//! the drive.

use std::cell::OnceCell;
use std::collections::{HashSet, VecDeque};

use ext4_view::{Ext4, Ext4Error, FileType, Metadata};

use super::layers::{self, Mount, joined};
use crate::host::sftp::{Attributes, Entry, SftpError};
use crate::ids::{DriveIn, DriveName};

/// The folder of the drive that is [`WORK`] in the container.
const DRIVES_WORK: &[u8] = b"/work";

/// Where it is in the container's root.
const WORK: &[u8] = b"work";

/// How many links may lead to a path, as on Linux (`path_resolution(7)`).
const LINKS: u32 = 40;

/// The container's files.
pub(super) struct Tree {
    pub(super) fs: Ext4,
    place: DriveIn<DriveName>,
    mounts: Vec<Mount>,
    /// Read when it is needed: `/work` is not in it, and most paths are there.
    root: OnceCell<Folder>,
}

/// A folder: the paths on the drive of those that make it together, the topmost first.
#[derive(Clone)]
struct Folder(Vec<Vec<u8>>);

/// What a path leads to.
enum Node {
    Folder(Folder),
    /// Anything else, by its path on the drive.
    Leaf(Vec<u8>, Metadata),
}

/// The error of a request, by that of the library.
pub(super) fn failed(error: &Ext4Error) -> SftpError {
    match error {
        Ext4Error::NotFound => SftpError::Missing,
        // Nothing more can be read: what comes from AWS, or from the line to it.
        Ext4Error::Io(why) => SftpError::Lost(why.to_string()),
        other => SftpError::Refused(other.to_string()),
    }
}

impl Tree {
    pub(super) fn open(fs: Ext4, place: DriveIn<DriveName>) -> Result<Self, SftpError> {
        let mounts =
            layers::mounts(&fs, place.container.as_ref()).map_err(|error| failed(&error))?;
        Ok(Self {
            fs,
            place,
            mounts,
            root: OnceCell::new(),
        })
    }

    fn root(&self) -> Result<&Folder, SftpError> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let layers = layers::of(&self.fs, &self.place).map_err(|error| failed(&error))?;
        Ok(self.root.get_or_init(|| Folder(layers)))
    }

    /// What is at `path`; without a leading `/` it is below `/work`.
    pub(super) fn look(&self, path: &[u8], follows: bool) -> Result<Entry, SftpError> {
        let node = match self.find(path, follows)? {
            None => Node::Folder(self.root()?.clone()),
            Some(node) => node,
        };
        self.entry(Vec::new(), &node)
    }

    /// All that is in a folder, by name.
    pub(super) fn list(&self, path: &[u8]) -> Result<Vec<Entry>, SftpError> {
        let (folder, is_root) = match self.find(path, true)? {
            None => (self.root()?.clone(), true),
            Some(Node::Folder(folder)) => (folder, false),
            Some(Node::Leaf(..)) => return Err(SftpError::Refused("it is no folder".to_owned())),
        };
        let mut seen = HashSet::<Vec<u8>>::new();
        let mut entries = Vec::new();
        if is_root {
            seen.insert(WORK.to_vec());
            entries.push(self.entry(WORK.to_vec(), &Node::Folder(work()))?);
        }
        for part in &folder.0 {
            for found in self.fs.read_dir(&**part).map_err(|error| failed(&error))? {
                let found = found.map_err(|error| failed(&error))?;
                let name = found.file_name().as_ref().to_vec();
                if matches!(&*name, b"." | b"..") || !seen.insert(name.clone()) {
                    continue;
                }
                let metadata = found.metadata().map_err(|error| failed(&error))?;
                if is_whiteout(&metadata) {
                    continue;
                }
                let path = found.path().as_ref().to_vec();
                entries.push(self.entry(name, &Node::Leaf(path, metadata))?);
            }
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// The path on the drive of the file at `path`.
    pub(super) fn file(&self, path: &[u8]) -> Result<Vec<u8>, SftpError> {
        match self.find(path, true)? {
            Some(Node::Leaf(path, _)) => Ok(path),
            _ => Err(SftpError::Refused("it is a folder".to_owned())),
        }
    }

    fn entry(&self, name: Vec<u8>, node: &Node) -> Result<Entry, SftpError> {
        let (attributes, target) = match node {
            Node::Folder(folder) => (self.folder(folder)?, Vec::new()),
            Node::Leaf(path, metadata) => {
                let target = if metadata.is_symlink() {
                    let target = self.fs.read_link(&**path);
                    target.map_err(|error| failed(&error))?.as_ref().to_vec()
                } else {
                    Vec::new()
                };
                (attributes(metadata), target)
            }
        };
        Ok(Entry {
            name,
            attributes,
            target,
        })
    }

    /// The attributes of a folder: those of its topmost part.
    fn folder(&self, folder: &Folder) -> Result<Attributes, SftpError> {
        let Some(part) = folder.0.first() else {
            return Ok(NO_ROOT);
        };
        let found = self.fs.symlink_metadata(&**part);
        Ok(attributes(&found.map_err(|error| failed(&error))?))
    }

    /// What `path` leads to; where that is a link, what it leads to if `follows`. None is the root.
    fn find(&self, path: &[u8], follows: bool) -> Result<Option<Node>, SftpError> {
        // The folders below the root, and their names.
        let mut above: Vec<Folder> = Vec::new();
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut rest: VecDeque<Vec<u8>> = VecDeque::new();
        if !path.starts_with(b"/") {
            rest.push_back(WORK.to_vec());
        }
        rest.extend(parts(path).map(<[u8]>::to_vec));
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == b".." {
                above.pop();
                names.pop();
                continue;
            }
            let node = match self.mounted(&names, &name)? {
                Some(node) => node,
                None => self.child(above.last(), &name)?,
            };
            match node {
                Node::Folder(folder) => {
                    above.push(folder);
                    names.push(name);
                }
                Node::Leaf(path, metadata)
                    if metadata.is_symlink() && (follows || !rest.is_empty()) =>
                {
                    links += 1;
                    if links > LINKS {
                        let why = "too many links lead to it".to_owned();
                        return Err(SftpError::Refused(why));
                    }
                    let target = self.fs.read_link(&*path).map_err(|error| failed(&error))?;
                    let target: &[u8] = target.as_ref();
                    if target.starts_with(b"/") {
                        above.clear();
                        names.clear();
                    }
                    for part in parts(target).collect::<Vec<_>>().into_iter().rev() {
                        rest.push_front(part.to_vec());
                    }
                }
                leaf if rest.is_empty() => return Ok(Some(leaf)),
                // A file where the path has a folder.
                Node::Leaf(..) => return Err(SftpError::Missing),
            }
        }
        Ok(above.pop().map(Node::Folder))
    }

    /// What is mounted at this `name` in the folder of these names, if something is.
    fn mounted(&self, names: &[Vec<u8>], name: &[u8]) -> Result<Option<Node>, SftpError> {
        let is_it = |mount: &&Mount| {
            let (last, before) = mount.names.split_last().unzip();
            last.is_some_and(|last| last == name) && before.is_some_and(|it| it == names)
        };
        let Some(mount) = self.mounts.iter().find(is_it) else {
            return Ok(None);
        };
        let found = self.fs.metadata(&*mount.path);
        let found = found.map_err(|error| failed(&error))?;
        let path = mount.path.clone();
        Ok(Some(if found.is_dir() {
            Node::Folder(Folder(vec![path]))
        } else {
            Node::Leaf(path, found)
        }))
    }

    /// What has this `name` in a folder, or in the root.
    fn child(&self, folder: Option<&Folder>, name: &[u8]) -> Result<Node, SftpError> {
        let folder = match folder {
            Some(folder) => folder,
            None if name == WORK => return Ok(Node::Folder(work())),
            None => self.root()?,
        };
        if folder.0.is_empty() {
            let why = "the container's own layers are not on the drive as folders; /work is there";
            return Err(SftpError::Refused(why.to_owned()));
        }
        let mut below = Vec::new();
        for part in &folder.0 {
            let path = joined(part, name);
            let found = match self.fs.symlink_metadata(&*path) {
                Err(Ext4Error::NotFound) => continue,
                found => found.map_err(|error| failed(&error))?,
            };
            if found.is_dir() {
                below.push(path);
            } else if below.is_empty() && !is_whiteout(&found) {
                return Ok(Node::Leaf(path, found));
            } else {
                // It hides what is below, and is hidden by what is above.
                break;
            }
        }
        if below.is_empty() {
            return Err(SftpError::Missing);
        }
        Ok(Node::Folder(Folder(below)))
    }
}

/// The root of a drive whose layers are not found.
const NO_ROOT: Attributes = Attributes {
    mode: 0o040_755,
    size: 0,
    changed: 0,
};

fn work() -> Folder {
    Folder(vec![DRIVES_WORK.to_vec()])
}

/// The names on a path.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !matches!(*part, b"" | b"."))
}

/// Whether it says that what is below was deleted: a character device in a layer (kernel
/// documentation, *Overlay Filesystem*, whiteouts). Containers have their devices elsewhere.
fn is_whiteout(found: &Metadata) -> bool {
    found.file_type().is_char_dev()
}

pub(super) fn attributes(found: &Metadata) -> Attributes {
    let kind = match found.file_type() {
        FileType::Regular => 0o100_000,
        FileType::Directory => 0o040_000,
        FileType::Symlink => 0o120_000,
        FileType::BlockDevice => 0o060_000,
        FileType::CharacterDevice => 0o020_000,
        FileType::Fifo => 0o010_000,
        FileType::Socket => 0o140_000,
    };
    let changed = found.modified();
    let nanoseconds = changed.seconds().saturating_mul(1_000_000_000);
    Attributes {
        mode: kind | u32::from(found.mode()),
        size: found.len(),
        changed: nanoseconds.saturating_add(i64::from(changed.nanoseconds())),
    }
}
