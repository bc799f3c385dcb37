//! The prices of instances that have run, as EC2 and AWS's price list have them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tokio::task::JoinSet;

use super::super::cost::ROOT_GIB;
use super::parts::{Pool, Ran};
use crate::ec2::{Ec2, Error, Kind, Market, Price, PriceChange, Speed, StoragePrices, Zone};

/// The most types that are asked about: names in tags may be anything.
const MOST: usize = 100;

/// How many types are asked about at once.
const AT_ONCE: usize = 8;

/// A price, and since when it was in force.
type Change = (Timestamp, Price);

/// Prices of types: of spot by zone and time, the oldest first, and on demand.
#[derive(Debug, Default)]
pub(crate) struct Prices {
    spot: BTreeMap<(String, Zone), Vec<Change>>,
    on_demand: BTreeMap<String, Price>,
    pub(super) storage: StoragePrices,
}

impl Prices {
    /// Asks for the prices of these instances from `start` on. Returns also what went wrong: a price that is not
    /// to be had fails nothing.
    pub(super) async fn read<'a>(
        ec2: &Ec2,
        ran: impl Iterator<Item = &'a Ran>,
        start: Timestamp,
    ) -> (Self, Vec<String>) {
        let (mut spot, mut on_demand) = (BTreeSet::new(), BTreeSet::new());
        for it in ran {
            let (kind, market, _) = &it.pool;
            match market {
                Market::Spot => spot.insert(kind.clone()),
                // The recorded one is that of the time.
                Market::OnDemand => it.price.is_none() && on_demand.insert(kind.clone()),
            };
        }
        let mut prices = Self::default();
        let mut troubles = BTreeSet::new();
        for changes in histories(ec2, spot, start).await {
            match changes {
                Ok(changes) => prices.add(changes),
                // A type that EC2 does not know has no price.
                Err(error) if error.kind == Kind::Invalid => {}
                Err(error) => {
                    troubles.insert(format!("past spot prices are not known: {error}"));
                }
            }
        }
        let on_demand: Vec<String> = on_demand.into_iter().take(MOST).collect();
        match ec2.on_demand_prices(&on_demand).await {
            Ok(found) => prices.on_demand = found,
            Err(error) => {
                troubles.insert(format!("on-demand prices are not known: {error}"));
            }
        }
        prices.storage = ec2.storage_prices().await;
        (prices, troubles.into_iter().collect())
    }

    /// The root disk of an instance, a month.
    pub(super) fn root_disk(&self) -> Price {
        self.storage.volume(ROOT_GIB, Speed::default())
    }

    /// Adds changes of spot prices, the oldest first.
    pub(super) fn add(&mut self, changes: Vec<PriceChange>) {
        for change in changes {
            let pool = (change.to.instance_type, change.to.zone);
            let known = self.spot.entry(pool).or_default();
            known.push((change.since, change.to.price));
        }
    }

    /// The price of the instance at each time, as far as it is known: before EC2's own history that of its launch.
    pub(super) fn of_instance(&self, ran: &Ran) -> Vec<Change> {
        let (kind, market, zone): &Pool = &ran.pool;
        let from = ran.times.from;
        let at_launch = ran.price.map(|price| (from, price));
        match market {
            Market::OnDemand => {
                let listed = self.on_demand.get(kind).map(|price| (from, *price));
                at_launch.or(listed).into_iter().collect()
            }
            Market::Spot => {
                let known = self.spot.get(&(kind.clone(), zone.clone()));
                let known = known.map_or(&[][..], |it| it);
                let is_before = |it: &Change| known.first().is_none_or(|first| it.0 < first.0);
                let at_launch = at_launch.filter(is_before);
                at_launch.into_iter().chain(known.iter().copied()).collect()
            }
        }
    }
}

/// The histories of the spot prices of these types, or why each is not to be had.
async fn histories(
    ec2: &Ec2,
    types: BTreeSet<String>,
    start: Timestamp,
) -> Vec<Result<Vec<PriceChange>, Error>> {
    let types: Vec<String> = types.into_iter().take(MOST).collect();
    let mut found = Vec::new();
    // Each by itself, so that a name that is no type spoils no other's.
    for types in types.chunks(AT_ONCE) {
        let mut asked = JoinSet::new();
        for name in types.iter().cloned() {
            let ec2 = ec2.clone();
            asked.spawn(async move { ec2.spot_price_history(&[name], start).await });
        }
        found.extend(asked.join_all().await);
    }
    found
}
