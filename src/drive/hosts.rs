//! What the drive asks of a host, whoever carries it out: SSH and scripts, or paper in tests.
//!
//! A host is a running instance. Exactly one client may hold it at a time: the first to take the
//! lock of its client file, which the system releases with the client's connection, also when
//! that client was killed. Without the lock nobody mounts there; that is what keeps two claims of
//! one instance apart. `close` latches: a host that began to close is never mounted on again. A
//! host lives under a lease that its clients renew; when it lapses the host closes and powers off.

use std::future::Future;
use std::time::Duration;

use crate::ec2::{self, GibiBytes, GroupId, Instance, InstanceId, VolumeId};

use super::name::{Generation, SessionId};
use super::subnets::Subnets;
use uuid::Uuid;

/// What a launch needs from the host's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Plain user data: boot script, authorized key, and the private half of the host key.
    pub user_data: Vec<u8>,
    /// The public half of the host key, in OpenSSH's form, for the tag `xdrive:host-key`.
    pub host_key: String,
    /// How long after its boot the host switches itself off if nobody takes it.
    pub first_sign: Duration,
    /// The security groups that let this laptop in; none where none is needed.
    pub groups: Vec<GroupId>,
}

/// Who holds a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// Nobody: the host waits, or its client was killed.
    Nobody,
    /// This process.
    Me,
    /// Another live xdrive.
    Other {
        /// Its caller's ARN, as far as the host was told; for a person to read.
        owner: String,
        /// Since when, in the host's words (RFC 3339); for a person to read.
        since: String,
    },
}

/// What is mounted at the drive's mountpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mounted {
    /// Nothing.
    Nothing,
    /// This volume, for writing.
    Volume(VolumeId),
    /// This volume still, but it is synced, read-only, and the host is powering off: what a close
    /// does when it cannot unmount by its deadline.
    Frozen(VolumeId),
}

/// What a host says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostView {
    /// Who holds it.
    pub client: Client,
    /// How many other clients have joined whoever holds it.
    pub guests: u32,
    /// Whether a close has begun (it is never taken back).
    pub closing: bool,
    /// What is mounted.
    pub mounted: Mounted,
    /// The volume that it unmounted when it closed. None if nothing was mounted since its system
    /// started: what was mounted before a restart may be left as by a power cut.
    pub unmounted: Option<VolumeId>,
}

/// What came of asking a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Contact {
    /// It was not asked: it is not running, or has no address yet.
    NotAsked,
    /// It did not answer, or not with the recorded key.
    Unreachable,
    /// It has the recorded key, so it is the host, but it does not let this laptop's key in, and
    /// the cloud gives no other way in.
    KeyRefused,
    /// It answered.
    Reached(HostView),
}

/// How to mount.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MountOrder {
    /// Which volume; the device is found by its serial, or else by [`super::observed::DEVICE`].
    pub volume: VolumeId,
    /// Its size, which a device that is found by its name must have; none if that is not known.
    pub size: Option<GibiBytes>,
    /// How much it takes in MiB a second, where that was asked for: the host lets no more wait to
    /// be written than a close has time for.
    pub throughput: Option<u32>,
    /// The generation it is mounted at; for the host's own record.
    pub generation: Generation,
    /// Whether the volume may be formatted if it reads as blank (P5: the record says that it was
    /// created empty, was attached just once, and nobody has ever used it). Reading as blank is
    /// for the host to check, right before.
    pub format: bool,
    /// The file system that is recorded: another one is not mounted.
    pub uuid: Option<Uuid>,
}

/// How a close ended. Either way the host may be terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Closed {
    /// The drive is unmounted.
    Unmounted,
    /// Nothing has been mounted since its system started. If something was before, it may be left
    /// as by a power cut.
    NotMounted,
    /// It could not be unmounted by its deadline: it is synced and read-only, and the host is
    /// powering off.
    Frozen,
}

