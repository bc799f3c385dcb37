//! The client lock: attaches this client to a host, refreshes the lease, and receives the host's
//! events.
//!
//! A lock is a running command on the host (`session hold`) that ends with its channel: a client
//! that was killed is attached no longer. Its output is read without pause, and events are kept
//! until they are asked for; a host that sends more than [`EVENTS`] of them, or a line without an end,
//! ends the lock. Refreshing the lease never waits. Nothing here decides how long a
//! lease should be, or what an event means for the session.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

use super::facts::{BUSY, Facts, ScriptError};
use super::frozen::Frozen;
use crate::ssh::channel::{self, Sender, Session};
use crate::ssh::{Output, Ssh, SshError};

const SCRIPT: &str = "session hold";
const ARRIVAL: &str = "session arrive";

/// The most events that wait to be asked for: far more than a host has to tell, whose lead and guests
/// come and go while a save asks for nothing.
const EVENTS: usize = 4096;

/// The role of an attached client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Mounts, starts and closes; a host has at most one.
    Lead,
    /// Uses what the lead started, and keeps the host from powering off.
    Guest,
}

impl Role {
    /// The role's name, here and on the host.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lead => "lead",
            Self::Guest => "guest",
        }
    }

    /// Parses `ROLE LINE`, as the host keeps a client: its role and its line.
    pub(super) fn parse(client: &str) -> Option<(Self, String)> {
        let (role, line) = client.split_once(' ')?;
        let role = [Self::Lead, Self::Guest]
            .into_iter()
            .find(|it| it.name() == role)?;
        Some((role, line.to_owned()))
    }
}

/// A request to attach.
#[derive(Debug, Clone, Copy)]
pub struct LockOrder<'a> {
    /// The client's line, for people to read; its first word is the session, unique to it.
    pub client: &'a str,
    /// The client's role.
    pub role: Role,
    /// The lease, in whole seconds from now.
    pub lease: Duration,
}

/// An event on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEvent {
    /// EC2 is about to interrupt the instance (EC2 user guide, *Spot Instance interruption
    /// notices*). The host closes at once.
    Notice {
        /// `terminate`, `stop` or `hibernate`.
        action: String,
        /// When it will do so.
        at: Timestamp,
    },
    /// An interruption is likely soon (*EC2 instance rebalance recommendations*).
    Rebalance {
        /// When EC2 recommended it.
        at: Timestamp,
    },
    /// The host began to close, for this reason; it will never mount or start anything again.
    Closing(String),
    /// A command was frozen, or could not be.
    Freeze(Frozen),
    /// No GPU has been in use for so long, and nobody has said how long the host may be idle.
    IdleGpu(Duration),
    /// The drive is unmounted for good.
    Unmounted,
}

impl HostEvent {
    /// Parses the text behind a line's `event=`; none if this version does not know the event.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match kind {
            "notice" => {
                let (action, at) = notice(rest)?;
                Self::Notice { action, at }
            }
            "rebalance" => Self::Rebalance {
                at: rest.parse().ok()?,
            },
            "closing" => Self::Closing(rest.to_owned()),
            "froze" => Self::Freeze(Frozen::done(rest)?),
            "not_frozen" => Self::Freeze(Frozen::failed(rest)?),
            "idle_gpu" => Self::IdleGpu(Duration::from_secs(rest.parse().ok()?)),
            "unmounted" => Self::Unmounted,
            _ => return None,
        })
    }
}

/// Parses `ACTION TIME`.
pub(super) fn notice(text: &str) -> Option<(String, Timestamp)> {
    let (action, at) = text.split_once(' ')?;
    Some((action.to_owned(), at.parse().ok()?))
}

/// The terms on which a host is up.
#[derive(Debug, Clone, Copy, Default)]
struct Terms {
    /// When its lease ends, from now.
    lease: Duration,
    /// How long it may be idle, zero for ever; none leaves that as it is.
    idle: Option<Duration>,
}

