//! The folders of a container that does not run: the layers of its image and its own, `/work`, and
//! what else of the drive is mounted.
//!
//! Links are followed here, since in the container they lead elsewhere than on the drive.
//!
//! A disk that nobody made here may have a folder in itself, or in two places, so that a walk through
//! it would not end, or not in time. Each folder is one at the place where it was found first.

use std::cell::{OnceCell, RefCell};
use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;

use super::ext4::{Error, Ext4, Inode, Kind};
use super::layers::{self, Mount, Root};
use crate::host::sftp::{Attributes, Entry, SftpError};
use crate::ids::{DriveIn, DriveName};

/// The folder of the drive that is [`WORK`] in the container.
const DRIVES_WORK: &[u8] = b"/work";

/// Where it is in the container's root.
const WORK: &[u8] = b"work";

/// Where the files of an adopted disk will be, in the root and in [`WORK`], and the folder that stays
/// where it is (`shell/host/drive`, `adopt`).
const ADOPTED: &[u8] = b"v1";
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// How many links may lead to a path, as on Linux (`path_resolution(7)`).
const LINKS: u32 = 40;

/// How many names of a folder are listed at most.
const LISTED: usize = 4 << 20;

/// The container's files.
pub(super) struct Tree {
    pub(super) fs: Ext4,
    place: DriveIn<DriveName>,
    /// Whether nothing is laid out on the drive: its root is the folder [`ADOPTED`].
    is_foreign: bool,
    mounts: Vec<Mount>,
    /// Read when it is needed: `/work` is not in it, and most paths are there.
    root: OnceCell<Root>,
    /// The folder and name where each folder was found.
    places: RefCell<HashMap<u32, (u32, Vec<u8>)>>,
}

/// A folder: those of the drive that make it together, the topmost first.
#[derive(Clone)]
struct Folder(Vec<Inode>);

/// The end of a path.
enum Node {
    Folder(Folder),
    /// A file, link or any other entry.
    Leaf(Inode),
}

/// The end of a path, and how it is reached.
struct Found {
    /// None is the root.
    node: Option<Node>,
    /// The path without links, if it is a folder's.
    names: Vec<Vec<u8>>,
}

/// The error of a request, by that of the file system.
pub(super) fn failed(error: Error) -> SftpError {
    match error {
        Error::Missing => SftpError::Missing,
        // Nothing more can be read: what comes from AWS, or from the line to it.
        Error::Disk(why) => SftpError::Lost(why),
        other => SftpError::Refused(other.to_string()),
    }
}

fn refused(why: &str) -> SftpError {
    SftpError::Refused(why.to_owned())
}

impl Tree {
    pub(super) fn open(fs: Ext4, place: DriveIn<DriveName>) -> Result<Self, SftpError> {
        let is_foreign = layers::is_foreign(&fs).map_err(failed)?;
        let mounts = if is_foreign {
            // As they will be at the first connect.
            let at = [
                vec![ADOPTED.to_vec()],
                vec![WORK.to_vec(), ADOPTED.to_vec()],
            ];
            at.map(|names| Mount {
                names,
                path: b"/".to_vec(),
            })
            .into()
        } else {
            layers::mounts(&fs, place.container.as_ref()).map_err(failed)?
        };
        Ok(Self {
            fs,
            place,
            is_foreign,
            mounts,
            root: OnceCell::new(),
            places: RefCell::default(),
        })
    }

