//! The drive's hosts over SSH: [`Hosts`] carried out by the scripts in `shell/host/`.
//!
//! One connection a host for commands, kept while it lives; the client lock is a channel of it, so
//! the lock is free as soon as this process or its connection is gone, however that came. Every
//! answer that is not an answer is `Unreachable`: this module never guesses what a host did.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::timeout;

use crate::drive::{
    Client, Closed, Contact, Generation, HostError, HostView, Hosts, MountOrder, Mounted, Prepared,
    SessionId, Uuid, superblock, tags,
};
use crate::ec2::{Instance, InstanceId, VolumeId};
use crate::host::boot::{self, BootOrder, Watch};
use crate::host::facts::{self, Oddity};
use crate::host::scripts::{self, HoldOrder, Host, Role};
use crate::host::{HostKey, Ssh, Target, UserKey};

use super::lease::{Lease, Terms};

/// A host that has not answered by then does not answer now.
const ANSWER: Duration = Duration::from_secs(3);

/// How long the attached volume may take to appear inside (AWS: under a second, mostly).
const DEVICE: Duration = Duration::from_secs(30);

/// A client that was killed holds its host until sshd has noticed: another one is believed only
/// when it has been seen for this often and long, two seconds in all.
const LEAVING_TRIES: u32 = 10;
const LEAVING: Duration = Duration::from_millis(200);

/// How long a new host waits for its first client: longer than any boot takes.
const FIRST_SIGN: Duration = Duration::from_mins(30);

/// Where xdrive logs in: the boot script lets its key in as root on every distribution.
const PORT: u16 = 22;
const USER: &str = "root";

/// The hosts of one session.
pub(super) struct SshHosts {
    key: UserKey,
    terms: Terms,
    /// How this session's leases are asked for, once it has claimed a host.
    client: Option<Attachment>,
    /// Another client, seen for long enough to be believed.
    other: Option<String>,
    links: BTreeMap<InstanceId, Link>,
    mounted: Option<scripts::Mounted>,
    /// The terminal that was left behind where this session came to a mounted drive.
    terminal: Option<String>,
    closed: Option<scripts::Closed>,
}

/// A host that answered.
struct Link {
    ssh: Ssh,
    host: Host,
    lease: Option<Lease>,
}

/// How this session is attached to its hosts.
#[derive(Debug, Clone)]
struct Attachment {
    /// What tells it from others, and people who it is: session, time, owner.
    line: String,
    /// How long a host lives without a sign of life of it.
    lease: Duration,
}

impl Link {
    /// Attaches this session, and keeps the lease from then on.
    async fn attach(
        &mut self,
        host: &InstanceId,
        client: Attachment,
        terms: &Terms,
    ) -> Result<(), facts::HostError> {
        let order = HoldOrder {
            client: &client.line,
            role: Role::Lead,
            lease: client.lease,
        };
        let hold = self.host.hold(&order).await?;
        let (host, terms) = (host.clone(), terms.clone());
        self.lease = Some(Lease::keep(host, hold, client.lease, terms));
        Ok(())
    }

    fn is_held(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_held)
    }
}

impl SshHosts {
    pub(super) fn new(key: UserKey, terms: Terms) -> Self {
        Self {
            key,
            terms,
            client: None,
            other: None,
            links: BTreeMap::new(),
            mounted: None,
            terminal: None,
            closed: None,
        }
    }

    /// The connection to a host that answered, and its scripts.
    pub(super) fn link(&self, host: &InstanceId) -> Option<(&Ssh, &Host)> {
        self.links.get(host).map(|link| (&link.ssh, &link.host))
    }

    /// What the last mount found, once there was one.
    pub(super) fn mounted(&self) -> Option<&scripts::Mounted> {
        self.mounted.as_ref()
    }

    /// Finds out what is mounted, and which shell goes on, on a host that another session mounted
    /// and left behind; nothing if this session mounted it itself. Changes nothing there: the drive is mounted already.
    pub(super) async fn join(
        &mut self,
        host: &Instance,
        volume: &VolumeId,
        generation: Generation,
    ) -> Result<(), HostError> {
        if self.mounted.is_some() {
            return Ok(());
        }
        let order = MountOrder {
            volume: volume.clone(),
            generation,
            format: false,
            uuid: None,
        };
        self.mount(host, &order).await?;
        let scripts = self.host(host).await?;
        let left = scripts.left_terminals().await.map_err(translated)?;
        self.terminal = left.into_iter().next();
        Ok(())
    }

    /// The name of the terminal for this session's shell: the one that somebody left behind on the
    /// host, if there is one, else one of its own.
    pub(super) fn terminal(&self) -> &str {
        self.terminal.as_deref().unwrap_or(self.session())
    }

