//! Copies of files between this computer and a container.
//!
//! A file is written under a name of its own, and gets the one that it is to have once it is whole.
//! A large one that was begun is taken up where it stopped, if what is there has the same digest as
//! the beginning of the source: no file is ever a mixture of two. What is there already by size and
//! time of change is not sent again, so a copy that was cut off goes on when it is begun again.
//!
//! It knows neither sessions nor drives, never prints, and connects to nothing: [`Stop::Lost`] asks
//! for other servers, with which the same [`Transfer`] goes on.

mod down;
mod jobs;
mod local;
mod part;
pub(crate) mod place;
mod progress;
mod rules;
mod up;
pub(crate) mod watch;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::anyhow;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::host::sftp::{Attributes, Entry, Kind, MOST, Sftp, SftpError};

use part::PartError;

pub(crate) use progress::Progress;

/// How many requests for a large file are under way: enough for what a connection's window takes.
const WINDOW: usize = 32;

/// How many requests for small things go together.
const TOGETHER: usize = 64;

/// How a folder is synchronized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sync {
    /// Whether what is only at the destination is deleted there, unless git would ignore it here.
    pub(crate) deletes: bool,
}

/// How files are copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copying {
    /// What it is called.
    pub(crate) verb: &'static str,
    /// Whether to copy also files with the same size and time at the destination.
    pub(crate) ignores_times: bool,
    /// Whether it goes on with what changes.
    pub(crate) watches: bool,
}

impl Copying {
    /// What was done, as a word.
    pub(crate) fn done(self) -> &'static str {
        if self.verb == "sync" {
            "sent"
        } else {
            "copied"
        }
    }
}

/// What is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// From this computer.
    Up {
        /// The files and folders here.
        sources: Vec<PathBuf>,
        /// The path in the container.
        to: Vec<u8>,
    },
    /// To this computer.
    Down {
        /// The paths in the container.
        sources: Vec<Vec<u8>>,
        /// The file or folder here.
        to: PathBuf,
    },
    /// What is in a folder here, but for what git ignores.
    Sync {
        /// The folder.
        folder: PathBuf,
        /// The folder in the container, which is made.
        to: Vec<u8>,
        /// How.
        sync: Sync,
    },
}

/// Why a copy cannot go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The servers, or the connection to them, are lost, for this reason.
    Lost(String),
    /// It makes no sense as it is.
    Refused(anyhow::Error),
}

/// What could not be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The source's path.
    pub(crate) path: String,
    /// The reason.
    pub(crate) why: String,
}

/// A copy under way, which may go through the hands of several connections.
#[derive(Debug)]
pub(crate) struct Transfer {
    order: Order,
    state: Arc<State>,
}

/// The servers of one container.
#[derive(Clone)]
pub(crate) struct Servers {
    all: Arc<[Sftp]>,
    next: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct State {
    progress: Progress,
    /// Whether to copy also files with the same size and time at the destination.
    ignores_times: bool,
    /// The paths at the destination that are as they should be.
    done: Mutex<HashSet<Vec<u8>>>,
    problems: Mutex<Vec<Problem>>,
}

/// What is to be done about one thing that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// It is a folder, whose content is to be found.
    Folder,
    /// It is there already, or cannot be copied.
    Nothing,
    /// It goes with others: a small file or a link, or a file of which only the permissions differ.
    Small,
    Large,
}

/// How much is done at once.
#[derive(Debug)]
struct Limits {
    folders: Semaphore,
    batches: Semaphore,
    large: Semaphore,
}

impl Servers {
    pub(crate) fn new(all: Vec<Sftp>) -> Self {
        Self {
            all: all.into(),
            next: Arc::default(),
        }
    }

    /// The one whose turn it is.
    fn one(&self) -> &Sftp {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        &self.all[next % self.all.len()]
    }
}

impl Order {
    /// The folder here that is synchronized.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Sync { folder, .. } => Some(folder),
            Self::Up { .. } | Self::Down { .. } => None,
        }
    }
}

impl Transfer {
    pub(crate) fn new(order: Order, ignores_times: bool) -> Self {
        let state = Arc::new(State {
            progress: Progress::default(),
            ignores_times,
            done: Mutex::default(),
            problems: Mutex::default(),
        });
        Self { order, state }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.state.progress
    }

    /// What could not be copied.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        lock(&self.state.problems).clone()
    }

    /// From now on what was copied is looked at again, and counted anew.
    pub(crate) fn begin_again(&self) {
        lock(&self.state.done).clear();
        self.state.progress.begin_again();
    }

    /// Copies, or goes on with it. What cannot be copied is a problem, and the rest is copied.
    pub(crate) async fn run(&self, servers: Servers) -> Result<(), Stop> {
        self.state.progress.begin();
        lock(&self.state.problems).clear();
        let state = Arc::clone(&self.state);
        match self.order.clone() {
            Order::Up { sources, to } => up::copy(&sources, to, servers, state).await,
            Order::Sync { folder, to, sync } => up::sync(folder, to, sync, servers, state).await,
            Order::Down { sources, to } => down::copy(sources, to, servers, state).await,
        }
    }
}

impl State {
    /// Whether the file at `destination` was copied by this copy.
    fn is_done(&self, destination: &[u8]) -> bool {
        lock(&self.done).contains(destination)
    }

    /// The file at `destination`, of so many bytes, was copied.
    fn finish(&self, destination: Vec<u8>, bytes: u64) {
        if lock(&self.done).insert(destination) {
            self.progress.finish(bytes);
        }
    }

