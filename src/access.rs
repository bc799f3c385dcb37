//! The drive's hosts over SSH: [`crate::drive::Hosts`] carried out by the scripts in `shell/host/`.
//!
//! Each host has one connection for commands, kept while it lives. The client lock is a channel of
//! it, so that the lock is free as soon as this process or its connection is gone. A host without
//! an answer, or with one that cannot be parsed, is `Unreachable`: this module never guesses what a
//! host did.

mod arrival;
mod attachment;
mod client_line;
mod elastic;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod hosts;
pub(crate) mod ingress;
pub(crate) mod lease;
mod links;
mod login;
mod own_key;
mod purpose;
mod target;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::time::timeout;

use crate::drive::{Client, Contact, HostError, HostView, Hosts as _, NoAnswer, lease_left, mount};
use crate::ec2::Instance;
use crate::host::room::Room;
use crate::host::scripts::Host;
use crate::host::{
    AtMount, CloseReport, EarlySibling, HostState, MountedDrive, Remaining, Role, closing,
};
use crate::ids::{DriveName, Generation, InstanceId, SessionId, VolumeId};
use crate::ssh::{Ssh, UserKey};

pub(crate) use arrival::Ready;
use arrival::{Arrival, Coming};
pub(crate) use client_line::by_ssh;
use client_line::{is_by_ssh, line, parse_other, session_of, translated};
pub(crate) use elastic::Elastic;
use ingress::Ingress;
use lease::{LeaseContext, extend};
pub(crate) use links::Reattached;
use links::{Link, Links};
use login::{ANSWER, LATE, Login, Refusal};
use purpose::Purpose;

/// The hosts of one session.
pub(crate) struct SshHosts {
    login: Login,
    links: Links,
    /// Why hosts did not answer the last request.
    silent: BTreeMap<InstanceId, NoAnswer>,
    mounted: Option<MountedDrive>,
    /// The drive's free room, from the host that answered last.
    room: Option<Room>,
    /// The terminal of an earlier session on the host of a mounted drive.
    terminal: Option<String>,
    closed: Option<CloseReport>,
    /// The order for what is frozen on the drive, at the next mount and at the last one.
    pub(crate) frozen: AtMount,
    /// Whether hosts fetch what the drive's sessions read at their start, and record that.
    pub(crate) hot: bool,
    /// The reason for which hosts are closed.
    closes_for: &'static str,
}

impl SshHosts {
    pub(crate) fn new(key: UserKey, ingress: Ingress, context: LeaseContext) -> Self {
        Self {
            login: Login::new(key, ingress, context.ec2.clone(), context.clock.clone()),
            links: Links::new(context),
            silent: BTreeMap::new(),
            mounted: None,
            room: None,
            terminal: None,
            closed: None,
            frozen: AtMount::Leave,
            hot: false,
            closes_for: closing::SAVE,
        }
    }

    /// Has a close freeze what may be frozen, or end it.
    pub(crate) fn freeze_at_close(&mut self, freezes: bool) {
        self.closes_for = if freezes {
            closing::PAUSE
        } else {
            closing::SAVE
        };
    }

    /// Has the hosts that this session claims close the drive once they were idle for so long, zero for
    /// never; none leaves that to others.
    pub(crate) fn set_idle(&mut self, idle: Option<Duration>) {
        self.links.set_idle(idle);
    }

    /// The ingress of hosts and launches.
    pub(crate) fn ingress(&mut self) -> &mut Ingress {
        self.login.ingress()
    }

    /// Has each host get this address before its login; none leaves it its own.
    pub(crate) fn set_elastic(&mut self, elastic: Option<Elastic>) {
        self.login.elastic = elastic;
    }

    /// The host at the address that it has got since it was listed.
    pub(crate) async fn locate(&self, host: &mut Instance) {
        if let Some(elastic) = &self.login.elastic {
            elastic.locate(host).await;
        }
    }

    /// The connection to a host that answered, and its scripts.
    pub(crate) fn link(&self, host: &InstanceId) -> Option<(&Ssh, &Host)> {
        self.links.get(host).map(|link| (&link.ssh, &link.host))
    }

    /// The result of the last mount, if there was one.
    pub(crate) fn mounted(&self) -> Option<&MountedDrive> {
        self.mounted.as_ref()
    }

    /// The drive's free room, if the host that answered last reported it.
    pub(crate) fn room(&self) -> Option<Room> {
        self.room
    }

