//! The connections to hosts, and this session's attachment over them.
//!
//! An attachment is a channel of the connection over which its lease is kept; [`Links::detach`] ends
//! it. If the host drops it, or the connection ends, [`News::Lost`] reports that.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::timeout;

use super::arrival::{Arrival, Coming, Found, Ready};
use super::attachment::Attachment;
use super::client_line::translated;
use super::lease::{Lease, LeaseContext, News, extend};
use super::login::ANSWER;
use super::purpose::ArrivalRequest;
use crate::drive::HostError;
use crate::host::facts::ScriptError;
use crate::host::scripts::Host;
use crate::host::{EarlySibling, HostState, LockOrder, MountedDrive, Role};
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

impl Link {
    /// Attaches this session, and keeps the lease from then on.
    async fn attach(
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

    /// The host's state on arrival, once, if this session has claimed the host since; no older than
    /// [`ANSWER`] allows.
    pub(super) fn arrival_contact(&mut self) -> Option<HostState> {
        if !self.is_held() {
            return None;
        }
        let (at, contact) = self.arrival.contact.take()?;
        (at.elapsed() < ANSWER).then_some(contact)
    }
}

/// The result of [`Links::reattach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reattached {
    /// The session was attached already.
    Still,
    /// The session is attached again.
    Again,
    /// There is no connection: the session attaches over a new one.
    Unconnected,
}

/// The state of the drive on a host that was claimed by an arrival.
pub(super) struct Claimed {
    /// The mounted drive, unless it has to be mounted again.
    pub(super) mounted: Option<MountedDrive>,
    /// The name of the terminal that an earlier session left in the main container.
    pub(super) terminal: Option<String>,
}

/// The connections of one session, one for each host that answered.
pub(super) struct Links {
    context: LeaseContext,
    /// The session's attachment, once it has claimed a host.
    client: Option<Attachment>,
    /// The session's arrival at a host that runs already, once one is known.
    coming: Option<Coming>,
    by_host: BTreeMap<InstanceId, Link>,
}

impl Links {
    pub(super) fn new(context: LeaseContext) -> Self {
        Self {
            context,
            client: None,
            coming: None,
            by_host: BTreeMap::new(),
        }
    }

    pub(super) fn context(&self) -> &LeaseContext {
        &self.context
    }

    /// Has the hosts that are claimed from now on close the drive once they were idle for so long.
    pub(super) fn set_idle(&mut self, idle: Option<Duration>) {
        self.context.idle = idle;
    }

    pub(super) fn get(&self, host: &InstanceId) -> Option<&Link> {
        self.by_host.get(host)
    }

    pub(super) fn get_mut(&mut self, host: &InstanceId) -> Option<&mut Link> {
        self.by_host.get_mut(host)
    }

    pub(super) fn insert(&mut self, host: InstanceId, link: Link) {
        self.by_host.insert(host, link);
    }

    /// Drops a connection that this session expects nothing of any more.
    pub(super) fn remove(&mut self, host: &InstanceId) {
        self.by_host.remove(host);
    }

    /// The session's attachment, once it has claimed a host.
    pub(super) fn client(&self) -> Option<&Attachment> {
        self.client.as_ref()
    }

    /// Records what this session is attached as; later connections attach it again so.
    pub(super) fn set_client(&mut self, client: Attachment) {
        self.client = Some(client);
    }

    /// The session's id, as its hosts know it after an arrival or a claim; none before.
    pub(super) fn session(&self) -> Option<&SessionId> {
        let coming = self.coming.as_ref().map(|coming| &coming.client);
        self.client
            .as_ref()
            .or(coming)
            .map(|client| &client.session)
    }

    /// The request for an arrival. None for a session that was attached before: it does not arrive, it
    /// reconnects.
    pub(super) fn arrival(&self) -> Option<&ArrivalRequest> {
        let coming = self.coming.as_ref().filter(|_| self.client.is_none());
        coming.map(|coming| &coming.arrival)
    }

    pub(super) fn will_arrive(&mut self, coming: Coming) {
        self.coming = Some(coming);
    }

    /// An attachment of this session that begins now.
    pub(super) fn attachment(
        &self,
        role: Role,
        session: &SessionId,
        caller: &str,
        lease: Duration,
    ) -> Attachment {
        Attachment::new(role, session, caller, lease, self.context.clock.now())
    }

