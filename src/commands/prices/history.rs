//! The history of a pool's spot price over some days: low, median, high, and a sparkline.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::ec2::Price;

/// The blocks of a sparkline, from the lowest price to the highest.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The prices of one pool over a time.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct History {
    /// Lowest price.
    low: f64,
    /// Median: half of the time it cost less, or as much.
    median: f64,
    /// Highest price.
    high: f64,
    /// Each price, the oldest first; the first may have begun before that time.
    changes: Vec<Change>,
    #[serde(skip)]
    spans: Vec<Span>,
}

/// A change of the price.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Change {
    /// Begin of the price, RFC 3339.
    #[cfg_attr(test, schemars(with = "String"))]
    since: Timestamp,
    /// Price.
    spot_dollars_an_hour: f64,
}

/// How long a price was in force.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: Timestamp,
    until: Timestamp,
    price: Price,
}

impl Span {
    fn length(self) -> SignedDuration {
        self.until.duration_since(self.from)
    }
}

impl History {
    /// The history from `start` to `end` with these changes, the oldest first; none if no price was
    /// in force then.
    pub(super) fn from_changes(
        changes: &[(Timestamp, Price)],
        start: Timestamp,
        end: Timestamp,
    ) -> Option<Self> {
        let ends = changes.iter().skip(1).map(|(since, _)| *since).chain([end]);
        let spans: Vec<Span> = changes
            .iter()
            .zip(ends)
            .map(|((since, price), until)| Span {
                from: (*since).max(start),
                until: until.min(end),
                price: *price,
            })
            .filter(|span| span.from < span.until)
            .collect();
        let price = |of: Option<Price>| of.map(Price::dollars);
        Some(Self {
            low: price(spans.iter().map(|span| span.price).min())?,
            median: price(median(&spans))?,
            high: price(spans.iter().map(|span| span.price).max())?,
            changes: changes
                .iter()
                .map(|(since, price)| Change {
                    since: *since,
                    spot_dollars_an_hour: price.dollars(),
                })
                .collect(),
            spans,
        })
    }

    /// The low, the median and the high price, for people.
    pub(super) fn figures(&self) -> [String; 3] {
        [self.low, self.median, self.high].map(|price| format!("${price:.4}"))
    }

    /// The corners of the price's line: when, and dollars an hour.
    pub(super) fn steps(&self) -> impl Iterator<Item = (Timestamp, f64)> {
        self.spans.iter().flat_map(|span| {
            let price = span.price.dollars();
            [(span.from, price), (span.until, price)]
        })
    }

    /// The prices as blocks, as many as `columns`: the mean of each part of the time from `start` to
    /// `end`, between the pool's own lowest and highest price. A blank is where none is known.
    pub(super) fn sparkline(&self, columns: u16, start: Timestamp, end: Timestamp) -> String {
        let whole = end.duration_since(start).as_secs_f64();
        let second = |time: Timestamp| time.duration_since(start).as_secs_f64();
        let width = whole / f64::from(columns);
        (0..columns)
            .map(|column| {
                let (from, until) = (width * f64::from(column), width * f64::from(column + 1));
                let shares = self.spans.iter().map(|span| {
                    let shared = second(span.until).min(until) - second(span.from).max(from);
                    (shared.max(0.0), span.price.dollars())
                });
                let (known, sum) = shares.fold((0.0, 0.0), |(known, sum), (share, price)| {
                    (known + share, sum + share * price)
                });
                if known > 0.0 {
                    self.block(sum / known)
                } else {
                    ' '
                }
            })
            .collect()
    }

    /// The block of a price.
    fn block(&self, price: f64) -> char {
        let range = self.high - self.low;
        // A price that never changes is neither low nor high.
        if range <= f64::EPSILON {
            return BLOCKS[3];
        }
        let above = (price - self.low) / range;
        let mut blocks = BLOCKS.iter().zip(1_u8..);
        let block = blocks.find(|(_, number)| above < f64::from(*number) / 8.0);
        block.map_or(BLOCKS[7], |(block, _)| *block)
    }
}

/// The median price over time.
fn median(spans: &[Span]) -> Option<Price> {
    let mut sorted = spans.to_vec();
    sorted.sort_by_key(|span| span.price);
    let all = || sorted.iter().map(|span| span.length());
    let half = all().fold(SignedDuration::ZERO, |sum, length| sum + length) / 2;
    let mut passed = SignedDuration::ZERO;
    let found = sorted.iter().find(|span| {
        passed += span.length();
        passed >= half
    });
    found.map(|span| span.price)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(number: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + number * 3600).unwrap()
    }

    /// The history of the first 8 hours.
    fn history(changes: &[(i64, &str)]) -> Option<History> {
        let changes: Vec<(Timestamp, Price)> = changes
            .iter()
            .map(|(since, price)| (hour(*since), price.parse().unwrap()))
            .collect();
        History::from_changes(&changes, hour(0), hour(8))
    }

    #[test]
    fn prices_count_for_as_long_as_they_were_in_force() {
        // In force before the time, for most of it, and for an hour.
        let history = history(&[(-50, "0.30"), (1, "0.10"), (7, "0.20")]).unwrap();
        assert_eq!(history.figures(), ["$0.1000", "$0.1000", "$0.3000"]);
        assert_eq!(history.sparkline(8, hour(0), hour(8)), "█▁▁▁▁▁▁▅");
        assert_eq!(history.changes.len(), 3);
    }

    #[test]
    fn prices_from_outside_the_window_do_not_count() {
        let history = history(&[(-9, "9"), (-8, "0.1"), (8, "7")]).unwrap();
        assert_eq!(history.figures(), ["$0.1000"; 3]);
        assert_eq!(history.sparkline(4, hour(0), hour(8)), "▄▄▄▄");
    }

    #[test]
    fn before_a_price_was_known_there_is_a_blank() {
        let history = history(&[(4, "0.1"), (6, "0.2")]).unwrap();
        assert_eq!(history.sparkline(4, hour(0), hour(8)), "  ▁█");
    }

    #[test]
    fn without_a_price_there_is_no_history() {
        assert!(history(&[]).is_none());
        assert!(history(&[(8, "1")]).is_none());
    }
}
