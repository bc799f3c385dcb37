//! A look at the files of a drive: a folder's names, a file's content. Where the drive is up its host
//! is asked, else a snapshot.

use std::io::ErrorKind;

use anyhow::anyhow;

use super::files::{at_host, expanded, stop};
use super::visitor::{Visit, Visitor};
use crate::failure::{Failure, READER_LEFT};
use crate::host::sftp::{Entry, Kind, SftpError};
use crate::ids::Generation;
use crate::opener::{Drive, Ending, Files};
use crate::transfer::{PartError, Servers, Stop, show};

/// The paths to look at, and their generation.
pub(crate) struct Look {
    /// The generation; the newest if there is none.
    pub(crate) generation: Option<Generation>,
    /// The paths in the container.
    pub(crate) paths: Vec<Vec<u8>>,
}

/// Lists the entries at each path of a drive: a folder's content, or the file itself. Where the
/// drive is up `visitor` visits.
pub(crate) async fn list_files(
    drive: Drive,
    visitor: impl FnOnce() -> Result<Visitor, Failure>,
    look: Look,
) -> Result<Vec<Entry>, Failure> {
    let mut found = Vec::new();
    let looking = async |servers: Servers| {
        for path in &look.paths {
            let listed = list(&servers, path).await;
            found.extend(listed.map_err(|error| stop(path, error))?);
        }
        Ok(())
    };
    let ending = at_files(drive, visitor, look.generation, "ls", looking).await?;
    ending.code()?;
    Ok(found)
}

/// Passes the content of files on a drive to `write`, one after the other. Where the drive is up
/// `visitor` visits. Returns the exit code.
pub(crate) async fn show_files(
    drive: Drive,
    visitor: impl FnOnce() -> Result<Visitor, Failure>,
    look: Look,
    write: fn(&[u8]) -> std::io::Result<()>,
) -> Result<u8, Failure> {
    let mut has_left = false;
    let showing = async |servers: Servers| {
        for path in &look.paths {
            let shown = async {
                let path = expanded(&servers, path).await?;
                show(servers.one(), &path, write).await
            };
            match shown.await {
                Ok(()) => {}
                Err(PartError::Server(error)) => return Err(stop(path, error)),
                Err(PartError::Here(error)) if error.kind() == ErrorKind::BrokenPipe => {
                    has_left = true;
                    return Ok(());
                }
                Err(error) => {
                    let path = String::from_utf8_lossy(path);
                    return Err(Stop::Refused(anyhow!("{path}: {error}")));
                }
            }
        }
        Ok(())
    };
    let ending = at_files(drive, visitor, look.generation, "cat", showing).await?;
    match ending.code()? {
        0 if has_left => Ok(READER_LEFT),
        code => Ok(code),
    }
}

/// Does `work` where the files are.
async fn at_files(
    mut drive: Drive,
    visitor: impl FnOnce() -> Result<Visitor, Failure>,
    generation: Option<Generation>,
    verb: &str,
    work: impl AsyncFnOnce(Servers) -> Result<(), Stop>,
) -> Result<Ending, Failure> {
    match drive.find_files(generation).await? {
        Files::Up(host) => {
            let mut visit = Visit::new(drive, visitor()?, false)?;
            at_host(&mut visit, &host, verb, work).await
        }
        Files::Asleep(sleeping) => Ok(drive.read_asleep(&sleeping, work).await),
    }
}

async fn list(servers: &Servers, path: &[u8]) -> Result<Vec<Entry>, SftpError> {
    let named = path;
    let path = expanded(servers, path).await?;
    // A link that was named is followed, as a folder's content is what is asked for.
    let found = servers
        .one()
        .look(&path, true)
        .await?
        .ok_or(SftpError::Missing)?;
    if found.attributes.kind() != Kind::Folder {
        let name = named.to_vec();
        return Ok(vec![Entry { name, ..found }]);
    }
    let mut entries = servers.list(&path).await?;
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}
