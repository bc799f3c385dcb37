//! What to launch, and where: from a wish, EC2's types and today's spot prices to pools in order.
//!
//! A pool is a type in a zone in a market. [`choose`] is pure; [`look`] makes the two calls that it
//! needs. Spot pools come in the order of their current price, on-demand ones in the same order
//! (EC2's API knows no on-demand price; where spot is cheap, machines are idle). Several named types
//! come in the order of liking first. Whatever is left out is said, never dropped in silence.
//!
//! A drive has an architecture from its first launch on: the programs on it do not run on the other
//! one, so nothing else is ever chosen for it.

mod look;
#[cfg(test)]
mod tests;
mod wish;

use std::collections::BTreeSet;
use std::fmt;

use crate::ec2::{self, Arch, InstanceType, Market, Price, SpotPrice, Zone};

pub use look::look;
pub use wish::{Need, NoWish, Wish};

/// One place to get an instance from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Such as `t3.medium`.
    pub instance_type: String,
    /// Where; none leaves it to EC2. A waiting volume's zone rules out the others.
    pub zone: Option<Zone>,
    /// How it is paid for.
    pub market: Market,
    /// What it boots: an AMI's id or a `resolve:ssm:` parameter.
    pub image: String,
    /// For spot: the most that is paid for it.
    pub max_price: Option<Price>,
}

/// Such as `t3.medium spot in us-east-1a`.
impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.instance_type, words(self.market))?;
        match &self.zone {
            Some(zone) => write!(f, " in {zone}"),
            None => Ok(()),
        }
    }
}

/// How many pools of one market are tried: a launch that nobody has room for ends within a minute.
pub const TRIES: usize = 12;

/// Of `all` those that are of use in `zone`, in their order, at most [`TRIES`] of each market; and
/// how many more there would be. Every type has its best pool among them: whoever names several does
/// not mean that the zones of the first two use up all tries. (Only a need can be met by more types
/// than there are tries; then the best pools are taken, whatever their types.)
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

/// A market in words.
#[must_use]
pub fn words(market: Market) -> &'static str {
    match market {
        Market::Spot => "spot",
        Market::OnDemand => "on demand",
    }
}

/// How a type is sold in a market.
fn sold(market: Market) -> &'static str {
    match market {
        Market::Spot => "as spot",
        Market::OnDemand => "on demand",
    }
}

/// What is to be launched for a drive, and on which terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Which types.
    pub wish: Wish,
    /// In which markets, the preferred one first.
    pub markets: Vec<Market>,
    /// The most that is paid for spot, an hour.
    pub max_price: Option<Price>,
    /// The image, if it is not to be the public one of the type.
    pub image: Option<String>,
    /// The only architecture that the drive can be used on, if it has one.
    pub arch: Option<Arch>,
    /// Whether the drive is yet to be made: the architecture is that of its image then.
    pub is_new: bool,
}

/// A pool, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The pool.
    pub pool: Pool,
    /// Its type.
    pub kind: InstanceType,
    /// What spot costs there now; none for on-demand pools, and where it is not known.
    pub price: Option<Price>,
}

/// What came of choosing: at least one offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Best first.
    pub offers: Vec<Offer>,
    /// What was wanted and is not among them, and why.
    pub left_out: Vec<LeftOut>,
}

impl Chosen {
    /// The pools alone.
    #[must_use]
    pub fn pools(&self) -> Vec<Pool> {
        self.offers.iter().map(|offer| offer.pool.clone()).collect()
    }
}

/// Something that was wanted and is not to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// Spot costs more than is to be paid in these pools.
    TooDear {
        /// How many they are.
        pools: usize,
        /// The cheapest of them.
        pool: Box<Pool>,
        /// What that costs.
        price: Price,
        /// The most that is to be paid.
        max: Price,
    },
    /// The type runs programs of another architecture than the drive's.
    OtherArch {
        /// Which type.
        instance_type: String,
        /// What it runs.
        arch: Arch,
    },
    /// The type is not sold in this market in any zone.
    NotSold {
        /// Which type.
        instance_type: String,
        /// In which market.
        market: Market,
    },
    /// Prices could not be asked for, so zones are left to EC2.
    Prices(ec2::Error),
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
            } => write!(
                f,
                "{instance_type} runs {arch} programs, the drive's are others"
            ),
            Self::NotSold {
                instance_type,
                market,
            } => write!(f, "{instance_type} is not sold {}", sold(*market)),
            Self::Prices(error) => write!(
                f,
                "spot prices could not be asked for, EC2 chooses the zone: {error}"
            ),
        }
    }
}

