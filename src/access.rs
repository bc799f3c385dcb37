//! The drive's hosts over SSH: [`Hosts`] carried out by the scripts in `shell/host/`.
//!
//! Each host has one connection for commands, kept while it lives. The client lock is a channel of
//! it, so that the lock is free as soon as this process or its connection is gone. A host without
//! an answer, or with one that cannot be parsed, is `Unreachable`: this module never guesses what a
//! host did.

mod arrival;
mod attached;
mod client_line;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub(crate) mod ingress;
pub(crate) mod lease;
mod login;
mod own_key;
mod purpose;
mod target;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::timeout;

use crate::drive::{
    Client, Contact, HostError, HostView, Hosts, NoAnswer, Prepared, RECORD_LIFE, Subnets, mount,
};
use crate::ec2::Instance;
use crate::host::boot::{self, BootOrder, Watch};
use crate::host::room::Room;
use crate::host::scripts::Host;
use crate::host::{CloseReport, Closed, EarlySibling, HostState, MountOrder, MountedDrive, Role};
use crate::ids::{Generation, InstanceId, SessionId, Uuid, VolumeId};
use crate::ssh::{HostKey, Ssh, UserKey};

pub(crate) use arrival::Ready;
use arrival::{Arrival, Coming};
pub(crate) use attached::Reattached;
use attached::{Attachment, Link};
pub(crate) use client_line::by_ssh;
use client_line::{is_by_ssh, no_answer, parse_other, session_of, translated};
use ingress::Ingress;
use lease::LeaseContext;
use login::{ANSWER, LATE, Login, Refusal};
use purpose::Purpose;

/// How long a new host waits for its first client: longer than any boot.
const FIRST_SIGN: Duration = Duration::from_mins(30);

/// The hosts of one session.
pub(crate) struct SshHosts {
    login: Login,
    context: LeaseContext,
    /// The session's attachment to hosts, once it has claimed one.
    client: Option<Attachment>,
    /// The session's arrival at a host that runs already, once one is known.
    coming: Option<Coming>,
    links: BTreeMap<InstanceId, Link>,
    /// Why hosts did not answer the last request.
    silent: BTreeMap<InstanceId, NoAnswer>,
    mounted: Option<MountedDrive>,
    /// The drive's free room, from the host that answered last.
    room: Option<Room>,
    /// The terminal of an earlier session on the host of a mounted drive.
    terminal: Option<String>,
    closed: Option<CloseReport>,
}

impl SshHosts {
    pub(crate) fn new(key: UserKey, ingress: Ingress, context: LeaseContext) -> Self {
        Self {
            login: Login::new(key, ingress, context.ec2.clone(), context.clock.clone()),
            context,
            client: None,
            coming: None,
            links: BTreeMap::new(),
            silent: BTreeMap::new(),
            mounted: None,
            room: None,
            terminal: None,
            closed: None,
        }
    }

    /// The ingress of hosts and launches.
    pub(crate) fn ingress(&mut self) -> &mut Ingress {
        self.login.ingress()
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

    /// The result of the last close, if there was one.
    pub(crate) fn closed(&self) -> Option<&CloseReport> {
        self.closed.as_ref()
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
        if !self.links.contains_key(&host.id) {
            self.connect(host, true).await?;
        }
        let (ssh, scripts) = self.reach(host).await?;
        let link = self.links.get_mut(&host.id);
        let files = link.and_then(|link| link.files.take());
        Ok((ssh, scripts, files))
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
            self.unlink(&host.id);
        }
        self.connect(host, false).await
    }

    /// Asks for the state over a new connection; with another one for files beside it, if `files`.
    async fn connect(
        &mut self,
        host: &Instance,
        files: bool,
    ) -> Result<(Host, HostState), Refusal> {
        // A session that was attached before does not arrive: it reconnects.
        let coming = self.coming.as_ref().filter(|_| self.client.is_none());
        let purpose = match coming {
            Some(coming) => Purpose::Arrival(&coming.arrival),
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
        let session = self.own_session().cloned();
        let is_own = |line: &str| {
            let session = session.as_ref();
            session.is_some_and(|session| session_of(line) == session.0)
        };
        if !contact.clients.iter().any(|(_, line)| is_own(line)) {
            // The host does not have this session's lock any more.
            self.drop_lease(host);
        }
        let client = self.client.as_ref();
        let holding = self.links.get(host).is_some_and(Link::is_held);
        let is_own = |line: &str| is_own(line) || client.is_some_and(|client| client.has(line));
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
            mounted: contact.mounted,
            unmounted: contact.whole,
        })
    }
}