    /// Finds the mounted drive, and the shell that was left, on a host where an earlier session
    /// mounted it; does nothing if this session mounted it. Changes nothing there.
    pub(crate) async fn find(
        &mut self,
        host: &Instance,
        volume: &VolumeId,
        generation: Generation,
    ) -> Result<(), HostError> {
        if self.mounted.is_some() {
            return Ok(());
        }
        let order = mount::order_for_mounted(volume, generation);
        self.mount(host, &order).await?;
        let scripts = self.host(host).await?;
        // Without an answer there is a new shell, and the old one stays.
        let left = scripts.left_terminals().await.unwrap_or_default();
        self.terminal = left.into_iter().find(|name| !name.contains(".."));
        Ok(())
    }

    /// The name of the terminal that an earlier session left in the main container, if there is one.
    pub(crate) fn terminal(&self) -> Option<&str> {
        self.terminal.as_deref()
    }

    /// Asks a host for its state.
    pub(crate) async fn ask(&mut self, host: &Instance) -> Result<HostState, HostError> {
        Ok(self.look(host).await?.1)
    }

    /// Why a host refused this laptop's key, if it did.
    pub(crate) fn key_refusal(&self, host: &InstanceId) -> Option<&str> {
        self.login.key_refusal(host)
    }

    /// From now on hosts are only read: no ingress rule and no key is authorized.
    pub(crate) fn only_look(&mut self) {
        self.login.only_looks = true;
    }

    /// The connection to `host` and its scripts, connecting if need be.
    pub(crate) async fn reach(&mut self, host: &Instance) -> Result<(Ssh, Host), HostError> {
        let scripts = self.host(host).await?;
        let lost = || HostError::Unreachable("the connection was lost".to_owned());
        let (ssh, _) = self.link(&host.id).ok_or_else(lost)?;
        Ok((ssh.clone(), scripts))
    }

    /// As [`SshHosts::reach`], with the connection for files that is opened at the same time, if there
    /// was none to the host before: one login does not wait for the other.
    pub(crate) async fn reach_for_files(
        &mut self,
        host: &Instance,
    ) -> Result<(Ssh, Host, Option<EarlySibling>), HostError> {
        if self.links.get(&host.id).is_none() {
            self.connect(host, true).await?;
        }
        let (ssh, scripts) = self.reach(host).await?;
        let link = self.links.get_mut(&host.id);
        let files = link.and_then(|link| link.files.take());
        Ok((ssh, scripts, files))
    }

    /// Prepares this session's arrival, as the lead, at a host that runs already. `shell` is the
    /// command of a shell in the container as it is, if one is asked for.
    pub(crate) fn will_arrive(
        &mut self,
        session: &SessionId,
        caller: &str,
        lease: Duration,
        drive: &DriveName,
        shell: Option<String>,
    ) {
        let client = self.links.attachment(Role::Lead, session, caller, lease);
        self.links.will_arrive(Coming::new(client, drive, shell));
    }

    /// The parts that were ready on arrival, once.
    pub(crate) fn take_ready(&mut self, host: &InstanceId) -> Ready {
        self.links.take_ready(host)
    }

    /// Connects again to a host whose connection was lost, and attaches this session to it again. One
    /// that was never attached only looks, which it may while the host closes.
    pub(crate) async fn reconnect(&mut self, host: &Instance) -> Result<(Ssh, Host), HostError> {
        let (_, contact) = self.look(host).await?;
        let Some(client) = self.links.client().cloned() else {
            return self.reach(host).await;
        };
        if let Some(reason) = contact.closing {
            return Err(HostError::Closing(reason));
        }
        // First the record, then the host.
        extend(self.links.context(), &host.id, client.lease)
            .await
            .map_err(|error| HostError::Unreachable(error.to_string()))?;
        self.links.attach(&host.id, client).await?;
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
        let context = self.links.context();
        let recorded = context.clock.boot();
        // Never to an earlier end: a run may have a longer lease.
        let until = extend(context, &host.id, keep).await?;
        // The laptop may sleep in between: no host runs longer than the record allows.
        let spent = context.clock.boot().since(recorded);
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
        let client = self.links.client();
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
            self.links.unlink(&host.id);
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
        caller: &str,
        lease: Duration,
    ) -> Result<(), HostError> {
        self.host(host).await?;
        let client = self.links.attachment(Role::Guest, session, caller, lease);
        self.links
            .record_and_attach(&host.id, client.clone())
            .await?;
        self.links.set_client(client);
        Ok(())
    }

    /// Attaches this session, in its role, to a host that has dropped it, over the existing
    /// connection; [`SshHosts::reconnect`] does over a new one.
    pub(crate) async fn reattach(&mut self, host: &InstanceId) -> Result<Reattached, HostError> {
        self.links.reattach(host).await
    }

    /// Changes how long the host runs on without a sign of life from this session: from the next
    /// renewal on, which follows at once.
    pub(crate) fn change_lease(&mut self, host: &InstanceId, lease: Duration) {
        self.links.change_lease(host, lease);
    }

