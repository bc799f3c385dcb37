//! Ranges of addresses, as security groups name them (RFC 4632, RFC 4291).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A range of addresses. The bits after the prefix are zero, as EC2 keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr(IpNet);

/// The CIDR that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address such as 203.0.113.7 or a range such as 203.0.113.0/24")]
pub struct InvalidCidr(String);

impl Cidr {
    /// The range of this address alone.
    #[must_use]
    pub fn one(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }

    /// Whether it is every address of its family.
    #[must_use]
    pub fn is_everyone(self) -> bool {
        self.0.prefix_len() == 0
    }

    /// Whether it is a range of IPv6 addresses.
    #[must_use]
    pub fn is_ipv6(self) -> bool {
        matches!(self.0, IpNet::V6(_))
    }

    /// Whether `address` is in it.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// The address of a subnet's router: its first address but one (VPC user guide, *Subnet CIDR
    /// blocks*); of a range of one address, that one.
    #[must_use]
    pub fn router(self) -> IpAddr {
        match self.0 {
            IpNet::V4(range) if range.prefix_len() < 32 => {
                IpAddr::V4(Ipv4Addr::from_bits(range.network().to_bits() | 1))
            }
            range => range.network(),
        }
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    /// `203.0.113.0/24`, or an address alone.
    fn from_str(given: &str) -> Result<Self, InvalidCidr> {
        let (address, prefix) = match given.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (given, None),
        };
        let parse = || {
            // Not by ipnet, which takes 010.0.0.1 for 10.0.0.1.
            let address: IpAddr = address.parse().ok()?;
            match prefix {
                None => Some(Self::one(address)),
                Some(bits) => {
                    let range = IpNet::new(address, bits.parse().ok()?).ok()?;
                    Some(Self(range.trunc()))
                }
            }
        };
        parse().ok_or_else(|| InvalidCidr(given.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(given: &str) -> Option<String> {
        given.parse().ok().map(|cidr: Cidr| cidr.to_string())
    }

    #[test]
    fn a_range_is_written_as_ec2_keeps_it() {
        for (given, kept) in [
            ("203.0.113.7", "203.0.113.7/32"),
            ("203.0.113.7/24", "203.0.113.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:DB8::7", "2001:db8::7/128"),
            ("2001:db8::7/64", "2001:db8::/64"),
            ("::/0", "::/0"),
            ("::ffff:203.0.113.7", "203.0.113.7/32"),
        ] {
            assert_eq!(written(given).as_deref(), Some(kept), "{given}");
        }
    }

    #[test]
    fn invalid_ranges_are_refused() {
        for given in [
            "",
            "home",
            "203.0.113",
            "203.0.113.07",
            "203.0.113.7/33",
            "203.0.113.7/",
            "203.0.113.7/-1",
            "2001:db8::/129",
            "203.0.113.0/24/24",
            " 203.0.113.7",
        ] {
            assert_eq!(written(given), None, "{given}");
        }
    }

    #[test]
    fn a_range_contains_addresses_of_its_own_family_only() {
        let contains = |range: &str, address: &str| {
            let range: Cidr = range.parse().unwrap();
            range.contains(address.parse().unwrap())
        };
        assert!(contains("203.0.113.0/24", "203.0.113.255"));
        assert!(contains("203.0.113.0/24", "::ffff:203.0.113.1"));
        assert!(contains("2001:db8::/64", "2001:db8::7"));
        assert!(!contains("203.0.113.0/24", "203.0.114.0"));
        assert!(!contains("::/0", "203.0.113.1"));
        assert!(!contains("0.0.0.0/0", "::1"));
    }

    #[test]
    fn a_router_has_the_first_address_but_one() {
        for (range, router) in [
            ("10.0.3.0/24", "10.0.3.1"),
            ("10.0.3.4/31", "10.0.3.5"),
            ("10.0.3.4/32", "10.0.3.4"),
        ] {
            let range: Cidr = range.parse().unwrap();
            assert_eq!(range.router().to_string(), router);
        }
    }

    #[test]
    fn only_all_addresses_are_everyone() {
        let is_everyone = |given: &str| given.parse::<Cidr>().unwrap().is_everyone();
        assert!(is_everyone("0.0.0.0/0") && is_everyone("::/0"));
        assert!(!is_everyone("10.0.0.0/8"));
    }
}
