//! A call's parameters: checked against those it understands, then read with their types.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::catalog;
use crate::records::Token;
use crate::wire::{ApiError, Params};

/// The parameters of one call, all of them understood.
#[derive(Clone, Copy)]
pub(super) struct Request<'a>(&'a Params);

impl<'a> Request<'a> {
    /// Refuses parameters that are not in `known`, and the lack of a required one (`…!`).
    pub(super) fn new(params: &'a Params, known: &[&[&str]]) -> Result<Self, ApiError> {
        let known = || known.iter().copied().flatten();
        let given: Vec<String> = params.names().map(pattern).collect();
        for (name, pattern) in params.names().zip(&given) {
            let understood = matches!(pattern.as_str(), "Action" | "Version" | "DryRun")
                || known().any(|known| known.trim_end_matches('!') == pattern);
            if !understood {
                return Err(ApiError::client(
                    "UnknownParameter",
                    format!("The parameter {name} is not recognized"),
                ));
            }
        }
        for required in known().filter_map(|known| known.strip_suffix('!')) {
            if !given.iter().any(|name| name == required) {
                let name = required.split('.').next().unwrap_or(required);
                return Err(missing(name));
            }
        }
        Ok(Self(params))
    }

    /// The parameters themselves.
    pub(super) fn params(self) -> &'a Params {
        self.0
    }

    /// The parameter `name`; an empty one counts as absent, as EC2 has it.
    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        self.0.get(name).filter(|value| !value.is_empty())
    }

    /// The parameter `name`, which must be there.
    pub(super) fn required(self, name: &str) -> Result<&'a str, ApiError> {
        self.text(name).ok_or_else(|| missing(name))
    }

    /// The values of `name.1`, `name.2`, ….
    pub(super) fn list(self, name: &str) -> Vec<&'a str> {
        self.0.list(name)
    }

    /// `true` or `false`.
    pub(super) fn flag(self, name: &str) -> Result<Option<bool>, ApiError> {
        flag(self.0, name)
    }

    /// A whole number.
    pub(super) fn number(self, name: &str) -> Result<Option<u32>, ApiError> {
        number(self.0, name)
    }

    /// The tags in `TagSpecification`, by resource type. A type that is not in `allowed` is
    /// refused.
    pub(super) fn tag_specifications(
        self,
        allowed: &[&str],
    ) -> Result<BTreeMap<String, BTreeMap<String, String>>, ApiError> {
        let mut all = BTreeMap::new();
        for specification in self.0.structs("TagSpecification") {
            let kind = specification.get("ResourceType").ok_or_else(|| {
                ApiError::client(
                    "InvalidParameterValue",
                    "Tag specification resource type must have a value",
                )
            })?;
            if !allowed.contains(&kind) {
                return Err(ApiError::client(
                    "InvalidParameterValue",
                    format!("'{kind}' is not a valid taggable resource type for this operation."),
                ));
            }
            let tags = tags(&specification)?;
            if all.insert(kind.to_owned(), tags).is_some() {
                return Err(ApiError::client(
                    "InvalidParameterValue",
                    format!("Duplicate resource type '{kind}' in tag specifications"),
                ));
            }
        }
        Ok(all)
    }

    /// The client token, with the requested zone and a digest of all other parameters.
    pub(super) fn token(self, zone: Option<&str>) -> Option<Token> {
        let token = self.text("ClientToken")?;
        let mut digest = Sha256::new();
        for name in self.0.names().filter(|name| *name != "ClientToken") {
            for part in [name, self.0.get(name).unwrap_or_default()] {
                digest.update(part.len().to_le_bytes());
                digest.update(part);
            }
        }
        Some(Token {
            word: token.to_owned(),
            zone: zone.map(str::to_owned),
            parameters: hex::encode(&digest.finalize()[..16]),
        })
    }
}

/// Whether a call with the token `asked` repeats the one with `known`: an error if its parameters
/// differ. In another zone it is another token.
pub(super) fn repeats(known: Option<&Token>, asked: Option<&Token>) -> Result<bool, ApiError> {
    match (known, asked) {
        (Some(known), Some(asked)) if known.word == asked.word && known.zone == asked.zone => {
            if known.parameters == asked.parameters {
                Ok(true)
            } else {
                Err(ApiError::client(
                    "IdempotentParameterMismatch",
                    "Arguments on this idempotent request are inconsistent with arguments used in \
                     previous request(s).",
                ))
            }
        }
        _ => Ok(false),
    }
}

/// `true` or `false` below a list's item.
pub(super) fn flag(params: &Params, name: &str) -> Result<Option<bool>, ApiError> {
    match params.get(name) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(value) => Err(bad_value(value, name)),
    }
}

/// A whole number below a list's item.
pub(super) fn number(params: &Params, name: &str) -> Result<Option<u32>, ApiError> {
    params
        .get(name)
        .map(|value| value.parse().map_err(|_| bad_value(value, name)))
        .transpose()
}

