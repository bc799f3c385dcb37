//! The rules of a call about security groups: read from its parameters, and written in answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::group_called;
use crate::calls::request::{Request, bad_value, missing, no_such};
use crate::catalog;
use crate::records::{Peer, Rule};
use crate::wire::{ApiError, Params, Xml};
use crate::world::World;

/// The rules that a call describes, without ids.
pub(super) fn rules(request: Request<'_>, world: &World) -> Result<Vec<Rule>, ApiError> {
    let mut rules = Vec::new();
    if let Some(cidr) = request.text("CidrIp") {
        // The short form has no description.
        let mut short = Allowed::read(request.params())?;
        short.add(ipv4(cidr)?, &Params::default())?;
        return Ok(short.rules);
    }
    for permission in request.params().structs("IpPermissions") {
        let mut allowed = Allowed::read(&permission)?;
        for range in permission.structs("IpRanges") {
            let cidr = range.get("CidrIp").ok_or_else(|| missing("CidrIp"))?;
            allowed.add(ipv4(cidr)?, &range)?;
        }
        for range in permission.structs("Ipv6Ranges") {
            let cidr = range.get("CidrIpv6").ok_or_else(|| missing("CidrIpv6"))?;
            allowed.add(ipv6(cidr)?, &range)?;
        }
        for pair in permission.structs("Groups") {
            allowed.add(group(&pair, world)?, &pair)?;
        }
        if allowed.rules.is_empty() {
            return Err(missing("IpPermissions.IpRanges"));
        }
        rules.append(&mut allowed.rules);
    }
    let is_repeated = |(index, rule): (usize, &Rule)| {
        let mut before = rules[..index].iter();
        before.any(|other: &Rule| other.allows_as(rule))
    };
    if rules.iter().enumerate().any(is_repeated) {
        return Err(ApiError::client(
            "InvalidParameterValue",
            "The same permission must not appear multiple times",
        ));
    }
    Ok(rules)
}

/// A permission's protocol and ports, with its rules: one for each peer.
struct Allowed {
    protocol: String,
    from: Option<i32>,
    to: Option<i32>,
    rules: Vec<Rule>,
}

impl Allowed {
    fn read(permission: &Params) -> Result<Self, ApiError> {
        let protocol = protocol(permission)?;
        let (from, to) = ports(permission, &protocol)?;
        Ok(Self {
            protocol,
            from,
            to,
            rules: Vec::new(),
        })
    }

    /// Adds the rule for `peer`, with the description that stands beside it.
    fn add(&mut self, peer: Peer, beside: &Params) -> Result<(), ApiError> {
        self.rules.push(Rule {
            id: String::new(),
            protocol: self.protocol.clone(),
            from: self.from,
            to: self.to,
            peer,
            description: description(beside)?,
        });
        Ok(())
    }
}

/// The protocol as EC2 keeps it: a name where it has one, else the number.
fn protocol(permission: &Params) -> Result<String, ApiError> {
    let unknown = |value: &str| {
        ApiError::client(
            "InvalidParameterValue",
            format!("Invalid value '{value}' for IP protocol. Unknown protocol."),
        )
    };
    let Some(given) = permission.get("IpProtocol") else {
        return Err(ApiError::client(
            "InvalidParameterValue",
            "Invalid value 'null' for protocol. VPC security group rules must specify protocols \
             explicitly.",
        ));
    };
    Ok(match given {
        "6" => "tcp".to_owned(),
        "17" => "udp".to_owned(),
        "1" => "icmp".to_owned(),
        "58" => "icmpv6".to_owned(),
        "tcp" | "udp" | "icmp" | "icmpv6" | "-1" => given.to_owned(),
        number => {
            let number: u8 = number.parse().map_err(|_| unknown(number))?;
            number.to_string()
        }
    })
}

