//! The ledger of a drive: what it has cost, by day and kind, from what EC2 lists of it.
//!
//! Nothing is guessed: a time or an amount that is known between bounds is counted as these, and what is not known at
//! all is named. Sources of how AWS bills: see [`super::bill`].

mod amount;
mod parts;
mod prices;
mod unknown;

use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use self::parts::{History, Times};
use super::bill::Span;
use crate::drive::kept::Kept;
use crate::ec2::{Ec2, Market, Snapshot};

pub(crate) use amount::{Bounds, Costs, Kind};
pub(crate) use parts::Parts;
pub(crate) use prices::Prices;
pub(crate) use unknown::{Generations, Unknown};

const SECONDS_A_DAY: i64 = 24 * 3600;

/// Whole days in UTC, the last of which has only come so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    /// The midnight that it begins with.
    pub(crate) start: Timestamp,
    /// The end, which is now.
    pub(crate) end: Timestamp,
}

impl Period {
    /// The time from the day on that was so long before `now`.
    pub(crate) fn until(now: Timestamp, past: Duration) -> Self {
        let began = now.checked_sub(past).unwrap_or(Timestamp::MIN);
        let second = began.as_second();
        let midnight = second - second.rem_euclid(SECONDS_A_DAY);
        Self {
            start: Timestamp::from_second(midnight).unwrap_or(began),
            end: now,
        }
    }

    /// The day that it begins with.
    pub(crate) fn first_day(self) -> Date {
        self.start.to_zoned(TimeZone::UTC).date()
    }

    /// Each day, with the midnights that it begins and ends with.
    fn days(self) -> impl Iterator<Item = (Date, Timestamp, Timestamp)> {
        let day = SignedDuration::from_secs(SECONDS_A_DAY);
        let next = move |from: &Timestamp| from.checked_add(day).ok();
        let midnights = std::iter::successors(Some(self.start), next);
        midnights
            .take_while(move |from| *from < self.end)
            .map(move |from| {
                let to = next(&from).unwrap_or(Timestamp::MAX);
                (from.to_zoned(TimeZone::UTC).date(), from, to)
            })
    }
}

/// The cost of a drive on each day, and what of that is not known.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ledger {
    pub(crate) days: Vec<(Date, Costs)>,
    pub(crate) unknown: Vec<Unknown>,
}

impl Ledger {
    /// The ledgers of several drives for the same time, and what went wrong as their prices were asked for.
    pub(crate) async fn read(
        ec2: &Ec2,
        parts: &[Parts],
        period: Period,
    ) -> (Vec<Self>, Vec<String>) {
        let histories: Vec<History> = parts
            .iter()
            .map(|parts| parts.history(period.start, period.end))
            .collect();
        let ran = histories.iter().flat_map(|history| &history.ran);
        let ran = ran.filter(|it| it.times.most.is_none_or(|most| most > period.start));
        let (prices, troubles) = Prices::read(ec2, ran, period.start).await;
        let ledgers = histories
            .into_iter()
            .zip(parts)
            .map(|(history, parts)| Self::new(history, &parts.snapshots, &prices, period))
            .collect();
        (ledgers, troubles)
    }

    fn new(history: History, snapshots: &[Snapshot], prices: &Prices, period: Period) -> Self {
        let mut ledger = Self {
            days: period
                .days()
                .map(|(day, ..)| (day, Costs::default()))
                .collect(),
            unknown: history.unknown,
        };
        for ran in &history.ran {
            let (name, market, zone) = &ran.pool;
            let kind = match market {
                Market::Spot => Kind::Spot,
                Market::OnDemand => Kind::OnDemand,
            };
            let changes = prices.of_instance(ran);
            let is_known = ledger.add(kind, ran.times, period, |part| part.at_each(&changes));
            let unknown = Unknown::Price(name.clone(), *market, zone.clone());
            if !is_known && !ledger.unknown.contains(&unknown) {
                ledger.unknown.push(unknown);
            }
            if ran.has_public {
                ledger.add(Kind::Addresses, ran.times, period, |part| {
                    Some(part.of_address())
                });
            }
            if ran.has_root {
                ledger.add(Kind::Disks, ran.times, period, |part| {
                    Some(part.of_disk(prices.root_disk()))
                });
            }
        }
        for disk in &history.disks {
            let month = prices.storage.volume(disk.size, disk.speed);
            let dollars = |part: Span| Some(part.of_disk(month));
            ledger.add(Kind::Disks, disk.times, period, dollars);
        }
        ledger.add_snapshots(snapshots, prices, period);
        ledger
    }

    /// Adds to each day what that part of these times costs. Returns whether all of it is known.
    fn add(
        &mut self,
        kind: Kind,
        times: Times,
        period: Period,
        dollars: impl Fn(Span) -> Option<f64>,
    ) -> bool {
        let least = Span::new(times.from, times.least);
        let most = times.most.map(|most| Span::new(times.from, most));
        let mut is_known = true;
        for ((_, from, to), (_, costs)) in period.days().zip(&mut self.days) {
            let cost = |span: Span| span.within(from, to).map_or(Some(0.0), &dollars);
            let bounds = cost(least).zip(cost(most.unwrap_or(least)));
            is_known &= bounds.is_some();
            costs[kind] += match bounds {
                Some((least, most)) => Bounds::between(least, most),
                None => Bounds::UNKNOWN,
            };
        }
        is_known
    }

    /// Adds what those snapshots cost each day that are still there: the largest alone at least, and all at most.
    fn add_snapshots(&mut self, snapshots: &[Snapshot], prices: &Prices, period: Period) {
        let mut sorted: Vec<&Snapshot> = snapshots.iter().collect();
        sorted.sort_by_key(|snapshot| snapshot.started);
        let mut next = sorted.into_iter().peekable();
        let mut kept = Kept::count([]);
        for ((_, start, end), (_, costs)) in period.days().zip(&mut self.days) {
            let (mut from, end) = (start, end.min(period.end));
            loop {
                let taken = next.next_if(|snapshot| snapshot.started < end);
                let to = taken.map_or(end, |snapshot| snapshot.started.max(from));
                if let Some(part) = Span::new(start, end).within(from, to) {
                    let (least, most) = kept.bytes();
                    let dollars = |bytes| part.of_disk(prices.storage.stored(bytes));
                    costs[Kind::Snapshots] +=
                        Bounds::between(dollars(least.unwrap_or(0)), dollars(most));
                }
                match taken {
                    Some(snapshot) => kept.add(snapshot),
                    None => break,
                }
                from = to;
            }
        }
    }

    /// All of its time.
    pub(crate) fn costs(&self) -> Costs {
        self.days.iter().map(|(_, costs)| *costs).sum()
    }

    /// The sum of all, which something that is not known leaves open.
    pub(crate) fn sum(&self) -> Bounds {
        let mut sum = self.costs().sum();
        sum.is_open |= self.unknown.iter().any(Unknown::is_open);
        sum
    }
}

#[cfg(test)]
mod tests;
