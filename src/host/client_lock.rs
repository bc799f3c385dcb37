//! This client on a host: attached, keeping the lease, hearing what happens there.
//!
//! A hold is a running command on the host (`session hold`) that ends with its channel, so that a
//! client that was killed is attached no longer, whatever it meant to do. What it says is read
//! without pause and kept until it is asked for; refreshing the lease never waits. Nothing here
//! decides how long a lease should be, or what an event means for the session.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

use super::facts::{BUSY, Facts, HostError};
use crate::ssh::channel::{self, Sender, Session};
use crate::ssh::{Output, Ssh, SshError};

const SCRIPT: &str = "session hold";
const ARRIVAL: &str = "session arrive";

/// In which part a client is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It mounts, starts and closes; one at most.
    Lead,
    /// It uses what is there, and keeps it from being switched off.
    Guest,
}

impl Role {
    /// The word for it, here and on the host.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lead => "lead",
            Self::Guest => "guest",
        }
    }

    /// A role and the client's line, as the host keeps them.
    pub(super) fn read(client: &str) -> Option<(Self, String)> {
        let (role, line) = client.split_once(' ')?;
        let role = [Self::Lead, Self::Guest]
            .into_iter()
            .find(|it| it.name() == role)?;
        Some((role, line.to_owned()))
    }
}

/// Who wants to be attached, and for how long the host is to wait for the next sign of it.
#[derive(Debug, Clone, Copy)]
pub struct LockOrder<'a> {
    /// One line that tells people who it is; its first word is the session, unique to it.
    pub client: &'a str,
    /// In which part.
    pub role: Role,
    /// The lease, in whole seconds from now.
    pub lease: Duration,
}

/// What happened on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEvent {
    /// EC2 is about to take the instance away (EC2 user guide, *Spot Instance interruption
    /// notices*). The host closes itself at once.
    Notice {
        /// `terminate`, `stop` or `hibernate`.
        action: String,
        /// When.
        at: Timestamp,
    },
    /// EC2 finds it likely that it soon will (*EC2 instance rebalance recommendations*).
    Rebalance {
        /// When EC2 said so.
        at: Timestamp,
    },
    /// It began to close, for this reason; it will never mount or start anything again.
    Closing(String),
    /// The drive is unmounted for good.
    Unmounted,
    /// So many clients are attached now, this one included.
    Clients(u32),
}

impl HostEvent {
    /// The event behind a line's `event=`; none if this version does not know it.
    fn read(words: &str) -> Option<Self> {
        let (kind, rest) = words.split_once(' ').unwrap_or((words, ""));
        Some(match kind {
            "notice" => {
                let (action, at) = notice(rest)?;
                Self::Notice { action, at }
            }
            "rebalance" => Self::Rebalance {
                at: rest.parse().ok()?,
            },
            "closing" => Self::Closing(rest.to_owned()),
            "unmounted" => Self::Unmounted,
            "clients" => Self::Clients(rest.parse().ok()?),
            _ => return None,
        })
    }
}

/// `ACTION TIME`.
pub(super) fn notice(words: &str) -> Option<(String, Timestamp)> {
    let (action, at) = words.split_once(' ')?;
    Some((action.to_owned(), at.parse().ok()?))
}

/// This client, attached to the host. Let go by dropping, by the connection's end, or by the end
/// of this process, however it comes.
#[derive(Debug)]
pub struct ClientLock {
    lease: watch::Sender<Duration>,
    events: mpsc::UnboundedReceiver<HostEvent>,
}

impl ClientLock {
    /// Runs `command`, the hold's, and returns once the host says that it is in force.
    pub(super) async fn begin(ssh: &Ssh, command: &str) -> Result<Self, HostError> {
        let mut host = LockCommand::of(SCRIPT, ssh, command).await?;
        loop {
            match host.line().await {
                Some(line) if line.starts_with("xdrive: attached=") => break,
                Some(_) => {}
                None => return Err(host.refusal(ssh).await),
            }
        }
        Ok(Self::over(host))
    }

    /// Runs `command`, an arrival's, and returns once the host has said all that it knows: that,
    /// and the hold if it is in force.
    pub(super) async fn arrive(
        ssh: &Ssh,
        command: &str,
    ) -> Result<(Facts, Option<Self>), HostError> {
        let mut host = LockCommand::of(ARRIVAL, ssh, command).await?;
        loop {
            match host.line().await {
                Some(line) if line.starts_with("xdrive: arrived=") => break,
                Some(_) => {}
                // It says what it knows before it tries to attach anybody.
                None => return Ok((host.facts(ssh, &[BUSY]).await?, None)),
            }
        }
        let output = Output {
            status: 0,
            stdout: host.said.clone(),
            stderr: Vec::new(),
        };
        Ok((Facts::read(ARRIVAL, &output, &[])?, Some(Self::over(host))))
    }

