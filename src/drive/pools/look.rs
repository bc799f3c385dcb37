//! The calls for a choice: EC2's types, and the current spot prices.
//!
//! For named types two calls, in parallel. For required resources first all types that could meet
//! them (some pages), then their prices. Placement scores, where they are asked for, and prices on demand
//! are asked for at once after that.

use std::collections::{BTreeMap, BTreeSet};

use crate::ec2::{Arch, Ec2, Error, InstanceType, Kind, Market, Price};

use super::{
    Chosen, LeftOut, Offer, Refused, Requirements, Scores, Terms, choose, lasting, reserved, to_try,
};

/// How many of the types that meet the requirements are priced: as many as one call answers in one
/// page. They are the smallest, so the cheapest are among them.
const PRICED: usize = 100;

/// EC2's error code for an unknown type.
const NO_TYPE: &str = "InvalidInstanceType";

/// Asks EC2, and chooses.
pub async fn look(ec2: &Ec2, terms: &Terms) -> Result<Chosen, Refused> {
    if let Some(wanted) = &terms.reserved {
        return reserved::look(ec2, terms, wanted).await;
    }
    let (types, prices) = match &terms.requirements {
        Requirements::Types(names) => {
            let (types, prices) = tokio::join!(ec2.instance_types(names), ec2.spot_prices(names));
            match types {
                Ok(types) => (types, prices),
                Err(error) => return Err(unknown(ec2, names, error).await),
            }
        }
        Requirements::AtLeast(_) => {
            let types = candidates(ec2, terms).await?;
            let names: Vec<String> = types.iter().map(|kind| kind.name.clone()).collect();
            let prices = match names.as_slice() {
                [] => Ok(Vec::new()),
                names => ec2.spot_prices(names).await,
            };
            (types, prices)
        }
    };
    let (mut chosen, prices) = match prices {
        Ok(prices) => (choose(terms, &types, Some(&prices))?, prices),
        // A caller that may not read prices can still launch. If more is wrong, other calls fail.
        Err(error) => {
            let mut chosen = choose(terms, &types, None)?;
            chosen.left_out.push(LeftOut::Prices(error));
            (chosen, Vec::new())
        }
    };
    let rated = lasting::scored_types(terms, &chosen.offers);
    let (on_demand, scores) = tokio::join!(
        prices_on_demand(ec2, terms, &chosen.offers),
        lasting::ask(ec2, &rated, &prices),
    );
    for offer in &mut chosen.offers {
        if offer.pool.market == Market::OnDemand {
            offer.price = on_demand.get(&offer.kind.name).copied();
        }
    }
    if !rated.is_empty() {
        let scores = scores.unwrap_or_else(|why| {
            chosen.left_out.push(why);
            BTreeMap::new()
        });
        lasting::give_scores(&mut chosen.offers, &rated, &scores);
        if terms.scores == Scores::Preferred {
            lasting::put_lasting_first(terms, &mut chosen.offers, &on_demand);
        }
    }
    if terms.needs_price {
        demand_prices(terms, &mut chosen.offers)?;
    }
    Ok(chosen)
}

/// Leaves the offers whose price is known, or bounded by the terms; there has to be one.
fn demand_prices(terms: &Terms, offers: &mut Vec<Offer>) -> Result<(), Refused> {
    let first = offers.first().map(|offer| offer.pool.clone());
    offers.retain(|offer| {
        let is_bounded = offer.pool.market == Market::Spot && terms.max_price.is_some();
        offer.price.is_some() || is_bounded
    });
    match first.filter(|_| offers.is_empty()) {
        Some(first) => Err(Refused::NotPriced(Box::new(first))),
        None => Ok(()),
    }
}

/// The prices on demand that matter for the offers that are tried: of those on demand, and of spot ones
/// where scores decide. Empty where the caller may not read AWS's price list.
async fn prices_on_demand(ec2: &Ec2, terms: &Terms, offers: &[Offer]) -> BTreeMap<String, Price> {
    let matters =
        |offer: &&Offer| offer.pool.market == Market::OnDemand || terms.scores == Scores::Preferred;
    let (tried, _) = to_try(offers, None);
    let names = tried.into_iter().filter(matters);
    let names: BTreeSet<String> = names.map(|offer| offer.kind.name.clone()).collect();
    let prices = ec2.on_demand_prices(&Vec::from_iter(names)).await;
    prices.unwrap_or_default()
}

/// The smallest types that meet the requirements.
async fn candidates(ec2: &Ec2, terms: &Terms) -> Result<Vec<InstanceType>, Refused> {
    let Requirements::AtLeast(resources) = &terms.requirements else {
        return Ok(Vec::new());
    };
    let market = terms.markets.first().copied().unwrap_or(Market::Spot);
    let archs = match &terms.arch {
        Some(arch) => std::slice::from_ref(arch),
        None => Arch::ALL.as_slice(),
    };
    let mut types = ec2.instance_types_for(market, archs, terms.is_free).await?;
    if !terms.is_free {
        types.retain(|kind| resources.is_met_by(kind));
    }
    types.sort_by(|one, other| {
        let key = |kind: &InstanceType| (kind.weight(), kind.name.clone());
        key(one).cmp(&key(other))
    });
    types.truncate(PRICED);
    Ok(types)
}

/// The refusal, with the types of the same families where EC2 does not know a type.
async fn unknown(ec2: &Ec2, names: &[String], error: Error) -> Refused {
    if error.code != NO_TYPE {
        return Refused::Ec2(error);
    }
    let mut near = Vec::new();
    for name in names.iter().filter(|name| error.message.contains(*name)) {
        let family = name.split('.').next().unwrap_or_default();
        // It is only for the hint.
        if let Ok(types) = ec2.instance_types_like(&format!("{family}.*")).await {
            near.extend(types.into_iter().map(|kind| kind.name));
        }
    }
    near.sort();
    near.dedup();
    Refused::Unknown {
        error: Error {
            kind: Kind::Invalid,
            ..error
        },
        near,
    }
}
