//! Forwarded ports, as they are typed and configured: OpenSSH's syntax of `-L` and `-R` (`ssh(1)`).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::reach;
use crate::ssh::forward::Interface;

/// A port that is forwarded, `[BIND:]PORT[:HOST:PORT]`: for `-L` from this computer into the
/// container, for `-R` the other way round. `PORT` alone leads to the same port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// Where it listens.
    pub interface: Interface,
    /// The port there.
    pub port: u16,
    /// The host to connect to at the other end.
    pub host: String,
    /// The port of that host.
    pub host_port: u16,
}

/// The forward that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidForwarding {
    /// The forward has a wrong number of parts.
    #[error("it is not [BIND:]PORT[:HOST:PORT], such as 6006 or 8080:localhost:80")]
    Parts,
    /// A part is no port.
    #[error("{0:?} is not a port, 1 to 65535")]
    Port(String),
    /// The address to listen on cannot be parsed.
    #[error("{0:?} is not an address to listen on: localhost, * for all, or an IP address")]
    Bind(String),
    /// The host is missing.
    #[error("the host between the ports is missing: localhost is the other end itself")]
    Host,
}

impl FromStr for Forwarding {
    type Err = InvalidForwarding;

    fn from_str(text: &str) -> Result<Self, InvalidForwarding> {
        let parts = parts(text);
        let (bind, port, to) = match parts.as_slice() {
            [port] => ("localhost", port, None),
            [port, host, to] => ("localhost", port, Some((host, to))),
            [bind, port, host, to] => (*bind, port, Some((host, to))),
            _ => return Err(InvalidForwarding::Parts),
        };
        let port = parse_port(port)?;
        let (host, host_port) = match to {
            Some((&"", _)) => return Err(InvalidForwarding::Host),
            Some((host, to)) => ((*host).to_owned(), parse_port(to)?),
            None => ("localhost".to_owned(), port),
        };
        Ok(Self {
            interface: interface(bind)?,
            port,
            host,
            host_port,
        })
    }
}

/// The parts between colons, but for those in brackets, which hold an IPv6 address.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let split = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ':' && depth == 0
    };
    let bare = |part: &'_ str| {
        let inner = part.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        inner.map_or((0, part.len()), |inner| (1, inner.len() + 1))
    };
    let whole = text.split(split);
    whole
        .map(|part| {
            let (from, to) = bare(part);
            &part[from..to]
        })
        .collect()
}

fn parse_port(text: &str) -> Result<u16, InvalidForwarding> {
    match text.parse() {
        Ok(port @ 1..) => Ok(port),
        _ => Err(InvalidForwarding::Port(text.to_owned())),
    }
}

fn interface(bind: &str) -> Result<Interface, InvalidForwarding> {
    match bind {
        "localhost" => Ok(Interface::Loopback),
        "*" | "" => Ok(Interface::All),
        address => match address.parse::<IpAddr>() {
            Ok(address) => Ok(Interface::One(address)),
            Err(_) => Err(InvalidForwarding::Bind(bind.to_owned())),
        },
    }
}

/// A forward in the configuration: a port, or text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Port(u16),
    Text(String),
}

/// Reads one forward of the configuration, or several.
pub(super) fn several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Forwarding>, D::Error> {
    let given: Vec<Given> = reach::several(from)?;
    let parsed = given.into_iter().map(|given| {
        let text = match given {
            Given::Port(port) => port.to_string(),
            Given::Text(text) => text,
        };
        let parsed = text.parse();
        parsed.map_err(|why: InvalidForwarding| D::Error::custom(format!("{text:?}: {why}")))
    });
    parsed.collect()
}

impl fmt::Display for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            port,
            host,
            host_port,
            ..
        } = self;
        if host.contains(':') {
            write!(f, "{port}:[{host}]:{host_port}")
        } else {
            write!(f, "{port}:{host}:{host_port}")
        }
    }
}

impl Forwarding {
    /// Forwards a port to the same one, on the loopback addresses.
    #[must_use]
    pub fn same_port(port: u16) -> Self {
        Self {
            interface: Interface::Loopback,
            port,
            host: "localhost".to_owned(),
            host_port: port,
        }
    }

    /// Whether it leads to the other end itself.
    #[must_use]
    pub fn is_to_loopback(&self) -> bool {
        let is_loopback = |address: IpAddr| address.is_loopback();
        self.host == "localhost" || self.host.parse().is_ok_and(is_loopback)
    }

    /// The address to listen on, as a `tcpip-forward` request has it (RFC 4254, section 7.1).
    #[must_use]
    pub fn bind(&self) -> String {
        match self.interface {
            Interface::Loopback => "localhost".to_owned(),
            Interface::All => String::new(),
            Interface::One(address) => address.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, u16, String, u16) {
        let it: Forwarding = text.parse().unwrap();
        (it.interface.to_string(), it.port, it.host, it.host_port)
    }

    #[test]
    fn forwards_are_as_opensshs() {
        let (here, there) = ("127.0.0.1".to_owned(), "localhost".to_owned());
        assert_eq!(parsed("6006"), (here.clone(), 6006, there.clone(), 6006));
        assert_eq!(parsed("8080:db:80"), (here, 8080, "db".into(), 80));
        assert_eq!(parsed("*:1:localhost:2"), ("*".into(), 1, there.clone(), 2));
        assert_eq!(parsed(":1:localhost:2"), ("*".into(), 1, there, 2));
        assert_eq!(
            parsed("[::1]:1:[2001:db8::7]:2"),
            ("[::1]".into(), 1, "2001:db8::7".into(), 2)
        );
        assert_eq!(
            parsed("10.0.0.7:1:h:2"),
            ("10.0.0.7".into(), 1, "h".into(), 2)
        );
        let six: Forwarding = "1:[2001:db8::7]:2".parse().unwrap();
        assert_eq!(six.to_string(), "1:[2001:db8::7]:2");
    }

    #[test]
    fn an_invalid_forward_is_refused_with_the_form_of_a_valid_one() {
        let why = |text: &str| text.parse::<Forwarding>().unwrap_err().to_string();
        for text in ["80:80", "a:b:c:d:e"] {
            assert!(why(text).contains("[BIND:]PORT[:HOST:PORT]"), "{text}");
        }
        for text in ["", "0", "65536", "x", "1:h:0", "-1"] {
            assert!(why(text).ends_with("is not a port, 1 to 65535"), "{text}");
        }
        assert!(why("eth0:1:h:2").contains("an address to listen on"));
        assert!(why("1::2").contains("localhost is the other end"));
    }
}
