//! The arrival at a host that runs already: one request, right after the login, in place of the
//! several that a new host gets.
//!
//! An arrival is a guess from the lists: that the drive is mounted there, that no client is
//! attached, and that its container runs. The host checks that. The result becomes this session's
//! only with a claim, as on any host; until then the host's lease is unchanged, and what the
//! arrival began ends with its connection.

use std::time::Instant;

use super::attachment::Attachment;
use super::purpose::ArrivalRequest;
use crate::host::container::Container;
use crate::host::scripts::Arrived;
use crate::host::{ClientLock, EarlyConnection, HostState, MountedDrive};
use crate::ids::DriveName;

/// The order for this session's arrival at a running host.
pub(super) struct Coming {
    pub(super) arrival: ArrivalRequest,
    pub(super) client: Attachment,
}

impl Coming {
    /// Prepares the arrival of `client`. `shell` is the command of a shell in the container as it is,
    /// if one is asked for.
    pub(super) fn new(client: Attachment, drive: &DriveName, shell: Option<String>) -> Self {
        Self {
            arrival: ArrivalRequest {
                client: client.line.clone(),
                drive: drive.clone(),
                session: client.session.clone(),
                shell,
            },
            client,
        }
    }
}

/// The result of an arrival at one host.
#[derive(Default)]
pub(super) struct Arrival {
    pub(super) lock: Option<ClientLock>,
    pub(super) found: Option<Found>,
    pub(super) early: Option<EarlyConnection>,
    /// The host's state right before it attached this session, and its time. No other client has
    /// mounted, started or closed anything there since: the lock would have ended.
    pub(super) contact: Option<(Instant, HostState)>,
}

/// The findings on a host where the drive was left running.
pub(super) struct Found {
    pub(super) mounted: Option<MountedDrive>,
    pub(super) container: Option<Container>,
    pub(super) terminal: Option<String>,
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
