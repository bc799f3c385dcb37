//! The pools to launch from, in order: chosen by requirements, EC2's types and current spot prices.
//!
//! A pool is a type in a zone in a market. [`choose`] is pure; [`look`] makes the two calls that it
//! needs. Spot pools come in the order of their current price, on-demand ones in the same order
//! (EC2's API knows no on-demand price, and AWS's list has each for a call; where spot is cheap, machines are idle). Several named
//! types come in the order of preference first. What is left out is reported ([`LeftOut`]). Where what
//! lasts is preferred, AWS's placement scores come before the price ([`lasting`]).
//!
//! A drive has an architecture from its first launch on: the programs on it do not run on the other
//! one, so only that is chosen for it. A new drive gets that of its image or the requested one,
//! else [`Arch::X86_64`], as most images and nearly all GPU types have.

mod choose;
mod lasting;
mod look;
mod requirements;
mod reservation;
mod reserved;

use std::collections::BTreeSet;
use std::fmt;

use crate::ec2::{
    self, Arch, BEST_SCORE, FEWEST_SCORED, Instance, InstanceType, Market, Price, Zone,
};

use crate::ids::ReservationId;

pub use choose::choose;
pub use look::look;
pub use requirements::{InvalidRequirements, Requirements, Resources};
pub use reservation::{Reserved, Unreserved};
pub use reserved::reserved_elsewhere;

/// A place to get an instance from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The type's name, such as `t3.medium`.
    pub instance_type: String,
    /// The zone; none leaves it to EC2. Where a volume exists, only its zone is tried.
    pub zone: Option<Zone>,
    /// How it is paid for.
    pub market: Market,
    /// The image it boots: an AMI's id or a `resolve:ssm:` parameter.
    pub image: String,
    /// For spot: the most that is paid for it.
    pub max_price: Option<Price>,
    /// On demand: the capacity reservation that it is in, if it is in one.
    pub reservation: Option<ReservationId>,
}

impl Pool {
    /// How it is paid for, and the capacity reservation, in words.
    #[must_use]
    pub fn market_words(&self) -> String {
        match &self.reservation {
            None => self.market.to_string(),
            Some(id) => format!("{}, reserved ({id})", self.market),
        }
    }
}

/// Writes the pool in words, such as `t3.medium spot in us-east-1a`.
impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.instance_type, self.market_words())?;
        match &self.zone {
            Some(zone) => write!(f, " in {zone}"),
            None => Ok(()),
        }
    }
}

/// How many pools of one market are tried: a launch without capacity anywhere ends within a minute.
pub const TRIES: usize = 12;

/// The pools among `all` that are in `zone`, in their order, at most [`TRIES`] of each market; and
/// how many were cut. Every type has its best pool among them, so that the zones of the first two
/// named types do not use up all tries. (Only required resources can be met by more types than
/// there are tries; then the best pools are taken, whatever their types.)
pub fn to_try<'a, T: AsRef<Pool>>(all: &'a [T], zone: Option<&Zone>) -> (Vec<&'a T>, usize) {
    let is_there =
        |pool: &Pool| pool.zone.is_none() || zone.is_none() || pool.zone.as_ref() == zone;
    let there: Vec<&T> = all.iter().filter(|it| is_there(it.as_ref())).collect();
    let mut tried = BTreeSet::new();
    for market in [Market::Spot, Market::OnDemand] {
        let sold: Vec<usize> = (0..there.len())
            .filter(|&at| there[at].as_ref().market == market)
            .collect();
        let mut types = BTreeSet::new();
        let mut best = sold.clone();
        best.retain(|&at| types.insert(&there[at].as_ref().instance_type));
        if best.len() > TRIES {
            best.clear();
        }
        let mut of_market = BTreeSet::new();
        for at in best.into_iter().chain(sold) {
            if of_market.len() < TRIES {
                of_market.insert(at);
            }
        }
        tried.extend(of_market);
    }
    let more = there.len() - tried.len();
    (tried.into_iter().map(|at| there[at]).collect(), more)
}

impl AsRef<Pool> for Pool {
    fn as_ref(&self) -> &Pool {
        self
    }
}

impl AsRef<Pool> for Offer {
    fn as_ref(&self) -> &Pool {
        &self.pool
    }
}

/// How a type is sold in a market.
fn sold(market: Market) -> &'static str {
    match market {
        Market::Spot => "as spot",
        Market::OnDemand => "on demand",
    }
}

