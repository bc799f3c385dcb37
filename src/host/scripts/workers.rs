//! The calls for the network of a drive and its workers: see `shell/host/swarm`.

use std::fmt;
use std::net::IpAddr;

use super::{Host, call};
use crate::host::facts::{Facts, ScriptError};

/// The token by which a host comes to a leader's network: a secret until it is sealed.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken(String);

/// The prefix of a token (Docker docs, *Swarm mode: join tokens*), and the most characters of one.
const PREFIX: &str = "SWMTKN-";
const LONGEST: usize = 256;

impl JoinToken {
    /// The token in what a host printed. It is no fact: those are traced.
    fn find(stdout: &[u8]) -> Option<Self> {
        let stdout = String::from_utf8_lossy(stdout);
        let token = stdout.lines().find(|line| line.starts_with(PREFIX))?;
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (token.len() <= LONGEST && token.bytes().all(is_known)).then(|| Self(token.to_owned()))
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinToken(…)")
    }
}

/// The network that a host is to come to.
#[derive(Debug, Clone, Copy)]
pub struct Joining<'a> {
    /// The host's own address in its VPC.
    pub own: IpAddr,
    /// The leader's.
    pub leader: IpAddr,
    /// The name of the host's main container in the network.
    pub alias: &'a str,
    /// The token that the leader gave.
    pub token: &'a JoinToken,
}

impl Host {
    /// Makes this host, whose `address` in its VPC is given, the leader of a network, unless it is; its
    /// main container is `leader` there. Returns the token by which others come.
    pub async fn lead_workers(&self, address: IpAddr) -> Result<JoinToken, ScriptError> {
        const SCRIPT: &str = "swarm lead";
        let command = call(SCRIPT, &[("XDRIVE_ADDRESS", &address.to_string())]);
        let output = self.ssh.run_named(SCRIPT, &command, &b""[..]).await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        JoinToken::find(&output.stdout).ok_or_else(|| facts.garbled("the token"))
    }

    /// Makes each GPU of this host, whose driver has answered, so many resources `gpu` of Docker's Swarm. Returns
    /// how many there are then: those that there were where containers run.
    pub async fn slice_gpus(&self, slices: u32) -> Result<u32, ScriptError> {
        let slices = slices.to_string();
        let facts = self
            .run("swarm slices", &[("XDRIVE_SLICES", &slices)])
            .await?;
        facts.require("slices")
    }

    /// Makes the leader's token useless. The hosts that have come stay.
    pub async fn seal_network(&self) -> Result<(), ScriptError> {
        self.run("swarm seal", &[]).await.map(drop)
    }

    /// Has this host in a leader's network, and close itself once it is without the leader for ten minutes.
    pub async fn join_network(&self, joining: Joining<'_>) -> Result<(), ScriptError> {
        const SCRIPT: &str = "swarm join";
        let inputs = [
            ("XDRIVE_ADDRESS", &*joining.own.to_string()),
            ("XDRIVE_LEADER", &*joining.leader.to_string()),
            ("XDRIVE_ALIAS", joining.alias),
        ];
        let token = format!("{}\n", joining.token.0);
        let command = call(SCRIPT, &inputs);
        let output = self
            .ssh
            .run_named(SCRIPT, &command, token.as_bytes())
            .await?;
        Facts::read(SCRIPT, &output, &[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_beside_facts_and_shown_to_nobody() {
        let token = "SWMTKN-1-1ab2-cd3";
        let printed = format!("xdrive: ms.swarm=20\n{token}\n");
        let found = JoinToken::find(printed.as_bytes()).unwrap();
        assert_eq!(found.0, token);
        assert!(!format!("{found:?}").contains("1ab2"));
        let long = format!("{PREFIX}{}", "a".repeat(LONGEST));
        for other in [
            "",
            "SWMTKN-1 x",
            "SWMTKN-1-$(id)",
            "xdrive: token=SWMTKN-1",
            &long,
        ] {
            assert_eq!(JoinToken::find(other.as_bytes()), None, "{other}");
        }
    }
}
