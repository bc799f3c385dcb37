//! The rules of git (gitignore(5)) for files in a folder that is synchronized.

#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod glob;
mod pattern;
mod repository;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;

use super::state::lock;
use pattern::Patterns;
use repository::{REPOSITORY, Repository, is_top};

/// The file of a folder's rules.
const FILE: &str = ".gitignore";

/// The most bytes of a file of rules, as git has it.
const MOST: u64 = 100 << 20;

/// The rules for what is in one folder.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    levels: Option<Arc<Level>>,
    repository: Arc<Repository>,
    repositories: Repositories,
    /// Whether the folder is ignored itself: all in it is, but for what is tracked.
    is_ignored: bool,
}

/// The rules of one file.
#[derive(Debug)]
struct Level {
    patterns: Patterns,
    /// The length of the path that they begin at.
    base: usize,
    /// Weaker ones.
    above: Option<Arc<Level>>,
}

/// The repositories that were looked at, which are asked for anew only where they have changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Repositories(Arc<Mutex<HashMap<PathBuf, Arc<Repository>>>>);

impl Repositories {
    fn find(&self, folder: &Path) -> Arc<Repository> {
        let mut all = lock(&self.0);
        if let Some(found) = all.get(folder).filter(|it| it.is_current()) {
            return Arc::clone(found);
        }
        let found = Arc::new(Repository::find(folder, Some("git")));
        all.insert(folder.to_owned(), Arc::clone(&found));
        found
    }
}

impl Rules {
    /// The rules for what is in `top`: its own, and those of the repository that it is in, if it is in
    /// one, and of the user's. `top` is a canonical path; it is not ignored itself, since it was named.
    /// Fails where a file of rules is there and cannot be read: by a part of them too much would be
    /// sent, and deleted.
    pub(super) fn read(top: &Path, repositories: &Repositories) -> io::Result<Self> {
        Self::with(top, repositories.find(top), repositories)
    }

    fn with(
        top: &Path,
        repository: Arc<Repository>,
        repositories: &Repositories,
    ) -> io::Result<Self> {
        let mut rules = Self {
            levels: None,
            repositories: repositories.clone(),
            is_ignored: false,
            repository,
        };
        let repository = Arc::clone(&rules.repository);
        for file in &repository.excludes {
            rules.add(&repository.top, file, true)?;
        }
        let folders = top
            .ancestors()
            .take_while(|it| it.starts_with(&repository.top));
        let mut folders: Vec<&Path> = folders.collect();
        folders.reverse();
        for folder in folders {
            rules.add(folder, &folder.join(FILE), false)?;
        }
        Ok(rules)
    }

    /// The rules for what is in `folder`, which is in a folder with these rules. Fails as
    /// [`Rules::read`].
    pub(super) fn within(&self, folder: &Path) -> io::Result<Self> {
        let is_ignored = self.is_named(folder, true);
        if !is_ignored && is_top(folder) {
            return Self::read(folder, &self.repositories);
        }
        let mut rules = Self {
            is_ignored,
            ..self.clone()
        };
        if !is_ignored {
            rules.add(folder, &folder.join(FILE), false)?;
        }
        Ok(rules)
    }

    /// Adds the rules in `file` for what is in `folder`, if there are any.
    fn add(&mut self, folder: &Path, file: &Path, follows: bool) -> io::Result<()> {
        let content = read(file, follows).map_err(|error| {
            let file = file.display();
            io::Error::other(format!("{file} cannot be read: {error}"))
        })?;
        let patterns = Patterns::parse(&content, self.repository.folds);
        if !patterns.is_empty() {
            self.levels = Some(Arc::new(Level {
                patterns,
                base: base(folder),
                above: self.levels.take(),
            }));
        }
        Ok(())
    }

    /// Whether git ignores `path`, which need not exist, in the folder of these rules. What it tracks
    /// it does not ignore, whatever its rules say.
    pub(super) fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        Self::is_repository(path)
            || (self.is_named(path, is_folder) && !self.tracks(path, is_folder))
    }

    /// Whether `path` is a repository's own folder. That is not sent: two writers would break it, and
    /// `git push` sends it.
    pub(super) fn is_repository(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == REPOSITORY)
    }

    /// Whether rules say that `path` is ignored, or do of the folder that it is in.
    fn is_named(&self, path: &Path, is_folder: bool) -> bool {
        self.is_ignored || self.say(path, is_folder)
    }

    fn tracks(&self, path: &Path, is_folder: bool) -> bool {
        let path = path.as_os_str().as_bytes();
        let below = path.get(base(&self.repository.top)..);
        below.is_some_and(|it| self.repository.tracks(it, is_folder))
    }

    fn say(&self, path: &Path, is_folder: bool) -> bool {
        let mut path = path.as_os_str().as_bytes();
        let folded = self.repository.folds.then(|| path.to_ascii_lowercase());
        path = folded.as_deref().unwrap_or(path);
        let mut level = self.levels.as_deref();
        while let Some(Level {
            patterns,
            base,
            above,
        }) = level
        {
            if let Some(is_ignored) = patterns.say(&path[*base..], is_folder) {
                return is_ignored;
            }
            level = above.as_deref();
        }
        false
    }
}

/// Where paths begin that are in `folder`.
fn base(folder: &Path) -> usize {
    let length = folder.as_os_str().len();
    length + usize::from(folder.parent().is_some())
}

/// The content of a file of rules; empty without one. Git takes no rules from a `.gitignore` that is a
/// link, or anywhere from a folder.
fn read(file: &Path, follows: bool) -> io::Result<Vec<u8>> {
    use ErrorKind::{IsADirectory, NotADirectory, NotFound};
    if !follows && file.is_symlink() {
        return Ok(Vec::new());
    }
    // A pipe would be waited for.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file);
    let content = opened.and_then(|opened: File| {
        let mut content = Vec::new();
        opened.take(MOST + 1).read_to_end(&mut content)?;
        Ok(content)
    });
    match content {
        Ok(content) if content.len() as u64 > MOST => Err(io::Error::other("it is too large")),
        Ok(content) => Ok(content),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}
