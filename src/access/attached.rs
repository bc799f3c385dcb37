//! Being attached to hosts: in which part, over which connection, and until when.
//!
//! An attachment is a channel of the connection over which its lease is kept. It is given up by
//! [`SshHosts::let_go`] and nothing else; where the host forgets it, or the connection ends, that
//! is news, and [`SshHosts::hold_again`] and [`SshHosts::back`] are the ways to it again.

use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::time::timeout;

use super::SshHosts;
use super::arrival::Arrival;
use super::client_line::{session_of, translated};
use super::lease::{Lease, News, Terms, extend};
use super::login::{ANSWER, LATE};
use crate::drive::{HostError, SessionId, lease_left, tags};
use crate::ec2::{Instance, InstanceId};
use crate::host::facts;
use crate::host::scripts::{Host, LockOrder, Remaining, Role};
use crate::ssh::{Ssh, SshError};

/// How long a host may take to attach a client: three round trips, and the twenty seconds that it
/// waits itself while it attaches another one.
const ATTACH: Duration = Duration::from_secs(30);

/// A host that answered.
pub(super) struct Link {
    pub(super) ssh: Ssh,
    pub(super) host: Host,
    pub(super) lease: Option<Lease>,
    pub(super) arrival: Arrival,
}

/// How this session is attached to its hosts.
#[derive(Debug, Clone)]
pub(super) struct Attachment {
    /// In which part.
    pub(super) role: Role,
    /// What tells it from others, and people who it is: session, time, owner.
    pub(super) line: String,
    /// How long a host lives without a sign of life of it.
    pub(super) lease: Duration,
}

impl Link {
    /// Attaches this session, and keeps the lease from then on.
    pub(super) async fn attach(
        &mut self,
        host: &InstanceId,
        client: Attachment,
        terms: &Terms,
    ) -> Result<(), facts::HostError> {
        let order = LockOrder {
            client: &client.line,
            role: client.role,
            lease: client.lease,
        };
        let late = |_| {
            let why = format!("it attached nobody for {} seconds", ATTACH.as_secs());
            facts::HostError::Ssh(SshError::Lost(self.ssh.address(), why))
        };
        let hold = timeout(ATTACH, self.host.hold(&order)).await;
        let hold = hold.map_err(late)??;
        let (host, terms) = (host.clone(), terms.clone());
        self.lease = Some(Lease::keep(host, hold, client.lease, terms));
        Ok(())
    }

    pub(super) fn is_held(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_held)
    }
}

/// What came of attaching again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// The session is attached, and was already.
    Still,
    /// It is attached again.
    Again,
    /// There is no connection: whoever makes another one attaches over that.
    Unconnected,
}

impl SshHosts {
    /// Connects again to a host whose connection was lost, and attaches this session to it again.
    pub(crate) async fn back(&mut self, host: &Instance) -> Result<(Ssh, Host), HostError> {
        let (_, contact) = self.look(host).await?;
        if let Some(reason) = contact.closing {
            return Err(HostError::Closing(reason));
        }
        let unreachable = || HostError::Unreachable("this session never held it".to_owned());
        let client = self.client.clone().ok_or_else(unreachable)?;
        // Attaching tells the host, so the record comes first here too.
        extend(&self.terms, &host.id, client.lease)
            .await
            .map_err(|error| HostError::Unreachable(error.to_string()))?;
        let link = self.links.get_mut(&host.id).ok_or_else(unreachable)?;
        link.attach(&host.id, client, &self.terms)
            .await
            .map_err(translated)?;
        Ok((link.ssh.clone(), link.host.clone()))
    }

    /// Lets go of a host that goes on for as long as `keep`, and says until when that is.
    pub(crate) async fn leave(
        &mut self,
        host: &Instance,
        keep: Duration,
    ) -> anyhow::Result<Timestamp> {
        let scripts = self.host(host).await?;
        // Nobody renews it any more: what is said now is the last word.
        self.let_go(&host.id);
        let until = self.terms.clock.now() + keep;
        let recorded = self.terms.clock.boot();
        let tags = tags::lease(until);
        self.terms.ec2.tag(host.id.as_str(), &tags).await?;
        // A laptop may sleep between the two: no host lives longer than the record says.
        let spent = self.terms.clock.boot().since(recorded);
        let left = lease_left(keep, spent).context("its time was over before it was told")?;
        scripts.lease(left).await?;
        self.links.remove(&host.id);
        Ok(until)
    }

