//! The state of a host, read from the facts of `session contact`; and the clients that remain
//! there, from those of `session leave`.
//!
//! Owns the parsing only: facts in, a [`HostState`] out. A fact that this version cannot parse is
//! an error, never a guess.

use jiff::Timestamp;

use super::client_lock::{Role, notice};
use super::facts::{Facts, ScriptError};
use super::room::Room;
use crate::ids::VolumeId;

/// The state of a host, as far as a session acts on it: the script prints more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostState {
    /// Why it began to close, if it did: it will never mount or start anything again.
    pub closing: Option<String>,
    /// The volume that was unmounted for good; none if none was, or none was mounted since its system
    /// started.
    pub whole: Option<VolumeId>,
    /// The volume at the drive's mountpoint.
    pub mounted: Mounted,
    /// The drive's free room, if known.
    pub room: Option<Room>,
    /// The line of the client that leads now.
    pub attached: Option<String>,
    /// The roles and lines of all clients that are attached now, the lead included.
    pub clients: Vec<(Role, String)>,
    /// EC2's notice: the action and its time (as in [`super::HostEvent::Notice`]).
    pub notice: Option<(String, Timestamp)>,
    /// Whether it still has the launch key, which others may have read in its user data.
    pub launch_key: bool,
}

/// The volume that is mounted at the drive's mountpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mounted {
    /// No volume.
    Nothing,
    /// A volume, for writing.
    Volume(VolumeId),
    /// A volume still, but synced and read-only, and the host is powering off: a close could not
    /// unmount it by its deadline.
    Frozen(VolumeId),
}

/// The clients that remain attached after one has left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remaining {
    /// How many other clients are attached. Of all clients that leave, just one reads 0 here.
    pub others: usize,
    /// How many of them are sessions: the others are connections of SSH clients, which save nothing.
    pub sessions: usize,
    /// The line of the one that leads.
    pub attached: Option<String>,
    /// Why the host began to close, if it did.
    pub closing: Option<String>,
}

impl Remaining {
    pub(super) fn read(facts: &Facts) -> Result<Self, ScriptError> {
        Ok(Self {
            others: facts.require("remain")?,
            sessions: facts.require("sessions")?,
            attached: facts.get("attached").map(str::to_owned),
            closing: facts.get("closing").map(str::to_owned),
        })
    }
}

impl HostState {
    pub(super) fn read(facts: &Facts) -> Result<Self, ScriptError> {
        let mounted = match facts.optional("volume")? {
            None => Mounted::Nothing,
            Some(volume) if facts.yes("frozen") => Mounted::Frozen(volume),
            Some(volume) => Mounted::Volume(volume),
        };
        // Without it this is no answer of the script's.
        facts.require::<String>("booted")?;
        let owned = |key| facts.get(key).map(str::to_owned);
        let clients = facts.all("client").map(Role::parse);
        Ok(Self {
            closing: owned("closing"),
            whole: facts.optional("whole")?,
            mounted,
            launch_key: facts.yes("launch_key"),
            room: Room::read(facts),
            attached: owned("attached"),
            clients: clients
                .collect::<Option<_>>()
                .ok_or_else(|| facts.garbled("client"))?,
            notice: match facts.get("notice") {
                None => None,
                Some(words) => Some(notice(words).ok_or_else(|| facts.garbled("notice"))?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssh::Output;

    fn read(printed: &str) -> Result<HostState, ScriptError> {
        let output = Output {
            status: 0,
            stdout: printed.into(),
            stderr: Vec::new(),
        };
        HostState::read(&Facts::read("session contact", &output, &[])?)
    }

    #[test]
    fn a_host_says_who_is_there() {
        let contact = read(
            "xdrive: booted=yes\nxdrive: attached=s1 me\nxdrive: client=lead s1 me\n\
             xdrive: client=guest s2 you\n\
             xdrive: notice=terminate 2026-01-02T03:04:05Z\n",
        )
        .unwrap();
        assert_eq!(contact.attached.as_deref(), Some("s1 me"));
        let clients = [(Role::Lead, "s1 me"), (Role::Guest, "s2 you")];
        assert_eq!(
            contact.clients,
            clients.map(|(role, line)| (role, line.to_owned()))
        );
        let (action, at) = contact.notice.unwrap();
        assert_eq!(
            (action.as_str(), at.to_string()),
            ("terminate", "2026-01-02T03:04:05Z".into())
        );
    }

    #[test]
    fn garbled_facts_of_a_host_are_an_error() {
        for line in ["client=boss s1 me", "notice=terminate"] {
            let error = read(&format!("xdrive: booted=yes\nxdrive: {line}\n")).unwrap_err();
            assert!(matches!(error, ScriptError::Garbled { .. }), "{line}");
        }
    }
}
