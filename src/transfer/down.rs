//! Copies from a container to this computer.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::anyhow;

use super::jobs::{Batch, Jobs, Limits, blocking, run_all};
use super::paths::{joined, name_of};
use super::place::path;
use super::servers::Servers;
use super::state::{State, Stop, Work, lock};
use super::{local, part};
use crate::host::sftp::{Attributes, Entry, Kind, MOST, SftpError};

/// An entry to copy.
#[derive(Debug)]
struct Item {
    from: Vec<u8>,
    to: PathBuf,
    entry: Entry,
}

#[derive(Debug)]
enum Job {
    /// A folder with all that is in it.
    Folder(Item),
    /// The content of a folder that was there and was named: the folder gets none of the source's
    /// permissions and time.
    Content(Item),
    /// Small files and links, and files of which only the permissions differ.
    Batch(Vec<Item>),
    Large(Item),
}

/// The state that all jobs share.
struct Down {
    servers: Servers,
    state: Arc<State>,
    limits: Limits,
    /// The folders, which get their permissions and times at the end.
    folders: Mutex<Vec<(PathBuf, Attributes)>>,
}

/// Copies the `sources` to `to`.
pub(super) async fn copy(
    sources: Vec<Vec<u8>>,
    to: PathBuf,
    servers: Servers,
    state: Arc<State>,
) -> Result<(), Stop> {
    let down = Arc::new(Down {
        servers,
        state,
        limits: Limits::default(),
        folders: Mutex::default(),
    });
    let first = down.first(&sources, &to).await?;
    let running = Arc::clone(&down);
    run_all(first, move |job, jobs| Arc::clone(&running).run(job, jobs)).await?;
    down.finish_folders().await
}

fn refused(path: &Path, error: &io::Error) -> Stop {
    Stop::Refused(anyhow!("{}: {error}", path.display()))
}

impl Down {
    /// The jobs for what was named.
    async fn first(&self, sources: &[Vec<u8>], to: &Path) -> Result<Vec<Job>, Stop> {
        let typed = to;
        let to = self.state.destination(typed);
        let to = to.map_err(|error| refused(typed, &error))?;
        let there = local::look(to, true).map_err(|error| refused(typed, &error))?;
        let is_there = there.as_ref().map(|it| it.attributes.kind());
        let is_folder = self.state.was_folder(is_there == Some(Kind::Folder));
        // Neither it nor a link to it is replaced.
        let other = there.filter(|_| is_there == Some(Kind::Other));
        if !is_folder && (sources.len() > 1 || typed.as_os_str().as_bytes().ends_with(b"/")) {
            let to = typed.display();
            return Err(Stop::Refused(anyhow!("{to} is no folder on this computer")));
        }
        let sftp = self.servers.one();
        let mut jobs = Vec::new();
        let mut batch = Batch::new();
        let mut taken = HashSet::new();
        for named in sources {
            let looked = async {
                let from = match &**named {
                    b"" => b".".to_vec(),
                    [b'~', ..] => sftp.expand(named).await?,
                    _ => named.clone(),
                };
                let entry = sftp.look(&from, true).await?.ok_or(SftpError::Missing)?;
                Ok::<_, SftpError>((from, entry))
            };
            let (from, entry) = match looked.await {
                Ok(looked) => looked,
                Err(error) => {
                    self.state.failed(named, error)?;
                    continue;
                }
            };
            // By what was typed, and not by what a server makes of it. A home folder has no name.
            let name = name_of(named).filter(|name| *name != b"~");
            let (to, is_named) = match name {
                Some(name) if is_folder => (to.join(path(name)), false),
                _ => (to.to_owned(), is_folder),
            };
            if !taken.insert(to.clone()) {
                self.state.problem(named, "another one has its name");
                continue;
            }
            let there = local::look(&to, false).map_err(|error| refused(&to, &error))?;
            let there = other.clone().or(there);
            let item = Item { from, to, entry };
            jobs.extend(match self.choose(item, there.as_ref(), &mut batch) {
                Some(Job::Folder(item)) if is_named => Some(Job::Content(item)),
                job => job,
            });
        }
        jobs.extend(batch.rest().map(Job::Batch));
        Ok(jobs)
    }

    async fn run(self: Arc<Self>, job: Job, jobs: Jobs<Job>) -> Result<(), Stop> {
        match job {
            Job::Folder(item) => self.folder(item, false, &jobs).await,
            Job::Content(item) => self.folder(item, true, &jobs).await,
            Job::Batch(items) => self.batch(items, &jobs).await,
            Job::Large(item) => self.large(item).await,
        }
    }