impl Hosts for SshHosts {
    async fn prepare(&mut self, _session: &SessionId) -> Result<Prepared, HostError> {
        let failed = |error: &dyn std::fmt::Display| HostError::Failed(error.to_string());
        let groups = self.login.ingress().for_launch().await?;
        let host_key = HostKey::generate().map_err(|error| failed(&error))?;
        let user_data = boot::user_data(&BootOrder {
            host_private_key: host_key.private,
            host_public_key: host_key.public.clone(),
            authorized_keys: self.login.key().public().to_owned(),
            first_sign: FIRST_SIGN,
            watch: Watch::default(),
        })
        .map_err(|error| HostError::NoRoute {
            why: format!("{error:#}"),
            hint: "the longest part of it is this computer's public key, with its comment; xdrive \
                   makes a short one where it finds none (~/.config/xdrive/id_ed25519)"
                .to_owned(),
        })?;
        Ok(Prepared {
            user_data,
            host_key: host_key.public,
            first_sign: FIRST_SIGN,
            groups,
        })
    }

    async fn subnets(&mut self) -> Result<Subnets, HostError> {
        self.login.ingress().subnets().await
    }

    fn forget_groups(&mut self) {
        self.login.ingress().forget();
    }

    async fn contact(&mut self, host: &Instance) -> Contact {
        let looked = self.look(host).await;
        match looked.as_ref().err().and_then(no_answer) {
            Some(no_answer) => self.silent.insert(host.id.clone(), no_answer),
            None => self.silent.remove(&host.id),
        };
        match looked {
            Ok((_, contact)) => {
                self.room = contact.room;
                self.view(&host.id, contact)
            }
            Err(Refusal::Unreachable(_) | Refusal::ProxyFailed(_) | Refusal::OtherHostKey(_)) => {
                Contact::Unreachable
            }
            Err(Refusal::KeyRefused(_)) => Contact::KeyRefused,
        }
    }

    fn no_answer(&self, host: &InstanceId) -> Option<NoAnswer> {
        self.silent.get(host).cloned()
    }

    async fn claim(
        &mut self,
        host: &Instance,
        session: &SessionId,
        owner: &str,
        lease: Duration,
    ) -> Result<(), HostError> {
        let began = self.context.clock.boot();
        self.host(host).await?;
        if self.context.clock.boot().since(began) > RECORD_LIFE {
            return Err(HostError::Failed(
                "the host's lease was recorded too long ago".to_owned(),
            ));
        }
        if !self.claim_arrival(&host.id, lease) && !self.is_attached(&host.id) {
            let client = self.attachment(Role::Lead, session, owner, lease);
            match self.attach(&host.id, client.clone()).await {
                // A closing host takes no client any more, and needs none to be closed again.
                Ok(()) | Err(HostError::Closing(_)) => {}
                Err(error) => return Err(error),
            }
            self.client = Some(client);
        }
        Box::pin(self.renew_host_key(host)).await;
        Ok(())
    }

    async fn mount(&mut self, host: &Instance, order: &MountOrder) -> Result<Uuid, HostError> {
        let scripts = self.host(host).await?;
        let mounted = scripts.mount(order).await.map_err(translated)?;
        let uuid = mounted.uuid;
        self.mounted = Some(mounted);
        // An earlier close's result is another host's.
        self.closed = None;
        Ok(uuid)
    }

    async fn sync(&mut self, host: &Instance) -> Result<(), HostError> {
        let scripts = self.host(host).await?;
        scripts.sync().await.map_err(translated)
    }

    async fn close(&mut self, host: &Instance) -> Result<Closed, HostError> {
        let scripts = self.host(host).await?;
        let report = scripts.close("a session saves it").await;
        let report = report.map_err(translated)?;
        let closed = report.closed();
        self.closed = Some(report);
        closed.ok_or_else(|| {
            HostError::Failed(
                "the drive could be neither unmounted nor made read-only; the host powers off"
                    .to_owned(),
            )
        })
    }

    fn release(&mut self, host: &Instance) {
        self.links.remove(&host.id);
    }
}
