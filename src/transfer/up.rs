//! Copies from this computer into a container, and folders that are synchronized.

mod delete;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::anyhow;
use bytes::Bytes;
use tokio::task::spawn_blocking;

use super::jobs::{Batch, Jobs, Limits, TOGETHER, blocking, run_all};
use super::order::Sync;
use super::paths::{joined, name_of};
use super::place::path;
use super::rules::{Repositories, Rules};
use super::servers::Servers;
use super::state::{State, Stop, Work, lock};
use super::{local, part};
use crate::host::sftp::{Attributes, Entry, Kind, MOST, Pending, Sftp, SftpError};

/// An entry to copy.
#[derive(Debug)]
struct Item {
    from: PathBuf,
    to: Vec<u8>,
    entry: Entry,
}

#[derive(Debug)]
enum Job {
    /// A folder, copied recursively. `Some`: the ignore rules of the folder above.
    Folder(Item, Option<Rules>),
    /// The content of a folder that was there and was named: the folder gets none of the source's
    /// permissions and time.
    Content(Item),
    /// Small files and links.
    Batch(Vec<Item>),
    Large(Item),
}

/// The state that all jobs share.
struct Up {
    servers: Servers,
    state: Arc<State>,
    limits: Limits,
    /// How it is synchronized, if it is.
    sync: Option<Sync>,
    repositories: Repositories,
    /// The folders, which get their permissions and times at the end.
    folders: Mutex<Vec<(Vec<u8>, Attributes)>>,
}

/// Copies the `sources` to `to`.
pub(super) async fn copy(
    sources: &[PathBuf],
    to: Vec<u8>,
    servers: Servers,
    state: Arc<State>,
) -> Result<(), Stop> {
    let up = Up::new(servers, state, None);
    let first = up.first(sources, to).await?;
    up.run_all(first).await
}

/// Makes `to` what is in `folder`, but for what git ignores there.
pub(super) async fn sync(
    folder: PathBuf,
    to: Vec<u8>,
    sync: Sync,
    servers: Servers,
    state: Arc<State>,
) -> Result<(), Stop> {
    let up = Up::new(servers, state, Some(sync));
    let unreadable = |error: io::Error| Stop::Refused(anyhow!("{}: {error}", folder.display()));
    let from = folder.canonicalize().map_err(unreadable)?;
    let entry = local::look(&from, true).map_err(unreadable)?;
    let gone = || unreadable(io::ErrorKind::NotFound.into());
    let entry = entry.ok_or_else(gone)?;
    let to = up.expand_home(to).await?;
    let there = up.look(&to).await?;
    up.make_above(&to).await?;
    let is_folder = there.is_some_and(|it| it.attributes.kind() == Kind::Folder);
    let item = Item { from, to, entry };
    let job = if up.state.was_folder(is_folder) {
        Job::Content(item)
    } else {
        Job::Folder(item, None)
    };
    up.run_all(vec![job]).await
}

/// The entries of a folder here that are sent, and how many of it git ignores in a `sync`, which alone
/// has rules.
/// Parts of other copies and repositories stay here, too.
fn without_ignored(
    rules: Option<&Rules>,
    folder: &Path,
    mut listed: Vec<Entry>,
) -> (Vec<Entry>, u64) {
    listed.retain(|it| !part::is_part(&it.name));
    let Some(rules) = rules else {
        return (listed, 0);
    };
    listed.retain(|it| !Rules::is_repository(&path(&it.name)));
    let found = listed.len();
    listed.retain(|it| {
        let is_folder = it.attributes.kind() == Kind::Folder;
        !rules.ignores(&folder.join(path(&it.name)), is_folder)
    });
    let ignored = found - listed.len();
    (listed, ignored as u64)
}

/// The failure of a request without which nothing can be copied.
fn refused(path: &[u8], error: SftpError) -> Stop {
    match error {
        SftpError::Lost(why) => Stop::Lost(why),
        error => Stop::Refused(anyhow!("{}: {error}", String::from_utf8_lossy(path))),
    }
}

impl Up {
    fn new(servers: Servers, state: Arc<State>, sync: Option<Sync>) -> Arc<Self> {
        Arc::new(Self {
            servers,
            state,
            limits: Limits::default(),
            sync,
            repositories: Repositories::default(),
            folders: Mutex::default(),
        })
    }

    async fn run_all(self: &Arc<Self>, first: Vec<Job>) -> Result<(), Stop> {
        let running = Arc::clone(self);
        run_all(first, move |job, jobs| Arc::clone(&running).run(job, jobs)).await?;
        self.finish_folders().await
    }

    /// The path in the container that was named.
    async fn expand_home(&self, path: Vec<u8>) -> Result<Vec<u8>, Stop> {
        match &*path {
            b"" => Ok(b".".to_vec()),
            [b'~', ..] => {
                let expanded = self.servers.one().expand(&path).await;
                expanded.map_err(|it| refused(&path, it))
            }
            _ => Ok(path),
        }
    }

    /// Reads the entry that a named path leads to.
    async fn look(&self, path: &[u8]) -> Result<Option<Entry>, Stop> {
        let there = self.servers.one().look(path, true).await;
        there.map_err(|it| refused(path, it))
    }

