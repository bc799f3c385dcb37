//! The cost of instances and disks, from their times and prices.
//!
//! EC2 bills an instance and a disk by the second, for 60 at least (EC2 user guide, *Billing and purchasing options*;
//! Amazon EBS pricing): spot at the price in effect at each second, a disk by its part of a month of so many days.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::cost::ADDRESS_DOLLARS;
use crate::ec2::Price;

/// The shortest time that is billed.
const LEAST: SignedDuration = SignedDuration::from_secs(60);

const SECONDS_AN_HOUR: f64 = 3600.0;
const SECONDS_A_DAY: f64 = 24.0 * SECONDS_AN_HOUR;

/// A time that is billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    from: Timestamp,
    to: Timestamp,
}

impl Span {
    /// The time from `from` to `to`, or to the end of the first minute.
    pub(crate) fn new(from: Timestamp, to: Timestamp) -> Self {
        Self {
            from,
            to: to.max(from + LEAST),
        }
    }

    pub(crate) fn duration(self) -> SignedDuration {
        self.to.duration_since(self.from)
    }

    /// The part of it from `from` to `to`; none where there is none.
    pub(crate) fn within(self, from: Timestamp, to: Timestamp) -> Option<Self> {
        let (from, to) = (self.from.max(from), self.to.min(to));
        (from < to).then_some(Self { from, to })
    }

    fn hours(self) -> f64 {
        self.duration().as_secs_f64() / SECONDS_AN_HOUR
    }

    /// The months, by the days of the one that it ends in.
    fn months(self) -> f64 {
        // Midnight is of the next day.
        let last = self.to - SignedDuration::from_nanos(1);
        let days = last.to_zoned(TimeZone::UTC).days_in_month();
        self.duration().as_secs_f64() / (f64::from(days) * SECONDS_A_DAY)
    }

    /// The dollars at one price an hour.
    pub(crate) fn at(self, hour: Price) -> f64 {
        self.hours() * hour.dollars()
    }

    /// The dollars at the price in effect at each second, by its changes, of which the oldest is first; none if
    /// the price at the beginning is not among them.
    pub(crate) fn at_each(self, changes: &[(Timestamp, Price)]) -> Option<f64> {
        let (mut at, mut price) = (self.from, None);
        let mut dollars = 0.0;
        for &(since, next) in changes {
            if since >= self.to {
                break;
            }
            if since > at {
                dollars += Self {
                    from: at,
                    to: since,
                }
                .at(price?);
                at = since;
            }
            price = Some(next);
        }
        Some(
            dollars
                + Self {
                    from: at,
                    to: self.to,
                }
                .at(price?),
        )
    }

    /// The dollars for a public address.
    pub(crate) fn of_address(self) -> f64 {
        self.hours() * ADDRESS_DOLLARS
    }

