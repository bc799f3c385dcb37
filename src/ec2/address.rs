//! Elastic IP addresses: found by their ids, and given to instances.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use aws_sdk_ec2::types::Address;

use super::client::Ec2;
use super::convert;
use super::error::{Error, unless};
use crate::ids::{AllocationId, InstanceId, InvalidId};

/// The text for [`HostAddress::Any`].
const ANY: &str = "none";

/// The code where somebody else has the address (API reference, *Error codes for the Amazon EC2 API*).
const TAKEN: &str = "Resource.AlreadyAssociated";

/// The public address that a drive's hosts have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostAddress {
    /// The one that EC2 gives each of them.
    Any,
    /// An Elastic IP address of the account.
    Elastic(AllocationId),
}

impl FromStr for HostAddress {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        match text {
            ANY => Ok(Self::Any),
            id => id.parse().map(Self::Elastic),
        }
    }
}

/// Writes what is read again.
impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str(ANY),
            Self::Elastic(id) => id.fmt(f),
        }
    }
}

/// An Elastic IP address, as EC2 lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElasticIp {
    /// The id of the address in EC2.
    pub id: AllocationId,
    /// The address.
    pub ip: Ipv4Addr,
    /// Whether anything has it.
    pub is_held: bool,
    /// The instance that has it; none if none has, or a thing that is no instance.
    pub holder: Option<InstanceId>,
}

/// `203.0.113.7 (eipalloc-…)`.
impl fmt::Display for ElasticIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.ip, self.id)
    }
}

impl Ec2 {
    /// The Elastic IP address of this id; [`super::Kind::NotFound`] if there is none.
    pub async fn elastic_ip(&self, id: &AllocationId) -> Result<ElasticIp, Error> {
        const CALL: &str = "DescribeAddresses";
        let answer = self
            .patient
            .describe_addresses()
            .allocation_ids(id.as_str())
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        let found = answer.addresses().first();
        found
            .ok_or_else(|| "it names no address".to_owned())
            .and_then(elastic_ip)
            .map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// Gives the instance this address, in place of its own; success if it has it. `false` if something else has
    /// it, unless this call `takes` it from there. An instance that does not run yet is `InvalidInstanceID`.
    pub async fn associate(
        &self,
        address: &AllocationId,
        instance: &InstanceId,
        takes: bool,
    ) -> Result<bool, Error> {
        let answer = self
            .patient
            .associate_address()
            .allocation_id(address.as_str())
            .instance_id(instance.as_str())
            .allow_reassociation(takes)
            .send()
            .await
            .map_err(|error| Error::from_sdk("AssociateAddress", &error));
        Ok(unless(answer, &[TAKEN])?.is_some())
    }
}

fn elastic_ip(answer: &Address) -> Result<ElasticIp, String> {
    let id = convert::id("the address's id", answer.allocation_id())?;
    let ip = answer.public_ip().unwrap_or_default();
    let instance = answer.instance_id().filter(|id| !id.is_empty());
    let holder = instance.map(|holder| convert::id(&format!("{id}'s instance"), Some(holder)));
    Ok(ElasticIp {
        ip: ip
            .parse()
            .map_err(|_| format!("{id} has the address {ip:?}"))?,
        is_held: answer.association_id().is_some_and(|id| !id.is_empty()),
        holder: holder.transpose()?,
        id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is() {
        for text in ["none", "eipalloc-0a1b2c3d4e5f60718"] {
            assert_eq!(text.parse::<HostAddress>().unwrap().to_string(), text);
        }
        for text in ["", "203.0.113.7", "eipalloc-", "eipalloc-x y", "eip-0abc"] {
            assert!(text.parse::<HostAddress>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_address_is_read_with_whoever_has_it_and_a_broken_one_is_refused() {
        let of = |ip: &str| {
            let address = Address::builder().allocation_id("eipalloc-0abc");
            address.public_ip(ip)
        };
        let free = elastic_ip(&of("203.0.113.7").build()).unwrap();
        assert_eq!(free.to_string(), "203.0.113.7 (eipalloc-0abc)");
        assert!(!free.is_held && free.holder.is_none());
        // A NAT gateway's has no instance.
        let other = of("203.0.113.7").association_id("eipassoc-0abc");
        let other = elastic_ip(&other.build()).unwrap();
        assert!(other.is_held && other.holder.is_none());
        let held = of("203.0.113.7").instance_id("i-0abc").build();
        let held = elastic_ip(&held).unwrap();
        assert_eq!(held.holder, Some("i-0abc".parse().unwrap()));
        for broken in ["", "here", "2001:db8::7"] {
            assert!(elastic_ip(&of(broken).build()).is_err(), "{broken}");
        }
    }
}