/// Why a host did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Another client holds it.
    #[error("another xdrive is using the host: {owner}, since {since}")]
    Busy {
        /// As in [`Client::Other`].
        owner: String,
        /// As in [`Client::Other`].
        since: String,
    },
    /// It is closing; the text says why.
    #[error("the host is closing: {0}")]
    Closing(String),
    /// The connection failed; what was asked may or may not have been done.
    #[error("the host cannot be reached: {0}")]
    Unreachable(String),
    /// The volume is neither blank nor a file system, and this host has no record that a format
    /// of it ever ended: a format was killed half way.
    #[error("the volume is neither blank nor a file system: {0}")]
    Garbled(String),
    /// The volume's file system cannot be mounted, and may hold data.
    #[error("the drive's file system cannot be mounted: {0}")]
    Damaged(String),
    /// There is no way to it for this laptop, and trying again makes none.
    #[error("{why}")]
    NoRoute {
        /// Why.
        why: String,
        /// What to do about it.
        hint: String,
    },
    /// EC2 said no on the way to it, or did not answer.
    #[error(transparent)]
    Ec2(#[from] ec2::Error),
    /// It failed otherwise.
    #[error("{0}")]
    Failed(String),
}

/// Why a host does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    /// In words.
    pub why: String,
    /// How far the way there goes.
    pub way: Route,
}

/// The way to a host that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// It may answer yet: it boots, or something swallows what is sent.
    Open,
    /// What leads there ends by itself. Before the host is up that may be as it should.
    Ends,
    /// What leads there cannot be run at all: trying again makes no difference.
    Missing,
}

/// How long after it was recorded a lease may begin on its host: over a line of 300 ms that takes a
/// second or two, and a login that takes longer is there for the next try. Who slept in between,
/// records it anew: a host must not live longer than the record says by more than a small part of
/// [`super::Timing::lease_margin`].
pub const RECORD_LIFE: Duration = Duration::from_secs(20);

/// What a host is told of a lease whose end was recorded `spent` ago, in whole seconds: never a
/// longer life than the record says, however long this computer slept between the two. None if it
/// is over.
#[must_use]
pub fn lease_left(lease: Duration, spent: Duration) -> Option<Duration> {
    let left = lease.saturating_sub(Duration::from_secs(spent.as_secs()));
    (!left.is_zero()).then_some(left)
}

/// The host side of a session. All calls are idempotent: they are repeated after a lost answer.
pub trait Hosts {
    /// Makes a key pair for a host about to be launched, and its user data; and the way in.
    /// [`HostError::NoRoute`] if there is none: a host that nobody reaches is not launched.
    fn prepare(&mut self, session: &SessionId)
    -> impl Future<Output = Result<Prepared, HostError>>;

    /// In which subnets a launch would be reached from here. Changes nothing; none are known where
    /// nothing is to be found out about them.
    fn subnets(&mut self) -> impl Future<Output = Result<Subnets, HostError>> {
        std::future::ready(Ok(Subnets::default()))
    }

    /// The groups that the last [`Hosts::prepare`] named are not there any more: the next one finds
    /// out anew. (Whoever tidies up may have found them unused right before the launch.)
    fn forget_groups(&mut self) {}

    /// Asks a running host about itself. Answers within about three seconds where nothing does, and
    /// within 23 where something does and is slow. Changes nothing there but that a session which
    /// is to lead may have the client lock already, for as long as it lives, where nobody else has
    /// it.
    fn contact(&mut self, host: &Instance) -> impl Future<Output = Contact>;

    /// Why a host that was asked last did not answer, if that is known.
    fn no_answer(&self, _host: &InstanceId) -> Option<NoAnswer> {
        None
    }

    /// Takes the host's client lock for this process and keeps it until [`Hosts::release`], the
    /// connection's end or the process's. Succeeds at once if this process has it already.
    /// [`HostError::Busy`] if another has it. A closing host can still be claimed. The host closes
    /// and powers off when no client has renewed its lease for as long as `lease`. The
    /// end of that is recorded no longer than [`RECORD_LIFE`] ago.
    fn claim(
        &mut self,
        host: &Instance,
        session: &SessionId,
        owner: &str,
        lease: Duration,
    ) -> impl Future<Output = Result<(), HostError>>;

    /// Mounts a volume that is attached or being attached: its device is waited for, for some
    /// seconds. Success if it is mounted already. The answer is what file system it is.
    fn mount(
        &mut self,
        host: &Instance,
        order: &MountOrder,
    ) -> impl Future<Output = Result<Uuid, HostError>>;

    /// Brings to the volume what is written on the mounted drive and not there yet. For as long as
    /// that takes the drive stays in use.
    fn sync(&mut self, host: &Instance) -> impl Future<Output = Result<(), HostError>>;

    /// Closes: latches, commits, stops, unmounts. Succeeds at once on a closed host.
    fn close(&mut self, host: &Instance) -> impl Future<Output = Result<Closed, HostError>>;

    /// Lets go of a host that is being terminated, or was lost to another.
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