    fn problem(&self, path: &[u8], why: &(impl ToString + ?Sized)) {
        lock(&self.problems).push(Problem {
            path: String::from_utf8_lossy(path).into_owned(),
            why: why.to_string(),
        });
    }

    /// Whether a file is there already, by what both sides say of it.
    fn is_same(&self, source: &Attributes, there: &Attributes) -> bool {
        !self.ignores_times
            && source.size == there.size
            && is_same_time(source.changed, there.changed)
    }

    /// How to copy the source at `path` to `to`, where this is `there` already; `side` names the
    /// destination's side in problems.
    fn work(
        &self,
        (path, source): (&[u8], &Entry),
        (to, side): (&[u8], &str),
        there: Option<&Entry>,
    ) -> Work {
        let attributes = &source.attributes;
        let is_folder = there.is_some_and(|it| it.attributes.kind() == Kind::Folder);
        match attributes.kind() {
            Kind::Folder => Work::Folder,
            Kind::Other => {
                self.problem(path, "it is no file, folder or link");
                Work::Nothing
            }
            _ if is_folder => {
                self.problem(path, &format!("a folder has its name {side}"));
                Work::Nothing
            }
            Kind::Link => {
                self.progress.find(0);
                let is_same = |there: &Entry| {
                    there.attributes.kind() == Kind::Link && there.target == source.target
                };
                if there.is_some_and(is_same) {
                    self.progress.is_there();
                    return Work::Nothing;
                }
                Work::Small
            }
            Kind::File => {
                self.progress.find(attributes.size);
                if self.is_done(to) {
                    return Work::Nothing;
                }
                let there = there.filter(|it| it.attributes.kind() == Kind::File);
                match there.filter(|it| self.is_same(attributes, &it.attributes)) {
                    Some(there) if attributes.permissions() == there.attributes.permissions() => {
                        self.progress.is_there();
                        Work::Nothing
                    }
                    None if attributes.size > MOST as u64 => Work::Large,
                    _ => Work::Small,
                }
            }
        }
    }

    /// The large file at `path`, of so many bytes, was copied to `to`, or was not.
    fn large_ended(
        &self,
        path: &[u8],
        (to, bytes): (Vec<u8>, u64),
        copied: Result<(), PartError>,
    ) -> Result<(), Stop> {
        match copied {
            Ok(()) => self.finish(to, bytes),
            Err(PartError::Server(error)) => self.failed(path, error)?,
            Err(PartError::Here(error)) => self.problem(path, &error),
            Err(PartError::Changed) => self.problem(path, "it changed meanwhile"),
        }
        Ok(())
    }

    /// What follows an error of a server's about `path`: it is lost, or `path` is a problem.
    fn failed(&self, path: &[u8], error: SftpError) -> Result<(), Stop> {
        match error {
            SftpError::Lost(why) => Err(Stop::Lost(why)),
            error @ (SftpError::NoServer(_) | SftpError::Garbled) => {
                Err(Stop::Refused(anyhow!(error)))
            }
            error => {
                self.problem(path, &error);
                Ok(())
            }
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Far away, and on a busy computer, an answer comes late.
            folders: Semaphore::new(64),
            batches: Semaphore::new(32),
            large: Semaphore::new(4),
        }
    }
}

/// Whether two times are the same, as far as both file systems keep them: some have whole seconds.
fn is_same_time(one: i64, other: i64) -> bool {
    const SECOND: i64 = 1_000_000_000;
    let is_whole = |time: i64| time.rem_euclid(SECOND) == 0;
    one == other
        || one.div_euclid(SECOND) == other.div_euclid(SECOND) && (is_whole(one) || is_whole(other))
}

/// The path of `name` in a folder of the container.
fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = folder.to_vec();
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Splits a path into its folder, with the slash, and its name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    path.split_at(slash.map_or(0, |it| it + 1))
}

/// The name of a copy of `path` in a folder; `None` for `.`, `folder/.` and `/`, whose content is
/// copied into that folder.
fn name_of(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().rposition(|byte| *byte != b'/')?;
    match split(&path[..=end]).1 {
        b"." | b".." => None,
        name => Some(name),
    }
}

/// Does `work`, which blocks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Stop> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| Stop::Refused(anyhow!(error)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_its_sources_name_unless_that_is_no_name() {
        for (path, name) in [
            ("a", Some("a")),
            ("a/b", Some("b")),
            ("a/b//", Some("b")),
            ("/a", Some("a")),
            (".", None),
            ("a/.", None),
            ("a/./", None),
            ("..", None),
            ("/", None),
            ("a/..b", Some("..b")),
        ] {
            assert_eq!(name_of(path.as_bytes()), name.map(str::as_bytes), "{path}");
        }
        assert_eq!(joined(b"a", b"b"), b"a/b");
        assert_eq!(joined(b"a/", b"b"), b"a/b");
        assert_eq!(joined(b"/", b"b"), b"/b");
        assert_eq!(joined(b"", b"b"), b"b");
    }

    #[test]
    fn a_path_is_its_folder_and_its_name() {
        assert_eq!(split(b"a/b/c"), (&b"a/b/"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
    }

    #[test]
    fn times_are_compared_as_far_as_both_sides_keep_them() {
        assert!(is_same_time(1_500_000_001, 1_500_000_001));
        assert!(!is_same_time(1_500_000_001, 1_500_000_002));
        assert!(is_same_time(1_500_000_001, 1_000_000_000));
        assert!(!is_same_time(2_500_000_001, 1_000_000_000));
        assert!(is_same_time(-500_000_000, -1_000_000_000));
    }
}
