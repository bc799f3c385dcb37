//! The laptop's public address, or the CIDRs to authorize in its place.
//!
//! The user's CIDRs; else, towards a public address of AWS, the address that an address service
//! returns; else the one that this computer's routes choose, which is right where no address is
//! translated (IPv6, a VPN, the EC2 in a folder). With an endpoint in AWS's place no service is
//! asked. With a proxy command only the user's CIDRs are authorized.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::Plan;
use crate::drive::HostError;
use crate::ec2::Cidr;
use crate::retry::retry;

/// AWS's service that answers with its caller's IPv4 address.
const SERVICE: &str = "https://checkip.amazonaws.com";

/// The pauses before it is asked again: a line that loses a packet must not end a session.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// The environment variables that send requests through a proxy.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

impl Plan {
    /// Whether nothing is to be authorized: there is a proxy command, and no CIDR.
    pub(super) fn is_closed(&self) -> bool {
        self.reach.proxy.is_some() && self.reach.cidrs.is_empty()
    }

    /// The CIDRs to authorize for a host at this address; for one without an address yet, those
    /// that do not depend on it.
    pub(super) async fn from(&self, at: Option<IpAddr>) -> Result<Vec<Cidr>, HostError> {
        if self.is_closed() || !self.reach.cidrs.is_empty() {
            return Ok(self.reach.cidrs.clone());
        }
        let is_public = || self.ec2.reached().is_ok_and(|ec2| ec2.is_public());
        let is_far = at.is_none_or(is_translated) && self.ec2.is_aws() && is_public();
        let address = match at {
            _ if is_far => {
                let address = self.ask().await?;
                reaches(address, at).map_err(|why| self.no_address(&why))?
            }
            None => return Ok(Vec::new()),
            Some(at) => source(at).ok_or_else(|| HostError::NoRoute {
                why: format!("this computer has no way to {at}"),
                hint: "is the VPN up? --proxy-command connects by another way".to_owned(),
            })?,
        };
        Ok(vec![Cidr::one(address)])
    }

    /// Asks the address service.
    pub(super) async fn ask(&self) -> Result<IpAddr, HostError> {
        let service = self.service();
        let is_set = |name: &&&str| std::env::var_os(name).is_some_and(|it| !it.is_empty());
        let answer = match PROXIES.iter().find(is_set) {
            // It would return the proxy's address, which SSH does not use.
            Some(name) => Err(format!("it would be asked through the proxy of {name}")),
            None => match self.ec2.reached() {
                Ok(ec2) => retry(&PAUSES, Result::is_err, || ec2.get(service)).await,
                Err(error) => Err(error),
            },
        };
        answer
            .and_then(|answer| address(&answer))
            .map_err(|why| self.no_address(&why))
    }

    fn service(&self) -> &str {
        self.reach.address_service.as_deref().unwrap_or(SERVICE)
    }

    fn no_address(&self, why: &str) -> HostError {
        let service = self.service();
        HostError::NoRoute {
            why: format!("{service} does not answer with this computer's address: {why}"),
            hint:
                "--cidr ADDRESS says from where this computer logs in, and so does `cidr` in the \
                   configuration"
                    .to_owned(),
        }
    }
}

/// `address`, unless `at` is of the other family: the address that a service sees over IPv6 is not the
/// one that a host sees over IPv4. A host that has no address yet may get one of either family.
fn reaches(address: IpAddr, at: Option<IpAddr>) -> Result<IpAddr, String> {
    match at {
        Some(at) if at.is_ipv4() != address.is_ipv4() => {
            Err(format!("it answers {address}, and the host is at {at}"))
        }
        _ => Ok(address),
    }
}

/// Parses the address that a service answers with. A hotel's page or a proxy may answer in its
/// place.
pub(super) fn address(answer: &str) -> Result<IpAddr, String> {
    let answer = answer.trim();
    let is_public = |at: &IpAddr| !at.is_unspecified() && !at.is_loopback() && !at.is_multicast();
    let address = answer.parse().ok().filter(is_public);
    address.ok_or_else(|| "its answer is no address".to_owned())
}

/// Whether this computer's address may be translated on the way to `at`.
pub(super) fn is_translated(at: IpAddr) -> bool {
    match at {
        IpAddr::V4(at) => !at.is_private(),
        IpAddr::V6(_) => false,
    }
}

/// The address from which this computer sends to `at`; none if it has no route there. Sends
/// nothing.
pub(crate) fn source(at: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match at {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    socket.connect(SocketAddr::new(at, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_computer_reaches_itself_from_itself() {
        let here: IpAddr = Ipv4Addr::LOCALHOST.into();
        assert_eq!(source(here), Some(here));
    }

    #[test]
    fn only_towards_public_ipv4_addresses_may_an_address_be_translated() {
        assert!(is_translated([203, 0, 113, 7].into()));
        for at in ["10.1.2.3", "172.31.0.9", "192.168.1.1", "2001:db8::7"] {
            assert!(!is_translated(at.parse().unwrap()), "{at}");
        }
    }

    #[test]
    fn an_address_of_the_other_family_lets_nobody_in() {
        let [four, six] = ["203.0.113.7", "2001:db8::7"].map(|at| at.parse().unwrap());
        for address in [four, six] {
            assert_eq!(reaches(address, None), Ok(address));
            assert_eq!(reaches(address, Some(address)), Ok(address));
        }
        assert_eq!(
            reaches(six, Some(four)),
            Err("it answers 2001:db8::7, and the host is at 203.0.113.7".to_owned())
        );
    }

    #[test]
    fn only_an_address_is_taken_for_one() {
        let seven: IpAddr = [203, 0, 113, 7].into();
        assert_eq!(address("203.0.113.7\n"), Ok(seven));
        assert!(address("2001:db8::7").is_ok());
        for answer in [
            "",
            "<html>",
            "203.0.113",
            "0.0.0.0",
            "127.0.0.1",
            "203.0.113.7, 10.0.0.1",
        ] {
            assert!(address(answer).is_err(), "{answer}");
        }
    }
}
