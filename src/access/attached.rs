//! Attachments to hosts: their roles, connections and leases.
//!
//! An attachment is a channel of the connection over which its lease is kept. [`SshHosts::detach`]
//! ends it. If the host drops it, or the connection ends, [`News::Lost`] reports that;
//! [`SshHosts::reattach`] and [`SshHosts::reconnect`] make it again.

use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::time::timeout;

use super::SshHosts;
use super::arrival::Arrival;
use super::client_line::{line, session_of, translated};
use super::lease::{Lease, LeaseContext, News, extend};
use super::login::{ANSWER, LATE};
use crate::drive::{HostError, lease_left};
use crate::ec2::Instance;
use crate::host::facts::ScriptError;
use crate::host::scripts::Host;
use crate::host::{EarlySibling, LockOrder, Remaining, Role};
use crate::ids::{InstanceId, SessionId};
use crate::ssh::{Ssh, SshError};

/// How long a host may take to attach a client: three round trips, and the 20 s for which it waits
/// itself while it attaches another one.
const ATTACH: Duration = Duration::from_secs(30);

/// A host that answered.
pub(super) struct Link {
    pub(super) ssh: Ssh,
    pub(super) host: Host,
    pub(super) lease: Option<Lease>,
    /// Whether the host had its launch key when it was contacted, and nothing else to do.
    pub(super) has_launch_key: bool,
    pub(super) arrival: Arrival,
    /// The connection for files that is being opened beside it.
    pub(super) files: Option<EarlySibling>,
}

/// The session's attachment to its hosts.
#[derive(Debug, Clone)]
pub(super) struct Attachment {
    /// The session's role.
    pub(super) role: Role,
    pub(super) session: SessionId,
    /// The client's line: session, time, owner.
    pub(super) line: String,
    /// How long a host runs on without a sign of life from this session.
    pub(super) lease: Duration,
    /// The client that a command of this session is, and that ends with it.
    pub(super) command: Option<SessionId>,
}

impl Attachment {
    /// Whether a client's line is this session's, or its command's.
    pub(super) fn has(&self, line: &str) -> bool {
        let of = session_of(line);
        let command = self.command.as_ref();
        of == self.session.0 || command.is_some_and(|command| of == command.0)
    }
}

impl Link {
    /// Attaches this session, and keeps the lease from then on.
    pub(super) async fn attach(
        &mut self,
        host: &InstanceId,
        client: Attachment,
        context: &LeaseContext,
    ) -> Result<(), ScriptError> {
        let order = LockOrder {
            client: &client.line,
            role: client.role,
            lease: client.lease,
        };
        let late = |_| {
            let why = format!(
                "it did not attach this client in {} seconds",
                ATTACH.as_secs()
            );
            ScriptError::Ssh(SshError::Lost(self.ssh.address(), why))
        };
        let lock = timeout(ATTACH, self.host.hold(&order)).await;
        let lock = lock.map_err(late)??;
        let (host, context) = (host.clone(), context.clone());
        self.lease = Some(Lease::keep(host, lock, client.lease, context));
        Ok(())
    }

    pub(super) fn is_held(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_held)
    }
}

/// The result of [`SshHosts::reattach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reattached {
    /// The session was attached already.
    Still,
    /// The session is attached again.
    Again,
    /// There is no connection: [`SshHosts::reconnect`] attaches over a new one.
    Unconnected,
}

impl SshHosts {
    /// Connects again to a host whose connection was lost, and attaches this session to it again. One
    /// that was never attached only looks, which it may while the host closes.
    pub(crate) async fn reconnect(&mut self, host: &Instance) -> Result<(Ssh, Host), HostError> {
        let (_, contact) = self.look(host).await?;
        let Some(client) = self.client.clone() else {
            return self.reach(host).await;
        };
        if let Some(reason) = contact.closing {
            return Err(HostError::Closing(reason));
        }
        // First the record, then the host.
        extend(&self.context, &host.id, client.lease)
            .await
            .map_err(|error| HostError::Unreachable(error.to_string()))?;
        self.attach(&host.id, client).await?;
        self.reach(host).await
    }

    /// Detaches from a host that runs on for as long as `keep`, or longer if its lease ends later;
    /// returns when that is.
    pub(crate) async fn leave(
        &mut self,
        host: &Instance,
        keep: Duration,
    ) -> anyhow::Result<Timestamp> {
        let scripts = self.host(host).await?;
        // Not renewed any more: the lease that is set now is the last.
        self.detach(&host.id);
        let recorded = self.context.clock.boot();
        // Never to an earlier end: a run may have a longer lease.
        let until = extend(&self.context, &host.id, keep).await?;
        // The laptop may sleep in between: no host runs longer than the record allows.
        let spent = self.context.clock.boot().since(recorded);
        let left =
            lease_left(keep, spent).context("the lease was over before the host could be asked")?;
        scripts.lease(left).await?;
        self.links.remove(&host.id);
        Ok(until)
    }

    /// Detaches from a host; returns the clients that remain, by the host's count: of all that
    /// leave, just one learns that none remains.
    pub(crate) async fn leave_to_others(
        &mut self,
        host: &Instance,
    ) -> Result<Remaining, HostError> {
        let client = self.client.as_ref();
        let client = client.map_or_else(String::new, |client| client.line.clone());
        // Attached until then, so that no client that leaves meanwhile is the last.
        let remaining = self.ask_to_leave(host, &client).await;
        self.detach(&host.id);
        remaining
    }