/// The ports, or type and code, of a permission. Other protocols are allowed on all ports, whatever
/// was given (EC2 API reference, `IpPermission`).
fn ports(permission: &Params, protocol: &str) -> Result<(Option<i32>, Option<i32>), ApiError> {
    let port = |name: &str| -> Result<Option<i32>, ApiError> {
        let value = permission.get(name);
        value
            .map(|value| value.parse().map_err(|_| bad_value(value, name)))
            .transpose()
    };
    let (from, to) = (port("FromPort")?, port("ToPort")?);
    let either = |from: Option<i32>, to: Option<i32>| (from.unwrap_or(-1), to.unwrap_or(-1));
    match (protocol, from, to) {
        ("tcp" | "udp", Some(from), Some(to)) if 0 <= from && from <= to && to <= 65535 => {
            Ok((Some(from), Some(to)))
        }
        ("tcp" | "udp", ..) => Err(ApiError::client(
            "InvalidParameterValue",
            "Invalid value for portRange. Must specify both from and to ports with TCP/UDP.",
        )),
        ("icmp" | "icmpv6", from, to) => match either(from, to) {
            // Who allows all types allows all codes.
            (-1, code) if code != -1 => Err(bad_value(&code.to_string(), "ToPort")),
            (kind, code) if (-1..=255).contains(&kind) && (-1..=255).contains(&code) => {
                Ok((Some(kind), Some(code)))
            }
            (kind, _) => Err(bad_value(&kind.to_string(), "FromPort")),
        },
        _ => Ok((None, None)),
    }
}

/// The description of a rule.
fn description(beside: &Params) -> Result<Option<String>, ApiError> {
    let Some(text) = beside.get("Description") else {
        return Ok(None);
    };
    let is_allowed =
        |letter: char| letter.is_ascii_alphanumeric() || " ._-:/()#,@[]+=&;{}!$*".contains(letter);
    if text.len() > 255 || !text.chars().all(is_allowed) {
        return Err(ApiError::client(
            "InvalidParameterValue",
            "Invalid rule description. Valid descriptions are strings less than 256 characters \
             from the following set:  a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*",
        ));
    }
    Ok(Some(text.to_owned()))
}

/// A range of IPv4 addresses in its canonical form, with no bit after its length.
fn ipv4(cidr: &str) -> Result<Peer, ApiError> {
    range(cidr, |address, length| match address {
        IpAddr::V4(address) if length <= 32 => {
            let kept = u32::MAX.checked_shl(32 - length).unwrap_or_default();
            Some(Ipv4Addr::from_bits(address.to_bits() & kept).to_string())
        }
        _ => None,
    })
}

/// A range of IPv6 addresses in its canonical form.
fn ipv6(cidr: &str) -> Result<Peer, ApiError> {
    range(cidr, |address, length| match address {
        IpAddr::V6(address) if length <= 128 => {
            let kept = u128::MAX.checked_shl(128 - length).unwrap_or_default();
            Some(Ipv6Addr::from_bits(address.to_bits() & kept).to_string())
        }
        _ => None,
    })
}

/// The range that `cidr` describes; `first` is its first address, if it is of the right family.
fn range(cidr: &str, first: impl Fn(IpAddr, u32) -> Option<String>) -> Result<Peer, ApiError> {
    let parsed = || {
        let (address, length) = cidr.split_once('/')?;
        let length: u32 = length.parse().ok()?;
        Some(format!(
            "{}/{length}",
            first(address.parse().ok()?, length)?
        ))
    };
    parsed().map(Peer::Cidr).ok_or_else(|| {
        ApiError::client(
            "InvalidParameterValue",
            format!("CIDR block {cidr} is malformed"),
        )
    })
}

/// The group that a pair of account and group names: of this account, since no other is known.
fn group(pair: &Params, world: &World) -> Result<Peer, ApiError> {
    let (id, name) = (pair.get("GroupId"), pair.get("GroupName"));
    let Some(called) = id.or(name) else {
        return Err(ApiError::client(
            "MissingParameter",
            "Source group ID missing.",
        ));
    };
    let account = pair.get("UserId").unwrap_or(catalog::ACCOUNT);
    if account != catalog::ACCOUNT {
        return Err(no_such("sg-", called));
    }
    group_called(id, name, world).map(Peer::Group)
}