    /// Claims a host where this session has arrived and so is attached already; its lease begins
    /// now. `None` if there was no arrival, or its lock has ended since.
    pub(super) fn claim_arrival(&mut self, host: &InstanceId, lease: Duration) -> Option<Claimed> {
        let link = self.by_host.get_mut(host)?;
        let coming = self.coming.as_ref()?;
        let lock = link
            .arrival
            .lock
            .take()
            .filter(|lock| lock.refresh(lease))?;
        link.lease = Some(Lease::keep(host.clone(), lock, lease, self.context.clone()));
        let client = Attachment {
            lease,
            ..coming.client.clone()
        };
        if let Some((_, contact)) = &mut link.arrival.contact {
            contact.attached = Some(client.line.clone());
            contact.clients.push((client.role, client.line.clone()));
        }
        self.client = Some(client);
        let found = link.arrival.found.as_mut();
        // Without a limit to the unwritten bytes it is mounted again.
        let limited = |mounted: &MountedDrive| mounted.dirty_bytes.is_some();
        let (mounted, terminal) = found.map_or((None, None), |found| {
            (found.mounted.take(), found.terminal.take())
        });
        Some(Claimed {
            mounted: mounted.filter(limited),
            terminal,
        })
    }

    /// The parts that were ready on arrival, once.
    pub(super) fn take_ready(&mut self, host: &InstanceId) -> Ready {
        let Some(link) = self.by_host.get_mut(host) else {
            return Ready::default();
        };
        let found = link.arrival.found.take();
        Ready {
            container: found.and_then(|found: Found| found.container),
            early: link.arrival.early.take(),
        }
    }

    /// Attaches `client` over the existing connection.
    pub(super) async fn attach(
        &mut self,
        host: &InstanceId,
        client: Attachment,
    ) -> Result<(), HostError> {
        let lost = || HostError::Unreachable("the connection was lost".to_owned());
        let link = self.by_host.get_mut(host).ok_or_else(lost)?;
        let attached = link.attach(host, client, &self.context).await;
        attached.map_err(translated)
    }

    /// First the record, then the host: no host runs longer than the record allows.
    pub(super) async fn record_and_attach(
        &mut self,
        host: &InstanceId,
        client: Attachment,
    ) -> Result<(), HostError> {
        extend(&self.context, host, client.lease)
            .await
            .map_err(|error| HostError::Failed(error.to_string()))?;
        self.attach(host, client).await
    }

    /// Attaches this session, in its role, to a host that has dropped it, over the existing
    /// connection.
    pub(super) async fn reattach(&mut self, host: &InstanceId) -> Result<Reattached, HostError> {
        let link = self.by_host.get(host);
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

    /// Drops a connection, and reports the loss if this session was attached over it.
    pub(super) fn unlink(&mut self, host: &InstanceId) {
        self.drop_lease(host);
        self.by_host.remove(host);
    }

    /// Drops the lease of a host that does not know this session any more, and reports the loss.
    pub(super) fn drop_lease(&mut self, host: &InstanceId) {
        let lease = self
            .by_host
            .get_mut(host)
            .and_then(|link| link.lease.take());
        // A lease that ended by itself has reported that.
        if lease.is_some_and(|lease| lease.is_held()) {
            // Fails only where the session has ended.
            let _ = self.context.news.send(News::Lost);
        }
    }

    /// Changes how long the host runs on without a sign of life from this session: from the next
    /// renewal on, which follows at once.
    pub(super) fn change_lease(&mut self, host: &InstanceId, lease: Duration) {
        if let Some(client) = &mut self.client {
            client.lease = lease;
        }
        let link = self.by_host.get(host);
        if let Some(kept) = link.and_then(|link| link.lease.as_ref()) {
            kept.change(lease);
        }
    }

    pub(super) fn is_attached(&self, host: &InstanceId) -> bool {
        self.by_host.get(host).is_some_and(Link::is_held)
    }

    /// Whether this session is attached to a host in this role.
    pub(super) fn has_role(&self, role: Role) -> bool {
        self.client
            .as_ref()
            .is_some_and(|client| client.role == role)
    }

    /// Whether a client's line is this session's, or its command's.
    pub(super) fn is_own(&self, line: &str) -> bool {
        self.client.as_ref().is_some_and(|client| client.has(line))
    }

    /// Makes the client of a command this session's own: it is no reason not to save.
    pub(super) fn add_command(&mut self, command: SessionId) {
        if let Some(client) = &mut self.client {
            client.command = Some(command);
        }
    }

    /// Detaches from a host; the connection stays.
    pub(super) fn detach(&mut self, host: &InstanceId) {
        if let Some(link) = self.by_host.get_mut(host) {
            link.lease = None;
        }
    }
}
