//! The parameters of `RunInstances`, checked: nothing is launched before all of them are right.

use std::collections::BTreeMap;

use super::images;
use super::network::no_default_vpc;
use super::request::{Request, bad_value, flag, no_such, number, zone};
use super::reservations;
use crate::catalog::{self, InstanceType, Zone};
use crate::change::Change;
use crate::records::Token;
use crate::wire::{ApiError, blob};

/// An order of instances, checked.
pub(super) struct Order {
    pub(super) token: Option<Token>,
    pub(super) image: String,
    pub(super) kind: &'static InstanceType,
    pub(super) count: u32,
    pub(super) zone: Zone,
    pub(super) groups: Vec<String>,
    /// Whether it gets a public address.
    pub(super) public: bool,
    pub(super) user_data: Vec<u8>,
    pub(super) market: Market,
    pub(super) terminates_itself: bool,
    /// The ARN of an instance profile.
    pub(super) profile: Option<String>,
    /// The id of the capacity reservation to launch it in.
    pub(super) capacity: Option<String>,
    pub(super) tokens_required: bool,
    pub(super) hop_limit: u32,
    pub(super) root: Root,
    pub(super) tags: BTreeMap<String, BTreeMap<String, String>>,
}

/// How it is paid for.
pub(super) enum Market {
    OnDemand,
    /// One-time spot, at no more than this price, if given.
    Spot {
        max_price: Option<String>,
    },
}

/// The requested root disk.
pub(super) struct Root {
    pub(super) gib: u32,
    pub(super) kind: String,
    pub(super) encrypted: bool,
    pub(super) delete_on_termination: bool,
}

/// Checks the parameters of `RunInstances`.
pub(super) fn order(
    request: Request<'_>,
    change: &Change<'_>,
    token: Option<Token>,
) -> Result<Order, ApiError> {
    if let Some(key) = request.text("KeyName") {
        return Err(ApiError::client(
            "InvalidKeyPair.NotFound",
            format!("The key pair '{key}' does not exist"),
        ));
    }
    let name = request.text("InstanceType").unwrap_or("m5.large");
    let kind = InstanceType::find(name).ok_or_else(|| {
        ApiError::client(
            "InvalidParameterValue",
            format!("Invalid value '{name}' for InstanceType."),
        )
    })?;
    // Before the image: instances are namespaces of this computer and run its programs only, so
    // these zones lack types of the other architecture.
    if kind.architecture != catalog::ARCHITECTURE {
        return Err(ApiError::client(
            "Unsupported",
            format!(
                "The requested configuration is currently not supported: {name} runs {} programs, \
                 and the EC2 in a folder those of this computer, {}.",
                kind.architecture,
                catalog::ARCHITECTURE
            ),
        ));
    }
    let profile = profile(request, change)?;
    let image = images::resolve(change.local, request.required("ImageId")?)?;
    let interface = interface(request)?;
    let terminates_itself = match request.text("InstanceInitiatedShutdownBehavior") {
        None | Some("stop") => false,
        Some("terminate") => true,
        Some(value) => return Err(bad_value(value, "instanceInitiatedShutdownBehavior")),
    };
    let user_data = request.text("UserData").unwrap_or_default();
    let user_data = blob::decode(user_data).ok_or_else(|| {
        ApiError::client(
            "InvalidUserData.Malformed",
            "Invalid BASE64 encoding of user data.",
        )
    })?;
    if user_data.len() > 16 * 1024 {
        return Err(ApiError::client(
            "InvalidParameterValue",
            "User data is limited to 16384 bytes",
        ));
    }
    let (tokens_required, hop_limit) = metadata(request)?;
    let zone = pick_zone(request, change, interface.subnet)?;
    let market = market(request)?;
    afford(kind, &zone, &market, change)?;
    let count = count(request)?;
    let is_spot = matches!(market, Market::Spot { .. });
    let capacity = reservations::target(request, (name, &zone.name, count), is_spot, change)?;
    Ok(Order {
        token,
        image,
        kind,
        count,
        capacity,
        zone,
        groups: pick_groups(request, change, interface.groups)?,
        public: interface.public.unwrap_or(change.local.maps_public_ip()),
        user_data,
        market,
        terminates_itself,
        profile,
        tokens_required,
        hop_limit,
        root: root(request, change.local.root_device())?,
        tags: request.tag_specifications(&[
            "instance",
            "volume",
            "network-interface",
            "spot-instances-request",
        ])?,
    })
}

/// The ARN of the requested instance profile, given by name or ARN: one in the settings.
fn profile(request: Request<'_>, change: &Change<'_>) -> Result<Option<String>, ApiError> {
    let known = change.local.instance_profiles();
    let mut known = known.map(|name| (name, catalog::instance_profile(name)));
    let (by, given, found) = match (
        request.text("IamInstanceProfile.Name"),
        request.text("IamInstanceProfile.Arn"),
    ) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(ApiError::client(
                "InvalidParameterCombination",
                "The parameter 'iamInstanceProfile.name' may not be used in combination with \
                 'iamInstanceProfile.arn'",
            ));
        }
        (Some(name), None) => ("name", name, known.find(|(known, _)| *known == name)),
        (None, Some(arn)) => ("ARN", arn, known.find(|(_, known)| known == arn)),
    };
    found.map(|(_, arn)| Some(arn)).ok_or_else(|| {
        let parameter = format!("iamInstanceProfile.{}", by.to_lowercase());
        let mut error = bad_value(given, &parameter);
        error.message = format!("{} Invalid IAM Instance Profile {by}", error.message);
        error
    })
}