/// A client of this process, attached to the host. The lock ends when it is dropped, with the
/// connection, and with this process, however that ends.
#[derive(Debug)]
pub struct ClientLock {
    terms: watch::Sender<Terms>,
    events: mpsc::Receiver<HostEvent>,
}

impl ClientLock {
    /// Runs `command` (`session hold`), and returns once the host has attached the client.
    pub(super) async fn begin(ssh: &Ssh, command: &str) -> Result<Self, ScriptError> {
        let mut host = LockCommand::start(SCRIPT, ssh, command).await?;
        loop {
            match host.line().await? {
                Some(line) if line.starts_with("xdrive: attached=") => break,
                Some(_) => {}
                None => return Err(host.refusal(ssh).await),
            }
        }
        Ok(Self::over(host))
    }

    /// Runs `command` (`session arrive`), and returns all facts of the host, with the lock if the
    /// host has attached the client.
    pub(super) async fn arrive(
        ssh: &Ssh,
        command: &str,
    ) -> Result<(Facts, Option<Self>), ScriptError> {
        let mut host = LockCommand::start(ARRIVAL, ssh, command).await?;
        loop {
            match host.line().await? {
                Some(line) if line.starts_with("xdrive: arrived=") => break,
                Some(_) => {}
                // The facts come before the attempt to attach.
                None => return Ok((host.facts(ssh, &[BUSY]).await?, None)),
            }
        }
        let output = Output {
            status: 0,
            stdout: host.stdout.clone(),
            stderr: Vec::new(),
        };
        Ok((Facts::read(ARRIVAL, &output, &[])?, Some(Self::over(host))))
    }

    fn over(host: LockCommand) -> Self {
        tracing::debug!(target: "xdrive::host", script = host.script, "in force");
        let (terms, refreshes) = watch::channel(Terms::default());
        let (sender, events) = mpsc::channel(EVENTS);
        tokio::spawn(host.keep(refreshes, sender));
        Self { terms, events }
    }

    /// Makes the lease end so long from now. Returns at once; false if the lock has ended.
    #[must_use = "a lock that is gone refreshes nothing"]
    pub fn refresh(&self, lease: Duration) -> bool {
        self.terms.send_modify(|terms| terms.lease = lease);
        !self.terms.is_closed()
    }

    /// Has the host close the drive once it was idle for so long (whole seconds; zero: never), from the next
    /// refresh on. The host takes it from each session once: of several the one that came last counts.
    pub fn set_idle(&self, idle: Duration) {
        self.terms.send_if_modified(|terms| {
            terms.idle = Some(idle);
            false
        });
    }

    /// Waits for the next event; `None` when the lock has ended on the host or with the connection.
    /// Loses nothing if it is dropped before it is ready.
    pub async fn event(&mut self) -> Option<HostEvent> {
        self.events.recv().await
    }
}

/// The running command behind a lock, and its output.
struct LockCommand {
    script: &'static str,
    session: Session,
    stdout: Vec<u8>,
    /// How many bytes of `stdout` were read as lines.
    seen: usize,
    stderr: Vec<u8>,
    status: Option<u32>,
}

impl LockCommand {
    async fn start(script: &'static str, ssh: &Ssh, command: &str) -> Result<Self, SshError> {
        tracing::debug!(target: "xdrive::host", script, "sending");
        Ok(Self {
            script,
            session: ssh.exec(command, None).await?,
            stdout: Vec::new(),
            seen: 0,
            stderr: Vec::new(),
            status: None,
        })
    }

    /// The next line of standard output; none when the channel has ended. [`SshError::TooLong`] of a
    /// line without an end, or of more lines than anybody waits for.
    async fn line(&mut self) -> Result<Option<String>, SshError> {
        loop {
            let rest = &self.stdout[self.seen..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                self.seen += end + 1;
                if let Some(fact) = line.strip_prefix("xdrive: ") {
                    tracing::trace!(target: "xdrive::host", script = self.script, %fact, "received");
                }
                return Ok(Some(line));
            }
            let kept = self.stdout.len() + self.stderr.len();
            match self.session.output_beside(kept).await? {
                Some(channel::Output::Stdout(data)) => self.stdout.extend_from_slice(&data),
                Some(channel::Output::Stderr(data)) => self.stderr.extend_from_slice(&data),
                Some(channel::Output::Status(status)) => self.status = Some(status),
                None => {
                    let status = self.status;
                    tracing::debug!(target: "xdrive::host", script = self.script, status, "ended");
                    return Ok(None);
                }
            }
        }
    }