/// The error for a rule that exists already, in EC2's words.
pub(super) fn duplicate(rule: &Rule) -> ApiError {
    let peer = match &rule.peer {
        Peer::Cidr(cidr) => cidr,
        Peer::Group(id) => id,
    };
    let or_all = |number: Option<i32>| match number {
        None | Some(-1) => "ALL".to_owned(),
        Some(number) => number.to_string(),
    };
    let allowed = match rule.protocol.as_str() {
        "-1" => "ALL".to_owned(),
        name @ ("tcp" | "udp") => format!(
            "{}, from port: {}, to port: {}",
            name.to_uppercase(),
            or_all(rule.from),
            or_all(rule.to)
        ),
        name @ ("icmp" | "icmpv6") => format!(
            "{}, type: {}, code: {}",
            name.to_uppercase(),
            or_all(rule.from),
            or_all(rule.to)
        ),
        number => format!("protocol: {number}"),
    };
    ApiError::client(
        "InvalidPermission.Duplicate",
        format!("the specified rule \"peer: {peer}, {allowed}, ALLOW\" already exists"),
    )
}

/// A rule of `group` as calls answer that make it.
pub(super) fn item(group: &str, rule: &Rule) -> Vec<Xml> {
    let mut item = vec![
        Xml::text("securityGroupRuleId", &rule.id),
        Xml::text("groupId", group),
        Xml::text("groupOwnerId", catalog::ACCOUNT),
        Xml::text("isEgress", false),
        Xml::text("ipProtocol", &rule.protocol),
        Xml::text("fromPort", rule.from.unwrap_or(-1)),
        Xml::text("toPort", rule.to.unwrap_or(-1)),
    ];
    item.extend(rule.peer.ipv4().map(|cidr| Xml::text("cidrIpv4", cidr)));
    item.extend(rule.peer.ipv6().map(|cidr| Xml::text("cidrIpv6", cidr)));
    item.extend(rule.peer.group().map(|id| {
        let owner = Xml::text("userId", catalog::ACCOUNT);
        Xml::node("referencedGroupInfo", [Xml::text("groupId", id), owner])
    }));
    item.extend(described(rule));
    item
}

/// Rules as one permission for each protocol and range of ports, with its many peers.
pub(super) fn permissions(name: &'static str, rules: &[Rule]) -> Xml {
    let mut grouped: Vec<(&Rule, Vec<&Rule>)> = Vec::new();
    for rule in rules {
        let key = (&rule.protocol, rule.from, rule.to);
        match grouped
            .iter_mut()
            .find(|(first, _)| (&first.protocol, first.from, first.to) == key)
        {
            Some((_, peers)) => peers.push(rule),
            None => grouped.push((rule, vec![rule])),
        }
    }
    let items = grouped.into_iter().map(|(first, rules)| {
        let ranges = |name: &'static str, of: fn(&Peer) -> Option<&str>| {
            let ranges = rules.iter().filter_map(move |rule| {
                let mut item = vec![Xml::text(name, of(&rule.peer)?)];
                item.extend(described(rule));
                Some(item)
            });
            ranges.collect::<Vec<_>>()
        };
        let groups = rules.iter().filter_map(|rule| {
            let mut item = vec![
                Xml::text("userId", catalog::ACCOUNT),
                Xml::text("groupId", rule.peer.group()?),
            ];
            item.extend(described(rule));
            Some(item)
        });
        let mut item = vec![Xml::text("ipProtocol", &first.protocol)];
        item.extend(first.from.map(|port| Xml::text("fromPort", port)));
        item.extend(first.to.map(|port| Xml::text("toPort", port)));
        item.push(Xml::list("groups", groups));
        item.push(Xml::list("ipRanges", ranges("cidrIp", Peer::ipv4)));
        item.push(Xml::list("ipv6Ranges", ranges("cidrIpv6", Peer::ipv6)));
        item
    });
    Xml::list(name, items)
}

fn described(rule: &Rule) -> Option<Xml> {
    let text = rule.description.as_ref()?;
    Some(Xml::text("description", text))
}