    /// Whether this session is attached to a host.
    pub(crate) fn is_attached(&self, host: &InstanceId) -> bool {
        self.links.is_attached(host)
    }

    /// Whether this session leads on a host.
    pub(crate) fn leads(&self, host: &InstanceId) -> bool {
        self.is_attached(host) && self.links.has_role(Role::Lead)
    }

    /// Whether this session has joined another one.
    pub(crate) fn is_guest(&self) -> bool {
        self.links.has_role(Role::Guest)
    }

    /// Whether a client's line is this session's, or its command's.
    pub(crate) fn is_own(&self, line: &str) -> bool {
        self.links.is_own(line)
    }

    /// Makes the client of a command this session's own: it is no reason not to save.
    pub(crate) fn adopt_command(&mut self, command: SessionId) {
        self.links.add_command(command);
    }

    /// Detaches from a host; the connection stays.
    pub(crate) fn detach(&mut self, host: &InstanceId) {
        self.links.detach(host);
    }

    /// The line of another client of this `caller`.
    pub(crate) fn line_of(&self, client: &SessionId, caller: &str) -> String {
        line(client, self.links.context().clock.now(), caller)
    }

    /// The scripts of `host`, connecting if need be.
    async fn host(&mut self, host: &Instance) -> Result<Host, HostError> {
        if let Some(link) = self.links.get(&host.id) {
            return Ok(link.host.clone());
        }
        Ok(self.look(host).await?.0)
    }

    /// Asks for the state over the existing connection, else over a new one. A connection over
    /// which this session is attached stays while it lives: it keeps the lease of a host that
    /// answers late.
    async fn look(&mut self, host: &Instance) -> Result<(Host, HostState), Refusal> {
        if let Some(link) = self.links.get_mut(&host.id) {
            if let Some(contact) = link.arrival_contact() {
                return Ok((link.host.clone(), contact));
            }
            let why = match timeout(ANSWER, link.host.look()).await {
                Ok(Ok(contact)) => return Ok((link.host.clone(), contact)),
                Ok(Err(error)) => error.to_string(),
                Err(_) => LATE.to_owned(),
            };
            if link.is_held() && !link.ssh.has_ended() {
                return Err(Refusal::Unreachable(why));
            }
            self.links.unlink(&host.id);
        }
        self.connect(host, false).await
    }

    /// Asks for the state over a new connection; with another one for files beside it, if `files`.
    async fn connect(
        &mut self,
        host: &Instance,
        files: bool,
    ) -> Result<(Host, HostState), Refusal> {
        let purpose = match self.links.arrival() {
            Some(arrival) => Purpose::Arrival(arrival),
            None if files => Purpose::Files,
            None => Purpose::Contact,
        };
        let made = self.login.enter(host, purpose).await?;
        let (scripts, contact) = (made.host.clone(), made.contact.clone());
        let link = Link {
            arrival: Arrival::from_parts(made.arrived, made.early, made.contact),
            ssh: made.ssh,
            host: made.host,
            lease: None,
            // A host that is to close has no time for it.
            has_launch_key: contact.launch_key
                && contact.closing.is_none()
                && contact.notice.is_none(),
            files: made.files,
        };
        self.links.insert(host.id.clone(), link);
        Ok((scripts, contact))
    }

    /// A host's state, in the drive's terms.
    fn view(&mut self, host: &InstanceId, contact: HostState) -> Contact {
        let session = self.links.session().cloned();
        let is_own = |line: &str| {
            let session = session.as_ref();
            session.is_some_and(|session| session_of(line) == session.0)
        };
        if !contact.clients.iter().any(|(_, line)| is_own(line)) {
            // The host does not have this session's lock any more.
            self.links.drop_lease(host);
        }
        let holding = self.links.is_attached(host);
        let is_own = |line: &str| is_own(line) || self.links.is_own(line);
        let others = || contact.clients.iter().filter(|(_, line)| !is_own(line));
        let guests = others().filter(|(role, _)| *role == Role::Guest).count();
        let client = match &contact.attached {
            Some(line) if is_own(line) && holding => Client::Me,
            Some(line) if !is_own(line) => parse_other(line),
            // This session's own lock, over a connection that is lost: a claim replaces it. Guests
            // that joined it go on without it.
            _ => match others().find(|(_, line)| !is_by_ssh(line)) {
                Some((_, line)) if !contact.attached.as_deref().is_some_and(is_own) => {
                    parse_other(line)
                }
                _ => Client::Nobody,
            },
        };
        Contact::Reached(HostView {
            client,
            guests: u32::try_from(guests).unwrap_or(u32::MAX),
            closing: contact.closing.is_some(),
            noticed: contact.notice.is_some(),
            mounted: contact.mounted,
            unmounted: contact.whole,
        })
    }
}