    fn root(&self) -> Result<&Root, SftpError> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let root = if self.is_foreign {
            Root::default()
        } else {
            layers::find_root(&self.fs, &self.place).map_err(failed)?
        };
        Ok(self.root.get_or_init(|| root))
    }

    /// Looks at `path`; without a leading `/` it is below `/work`.
    pub(super) fn look(&self, path: &[u8], follows: bool) -> Result<Entry, SftpError> {
        let node = match self.find(path, follows)?.node {
            None => Node::Folder(Folder(self.root()?.layers.clone())),
            Some(node) => node,
        };
        self.entry(b"", &node).map_err(failed)
    }

    /// All that is in a folder, by name. An inode that makes no sense, and the target of a link that
    /// cannot be read, take only their own names with them: those are nothing that can be copied.
    pub(super) fn list(&self, path: &[u8]) -> Result<Vec<Entry>, SftpError> {
        let Found { node, names } = self.find(path, true)?;
        let folder = match node {
            None => Folder(self.root()?.layers.clone()),
            Some(Node::Folder(folder)) => folder,
            Some(Node::Leaf(_)) => return Err(refused("it is no folder")),
        };
        let mut seen = HashSet::<Vec<u8>>::new();
        let mut entries = Vec::new();
        if names.is_empty() {
            entries.push(self.entry_or_unreadable(WORK.to_vec(), Ok(Node::Folder(self.work()?)))?);
            seen.insert(WORK.to_vec());
        }
        for (name, mount) in self.mounts_in(&names)? {
            // Without its folder on the drive nothing is there.
            match self.mounted(mount) {
                Err(Error::Missing) => {}
                node if seen.insert(name.clone()) => {
                    entries.push(self.entry_or_unreadable(name, node)?);
                }
                _ => {}
            }
        }
        for part in &folder.0 {
            for (name, number) in self.names(part, &mut seen)? {
                match self.fs.inode(number) {
                    // It hides what is below, and is nothing itself.
                    Ok(inode) if is_whiteout(&inode) => {}
                    inode => entries.push(self.entry_or_unreadable(name, inode.map(Node::Leaf))?),
                }
            }
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// The names in one part of a folder that were not seen yet, with their inodes.
    fn names(
        &self,
        part: &Inode,
        seen: &mut HashSet<Vec<u8>>,
    ) -> Result<Vec<(Vec<u8>, u32)>, SftpError> {
        let mut names = Vec::new();
        let has_too_many = self.fs.each(part, |name, number| {
            if self.is_foreign && part.is_root() && name == LOST_AND_FOUND {
                return ControlFlow::Continue(());
            }
            if seen.insert(name.to_vec()) {
                names.push((name.to_vec(), number));
            }
            if seen.len() > LISTED {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match has_too_many.map_err(failed)? {
            Some(()) => Err(refused("more is in it than is listed")),
            None => Ok(names),
        }
    }

    /// The entry of a folder with this `name`, which may be nothing that can be read.
    fn entry_or_unreadable(
        &self,
        name: Vec<u8>,
        node: Result<Node, Error>,
    ) -> Result<Entry, SftpError> {
        match node.and_then(|node| self.entry(&name, &node)) {
            Err(error @ Error::Disk(_)) => Err(failed(error)),
            Err(_) => Ok(Entry {
                name,
                attributes: UNREADABLE,
                target: Vec::new(),
            }),
            Ok(entry) => Ok(entry),
        }
    }

    /// The inode of the file at `path`.
    pub(super) fn file(&self, path: &[u8]) -> Result<Inode, SftpError> {
        match self.find(path, true)?.node {
            Some(Node::Leaf(inode)) if inode.kind() == Kind::File => Ok(inode),
            Some(Node::Leaf(_)) => Err(refused("it is no file, folder or link")),
            _ => Err(refused("it is a folder")),
        }
    }

    fn entry(&self, name: &[u8], node: &Node) -> Result<Entry, Error> {
        let (attributes, target) = match node {
            // Those of its topmost part.
            Node::Folder(Folder(parts)) => {
                (parts.first().map_or(NO_FOLDER, attributes), Vec::new())
            }
            Node::Leaf(inode) if inode.kind() == Kind::Link => {
                (attributes(inode), self.fs.target(inode)?)
            }
            Node::Leaf(inode) => (attributes(inode), Vec::new()),
        };
        Ok(Entry {
            name: name.to_vec(),
            attributes,
            target,
        })
    }

    /// Finds where `path` leads; where that is a link, where it leads if `follows`.
    fn find(&self, path: &[u8], follows: bool) -> Result<Found, SftpError> {
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
            // Nothing is mounted in its place, and the root need not be known for it.
            let is_work = names.is_empty() && name == WORK;
            let mount = if is_work {
                None
            } else {
                self.mounts_in(&names)?.find(|(it, _)| *it == name)
            };
            let node = match mount {
                Some((_, mount)) => self.mounted(mount).map_err(failed)?,
                None => self.child(&above, &name)?,
            };
            match node {
                Node::Folder(folder) => {
                    above.push(folder);
                    names.push(name);
                }
                Node::Leaf(link) if link.kind() == Kind::Link && (follows || !rest.is_empty()) => {
                    links += 1;
                    if links > LINKS {
                        return Err(refused("too many links lead to it"));
                    }
                    let target = self.fs.target(&link).map_err(failed)?;
                    if target.starts_with(b"/") {
                        above.clear();
                        names.clear();
                    }
                    for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                        rest.push_front(part.to_vec());
                    }
                }
                leaf if rest.is_empty() => {
                    let node = Some(leaf);
                    return Ok(Found { node, names });
                }
                // A file where the path has a folder.
                Node::Leaf(_) => return Err(SftpError::Missing),
            }
        }
        let node = above.pop().map(Node::Folder);
        Ok(Found { node, names })
    }

    /// The mounts in the folder of these names, by name. Docker's volumes count outside of
    /// `/work`: where they are is known only when the root is.
    fn mounts_in(
        &self,
        names: &[Vec<u8>],
    ) -> Result<impl Iterator<Item = (Vec<u8>, &Mount)>, SftpError> {
        let in_work = names.first().is_some_and(|first| first == WORK);
        let volumes: &[Mount] = if in_work { &[] } else { &self.root()?.volumes };
        let mounts = self.mounts.iter().chain(volumes);
        Ok(mounts.filter_map(move |mount| {
            let (last, before) = mount.names.split_last()?;
            (before == names).then(|| (last.clone(), mount))
        }))
    }

    fn mounted(&self, mount: &Mount) -> Result<Node, Error> {
        let found = self.fs.find(&mount.path)?;
        Ok(if found.kind() == Kind::Folder {
            Node::Folder(Folder(vec![found]))
        } else {
            Node::Leaf(found)
        })
    }

    /// The folder of the drive's own files: before the first connect it has none of its own.
    fn work(&self) -> Result<Folder, SftpError> {
        match self.fs.find(DRIVES_WORK) {
            _ if self.is_foreign => Ok(Folder(Vec::new())),
            Err(Error::Missing) => Err(SftpError::Missing),
            found => Ok(Folder(vec![found.map_err(failed)?])),
        }
    }

    /// Finds a name in the last of the folders `above`, or in the root.
    fn child(&self, above: &[Folder], name: &[u8]) -> Result<Node, SftpError> {
        let parts = match above.last() {
            Some(Folder(parts)) => parts,
            None if name == WORK => return Ok(Node::Folder(self.work()?)),
            None => {
                let layers = &self.root()?.layers;
                if layers.is_empty() && !self.is_foreign {
                    return Err(refused(
                        "the container's own layers are not on the drive as folders; /work is there",
                    ));
                }
                layers
            }
        };
        let mut below = Vec::new();
        for part in parts {
            let found = match self.fs.child(part, name) {
                Err(Error::Missing) => continue,
                found => found.map_err(failed)?,
            };
            if found.kind() == Kind::Folder {
                self.check_place(above, part, name, &found)?;
                below.push(found);
            } else if below.is_empty() && !is_whiteout(&found) {
                return Ok(Node::Leaf(found));
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

    /// Refuses a folder that is above itself, or was found in another one or by another name.
    fn check_place(
        &self,
        above: &[Folder],
        part: &Inode,
        name: &[u8],
        found: &Inode,
    ) -> Result<(), SftpError> {
        let mut folders = above.iter().flat_map(|folder| &folder.0);
        if folders.any(|folder| folder.number == found.number) {
            return Err(refused("its file system is damaged: a folder is in itself"));
        }
        let place = (part.number, name.to_vec());
        match self.places.borrow_mut().entry(found.number) {
            Slot::Vacant(slot) => {
                slot.insert(place);
                Ok(())
            }
            Slot::Occupied(slot) if *slot.get() == place => Ok(()),
            Slot::Occupied(_) => Err(refused(
                "its file system is damaged: a folder is in two places",
            )),
        }
    }
}

/// The attributes of a folder that is not on the drive: a root whose layers are not found.
const NO_FOLDER: Attributes = Attributes {
    mode: 0o040_755,
    size: 0,
    changed: 0,
};

/// The attributes of what cannot be read: of no kind.
const UNREADABLE: Attributes = Attributes {
    mode: 0,
    size: 0,
    changed: 0,
};

/// The names on a path.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !matches!(*part, b"" | b"."))
}

/// Whether it says that what is below was deleted: a character device in a layer (kernel
/// documentation, *Overlay Filesystem*, whiteouts). Containers have their devices elsewhere.
fn is_whiteout(found: &Inode) -> bool {
    found.kind() == Kind::CharacterDevice
}

pub(super) fn attributes(found: &Inode) -> Attributes {
    let (seconds, nanoseconds) = found.changed;
    let changed = seconds.saturating_mul(1_000_000_000);
    Attributes {
        mode: found.mode.into(),
        size: found.size,
        changed: changed.saturating_add(nanoseconds.into()),
    }
}

#[cfg(test)]
pub(super) mod tests;