/// Why nothing can be launched as it is wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// EC2 does not have such a type.
    #[error("{error}")]
    Unknown {
        /// EC2's words, which name it.
        error: ec2::Error,
        /// Types of the same family.
        near: Vec<String>,
    },
    /// Every type that is wanted runs programs of another architecture than the drive's.
    #[error(
        "{} {} {arch} programs, and those {} are compiled for {drive}",
        .types.join(", "),
        if .types.len() == 1 { "runs" } else { "run" },
        if *.is_new { "of the image" } else { "on the drive" },
    )]
    OtherArch {
        /// The types.
        types: Vec<String>,
        /// What they run.
        arch: Arch,
        /// The drive's.
        drive: Arch,
        /// Whether that is its image's: there is nothing on it yet.
        is_new: bool,
    },
    /// The type runs programs of neither architecture.
    #[error("{0} runs neither x86_64 nor arm64 programs")]
    Unfit(String),
    /// No type meets the need.
    #[error("no instance type{} has {need}", .arch.map_or(String::new(), |arch| format!(" that runs {arch} programs")))]
    NothingMeets {
        /// The need.
        need: Need,
        /// The only architecture that is of use.
        arch: Option<Arch>,
    },
    /// No wanted type is sold in any wanted market.
    #[error("{wish} is not sold {} in this region", sold(*.market))]
    NotSold {
        /// What was wanted.
        wish: Wish,
        /// The market.
        market: Market,
    },
    /// All of spot costs more than is to be paid.
    #[error("the cheapest is {pool}, at {price} an hour: more than {max}")]
    TooDear {
        /// The cheapest pool.
        pool: Box<Pool>,
        /// What it costs.
        price: Price,
        /// The most that is to be paid.
        max: Price,
    },
    /// EC2 could not be asked.
    #[error(transparent)]
    Ec2(#[from] ec2::Error),
}

/// The public parameter of the image that a type boots; EC2 resolves it at launch (AWS Systems
/// Manager user guide, *Native parameter support for AMI IDs*). All are Amazon Linux 2023 with
/// Docker (Amazon ECS developer guide, *Amazon ECS-optimized Linux AMIs*); the one for GPUs on
/// `arm64` is the Deep Learning Base AMI, because ECS has none.
#[must_use]
pub fn image_of(arch: Arch, gpus: u32) -> &'static str {
    match (arch, gpus > 0) {
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

/// Puts the pools of `terms` in order, from the `types` there are and their spot `prices` (none if
/// those could not be asked for). Of a need's types all that meet it are taken.
pub fn choose(
    terms: &Terms,
    types: &[InstanceType],
    prices: Option<&[SpotPrice]>,
) -> Result<Chosen, Refused> {
    let mut choice = Choice {
        terms,
        prices,
        offers: Vec::new(),
        left_out: Vec::new(),
        dear: Vec::new(),
    };
    let wanted = choice.wanted(types)?;
    for market in &terms.markets {
        choice.add(&wanted, *market);
    }
    choice.finish()
}

struct Choice<'a> {
    terms: &'a Terms,
    prices: Option<&'a [SpotPrice]>,
    offers: Vec<Offer>,
    left_out: Vec<LeftOut>,
    /// What spot costs too much for.
    dear: Vec<(Price, Pool)>,
}

