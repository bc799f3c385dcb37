//! A connection of an SSH client's: bytes between standard input and output, and an SSH server on
//! the drive's host that leads into the container.
//!
//! It is attached as a guest is, so the host stays up as long as it lasts. It launches, mounts,
//! starts and saves nothing: it needs a drive that is up, and leaves it as it is. The host's key is
//! recorded for the client before its first byte: it is the one that the connection around the
//! client's was verified by.

use std::pin::pin;

use anyhow::anyhow;
use tokio::sync::Mutex;

use super::up::{demand_host, not_attached};
use super::visitor::{Visit, Visitor};
use crate::access::by_ssh;
use crate::access::lease::LEASE;
use crate::attached::{Context, Monitor, Output, connection_lost, warn_of_docker};
use crate::config::{KnownHosts, SUFFIX};
use crate::drive::HostError;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::Container;
use crate::host::scripts::Host;
use crate::opener::{Drive, Ending};
use crate::signals::Signal;
use crate::ssh::pipe::pipe;
use crate::ssh::{DedicatedConnection, ShellExit};

/// Connects an SSH client on standard input and output to the drive. Returns the exit code, of which
/// clients take no notice.
pub(crate) async fn proxy(
    drive: Drive,
    visitor: Visitor,
    known: KnownHosts,
) -> Result<u8, Failure> {
    let host = demand_host(&drive, "ssh")?;
    let mut visit = Visit::new(drive, visitor, false)?;
    let ending = match enter_for_ssh(&mut visit, &host).await? {
        Ok(entry) => match record_host_key(&visit.drive, &known, &entry.line) {
            Ok(()) => serve_ssh(&mut visit, &host, entry).await,
            Err(failure) => Ending::Failed(failure),
        },
        Err(ending) => ending,
    };
    // A host that is closing, or gone, needs no farewell.
    let _gone = visit.reconciler.hosts().leave_to_others(&host).await;
    ending.code()
}

/// The way into a container that runs.
struct Entry {
    scripts: Host,
    container: Container,
    line: DedicatedConnection,
}

/// Attaches to the host, and opens a connection for the client once the container runs. The container
/// mostly does, so the connection is opened while that is looked up.
async fn enter_for_ssh(
    visit: &mut Visit,
    host: &Instance,
) -> Result<Result<Entry, Ending>, Failure> {
    let Visit {
        drive, reconciler, ..
    } = visit;
    let client = by_ssh(&drive.identity.caller);
    let session = reconciler.session().clone();
    let name = drive.container.as_ref();
    let hosts = reconciler.hosts();
    let attaching = async {
        let (ssh, scripts) = hosts.reach(host).await?;
        let (attached, container, line) = tokio::join!(
            hosts.join(host, &session, &client, LEASE),
            scripts.running(name),
            DedicatedConnection::open(&ssh),
        );
        attached?;
        Ok::<_, HostError>((scripts, container.unwrap_or_default(), line))
    };
    let (scripts, container, line) = match attaching.await {
        Ok(attached) => attached,
        Err(error) => return Err(not_attached(drive, host, error)),
    };
    let (scripts, container, line) = if let Some(container) = container {
        (scripts, container, line)
    } else {
        // The connection goes stale while the container is waited for.
        drop(line);
        let container = match visit.wait_for_container(host).await? {
            Ok(container) => container,
            Err(ending) => return Ok(Err(ending)),
        };
        let name = &visit.drive.name;
        let lost = || anyhow!("the connection to {} was lost", host.id.drive_label(name));
        let (ssh, scripts) = visit.reconciler.hosts().link(&host.id).ok_or_else(lost)?;
        let line = DedicatedConnection::open(ssh).await;
        (scripts.clone(), container, line)
    };
    warn_of_docker(&container, &visit.drive.report);
    Ok(Ok(Entry {
        scripts,
        container,
        line: line.map_err(anyhow::Error::from)?,
    }))
}

/// Records, for the client, the key by which xdrive itself knows the host.
fn record_host_key(
    drive: &Drive,
    known: &KnownHosts,
    line: &DedicatedConnection,
) -> Result<(), Failure> {
    let recorded = known.write(&drive.place(), &line.ssh.host_key());
    recorded.map_err(|error| {
        let error = anyhow::Error::new(error);
        let error = error.context("the host's key cannot be recorded for ssh");
        Failure::new(Exit::Config, error)
    })
}

/// Carries the client's bytes until either side ends, or the host closes the drive.
async fn serve_ssh(visit: &mut Visit, host: &Instance, entry: Entry) -> Ending {
    let Entry {
        scripts,
        container,
        line,
    } = entry;
    let server = scripts.ssh_server(&container, None);
    let again = format!("ssh {}{SUFFIX}", visit.drive.place().word());
    let Drive {
        name,
        cloud,
        report,
        signals,
        ..
    } = &mut visit.drive;
    let drive = Mutex::new(&mut visit.reconciler);
    let output = Output::Report(report.clone());
    let monitor = Monitor::new(Context::new(name, host, cloud, &drive, output));
    let carrying = async {
        let mut carried = pin!(pipe(line, &server));
        loop {
            tokio::select! {
                exit = &mut carried => return Ok(match exit? {
                    ShellExit::Lost(why) => Ending::Failed(connection_lost(&why, &again)),
                    exit => exit.into(),
                }),
                // A client hangs up when it ends.
                signal = signals.next() => if let Signal::End(end) = signal {
                    return Ok(Ending::Asked(end));
                },
            }
        }
    };
    monitor.run_with(&mut visit.news, carrying).await
}