/// The tags below `Tag.#` (EC2 user guide, *Tag restrictions*).
pub(super) fn tags(params: &Params) -> Result<BTreeMap<String, String>, ApiError> {
    let mut tags = BTreeMap::new();
    for tag in params.structs("Tag") {
        let key = tag.get("Key").unwrap_or_default();
        let value = tag.get("Value").unwrap_or_default();
        if key.is_empty() {
            return Err(ApiError::client(
                "MissingParameter",
                "The tag key cannot be empty",
            ));
        }
        if key.starts_with("aws:") {
            return Err(ApiError::client(
                "InvalidParameterValue",
                "Tag keys starting with 'aws:' are reserved for internal use",
            ));
        }
        if key.chars().count() > 128 {
            return Err(ApiError::client(
                "InvalidParameterValue",
                format!("Tag key exceeds the maximum length of 128 characters: {key}"),
            ));
        }
        if value.chars().count() > 256 {
            return Err(ApiError::client(
                "InvalidParameterValue",
                format!("Tag value exceeds the maximum length of 256 characters: {value}"),
            ));
        }
        if tags.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(ApiError::client(
                "InvalidParameterValue",
                format!("Duplicate tag key '{key}' specified."),
            ));
        }
    }
    check_count(tags.len())?;
    Ok(tags)
}

/// Refuses more than 50 tags on one resource.
pub(super) fn check_count(tags: usize) -> Result<(), ApiError> {
    if tags > 50 {
        return Err(ApiError::client(
            "TagLimitExceeded",
            "The maximum number of tags for a resource has been reached.",
        ));
    }
    Ok(())
}

/// The error for a required parameter that is absent.
pub(super) fn missing(name: &str) -> ApiError {
    ApiError::client(
        "MissingParameter",
        format!("The request must contain the parameter {name}"),
    )
}

/// The error for a value that a parameter cannot have.
pub(super) fn bad_value(value: &str, name: &str) -> ApiError {
    ApiError::client(
        "InvalidParameterValue",
        format!("Value ({value}) for parameter {name} is invalid."),
    )
}

/// The error for an id of no resource: by its prefix, malformed or unknown.
pub(crate) fn no_such_id(id: &str) -> ApiError {
    let kinds = [
        ("i-", "InvalidInstanceID", "instance ID"),
        ("vol-", "InvalidVolume", "volume"),
        ("snap-", "InvalidSnapshot", "snapshot"),
        ("ami-", "InvalidAMIID", "image id"),
        ("sg-", "InvalidGroup", "security group"),
        ("subnet-", "InvalidSubnetID", "subnet ID"),
        ("vpc-", "InvalidVpcID", "vpc ID"),
        ("eipalloc-", "InvalidAllocationID", "allocation ID"),
        ("eipassoc-", "InvalidAssociationID", "association ID"),
        ("rtb-", "InvalidRouteTableID", "routeTable ID"),
        (
            "cr-",
            "InvalidCapacityReservationId",
            "capacity reservation ID",
        ),
        (
            "sir-",
            "InvalidSpotInstanceRequestID",
            "spot instance request ID",
        ),
    ];
    match kinds.iter().find(|(prefix, ..)| id.starts_with(prefix)) {
        Some((prefix, code, what)) if well_formed(&id[prefix.len()..]) => match *prefix {
            "ami-" => ApiError::client(
                format!("{code}.NotFound"),
                format!("The image id '[{id}]' does not exist"),
            ),
            "i-" => ApiError::client(
                format!("{code}.NotFound"),
                format!("The instance ID '{id}' does not exist"),
            ),
            _ => ApiError::client(
                format!("{code}.NotFound"),
                format!("The {what} '{id}' does not exist."),
            ),
        },
        Some((_, code, _)) => malformed(code, id),
        None => ApiError::client("InvalidID", format!("The ID '{id}' is not valid")),
    }
}

/// [`no_such_id`] where an id with `prefix` belongs.
pub(super) fn no_such(prefix: &str, id: &str) -> ApiError {
    if id.starts_with(prefix) {
        return no_such_id(id);
    }
    match prefix {
        "i-" => malformed("InvalidInstanceID", id),
        "ami-" => malformed("InvalidAMIID", id),
        "sg-" => malformed("InvalidGroupId", id),
        _ => ApiError::client(
            "InvalidParameterValue",
            format!("Value ({id}) for parameter is invalid. Expected: '{prefix}...'."),
        ),
    }
}

fn malformed(code: &str, id: &str) -> ApiError {
    ApiError::client(format!("{code}.Malformed"), format!("Invalid id: \"{id}\""))
}

fn well_formed(digits: &str) -> bool {
    (8..=17).contains(&digits.len())
        && digits
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A new id: `prefix` and 17 random hexadecimal digits.
pub(super) fn new_id(prefix: &str) -> Result<String, ApiError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| ApiError {
        status: 500,
        code: "InternalError".to_owned(),
        message: format!("no random bytes: {error}"),
    })?;
    Ok(format!("{prefix}0{}", hex::encode(random)))
}

/// The zone called `name`.
pub(super) fn zone(region: &str, name: &str) -> Result<catalog::Zone, ApiError> {
    let zones = catalog::zones(region);
    let names: Vec<String> = zones.iter().map(|zone| zone.name.clone()).collect();
    zones
        .into_iter()
        .find(|zone| zone.name == name)
        .ok_or_else(|| {
            ApiError::client(
                "InvalidParameterValue",
                format!(
                    "Invalid availability zone: [{name}]. The following zones are available: {}",
                    names.join(", ")
                ),
            )
        })
}

/// `BlockDeviceMapping.12.Ebs` → `BlockDeviceMapping.#.Ebs`.
fn pattern(name: &str) -> String {
    let parts = name.split('.').map(|part| {
        if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
            "#"
        } else {
            part
        }
    });
    parts.collect::<Vec<_>>().join(".")
}
