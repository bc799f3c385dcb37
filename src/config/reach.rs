//! How hosts are reached from this computer, in flags and in the configuration file.

use serde::{Deserialize, Deserializer};

use crate::ec2::Cidr;
use crate::ssh::ProxyCommand;

/// How hosts are reached from this computer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// The ranges of addresses that may log in; if empty, this computer's own address.
    pub cidrs: Vec<Cidr>,
    /// The service that answers with that address, in place of AWS's own.
    pub address_service: Option<String>,
    /// The proxy command of connections; without it they go straight to the host.
    pub proxy: Option<ProxyCommand>,
}

/// A value, or several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Several<T> {
    One(T),
    More(Vec<T>),
}

impl<T> From<Several<T>> for Vec<T> {
    fn from(several: Several<T>) -> Self {
        match several {
            Several::One(one) => vec![one],
            Several::More(more) => more,
        }
    }
}

/// Reads a list, or one of its items alone.
pub(super) fn several<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Several::deserialize(from).map(Vec::from)
}

impl Reach {
    /// Flags over configuration; the service has no flag.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            cidrs: if self.cidrs.is_empty() {
                other.cidrs
            } else {
                self.cidrs
            },
            address_service: self.address_service.or(other.address_service),
            proxy: self.proxy.or(other.proxy),
        }
    }
}

/// Parses the URL of a service that answers with its caller's address. HTTPS, so that nothing on
/// the way can authorize another address; plain HTTP only to this computer itself.
pub(super) fn check_service(url: &str) -> Result<(), String> {
    let uri: http::Uri = url.parse().map_err(|_| "it is not a URL".to_owned())?;
    let host = uri.host().unwrap_or_default();
    let is_here = host == "localhost" || host.starts_with("127.") || host == "[::1]";
    match uri.scheme_str() {
        Some("https") if !host.is_empty() => Ok(()),
        Some("http") if is_here => Ok(()),
        _ => Err("it does not begin with https://".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_service_is_asked_by_https() {
        for url in ["https://checkip.amazonaws.com", "http://127.0.0.1:8080/ip"] {
            assert_eq!(check_service(url), Ok(()), "{url}");
        }
        for url in [
            "http://checkip.amazonaws.com",
            "checkip",
            "",
            "https://",
            "ftp://a/b",
        ] {
            assert!(check_service(url).is_err(), "{url}");
        }
    }

    #[test]
    fn flags_stand_in_place_of_what_is_configured() {
        let one = |cidr: &str| Reach {
            cidrs: vec![cidr.parse().unwrap()],
            ..Reach::default()
        };
        assert_eq!(one("10.0.0.0/8").or(one("192.0.2.7")), one("10.0.0.0/8"));
        assert_eq!(Reach::default().or(one("192.0.2.7")), one("192.0.2.7"));
    }
}
