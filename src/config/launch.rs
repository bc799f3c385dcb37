//! The values of the launch options, in flags and in the configuration file: their types and
//! parsers.
//!
//! `launch` decides what is launched for a drive, from these and the drive's own tags.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::iam::InstanceProfile;
use super::quantity;
use crate::drive::pools::{Requirements, Resources};
use crate::ec2::{Arch, Market, Price, Speed};
use crate::ids::{ReservationId, SubnetId};

/// The way out without spot capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// Launch on demand, without asking.
    OnDemand,
    /// Do not launch on demand, and do not ask: end with code 75.
    None,
}

/// The order in which spot pools are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preference {
    /// The cheapest first.
    Price,
    /// The zone first that AWS scores best, for one of the types that would be tried by price; of zones
    /// with one score, the cheapest. None that costs more than on demand.
    Lasting,
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

/// A machine image: an AMI's id, or `resolve:ssm:` and a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ami(pub String);

impl FromStr for Ami {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
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
            Ok(Self(text.to_owned()))
        } else {
            Err("it is neither ami-… nor resolve:ssm:PARAMETER".to_owned())
        }
    }
}

impl<'de> Deserialize<'de> for Ami {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Requirements and terms of a launch. The drive's own tags, then the cloud's defaults decide what is
/// `None`.
///
/// All of it can be written on one line, by the keys of the configuration file, and read again, also by
/// another computer: `type=m5.large market=spot checkpoint=30m`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchOptions {
    /// The types, or the resources that a type must have.
    pub requirements: Option<Requirements>,
    /// The architecture of `--arch`: an error if the drive has another.
    pub arch: Option<ArchChoice>,
    /// The market.
    pub market: Option<Market>,
    /// The way out without spot capacity.
    pub fallback: Option<Fallback>,
    /// The highest price for spot, an hour.
    pub max_price: Option<Price>,
    /// The most that all hosts of the session or run may take.
    pub budget: Option<Price>,
    /// The order in which spot pools are tried.
    pub prefer: Option<Preference>,
    /// The capacity reservation to launch in, on demand.
    pub reservation: Option<ReservationId>,
    /// Whether only the free tier's types are launched, on demand unless a market is named.
    pub is_free: bool,
    /// The machine image, if not the public one of the type.
    pub ami: Option<String>,
    /// Whether to leave the zone of the drive's volume if it has no capacity.
    pub leave_zone: bool,
    /// The subnet to launch in; without it, the default one of each zone.
    pub subnet: Option<SubnetId>,
    /// The instance profile of instances.
    pub instance_profile: Option<String>,
    /// The drive's size, in GiB.
    pub size: Option<u32>,
    /// How fast the drive's volume is.
    pub speed: Speed,
    /// How long a command may take to end when its instance is taken.
    pub notice: Option<Duration>,
    /// The interval between checkpoints; none are taken without it.
    pub checkpoint: Option<Duration>,
    /// Whether what begins is frozen where its instance is taken; then the family comes first on which it was.
    /// Where this is left open it is as the drive has it.
    pub freezes: Option<bool>,
    /// How many resources of Docker's Swarm each GPU is; it is none without it.
    pub slices: Option<u32>,
}

/// The most characters of the line, which is as much as a tag's value has.
pub const LONGEST_LINE: usize = 256;

/// A line that is none of [`LaunchOptions`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLine {
    /// The line is too long.
    #[error("it has {0} characters, and {LONGEST_LINE} are the most")]
    TooLong(usize),
    /// A key is unknown, or has no value.
    #[error("{0:?} is no launch option")]
    Unknown(String),
    /// A key is there twice.
    #[error("{0} is there twice")]
    Twice(String),
    /// A value cannot be parsed.
    #[error("{key}: {why}")]
    Value {
        /// The key.
        key: String,
        /// Why.
        why: String,
    },
}

/// Writes the line; without any option it is empty.
impl Display for LaunchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            ("type", word(self.requirements.as_ref())),
            ("arch", self.arch.as_ref().map(name)),
            ("market", self.market.map(|it| it.as_str().to_owned())),
            ("fallback", self.fallback.as_ref().map(name)),
            ("max_price", self.max_price.map(Price::decimal)),
            ("budget", self.budget.map(Price::decimal)),
            ("prefer", self.prefer.as_ref().map(name)),
            ("reservation", word(self.reservation.as_ref())),
            ("free", word(self.is_free.then_some(true))),
            ("ami", self.ami.clone()),
            ("leave_zone", word(self.leave_zone.then_some(true))),
            ("subnet", word(self.subnet.as_ref())),
            ("instance_profile", self.instance_profile.clone()),
            ("size", word(self.size)),
            ("throughput", word(self.speed.throughput)),
            ("iops", word(self.speed.iops)),
            ("warm", word(self.speed.warm)),
            ("notice", self.notice.map(quantity::compact)),
            ("checkpoint", self.checkpoint.map(quantity::compact)),
            ("freeze", word(self.freezes)),
            ("slices", word(self.slices)),
        ];
        let words = words.into_iter();
        let words = words.filter_map(|(key, value)| Some(format!("{key}={}", value?)));
        f.pad(&words.collect::<Vec<_>>().join(" "))
    }
}

