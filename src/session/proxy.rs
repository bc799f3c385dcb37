//! A connection of an SSH client's: bytes between standard input and output, and an SSH server on
//! the drive's host that leads into the container.
//!
//! It is attached as a guest is, so the host stays up as long as it lasts. It launches, mounts,
//! starts and saves nothing: it needs a drive that is up, and leaves it as it is. The host's key is
//! recorded for the client before its first byte: it is the one that the connection around the
//! client's was verified by.

use std::pin::pin;

use tokio::sync::Mutex;

use super::container::{Connections, ContainerSession};
use super::ending::Ending;
use super::guest::Awaited;
use super::monitor::{Context, Monitor, Output};
use super::reconnect::connection_lost;
use super::request::Request;
use super::state::{Session, begin};
use crate::access::by_ssh;
use crate::cloud::Cloud;
use crate::config::{KnownHosts, SUFFIX};
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::Container;
use crate::signals::Signal;
use crate::ssh::pipe::pipe;
use crate::ssh::{DedicatedConnection, ShellExit, UserKey};

/// Connects an SSH client on standard input and output to the drive of `request`. Returns the exit
/// code, of which clients take no notice.
pub async fn proxy(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    known: KnownHosts,
) -> Result<u8, Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let host = session.host_that_is_up(facts, "ssh")?;
    let ending = match session.enter_for_ssh(&host).await? {
        Ok((inside, line)) => match session.record_host_key(&known, &line) {
            Ok(()) => session.serve_ssh(&host, &inside, line).await,
            Err(failure) => Ending::Failed(failure),
        },
        Err(ending) => ending,
    };
    // A host that is closing, or gone, needs no farewell.
    let _gone = session.reconciler.hosts().leave_to_others(&host).await;
    Session::code(ending)
}

impl Session {
    /// Attaches to the host, and opens a connection for the client once the container runs.
    async fn enter_for_ssh(
        &mut self,
        host: &Instance,
    ) -> Result<Result<(ContainerSession, DedicatedConnection), Ending>, Failure> {
        let owner = by_ssh(&self.owner);
        let attached = self.attach_as_guest(host, &owner).await;
        let entry: Option<(Container, Connections)> = match attached {
            Ok(entry) => entry.map(|(container, connections, _)| (container, connections)),
            Err(error) => return Err(self.not_attached(host, error)),
        };
        let (container, connections) = match entry {
            Some((container, connections)) => (container, Some(connections)),
            None => match self.wait_for_container(host).await {
                Awaited::Runs(container, _) => {
                    (self.running_container(host, *container).await?, None)
                }
                Awaited::Over => return Err(self.no_container(host)),
                Awaited::Ended(ending) => return Ok(Err(ending)),
            },
        };
        let entered = self.enter_as_guest(host, container, connections).await;
        entered.map(Ok)
    }

    /// Records, for the client, the key by which xdrive itself knows the host.
    fn record_host_key(
        &self,
        known: &KnownHosts,
        line: &DedicatedConnection,
    ) -> Result<(), Failure> {
        let recorded = known.write(&self.request.place(), &line.ssh.host_key());
        recorded.map_err(|error| {
            let error = anyhow::Error::new(error);
            let error = error.context("the host's key cannot be recorded for ssh");
            Failure::new(Exit::Config, error)
        })
    }

    /// Carries the client's bytes until either side ends, or the host closes the drive.
    async fn serve_ssh(
        &mut self,
        host: &Instance,
        inside: &ContainerSession,
        line: DedicatedConnection,
    ) -> Ending {
        let server = inside.host.ssh_server(&inside.container, None);
        let again = format!("ssh {}{SUFFIX}", self.request.place().word());
        let cloud = &self.cloud;
        let drive = Mutex::new(&mut self.reconciler);
        let output = Output::Report(self.report.clone());
        let named = (&self.request.drive, host);
        let monitor = Monitor::new(Context::new(named, cloud, &drive, output));
        let signals = &mut self.signals;
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
        monitor.run_with(&mut self.news, carrying).await
    }
}