    /// The path that is written for one that was named: what a link leads to, as cp and scp do it.
    async fn written(&self, path: Vec<u8>) -> Result<Vec<u8>, Stop> {
        let sftp = self.servers.one();
        let is_link = async |path: &[u8]| {
            let there = sftp.look(path, false).await?;
            Ok::<_, SftpError>(there.is_some_and(|it| it.attributes.kind() == Kind::Link))
        };
        let found = async {
            if !is_link(&path).await? {
                return Ok(path.clone());
            }
            let leads = sftp.expand(&path).await?;
            if is_link(&leads).await? {
                let why = "its links lead nowhere";
                return Err(SftpError::Refused(why.to_owned()));
            }
            Ok(leads)
        };
        found.await.map_err(|it| refused(&path, it))
    }

    /// Makes the folders above a path.
    async fn make_above(&self, path: &[u8]) -> Result<(), Stop> {
        let slashes = path
            .iter()
            .enumerate()
            .filter(|(at, it)| *at > 0 && **it == b'/');
        for (at, _) in slashes {
            let made = self.servers.one().make_folder(&path[..at], 0o777).await;
            made.map_err(|it| refused(&path[..at], it))?;
        }
        Ok(())
    }

    /// The jobs for what was named.
    async fn first(&self, sources: &[PathBuf], to: Vec<u8>) -> Result<Vec<Job>, Stop> {
        let sftp = self.servers.one();
        let to = self.expand_home(to).await?;
        let there = self.look(&to).await?;
        let is_there = there.as_ref().map(|it| it.attributes.kind());
        let is_folder = self.state.was_folder(is_there == Some(Kind::Folder));
        // Neither it nor a link to it is replaced.
        let other = there.filter(|_| is_there == Some(Kind::Other));
        if !is_folder && (sources.len() > 1 || to.ends_with(b"/")) {
            let to = String::from_utf8_lossy(&to);
            return Err(Stop::Refused(anyhow!("{to} is no folder in the container")));
        }
        let to = if is_folder {
            to
        } else {
            self.written(to).await?
        };
        let mut jobs = Vec::new();
        let mut batch = Batch::new();
        let mut taken = HashSet::new();
        for from in sources {
            let name = from.as_os_str().as_bytes();
            let entry = match local::look(from, true) {
                Ok(Some(entry)) => entry,
                Ok(None) => {
                    self.state.problem(name, "there is no such file or folder");
                    continue;
                }
                Err(error) => {
                    self.state.problem(name, &error);
                    continue;
                }
            };
            let (to, is_named) = match name_of(name) {
                Some(name) if is_folder => (joined(&to, name), false),
                _ => (to.clone(), is_folder),
            };
            if !taken.insert(to.clone()) {
                self.state.problem(name, "another one has its name");
                continue;
            }
            let there = sftp.look(&to, false).await.map_err(|it| refused(&to, it))?;
            let there = other.clone().or(there);
            let from = from.clone();
            let item = Item { from, to, entry };
            let job = self.choose(item, there.as_ref(), None, &mut batch);
            jobs.extend(match job {
                Some(Job::Folder(item, _)) if is_named => Some(Job::Content(item)),
                job => job,
            });
        }
        jobs.extend(batch.rest().map(Job::Batch));
        Ok(jobs)
    }

    async fn run(self: Arc<Self>, job: Job, jobs: Jobs<Job>) -> Result<(), Stop> {
        match job {
            Job::Folder(item, above) => self.folder(item, above, false, &jobs).await,
            Job::Content(item) => self.folder(item, None, true, &jobs).await,
            Job::Batch(items) => self.batch(items, &jobs).await,
            Job::Large(item) => self.large(item).await,
        }
    }

    /// The job for an item of which this is `there` already; none if there is nothing to do, or it
    /// goes with the `batch`.
    fn choose(
        &self,
        item: Item,
        there: Option<&Entry>,
        rules: Option<&Rules>,
        batch: &mut Batch<Item>,
    ) -> Option<Job> {
        let path = item.from.as_os_str().as_bytes();
        let to = (&*item.to, "in the container");
        match self.state.work((path, &item.entry), to, there) {
            Work::Folder => Some(Job::Folder(item, rules.cloned())),
            Work::Nothing => None,
            Work::Small => {
                let bytes = item.entry.attributes.size;
                batch.add(item, bytes).map(Job::Batch)
            }
            Work::Large => Some(Job::Large(item)),
        }
    }

