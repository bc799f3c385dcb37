//! [`Hosts`]: the drive's calls to its hosts, by SSH and scripts, or simulated in tests.
//!
//! A host is a running instance. One client at a time has its client lock, which the system
//! releases with the client's connection, also when that client was killed. Only the client with
//! the lock mounts; that keeps two claims of one instance apart. `close` latches: a host that began
//! to close is never mounted on again. A host runs under a lease that its clients renew; when it
//! lapses the host closes and powers off.

use std::future::Future;
use std::time::Duration;

use crate::ec2::Instance;
use crate::host::{CloseReport, Closed, MountOrder, Mounted};
use crate::ids::{GroupId, InstanceId, SessionId, Uuid, VolumeId};

use super::host_error::HostError;
use super::subnets::Subnets;

/// The host's part of a launch order.
#[derive(Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Plain user data: boot script, authorized key, and the private half of the host key.
    pub user_data: Vec<u8>,
    /// The public half of the launch key, in OpenSSH's form, for the tag `xdrive:host-key`.
    pub host_key: String,
    /// How long after its boot a host without a client switches itself off.
    pub first_sign: Duration,
    /// The security groups that admit this laptop; empty where none is needed.
    pub groups: Vec<GroupId>,
}

/// Without the user data, which has a private key.
impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("host_key", &self.host_key)
            .field("groups", &self.groups)
            .finish_non_exhaustive()
    }
}

/// The client that has a host's lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// None: the host waits, or its client was killed.
    Nobody,
    /// The client of this process.
    Me,
    /// The client of another live xdrive.
    Other {
        /// The ARN of the other caller, as it gave it to the host; for a person to read.
        owner: String,
        /// Since when, as the host reports (RFC 3339); for a person to read.
        since: String,
    },
}

/// The state of a host, as this session sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostView {
    /// The client that has its lock.
    pub client: Client,
    /// How many other clients have joined that one.
    pub guests: u32,
    /// Whether a close has begun, which is final.
    pub closing: bool,
    /// Whether EC2 has given it notice.
    pub noticed: bool,
    /// The volumes that are mounted.
    pub mounted: Mounted,
    /// The volume that it unmounted when it closed. None if nothing was mounted since its system
    /// started: what was mounted before a restart may be left as by a power cut.
    pub unmounted: Option<VolumeId>,
}

/// The result of contacting a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Contact {
    /// Not asked: the instance is not running, or has no address yet, or the command asks no host.
    NotAsked,
    /// No answer, or none with the recorded key.
    Unreachable,
    /// The host answered with the recorded key, but refuses this laptop's key, and no other login
    /// works.
    KeyRefused,
    /// The host answered.
    Reached(HostView),
}

/// Why a host does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    /// The reason, in words.
    pub why: String,
    /// The state of the route to it.
    pub route: Route,
}

/// The route to a host that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The host may answer yet: it boots, or packets are dropped.
    Open,
    /// The proxy command ends by itself, which is normal before the host is up.
    Ends,
    /// The proxy command cannot be run: retrying does not help.
    Missing,
}

/// How long after it was recorded a lease may begin on its host. At a round trip of 300 ms that
/// takes a second or two; the next try uses a login that takes longer. After a sleep in between the
/// lease is recorded anew: a host may outlive the record only by a small part of
/// [`super::Timing::lease_margin`].
pub const RECORD_LIFE: Duration = Duration::from_secs(20);

/// The rest of a lease that was recorded `elapsed` ago, in whole seconds: it never ends after the
/// record, however long this computer slept in between. `None` if it is over.
#[must_use]
pub fn lease_left(lease: Duration, elapsed: Duration) -> Option<Duration> {
    let left = lease.saturating_sub(Duration::from_secs(elapsed.as_secs()));
    (!left.is_zero()).then_some(left)
}

/// The calls to a drive's hosts. All are idempotent: they are repeated after a lost answer.
pub trait Hosts {
    /// Makes the key pair and the user data of a host about to be launched, and its ingress rules.
    /// [`HostError::NoRoute`] if this laptop could not reach it.
    fn prepare(&mut self, session: &SessionId)
    -> impl Future<Output = Result<Prepared, HostError>>;

    /// The subnets whose instances this laptop reaches. Changes nothing; by default none is known.
    fn subnets(&mut self) -> impl Future<Output = Result<Subnets, HostError>> {
        std::future::ready(Ok(Subnets::default()))
    }

    /// Forgets the groups of the last [`Hosts::prepare`], which are gone: the next one makes them
    /// anew. (A cleanup may have found them unused right before the launch.)
    fn forget_groups(&mut self) {}

    /// Whether what is frozen on the drive is removed at its next mount.
    fn forgets(&self) -> bool {
        false
    }

    /// The bytes that have come from hosts to this computer.
    fn received(&self) -> u64 {
        0
    }

    /// Asks a running host for its state: about three seconds where nothing answers, 23 where the
    /// answer is slow. Changes nothing there, except that a leading session may take the client
    /// lock already, if it is free, for as long as it lives.
    fn contact(&mut self, host: &Instance) -> impl Future<Output = Contact>;

    /// Why a host did not answer when it was last contacted, if that is known.
    fn no_answer(&self, _host: &InstanceId) -> Option<NoAnswer> {
        None
    }

    /// Takes the host's client lock for this process and keeps it until [`Hosts::release`], the
    /// connection's end or the process's. Succeeds at once if this process has it already.
    /// [`HostError::Busy`] if another has it. A closing host can still be claimed. The host closes
    /// and powers off when no client has renewed its lease for as long as `lease`; the caller has
    /// recorded the end of that no longer than [`RECORD_LIFE`] ago.
    fn claim(
        &mut self,
        host: &Instance,
        session: &SessionId,
        caller: &str,
        lease: Duration,
    ) -> impl Future<Output = Result<(), HostError>>;

    /// Mounts a volume that is attached or attaching; waits some seconds for its device. Success if
    /// it is mounted already. Returns the file system's UUID.
    fn mount(
        &mut self,
        host: &Instance,
        order: &MountOrder,
    ) -> impl Future<Output = Result<Uuid, HostError>>;

    /// Syncs the mounted drive to the volume, while the drive stays in use.
    fn sync(&mut self, host: &Instance) -> impl Future<Output = Result<(), HostError>>;

    /// Closes: latches, commits, stops, unmounts. Succeeds at once on a closed host.
    fn close(&mut self, host: &Instance) -> impl Future<Output = Result<Closed, HostError>>;

    /// The report of the last close, if there was one.
    fn closed(&self) -> Option<&CloseReport> {
        None
    }

    /// Releases a host that is being terminated, or that another session has.
    fn release(&mut self, host: &Instance);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_never_lives_longer_than_the_record_says() {
        let lease = Duration::from_mins(15);
        let left = |spent| lease_left(lease, spent);
        assert_eq!(left(Duration::from_millis(900)), Some(lease));
        assert_eq!(left(Duration::from_mins(10)), Some(Duration::from_mins(5)));
        assert_eq!(left(lease), None);
        assert_eq!(left(Duration::from_hours(8)), None);
    }
}
