//! Ports of a host that others may reach, as a user names them.

use std::fmt;
use std::str::FromStr;

use super::{Cidr, Rule, RuleSource};

/// The ports that stay xdrive's: SSH's, and those of the network of workers.
const OWN: [u16; 4] = [22, 2377, 4789, 7946];

/// Everybody: all addresses of IPv4, and all of IPv6.
const EVERYONE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// The description of a rule.
const RULE: &str = "opened by xdrive";

/// A TCP port that is open to a range of addresses, or to everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenPort {
    /// The port.
    port: u16,
    /// The range; everybody if there is none.
    from: Option<Cidr>,
}

/// The text that names no port to open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOpenPort {
    /// The port is no number from 1 on.
    #[error("{0:?} is no port and range, such as 443 or 443:203.0.113.0/24")]
    Port(String),
    /// The range is none.
    #[error(transparent)]
    Range(#[from] super::InvalidCidr),
    /// The port is one of xdrive's.
    #[error("port {0} is xdrive's own: --cidr says who may log in, and workers reach each other")]
    Own(u16),
}

impl OpenPort {
    /// The rules by which it is open.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        let everyone = EVERYONE.iter().filter_map(|range| range.parse().ok());
        let from: Vec<Cidr> = self
            .from
            .map_or_else(|| everyone.collect(), |range| vec![range]);
        let port = i32::from(self.port);
        let rule = |range| Rule {
            protocol: "tcp".to_owned(),
            ports: Some((port, port)),
            from: RuleSource::Cidr(range),
            description: RULE.to_owned(),
        };
        from.into_iter().map(rule).collect()
    }

    /// Whether a rule opens a port so.
    #[must_use]
    pub fn is_own(rule: &Rule) -> bool {
        rule.description == RULE && matches!(rule.from, RuleSource::Cidr(_))
    }

    /// The port and who may reach it, in words.
    #[must_use]
    pub fn words(&self) -> String {
        match self.from {
            Some(range) => format!("port {} is open to {range}", self.port),
            None => format!("port {} is open to everybody", self.port),
        }
    }
}

impl FromStr for OpenPort {
    type Err = InvalidOpenPort;

    /// `443`, or `443:203.0.113.0/24`.
    fn from_str(text: &str) -> Result<Self, InvalidOpenPort> {
        let (port, range) = match text.split_once(':') {
            Some((port, range)) => (port, Some(range)),
            None => (text, None),
        };
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let number = port.parse().ok().filter(|port| is_number && *port > 0);
        let port = number.ok_or_else(|| InvalidOpenPort::Port(text.to_owned()))?;
        if OWN.contains(&port) {
            return Err(InvalidOpenPort::Own(port));
        }
        let from = range.map(str::parse).transpose()?;
        Ok(Self { port, from })
    }
}

/// Writes what is read again.
impl fmt::Display for OpenPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            Some(range) => write!(f, "{}:{range}", self.port),
            None => self.port.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_read_as_it_is_written_and_opens_what_it_names() {
        for text in [
            "443",
            "8443:203.0.113.0/24",
            "80:2001:db8::/32",
            "1:203.0.113.7/32",
        ] {
            let port: OpenPort = text.parse().unwrap();
            assert_eq!(port.to_string(), text);
            assert!(port.rules().iter().all(OpenPort::is_own));
        }
        let rules = |text: &str| text.parse::<OpenPort>().unwrap().rules();
        let everyone: Vec<String> = rules("443").iter().map(|it| it.from.to_string()).collect();
        assert_eq!(everyone, EVERYONE);
        let [one] = &rules("443:203.0.113.7")[..] else {
            panic!("one range has one rule");
        };
        assert_eq!((one.ports, &*one.protocol), (Some((443, 443)), "tcp"));
        assert_eq!(one.from.to_string(), "203.0.113.7/32");
    }

    #[test]
    fn what_is_no_port_of_the_users_is_refused() {
        for text in [
            "", "0", "65536", "+443", "443-445", "443:", "443:x", ":443", "4 4",
        ] {
            assert!(text.parse::<OpenPort>().is_err(), "{text}");
        }
        for own in OWN {
            let refused = format!("{own}:203.0.113.7").parse::<OpenPort>();
            assert_eq!(refused, Err(InvalidOpenPort::Own(own)));
        }
    }
}
