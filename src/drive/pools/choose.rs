//! The choice: offers in order, from types and prices; and what is left out, with its reason.

use super::{
    Chosen, LeftOut, Offer, Pool, Refused, Requirements, Resources, Score, Terms, image_of,
};
use crate::ec2::{InstanceType, Market, Price, SpotPrice, Zone};

/// Puts the pools of `terms` in order, from EC2's `types` and their spot `prices` (none if those
/// could not be read).
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
    let wanted = choice.select_types(types)?;
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
    /// Spot pools above the price limit.
    dear: Vec<(Price, Pool)>,
}

impl Choice<'_> {
    /// The types that meet the requirements and can run the drive; named ones in order of
    /// preference.
    fn select_types(&mut self, types: &[InstanceType]) -> Result<Vec<InstanceType>, Refused> {
        let fits = |kind: &InstanceType| self.terms.arch.is_none_or(|arch| arch == kind.arch);
        let names = match &self.terms.requirements {
            Requirements::Types(names) => names,
            Requirements::AtLeast(resources) if self.terms.is_free => {
                let free = types.iter().filter(|kind| kind.free_tier && fits(kind));
                let met = free.clone().filter(|kind| resources.is_within(kind));
                let met: Vec<InstanceType> = met.cloned().collect();
                return if met.is_empty() {
                    let mut there: Vec<String> = free.map(|kind| kind.name.clone()).collect();
                    there.sort();
                    Err(Refused::NoneFree {
                        resources: *resources,
                        there,
                    })
                } else {
                    Ok(met)
                };
            }
            Requirements::AtLeast(resources) => {
                let met = types.iter().filter(|kind| resources.is_met_by(kind));
                let met: Vec<InstanceType> = met.filter(|kind| fits(kind)).cloned().collect();
                return if met.is_empty() {
                    Err(Refused::NothingMeets {
                        resources: *resources,
                        arch: self.terms.arch,
                        by: self.terms.arch_by,
                    })
                } else {
                    Ok(met)
                };
            }
        };
        let (only, by) = (self.terms.arch, self.terms.arch_by);
        let mut wanted = Vec::new();
        for name in names {
            let kind = types.iter().find(|kind| kind.name == *name);
            let kind = kind.ok_or_else(|| Refused::Unfit(name.clone()))?;
            if kind.is_neuron {
                return Err(Refused::Neuron(name.clone()));
            }
            match only {
                Some(only) if only != kind.arch => self.left_out.push(LeftOut::OtherArch {
                    instance_type: name.clone(),
                    arch: kind.arch,
                    only,
                    by,
                }),
                _ => wanted.push(kind.clone()),
            }
        }
        match (only, self.left_out.first()) {
            (Some(only), Some(LeftOut::OtherArch { arch, .. })) if wanted.is_empty() => {
                Err(Refused::OtherArch {
                    types: names.clone(),
                    arch: *arch,
                    only,
                    by,
                })
            }
            _ => Ok(wanted),
        }
    }

    /// Adds the pools of one market.
    fn add(&mut self, wanted: &[InstanceType], market: Market) {
        let mut offers = Vec::new();
        for kind in wanted {
            let mut places = self.places(kind, market);
            if places.is_empty() || !kind.is_sold(market) {
                // Only a type that was named is reported.
                if let Requirements::Types(_) = self.terms.requirements {
                    self.left_out.push(LeftOut::NotSold {
                        instance_type: kind.name.clone(),
                        market,
                    });
                }
                continue;
            }
            let rank = rank(self.terms, kind);
            offers.extend(
                places
                    .drain(..)
                    .map(|(zone, price)| (rank, price, kind, zone)),
            );
        }
        // A price that is not known comes after all that are; then the smallest type.
        offers.sort_by_key(|(rank, price, kind, zone)| {
            let price = (price.is_none(), *price);
            (*rank, price, kind.weight(), kind.name.clone(), zone.clone())
        });
        for (_, price, kind, zone) in offers {
            let price = price.filter(|_| market == Market::Spot);
            let max_price = self.terms.max_price.filter(|_| market == Market::Spot);
            let pool = Pool {
                instance_type: kind.name.clone(),
                zone,
                market,
                image: image(self.terms, kind),
                max_price,
                reservation: None,
            };
            match (price, max_price) {
                (Some(price), Some(max)) if price > max => {
                    self.dear.push((price, pool));
                }
                _ => self.offers.push(Offer {
                    pool,
                    kind: kind.clone(),
                    price,
                    score: Score::default(),
                }),
            }
        }
    }

    /// The zones of a type, with the spot price in each; without a zone EC2 chooses.
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

    /// The offers, or why there are none.
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
                    requirements: self.terms.requirements.clone(),
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

/// The machine image of a type: the named one, else that of the host which it has to be like.
pub(super) fn image(terms: &Terms, kind: &InstanceType) -> String {
    let like = terms.like.as_ref().filter(|like| like.has(kind));
    let alike = like.and_then(|like| like.image.as_ref());
    terms.image.as_ref().or(alike).map_or_else(
        || image_of(kind.arch, kind.needs_driver()).to_owned(),
        String::clone,
    )
}

/// The rank of a type, before any price: whether it is unlike the host of a frozen program, and its place
/// among the named ones, or in the free tier.
pub(super) fn rank(terms: &Terms, kind: &InstanceType) -> (bool, usize) {
    let is_unlike = terms.like.as_ref().is_some_and(|like| !like.has(kind));
    let place = match &terms.requirements {
        Requirements::Types(names) => {
            let place = names.iter().position(|name| *name == kind.name);
            place.unwrap_or(names.len())
        }
        Requirements::AtLeast(resources) if terms.is_free => {
            rank_in_the_free_tier(*resources, kind)
        }
        Requirements::AtLeast(_) => 0,
    };
    (is_unlike, place)
}

/// The rank of a type of the free tier: first those large enough for a notebook, then the largest.
/// If resources are required, the burstable ones come last.
fn rank_in_the_free_tier(resources: Resources, kind: &InstanceType) -> usize {
    if resources != Resources::default() {
        usize::from(kind.burstable)
    } else if Resources::DEFAULT.is_within(kind) {
        0
    } else {
        usize::try_from(u32::MAX - kind.memory).unwrap_or(usize::MAX)
    }
}
