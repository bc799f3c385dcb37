//! Copies to this computer, from files of this process.

mod liar;
mod real;
mod unharmed;

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;

use super::*;
use crate::host::sftp::{Attributes, Entry, Files, Kind, MOST, Sftp, SftpError};

/// When everything was changed, in seconds.
const CHANGED: i64 = 1_000_000_000;

/// Files and folders: path, mode, size as it is reported, and content.
#[derive(Clone)]
struct Tree {
    nodes: Vec<(&'static str, u32, u64, Bytes)>,
    /// Where the links lead.
    targets: Vec<(&'static str, &'static str)>,
    /// The path for every one that begins with `~`.
    expands: &'static str,
    /// Where in a file the connection ends.
    lost_at: u64,
}

/// The names on a path, without those that lead nowhere.
fn plain(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
    names.collect::<Vec<_>>().join("/")
}

impl Tree {
    fn new() -> Self {
        Self {
            nodes: Vec::new(),
            targets: Vec::new(),
            expands: "",
            lost_at: u64::MAX,
        }
    }

    fn folder(mut self, path: &'static str, permissions: u32) -> Self {
        self.nodes
            .push((path, 0o040_000 | permissions, 0, Bytes::new()));
        self
    }

    fn link(mut self, path: &'static str, target: &'static str) -> Self {
        self.nodes.push((path, 0o120_777, 0, Bytes::new()));
        self.targets.push((path, target));
        self
    }

    fn expanding_to(&self, expands: &'static str) -> Self {
        Self {
            expands,
            ..self.clone()
        }
    }

    fn file(self, path: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        self.file_of(path, content.len() as u64, content)
    }

    /// A file that is said to have `size` bytes.
    fn file_of(mut self, path: &'static str, size: u64, content: impl Into<Bytes>) -> Self {
        self.nodes.push((path, 0o100_644, size, content.into()));
        self
    }

    fn lost_at(&self, lost_at: u64) -> Self {
        Self {
            lost_at,
            ..self.clone()
        }
    }

    fn find(&self, path: &[u8]) -> Result<usize, SftpError> {
        let path = plain(path);
        let found = self.nodes.iter().position(|node| node.0 == path);
        found.ok_or(SftpError::Missing)
    }

    fn entry(&self, index: usize, name: Vec<u8>) -> Entry {
        let (path, mode, size, _) = self.nodes[index];
        let target = self
            .targets
            .iter()
            .find(|it| it.0 == path && mode & 0o170_000 == 0o120_000);
        Entry {
            name,
            attributes: Attributes {
                mode,
                size,
                changed: CHANGED * 1_000_000_000,
            },
            target: target.map_or_else(Vec::new, |it| it.1.into()),
        }
    }

    fn served(&self) -> Sftp {
        let tree = self.clone();
        Sftp::served("frozen".into(), move || Ok(tree))
    }

    fn servers(&self) -> Servers {
        Servers::new(vec![self.served()])
    }
}

impl Files for Tree {
    fn expand(&mut self, _path: &[u8]) -> Result<Vec<u8>, SftpError> {
        Ok(self.expands.into())
    }

    fn look(&mut self, path: &[u8], _follows: bool) -> Result<Entry, SftpError> {
        Ok(self.entry(self.find(path)?, Vec::new()))
    }

    fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, SftpError> {
        let folder = plain(path) + "/";
        let names = self.nodes.iter().enumerate().filter_map(|(index, node)| {
            let name = node.0.strip_prefix(&*folder)?;
            (!name.contains('/')).then(|| self.entry(index, name.into()))
        });
        Ok(names.collect())
    }

    fn open(&mut self, path: &[u8]) -> Result<(Attributes, u32), SftpError> {
        let index = self.find(path)?;
        let file = u32::try_from(index).unwrap();
        Ok((self.entry(index, Vec::new()).attributes, file))
    }

    fn read(&mut self, file: u32, at: u64, length: usize) -> Result<Bytes, SftpError> {
        if at >= self.lost_at {
            return Err(SftpError::Lost("it was cut".to_owned()));
        }
        let content = &self.nodes[usize::try_from(file).unwrap()].3;
        let at = content.len().min(usize::try_from(at).unwrap());
        let end = content.len().min(at + length);
        Ok(content.slice(at..end))
    }

