//! The order of spot pools by AWS's placement scores, for who prefers what lasts to what is cheapest.
//!
//! AWS scores a zone for a set of types, and no type alone. The set is that of the spot offers that would
//! be tried by price, so a score says which zone to take for one of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::choose::rank;
use super::{LeftOut, Offer, Score, Scores, Terms, to_try};
use crate::ec2::{Ec2, FEWEST_SCORED, Market, Price, SpotPrice, Zone};

/// The types that are scored together: those of the spot offers that are tried; none where none is asked
/// for.
pub(super) fn scored_types(terms: &Terms, offers: &[Offer]) -> Vec<String> {
    if terms.scores == Scores::Unasked {
        return Vec::new();
    }
    let (tried, _) = to_try(offers, None);
    let spot = tried
        .iter()
        .filter(|offer| offer.pool.market == Market::Spot);
    let types: BTreeSet<String> = spot.map(|offer| offer.kind.name.clone()).collect();
    Vec::from_iter(types)
}

/// Asks for the scores of these types; returns those of the zones whose ids are in `prices`, or why there
/// are none. No call is made for too few types.
pub(super) async fn ask(
    ec2: &Ec2,
    types: &[String],
    prices: &[SpotPrice],
) -> Result<BTreeMap<Zone, u8>, LeftOut> {
    if types.len() < FEWEST_SCORED {
        return Err(LeftOut::TooFewToScore(types.len()));
    }
    let by_id = ec2.placement_scores(types).await.map_err(LeftOut::Scores)?;
    let scored = prices.iter().filter_map(|price| {
        let score = by_id.get(price.zone_id.as_ref()?)?;
        Some((price.zone.clone(), *score))
    });
    Ok(scored.collect())
}

/// Gives each spot offer of one of these types the score of its zone.
pub(super) fn give_scores(offers: &mut [Offer], types: &[String], scores: &BTreeMap<Zone, u8>) {
    for offer in offers {
        if offer.pool.market != Market::Spot {
            continue;
        }
        let zone = offer.pool.zone.as_ref();
        let zone = zone.filter(|_| types.contains(&offer.kind.name));
        let score = zone.and_then(|zone| scores.get(zone));
        offer.score = score.map_or(Score::Unknown, |score| Score::Of(*score));
    }
}

