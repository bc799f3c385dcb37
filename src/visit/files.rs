//! The way to the files in a container on a host that is up.

use anyhow::anyhow;

use super::up::not_attached;
use super::visitor::Visit;
use crate::access::by_ssh;
use crate::access::lease::LEASE;
use crate::drive::HostError;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::EarlySibling;
use crate::host::container::Container;
use crate::host::scripts::Host;
use crate::host::sftp::{Sftp, SftpError};
use crate::opener::{Ending, unless_ended};
use crate::ssh::Ssh;
use crate::transfer::{Servers, Stop};

/// The connection to a container's files.
pub(super) struct Access {
    pub(super) ssh: Ssh,
    pub(super) host: Host,
    container: Container,
    /// The name on the host of this visit's servers.
    name: String,
}

impl Access {
    /// Starts two servers, since one processor and one SSH window limit each.
    pub(super) async fn servers(&self) -> Result<Servers, SftpError> {
        let [one, other] = [1, 2].map(|number| {
            let name = format!("{}-{number}", self.name);
            self.host.file_server(&self.container, &name)
        });
        let (one, other) =
            tokio::try_join!(Sftp::open(&self.ssh, &one), Sftp::open(&self.ssh, &other))?;
        Ok(Servers::new(vec![one, other]))
    }
}

/// Attaches to the host, and connects to it for the files once the container runs.
pub(super) async fn enter_for_files(
    visit: &mut Visit,
    host: &Instance,
) -> Result<Result<Access, Ending>, Failure> {
    let Visit {
        drive, reconciler, ..
    } = visit;
    let client = by_ssh(&drive.identity.caller);
    let session = reconciler.session().clone();
    let name = drive.container.as_ref();
    let hosts = reconciler.hosts();
    let attaching = async {
        let (ssh, scripts, early) = hosts.reach_for_files(host).await?;
        let (attached, container, files) = tokio::join!(
            hosts.join(host, &session, &client, LEASE),
            scripts.running(name),
            EarlySibling::beside(early, &ssh),
        );
        attached?;
        let files = files.map_err(|error| HostError::Unreachable(error.to_string()))?;
        Ok::<_, HostError>((files, scripts, container.unwrap_or_default()))
    };
    let attached = match unless_ended(&mut drive.signals, &drive.report, attaching).await {
        Ok(attached) => attached,
        Err(end) => return Ok(Err(Ending::Asked(end))),
    };
    let (ssh, scripts, container) = match attached {
        Ok(attached) => attached,
        Err(error) => return Err(not_attached(drive, host, error)),
    };
    let container = match container {
        Some(container) => container,
        None => match visit.wait_for_container(host).await? {
            Ok(container) => container,
            Err(ending) => return Ok(Err(ending)),
        },
    };
    Ok(Ok(Access {
        ssh,
        host: scripts,
        container,
        name: session.to_string(),
    }))
}

/// Does `work` with the files in the container on `host`.
pub(super) async fn at_host(
    visit: &mut Visit,
    host: &Instance,
    verb: &str,
    work: impl AsyncFnOnce(Servers) -> Result<(), Stop>,
) -> Result<Ending, Failure> {
    let access = match enter_for_files(visit, host).await? {
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
    let Visit {
        drive, reconciler, ..
    } = visit;
    let worked = unless_ended(&mut drive.signals, &drive.report, working).await;
    // A host that is closing, or gone, needs no farewell.
    let _gone = reconciler.hosts().leave_to_others(host).await;
    Ok(match worked {
        Ok(Ok(())) => Ending::Exit(0),
        Ok(Err(Stop::Lost(why))) => {
            let drive = &drive.name;
            let error = anyhow!("the connection to {drive}'s instance was lost: {why}");
            let hint = format!("the same {verb} again may work");
            Ending::Failed(Failure::new(Exit::Disconnected, error).hint(hint))
        }
        Ok(Err(Stop::Refused(error))) => Ending::Failed(Failure::new(Exit::Failed, error)),
        Err(end) => Ending::Asked(end),
    })
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
