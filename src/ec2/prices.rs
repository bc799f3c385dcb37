//! Spot prices, by type and zone: those in force, and those of the past.
//!
//! `DescribeSpotPriceHistory` with a start of *now* returns the current price of each type in each
//! zone where it is sold, and nothing else; with an earlier start also every change since (EC2 user
//! guide, *View Spot Instance pricing history*).
//! EC2's API knows no on-demand price: see [`super::on_demand`].

use std::collections::BTreeMap;

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{InstanceType, SpotPrice as Answer};
use jiff::Timestamp;

use super::pages::read_pages;
use super::{Ec2, Error, Price, Zone};

/// The product that xdrive's images are billed as.
const PRODUCT: &str = "Linux/UNIX";

/// Prices a page: the most that the call allows.
const PAGE: i32 = 1000;

/// Types a call.
const TYPES: usize = 100;

/// The spot price of one type in one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpotPrice {
    /// The type.
    pub instance_type: String,
    /// The zone.
    pub zone: Zone,
    /// The zone's id, the same in every account, such as `use1-az1`; none if EC2 does not say it.
    pub zone_id: Option<String>,
    /// The price, an hour.
    pub price: Price,
}

/// A spot price that is or was in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceChange {
    /// The price, its type and zone.
    pub to: SpotPrice,
    /// Since when it was in force.
    pub since: Timestamp,
}

impl Ec2 {
    /// The spot prices of these types in every zone that were current at `start` or after, the
    /// oldest first. EC2 knows those of the last 90 days.
    pub async fn spot_price_history(
        &self,
        types: &[String],
        start: Timestamp,
    ) -> Result<Vec<PriceChange>, Error> {
        let mut changes = Vec::new();
        for types in types.chunks(TYPES) {
            changes.extend(self.price_changes(types, None, start).await?);
        }
        changes.sort_by_key(|change| change.since);
        Ok(changes)
    }

    /// The current spot prices of these types (100 at most) in every zone, in no order. A type that
    /// does not exist, or is not sold as spot, has none.
    pub async fn spot_prices(&self, types: &[String]) -> Result<Vec<SpotPrice>, Error> {
        self.prices(types, None).await
    }

    /// The current spot price there, in US dollars an hour; `None` where the type is not sold.
    pub async fn spot_price(&self, instance_type: &str, zone: &Zone) -> Result<Option<f64>, Error> {
        let prices = self.prices(&[instance_type.to_owned()], Some(zone)).await?;
        Ok(prices.first().map(|found| found.price.dollars()))
    }

    async fn prices(&self, types: &[String], zone: Option<&Zone>) -> Result<Vec<SpotPrice>, Error> {
        let now = self.clock.now();
        // If a price changes at this moment, EC2 returns both: the later holds.
        let mut newest = BTreeMap::<_, PriceChange>::new();
        for change in self.price_changes(types, zone, now).await? {
            let place = (change.to.instance_type.clone(), change.to.zone.clone());
            match newest.get(&place) {
                Some(known) if known.since >= change.since => {}
                _ => {
                    newest.insert(place, change);
                }
            }
        }
        Ok(newest.into_values().map(|found| found.to).collect())
    }

    async fn price_changes(
        &self,
        types: &[String],
        zone: Option<&Zone>,
        start: Timestamp,
    ) -> Result<Vec<PriceChange>, Error> {
        const CALL: &str = "DescribeSpotPriceHistory";
        let types = types.iter().map(|name| InstanceType::from(name.as_str()));
        let pages = self
            .patient
            .describe_spot_price_history()
            .set_instance_types(Some(types.collect()))
            .set_availability_zone(zone.map(|zone| zone.0.clone()))
            .product_descriptions(PRODUCT)
            .start_time(DateTime::from_secs(start.as_second()))
            .into_paginator()
            .page_size(PAGE)
            .send();
        read_pages(CALL, pages, |page| {
            page.spot_price_history().iter().map(read).collect()
        })
        .await
    }
}

/// Parses a price, and since when it holds.
fn read(answer: &Answer) -> Result<PriceChange, String> {
    let (Some(instance_type), Some(zone), Some(price)) = (
        answer.instance_type(),
        answer.availability_zone(),
        answer.spot_price(),
    ) else {
        return Err(format!("half a price: {answer:?}"));
    };
    let to = SpotPrice {
        instance_type: instance_type.as_str().to_owned(),
        zone: Zone(zone.to_owned()),
        zone_id: answer.availability_zone_id().map(str::to_owned),
        price: price.parse().map_err(|_| format!("a price of {price:?}"))?,
    };
    let since = answer.timestamp().map_or(0, DateTime::secs);
    let since = Timestamp::from_second(since).map_err(|error| error.to_string())?;
    Ok(PriceChange { to, since })
}