    /// Asks over the existing connection, else over a new one: a repeated request gets the same
    /// answer.
    async fn ask_to_leave(
        &mut self,
        host: &Instance,
        client: &str,
    ) -> Result<Remaining, HostError> {
        if let Some(link) = self.links.get(&host.id) {
            if let Ok(Ok(remaining)) = timeout(ANSWER, link.host.leave(client)).await {
                return Ok(remaining);
            }
            self.unlink(&host.id);
        }
        let scripts = self.host(host).await?;
        let late = |_| HostError::Unreachable(LATE.to_owned());
        let remaining = timeout(ANSWER, scripts.leave(client)).await;
        remaining.map_err(late)?.map_err(translated)
    }

    /// Joins the session on `host`: attaches this one as a guest. The host's lease then lasts for
    /// at least `lease`, and is never made shorter.
    pub(crate) async fn join(
        &mut self,
        host: &Instance,
        session: &SessionId,
        owner: &str,
        lease: Duration,
    ) -> Result<(), HostError> {
        self.host(host).await?;
        let client = self.attachment(Role::Guest, session, owner, lease);
        self.record_and_attach(&host.id, client.clone()).await?;
        self.client = Some(client);
        Ok(())
    }

    /// Attaches this session, in its role, to a host that has dropped it, over the existing
    /// connection.
    pub(crate) async fn reattach(&mut self, host: &InstanceId) -> Result<Reattached, HostError> {
        let link = self.links.get(host);
        let link = link.filter(|link| !link.ssh.has_ended());
        let (Some(link), Some(client)) = (link, self.client.clone()) else {
            return Ok(Reattached::Unconnected);
        };
        if link.is_held() {
            return Ok(Reattached::Still);
        }
        self.record_and_attach(host, client).await?;
        Ok(Reattached::Again)
    }

    /// First the record, then the host: no host runs longer than the record allows.
    async fn record_and_attach(
        &mut self,
        host: &InstanceId,
        client: Attachment,
    ) -> Result<(), HostError> {
        extend(&self.context, host, client.lease)
            .await
            .map_err(|error| HostError::Failed(error.to_string()))?;
        self.attach(host, client).await
    }

    /// Attaches `client` over the existing connection.
    pub(super) async fn attach(
        &mut self,
        host: &InstanceId,
        client: Attachment,
    ) -> Result<(), HostError> {
        let lost = || HostError::Unreachable("the connection was lost".to_owned());
        let link = self.links.get_mut(host).ok_or_else(lost)?;
        let attached = link.attach(host, client, &self.context).await;
        attached.map_err(translated)
    }

    /// Drops a connection, and reports the loss if this session was attached over it.
    pub(super) fn unlink(&mut self, host: &InstanceId) {
        if let Some(mut link) = self.links.remove(host) {
            self.report_loss(&mut link);
        }
    }

    /// Drops the lease of a host that does not know this session any more, and reports the loss.
    pub(super) fn drop_lease(&mut self, host: &InstanceId) {
        if let Some(mut link) = self.links.remove(host) {
            self.report_loss(&mut link);
            self.links.insert(host.clone(), link);
        }
    }

    fn report_loss(&self, link: &mut Link) {
        // A lease that ended by itself has reported that.
        if link.lease.take().is_some_and(|lease| lease.is_held()) {
            // Fails only where the session has ended.
            let _ = self.context.news.send(News::Lost);
        }
    }

    /// Changes how long the host runs on without a sign of life from this session: from the next
    /// renewal on, which follows at once.
    pub(crate) fn change_lease(&mut self, host: &InstanceId, lease: Duration) {
        if let Some(client) = &mut self.client {
            client.lease = lease;
        }
        let link = self.links.get(host);
        if let Some(kept) = link.and_then(|link| link.lease.as_ref()) {
            kept.change(lease);
        }
    }

    /// Whether this session is attached there.
    pub(crate) fn is_attached(&self, host: &InstanceId) -> bool {
        self.links.get(host).is_some_and(Link::is_held)
    }

    /// Whether this session leads there.
    pub(crate) fn leads(&self, host: &InstanceId) -> bool {
        let client = self.client.as_ref();
        self.is_attached(host) && client.is_some_and(|client| client.role == Role::Lead)
    }

    /// Whether this session has joined another one.
    pub(crate) fn is_guest(&self) -> bool {
        let client = self.client.as_ref();
        client.is_some_and(|client| client.role == Role::Guest)
    }

    /// Whether a client's line is this session's, or its command's.
    pub(crate) fn is_own(&self, line: &str) -> bool {
        self.client.as_ref().is_some_and(|client| client.has(line))
    }

    /// Makes the client of a command this session's own: it is no reason not to save.
    pub(crate) fn own(&mut self, command: SessionId) {
        if let Some(client) = &mut self.client {
            client.command = Some(command);
        }
    }

    /// Detaches from a host; the connection stays.
    pub(crate) fn detach(&mut self, host: &InstanceId) {
        if let Some(link) = self.links.get_mut(host) {
            link.lease = None;
        }
    }

    /// The line of another client, which has this caller as its owner.
    pub(crate) fn line_of(&self, client: &SessionId, owner: &str) -> String {
        line(client, self.context.clock.now(), owner)
    }

    /// An attachment of this session that begins now.
    pub(super) fn attachment(
        &self,
        role: Role,
        session: &SessionId,
        owner: &str,
        lease: Duration,
    ) -> Attachment {
        let line = line(session, self.context.clock.now(), owner);
        Attachment {
            role,
            session: session.clone(),
            line,
            lease,
            command: None,
        }
    }

    /// The session's id, as its hosts know it; none before it has claimed one.
    pub(super) fn session(&self) -> Option<&SessionId> {
        self.client.as_ref().map(|client| &client.session)
    }
}