    /// Connects again to a host whose connection was lost, and attaches this session to it again.
    pub(super) async fn back(&mut self, host: &Instance) -> Result<(Ssh, Host), HostError> {
        let (_, contact) = self.look(host).await?;
        if let Some(reason) = contact.closing {
            return Err(HostError::Closing(reason));
        }
        let unreachable = || HostError::Unreachable("this session never held it".to_owned());
        let client = self.client.clone().ok_or_else(unreachable)?;
        let link = self.links.get_mut(&host.id).ok_or_else(unreachable)?;
        link.attach(&host.id, client, &self.terms)
            .await
            .map_err(translated)?;
        Ok((link.ssh.clone(), link.host.clone()))
    }

    /// Lets go of a host that goes on for as long as `keep`, and says until when that is.
    pub(super) async fn leave(
        &mut self,
        host: &Instance,
        keep: Duration,
    ) -> anyhow::Result<Timestamp> {
        let scripts = self.host(host).await?;
        // Nobody renews it any more: what is said now is the last word.
        if let Some(link) = self.links.get_mut(&host.id) {
            link.lease = None;
        }
        let until = self.terms.clock.now() + keep;
        let tags = tags::lease(until);
        self.terms.ec2.tag(host.id.as_str(), &tags).await?;
        scripts.lease(keep).await?;
        self.links.remove(&host.id);
        Ok(until)
    }

    /// This session, as its hosts know it; empty before it has claimed one.
    fn session(&self) -> &str {
        self.client
            .as_ref()
            .map_or("", |client| session_of(&client.line))
    }

    /// What the last close did, once there was one.
    pub(super) fn closed(&self) -> Option<&scripts::Closed> {
        self.closed.as_ref()
    }

    /// The scripts of `host`, connecting if need be.
    async fn host(&mut self, host: &Instance) -> Result<Host, HostError> {
        if let Some(link) = self.links.get(&host.id) {
            return Ok(link.host.clone());
        }
        self.look(host).await.map(|(host, _)| host)
    }

    /// Asks over the connection there is, else over a new one.
    async fn look(&mut self, host: &Instance) -> Result<(Host, scripts::Contact), HostError> {
        let unreachable = |why: &str| HostError::Unreachable(why.to_owned());
        if let Some(link) = self.links.get(&host.id) {
            match timeout(ANSWER, link.host.look()).await {
                Ok(Ok(contact)) => return Ok((link.host.clone(), contact)),
                // The connection is of no use any more, and with it the client lock is lost.
                Ok(Err(_)) | Err(_) => drop(self.links.remove(&host.id)),
            }
        }
        let address = host
            .address
            .ok_or_else(|| unreachable("it has no address"))?;
        let target = Target {
            address: SocketAddr::new(address, PORT),
            user: USER.to_owned(),
            host_key: host
                .tags
                .get(tags::HOST_KEY)
                .ok_or_else(|| unreachable("it has no recorded host key"))?
                .clone(),
        };
        let attempt = async {
            let ssh = Ssh::connect(&target, self.key.private())
                .await
                .map_err(|error| HostError::Unreachable(error.to_string()))?;
            let (scripts, contact) = Host::contact(ssh.clone()).await.map_err(translated)?;
            Ok((ssh, scripts, contact))
        };
        let (ssh, scripts, contact) = timeout(ANSWER, attempt)
            .await
            .map_err(|_| unreachable("it did not answer in time"))??;
        let link = Link {
            ssh,
            host: scripts.clone(),
            lease: None,
        };
        self.links.insert(host.id.clone(), link);
        Ok((scripts, contact))
    }

    /// What a host says, in the drive's words.
    fn view(&mut self, host: &InstanceId, contact: scripts::Contact) -> Contact {
        let session = self.session().to_owned();
        let is_own = |line: &str| !session.is_empty() && session_of(line) == session;
        if let Some(known) = self.links.get_mut(host)
            && !contact.clients.iter().any(|(_, line)| is_own(line))
        {
            // A hold that the host knows nothing of is none any more.
            known.lease = None;
        }
        let holding = self.links.get(host).is_some_and(Link::is_held);
        let others = || contact.clients.iter().filter(|(_, line)| !is_own(line));
        let guests = others().filter(|(role, _)| *role == Role::Guest).count();
        let client = match &contact.attached {
            Some(line) if is_own(line) && holding => Client::Me,
            Some(line) if !is_own(line) => other(line),
            // This session's own hold, over a connection that is lost: a claim takes it over. Those
            // who joined it go on without it.
            _ => match others().next() {
                Some((_, line)) if !contact.attached.as_deref().is_some_and(is_own) => other(line),
                _ => Client::Nobody,
            },
        };
        let mounted = match contact.volume.map(|volume| volume.volume.parse()) {
            None => Mounted::Nothing,
            Some(Ok(volume)) if contact.frozen => Mounted::Frozen(volume),
            Some(Ok(volume)) => Mounted::Volume(volume),
            // A host whose record cannot be read is not understood: as good as no answer.
            Some(Err(_)) => return Contact::Unreachable,
        };
        Contact::Reached(HostView {
            client,
            guests: u32::try_from(guests).unwrap_or(u32::MAX),
            closing: contact.closing.is_some(),
            mounted,
        })
    }
}

