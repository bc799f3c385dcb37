//! The forwarded ports of a session, besides Jupyter's: of this computer into the container, and the
//! other way round.
//!
//! They are opened once the container runs, and by `~C` as long as it does; they outlive lost
//! connections by themselves, and end with the session.

mod offers;
mod order;
mod table;

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::timeout;

use super::container::ContainerSession;
use super::local_ports::{EXACT, busy, jupyter_port};
use super::state::Parts;
use crate::attached::{Output, SharedReconciler};
use crate::config::{Forwarding, Options};
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::ports::Listener;
use crate::ids::ContainerName;
use crate::report::{Report, Text};
use crate::ssh::forward::ForwardError;

use order::{Direction, Order, USAGE};
use table::{Entrance, Entry, Table, open, open_remote, replaced};

/// The pause before what listens in the container is watched again, after a lost connection.
const AGAIN: Duration = Duration::from_secs(5);

/// How long a connection through a forward may pause to be waited for at the end of a shell or
/// command: some round trips of a slow line.
const QUIET: Duration = Duration::from_secs(2);

/// How long transfers are waited for then, at most: the instance is paid for.
const SETTLED: Duration = Duration::from_mins(10);

/// After how much of that it is said.
const SAID: Duration = Duration::from_secs(1);

/// The forwards of a session. Clones are the same ones; with the last of them their ports close.
#[derive(Clone, Default)]
pub(super) struct Forwards(Arc<Mutex<Table>>);

