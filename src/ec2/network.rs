//! The account's network: VPCs, subnets, and the routes that lead there from outside.
//!
//! Only reads. Ingress rules are in [`super::group`].

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{self as sdk, Filter, RouteState, RouteTable};

use super::pages::read_pages;
use super::{Cidr, Ec2, Error, Zone, convert};
use crate::ids::{SubnetId, VpcId};

/// A subnet: one zone's part of a VPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    /// The subnet's id.
    pub id: SubnetId,
    /// The VPC that it is a part of.
    pub vpc: VpcId,
    /// The zone that it is in: all its instances are.
    pub zone: Zone,
    /// The subnet's private IPv4 addresses; none if it has none.
    pub range: Option<Cidr>,
    /// Whether it is the default one of its zone.
    pub is_default: bool,
    /// Whether its instances get a public IPv4 address (`MapPublicIpOnLaunch`).
    pub maps_public: bool,
    /// Whether they get an IPv6 address (`AssignIpv6AddressOnCreation`).
    pub assigns_ipv6: bool,
    /// How VPC Block Public Access keeps the internet from its instances (VPC user guide, *Block
    /// public access to VPCs and subnets*): `block-ingress` or `block-bidirectional`; none if it is
    /// off.
    pub blocked: Option<String>,
}

/// The targets of a subnet's active routes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes {
    /// Whether IPv4 traffic goes to an internet gateway, without which a public address is of no
    /// use (VPC user guide, *Enable internet access for a VPC using an internet gateway*).
    pub internet: bool,
    /// Whether IPv6 traffic does.
    pub internet_ipv6: bool,
    /// The networks reached without an internet gateway: its own VPC, and those behind a VPN, a
    /// peering connection or a transit gateway. No default route is among them.
    pub networks: Vec<Cidr>,
}

impl Ec2 {
    /// The region's default VPC (`DescribeVpcs`); `None` if it was deleted.
    pub async fn default_vpc(&self) -> Result<Option<VpcId>, Error> {
        const CALL: &str = "DescribeVpcs";
        let is_default = Filter::builder().name("is-default").values("true").build();
        let answer = self
            .patient
            .describe_vpcs()
            .filters(is_default)
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        answer
            .vpcs()
            .first()
            .map(|vpc| convert::id("the default VPC's id", vpc.vpc_id()))
            .transpose()
            .map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// Reads a subnet by id (`DescribeSubnets`); [`super::Kind::NotFound`] if there is none.
    pub async fn subnet(&self, id: &SubnetId) -> Result<Subnet, Error> {
        const CALL: &str = "DescribeSubnets";
        let answer = self
            .patient
            .describe_subnets()
            .subnet_ids(id.as_str())
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        let subnet = answer
            .subnets()
            .first()
            .ok_or_else(|| Error::unreadable(CALL, "no subnet is in it"))?;
        parse(subnet).map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// The default subnets of the region's zones (`DescribeSubnets`); a zone may have none.
    pub async fn default_subnets(&self) -> Result<Vec<Subnet>, Error> {
        const CALL: &str = "DescribeSubnets";
        let is_default = Filter::builder()
            .name("default-for-az")
            .values("true")
            .build();
        let answer = self
            .patient
            .describe_subnets()
            .filters(is_default)
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        let subnets = answer.subnets().iter().map(parse);
        subnets
            .collect::<Result<_, _>>()
            .map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// The routes of these subnets of one VPC (`DescribeRouteTables`): those of a subnet's own
    /// table, else of the VPC's main one.
    pub async fn routes(
        &self,
        vpc: &VpcId,
        subnets: &[Subnet],
    ) -> Result<BTreeMap<SubnetId, Routes>, Error> {
        const CALL: &str = "DescribeRouteTables";
        let of_vpc = Filter::builder().name("vpc-id").values(vpc.as_str());
        let pages = self
            .patient
            .describe_route_tables()
            .filters(of_vpc.build())
            .into_paginator()
            .send();
        let tables = read_pages(CALL, pages, |page| {
            Ok(page.route_tables.unwrap_or_default())
        })
        .await?;
        let main = tables.iter().find(|table| {
            let mut all = table.associations().iter();
            all.any(|association| association.main() == Some(true))
        });
        let own = |subnet: &Subnet| {
            tables.iter().find(|table| {
                let mut all = table.associations().iter();
                all.any(|association| association.subnet_id() == Some(subnet.id.as_str()))
            })
        };
        let found = subnets.iter().map(|subnet| {
            let table = own(subnet).or(main);
            (subnet.id.clone(), table.map(leads).unwrap_or_default())
        });
        Ok(found.collect())
    }
}

fn parse(answer: &sdk::Subnet) -> Result<Subnet, String> {
    let id: SubnetId = convert::id("a subnet's id", answer.subnet_id())?;
    let about = |what: &str| format!("{id}'s {what}");
    Ok(Subnet {
        vpc: convert::id(&about("VPC"), answer.vpc_id())?,
        zone: convert::zone(&about("zone"), answer.availability_zone())?,
        range: answer.cidr_block().and_then(|range| range.parse().ok()),
        is_default: answer.default_for_az() == Some(true),
        maps_public: answer.map_public_ip_on_launch() == Some(true),
        assigns_ipv6: answer.assign_ipv6_address_on_creation() == Some(true),
        blocked: answer
            .block_public_access_states()
            .and_then(|states| states.internet_gateway_block_mode())
            .filter(|mode| **mode != sdk::BlockPublicAccessMode::Off)
            .map(|mode| mode.as_str().to_owned()),
        id,
    })
}

/// The targets of a table's routes.
fn leads(table: &RouteTable) -> Routes {
    let mut routes = Routes::default();
    let all = table.routes().iter();
    for route in all.filter(|route| route.state() != Some(&RouteState::Blackhole)) {
        let gateway = route.gateway_id().unwrap_or_default();
        if gateway.starts_with("igw-") {
            routes.internet |= route.destination_cidr_block().is_some();
            routes.internet_ipv6 |= route.destination_ipv6_cidr_block().is_some();
            continue;
        }
        let leads_on = gateway == "local"
            || gateway.starts_with("vgw-")
            || route.transit_gateway_id().is_some()
            || route.vpc_peering_connection_id().is_some();
        let to = route.destination_cidr_block();
        let to = to.and_then(|to| to.parse::<Cidr>().ok());
        let to = to.filter(|to| leads_on && !to.is_everyone());
        routes.networks.extend(to);
    }
    routes
}