    /// The dollars for a disk, or snapshots, with this price a month.
    pub(crate) fn of_disk(self, month: Price) -> f64 {
        self.months() * month.dollars()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::cost::ROOT_GIB;
    use super::*;
    use crate::clock::Clock;
    use crate::cloud::folder;
    use crate::ec2::{Market, Speed, StoragePrices};
    use crate::local::plane::PaperPlane;
    use crate::local::wire::Params;
    use crate::local::{Local, OpenOptions};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn is(given: f64, dollars: f64) -> bool {
        (given - dollars).abs() < 1e-9
    }

    #[test]
    fn spot_costs_what_it_costs_at_each_second() {
        let price = |text: &str| text.parse::<Price>().unwrap();
        let changes = [
            (at("2026-11-01T00:00:00Z"), price("0.36")),
            (at("2026-11-01T06:00:00Z"), price("0.72")),
            (at("2026-11-01T12:00:00Z"), price("3.6")),
        ];
        let cost = |from: &str, to: &str| Span::new(at(from), at(to)).at_each(&changes);
        let whole = cost("2026-11-01T05:59:00Z", "2026-11-01T06:01:40Z");
        assert!(is(whole.unwrap(), 0.006 + 0.02));
        assert!(is(
            cost("2026-11-01T06:00:00Z", "2026-11-01T06:01:40Z").unwrap(),
            0.02
        ));
        // For a minute at least, also where the price changes in it.
        assert!(is(
            cost("2026-11-01T11:59:30Z", "2026-11-01T11:59:40Z").unwrap(),
            0.006 + 0.03
        ));
        assert_eq!(cost("2026-10-31T23:59:59Z", "2026-11-01T01:00:00Z"), None);
    }

    #[test]
    fn a_disk_costs_its_part_of_the_month_that_it_is() {
        let prices = StoragePrices::default();
        let hour = Span::new(at("2026-11-01T00:00:00Z"), at("2026-11-01T01:00:00Z"));
        assert!(is(
            hour.of_disk(prices.volume(100, Speed::default())),
            8.0 / 720.0
        ));
        let hour = Span::new(at("2026-02-01T00:00:00Z"), at("2026-02-01T01:00:00Z"));
        let fast = Speed {
            iops: Some(4_000),
            throughput: Some(225),
            warm: None,
        };
        assert!(is(
            hour.of_disk(prices.volume(100, fast)),
            (8.0 + 5.0 + 4.0) / 672.0
        ));
        assert!(is(hour.of_address(), 0.005));
        // The last hour of a month is that month's.
        let hour = Span::new(at("2026-01-31T23:00:00Z"), at("2026-02-01T00:00:00Z"));
        assert!(is(hour.of_disk(prices.stored(3 << 29)), 1.5 * 0.05 / 744.0));
        assert!(is(
            hour.of_disk(prices.volume(ROOT_GIB, Speed::default())),
            30.0 * 0.08 / 744.0
        ));
    }

    #[test]
    fn the_days_of_a_time_cost_as_much_as_the_whole() {
        let whole = Span::new(at("2026-11-01T22:00:00Z"), at("2026-11-03T01:00:00Z"));
        let days = ["01", "02", "03", "04"].map(|day| at(&format!("2026-11-{day}T00:00:00Z")));
        let parts = days.windows(2).map(|day| whole.within(day[0], day[1]));
        let parts: Vec<Span> = parts.map(Option::unwrap).collect();
        let sum: f64 = parts.iter().map(|part| part.of_address()).sum();
        assert!(is(sum, whole.of_address()) && is(sum, 27.0 * 0.005));
        assert_eq!(whole.within(days[3], days[3]), None);
        assert_eq!(whole.within(at("2026-11-03T01:00:00Z"), days[3]), None);
    }

    /// The next number of a sequence, below `limit`.
    fn draw(seed: &mut u64, limit: u64) -> u64 {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % limit
    }

    #[tokio::test(start_paused = true)]
    async fn two_hundred_lives_cost_what_ec2_bills() {
        for (region, seed) in [("us-east-1", 42), ("eu-central-1", 43)] {
            hundred_lives(region, seed).await;
        }
    }

    async fn hundred_lives(region: &str, mut seed: u64) {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::tokio(at("2026-11-20T00:00:00Z"));
        let mut options = OpenOptions::new(&dir.path().join("state"), PaperPlane, clock.clone());
        options.settings.region = Some(region.to_owned());
        let local = Local::open(options).unwrap();
        let ec2 = folder::ec2(&local);
        let call = |action: &str, pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            local.call(action, &Params::new(pairs)).unwrap()
        };
        let image =
            "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id";
        for life in 0..100 {
            let name = format!("life{life}");
            let kind = ["t3.micro", "c6a.large", "g5.xlarge"]
                [usize::try_from(draw(&mut seed, 3)).unwrap()];
            let letter = ["a", "b", "c"][usize::try_from(draw(&mut seed, 3)).unwrap()];
            let zone = format!("{region}{letter}");
            let zone = zone.as_str();
            let market = if draw(&mut seed, 4) == 0 {
                Market::OnDemand
            } else {
                Market::Spot
            };
            let mut order = vec![
                ("ImageId", image),
                ("InstanceType", kind),
                ("MinCount", "1"),
                ("MaxCount", "1"),
                ("Placement.AvailabilityZone", zone),
                ("TagSpecification.1.ResourceType", "instance"),
                ("TagSpecification.1.Tag.1.Key", "xdrive:drive"),
                ("TagSpecification.1.Tag.1.Value", &name),
            ];
            if market == Market::Spot {
                order.push(("InstanceMarketOptions.MarketType", "spot"));
            }
            call("RunInstances", &order);
            let drive = name.parse().unwrap();
            let disk = [
                ("AvailabilityZone", zone),
                ("Size", "200"),
                ("VolumeType", "gp3"),
                ("Iops", "4000"),
                ("Throughput", "250"),
                ("TagSpecification.1.ResourceType", "volume"),
                ("TagSpecification.1.Tag.1.Key", "xdrive:drive"),
                ("TagSpecification.1.Tag.1.Value", &name),
            ];
            call("CreateVolume", &disk);
            let disk = ec2.volumes(&drive).await.unwrap().remove(0);
            let began = ec2.instances(&drive).await.unwrap().remove(0);
            tokio::time::advance(Duration::from_secs(draw(&mut seed, 40_000))).await;
            call("TerminateInstances", &[("InstanceId.1", began.id.as_str())]);
            let span = Span::new(began.launched, clock.now());
            let own = match market {
                Market::OnDemand => span.at(ec2.on_demand_price(kind).await.unwrap().unwrap()),
                Market::Spot => {
                    let names = [kind.to_owned()];
                    let changes = ec2
                        .spot_price_history(&names, began.launched)
                        .await
                        .unwrap();
                    let there = changes.iter().filter(|it| it.to.zone == began.zone);
                    let there: Vec<_> = there.map(|it| (it.since, it.to.price)).collect();
                    span.at_each(&there).unwrap()
                }
            };
            call("DeleteVolume", &[("VolumeId", disk.id.as_str())]);
            let fast = Speed {
                iops: Some(4_000),
                throughput: Some(250),
                warm: None,
            };
            let of_disk = Span::new(disk.created, clock.now())
                .of_disk(ec2.storage_prices().await.volume(disk.size, fast));
            let bill = local.bill(&name).unwrap();
            assert!(
                (of_disk - bill.disks).abs() < 1e-4,
                "{name}: ${of_disk:.6}, {bill:?}"
            );
            let (bill, sum) = (bill.sum(), own + span.of_address() + of_disk);
            assert!(
                (sum - bill).abs() < 1e-4,
                "{name}: {kind} {market}: ${sum:.6}, billed ${bill:.6}"
            );
        }
    }
}
