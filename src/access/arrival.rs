//! Coming to a host that runs already: what must be asked there one after the other on a new one is
//! asked at once, as soon as it lets this laptop in.
//!
//! It is a guess from the lists: that the drive is mounted there, that nobody has it, and that its
//! container runs. The host decides whether it is so. What it did then is this session's only once
//! that has claimed the host, as any other; until then the host's lease is as it was, and whatever
//! was begun ends with its connection.

use std::time::{Duration, Instant};

use super::SshHosts;
use super::attached::{Attachment, Link};
use super::client_line::session_of;
use super::lease::Lease;
use super::login;
use super::login::ANSWER;
use crate::drive::SessionId;
use crate::ec2::InstanceId;
use crate::host::EarlyConnection;
use crate::host::container::{self, Container};
use crate::host::scripts::{Arrived, ClientLock, Contact, Mounted, Role};

/// How this session comes to a host that runs.
pub(super) struct Coming {
    pub(super) arrival: login::Arrival,
    client: Attachment,
}

/// What came of it on one host.
#[derive(Default)]
pub(super) struct Arrival {
    hold: Option<ClientLock>,
    found: Option<Found>,
    early: Option<EarlyConnection>,
    /// What the host said right before it attached this session, and when that was. Nobody else has
    /// mounted, started or closed anything there since: the hold would have told of it.
    said: Option<(Instant, Contact)>,
}

/// What there is where the drive was left running.
struct Found {
    mounted: Option<Mounted>,
    container: Option<Container>,
    terminal: Option<String>,
}

/// What there is to be in, as far as that is known without asking again.
#[derive(Default)]
pub(crate) struct Ready {
    /// The container, if it runs as it should with the drive's own image.
    pub(crate) container: Option<Container>,
    /// The line that is on its way there.
    pub(crate) early: Option<EarlyConnection>,
}

impl Arrival {
    pub(super) fn of(
        arrived: Option<Arrived>,
        early: Option<EarlyConnection>,
        contact: Contact,
    ) -> Self {
        let Some(arrived) = arrived else {
            return Self {
                early,
                ..Self::default()
            };
        };
        let Arrived {
            hold,
            mounted,
            container,
            terminal,
        } = arrived;
        Self {
            hold: Some(hold),
            found: Some(Found {
                mounted,
                container,
                terminal,
            }),
            early,
            said: Some((Instant::now(), contact)),
        }
    }
}

impl Link {
    /// What the host said on arrival, once, to whoever has claimed it since: no older than an
    /// answer may be late.
    pub(super) fn arrival_contact(&mut self) -> Option<Contact> {
        if !self.is_held() {
            return None;
        }
        let (at, contact) = self.arrival.said.take()?;
        (at.elapsed() < ANSWER).then_some(contact)
    }
}

impl SshHosts {
    /// Comes to a host that runs already as one who is to lead there. `shell` is the value of
    /// `TERM` for a shell, if there is to be one in the container as it is.
    pub(crate) fn comes(
        &mut self,
        (session, owner): (&SessionId, &str),
        lease: Duration,
        drive: &str,
        shell: Option<&str>,
    ) {
        let client = self.attachment(Role::Lead, session, owner, lease);
        self.coming = Some(Coming {
            arrival: login::Arrival {
                client: client.line.clone(),
                drive: drive.to_owned(),
                session: session.to_string(),
                shell: shell.map(|term| container::shell_of(drive, term)),
            },
            client,
        });
    }

    /// This session, as a host knows it that it has come to.
    pub(super) fn own_session(&self) -> &str {
        let coming = self.coming.as_ref();
        match self.session() {
            "" => coming.map_or("", |coming| session_of(&coming.client.line)),
            session => session,
        }
    }

    /// Claims a host where this session has arrived: it is attached already, and its lease begins
    /// now. False if there was no arrival, or the hold is gone since.
    pub(super) fn has_arrived(&mut self, host: &InstanceId, lease: Duration) -> bool {
        let (Some(link), Some(coming)) = (self.links.get_mut(host), &self.coming) else {
            return false;
        };
        let Some(hold) = link.arrival.hold.take().filter(|hold| hold.refresh(lease)) else {
            return false;
        };
        link.lease = Some(Lease::keep(host.clone(), hold, lease, self.terms.clone()));
        let client = Attachment {
            lease,
            ..coming.client.clone()
        };
        if let Some((_, contact)) = &mut link.arrival.said {
            contact.attached = Some(client.line.clone());
            contact.clients = vec![(client.role, client.line.clone())];
        }
        self.client = Some(client);
        if let Some(found) = &mut link.arrival.found {
            // Without a limit to what waits to be written it is asked for again.
            let limited = |mounted: &Mounted| mounted.dirty_bytes.is_some();
            self.mounted = found.mounted.take().filter(limited);
            self.terminal = found.terminal.take();
        }
        true
    }

    /// What was found on arrival, once.
    pub(crate) fn take_ready(&mut self, host: &InstanceId) -> Ready {
        let Some(link) = self.links.get_mut(host) else {
            return Ready::default();
        };
        let found = link.arrival.found.take();
        Ready {
            container: found.and_then(|found| found.container),
            early: link.arrival.early.take(),
        }
    }
}
