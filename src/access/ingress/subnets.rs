//! The kind of address by which this laptop will reach a subnet's instances.
//!
//! A public address that the subnet gives or the launch requests; an IPv6 one, if both ends have
//! IPv6; a private one, if this laptop is in the VPC or has a network that leads there, such as a
//! VPN; any, with a proxy command. What EC2 refuses to describe is assumed to be as usual: a
//! missing right must not prevent a launch.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::source;
use crate::config::Reach;
use crate::drive::HostError;
use crate::drive::subnets::{Address, Subnets};
use crate::ec2::{Ec2, Error, Kind, Routes, Subnet};
use crate::ids::VpcId;

/// Addresses that only a default route leads to: one for documentation (RFC 5737), one of AWS's.
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
const FAR_IPV6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2600, 0x1f00, 0, 0, 0, 0, 0, 1));

/// The VPC to launch in, and how its instances are reached: in the subnet `named`, else in the
/// default subnets of the zones.
pub(crate) async fn look(
    ec2: &Ec2,
    named: Option<&Subnet>,
    reach: &Reach,
) -> Result<(VpcId, Subnets), HostError> {
    let (vpc, subnets) = match named {
        Some(subnet) => (Ok(Some(subnet.vpc.clone())), Ok(vec![subnet.clone()])),
        None if reach.proxy.is_some() => (ec2.default_vpc().await, Ok(Vec::new())),
        None => tokio::join!(ec2.default_vpc(), ec2.default_subnets()),
    };
    let vpc = vpc
        .map_err(HostError::Ec2)?
        .ok_or_else(|| HostError::NoRoute {
            why: format!("there is no default VPC in {}", ec2.region()),
            hint: "--subnet names a subnet to launch in; `aws ec2 create-default-vpc` makes a \
                   default VPC again"
                .to_owned(),
        })?;
    if reach.proxy.is_some() {
        return Ok((vpc, Subnets::default()));
    }
    let subnets = unless_denied(subnets)?.unwrap_or_default();
    // For subnets as AWS makes them no routes need be read.
    let is_usual =
        |subnet: &Subnet| subnet.is_default && subnet.maps_public && subnet.blocked.is_none();
    let routes = if subnets.iter().all(is_usual) {
        None
    } else {
        unless_denied(ec2.routes(&vpc, &subnets).await)?
    };
    let mut warning = None;
    let found = subnets.into_iter().map(|subnet| {
        let routes = routes.as_ref().and_then(|routes| routes.get(&subnet.id));
        let routes = routes.filter(|_| !is_usual(&subnet));
        let here = Here::towards(&subnet, ec2);
        let address = match blocked(&subnet, routes, &here) {
            // Whether EC2's answer knows of exclusions is documented nowhere: who names a subnet may
            // know better.
            Some(why) if named.is_some() => {
                warning = Some(format!("warning: {}: {why}", subnet.id));
                address(&subnet, routes, &here)
            }
            Some(why) => Address::Nowhere(why),
            None => address(&subnet, routes, &here),
        };
        (subnet, address)
    });
    let found = found.collect();
    Ok((vpc, Subnets::new(found).with_warning(warning)))
}

/// Why VPC Block Public Access keeps this computer from the instances of `subnet`; none if it does not.
fn blocked(subnet: &Subnet, routes: Option<&Routes>, here: &Here) -> Option<String> {
    let mode = subnet.blocked.as_ref()?;
    (!here.is_private(routes)).then(|| {
        format!(
            "VPC Block Public Access ({mode}) keeps what comes from the internet from its instances"
        )
    })
}

/// The answer; `None` if the right is missing, which must not prevent a launch.
fn unless_denied<T>(answer: Result<T, Error>) -> Result<Option<T>, HostError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind == Kind::Denied => Ok(None),
        Err(error) => Err(HostError::Ec2(error)),
    }
}

/// The laptop's own routes to a subnet.
#[derive(Debug, Clone, Copy, Default)]
struct Here {
    /// Whether it has a route to IPv6 addresses.
    ipv6: bool,
    /// The address from which it sends to the subnet's private ones.
    from: Option<IpAddr>,
    /// Whether it sends there from another address than to the internet.
    by_own_network: bool,
}

impl Here {
    /// With an endpoint in AWS's place, its subnets are not in this computer's networks.
    fn towards(subnet: &Subnet, ec2: &Ec2) -> Self {
        let private = subnet.range.filter(|_| ec2.is_aws());
        let from = private.and_then(|range| source(range.router()));
        Self {
            ipv6: source(FAR_IPV6).is_some(),
            from,
            by_own_network: from.is_some() && from != source(FAR),
        }
    }

    /// Whether it reaches the private addresses of a subnet with these routes.
    fn is_private(&self, routes: Option<&Routes>) -> bool {
        let networks = routes.map_or(&[][..], |routes| &routes.networks);
        let is_known = |from: IpAddr| networks.iter().any(|network| network.contains(from));
        self.by_own_network || self.from.is_some_and(is_known)
    }
}