    /// Makes a folder and finds what is in it. One that `keeps` its permissions and time gets none at
    /// the end.
    async fn folder(
        &self,
        folder: Item,
        above: Option<Rules>,
        keeps: bool,
        jobs: &Jobs<Job>,
    ) -> Result<(), Stop> {
        let Ok(_permit) = self.limits.folders.acquire().await else {
            return Ok(());
        };
        let Item { from, to, entry } = folder;
        let sftp = self.servers.one();
        let name = from.as_os_str().as_bytes().to_vec();
        let attributes = entry.attributes;
        let is_sync = self.sync.is_some();
        let listing = {
            let (from, repositories) = (from.clone(), self.repositories.clone());
            spawn_blocking(move || {
                let rules = is_sync.then(|| match above {
                    Some(above) => above.within(&from),
                    None => Rules::read(&from, &repositories),
                });
                let rules = rules.transpose()?;
                let listed = local::list(&from)?;
                let (listed, ignored) = without_ignored(rules.as_ref(), &from, listed);
                Ok((listed, ignored, rules))
            })
        };
        let mode = attributes.permissions() | 0o700;
        let there = match sftp.make_folder(&to, mode).await {
            Ok(true) => Ok(Vec::new()),
            Ok(false) => self.servers.list(&to).await,
            Err(error) => Err(error),
        };
        let there = match there {
            Ok(there) => there,
            Err(error) => return self.state.failed(&name, error),
        };
        if !keeps {
            lock(&self.folders).push((to.clone(), attributes));
        }
        let (listed, ignored, rules) = match listing.await.map_err(io::Error::other).flatten() {
            Ok(listed) => listed,
            Err(error) => {
                self.state.problem(&name, &error);
                return Ok(());
            }
        };
        self.state.progress.ignore(ignored);
        let mut there: HashMap<&[u8], &Entry> = there.iter().map(|it| (&*it.name, it)).collect();
        if let Some(rules) = &rules {
            self.clear_away(&from, &to, &listed, &mut there, rules)
                .await?;
        }
        let mut batch = Batch::new();
        for entry in listed {
            let there = there.get(&*entry.name).copied();
            let item = Item {
                from: from.join(path(&entry.name)),
                to: joined(&to, &entry.name),
                entry,
            };
            if let Some(job) = self.choose(item, there, rules.as_ref(), &mut batch) {
                // Fails only where the copy has ended.
                let _ = jobs.send(job);
            }
        }
        if let Some(rest) = batch.rest() {
            let _ = jobs.send(Job::Batch(rest));
        }
        Ok(())
    }

    /// Copies small files and links, and sets the permissions of files that are there.
    async fn batch(&self, items: Vec<Item>, jobs: &Jobs<Job>) -> Result<(), Stop> {
        let Ok(_permit) = self.limits.batches.acquire().await else {
            return Ok(());
        };
        let read = blocking(move || {
            let read = items.into_iter().map(|item| {
                let content = match item.entry.attributes.kind() {
                    Kind::File if item.entry.attributes.size <= MOST as u64 => {
                        local::read(&item.from, MOST)
                    }
                    _ => Ok(None),
                };
                (item, content)
            });
            read.collect::<Vec<_>>()
        })
        .await?;
        let sftp = self.servers.one();
        let mut sent = Vec::new();
        for (item, content) in read {
            match content {
                Ok(content) => {
                    if let Some((pending, bytes)) = begin(sftp, &item, content) {
                        sent.push((item, pending, bytes));
                    } else {
                        let _ = jobs.send(Job::Large(item));
                    }
                }
                Err(error) => {
                    let name = item.from.as_os_str().as_bytes();
                    self.state.problem(name, &error);
                }
            }
        }
        for (item, pending, bytes) in sent {
            match pending.done().await {
                Ok(()) => self.state.finish(item.to, bytes),
                Err(error) => self.state.failed(item.from.as_os_str().as_bytes(), error)?,
            }
        }
        Ok(())
    }

    async fn large(&self, item: Item) -> Result<(), Stop> {
        let Ok(_permit) = self.limits.large.acquire().await else {
            return Ok(());
        };
        let sftp = self.servers.one();
        let sent = part::send(sftp, &item.from, &item.to, &self.state).await;
        let path = item.from.as_os_str().as_bytes();
        self.state.large_ended(path, item.to, sent)
    }

    /// Sets the permissions and times of folders: the deepest first, since one without permissions
    /// leads to none below it.
    async fn finish_folders(&self) -> Result<(), Stop> {
        let mut folders = std::mem::take(&mut *lock(&self.folders));
        folders.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        let sftp = self.servers.one();
        for some in folders.chunks(TOGETHER) {
            let set = some.iter().map(|(path, it)| (path, sftp.set(path, it)));
            for (path, pending) in set.collect::<Vec<_>>() {
                if let Err(error) = pending.done().await {
                    self.state.failed(path, error)?;
                }
            }
        }
        Ok(())
    }
}

/// Begins to copy a small item; none if it is no small one any more. Also how many bytes it has.
fn begin(sftp: &Sftp, item: &Item, content: Option<(Attributes, Bytes)>) -> Option<(Pending, u64)> {
    let Entry {
        attributes, target, ..
    } = &item.entry;
    match content {
        Some((attributes, content)) => {
            let bytes = content.len() as u64;
            Some((sftp.put(&item.to, &attributes, content), bytes))
        }
        None if attributes.kind() == Kind::Link => {
            Some((sftp.link(&item.to, target, attributes.changed), 0))
        }
        // What it has there is the same, but for its permissions.
        None if attributes.size > MOST as u64 => Some((sftp.set(&item.to, attributes), 0)),
        None => None,
    }
}