/// The number of instances, between one and twenty.
fn count(request: Request<'_>) -> Result<u32, ApiError> {
    let count = request.number("MaxCount")?.unwrap_or(1);
    let least = request.number("MinCount")?.unwrap_or(1);
    if least == 0 || count < least {
        return Err(ApiError::client(
            "InvalidParameterValue",
            format!(
                "Value ({count}) for parameter maxCount is invalid. Expected a value of at least minCount ({least})"
            ),
        ));
    }
    if count > 20 {
        return Err(ApiError::client(
            "InstanceLimitExceeded",
            format!(
                "You have requested more instances ({count}) than your current instance limit of 20 allows"
            ),
        ));
    }
    Ok(count)
}

/// Whether the metadata service demands tokens, and the hop limit of its answers.
fn metadata(request: Request<'_>) -> Result<(bool, u32), ApiError> {
    let tokens_required = match request.text("MetadataOptions.HttpTokens") {
        None | Some("optional") => false,
        Some("required") => true,
        Some(value) => return Err(bad_value(value, "httpTokens")),
    };
    if let Some(value) = request
        .text("MetadataOptions.HttpEndpoint")
        .filter(|v| *v != "enabled")
    {
        return Err(bad_value(value, "httpEndpoint"));
    }
    let hop_limit = request
        .number("MetadataOptions.HttpPutResponseHopLimit")?
        .unwrap_or(2);
    if !(1..=64).contains(&hop_limit) {
        return Err(bad_value(&hop_limit.to_string(), "httpPutResponseHopLimit"));
    }
    Ok((tokens_required, hop_limit))
}

/// The network interface that a request may have in place of subnet and groups.
struct Interface<'a> {
    subnet: Option<&'a str>,
    groups: Vec<&'a str>,
    /// Whether to give a public address; `None` leaves that to the subnet.
    public: Option<bool>,
}

