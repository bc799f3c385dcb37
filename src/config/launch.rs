//! The values of the launch options, in flags and in the configuration file: their types and
//! parsers.
//!
//! `launch` decides what is launched for a drive, from these and the drive's own tags.

use clap::ValueEnum;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::drive::pools::{Requirements, Resources};
use crate::ec2::{Arch, Market};

/// What to do without spot capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// Launch on demand, without asking.
    OnDemand,
    /// Do not launch on demand, and do not ask: end with code 75.
    None,
}

/// The architecture that a launch must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
pub enum ArchChoice {
    /// Intel's and AMD's.
    #[value(name = "x86_64")]
    #[serde(rename = "x86_64")]
    X86_64,
    /// Graviton's.
    #[serde(rename = "arm64")]
    Arm64,
    /// Either, whichever is cheaper.
    #[serde(rename = "any")]
    Any,
}

impl ArchChoice {
    /// The architecture, unless it is either.
    #[must_use]
    pub fn only(self) -> Option<Arch> {
        match self {
            Self::X86_64 => Some(Arch::X86_64),
            Self::Arm64 => Some(Arch::Arm64),
            Self::Any => None,
        }
    }
}

/// Deserializes a market by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Named {
    Spot,
    OnDemand,
}

impl From<Named> for Market {
    fn from(named: Named) -> Self {
        match named {
            Named::Spot => Self::Spot,
            Named::OnDemand => Self::OnDemand,
        }
    }
}

/// One type, or several in order of preference.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Types {
    One(String),
    Several(Vec<String>),
}

/// The requirements: types by name, or resources; none if neither is given, and an error if both
/// are.
pub fn requirements(
    types: &[String],
    resources: Resources,
) -> Result<Option<Requirements>, String> {
    match (types, resources == Resources::default()) {
        ([], true) => Ok(None),
        ([], false) => Ok(Some(Requirements::AtLeast(resources))),
        (types, true) => Requirements::types(types)
            .map(Some)
            .map_err(|error| error.to_string()),
        (_, false) => Err("types are named, or what they must have, but not both".to_owned()),
    }
}

/// Parses a flag's types, separated by commas.
pub fn types(text: &str) -> Result<String, String> {
    Requirements::types(&[text])
        .map(|requirements| requirements.to_string())
        .map_err(|error| error.to_string())
}

/// Parses an AMI's id, or `resolve:ssm:` and a parameter.
pub fn ami(text: &str) -> Result<String, String> {
    let is_id = text.strip_prefix("ami-").is_some_and(|hex| {
        !hex.is_empty()
            && hex
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    });
    let is_parameter = text
        .strip_prefix("resolve:ssm:")
        .is_some_and(|name| !name.is_empty() && !name.contains(char::is_whitespace));
    if is_id || is_parameter {
        Ok(text.to_owned())
    } else {
        Err("it is neither ami-… nor resolve:ssm:PARAMETER".to_owned())
    }
}

pub(super) fn ami_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    ami(&text).map(Some).map_err(D::Error::custom)
}

pub(super) fn market_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Market>, D::Error> {
    Named::deserialize(from).map(|named| Some(named.into()))
}