/// The terms on which a drive's instance is launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// The types.
    pub requirements: Requirements,
    /// The markets, the preferred one first.
    pub markets: Vec<Market>,
    /// The most that is paid for spot, an hour.
    pub max_price: Option<Price>,
    /// Whether nothing is launched at a price that is neither known nor bounded.
    pub needs_price: bool,
    /// The image, if it is not to be the public one of the type.
    pub image: Option<String>,
    /// The required architecture, if there is one.
    pub arch: Option<Arch>,
    /// The origin of that requirement.
    pub arch_by: ArchBy,
    /// Whether only types of the free tier are launched.
    pub is_free: bool,
    /// The host of a frozen program, which goes on where another one is like it: that comes first.
    pub like: Option<Like>,
    /// Whether spot placement scores are asked for, and decide.
    pub scores: Scores,
    /// The capacity reservation to launch in, which then decides type and zone.
    pub reserved: Option<Reserved>,
}

/// The use of AWS's spot placement scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scores {
    /// Not asked for.
    #[default]
    Unasked,
    /// Asked for and shown; prices decide.
    Shown,
    /// Asked for, and decisive before prices.
    Preferred,
}

/// The host of a frozen program, as far as it decides where that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Like {
    /// The family of its type, such as `c6a`, whose processors are alike.
    pub family: String,
    /// The machine image (`ami-…`), whose driver a program with a GPU needs; none stands for the one
    /// of the type.
    pub image: Option<String>,
}

impl Like {
    /// Like this instance, on its image if that `is_trusted`: an instance of another caller's may have any.
    #[must_use]
    pub fn host(host: &Instance, is_trusted: bool) -> Self {
        Self {
            family: InstanceType::family_of(&host.instance_type).to_owned(),
            image: Some(host.image.clone()).filter(|image| is_trusted && !image.is_empty()),
        }
    }

    /// Whether this type is of the family.
    fn has(&self, kind: &InstanceType) -> bool {
        self.family == InstanceType::family_of(&kind.name)
    }
}

/// The origin of the required architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArchBy {
    /// The drive: the programs on it.
    Drive,
    /// The image of a new drive.
    Image,
    /// `--arch`, or the configuration's `arch`.
    Asked,
    /// No requirement: most programs are compiled for it.
    #[default]
    Default,
}

impl ArchBy {
    /// Why `only` is required, after "and".
    fn words(self, only: Arch) -> String {
        match self {
            Self::Drive => format!("those on the drive are compiled for {only}"),
            Self::Image => format!("those of the image are compiled for {only}"),
            Self::Asked => format!("--arch asks for {only}"),
            Self::Default => format!("{only} ones are launched unless --arch says otherwise"),
        }
    }
}

/// A pool with its type and price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The pool.
    pub pool: Pool,
    /// The pool's instance type.
    pub kind: InstanceType,
    /// The price there, as spot now or on demand; none where it is not known.
    pub price: Option<Price>,
    /// The spot placement score of its zone.
    pub score: Score,
}

/// AWS's spot placement score of an offer's zone, for the types that are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Score {
    /// Not asked for.
    #[default]
    Unasked,
    /// Asked for, and not to be had.
    Unknown,
    /// A number from 1, unlikely to have capacity, to 10.
    Of(u8),
}

impl Score {
    /// The number, if it is known.
    #[must_use]
    pub fn known(self) -> Option<u8> {
        match self {
            Self::Of(score) => Some(score),
            Self::Unasked | Self::Unknown => None,
        }
    }
}

impl Offer {
    /// The price in words, and the score if it was asked for.
    #[must_use]
    pub fn price_words(&self) -> String {
        let known = self.price.map(|price| format!("{price} an hour"));
        let known = known.unwrap_or_else(|| "price not known".to_owned());
        match self.score {
            Score::Unasked => known,
            Score::Unknown => format!("{known}, score not known"),
            Score::Of(score) => format!("{known}, score {score} of {BEST_SCORE}"),
        }
    }
}

/// The offers that were chosen: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Best first.
    pub offers: Vec<Offer>,
    /// The requested pools that are not among them, and why.
    pub left_out: Vec<LeftOut>,
}

impl Chosen {
    /// The pools alone.
    #[must_use]
    pub fn pools(&self) -> Vec<Pool> {
        self.offers.iter().map(|offer| offer.pool.clone()).collect()
    }
}

