//! The cost of a running instance beside its own price.

use std::collections::BTreeMap;

use crate::ec2::{Ec2, GibiBytes, Instance, InstanceType, Speed, Zone, volume_cents};

/// The price of a public IPv4 address, in US dollars an hour (Amazon VPC pricing, *Public IPv4 address*).
pub(super) const ADDRESS_DOLLARS: f64 = 0.005;

/// The instance's root disk, in GiB: that of the public images.
pub(super) const ROOT_GIB: GibiBytes = 30;

/// The hours of a month, as AWS counts them.
const HOURS_A_MONTH: f64 = 730.0;

/// The cost of an instance an hour beside its own price, in US dollars, about: its address, its
/// disk, and a drive of `size` and `speed` while it is a volume.
#[must_use]
pub(super) fn hourly_cost_beside_price(size: GibiBytes, speed: Speed) -> f64 {
    let cents = volume_cents(ROOT_GIB + size, speed);
    let month = 0.01 * f64::from(u32::try_from(cents).unwrap_or(u32::MAX));
    ADDRESS_DOLLARS + month / HOURS_A_MONTH
}

/// Prices of instances an hour, each asked for once.
#[derive(Debug, Default)]
pub(crate) struct HourlyPrices(BTreeMap<(String, Zone, &'static str), Option<f64>>);

impl HourlyPrices {
    /// The price of this instance in US dollars an hour; none where it is not known.
    pub(crate) async fn find(&mut self, instance: &Instance, ec2: &Ec2) -> Option<f64> {
        let (kind, market) = (instance.instance_type.clone(), instance.market.as_str());
        let pool = (kind, instance.zone.clone(), market);
        if let Some(known) = self.0.get(&pool) {
            return *known;
        }
        let price = ec2.hourly_price(&pool.0, &pool.1, instance.market).await;
        // Without the right to ask for prices the rest is shown all the same.
        let price = price.unwrap_or(None);
        self.0.insert(pool, price);
        price
    }
}

/// The cost of a day in US dollars, about, of an instance with this price an hour and a drive of `size` and
/// `speed`.
pub(crate) fn daily_cost(hourly_price: f64, size: GibiBytes, speed: Speed) -> f64 {
    24.0 * (hourly_price + hourly_cost_beside_price(size, speed))
}

/// The cost of an instance beside its own price, as the end of a sentence.
pub(crate) fn beside_words(size: GibiBytes, speed: Speed) -> String {
    format!(
        "plus about ${:.3} an hour for address and disks",
        hourly_cost_beside_price(size, speed)
    )
}

/// The cost of a burstable type beside its price; `None` for any other type.
pub(crate) fn burst_cost_note(kind: &InstanceType) -> Option<String> {
    let cents = kind.surplus_cents()?;
    let name = &kind.name;
    Some(format!(
        "{name} is burstable: each vCPU-hour above its baseline costs {} more",
        dollars(u64::from(cents))
    ))
}

/// US cents as dollars.
pub(crate) fn dollars(cents: u64) -> String {
    format!("${}.{:02}", cents / 100, cents % 100)
}