    fn close(&mut self, _file: u32) {}
}

fn down(source: &str, to: &Path) -> Transfer {
    let order = Order::Down {
        sources: vec![source.into()],
        to: to.to_owned(),
    };
    Transfer::new(order, false)
}

#[tokio::test]
async fn a_part_of_one_frozen_file_is_no_beginning_of_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = [1_u8, 2].map(|byte| vec![byte; 3 * MOST]);
    let tree = Tree::new()
        .file("run1/model", one.clone())
        .file("run2/model", other.clone());
    let [to, to_other] = ["m1", "m2"].map(|name| folder.path().join(name));
    let cut = tree.lost_at(MOST as u64).servers();
    let stopped = down("run1/model", &to).run(cut).await;
    assert!(matches!(stopped, Err(Stop::Lost(_))), "{stopped:?}");
    let parts = || fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(parts(), 1);
    let copied = down("run2/model", &to_other).run(tree.servers()).await;
    copied.unwrap();
    assert!(fs::read(&to_other).unwrap() == other);
    assert_eq!(parts(), 2);
    let copied = down("run1/model", &to).run(tree.servers()).await;
    copied.unwrap();
    assert!(fs::read(&to).unwrap() == one);
    // It has become the file.
    assert_eq!(parts(), 2);
}

#[tokio::test]
async fn a_copy_that_goes_on_is_made_where_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let tree = Tree::new()
        .folder("things", 0o750)
        .file("things/large", vec![1_u8; 3 * MOST]);
    let copy = down("things", &to);
    let stopped = copy.run(tree.lost_at(MOST as u64).servers()).await;
    assert!(matches!(stopped, Err(Stop::Lost(_))), "{stopped:?}");
    assert!(to.is_dir());
    copy.run(tree.servers()).await.unwrap();
    assert_eq!(fs::read(to.join("large")).unwrap().len(), 3 * MOST);
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
    let made = fs::metadata(&to).unwrap();
    assert_eq!((made.mode() & 0o7777, made.mtime()), (0o750, CHANGED));
}

#[tokio::test]
async fn a_folder_that_was_named_keeps_its_own_permissions_and_time() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    fs::create_dir_all(to.join("deep")).unwrap();
    set(&to.join("deep"), 0o1770);
    set(&to, 0o1777);
    let tree = Tree::new()
        .folder("things", 0o750)
        .folder("things/deep", 0o711)
        .file("things/deep/a", "a");
    down("things/.", &to).run(tree.servers()).await.unwrap();
    let found = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.mode() & 0o7777, found.mtime() == CHANGED)
    };
    assert_eq!(found(&to), (0o1777, false));
    assert_eq!(found(&to.join("deep")), (0o1711, true));
    // One that is made gets those of the source.
    let made = folder.path().join("made");
    down("things/.", &made).run(tree.servers()).await.unwrap();
    assert_eq!(found(&made), (0o750, true));
}

#[tokio::test]
async fn neither_a_socket_nor_a_link_to_one_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let [socket, link] = ["socket", "link"].map(|name| folder.path().join(name));
    let _listener = UnixListener::bind(&socket).unwrap();
    symlink("socket", &link).unwrap();
    let tree = Tree::new().file("a", "a");
    for to in [&socket, &link] {
        let copy = down("a", to);
        copy.run(tree.servers()).await.unwrap();
        let problems = copy.problems();
        assert_eq!(problems.len(), 1, "{}", to.display());
        let why = &problems[0].why;
        assert_eq!(why, "something else has its name on this computer");
        let there = local::look(to, true).unwrap().unwrap();
        assert_eq!(there.attributes.kind(), Kind::Other);
    }
    assert!(link.is_symlink());
}

#[tokio::test]
async fn the_name_that_is_written_is_the_one_that_was_typed() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::new()
        .file("home/notes.txt", "notes")
        .folder("home", 0o700)
        .file(".ssh/authorized_keys", "attacker's");
    for (named, expands, made) in [
        // As a server says it that is not to be trusted.
        ("~/notes.txt", ".ssh/authorized_keys", "notes.txt"),
        ("~/notes.txt", "home/notes.txt", "notes.txt"),
        // A home folder's content, without its name.
        ("~", "home", "notes.txt"),
        ("~/", "home", "notes.txt"),
    ] {
        let to = tempfile::tempdir_in(folder.path()).unwrap();
        let tree = tree.expanding_to(expands);
        let copy = down(named, to.path());
        copy.run(tree.servers()).await.unwrap();
        assert_eq!(copy.problems(), []);
        let names = fs::read_dir(to.path()).unwrap();
        let names: Vec<_> = names.map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, [made], "{named}");
    }
}

