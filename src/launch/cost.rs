//! The cost of a running instance beside its own price.

use std::collections::BTreeMap;

use crate::ec2::{
    Ec2, GibiBytes, Instance, InstanceType, Market, Price, Speed, StoragePrices, Zone,
};

/// The price of a public IPv4 address, in US dollars an hour (Amazon VPC pricing, *Public IPv4 address*).
pub(super) const ADDRESS_DOLLARS: f64 = 0.005;

/// The instance's root disk, in GiB: that of the public images.
pub(super) const ROOT_GIB: GibiBytes = 30;

/// By how much spot's price of now may rise.
const RISE: f64 = 1.2;

/// The hours of a month, as AWS counts them.
const HOURS_A_MONTH: f64 = 730.0;

/// The disk of an instance and a drive of this size and speed, at the prices of their region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disks {
    pub(crate) size: GibiBytes,
    pub(crate) speed: Speed,
    pub(crate) prices: StoragePrices,
}

impl Disks {
    /// The cost of an instance an hour beside its own price, in US dollars, about: its address, its
    /// disk, and the drive while it is a volume.
    #[must_use]
    pub(crate) fn hourly_cost_beside_price(self) -> f64 {
        let month = self.prices.volume(ROOT_GIB + self.size, self.speed);
        ADDRESS_DOLLARS + month.dollars() / HOURS_A_MONTH
    }

    /// The cost of an instance beside its own price, as the end of a sentence.
    pub(crate) fn beside_words(self) -> String {
        format!(
            "plus about ${:.3} an hour for address and disks",
            self.hourly_cost_beside_price()
        )
    }
}

/// The most that an instance takes an hour beside its disks and address, in US dollars: by the bid for spot, or by its
/// `price` of now; none where neither is known.
pub(crate) fn most_an_hour(market: Market, price: Option<f64>, bid: Option<Price>) -> Option<f64> {
    match market {
        Market::OnDemand => price,
        Market::Spot => bid.map(Price::dollars).or(price.map(|price| price * RISE)),
    }
}

/// Prices of instances an hour, each asked for once.
#[derive(Debug, Default)]
pub(crate) struct HourlyPrices(BTreeMap<(String, Zone, &'static str), Option<f64>>);

impl HourlyPrices {
    /// The price of this instance with its public address, if it has one, in US dollars an hour; none where it is
    /// not known.
    pub(crate) async fn find(&mut self, instance: &Instance, ec2: &Ec2) -> Option<f64> {
        let (kind, market) = (instance.instance_type.clone(), instance.market.as_str());
        let pool = (kind, instance.zone.clone(), market);
        let price = if let Some(known) = self.0.get(&pool) {
            *known
        } else {
            let price = ec2.hourly_price(&pool.0, &pool.1, instance.market).await;
            // Without the right to ask for prices the rest is shown all the same.
            let price = price.unwrap_or(None);
            self.0.insert(pool, price);
            price
        };
        let address = if instance.has_public {
            ADDRESS_DOLLARS
        } else {
            0.0
        };
        price.map(|price| price + address)
    }
}

/// The cost of a burstable type beside its price; `None` for any other type.
pub(crate) fn burst_cost_note(kind: &InstanceType) -> Option<String> {
    let cents = kind.surplus_cents()?;
    let name = &kind.name;
    Some(format!(
        "{name} is burstable: each vCPU-hour above its baseline costs {} more",
        in_cents(u64::from(cents))
    ))
}

/// A price, to a cent.
pub(crate) fn dollars(price: Price) -> String {
    in_cents(price.cents())
}

/// US cents as dollars.
pub(crate) fn in_cents(cents: u64) -> String {
    format!("${}.{:02}", cents / 100, cents % 100)
}