impl Choice<'_> {
    /// The types that the wish means and the drive can be used on; named ones in order of liking.
    fn wanted(&mut self, types: &[InstanceType]) -> Result<Vec<InstanceType>, Refused> {
        let fits = |kind: &InstanceType| self.terms.arch.is_none_or(|arch| arch == kind.arch);
        let names = match &self.terms.wish {
            Wish::Types(names) => names,
            Wish::Need(need) => {
                let met = types.iter().filter(|kind| need.is_met_by(kind));
                let met: Vec<InstanceType> = met.filter(|kind| fits(kind)).cloned().collect();
                return if met.is_empty() {
                    Err(Refused::NothingMeets {
                        need: *need,
                        arch: self.terms.arch,
                    })
                } else {
                    Ok(met)
                };
            }
        };
        let mut wanted = Vec::new();
        for name in names {
            let kind = types.iter().find(|kind| kind.name == *name);
            let kind = kind.ok_or_else(|| Refused::Unfit(name.clone()))?;
            if fits(kind) {
                wanted.push(kind.clone());
            } else {
                self.left_out.push(LeftOut::OtherArch {
                    instance_type: name.clone(),
                    arch: kind.arch,
                });
            }
        }
        match (self.terms.arch, self.left_out.first()) {
            (Some(drive), Some(LeftOut::OtherArch { arch, .. })) if wanted.is_empty() => {
                Err(Refused::OtherArch {
                    types: names.clone(),
                    arch: *arch,
                    drive,
                    is_new: self.terms.is_new,
                })
            }
            _ => Ok(wanted),
        }
    }

    /// Adds the pools of one market.
    fn add(&mut self, wanted: &[InstanceType], market: Market) {
        let mut offers = Vec::new();
        for (liking, kind) in (0_usize..).zip(wanted) {
            let mut places = self.places(kind, market);
            if places.is_empty() || !kind.is_sold(market) {
                // Of a need's many types nobody has asked for this one.
                if let Wish::Types(_) = self.terms.wish {
                    self.left_out.push(LeftOut::NotSold {
                        instance_type: kind.name.clone(),
                        market,
                    });
                }
                continue;
            }
            offers.extend(places.drain(..).map(|(zone, price)| {
                let liking = match self.terms.wish {
                    Wish::Types(_) => liking,
                    Wish::Need(_) => 0,
                };
                (liking, price, kind, zone)
            }));
        }
        // A price that is not known comes after all that are; then the smallest type.
        offers.sort_by_key(|(liking, price, kind, zone)| {
            let price = (price.is_none(), *price);
            (
                *liking,
                price,
                kind.weight(),
                kind.name.clone(),
                zone.clone(),
            )
        });
        for (_, price, kind, zone) in offers {
            let price = price.filter(|_| market == Market::Spot);
            let max_price = self.terms.max_price.filter(|_| market == Market::Spot);
            let pool = Pool {
                instance_type: kind.name.clone(),
                zone,
                market,
                image: match &self.terms.image {
                    Some(image) => image.clone(),
                    None => image_of(kind.arch, kind.gpus).to_owned(),
                },
                max_price,
            };
            match (price, max_price) {
                (Some(price), Some(max)) if price > max => {
                    self.dear.push((price, pool));
                }
                _ => self.offers.push(Offer {
                    pool,
                    kind: kind.clone(),
                    price,
                }),
            }
        }
    }

    /// The zones of a type, with the spot price in each. Where that is no help, EC2 chooses.
    fn places(&self, kind: &InstanceType, market: Market) -> Vec<(Option<Zone>, Option<Price>)> {
        let known = self.prices.unwrap_or_default();
        let places: Vec<_> = known
            .iter()
            .filter(|place| place.instance_type == kind.name)
            .map(|place| (Some(place.zone.clone()), Some(place.price)))
            .collect();
        // Known prices without this type: it is not sold as spot.
        if places.is_empty() && (self.prices.is_none() || market == Market::OnDemand) {
            return vec![(None, None)];
        }
        places
    }

    /// What came of it; why there is nothing, if there is not.
    fn finish(mut self) -> Result<Chosen, Refused> {
        let pools = self.dear.len();
        let cheapest = self.dear.into_iter().min_by_key(|(price, _)| *price);
        let too_dear = cheapest.zip(self.terms.max_price);
        if self.offers.is_empty() {
            return Err(match too_dear {
                Some(((price, pool), max)) => Refused::TooDear {
                    pool: Box::new(pool),
                    price,
                    max,
                },
                None => Refused::NotSold {
                    wish: self.terms.wish.clone(),
                    market: self.terms.markets.first().copied().unwrap_or(Market::Spot),
                },
            });
        }
        if let Some(((price, pool), max)) = too_dear {
            self.left_out.push(LeftOut::TooDear {
                pools,
                pool: Box::new(pool),
                price,
                max,
            });
        }
        Ok(Chosen {
            offers: self.offers,
            left_out: self.left_out,
        })
    }
}