#[tokio::test]
async fn a_link_that_answers_where_links_are_followed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::new().link("results", "../.ssh");
    let copy = down("results", folder.path());
    let refused = copy.run(tree.servers()).await;
    assert!(matches!(refused, Err(Stop::Refused(_))), "{refused:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_link_in_the_destination_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("to")).unwrap();
    fs::create_dir(at("elsewhere")).unwrap();
    fs::write(at("file"), "mine").unwrap();
    symlink("../elsewhere", at("to/results")).unwrap();
    symlink("../file", at("to/a")).unwrap();
    let tree = Tree::new()
        .folder("results", 0o755)
        .file("results/keys", "theirs")
        .file("a", "theirs");
    let order = Order::Down {
        sources: vec![b"results".to_vec(), b"a".to_vec()],
        to: at("to"),
    };
    let copy = Transfer::new(order, false);
    copy.run(tree.servers()).await.unwrap();
    let problems = copy.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].why, "something else has its name here");
    assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 0);
    assert_eq!(fs::read(at("file")).unwrap(), b"mine");
    assert_eq!(fs::read(at("to/a")).unwrap(), b"theirs");
}

#[tokio::test]
async fn a_link_that_was_typed_is_followed_as_it_was_when_the_copy_began() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for file in ["file", "other"] {
        fs::write(at(file), "mine").unwrap();
    }
    symlink("file", at("to")).unwrap();
    let tree = Tree::new().file("large", vec![1_u8; 3 * MOST]);
    let copy = down("large", &at("to"));
    let stopped = copy.run(tree.lost_at(MOST as u64).servers()).await;
    assert!(matches!(stopped, Err(Stop::Lost(_))), "{stopped:?}");
    fs::remove_file(at("to")).unwrap();
    symlink("other", at("to")).unwrap();
    copy.run(tree.servers()).await.unwrap();
    assert_eq!(copy.problems(), []);
    assert_eq!(fs::read(at("file")).unwrap().len(), 3 * MOST);
    assert_eq!(fs::read(at("other")).unwrap(), b"mine");
    assert!(at("to").is_symlink());
}

#[tokio::test]
async fn a_listing_with_a_name_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "mine").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let tree = Tree::new()
        .folder("x", 0o755)
        .link("x/a", "../secret")
        .file("x/a", "mine");
    let copy = down("x", &folder.path().join("to"));
    for _ in 0..2 {
        copy.run(tree.servers()).await.unwrap();
        let problems = copy.problems();
        assert_eq!(problems[0].why, "its listing has a name twice");
    }
    assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
    assert!(!folder.path().join("to/a").is_symlink());
}

/// The text that was shown.
static SHOWN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn keep(piece: &[u8]) -> io::Result<()> {
    SHOWN.lock().unwrap().write_all(piece)
}

#[tokio::test]
async fn a_file_is_shown_whole_also_where_its_size_says_nothing() {
    let large: Vec<u8> = (0..=u8::MAX).cycle().take(MOST + 1000).collect();
    let tree = Tree::new()
        .file("large", large.clone())
        .file("empty", "")
        .file_of("proc/made", 0, large.clone())
        .file_of("sys/made", 4096, "made")
        .file_of("cut", 4096, "cut");
    for (path, content) in [
        ("large", &large[..]),
        ("empty", &b""[..]),
        ("/proc/made", &large[..]),
        ("/sys/made", &b"made"[..]),
    ] {
        show(&tree.served(), path.as_bytes(), keep).await.unwrap();
        let shown = std::mem::take(&mut *SHOWN.lock().unwrap());
        assert!(shown == content, "{path}");
    }
    let cut = show(&tree.served(), b"cut", keep).await;
    assert!(matches!(cut, Err(PartError::Changed)), "{cut:?}");
}
