//! Regions, zones, and the one VPC with a subnet in each zone: the default VPC, unless the settings
//! remove that. They also decide whether its subnets give public addresses, and whether its one
//! route table leads to an internet gateway.

use std::collections::BTreeMap;

use super::filter::{Field, Filters};
use super::page::Page;
use super::request::no_such;
use super::{Answer, Reading};
use crate::catalog;
use crate::wire::{ApiError, Xml};

/// The error for a request without a VPC, where there is no default one.
pub(super) fn no_default_vpc() -> ApiError {
    ApiError::client("VPCIdNotSpecified", "No default VPC for this user.")
}

/// `DescribeRegions`.
pub(super) fn regions(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    request.flag("AllRegions")?;
    let names = request.list("RegionName");
    if let Some(name) = names.iter().find(|name| !catalog::REGIONS.contains(name)) {
        return Err(ApiError::client(
            "InvalidParameterValue",
            format!("Invalid region: [{name}]"),
        ));
    }
    let filters = Filters::new(
        request,
        &["endpoint", "opt-in-status", "region-name"],
        false,
    )?;
    let mut items = Vec::new();
    for name in catalog::REGIONS {
        let endpoint = format!("ec2.{name}.amazonaws.com");
        let passes = filters.pass(&BTreeMap::new(), |filter| match filter {
            "endpoint" => Field::one(&endpoint),
            "opt-in-status" => Field::one("opt-in-not-required"),
            "region-name" => Field::one(name),
            _ => Field::Unknown,
        })?;
        if passes && (names.is_empty() || names.contains(&name)) {
            items.push(vec![
                Xml::text("regionName", name),
                Xml::text("regionEndpoint", endpoint),
                Xml::text("optInStatus", "opt-in-not-required"),
            ]);
        }
    }
    Ok(vec![Xml::list("regionInfo", items)])
}

/// `DescribeAvailabilityZones`.
pub(super) fn zones(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    request.flag("AllAvailabilityZones")?;
    let zones = catalog::zones(&reading.inner.region);
    let (names, ids) = (request.list("ZoneName"), request.list("ZoneId"));
    for name in &names {
        super::request::zone(&reading.inner.region, name)?;
    }
    if let Some(id) = ids
        .iter()
        .find(|id| !zones.iter().any(|zone| zone.id == **id))
    {
        return Err(ApiError::client(
            "InvalidParameterValue",
            format!("Invalid availability zone-id: [{id}]"),
        ));
    }
    let filters = Filters::new(
        request,
        &[
            "opt-in-status",
            "region-name",
            "state",
            "zone-id",
            "zone-name",
            "zone-type",
        ],
        false,
    )?;
    let mut items = Vec::new();
    for zone in &zones {
        let passes = filters.pass(&BTreeMap::new(), |filter| match filter {
            "opt-in-status" => Field::one("opt-in-not-required"),
            "region-name" => Field::one(&reading.inner.region),
            "state" => Field::one("available"),
            "zone-id" => Field::one(&zone.id),
            "zone-name" => Field::one(&zone.name),
            "zone-type" => Field::one("availability-zone"),
            _ => Field::Unknown,
        })?;
        let wanted = (names.is_empty() || names.contains(&zone.name.as_str()))
            && (ids.is_empty() || ids.contains(&zone.id.as_str()));
        if passes && wanted {
            items.push(vec![
                Xml::text("zoneName", &zone.name),
                Xml::text("zoneId", &zone.id),
                Xml::text("zoneState", "available"),
                Xml::text("zoneType", "availability-zone"),
                Xml::text("regionName", &reading.inner.region),
                Xml::text("groupName", &reading.inner.region),
                Xml::text("networkBorderGroup", &reading.inner.region),
                Xml::text("optInStatus", "opt-in-not-required"),
                Xml::node("messageSet", []),
            ]);
        }
    }
    Ok(vec![Xml::list("availabilityZoneInfo", items)])
}

/// `DescribeSubnets`.
pub(super) fn subnets(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let zones = catalog::zones(&reading.inner.region);
    let ids = request.list("SubnetId");
    if let Some(id) = ids
        .iter()
        .find(|id| !zones.iter().any(|zone| zone.subnet == **id))
    {
        return Err(no_such("subnet-", id));
    }
    let filters = Filters::new(
        request,
        &[
            "availability-zone",
            "availabilityZone",
            "availability-zone-id",
            "cidr-block",
            "default-for-az",
            "defaultForAz",
            "map-public-ip-on-launch",
            "owner-id",
            "state",
            "subnet-id",
            "vpc-id",
        ],
        true,
    )?;
    let page = Page::new(request, "DescribeSubnets", 5, !ids.is_empty())?;
    let mut found = Vec::new();
    for zone in zones {
        let passes = filters.pass(&BTreeMap::new(), |filter| match filter {
            "availability-zone" | "availabilityZone" => Field::one(&zone.name),
            "availability-zone-id" => Field::one(&zone.id),
            "cidr-block" => Field::one(&zone.cidr),
            "default-for-az" | "defaultForAz" => Field::one(reading.inner.default_vpc),
            "map-public-ip-on-launch" => Field::one(reading.inner.map_public_ip),
            "owner-id" => Field::one(catalog::ACCOUNT),
            "state" => Field::one("available"),
            "subnet-id" => Field::one(&zone.subnet),
            "vpc-id" => Field::one(catalog::VPC),
            _ => Field::Unknown,
        })?;
        if passes && (ids.is_empty() || ids.contains(&zone.subnet.as_str())) {
            let item = vec![
                Xml::text("subnetId", &zone.subnet),
                Xml::text("state", "available"),
                Xml::text("vpcId", catalog::VPC),
                Xml::text("cidrBlock", &zone.cidr),
                // EC2 keeps five addresses of each subnet for itself.
                Xml::text("availableIpAddressCount", 4091),
                Xml::text("availabilityZone", &zone.name),
                Xml::text("availabilityZoneId", &zone.id),
                Xml::text("defaultForAz", reading.inner.default_vpc),
                Xml::text("mapPublicIpOnLaunch", reading.inner.map_public_ip),
                Xml::text("assignIpv6AddressOnCreation", false),
                Xml::node(
                    "blockPublicAccessStates",
                    [Xml::text(
                        "internetGatewayBlockMode",
                        &reading.inner.block_public_access,
                    )],
                ),
                Xml::text("ownerId", catalog::ACCOUNT),
                Xml::node("tagSet", []),
            ];
            found.push((zone.subnet, item));
        }
    }
    Ok(page.answer("subnetSet", found))
}

