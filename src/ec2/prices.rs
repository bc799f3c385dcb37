//! Spot prices, by type and zone: those in force, and those of the past.
//!
//! `DescribeSpotPriceHistory` with a start of *now* returns the current price of each type in each
//! zone where it is sold, and nothing else; with an earlier start also every change since (EC2 user
//! guide, *View Spot Instance pricing history*).
//! EC2's API knows no on-demand price: see [`super::on_demand`].

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{InstanceType, SpotPrice as Answer};
use jiff::Timestamp;

use super::pages::read_pages;
use super::{Ec2, Error, Zone};

/// The product that xdrive's images are billed as.
const PRODUCT: &str = "Linux/UNIX";

/// Prices a page: the most that the call allows.
const PAGE: i32 = 1000;

/// Types a call.
const TYPES: usize = 100;

/// US dollars an hour, to the millionth: AWS writes no more digits that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Price(u64);

impl Price {
    /// In dollars, for arithmetic that need not be exact.
    #[must_use]
    pub fn dollars(self) -> f64 {
        // Below a million dollars an hour nothing is lost.
        f64::from(u32::try_from(self.0 / 1_000_000).unwrap_or(u32::MAX))
            + f64::from(u32::try_from(self.0 % 1_000_000).unwrap_or(0)) / 1e6
    }

    /// As `RunInstances` takes it: a decimal number without a sign of the currency.
    #[must_use]
    pub fn decimal(self) -> String {
        format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// In dollars, with four digits after the point, or more where they are needed.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = self.decimal();
        let (short, rest) = decimal.split_at(decimal.len() - 2);
        f.pad(&format!("${short}{}", rest.trim_end_matches('0')))
    }
}

/// The price that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not a number of dollars such as 0.05")]
pub struct NoPrice;

impl FromStr for Price {
    type Err = NoPrice;

    /// Digits, and at most one point; digits after the sixth decimal are cut off.
    fn from_str(given: &str) -> Result<Self, NoPrice> {
        let (whole, part) = given.split_once('.').unwrap_or((given, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || (whole.is_empty() && part.is_empty()) {
            return Err(NoPrice);
        }
        let dollars: u64 = match whole {
            "" => 0,
            whole => whole.parse().map_err(|_| NoPrice)?,
        };
        let part: String = part.chars().chain("000000".chars()).take(6).collect();
        let millionths: u64 = part.parse().map_err(|_| NoPrice)?;
        dollars
            .checked_mul(1_000_000)
            .and_then(|whole| whole.checked_add(millionths))
            .map(Self)
            .ok_or(NoPrice)
    }
}

/// The spot price of one type in one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpotPrice {
    /// The type.
    pub instance_type: String,
    /// The zone.
    pub zone: Zone,
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
        price: price.parse().map_err(|_| format!("a price of {price:?}"))?,
    };
    let since = answer.timestamp().map_or(0, DateTime::secs);
    let since = Timestamp::from_second(since).map_err(|error| error.to_string())?;
    Ok(PriceChange { to, since })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_read_exactly_and_written_shortly() {
        for (given, shown, decimal) in [
            ("0.0125", "$0.0125", "0.012500"),
            ("0.012480", "$0.01248", "0.012480"),
            ("0.0000100000", "$0.00001", "0.000010"),
            ("3", "$3.0000", "3.000000"),
            (".5", "$0.5000", "0.500000"),
            ("12.", "$12.0000", "12.000000"),
            ("0.1234567", "$0.123456", "0.123456"),
        ] {
            let price: Price = given.parse().unwrap();
            assert_eq!(price.to_string(), shown, "{given}");
            assert_eq!(price.decimal(), decimal, "{given}");
        }
    }

    #[test]
    fn invalid_amounts_of_dollars_are_refused() {
        for given in [
            "", ".", "-1", "+1", "1,5", "$1", "1e3", "NaN", "inf", "1.2.3", " 1",
        ] {
            assert_eq!(given.parse::<Price>(), Err(NoPrice), "{given}");
        }
        assert!("99999999999999999999".parse::<Price>().is_err());
    }

    #[test]
    fn dollars_are_those_that_were_read() {
        let price: Price = "1.006".parse().unwrap();
        assert!((price.dollars() - 1.006).abs() < 1e-9);
    }
}