impl Hosts for SshHosts {
    async fn prepare(&mut self, _session: &SessionId) -> Result<Prepared, HostError> {
        let failed = |error: &dyn std::fmt::Display| HostError::Failed(error.to_string());
        let host_key = HostKey::generate().map_err(|error| failed(&error))?;
        let user_data = boot::user_data(&BootOrder {
            host_private_key: host_key.private,
            host_public_key: host_key.public.clone(),
            authorized_keys: self.key.public().to_owned(),
            first_sign: FIRST_SIGN,
            watch: Watch::default(),
        })
        .map_err(|error| failed(&format_args!("{error:#}")))?;
        Ok(Prepared {
            user_data,
            host_key: host_key.public,
            first_sign: FIRST_SIGN,
        })
    }

    async fn contact(&mut self, host: &Instance) -> Contact {
        let mut tries = LEAVING_TRIES;
        loop {
            let Ok((_, contact)) = self.look(host).await else {
                return Contact::Unreachable;
            };
            let attached = contact.attached.clone();
            let view = self.view(&host.id, contact);
            let Contact::Reached(HostView {
                client: Client::Other { .. },
                ..
            }) = view
            else {
                return view;
            };
            if tries == 0 || attached == self.other {
                self.other = attached;
                return view;
            }
            tries -= 1;
            tokio::time::sleep(LEAVING).await;
        }
    }

    async fn claim(
        &mut self,
        host: &Instance,
        session: &SessionId,
        owner: &str,
        lease: Duration,
    ) -> Result<(), HostError> {
        self.host(host).await?;
        let link = self.links.get_mut(&host.id);
        let Some(link) = link.filter(|link| !link.is_held()) else {
            return Ok(());
        };
        let client = Attachment {
            line: format!("{session} {} {owner}", self.terms.clock.now()),
            lease,
        };
        match link.attach(&host.id, client.clone(), &self.terms).await {
            // A closing host takes no client any more, and needs none to be closed again.
            Ok(()) | Err(facts::HostError::Closing(_)) => {}
            Err(error) => return Err(translated(error)),
        }
        self.client = Some(client);
        Ok(())
    }

    async fn mount(&mut self, host: &Instance, order: &MountOrder) -> Result<Uuid, HostError> {
        let scripts = self.host(host).await?;
        let mounted = scripts
            .mount(&scripts::MountOrder {
                volume: order.volume.to_string(),
                generation: order.generation.0,
                blank: order.format,
                uuid: order.uuid.map(|uuid| uuid.to_string()),
                device: None,
                wait: DEVICE,
                dirty_bytes: None,
            })
            .await
            .map_err(translated)?;
        let uuid = mounted.uuid.parse();
        self.mounted = Some(mounted);
        uuid.map_err(|error: superblock::InvalidUuid| HostError::Failed(error.to_string()))
    }

    async fn sync(&mut self, host: &Instance) -> Result<(), HostError> {
        let scripts = self.host(host).await?;
        scripts.sync().await.map_err(translated)
    }

    async fn close(&mut self, host: &Instance) -> Result<Closed, HostError> {
        let scripts = self.host(host).await?;
        let closed = scripts
            .close("the session ended")
            .await
            .map_err(translated)?;
        let how = match (closed.unmounted, closed.frozen) {
            (true, _) => Ok(Closed::Unmounted),
            (false, true) => Ok(Closed::Frozen),
            (false, false) => Err(HostError::Failed(
                "the drive could be neither unmounted nor made read-only; the host powers off"
                    .to_owned(),
            )),
        };
        self.closed = Some(closed);
        how
    }

    fn release(&mut self, host: &Instance) {
        self.links.remove(&host.id);
    }
}

/// Another client, from its line.
fn other(line: &str) -> Client {
    let (owner, since) = told(line);
    Client::Other { owner, since }
}

/// The session out of a client's line.
fn session_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
}

/// Owner and time out of a client's line.
fn told(line: &str) -> (String, String) {
    let mut words = line.splitn(3, ' ').skip(1);
    let since = words.next().unwrap_or("an unknown time");
    // To the second: nobody reads more.
    let since = since
        .parse::<jiff::Timestamp>()
        .map_or_else(|_| since.to_owned(), |time| format!("{time:.0}"));
    let owner = words.next().unwrap_or(line).to_owned();
    (owner, since)
}

/// What a script said, in the drive's words.
fn translated(error: facts::HostError) -> HostError {
    match error {
        facts::HostError::Ssh(error) => HostError::Unreachable(error.to_string()),
        facts::HostError::Closing(reason) => HostError::Closing(reason),
        facts::HostError::Busy {
            owner: Some(line), ..
        } => {
            let (owner, since) = told(&line);
            HostError::Busy { owner, since }
        }
        facts::HostError::Odd {
            oddity: Oddity::HalfMade,
            words,
        } => HostError::Garbled(words),
        facts::HostError::Odd { words, .. } => HostError::Damaged(words),
        other => HostError::Failed(other.to_string()),
    }
}