/// `DescribeVpcs`.
pub(super) fn vpcs(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let ids = request.list("VpcId");
    if let Some(id) = ids.iter().find(|id| **id != catalog::VPC) {
        return Err(no_such("vpc-", id));
    }
    let filters = Filters::new(
        request,
        &[
            "cidr",
            "cidr-block-association.cidr-block",
            "is-default",
            "isDefault",
            "owner-id",
            "state",
            "vpc-id",
        ],
        true,
    )?;
    let page = Page::new(request, "DescribeVpcs", 5, !ids.is_empty())?;
    let passes = filters.pass(&BTreeMap::new(), |filter| match filter {
        "cidr" => Field::one(catalog::VPC_CIDR),
        "cidr-block-association.cidr-block" => Field::many(&reading.inner.vpc_cidrs),
        "is-default" | "isDefault" => Field::one(reading.inner.default_vpc),
        "owner-id" => Field::one(catalog::ACCOUNT),
        "state" => Field::one("available"),
        "vpc-id" => Field::one(catalog::VPC),
        _ => Field::Unknown,
    })?;
    let associations = (1..).zip(&reading.inner.vpc_cidrs).map(|(number, cidr)| {
        vec![
            Xml::text("associationId", format!("vpc-cidr-assoc-{number:017x}")),
            Xml::text("cidrBlock", cidr),
            Xml::node("cidrBlockState", [Xml::text("state", "associated")]),
        ]
    });
    let item = vec![
        Xml::text("vpcId", catalog::VPC),
        Xml::text("state", "available"),
        Xml::text("cidrBlock", catalog::VPC_CIDR),
        Xml::list("cidrBlockAssociationSet", associations),
        Xml::text("instanceTenancy", "default"),
        Xml::text("isDefault", reading.inner.default_vpc),
        Xml::text("ownerId", catalog::ACCOUNT),
        Xml::node("tagSet", []),
    ];
    let found = passes.then(|| (catalog::VPC.to_owned(), item));
    Ok(page.answer("vpcSet", found))
}

/// `DescribeRouteTables`: the VPC's main one, which all its subnets use.
pub(super) fn route_tables(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let ids = request.list("RouteTableId");
    if let Some(id) = ids.iter().find(|id| **id != catalog::ROUTES) {
        return Err(no_such("rtb-", id));
    }
    let filters = Filters::new(
        request,
        &[
            "association.main",
            "association.subnet-id",
            "owner-id",
            "route-table-id",
            "vpc-id",
        ],
        true,
    )?;
    let page = Page::new(request, "DescribeRouteTables", 5, !ids.is_empty())?;
    let passes = filters.pass(&BTreeMap::new(), |filter| match filter {
        "association.main" => Field::one(true),
        // No subnet is associated with it: all use it as the main one.
        "association.subnet-id" => Field::maybe(None::<&str>),
        "owner-id" => Field::one(catalog::ACCOUNT),
        "route-table-id" => Field::one(catalog::ROUTES),
        "vpc-id" => Field::one(catalog::VPC),
        _ => Field::Unknown,
    })?;
    let route = |destination: &'static str, gateway: &'static str, origin: &'static str| {
        vec![
            Xml::text("destinationCidrBlock", destination),
            Xml::text("gatewayId", gateway),
            Xml::text("state", "active"),
            Xml::text("origin", origin),
        ]
    };
    let mut routes = vec![route(catalog::VPC_CIDR, "local", "CreateRouteTable")];
    if reading.inner.internet_gateway {
        routes.push(route("0.0.0.0/0", catalog::GATEWAY, "CreateRoute"));
    }
    let item = vec![
        Xml::text("routeTableId", catalog::ROUTES),
        Xml::text("vpcId", catalog::VPC),
        Xml::list("routeSet", routes),
        Xml::list(
            "associationSet",
            [vec![
                Xml::text("routeTableAssociationId", "rtbassoc-00000000000000001"),
                Xml::text("routeTableId", catalog::ROUTES),
                Xml::text("main", true),
            ]],
        ),
        Xml::text("ownerId", catalog::ACCOUNT),
        Xml::node("tagSet", []),
    ];
    let found = passes.then(|| (catalog::ROUTES.to_owned(), item));
    Ok(page.answer("routeTableSet", found))
}
