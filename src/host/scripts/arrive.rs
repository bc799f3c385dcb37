//! The arrival at a host where the drive was left running: one round trip after the login attaches
//! the client and returns all of the host's state.
//!
//! A shell may wait on the host meanwhile, over another connection
//! ([`EarlyConnection`](crate::host::EarlyConnection)): the host starts it once the client is
//! attached.

use super::{Host, call, running};
use crate::host::bundle;
use crate::host::container::Container;
use crate::host::facts::ScriptError;
use crate::host::{ClientLock, HostState, MountedDrive};
use crate::ids::DriveName;
use crate::ssh::Ssh;

/// An arriving client, and the drive that it expects.
#[derive(Debug, Clone, Copy)]
pub struct ArriveOrder<'a> {
    /// As in [`crate::host::LockOrder`].
    pub client: &'a str,
    /// The drive's name.
    pub drive: &'a DriveName,
}

/// A client that leads now, at a host where a drive was mounted and no client attached.
#[derive(Debug)]
pub struct Arrived {
    /// The client lock, whose lease is the host's until it is refreshed.
    pub lock: ClientLock,
    /// The drive; none if the facts were not whole: mount it again.
    pub mounted: Option<MountedDrive>,
    /// The main container, if it runs just as [`Host::container`] would have it with the drive's own
    /// image.
    pub container: Option<Container>,
    /// The terminal for a shell in it: the latest that was left, else one with the session's name.
    pub terminal: Option<String>,
}

impl Host {
    /// As [`Host::contact`], and attaches the client as the lead if a drive is mounted and no
    /// client is attached. Does not attach it if the host lacks the scripts.
    pub async fn arrive(
        ssh: Ssh,
        order: &ArriveOrder<'_>,
    ) -> Result<(Self, HostState, Option<Arrived>), ScriptError> {
        let inputs = [
            ("XDRIVE_OWNER", order.client),
            ("XDRIVE_NAME", order.drive.as_str()),
        ];
        let command = bundle::only_there(&call("session arrive", &inputs));
        let (facts, lock) = ClientLock::arrive(&ssh, &command).await?;
        if facts.get("wants").is_some() {
            let (host, contact) = Self::contact(ssh).await?;
            return Ok((host, contact, None));
        }
        let contact = HostState::read(&facts)?;
        let arrived = lock.map(|lock| Arrived {
            lock,
            mounted: MountedDrive::read(&facts).ok(),
            container: running(&facts, None).ok(),
            terminal: facts.get("terminal").map(str::to_owned),
        });
        Ok((Self { ssh }, contact, arrived))
    }
}