    /// Why the command ended before the client was attached.
    async fn refusal(self, ssh: &Ssh) -> ScriptError {
        match self.facts(ssh, &[]).await {
            Ok(facts) => facts.garbled("attached"),
            Err(error) => error,
        }
    }

    /// All facts that the command printed until its end.
    async fn facts(self, ssh: &Ssh, also: &[u32]) -> Result<Facts, ScriptError> {
        let Some(status) = self.status else {
            return Err(ssh.why_ended().await.into());
        };
        let output = Output {
            status,
            stdout: self.stdout,
            stderr: self.stderr,
        };
        Facts::read(self.script, &output, also)
    }

    /// Passes events on and refreshes the lease, until the channel ends or the [`ClientLock`] is
    /// dropped.
    async fn keep(
        mut self,
        mut refreshes: watch::Receiver<Terms>,
        events: mpsc::Sender<HostEvent>,
    ) {
        loop {
            // Long output does not accumulate.
            self.stdout.drain(..self.seen);
            self.seen = 0;
            self.stderr.clear();
            tokio::select! {
                line = self.line() => {
                    let Ok(Some(line)) = line else {
                        return;
                    };
                    let event = line.strip_prefix("xdrive: event=").and_then(HostEvent::parse);
                    // A host that says more than anybody asks for is none.
                    if event.is_some_and(|event| events.try_send(event).is_err()) {
                        return;
                    }
                }
                changed = refreshes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let terms = *refreshes.borrow_and_update();
                    if !refresh(&self.session.sender, terms).await {
                        return;
                    }
                }
            }
        }
    }
}

/// Sends the terms on the command's standard input; false when the connection has ended.
async fn refresh(sender: &Sender, terms: Terms) -> bool {
    let lease = terms.lease.as_secs();
    let line = match terms.idle {
        Some(idle) => format!("lease {lease} {}\n", idle.as_secs()),
        None => format!("lease {lease}\n"),
    };
    sender.send(Bytes::from(line)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_unknown_ones_passed_over() {
        let at: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (words, event) in [
            (
                "notice terminate 2026-01-02T03:04:05Z",
                Some(HostEvent::Notice {
                    action: "terminate".into(),
                    at,
                }),
            ),
            (
                "rebalance 2026-01-02T03:04:05Z",
                Some(HostEvent::Rebalance { at }),
            ),
            (
                "closing the lease ended",
                Some(HostEvent::Closing("the lease ended".into())),
            ),
            (
                "not_frozen 1f too large: 21 GiB",
                Some(HostEvent::Freeze(Frozen {
                    run: "1f".into(),
                    outcome: Err("too large: 21 GiB".into()),
                })),
            ),
            (
                "idle_gpu 3600",
                Some(HostEvent::IdleGpu(Duration::from_hours(1))),
            ),
            ("idle_gpu -1", None),
            ("froze 1f soon", None),
            ("unmounted", Some(HostEvent::Unmounted)),
            ("notice terminate soon", None),
            ("tomorrow's event", None),
        ] {
            assert_eq!(HostEvent::parse(words), event, "{words}");
        }
    }

    #[test]
    fn a_client_is_its_role_and_its_line() {
        for role in [Role::Lead, Role::Guest] {
            let line = "abc 2026-01-02T03:04:05Z me at laptop".to_owned();
            let read = Role::parse(&format!("{} {line}", role.name()));
            assert_eq!(read, Some((role, line)));
        }
        assert_eq!(Role::parse("owner me"), None);
    }
}