    fn over(host: LockCommand) -> Self {
        tracing::debug!(target: "xdrive::host", script = host.script, "in force");
        let (lease, refreshes) = watch::channel(Duration::ZERO);
        let (tell, events) = mpsc::unbounded_channel();
        tokio::spawn(host.keep(refreshes, tell));
        Self { lease, events }
    }

    /// The lease ends so long from now. Returns at once; false if the hold is gone.
    #[must_use = "a hold that is gone refreshes nothing"]
    pub fn refresh(&self, lease: Duration) -> bool {
        self.lease.send(lease).is_ok()
    }

    /// Waits for the next event; `None`: the hold is gone, although it was not let go. Nothing
    /// is lost if this future is dropped.
    pub async fn event(&mut self) -> Option<HostEvent> {
        self.events.recv().await
    }
}

/// The hold's command, as it is heard.
struct LockCommand {
    script: &'static str,
    session: Session,
    /// Standard output; what lies before `seen` was read as lines.
    said: Vec<u8>,
    seen: usize,
    stderr: Vec<u8>,
    status: Option<u32>,
}

impl LockCommand {
    async fn of(script: &'static str, ssh: &Ssh, command: &str) -> Result<Self, SshError> {
        tracing::debug!(target: "xdrive::host", script, "sending");
        Ok(Self {
            script,
            session: ssh.exec(command, None).await?,
            said: Vec::new(),
            seen: 0,
            stderr: Vec::new(),
            status: None,
        })
    }

    /// The next line of standard output; none when the channel has ended.
    async fn line(&mut self) -> Option<String> {
        loop {
            let rest = &self.said[self.seen..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                self.seen += end + 1;
                if let Some(fact) = line.strip_prefix("xdrive: ") {
                    tracing::trace!(target: "xdrive::host", script = self.script, %fact, "received");
                }
                return Some(line);
            }
            match self.session.output().await {
                Some(channel::Output::Stdout(data)) => self.said.extend_from_slice(&data),
                Some(channel::Output::Stderr(data)) => self.stderr.extend_from_slice(&data),
                Some(channel::Output::Status(status)) => self.status = Some(status),
                None => {
                    let status = self.status;
                    tracing::debug!(target: "xdrive::host", script = self.script, status, "ended");
                    return None;
                }
            }
        }
    }

    /// Why it ended before it was in force.
    async fn refusal(self, ssh: &Ssh) -> HostError {
        match self.facts(ssh, &[]).await {
            Ok(facts) => facts.garbled("attached"),
            Err(error) => error,
        }
    }

    /// What it has said until its end.
    async fn facts(self, ssh: &Ssh, also: &[u32]) -> Result<Facts, HostError> {
        let Some(status) = self.status else {
            return Err(ssh.why_ended().await.into());
        };
        let output = Output {
            status,
            stdout: self.said,
            stderr: self.stderr,
        };
        Facts::read(self.script, &output, also)
    }

    /// Until the channel ends, or nobody has the [`ClientLock`] any more.
    async fn keep(
        mut self,
        mut refreshes: watch::Receiver<Duration>,
        tell: mpsc::UnboundedSender<HostEvent>,
    ) {
        loop {
            // Hours of events and words are not kept twice.
            self.said.drain(..self.seen);
            self.seen = 0;
            self.stderr.clear();
            tokio::select! {
                line = self.line() => match line {
                    None => return,
                    Some(line) => {
                        let event = line.strip_prefix("xdrive: event=").and_then(HostEvent::read);
                        if let Some(event) = event {
                            // Whoever dropped the hold is heard of below.
                            let _ = tell.send(event);
                        }
                    }
                },
                changed = refreshes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let lease = *refreshes.borrow_and_update();
                    if !order(&self.session.sender, lease).await {
                        return;
                    }
                }
            }
        }
    }
}

/// A line for the hold's standard input; false when the connection has ended.
async fn order(sender: &Sender, lease: Duration) -> bool {
    sender
        .send(Bytes::from(format!("lease {}\n", lease.as_secs())))
        .await
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
            ("unmounted", Some(HostEvent::Unmounted)),
            ("clients 3", Some(HostEvent::Clients(3))),
            ("clients many", None),
            ("notice terminate soon", None),
            ("tomorrow's event", None),
        ] {
            assert_eq!(HostEvent::read(words), event, "{words}");
        }
    }

    #[test]
    fn a_client_is_its_role_and_its_line() {
        for role in [Role::Lead, Role::Guest] {
            let line = "abc 2026-01-02T03:04:05Z me at laptop".to_owned();
            let read = Role::read(&format!("{} {line}", role.name()));
            assert_eq!(read, Some((role, line)));
        }
        assert_eq!(Role::read("owner me"), None);
    }
}