fn interface(request: Request<'_>) -> Result<Interface<'_>, ApiError> {
    let all = request.params().structs("NetworkInterface");
    let subnet = request.text("NetworkInterface.1.SubnetId");
    let groups = request.list("NetworkInterface.1.SecurityGroupId");
    if all.len() > 1 {
        return Err(ApiError::client(
            "UnsupportedOperation",
            "Instances of the EC2 in a folder have one network interface",
        ));
    }
    let direct = request.text("SubnetId").is_some()
        || !request.list("SecurityGroupId").is_empty()
        || !request.list("SecurityGroup").is_empty();
    if !all.is_empty() && direct {
        return Err(ApiError::client(
            "InvalidParameterCombination",
            "Network interfaces and an instance-level subnet ID or security groups may not be \
             specified on the same request",
        ));
    }
    let Some(first) = all.first() else {
        return Ok(Interface {
            subnet,
            groups,
            public: None,
        });
    };
    if number(first, "DeviceIndex")? != Some(0) {
        return Err(ApiError::client(
            "InvalidParameterValue",
            "Each network interface requires a device index, and the first is 0.",
        ));
    }
    Ok(Interface {
        subnet,
        groups,
        public: flag(first, "AssociatePublicIpAddress")?,
    })
}

fn pick_zone(
    request: Request<'_>,
    change: &Change<'_>,
    interface_subnet: Option<&str>,
) -> Result<Zone, ApiError> {
    let region = change.local.region();
    let asked = request.text("Placement.AvailabilityZone");
    let subnet = match request.text("SubnetId").or(interface_subnet) {
        None => None,
        Some(id) => {
            let zones = catalog::zones(region);
            let zone = zones.into_iter().find(|zone| zone.subnet == id);
            Some(zone.ok_or_else(|| no_such("subnet-", id))?)
        }
    };
    if let Some(value) = request
        .text("Placement.Tenancy")
        .filter(|v| *v != "default")
    {
        return Err(bad_value(value, "tenancy"));
    }
    match (asked, subnet) {
        (_, None) if !change.local.has_default_vpc() => Err(no_default_vpc()),
        (Some(name), None) => zone(region, name),
        (Some(name), Some(subnet)) if subnet.name != name => Err(ApiError::client(
            "InvalidParameterCombination",
            format!(
                "The availability zone '{name}' is not that of the subnet {}",
                subnet.subnet
            ),
        )),
        (_, Some(subnet)) => Ok(subnet),
        (None, None) => {
            // EC2 chooses: here each launch goes to the next zone.
            let mut zones = catalog::zones(region);
            let next = change.world.launches as usize % zones.len();
            Ok(zones.swap_remove(next))
        }
    }
}

fn pick_groups(
    request: Request<'_>,
    change: &Change<'_>,
    interface_groups: Vec<&str>,
) -> Result<Vec<String>, ApiError> {
    let groups = &change.world.groups;
    let mut picked = Vec::new();
    for id in request
        .list("SecurityGroupId")
        .into_iter()
        .chain(interface_groups)
    {
        if !groups.contains_key(id) {
            return Err(no_such("sg-", id));
        }
        picked.push(id.to_owned());
    }
    for name in request.list("SecurityGroup") {
        let id = groups
            .iter()
            .find(|(_, group)| group.name == name)
            .map(|(id, _)| id.clone());
        picked.push(id.ok_or_else(|| {
            ApiError::client(
                "InvalidGroup.NotFound",
                format!(
                    "The security group '{name}' does not exist in default VPC '{}'",
                    catalog::VPC
                ),
            )
        })?);
    }
    if picked.is_empty() {
        picked.push(catalog::DEFAULT_GROUP.to_owned());
    }
    Ok(picked)
}

fn market(request: Request<'_>) -> Result<Market, ApiError> {
    const SPOT: &str = "InstanceMarketOptions.SpotOptions";
    match request.text("InstanceMarketOptions.MarketType") {
        None => return Ok(Market::OnDemand),
        Some("spot") => {}
        Some(value) => return Err(bad_value(value, "marketType")),
    }
    let kind = request
        .text(&format!("{SPOT}.SpotInstanceType"))
        .unwrap_or("one-time");
    let behaviour = request
        .text(&format!("{SPOT}.InstanceInterruptionBehavior"))
        .unwrap_or("terminate");
    match (kind, behaviour) {
        ("one-time", "terminate") => {}
        ("persistent", _) | (_, "stop" | "hibernate") => {
            return Err(ApiError::client(
                "UnsupportedOperation",
                "The EC2 in a folder has one-time spot requests that end by terminate",
            ));
        }
        _ => return Err(bad_value(kind, "spotInstanceType")),
    }
    let price = request.text(&format!("{SPOT}.MaxPrice"));
    if let Some(price) = price {
        price
            .parse::<f64>()
            .ok()
            .filter(|price| *price > 0.0)
            .ok_or_else(|| {
                ApiError::client(
                    "InvalidParameterValue",
                    format!("Invalid value '{price}' for maxPrice"),
                )
            })?;
    }
    Ok(Market::Spot {
        max_price: price.map(str::to_owned),
    })
}

/// Refuses spot whose price is above the maximum price.
fn afford(
    kind: &InstanceType,
    zone: &Zone,
    market: &Market,
    change: &Change<'_>,
) -> Result<(), ApiError> {
    let Market::Spot {
        max_price: Some(most),
    } = market
    else {
        return Ok(());
    };
    let zones = catalog::zones(change.local.region());
    let index = zones.iter().position(|known| known == zone);
    let price = kind.spot_price(index.unwrap_or_default());
    let millionths = most.parse::<f64>().unwrap_or_default() * 1e6;
    if millionths >= f64::from(price) {
        return Ok(());
    }
    Err(ApiError::client(
        "SpotMaxPriceTooLow",
        format!(
            "Your Spot request price of {most} is lower than the minimum required Spot request \
             fulfillment price of {}.",
            catalog::dollars(price)
        ),
    ))
}

/// The root disk: the image's, as the mapping of its device changes it.
fn root(request: Request<'_>, device_of_image: &str) -> Result<Root, ApiError> {
    let mut root = Root {
        gib: catalog::ROOT_GIB,
        kind: "gp3".to_owned(),
        encrypted: false,
        delete_on_termination: true,
    };
    for mapping in request.params().structs("BlockDeviceMapping") {
        let device = mapping.get("DeviceName").unwrap_or_default();
        let ebs = mapping.below("Ebs");
        if device != device_of_image {
            // A device other than the image's is another disk, for which EC2 requires a size.
            if ebs.get("VolumeSize").is_none() {
                return Err(ApiError::client(
                    "MissingParameter",
                    "The request must contain the parameter size or snapshotId",
                ));
            }
            return Err(ApiError::client(
                "UnsupportedOperation",
                format!(
                    "RunInstances of the EC2 in a folder maps the root device {device_of_image} \
                     only: attach {device} by AttachVolume"
                ),
            ));
        }
        if let Some(gib) = number(&ebs, "VolumeSize")? {
            if gib < catalog::ROOT_GIB {
                return Err(ApiError::client(
                    "InvalidBlockDeviceMapping",
                    format!(
                        "Volume of size {gib}GB is smaller than snapshot, expect size >= {}GB",
                        catalog::ROOT_GIB
                    ),
                ));
            }
            root.gib = gib;
        }
        if let Some(kind) = ebs.get("VolumeType") {
            kind.clone_into(&mut root.kind);
        }
        root.encrypted = flag(&ebs, "Encrypted")?.unwrap_or(root.encrypted);
        root.delete_on_termination =
            flag(&ebs, "DeleteOnTermination")?.unwrap_or(root.delete_on_termination);
    }
    Ok(root)
}