    /// Lets go of a host; who goes on there without this session, by the host's own count: of all
    /// who leave, just one hears that nobody does.
    pub(crate) async fn leave_to_others(
        &mut self,
        host: &Instance,
    ) -> Result<Remaining, HostError> {
        let client = self.client.as_ref();
        let client = client.map_or_else(String::new, |client| client.line.clone());
        // Held until then: whoever leaves meanwhile is not the last.
        let remaining = self.ask_to_leave(host, &client).await;
        self.let_go(&host.id);
        remaining
    }

    /// Asked again over another connection, the host says the same again.
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

    /// Joins whoever has `host`: attaches this session as a guest, which keeps the lease from
    /// ending before `lease` is over, and makes no longer one shorter.
    pub(crate) async fn visit(
        &mut self,
        host: &Instance,
        session: &SessionId,
        owner: &str,
        lease: Duration,
    ) -> Result<(), HostError> {
        self.host(host).await?;
        let client = self.attachment(Role::Guest, session, owner, lease);
        extend(&self.terms, &host.id, lease)
            .await
            .map_err(|error| HostError::Failed(error.to_string()))?;
        if let Some(link) = self.links.get_mut(&host.id) {
            link.attach(&host.id, client.clone(), &self.terms)
                .await
                .map_err(translated)?;
        }
        self.client = Some(client);
        Ok(())
    }

    /// Attaches this session again to a host that has forgotten it, over the connection that there
    /// is, in the part that it had.
    pub(crate) async fn hold_again(&mut self, host: &InstanceId) -> Result<Held, HostError> {
        let link = self.links.get_mut(host);
        let link = link.filter(|link| !link.ssh.has_ended());
        let (Some(link), Some(client)) = (link, self.client.clone()) else {
            return Ok(Held::Unconnected);
        };
        if link.is_held() {
            return Ok(Held::Still);
        }
        // First the record, then the host.
        extend(&self.terms, host, client.lease)
            .await
            .map_err(|error| HostError::Failed(error.to_string()))?;
        link.attach(host, client, &self.terms)
            .await
            .map_err(translated)?;
        Ok(Held::Again)
    }

    /// Forgets a connection, and says so if this session was attached over it.
    pub(super) fn unlink(&mut self, host: &InstanceId) {
        if let Some(mut link) = self.links.remove(host) {
            self.report_loss(&mut link);
        }
    }

    /// The host knows this session no longer.
    pub(super) fn is_forgotten(&mut self, host: &InstanceId) {
        if let Some(mut link) = self.links.remove(host) {
            self.report_loss(&mut link);
            self.links.insert(host.clone(), link);
        }
    }

    fn report_loss(&self, link: &mut Link) {
        // One that ended by itself has told of that.
        if link.lease.take().is_some_and(|lease| lease.is_held()) {
            // Whoever hears no news any more needs no lease.
            let _ = self.terms.news.send(News::Lost);
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

    /// Whether a client's line is this session's.
    pub(crate) fn is_own(&self, line: &str) -> bool {
        !self.session().is_empty() && session_of(line) == self.session()
    }

    /// Is attached to a host no longer; the connection stays.
    pub(crate) fn let_go(&mut self, host: &InstanceId) {
        if let Some(link) = self.links.get_mut(host) {
            link.lease = None;
        }
    }

    /// How this session is to be attached to a host from now on.
    pub(super) fn attachment(
        &self,
        role: Role,
        session: &SessionId,
        owner: &str,
        lease: Duration,
    ) -> Attachment {
        let line = format!("{session} {} {owner}", self.terms.clock.now());
        Attachment { role, line, lease }
    }

    /// This session, as its hosts know it; empty before it has claimed one.
    pub(crate) fn session(&self) -> &str {
        self.client
            .as_ref()
            .map_or("", |client| session_of(&client.line))
    }
}