/// A requested type or market that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// Spot in these pools costs more than the limit.
    TooDear {
        /// How many pools.
        pools: usize,
        /// The cheapest of them.
        pool: Box<Pool>,
        /// The price of the cheapest pool.
        price: Price,
        /// The limit.
        max: Price,
    },
    /// The type has another architecture than the required one.
    OtherArch {
        /// The type.
        instance_type: String,
        /// The type's architecture.
        arch: Arch,
        /// The required one.
        only: Arch,
        /// The origin of the requirement.
        by: ArchBy,
    },
    /// The type is not sold in this market in any zone.
    NotSold {
        /// The type.
        instance_type: String,
        /// The market.
        market: Market,
    },
    /// Prices could not be read, so zones are left to EC2.
    Prices(ec2::Error),
    /// Spot placement scores could not be read.
    Scores(ec2::Error),
    /// There are only so many types, and of so few AWS's scores are always low.
    TooFewToScore(usize),
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDear {
                pools,
                pool,
                price,
                max,
            } => write!(
                f,
                "{pools} {} more than {max} an hour; the cheapest, {pool}, costs {price}",
                if *pools == 1 {
                    "pool costs"
                } else {
                    "pools cost"
                }
            ),
            Self::OtherArch {
                instance_type,
                arch,
                only,
                by,
            } => write!(
                f,
                "{instance_type} runs {arch} programs, and {}",
                by.words(*only)
            ),
            Self::NotSold {
                instance_type,
                market,
            } => write!(f, "{instance_type} is not sold {}", sold(*market)),
            Self::Prices(error) => write!(
                f,
                "spot prices could not be asked for, EC2 chooses the zone: {error}"
            ),
            Self::Scores(error) => write!(f, "spot placement scores are not known: {error}"),
            Self::TooFewToScore(types) => write!(
                f,
                "spot placement scores are not known: AWS scores {FEWEST_SCORED} types or more \
                 together, and here {} {types}",
                if *types == 1 { "is" } else { "are" }
            ),
        }
    }
}

/// Why nothing can be launched on these terms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// EC2 does not have such a type.
    #[error("{error}")]
    Unknown {
        /// EC2's error, which names it.
        error: ec2::Error,
        /// Types of the same family.
        near: Vec<String>,
    },
    /// Every named type has another architecture than the required one.
    #[error(
        "{} {} {arch} programs, and {}",
        .types.join(", "),
        if .types.len() == 1 { "runs" } else { "run" },
        .by.words(*.only),
    )]
    OtherArch {
        /// The types.
        types: Vec<String>,
        /// The types' architecture.
        arch: Arch,
        /// The required one.
        only: Arch,
        /// The origin of the requirement.
        by: ArchBy,
    },
    /// The type has neither architecture.
    #[error("{0} runs neither x86_64 nor arm64 programs")]
    Unfit(String),
    /// The type has AWS's own accelerators: its container would not have them, at their price.
    #[error("{0} has Trainium or Inferentia devices, which xdrive does not give to containers")]
    Neuron(String),
    /// No type has the required resources.
    #[error("no instance type{} has {resources}", .arch.map_or(String::new(), |arch| format!(" that runs {arch} programs")))]
    NothingMeets {
        /// The required resources.
        resources: Resources,
        /// The required architecture.
        arch: Option<Arch>,
        /// The origin of the requirement.
        by: ArchBy,
    },
    /// No type of the free tier has the required resources.
    #[error("{}", no_free(resources, .there))]
    NoneFree {
        /// The required resources.
        resources: Resources,
        /// The types of the free tier.
        there: Vec<String>,
    },
    /// No such type is sold in any of the markets.
    #[error("{requirements} is not sold {} in this region", sold(*.market))]
    NotSold {
        /// The requirements.
        requirements: Requirements,
        /// The market.
        market: Market,
    },
    /// Every spot price is above the limit.
    #[error("the cheapest is {pool}, at {price} an hour: more than {max}")]
    TooDear {
        /// The cheapest pool.
        pool: Box<Pool>,
        /// The price of that pool.
        price: Price,
        /// The limit.
        max: Price,
    },
    /// A budget cannot be kept without a price.
    #[error("the price of {0} is not known, and so no budget can be kept")]
    NotPriced(Box<Pool>),
    /// Nothing can be launched in the capacity reservation.
    #[error("nothing can be launched in the capacity reservation {id}: {why}")]
    Reservation {
        /// The reservation.
        id: ReservationId,
        /// Why.
        why: Unreserved,
    },
    /// A call to EC2 failed.
    #[error(transparent)]
    Ec2(#[from] ec2::Error),
}

/// The error for the free tier, with the types that it has.
fn no_free(resources: &Resources, there: &[String]) -> String {
    if there.is_empty() {
        return "the free tier has no type that is of use here".to_owned();
    }
    format!(
        "of the free tier's types ({}) none has {resources}",
        there.join(", ")
    )
}

/// The public parameter of the image that a type boots; EC2 resolves it at launch (AWS Systems
/// Manager user guide, *Native parameter support for AMI IDs*). All are Amazon Linux 2023 with
/// Docker (Amazon ECS developer guide, *Amazon ECS-optimized Linux AMIs*); the one with the driver
/// on `arm64` is the Deep Learning Base AMI, because ECS has none.
#[must_use]
pub fn image_of(arch: Arch, needs_driver: bool) -> &'static str {
    match (arch, needs_driver) {
        (Arch::X86_64, false) => {
            "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id"
        }
        (Arch::X86_64, true) => {
            "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended/image_id"
        }
        (Arch::Arm64, false) => {
            "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/arm64/recommended/image_id"
        }
        (Arch::Arm64, true) => {
            "resolve:ssm:/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
        }
    }
}

#[cfg(test)]
mod tests;
