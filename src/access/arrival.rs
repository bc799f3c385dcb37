//! The arrival at a host that runs already: one request, right after the login, in place of the
//! several that a new host gets.
//!
//! An arrival is a guess from the lists: that the drive is mounted there, that no client is
//! attached, and that its container runs. The host checks that. The result becomes this session's
//! only with a claim, as on any host; until then the host's lease is unchanged, and what the
//! arrival began ends with its connection.

use std::time::{Duration, Instant};

use super::SshHosts;
use super::attached::{Attachment, Link};
use super::lease::Lease;
use super::login::ANSWER;
use super::purpose::ArrivalRequest;
use crate::host::container::Container;
use crate::host::scripts::Arrived;
use crate::host::{ClientLock, EarlyConnection, HostState, MountedDrive, Role};
use crate::ids::{DriveName, InstanceId, SessionId};

/// The order for this session's arrival at a running host.
pub(super) struct Coming {
    pub(super) arrival: ArrivalRequest,
    client: Attachment,
}

/// The result of an arrival at one host.
#[derive(Default)]
pub(super) struct Arrival {
    lock: Option<ClientLock>,
    found: Option<Found>,
    early: Option<EarlyConnection>,
    /// The host's state right before it attached this session, and its time. No other client has
    /// mounted, started or closed anything there since: the lock would have ended.
    contact: Option<(Instant, HostState)>,
}

/// The findings on a host where the drive was left running.
struct Found {
    mounted: Option<MountedDrive>,
    container: Option<Container>,
    terminal: Option<String>,
}

/// The parts of a host that are ready without another request.
#[derive(Default)]
pub(crate) struct Ready {
    /// The container, if it runs from the drive's own image.
    pub(crate) container: Option<Container>,
    /// The dedicated connection that is being opened.
    pub(crate) early: Option<EarlyConnection>,
}

impl Arrival {
    pub(super) fn from_parts(
        arrived: Option<Arrived>,
        early: Option<EarlyConnection>,
        contact: HostState,
    ) -> Self {
        let Some(arrived) = arrived else {
            return Self {
                early,
                ..Self::default()
            };
        };
        let Arrived {
            lock,
            mounted,
            container,
            terminal,
        } = arrived;
        Self {
            lock: Some(lock),
            found: Some(Found {
                mounted,
                container,
                terminal,
            }),
            early,
            contact: Some((Instant::now(), contact)),
        }
    }
}

impl Link {
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

impl SshHosts {
    /// Prepares this session's arrival, as the lead, at a host that runs already. `shell` is the
    /// command of a shell in the container as it is, if one is asked for.
    pub(crate) fn will_arrive(
        &mut self,
        (session, owner): (&SessionId, &str),
        lease: Duration,
        drive: &DriveName,
        shell: Option<String>,
    ) {
        let client = self.attachment(Role::Lead, session, owner, lease);
        self.coming = Some(Coming {
            arrival: ArrivalRequest {
                client: client.line.clone(),
                drive: drive.clone(),
                session: session.clone(),
                shell,
            },
            client,
        });
    }

    /// The session's id, as a host knows it after an arrival or a claim.
    pub(super) fn own_session(&self) -> Option<&SessionId> {
        let coming = self.coming.as_ref();
        self.session()
            .or_else(|| coming.map(|coming| &coming.client.session))
    }

    /// Claims a host where this session has arrived and so is attached already; its lease begins
    /// now. False if there was no arrival, or its lock has ended since.
    pub(super) fn claim_arrival(&mut self, host: &InstanceId, lease: Duration) -> bool {
        let (Some(link), Some(coming)) = (self.links.get_mut(host), &self.coming) else {
            return false;
        };
        let Some(lock) = link.arrival.lock.take().filter(|lock| lock.refresh(lease)) else {
            return false;
        };
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
        if let Some(found) = &mut link.arrival.found {
            // Without a limit to the unwritten bytes it is mounted again.
            let limited = |mounted: &MountedDrive| mounted.dirty_bytes.is_some();
            self.mounted = found.mounted.take().filter(limited);
            self.terminal = found.terminal.take();
        }
        true
    }

    /// The parts that were ready on arrival, once.
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