fn word(value: Option<impl Display>) -> Option<String> {
    value.map(|it| it.to_string())
}

/// The word of a flag's choice.
fn name(choice: &impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map_or_else(String::new, |it| it.get_name().to_owned())
}

impl FromStr for LaunchOptions {
    type Err = InvalidLine;

    fn from_str(line: &str) -> Result<Self, InvalidLine> {
        let length = line.chars().count();
        if length > LONGEST_LINE {
            return Err(InvalidLine::TooLong(length));
        }
        let mut options = Self::default();
        let mut keys = BTreeSet::new();
        for word in line.split_whitespace() {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| InvalidLine::Unknown(word.to_owned()))?;
            if !keys.insert(key) {
                return Err(InvalidLine::Twice(key.to_owned()));
            }
            options.set(key, value)?;
        }
        Ok(options)
    }
}

impl LaunchOptions {
    /// Whether what begins may be frozen.
    #[must_use]
    pub fn may_freeze(&self) -> bool {
        self.freezes == Some(true)
    }

    /// Lays these options over `other`, each by itself: as flags lie over the configuration.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        let has_types = |it: &Option<Requirements>| matches!(it, Some(Requirements::Types(_)));
        // The free tier replaces types, and types the free tier.
        let is_free = self.is_free || (other.is_free && !has_types(&self.requirements));
        // So do a type and a market a reservation, which has its own.
        let is_bound = self.requirements.is_some() || self.market.is_some();
        let reservation = other.reservation.filter(|_| !is_bound);
        let others = Some(other.requirements).filter(|it| !(self.is_free && has_types(it)));
        Self {
            requirements: self.requirements.or(others.flatten()),
            arch: self.arch.or(other.arch),
            market: self.market.or(other.market),
            fallback: self.fallback.or(other.fallback),
            max_price: self.max_price.or(other.max_price),
            budget: self.budget.or(other.budget),
            prefer: self.prefer.or(other.prefer),
            reservation: self.reservation.or(reservation),
            is_free,
            ami: self.ami.or(other.ami),
            leave_zone: self.leave_zone || other.leave_zone,
            subnet: self.subnet.or(other.subnet),
            instance_profile: self.instance_profile.or(other.instance_profile),
            size: self.size.or(other.size),
            speed: self.speed.or(other.speed),
            notice: self.notice.or(other.notice),
            checkpoint: self.checkpoint.or(other.checkpoint),
            freezes: self.freezes.or(other.freezes),
            slices: self.slices.or(other.slices),
        }
    }

    /// Sets the option that the line calls `key`.
    fn set(&mut self, key: &str, value: &str) -> Result<(), InvalidLine> {
        match key {
            "type" => self.requirements = read(key, value.parse())?,
            "arch" => self.arch = read(key, ArchChoice::from_str(value, false))?,
            "market" => self.market = read(key, market(value))?,
            "fallback" => self.fallback = read(key, Fallback::from_str(value, false))?,
            "max_price" => self.max_price = read(key, quantity::max_price(value))?,
            "budget" => self.budget = read(key, quantity::positive_budget(value))?,
            "reservation" => self.reservation = read(key, value.parse())?,
            "prefer" => self.prefer = read(key, Preference::from_str(value, false))?,
            "free" => self.is_free = read(key, value.parse())?.unwrap_or_default(),
            "ami" => self.ami = read(key, value.parse())?.map(|it: Ami| it.0),
            "leave_zone" => self.leave_zone = read(key, value.parse())?.unwrap_or_default(),
            "subnet" => self.subnet = read(key, value.parse())?,
            "instance_profile" => {
                self.instance_profile = read(key, value.parse())?.map(|it: InstanceProfile| it.0);
            }
            "size" => self.size = read(key, quantity::size(value))?,
            "throughput" => self.speed.throughput = read(key, quantity::throughput(value))?,
            "iops" => self.speed.iops = read(key, quantity::iops(value))?,
            "warm" => self.speed.warm = read(key, quantity::warm(value))?,
            "notice" => self.notice = read(key, quantity::ending(value))?,
            "checkpoint" => self.checkpoint = read(key, quantity::checkpoint(value))?,
            "slices" => self.slices = read(key, quantity::slices(value))?,
            "freeze" => self.freezes = read(key, value.parse())?,
            _ => return Err(InvalidLine::Unknown(key.to_owned())),
        }
        Ok(())
    }
}

/// Names the `key` of a value that cannot be parsed.
fn read<T, E: Display>(key: &str, parsed: Result<T, E>) -> Result<Option<T>, InvalidLine> {
    parsed.map(Some).map_err(|why| InvalidLine::Value {
        key: key.to_owned(),
        why: why.to_string(),
    })
}

/// Parses a market's name.
fn market(text: &str) -> Result<Market, String> {
    [Market::Spot, Market::OnDemand]
        .into_iter()
        .find(|market| market.as_str() == text)
        .ok_or_else(|| format!("{text:?} is neither spot nor on-demand"))
}

#[cfg(test)]
mod tests;