/// Puts spot offers with a higher score first, among those of one rank, which stay in the order of their
/// ranks. An offer that costs more than its type `on_demand`, where that is known, is not preferred. The
/// rest stays in the order of prices.
pub(super) fn put_lasting_first(
    terms: &Terms,
    offers: &mut [Offer],
    on_demand: &BTreeMap<String, Price>,
) {
    offers.sort_by_key(|offer| {
        let market = terms.markets.iter().position(|it| *it == offer.pool.market);
        let most = on_demand.get(&offer.kind.name);
        let is_dear = offer
            .price
            .zip(most)
            .is_some_and(|(price, most)| price > *most);
        let score = match offer.score {
            Score::Of(score) if !is_dear => Some(score),
            _ => None,
        };
        (market, rank(terms, &offer.kind), Reverse(score), is_dear)
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::{kind, order, terms};
    use super::super::{Chosen, choose};
    use super::*;
    use crate::ec2::{Arch, InstanceType};

    const TYPES: [&str; 3] = ["m5.large", "c5.large", "r5.large"];

    fn types() -> Vec<InstanceType> {
        let types = TYPES.map(|name| kind(name, 2, 8, 0, Arch::X86_64));
        types.to_vec()
    }

    /// Each type in each zone: c5 is the cheapest type, a the cheapest zone.
    fn prices() -> Vec<SpotPrice> {
        let zones = [("a", "10"), ("b", "20"), ("c", "30")];
        let price = |name: &str, zone: &str, price: &str| SpotPrice {
            instance_type: name.to_owned(),
            zone: Zone(zone.to_owned()),
            zone_id: None,
            price: price.parse().unwrap(),
        };
        let cents = [("c5.large", "1"), ("m5.large", "2"), ("r5.large", "3")];
        let all = cents.iter().flat_map(|(name, cent)| {
            zones.map(|(zone, dollar)| price(name, zone, &format!("0.{dollar}{cent}")))
        });
        all.collect()
    }

    /// The order of pools that are scored so, with these prices on demand.
    fn scored(terms: &Terms, scores: &[(&str, u8)], on_demand: &[(&str, &str)]) -> Vec<String> {
        let mut chosen: Chosen = choose(terms, &types(), Some(&prices())).unwrap();
        let scores = scores
            .iter()
            .map(|(zone, score)| (Zone((*zone).to_owned()), *score));
        let on_demand = on_demand.iter();
        let on_demand = on_demand.map(|(name, price)| ((*name).to_owned(), price.parse().unwrap()));
        let types = scored_types(terms, &chosen.offers);
        give_scores(&mut chosen.offers, &types, &scores.collect());
        put_lasting_first(terms, &mut chosen.offers, &on_demand.collect());
        order(&chosen)
    }

    fn lasting(requirements: &str) -> Terms {
        Terms {
            scores: Scores::Preferred,
            ..terms(requirements)
        }
    }

    #[test]
    fn a_better_score_comes_first_and_between_equals_the_better_price() {
        let terms = lasting("cpus=2");
        let order = scored(&terms, &[("a", 3), ("b", 9), ("c", 9)], &[]);
        let (best, rest) = order.split_at(6);
        assert_eq!(
            best,
            [
                "c5.large b",
                "m5.large b",
                "r5.large b",
                "c5.large c",
                "m5.large c",
                "r5.large c"
            ]
        );
        assert_eq!(rest, ["c5.large a", "m5.large a", "r5.large a"]);
        let order = scored(&terms, &[("c", 1)], &[]);
        assert_eq!(
            order[..4],
            ["c5.large c", "m5.large c", "r5.large c", "c5.large a"]
        );
        let order = scored(&terms, &[], &[]);
        assert_eq!(
            order[..3],
            ["c5.large a", "m5.large a", "r5.large a"],
            "as by price"
        );
    }

    #[test]
    fn nothing_is_preferred_that_costs_more_than_on_demand_or_than_the_limit() {
        let scores = [("a", 3), ("b", 5), ("c", 9)];
        let on_demand = [
            ("c5.large", "0.25"),
            ("m5.large", "0.301"),
            ("r5.large", "0.1"),
        ];
        let order = scored(&lasting("cpus=2"), &scores, &on_demand);
        assert_eq!(
            order,
            [
                "c5.large b",
                "m5.large b",
                "c5.large a",
                "m5.large a",
                "r5.large a",
                "r5.large b",
                "c5.large c",
                "m5.large c",
                "r5.large c"
            ]
        );
        let most = Terms {
            max_price: "0.2".parse().ok(),
            ..lasting("cpus=2")
        };
        let order = scored(&most, &scores, &[]);
        assert_eq!(order, ["c5.large a", "m5.large a", "r5.large a"]);
    }

    #[test]
    fn named_types_keep_their_order_and_on_demand_stays_behind_spot() {
        let terms = Terms {
            markets: vec![Market::Spot, Market::OnDemand],
            ..lasting("r5.large,c5.large,m5.large")
        };
        let order = scored(&terms, &[("a", 1), ("b", 2), ("c", 10)], &[]);
        assert_eq!(
            order[..4],
            ["r5.large c", "r5.large b", "r5.large a", "c5.large c"]
        );
        assert_eq!(order[9..12], ["!r5.large a", "!r5.large b", "!r5.large c"]);
    }

    #[test]
    fn scored_are_the_types_that_would_be_tried_as_spot() {
        let offers = |terms: &Terms| choose(terms, &types(), Some(&prices())).unwrap().offers;
        let all = lasting("cpus=2");
        assert_eq!(
            scored_types(&all, &offers(&all)),
            ["c5.large", "m5.large", "r5.large"]
        );
        let unasked = terms("cpus=2");
        assert_eq!(scored_types(&unasked, &offers(&unasked)), [""; 0]);
        let on_demand = Terms {
            markets: vec![Market::OnDemand],
            ..lasting("cpus=2")
        };
        assert_eq!(scored_types(&on_demand, &offers(&on_demand)), [""; 0]);
    }
}
