//! Copies from this computer into a container, and folders that are synchronized.

mod delete;

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use bytes::Bytes;
use tokio::task::spawn_blocking;

use super::engine::{self, Destination, Engine, Item, Job, Opened, Side};
use super::jobs::{TOGETHER, blocking};
use super::order::Sync;
use super::part::PartError;
use super::place::path;
use super::rules::{Repositories, Rules};
use super::servers::Servers;
use super::state::{State, Stop};
use super::{local, part};
use crate::host::sftp::{Attributes, Entry, Kind, MOST, Pending, Sftp, SftpError};

/// From this computer to the container.
struct Up {
    servers: Servers,
    state: Arc<State>,
    /// How it is synchronized, if it is.
    sync: Option<Sync>,
    repositories: Repositories,
}

/// Copies the `sources` to `to`.
pub(super) async fn copy(
    sources: &[PathBuf],
    to: Vec<u8>,
    servers: Servers,
    state: Arc<State>,
) -> Result<(), Stop> {
    let sources = sources.iter().map(|it| it.as_os_str().as_bytes().to_vec());
    let sources: Vec<Vec<u8>> = sources.collect();
    engine::copy(Up::new(servers, state, None), &sources, &to).await
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
    let from = from.into_os_string().into_encoded_bytes();
    let to = up.expand_home(to).await?;
    let there = up.led_to(&to).await?;
    up.make_above(&to).await?;
    let is_folder = there.is_some_and(|it| it.attributes.kind() == Kind::Folder);
    let item = Item { from, to, entry };
    let job = if up.state.was_folder(is_folder) {
        Job::Content(item)
    } else {
        Job::Folder(item, None)
    };
    Engine::new(up).run(vec![job]).await
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
    fn new(servers: Servers, state: Arc<State>, sync: Option<Sync>) -> Self {
        Self {
            servers,
            state,
            sync,
            repositories: Repositories::default(),
        }
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
    async fn led_to(&self, path: &[u8]) -> Result<Option<Entry>, Stop> {
        let there = self.servers.one().look(path, true).await;
        there.map_err(|it| refused(path, it))
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
}

impl Side for Up {
    type Rules = Rules;

    const DESTINATION: &'static str = "in the container";

    fn state(&self) -> &State {
        &self.state
    }

    async fn destination(&self, to: &[u8]) -> Result<Destination, Stop> {
        let path = self.expand_home(to.to_vec()).await?;
        Ok(Destination {
            named: path.clone(),
            there: self.led_to(&path).await?,
            path,
        })
    }

    /// Follows a link to the path that it leads to, as cp and scp do.
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

    async fn source(&self, named: &[u8]) -> Result<Option<(Vec<u8>, Entry)>, Stop> {
        match local::look(&path(named), true) {
            Ok(Some(entry)) => return Ok(Some((named.to_vec(), entry))),
            Ok(None) => self.state.problem(named, "there is no such file or folder"),
            Err(error) => self.state.problem(named, &error),
        }
        Ok(None)
    }

    async fn look(&self, to: &[u8]) -> Result<Option<Entry>, Stop> {
        let there = self.servers.one().look(to, false).await;
        there.map_err(|it| refused(to, it))
    }

    async fn open(
        &self,
        folder: &Item,
        above: Option<Rules>,
    ) -> Result<Option<Opened<Rules>>, Stop> {
        let from = path(&folder.from);
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
        let mode = folder.entry.attributes.permissions() | 0o700;
        let there = match self.servers.one().make_folder(&folder.to, mode).await {
            Ok(true) => Ok(Vec::new()),
            Ok(false) => self.servers.list(&folder.to).await,
            Err(error) => Err(error),
        };
        let there = match there {
            Ok(there) => there,
            Err(error) => return self.state.failed(&folder.from, error).map(|()| None),
        };
        let (listed, ignored, rules) = match listing.await.map_err(io::Error::other).flatten() {
            Ok(listed) => listed,
            Err(error) => {
                self.state.problem(&folder.from, &error);
                return Ok(Some(Opened {
                    there,
                    source: None,
                }));
            }
        };
        self.state.progress.ignore(ignored);
        let there = match &rules {
            Some(rules) => {
                self.clear_away(&from, &folder.to, &listed, there, rules)
                    .await?
            }
            None => there,
        };
        Ok(Some(Opened {
            there,
            source: Some((listed, rules)),
        }))
    }

    async fn batch(&self, items: Vec<Item>) -> Result<Vec<Item>, Stop> {
        let read = blocking(move || {
            let read = items.into_iter().map(|item| {
                let content = match item.entry.attributes.kind() {
                    Kind::File if item.entry.attributes.size <= MOST as u64 => {
                        local::read(&path(&item.from), MOST)
                    }
                    _ => Ok(None),
                };
                (item, content)
            });
            read.collect::<Vec<_>>()
        })
        .await?;
        let sftp = self.servers.one();
        let (mut sent, mut large) = (Vec::new(), Vec::new());
        for (item, content) in read {
            match content.map(|content| begin(sftp, &item, content)) {
                Ok(Some((pending, bytes))) => sent.push((item, pending, bytes)),
                Ok(None) => large.push(item),
                Err(error) => self.state.problem(&item.from, &error),
            }
        }
        for (item, pending, bytes) in sent {
            match pending.done().await {
                Ok(()) => self.state.finish(item.to, bytes),
                Err(error) => self.state.failed(&item.from, error)?,
            }
        }
        Ok(large)
    }

    async fn large(&self, item: &Item) -> Result<u64, PartError> {
        let from = path(&item.from);
        part::send(self.servers.one(), &from, &item.to, &self.state).await
    }

    async fn set_folders(&self, folders: Vec<(Vec<u8>, Attributes)>) -> Result<(), Stop> {
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
