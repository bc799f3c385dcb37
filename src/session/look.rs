//! A look at the files of a drive: a folder's names, a file's content. Where the drive is up its host
//! is asked, else a snapshot.

use std::io::ErrorKind;

use anyhow::anyhow;

use super::asleep::Files;
use super::copy::Access;
use super::ending::Ending;
use super::prompt::unless_ended;
use super::request::Request;
use super::state::{Session, begin};
use crate::cloud::Cloud;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::sftp::{Entry, Kind, SftpError};
use crate::ids::Generation;
use crate::ssh::UserKey;
use crate::transfer::{PartError, Servers, Stop, show};

/// The exit code of a program whose reader leaves early, as in `xdrive cat … | head`: that of SIGPIPE.
pub(super) const READER_LEFT: u8 = 128 + 13;

/// What to look at.
pub(crate) struct Look {
    /// The generation; the newest if there is none.
    pub(crate) generation: Option<Generation>,
    /// The paths in the container.
    pub(crate) paths: Vec<Vec<u8>>,
}

/// What is at each path of a drive: a folder's content, or the file itself.
pub(crate) async fn list_files(
    request: Request,
    cloud: Cloud,
    key: UserKey,
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
    let ending = at_files(request, cloud, key, look.generation, "ls", looking).await?;
    Session::code(ending)?;
    Ok(found)
}

/// Passes the content of files on a drive to `write`, one after the other. Returns the exit code.
pub(crate) async fn show_files(
    request: Request,
    cloud: Cloud,
    key: UserKey,
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
    let ending = at_files(request, cloud, key, look.generation, "cat", showing).await?;
    match Session::code(ending)? {
        0 if has_left => Ok(READER_LEFT),
        code => Ok(code),
    }
}

/// Does `work` where the files are.
async fn at_files(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    generation: Option<Generation>,
    verb: &str,
    work: impl AsyncFnOnce(Servers) -> Result<(), Stop>,
) -> Result<Ending, Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    match session.find_files(facts, generation).await? {
        Files::Up(host) => session.at_host(&host, verb, work).await,
        Files::Asleep(sleeping) => Ok(session.read_asleep(&sleeping, work).await),
    }
}

impl Session {
    /// Does `work` with the files in the container on `host`.
    pub(super) async fn at_host(
        &mut self,
        host: &Instance,
        verb: &str,
        work: impl AsyncFnOnce(Servers) -> Result<(), Stop>,
    ) -> Result<Ending, Failure> {
        let access: Access = match self.enter_for_files(host).await? {
            Ok(access) => access,
            Err(ending) => return Ok(ending),
        };
        let working = async {
            let servers = access
                .servers()
                .await
                .map_err(|error| Stop::Lost(error.to_string()))?;
            work(servers).await
        };
        let worked = unless_ended(&mut self.signals, &self.report, working).await;
        // A host that is closing, or gone, needs no farewell.
        let _gone = self.reconciler.hosts().leave_to_others(host).await;
        Ok(match worked {
            Ok(Ok(())) => Ending::Exit(0),
            Ok(Err(Stop::Lost(why))) => {
                let drive = &self.request.drive;
                let error = anyhow!("the connection to {drive}'s instance was lost: {why}");
                let hint = format!("the same {verb} again may work");
                Ending::Failed(Failure::new(Exit::Disconnected, error).hint(hint))
            }
            Ok(Err(Stop::Refused(error))) => Ending::Failed(Failure::new(Exit::Failed, error)),
            Err(end) => Ending::Asked(end),
        })
    }
}

/// The error of a server's about `path`.
pub(super) fn stop(path: &[u8], error: SftpError) -> Stop {
    match error {
        SftpError::Lost(why) => Stop::Lost(why),
        error => {
            let path = String::from_utf8_lossy(path);
            let path = if path.is_empty() { "/work" } else { &*path };
            Stop::Refused(anyhow!("{path}: {error}"))
        }
    }
}

pub(super) async fn expanded(servers: &Servers, path: &[u8]) -> Result<Vec<u8>, SftpError> {
    match path {
        b"" => Ok(b".".to_vec()),
        [b'~', ..] => servers.one().expand(path).await,
        _ => Ok(path.to_vec()),
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
