//! Coming to a host where the drive was left running: attached, and told all there is to know, in
//! one round trip behind the login.
//!
//! A shell waits on the host meanwhile, over another connection ([`EarlyConnection`]): the host
//! lets it begin once the client is attached.
//!
//! [`EarlyConnection`]: crate::host::EarlyConnection

use super::{ClientLock, Contact, Host, Mounted, bundle, call, running};
use crate::host::container::Container;
use crate::host::facts::HostError;
use crate::ssh::Ssh;

/// Who comes, and to which drive.
#[derive(Debug, Clone, Copy)]
pub struct ArriveOrder<'a> {
    /// As in [`super::LockOrder`].
    pub client: &'a str,
    /// The drive's name.
    pub drive: &'a str,
}

/// A client that leads where a drive was mounted and nobody was attached.
#[derive(Debug)]
pub struct Arrived {
    /// Its hold, whose lease is the host's until it is refreshed.
    pub hold: ClientLock,
    /// The drive; none if it must be asked for.
    pub mounted: Option<Mounted>,
    /// The container, if it runs just as [`Host::container`] would have it with the drive's own
    /// image.
    pub container: Option<Container>,
    /// The terminal for a shell in it: the one that was left behind last, if there is one, else
    /// one that has the session's name.
    pub terminal: Option<String>,
}

impl Host {
    /// As [`Host::contact`]; and leads there from now on, if a drive is mounted and nobody was
    /// attached. Nothing of that is done where the host lacks the scripts.
    pub async fn arrive(
        ssh: Ssh,
        order: &ArriveOrder<'_>,
    ) -> Result<(Self, Contact, Option<Arrived>), HostError> {
        let inputs = [("XDRIVE_OWNER", order.client), ("XDRIVE_NAME", order.drive)];
        let command = bundle::only_there(&call("session arrive", &inputs));
        let (facts, hold) = ClientLock::arrive(&ssh, &command).await?;
        if facts.get("wants").is_some() {
            let (host, contact) = Self::contact(ssh).await?;
            return Ok((host, contact, None));
        }
        let contact = Contact::read(&facts)?;
        let arrived = hold.map(|hold| Arrived {
            hold,
            mounted: Mounted::read(&facts).ok(),
            container: running(&facts).ok(),
            terminal: facts.get("terminal").map(str::to_owned),
        });
        Ok((Self { ssh }, contact, arrived))
    }
}