/// How the instances of `subnet` are reached; `routes` are `None` if unknown or irrelevant.
fn address(subnet: &Subnet, routes: Option<&Routes>, here: &Here) -> Address {
    let Some(routes) = routes else {
        return if subnet.maps_public {
            Address::Given
        } else {
            Address::Asked
        };
    };
    let by_ipv6 = subnet.assigns_ipv6 && routes.internet_ipv6;
    if routes.internet && !subnet.maps_public {
        Address::Asked
    } else if routes.internet || by_ipv6 && here.ipv6 || here.is_private(Some(routes)) {
        Address::Given
    } else {
        let ipv6 = match (by_ipv6, subnet.assigns_ipv6) {
            (true, _) => "this computer has no IPv6, by which they would be reached",
            (false, true) => "its IPv6 does not leave the VPC either",
            (false, false) => "it gives no IPv6 addresses",
        };
        Address::Nowhere(format!(
            "its routes lead to no internet gateway, so that a public address is of no use, and {ipv6}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2::Zone;

    fn subnet(maps_public: bool, assigns_ipv6: bool) -> Subnet {
        Subnet {
            id: "subnet-0abc".parse().unwrap(),
            vpc: "vpc-0abc".parse().unwrap(),
            zone: Zone("us-east-1a".to_owned()),
            range: "10.7.0.0/20".parse().ok(),
            is_default: false,
            maps_public,
            assigns_ipv6,
            blocked: None,
        }
    }

    fn routes(internet: bool, internet_ipv6: bool) -> Routes {
        Routes {
            internet,
            internet_ipv6,
            networks: vec![
                "10.7.0.0/16".parse().unwrap(),
                "10.9.0.0/16".parse().unwrap(),
            ],
        }
    }

    fn way(subnet: &Subnet, routes: &Routes, here: Here) -> &'static str {
        match address(subnet, Some(routes), &here) {
            Address::Given => "given",
            Address::Asked => "asked",
            Address::Nowhere(why) if why.contains("this computer has no IPv6") => "no IPv6 here",
            Address::Nowhere(_) => "nowhere",
        }
    }

    #[test]
    fn an_address_is_asked_for_where_a_gateway_is_and_the_subnet_gives_none() {
        let here = Here::default();
        assert_eq!(
            way(&subnet(true, false), &routes(true, false), here),
            "given"
        );
        assert_eq!(
            way(&subnet(false, false), &routes(true, false), here),
            "asked"
        );
        // Without a gateway no public address helps, given or requested.
        for maps_public in [true, false] {
            let subnet = subnet(maps_public, false);
            assert_eq!(way(&subnet, &routes(false, false), here), "nowhere");
        }
    }

    #[test]
    fn ipv6_leads_there_if_both_ends_have_it() {
        let here = Here {
            ipv6: true,
            ..Here::default()
        };
        assert_eq!(
            way(&subnet(false, true), &routes(false, true), here),
            "given"
        );
        let not_here = Here::default();
        assert_eq!(
            way(&subnet(false, true), &routes(false, true), not_here),
            "no IPv6 here"
        );
        assert_eq!(
            way(&subnet(false, true), &routes(false, false), here),
            "nowhere"
        );
        assert_eq!(
            way(&subnet(false, false), &routes(false, true), here),
            "nowhere"
        );
    }

    #[test]
    fn a_private_address_leads_there_from_within_and_by_a_vpn() {
        let from = |from: &str, by_own_network| Here {
            ipv6: false,
            from: from.parse().ok(),
            by_own_network,
        };
        let shut = (subnet(false, false), routes(false, false));
        for (here, expected) in [
            (from("10.7.3.4", false), "given"),
            (from("10.9.3.4", false), "given"),
            (from("192.168.1.4", true), "given"),
            (from("192.168.1.4", false), "nowhere"),
        ] {
            assert_eq!(way(&shut.0, &shut.1, here), expected, "{here:?}");
        }
    }

    #[test]
    fn blocked_public_access_leaves_private_ways_alone() {
        let shut = Subnet {
            blocked: Some("block-ingress".to_owned()),
            ..subnet(true, false)
        };
        let open = routes(true, true);
        let far = Here {
            from: "192.168.1.4".parse().ok(),
            ..Here::default()
        };
        let within = Here {
            from: "10.7.3.4".parse().ok(),
            ..Here::default()
        };
        let by_vpn = Here {
            by_own_network: true,
            ..far
        };
        let why = |routes, here| blocked(&shut, routes, &here);
        assert!(why(Some(&open), far).is_some_and(|why| why.contains("block-ingress")));
        assert_eq!(why(Some(&open), within), None);
        assert_eq!(why(Some(&open), by_vpn), None);
        // Without the right to read routes.
        assert!(why(None, within).is_some());
        assert_eq!(blocked(&subnet(true, false), None, &far), None);
    }

    #[test]
    fn without_a_look_at_its_routes_a_subnet_counts_as_reachable() {
        let address = |maps_public| address(&subnet(maps_public, false), None, &Here::default());
        assert_eq!(address(true), Address::Given);
        assert_eq!(address(false), Address::Asked);
    }
}
