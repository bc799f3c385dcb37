//! Copies from a container to this computer.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;

use super::engine::{self, Destination, Item, Opened, Side};
use super::jobs::blocking;
use super::part::PartError;
use super::paths::name_of;
use super::place::path;
use super::servers::Servers;
use super::state::{State, Stop};
use super::{local, part};
use crate::host::sftp::{Attributes, Entry, Kind, MOST, SftpError};

/// From the container to this computer.
struct Down {
    servers: Servers,
    state: Arc<State>,
}

/// Copies the `sources` to `to`.
pub(super) async fn copy(
    sources: Vec<Vec<u8>>,
    to: PathBuf,
    servers: Servers,
    state: Arc<State>,
) -> Result<(), Stop> {
    let to = to.into_os_string().into_encoded_bytes();
    engine::copy(Down { servers, state }, &sources, &to).await
}

fn refused(path: &Path, error: &io::Error) -> Stop {
    Stop::Refused(anyhow!("{}: {error}", path.display()))
}

impl Side for Down {
    /// Nothing is left out.
    type Rules = ();

    const DESTINATION: &'static str = "on this computer";

    fn state(&self) -> &State {
        &self.state
    }

    async fn destination(&self, to: &[u8]) -> Result<Destination, Stop> {
        let typed = path(to);
        let failed = |error| refused(&typed, &error);
        let leads = self.state.destination(&typed).map_err(failed)?;
        Ok(Destination {
            named: to.to_vec(),
            path: leads.as_os_str().as_encoded_bytes().to_vec(),
            there: local::look(leads, true).map_err(failed)?,
        })
    }

    async fn source(&self, named: &[u8]) -> Result<Option<(Vec<u8>, Entry)>, Stop> {
        let sftp = self.servers.one();
        let looked = async {
            let from = match named {
                b"" => b".".to_vec(),
                [b'~', ..] => sftp.expand(named).await?,
                _ => named.to_vec(),
            };
            let entry = sftp.look(&from, true).await?.ok_or(SftpError::Missing)?;
            Ok::<_, SftpError>((from, entry))
        };
        match looked.await {
            Ok(looked) => Ok(Some(looked)),
            Err(error) => self.state.failed(named, error).map(|()| None),
        }
    }

    /// By what was typed, and not by what a server makes of it. A home folder has no name.
    fn name(named: &[u8]) -> Option<&[u8]> {
        name_of(named).filter(|name| *name != b"~")
    }

    async fn look(&self, to: &[u8]) -> Result<Option<Entry>, Stop> {
        let to = path(to);
        local::look(&to, false).map_err(|error| refused(&to, &error))
    }

    async fn open(&self, folder: &Item, _: Option<()>) -> Result<Option<Opened<()>>, Stop> {
        let made = {
            let (to, attributes) = (path(&folder.to), folder.entry.attributes);
            blocking(move || {
                if local::make_folder(&to, &attributes)? {
                    return Ok(Vec::new());
                }
                local::list(&to)
            })
        };
        let (listed, there) = tokio::join!(self.servers.list(&folder.from), made);
        let there: Vec<Entry> = match there? {
            Ok(there) => there,
            Err(error) => {
                self.state.problem(&folder.from, &error);
                return Ok(None);
            }
        };
        let source = match listed {
            Ok(mut listed) => {
                listed.retain(|it| !part::is_part(&it.name));
                Some((listed, None))
            }
            Err(error) => {
                self.state.failed(&folder.from, error)?;
                None
            }
        };
        Ok(Some(Opened { there, source }))
    }

    async fn batch(&self, items: Vec<Item>) -> Result<Vec<Item>, Stop> {
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
        let (mut arrived, mut large) = (Vec::with_capacity(asked.len()), Vec::new());
        for (item, pending) in asked {
            let Some(pending) = pending else {
                arrived.push((item, None));
                continue;
            };
            match pending.content().await {
                Ok(Some(content)) => arrived.push((item, Some(content))),
                Ok(None) => large.push(item),
                Err(error) => self.state.failed(&item.from, error)?,
            }
        }
        let state = Arc::clone(&self.state);
        blocking(move || {
            for (item, content) in arrived {
                let Entry {
                    attributes, target, ..
                } = &item.entry;
                let to = path(&item.to);
                let (bytes, written) = match content {
                    Some((attributes, content)) => (
                        content.len() as u64,
                        local::write(&to, &attributes, &content),
                    ),
                    None if attributes.kind() == Kind::Link => {
                        (0, local::link(&to, target, attributes.changed))
                    }
                    None => (0, local::set(&to, attributes)),
                };
                match written {
                    Ok(()) => state.finish(item.to, bytes),
                    Err(error) => state.problem(&item.from, &error),
                }
            }
        })
        .await?;
        Ok(large)
    }

    async fn large(&self, item: &Item) -> Result<u64, PartError> {
        part::fetch(self.servers.one(), &item.from, &path(&item.to), &self.state).await
    }

    async fn set_folders(&self, folders: Vec<(Vec<u8>, Attributes)>) -> Result<(), Stop> {
        let state = Arc::clone(&self.state);
        blocking(move || {
            for (to, attributes) in folders {
                if let Err(error) = local::set(&path(&to), &attributes) {
                    state.problem(&to, &error);
                }
            }
        })
        .await
    }
}
