//! Security groups and their rules.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Tags;

/// A security group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) created: Timestamp,
    pub(crate) ingress: Vec<Rule>,
    pub(crate) egress: Vec<Rule>,
    pub(crate) tags: Tags,
}

/// A rule of a security group: one protocol, one range of ports, one peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rule {
    pub(crate) id: String,
    /// `tcp`, `udp`, `icmp`, `icmpv6`, another protocol's number, or `-1` for all.
    pub(crate) protocol: String,
    /// The first port, or the type of ICMP (-1 for all); none where a protocol has all of them.
    pub(crate) from: Option<i32>,
    /// The last port, or the code of ICMP.
    pub(crate) to: Option<i32>,
    #[serde(flatten)]
    pub(crate) peer: Peer,
    pub(crate) description: Option<String>,
}

impl Rule {
    /// All traffic with `peer`.
    pub(crate) fn everything(id: String, peer: Peer) -> Self {
        Self {
            id,
            protocol: "-1".to_owned(),
            from: None,
            to: None,
            peer,
            description: None,
        }
    }

    /// Whether it allows the same as `other`: EC2 compares neither ids nor descriptions.
    pub(crate) fn allows_as(&self, other: &Self) -> bool {
        (&self.protocol, self.from, self.to, &self.peer)
            == (&other.protocol, other.from, other.to, &other.peer)
    }
}

/// The other side of a rule's traffic: its source, or its destination in a rule for egress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Peer {
    /// A range of addresses, in its canonical form.
    Cidr(String),
    /// The instances in the group of this id.
    Group(String),
}

impl Peer {
    /// The range of IPv4 addresses, if it is one.
    pub(crate) fn ipv4(&self) -> Option<&str> {
        match self {
            Self::Cidr(cidr) if !cidr.contains(':') => Some(cidr),
            _ => None,
        }
    }

    /// The range of IPv6 addresses, if it is one.
    pub(crate) fn ipv6(&self) -> Option<&str> {
        match self {
            Self::Cidr(cidr) if cidr.contains(':') => Some(cidr),
            _ => None,
        }
    }

    /// The id of the group, if it is one.
    pub(crate) fn group(&self) -> Option<&str> {
        match self {
            Self::Group(id) => Some(id),
            Self::Cidr(_) => None,
        }
    }
}
