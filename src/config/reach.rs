//! How hosts are reached from this computer, in flags and in the configuration file.

use serde::Deserialize;

use crate::ec2::Cidr;
use crate::ssh::ProxyCommand;

/// How hosts are reached from this computer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// From where this computer is let in; if nothing is said, from the address that it has.
    pub cidrs: Vec<Cidr>,
    /// What is asked for that address, in place of AWS's own service.
    pub address_service: Option<String>,
    /// What connections go through, if not straight to the host.
    pub proxy: Option<ProxyCommand>,
}

/// One of something, or several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Several<T> {
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

impl Reach {
    /// Flags first, then the configuration file; the service is the file's alone.
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

/// The address of a service that answers with its caller's: by HTTPS, so that nobody on the way
/// opens the door to another; plain HTTP only to this computer itself.
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
