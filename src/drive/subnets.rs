//! The subnets that instances are launched in, and how they get an address that this laptop
//! reaches.
//!
//! [`super::Hosts::subnets`] returns them. A subnet that is not among them is left to EC2. Nothing
//! here makes a call.

use crate::ec2::{Subnet, Zone};
use crate::ids::SubnetId;

use super::host_error::HostError;

/// The hint where no address leads to an instance.
const HINT: &str = "--subnet names a subnet with a route to an internet gateway; --proxy-command \
                    goes by another way, and by a VPN --proxy-command 'nc %h %p' --cidr ADDRESS";

/// How the instances of a subnet get an address that this laptop reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The address that their subnet gives, or none if none is needed.
    Given,
    /// The launch asks for a public one.
    Asked,
    /// No address leads there, for this reason.
    Nowhere(String),
}

/// The subnets that a launch may take: of one zone there is at most one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subnets {
    all: Vec<(Subnet, Address)>,
    /// Why the instances of the user's own subnet may be out of reach.
    warning: Option<String>,
}

/// The network part of a launch order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The subnet; none leaves it to EC2.
    pub subnet: Option<SubnetId>,
    /// Whether a public address is asked for.
    pub public_address: bool,
}

impl Subnets {
    /// From the subnets, each with how its instances are reached.
    #[must_use]
    pub fn new(all: Vec<(Subnet, Address)>) -> Self {
        Self { all, warning: None }
    }

    /// Sets the warning.
    #[must_use]
    pub fn with_warning(self, warning: Option<String>) -> Self {
        Self { warning, ..self }
    }

    /// The warning, if there is one.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The network part of a launch in `zone`, or in a zone of EC2's choice; [`HostError::NoRoute`]
    /// where this laptop could not reach the instance.
    pub fn place(&self, zone: Option<&Zone>) -> Result<Place, HostError> {
        let there = |subnet: &Subnet| zone.is_none_or(|zone| subnet.zone == *zone);
        let mut of_use: Vec<&(Subnet, Address)> = self
            .all
            .iter()
            .filter(|(subnet, _)| there(subnet))
            .collect();
        let needs_nothing = |(_, address): &&(Subnet, Address)| *address == Address::Given;
        if of_use.iter().all(needs_nothing) {
            return Ok(Place::default());
        }
        let first = of_use[0];
        of_use.retain(|(_, address)| !matches!(address, Address::Nowhere(_)));
        let given = of_use.iter().find(|it| needs_nothing(it));
        match (given.or(of_use.first()), &first.1) {
            (Some((subnet, address)), _) => Ok(Place {
                subnet: Some(subnet.id.clone()),
                public_address: *address == Address::Asked,
            }),
            (None, Address::Nowhere(why)) => Err(HostError::NoRoute {
                why: format!(
                    "no instance in {} ({}) can be reached from here: {why}",
                    first.0.id, first.0.zone
                ),
                hint: HINT.to_owned(),
            }),
            (None, _) => Ok(Place::default()),
        }
    }

    /// The subnets for whose instances a public address is asked, in words; none if there are none.
    #[must_use]
    pub fn asked(&self) -> Option<String> {
        let asked = self.all.iter().filter(|(_, way)| *way == Address::Asked);
        let names: Vec<&str> = asked.map(|(subnet, _)| subnet.id.as_str()).collect();
        let gives = if names.len() == 1 { "gives" } else { "give" };
        (!names.is_empty()).then(|| {
            format!(
                "{} {gives} no public address: one is asked for",
                names.join(", ")
            )
        })
    }

    /// Whether any instance can be reached: as [`Subnets::place`] in a zone of EC2's choice.
    pub fn check(&self) -> Result<(), HostError> {
        self.place(None).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(number: u32, zone: &str) -> Subnet {
        Subnet {
            id: format!("subnet-{number:017x}").parse().unwrap(),
            vpc: "vpc-0abc".parse().unwrap(),
            zone: Zone(zone.to_owned()),
            range: None,
            is_default: true,
            maps_public: true,
            assigns_ipv6: false,
            blocked: None,
        }
    }

    fn place(number: u32, public_address: bool) -> Place {
        Place {
            subnet: Some(subnet(number, "").id),
            public_address,
        }
    }

    #[test]
    fn subnets_that_give_addresses_are_left_to_ec2_and_others_are_named() {
        let zone = |name: &str| Zone(name.to_owned());
        let (a, b, c, d) = (zone("a"), zone("b"), zone("c"), zone("d"));
        let usual = Subnets::new(vec![
            (subnet(1, "a"), Address::Given),
            (subnet(2, "b"), Address::Given),
        ]);
        for zone in [None, Some(&a), Some(&d)] {
            assert_eq!(usual.place(zone), Ok(Place::default()));
        }
        let mixed = Subnets::new(vec![
            (subnet(1, "a"), Address::Nowhere("no gateway".to_owned())),
            (subnet(2, "b"), Address::Asked),
            (subnet(3, "c"), Address::Given),
        ]);
        assert_eq!(mixed.place(Some(&b)), Ok(place(2, true)));
        assert_eq!(mixed.place(Some(&c)), Ok(Place::default()));
        assert_eq!(mixed.place(Some(&d)), Ok(Place::default()));
        // EC2 would choose any of them.
        assert_eq!(mixed.place(None), Ok(place(3, false)));
        assert_eq!(mixed.check(), Ok(()));
        let Err(HostError::NoRoute { why, .. }) = mixed.place(Some(&a)) else {
            panic!("nobody reaches it");
        };
        assert_eq!(
            why,
            "no instance in subnet-00000000000000001 (a) can be reached from here: no gateway"
        );
        assert_eq!(
            mixed.asked().as_deref(),
            Some("subnet-00000000000000002 gives no public address: one is asked for")
        );
    }

    #[test]
    fn where_nothing_leads_anywhere_nothing_is_launched() {
        let nowhere = |number, zone| (subnet(number, zone), Address::Nowhere("why".to_owned()));
        let shut = Subnets::new(vec![nowhere(1, "a"), nowhere(2, "b")]);
        assert!(matches!(shut.check(), Err(HostError::NoRoute { .. })));
        assert_eq!(shut.asked(), None);
        assert_eq!(Subnets::default().check(), Ok(()));
    }
}
