//! The bill of a drive, piece by piece from the records: what xdrive's own sums are held to.
//!
//! Sources: EC2 user guide, *Instance lifecycle* (what is billed when) and *Billing for interrupted Spot Instances*;
//! Amazon EBS pricing; Amazon VPC pricing, *Public IPv4 address*.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::Local;
use super::calls::price_of;
use super::catalog::{Storage, storage};
use super::records::{Instance, Volume};
use super::wire::ApiError;

/// The shortest time that is billed.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);
/// A spot instance that EC2 takes before it is so old costs nothing.
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// The price of an address an hour, in millionths of a dollar.
const ADDRESS: f64 = 5_000.0;

/// The cost of what is over, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bill {
    /// Of the instances themselves.
    pub instances: f64,
    /// Of their public addresses.
    pub addresses: f64,
    /// Of disks.
    pub disks: f64,
}

impl Bill {
    /// All of it.
    #[must_use]
    pub fn sum(self) -> f64 {
        self.instances + self.addresses + self.disks
    }
}

impl Local {
    /// The bill of the instances and disks of `drive` that are over.
    pub fn bill(&self, drive: &str) -> Result<Bill, ApiError> {
        let world = self.look()?;
        let now = world.now(self.0.clock.now());
        let rates = storage(self.region());
        let mut bill = Bill::default();
        for instance in world.instances.values() {
            let is_own = instance.tags.at(now).get("xdrive:drive") == Some(&drive);
            if let Some(ending) = instance.ending(now).filter(|_| is_own) {
                let (own, address) = self.of_instance(instance, ending.since, now);
                bill.instances += own / 1e6;
                bill.addresses += address / 1e6;
            }
        }
        for volume in world.volumes.values() {
            let is_own = volume.tags.at(now).get("xdrive:drive") == Some(&drive);
            if let Some(deleting) = volume.deleting.filter(|_| is_own) {
                bill.disks += of_volume(volume, &rates, deleting) / 1e6;
            }
        }
        Ok(bill)
    }

    fn of_instance(&self, instance: &Instance, ended: Timestamp, now: Timestamp) -> (f64, f64) {
        let from = instance.running;
        let to = ended.max(from + MINUTE);
        let ending = instance.ending(now);
        let is_free = ending.is_some_and(|it| instance.is_interrupted(it))
            && ended.duration_since(instance.launched) < HOUR;
        let hours = |seconds: f64| seconds / 3600.0;
        let mut sum = 0.0;
        let mut second = from;
        while second < to && !is_free {
            // Prices change on whole minutes.
            let whole = SignedDuration::from_secs(60 - second.as_second().rem_euclid(60));
            let next = (second + whole).min(to);
            let part = next.duration_since(second).as_secs_f64();
            let spot = instance.spot.is_some();
            let region = self.region();
            let price = price_of(region, (&instance.kind, &instance.zone), spot, second, now);
            sum += f64::from(price) * hours(part);
            second = next;
        }
        let ran = hours(to.duration_since(from).as_secs_f64());
        let address = if instance.public { ADDRESS * ran } else { 0.0 };
        (sum, address)
    }
}

fn of_volume(volume: &Volume, rates: &Storage, ended: Timestamp) -> f64 {
    let to = ended.max(volume.created + MINUTE);
    let days = to.to_zoned(TimeZone::UTC).days_in_month();
    let beyond = |value: Option<u32>, free: u32| f64::from(value.unwrap_or(0).saturating_sub(free));
    let shapes = volume.billed_shapes(to).into_iter();
    let cost = shapes.map(|(shape, from, until)| {
        let month = f64::from(shape.gib) * f64::from(rates.gib)
            + beyond(shape.iops, 3_000) * f64::from(rates.operation)
            + beyond(shape.throughput, 125) * f64::from(rates.mib);
        month * until.duration_since(from).as_secs_f64()
    });
    cost.sum::<f64>() / (f64::from(days) * 86_400.0)
}