impl Forwards {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing in here panics half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open forwards, a line each, and the ports that are offered.
    pub(super) fn lines(&self) -> String {
        let table = self.table();
        let lines = table.lines().into_iter().chain(table.offers.lines());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The forward that Enter alone takes in the line of `~C` that begins; empty if there is none.
    pub(super) fn prompt(&self) -> String {
        self.table().offers.prompt().unwrap_or_default()
    }

    /// Carries out a line of `~C`; the answer. What takes longer is printed to `output`.
    pub(super) fn obey(&self, line: &str, output: &Output) -> String {
        match Order::parse(line) {
            Ok(Order::Open(Direction::Local, wanted)) => self.open_local(&wanted),
            Ok(Order::Open(Direction::Remote, wanted)) => self.open_remote(wanted, output),
            Ok(Order::Close(direction, port)) => self.table().close(direction, port),
            Ok(Order::Accept) => self.accept(),
            Ok(Order::Help) => USAGE.to_owned(),
            Err(why) => format!("{why}\n{USAGE}"),
        }
    }

    fn accept(&self) -> String {
        let ports = self.table().offers.take();
        if ports.is_empty() {
            return format!("no port is offered\n{USAGE}");
        }
        let opened = ports
            .into_iter()
            .map(|port| self.open_local(&Forwarding::same_port(port)));
        opened.collect::<Vec<_>>().join("\n")
    }

    fn open_local(&self, wanted: &Forwarding) -> String {
        let mut table = self.table();
        let Some((entrance, server)) = table.server(Direction::Local) else {
            return NO_CONTAINER.to_owned();
        };
        match open(&entrance, wanted, server) {
            Ok(forward) => {
                if wanted.is_to_loopback() {
                    table.offers.remove(wanted.host_port);
                }
                let replaced = replaced(Direction::Local, wanted, forward.port());
                let replaced = replaced.map(|line| format!("{line}\n"));
                let line = table.add_local(forward, wanted);
                format!("{}{line}", replaced.unwrap_or_default())
            }
            Err(error) => refusal(&failure(error, Direction::Local, wanted)),
        }
    }

    /// The container is asked for its port, which takes a connection of its own.
    fn open_remote(&self, wanted: Forwarding, output: &Output) -> String {
        let Some((entrance, server)) = self.table().server(Direction::Remote) else {
            return NO_CONTAINER.to_owned();
        };
        let asked = format!("asking for port {} in the container", wanted.port);
        let (table, output) = (Arc::downgrade(&self.0), output.clone());
        tokio::spawn(async move {
            let opened = open_remote(&entrance, &wanted, server).await;
            // The session may have ended meanwhile.
            let Some(table) = table.upgrade().map(Self) else {
                return;
            };
            match opened {
                Ok(forward) => {
                    if let Some(line) = replaced(Direction::Remote, &wanted, forward.port()) {
                        output.note(&line);
                    }
                    let line = table.table().add_remote(forward, &wanted);
                    output.note(&line);
                }
                Err(error) => output.print(&refusal(&failure(error, Direction::Remote, &wanted))),
            }
        });
        asked
    }

    /// Offers the ports on which something in the container of this name, or in the main one, begins to
    /// listen, as long as it is polled.
    pub(super) async fn offer(
        &self,
        drive: &SharedReconciler<'_>,
        instance: &Instance,
        container: Option<&ContainerName>,
        output: &Output,
    ) -> std::convert::Infallible {
        loop {
            let host = {
                let mut drive = drive.lock().await;
                drive
                    .hosts()
                    .link(&instance.id)
                    .map(|(_, host)| host.clone())
            };
            if let Some(host) = host
                && let Ok(mut listening) = host.listening(container).await
            {
                while let Some(listeners) = listening.next().await {
                    if let Some(line) = self.look(listeners) {
                        output.note(&line);
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn look(&self, listeners: Vec<Listener>) -> Option<String> {
        let mut table = self.table();
        let mut offers = std::mem::take(&mut table.offers);
        let line = offers.look(listeners, |port| table.is_forwarded(port));
        table.offers = offers;
        line
    }

    /// Refuses new connections through the forwards, and waits for the transfers that are under way:
    /// what was sent before the shell or command ended arrives, as with OpenSSH, which waits for each
    /// connection's end. One that pauses, or carries little, as a page does that polls, is not waited
    /// for: it would hold the save, and the bill would go on.
    pub(super) async fn settled(&self, report: &Report) {
        let (local, remote): (Vec<_>, Vec<_>) = {
            let table = self.table();
            let local = table.local.iter().filter_map(|it| it.forward.as_ref());
            let remote = table.remote.iter().filter_map(|it| it.forward.as_ref());
            (
                local.map(|it| it.settled(QUIET)).collect(),
                remote.map(|it| it.settled(QUIET)).collect(),
            )
        };
        let mut settled = pin!(timeout(SETTLED, async {
            for forward in local {
                forward.await;
            }
            for forward in remote {
                forward.await;
            }
        }));
        if timeout(SAID, &mut settled).await.is_err() {
            let most = SETTLED.as_secs() / 60;
            report.print(&format!(
                "forwards take no new connection; waiting for the transfers through them, {most} min \
                 at most; Ctrl-C ends that"
            ));
            // What takes longer is cut.
            let _ = settled.await;
        }
    }

    /// Puts into `options` the forwards for the next container: all that are open now, on the ports
    /// of this computer that they have, and those that could not be opened here.
    pub(super) fn keep_in(&self, options: &mut Options) {
        let table = self.table();
        if table.entrance.is_some() {
            options.config.forwards = table.local.iter().map(|it| it.wanted.clone()).collect();
            options.config.remote_forwards =
                table.remote.iter().map(|it| it.wanted.clone()).collect();
        }
    }
}

/// The answer where forwards cannot be opened.
const NO_CONTAINER: &str = "there is no connection into the container";

/// A failure in a line.
fn refusal(failure: &Failure) -> String {
    format!("{:#}", failure.error)
}

/// Opens the forwards that are asked for, and prints them. A port that was replaced stays that
/// one if the session goes on elsewhere.
pub(super) async fn open_all(
    parts: &mut Parts<'_>,
    instance: &Instance,
    inside: &ContainerSession,
) -> Result<Forwards, Failure> {
    let options = &parts.request.options;
    let (report, json) = (parts.report, options.config.once.json);
    let session = parts.reconciler.session().to_string();
    let forwards = Forwards::default();
    let Some((ssh, _)) = parts.reconciler.hosts().link(&instance.id) else {
        // The shell finds that out, too, and reports it.
        return Ok(forwards);
    };
    {
        let mut table = forwards.table();
        table.has_jupyter = jupyter_port(options).is_some();
        table.entrance = Some(Entrance {
            ssh: ssh.clone(),
            host: inside.host.clone(),
            container: inside.container.clone(),
            session,
            is_exact: options.config.exact_ports,
        });
    }
    for wanted in &options.config.forwards {
        let Some((entrance, server)) = forwards.table().server(Direction::Local) else {
            break;
        };
        let forward = open(&entrance, wanted, server);
        let forward = forward.map_err(|error| failure(error, Direction::Local, wanted));
        match inside.or_go_on_without(forward, report, json)? {
            Some(forward) => {
                if let Some(line) = replaced(Direction::Local, wanted, forward.port()) {
                    report.print(&line);
                }
                forwards.table().add_local(forward, wanted);
            }
            None => forwards.table().local.push(Entry::unopened(wanted)),
        }
    }
    for wanted in &options.config.remote_forwards {
        let Some((entrance, server)) = forwards.table().server(Direction::Remote) else {
            break;
        };
        let forward = open_remote(&entrance, wanted, server).await;
        let forward = forward.map_err(|error| failure(error, Direction::Remote, wanted));
        match inside.or_go_on_without(forward, report, json)? {
            Some(forward) => {
                if let Some(line) = replaced(Direction::Remote, wanted, forward.port()) {
                    report.print(&line);
                }
                forwards.table().add_remote(forward, wanted);
            }
            None => forwards.table().remote.push(Entry::unopened(wanted)),
        }
    }
    let lines = forwards.lines();
    if !lines.is_empty() {
        report.note(&Text::block(&lines));
    }
    Ok(forwards)
}

/// The command of the server in the container for the forward of this name.
pub(super) fn server(inside: &ContainerSession, name: &str) -> String {
    inside.host.ssh_server(&inside.container, Some(name))
}

fn failure(error: ForwardError, direction: Direction, wanted: &Forwarding) -> Failure {
    match (error, direction) {
        (ForwardError::Busy(port), Direction::Local) => busy(port),
        (ForwardError::Busy(port), Direction::Remote) => {
            let error = anyhow!("port {port} in the container is busy");
            Failure::new(Exit::Unavailable, error).hint(EXACT)
        }
        (error, direction) => {
            let flag = direction.flag();
            let error =
                anyhow::Error::new(error).context(format!("no forward for {flag} {wanted}"));
            Failure::new(Exit::Unavailable, error)
        }
    }
}
