//! Ranges of addresses, as security groups name them (RFC 4632, RFC 4291).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A range of addresses: what they begin with, and how many bits of that count. The bits after
/// them are zero, as EC2 keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    first: IpAddr,
    prefix: u8,
}

/// What is no range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address such as 203.0.113.7 or a range such as 203.0.113.0/24")]
pub struct InvalidCidr(String);

impl Cidr {
    /// This address alone.
    #[must_use]
    pub fn one(address: IpAddr) -> Self {
        let first = address.to_canonical();
        Self {
            first,
            prefix: width(first),
        }
    }

    /// Whether it is every address of its family.
    #[must_use]
    pub fn is_everyone(self) -> bool {
        self.prefix == 0
    }

    /// Whether it is a range of IPv6 addresses.
    #[must_use]
    pub fn is_ipv6(self) -> bool {
        self.first.is_ipv6()
    }

    /// Whether `address` is in it.
    #[must_use]
    pub fn has(self, address: IpAddr) -> bool {
        Self::new(address.to_canonical(), self.prefix)
            .is_some_and(|there| there.first == self.first)
    }

    /// Its first address but one: what the router of a subnet has (VPC user guide, *Subnet CIDR
    /// blocks*); of a range of one, that.
    #[must_use]
    pub fn router(self) -> IpAddr {
        match self.first {
            IpAddr::V4(first) if self.prefix < 32 => {
                IpAddr::V4(Ipv4Addr::from_bits(first.to_bits() | 1))
            }
            first => first,
        }
    }

    fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        // A shift by the whole width is none in Rust: it is what a prefix of 0 asks for.
        let first = match address {
            IpAddr::V4(address) if prefix <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) if prefix <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
            _ => return None,
        };
        Some(Self { first, prefix })
    }
}

/// How many bits an address of this family has.
fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
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
        let read = || {
            let address: IpAddr = address.parse().ok()?;
            match prefix {
                None => Some(Self::one(address)),
                Some(bits) => Self::new(address, bits.parse().ok()?),
            }
        };
        read().ok_or_else(|| InvalidCidr(given.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
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
    fn what_is_no_range_is_refused() {
        for given in [
            "",
            "home",
            "203.0.113",
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
    fn only_all_addresses_are_everyone() {
        let is_everyone = |given: &str| given.parse::<Cidr>().unwrap().is_everyone();
        assert!(is_everyone("0.0.0.0/0") && is_everyone("::/0"));
        assert!(!is_everyone("10.0.0.0/8"));
    }
}
