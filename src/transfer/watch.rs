//! A watch for changes in a folder.
//!
//! It polls, which works on every system and file system; the longer a look takes, the longer the
//! pause.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::local;
use super::place::path;
use super::rules::{Repositories, Rules};
use crate::host::sftp::Kind;

/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// How many times as long as a look the pause is: a twentieth of one processor.
const TIMES: u32 = 20;

/// How many looks in a row may differ before a folder that is never quiet is reported.
const BUSY: u32 = 10;

/// A folder that is watched, but for what git ignores in it.
#[derive(Debug)]
pub(crate) struct Watch {
    folder: PathBuf,
    repositories: Repositories,
    /// The digest of the folder as it was seen last.
    seen: Option<u64>,
}

impl Watch {
    /// Watches from now on.
    pub(crate) fn begin(folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let repositories = Repositories::default();
        Self {
            seen: Some(digest(&folder, &repositories)),
            repositories,
            folder,
        }
    }

    /// Waits until something has changed since the last time, and nothing changes any more: while the
    /// rules are written anew, by git or an editor, what they ignore would be taken for a file like any.
    pub(crate) async fn changed(&mut self) {
        let mut pause = PAUSE;
        let mut last = self.seen;
        let mut busy = 0;
        loop {
            sleep(pause).await;
            let began = Instant::now();
            let (folder, repositories) = (self.folder.clone(), self.repositories.clone());
            let seen = spawn_blocking(move || digest(&folder, &repositories))
                .await
                .ok();
            pause = PAUSE.max(began.elapsed() * TIMES);
            let is_quiet = seen == last;
            last = seen;
            busy += 1;
            if seen == self.seen {
                busy = 0;
            } else if is_quiet || busy > BUSY {
                self.seen = seen;
                return;
            }
        }
    }
}

/// A digest that changes with what is in the folder. What cannot be read is left out.
fn digest(top: &Path, repositories: &Repositories) -> u64 {
    let mut all = 0_u64;
    let mut folders = vec![(top.to_owned(), None::<Rules>)];
    while let Some((folder, above)) = folders.pop() {
        let rules = match above {
            Some(above) => above.within(&folder),
            None => Rules::read(&folder, repositories),
        };
        let Ok(rules) = rules else {
            continue;
        };
        for entry in local::list(&folder).unwrap_or_default() {
            let path = folder.join(path(&entry.name));
            let is_folder = entry.attributes.kind() == Kind::Folder;
            if rules.ignores(&path, is_folder) {
                continue;
            }
            let mut hash = DefaultHasher::new();
            path.hash(&mut hash);
            let it = &entry.attributes;
            (it.mode, &entry.target).hash(&mut hash);
            if is_folder {
                // Its time changes with what is in it, ignored or not.
                folders.push((path, Some(rules.clone())));
            } else {
                (it.size, it.changed).hash(&mut hash);
            }
            // In any order.
            all = all.wrapping_add(hash.finish());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_reported_once_the_folder_is_quiet_or_has_not_been_for_long() {
        for (writes, looks) in [(1, 2), (4, 5), (100, 11)] {
            let top = tempfile::tempdir().unwrap();
            let mut watch = Watch::begin(top.path());
            let began = Instant::now();
            let writing = async {
                // Between two looks, not beside one.
                sleep(PAUSE / 2).await;
                for write in 1..=writes {
                    fs::write(top.path().join("a"), "a".repeat(write)).unwrap();
                    sleep(PAUSE).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = watch.changed() => {}
                () = writing => {}
            }
            let took = began.elapsed().as_millis() / PAUSE.as_millis();
            assert_eq!(took, looks, "{writes} writes");
        }
    }

    #[test]
    fn every_change_is_seen_but_for_what_is_ignored() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path();
        fs::create_dir(top.join("a")).unwrap();
        fs::write(top.join(".gitignore"), "*.log\n").unwrap();
        let repositories = Repositories::default();
        let mut before = digest(top, &repositories);
        let mut changes = |what: &str, is_change: bool| {
            let now = digest(top, &repositories);
            assert_eq!(now != before, is_change, "{what}");
            before = now;
        };
        changes("nothing", false);
        fs::write(top.join("a/b"), "b").unwrap();
        changes("a new file", true);
        fs::write(top.join("a/b"), "bb").unwrap();
        changes("a longer file", true);
        fs::write(top.join("a/b.log"), "b").unwrap();
        changes("an ignored file", false);
        fs::rename(top.join("a/b"), top.join("a/c")).unwrap();
        changes("another name", true);
        fs::remove_file(top.join("a/c")).unwrap();
        changes("no file", true);
        fs::remove_file(top.join(".gitignore")).unwrap();
        changes("other rules", true);
    }
}