    /// The job for an item of which this is `there` already; none if there is nothing to do, or it
    /// goes with the `batch`.
    fn choose(&self, item: Item, there: Option<&Entry>, batch: &mut Batch<Item>) -> Option<Job> {
        let to = (item.to.as_os_str().as_bytes(), "on this computer");
        match self.state.work((&item.from, &item.entry), to, there) {
            Work::Folder => Some(Job::Folder(item)),
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
    async fn folder(&self, folder: Item, keeps: bool, jobs: &Jobs<Job>) -> Result<(), Stop> {
        let Ok(_permit) = self.limits.folders.acquire().await else {
            return Ok(());
        };
        let Item { from, to, entry } = folder;
        let made = {
            let (to, attributes) = (to.clone(), entry.attributes);
            blocking(move || {
                if local::make_folder(&to, &attributes)? {
                    return Ok(Vec::new());
                }
                local::list(&to)
            })
        };
        let (listed, there) = tokio::join!(self.servers.list(&from), made);
        let there: Vec<Entry> = match there? {
            Ok(there) => there,
            Err(error) => {
                self.state.problem(&from, &error);
                return Ok(());
            }
        };
        if !keeps {
            lock(&self.folders).push((to.clone(), entry.attributes));
        }
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return self.state.failed(&from, error),
        };
        let there: HashMap<&[u8], &Entry> = there.iter().map(|it| (&*it.name, it)).collect();
        let mut batch = Batch::new();
        for entry in listed.into_iter().filter(|it| !part::is_part(&it.name)) {
            let there = there.get(&*entry.name).copied();
            let item = Item {
                from: joined(&from, &entry.name),
                to: to.join(path(&entry.name)),
                entry,
            };
            if let Some(job) = self.choose(item, there, &mut batch) {
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
        let sftp = self.servers.one();
        let asked: Vec<_> = items
            .into_iter()
            .map(|item| {
                let source = &item.entry.attributes;
                let is_small = source.kind() == Kind::File && source.size <= MOST as u64;
                let pending = is_small.then(|| sftp.get(&item.from));
                (item, pending)
            })
            .collect();
        let mut arrived = Vec::with_capacity(asked.len());
        for (item, pending) in asked {
            let content = match pending {
                None => None,
                Some(pending) => match pending.content().await {
                    Ok(Some(content)) => Some(content),
                    Ok(None) => {
                        let _ = jobs.send(Job::Large(item));
                        continue;
                    }
                    Err(error) => {
                        self.state.failed(&item.from, error)?;
                        continue;
                    }
                },
            };
            arrived.push((item, content));
        }
        let state = Arc::clone(&self.state);
        blocking(move || {
            for (item, content) in arrived {
                let Entry {
                    attributes, target, ..
                } = &item.entry;
                let (bytes, written) = match content {
                    Some((attributes, content)) => (
                        content.len() as u64,
                        local::write(&item.to, &attributes, &content),
                    ),
                    None if attributes.kind() == Kind::Link => {
                        (0, local::link(&item.to, target, attributes.changed))
                    }
                    None => (0, local::set(&item.to, attributes)),
                };
                match written {
                    Ok(()) => state.finish(item.to.into_os_string().into_encoded_bytes(), bytes),
                    Err(error) => state.problem(&item.from, &error),
                }
            }
        })
        .await
    }

    async fn large(&self, item: Item) -> Result<(), Stop> {
        let Ok(_permit) = self.limits.large.acquire().await else {
            return Ok(());
        };
        let sftp = self.servers.one();
        let fetched = part::fetch(sftp, &item.from, &item.to, &self.state).await;
        let to = item.to.into_os_string().into_encoded_bytes();
        self.state.large_ended(&item.from, to, fetched)
    }

    /// Sets the permissions and times of folders: the deepest first, since one without permissions
    /// leads to none below it.
    async fn finish_folders(&self) -> Result<(), Stop> {
        let mut folders = std::mem::take(&mut *lock(&self.folders));
        folders.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
        let state = Arc::clone(&self.state);
        blocking(move || {
            for (path, attributes) in folders {
                if let Err(error) = local::set(&path, &attributes) {
                    state.problem(path.as_os_str().as_bytes(), &error);
                }
            }
        })
        .await
    }
}
