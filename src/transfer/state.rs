//! The state of a copy, which outlives its connections: what was copied, what could not be, and
//! what is still to be done about a thing that was found.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::anyhow;

use super::local;
use super::progress::Progress;
use crate::host::sftp::{Attributes, Entry, Kind, MOST, SftpError};

/// Why a copy cannot go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The servers, or the connection to them, are lost, for this reason.
    Lost(String),
    /// The copy makes no sense as it was ordered.
    Refused(anyhow::Error),
}

/// A source that could not be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The source's path.
    pub(crate) path: String,
    /// The reason.
    pub(crate) why: String,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) progress: Progress,
    /// Whether to copy also files with the same size and time at the destination.
    ignores_times: bool,
    /// Whether the destination was a folder when the copy began.
    was_folder: OnceLock<bool>,
    /// Where the destination led here when the copy began.
    destination: OnceLock<PathBuf>,
    /// The paths at the destination that are as they should be.
    done: Mutex<HashSet<Vec<u8>>>,
    problems: Mutex<Vec<Problem>>,
}

/// The work that an entry makes once it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// A folder, whose content is to be found.
    Folder,
    /// No work: the entry is there already, or cannot be copied.
    Nothing,
    /// Work to do with others: a small file or a link, or a file of which only the permissions
    /// differ.
    Small,
    Large,
}

impl State {
    pub(super) fn new(ignores_times: bool) -> Self {
        Self {
            progress: Progress::default(),
            ignores_times,
            was_folder: OnceLock::new(),
            destination: OnceLock::new(),
            done: Mutex::default(),
            problems: Mutex::default(),
        }
    }

    /// The copy begins, or goes on over other connections: all problems are found anew.
    pub(super) fn begin(&self) {
        self.progress.begin();
        lock(&self.problems).clear();
    }

    /// From now on what was copied is looked at again, and counted anew.
    pub(super) fn begin_again(&self) {
        lock(&self.done).clear();
        self.progress.begin_again();
    }

    /// Whether the destination was a folder when the copy began; `is_folder` is whether it is one
    /// now. Where the copy goes on over other connections it may have made it.
    pub(super) fn was_folder(&self, is_folder: bool) -> bool {
        *self.was_folder.get_or_init(|| is_folder)
    }

    /// Where the destination that was typed leads here. Only a link is followed that was there before
    /// anything was asked of a server: a later one may be of the server's making.
    pub(super) fn destination(&self, typed: &Path) -> io::Result<&Path> {
        if let Some(found) = self.destination.get() {
            return Ok(found);
        }
        let found = local::destination(typed)?;
        Ok(self.destination.get_or_init(|| found))
    }

    /// The sources that could not be copied.
    pub(super) fn problems(&self) -> Vec<Problem> {
        lock(&self.problems).clone()
    }

    /// Whether the file at `destination` was copied by this copy.
    fn is_done(&self, destination: &[u8]) -> bool {
        lock(&self.done).contains(destination)
    }

    /// The file at `destination`, of so many bytes, was copied.
    pub(super) fn finish(&self, destination: Vec<u8>, bytes: u64) {
        if lock(&self.done).insert(destination) {
            self.progress.finish(bytes);
        }
    }

    pub(super) fn problem(&self, path: &[u8], why: &(impl ToString + ?Sized)) {
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
    pub(super) fn work(
        &self,
        (path, source): (&[u8], &Entry),
        (to, side): (&[u8], &str),
        there: Option<&Entry>,
    ) -> Work {
        let attributes = &source.attributes;
        let is_there = |kind: Kind| there.is_some_and(|it| it.attributes.kind() == kind);
        match attributes.kind() {
            Kind::Folder => Work::Folder,
            Kind::Other => {
                self.problem(path, "it is no file, folder or link");
                Work::Nothing
            }
            _ if is_there(Kind::Folder) => {
                self.problem(path, &format!("a folder has its name {side}"));
                Work::Nothing
            }
            // A device, a pipe or a socket is not replaced by a file.
            _ if is_there(Kind::Other) => {
                self.problem(path, &format!("something else has its name {side}"));
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

    /// Handles an error of a server's about `path`: the copy stops if the server is lost, else
    /// `path` is a problem.
    pub(super) fn failed(&self, path: &[u8], error: SftpError) -> Result<(), Stop> {
        match error {
            SftpError::Lost(why) => Err(Stop::Lost(why)),
            error @ (SftpError::NoServer(_) | SftpError::Garbled | SftpError::TooMany) => {
                Err(Stop::Refused(anyhow!(error)))
            }
            error => {
                self.problem(path, &error);
                Ok(())
            }
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_a_pipe_or_a_socket_is_not_replaced() {
        let entry = |mode| Entry {
            name: Vec::new(),
            attributes: Attributes {
                mode,
                size: 0,
                changed: 0,
            },
            target: b"x".to_vec(),
        };
        let (file, link) = (entry(0o100_644), entry(0o120_777));
        for there in [0o020_666, 0o060_660, 0o010_600, 0o140_600].map(entry) {
            for source in [&file, &link] {
                let state = State::new(false);
                let work = state.work((b"a", source), (b"b", "here"), Some(&there));
                assert_eq!(work, Work::Nothing);
                let problems = state.problems();
                assert_eq!(problems[0].why, "something else has its name here");
            }
        }
        let state = State::new(false);
        let work = state.work((b"a", &file), (b"b", "here"), Some(&link));
        assert_eq!((work, state.problems().len()), (Work::Small, 0));
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
