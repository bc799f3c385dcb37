//! The record of a generation, for people: where it was mounted and since when, at what price, and
//! a note. Nothing is decided by it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::ec2::{Instance, Market, Price, Tags, Zone};

/// Where the drive was mounted: type, market and zone.
const HOST: &str = "xdrive:host";
/// Since when that instance ran.
const SINCE: &str = "xdrive:since";
/// The spot price of that instance as it was launched, in US dollars an hour.
const PRICE: &str = "xdrive:price";
/// The user's note.
const NOTE: &str = "xdrive:note";

/// The longest note, in characters: a tag has 256 (EC2 user guide, *Tag your Amazon EC2 resources*).
const LONGEST: usize = 256;

/// The record of a generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The type, the market and the zone of its instance.
    pub host: Option<String>,
    /// Since when that ran.
    pub since: Option<Timestamp>,
    /// The price of that instance an hour.
    pub price: Option<Price>,
    /// The user's note.
    pub note: Option<Note>,
}

/// A note of the user's, of at most 256 characters in one line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Note(String);

/// The text that can be no note.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNote {
    /// More characters than a tag has.
    #[error("a note has at most {LONGEST} characters, this one has {0}")]
    TooLong(usize),
    /// A line's end, or another control character.
    #[error("a note is one line, without control characters")]
    Control,
}

impl std::str::FromStr for Note {
    type Err = InvalidNote;

    fn from_str(given: &str) -> Result<Self, InvalidNote> {
        let length = given.chars().count();
        if length > LONGEST {
            return Err(InvalidNote::TooLong(length));
        }
        if given.chars().any(char::is_control) {
            return Err(InvalidNote::Control);
        }
        Ok(Self(given.to_owned()))
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Record {
    /// The record of a generation that `host` mounts.
    #[must_use]
    pub fn new(host: &Instance, price: Option<Price>, note: Option<Note>) -> Self {
        let (kind, market, zone) = (&host.instance_type, host.market, &host.zone);
        Self {
            host: Some(format!("{kind} {market} in {zone}")),
            since: Some(host.launched),
            price,
            note,
        }
    }

    /// Reads the record from `tags`; what cannot be parsed is left out.
    #[must_use]
    pub fn read(tags: &Tags) -> Self {
        Self {
            host: tags.get(HOST).cloned(),
            since: tags.get(SINCE).and_then(|text| text.parse().ok()),
            price: tags.get(PRICE).and_then(|text| text.parse().ok()),
            note: tags
                .get(NOTE)
                .filter(|text| !text.is_empty())
                .and_then(|text| text.parse().ok()),
        }
    }

    /// The record as tags. A record with a host has a price tag also where the price is not known:
    /// that of a former host must not stay.
    #[must_use]
    pub fn tags(&self) -> Tags {
        let unknown = self.host.as_ref().map(|_| String::new());
        let values = [
            (HOST, self.host.clone()),
            (SINCE, self.since.map(|since| format!("{since:.0}"))),
            (PRICE, self.price.map(Price::decimal).or(unknown)),
            (NOTE, self.note.as_ref().map(Note::to_string)),
        ];
        values
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }

    /// The type, the market and the zone of its instance; none where that cannot be parsed.
    #[must_use]
    pub fn pool(&self) -> Option<(String, Market, Zone)> {
        let (instance, zone) = self.host.as_deref()?.rsplit_once(" in ")?;
        let (kind, market) = instance.split_once(' ')?;
        let mut markets = [Market::Spot, Market::OnDemand].into_iter();
        let market = markets.find(|it| it.to_string() == market)?;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let is_word = |it: &str| (1..=64).contains(&it.len()) && it.chars().all(is_allowed);
        let zone = Zone(zone.to_owned());
        (is_word(kind) && is_word(&zone.0)).then(|| (kind.to_owned(), market, zone))
    }

    /// How long the instance had run at `end`.
    #[must_use]
    pub fn lasted(&self, end: Timestamp) -> Option<SignedDuration> {
        let lasted = end.duration_since(self.since?);
        (!lasted.is_negative()).then_some(lasted)
    }

    /// The cost of the instance until `end`, in US dollars, where its price was recorded.
    #[must_use]
    pub fn dollars(&self, end: Timestamp) -> Option<f64> {
        let hours = self.lasted(end)?.as_secs_f64() / 3600.0;
        Some(self.price?.dollars() * hours)
    }
}

/// The tags that write a note; an empty one takes the place of the former.
#[must_use]
pub fn noted(note: &Note) -> Tags {
    Tags::from([(NOTE.to_owned(), note.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record {
            host: Some("t3.small spot in us-east-1a".to_owned()),
            since: Some("2026-01-02T03:04:05Z".parse().unwrap()),
            price: Some("0.25".parse().unwrap()),
            note: Some("before the new data".parse().unwrap()),
        };
        assert_eq!(Record::read(&record.tags()), record);
        assert_eq!(Record::read(&Tags::new()), Record::default());
        let mut tags = record.tags();
        let next = Record {
            host: Some("t3.small on demand in us-east-1a".to_owned()),
            price: None,
            ..record.clone()
        };
        tags.extend(next.tags());
        assert_eq!(Record::read(&tags), next);
        let end = "2026-01-02T05:04:05Z".parse().unwrap();
        assert_eq!(record.lasted(end), Some(SignedDuration::from_hours(2)));
        assert!((record.dollars(end).unwrap() - 0.5).abs() < 1e-9);
        // A clock that went back is no cost.
        assert_eq!(
            record.dollars("2026-01-01T00:00:00Z".parse().unwrap()),
            None
        );
        let emptied = noted(&"".parse().unwrap());
        assert_eq!(Record::read(&emptied).note, None);
    }

    #[test]
    fn a_pool_is_read_as_it_was_written_and_nothing_else_is_one() {
        let pool = |host: &str| {
            let host = Some(host.to_owned());
            Record {
                host,
                ..Record::default()
            }
            .pool()
        };
        let zone = Zone("us-east-1a".to_owned());
        let (kind, market) = ("m5.large".to_owned(), Market::OnDemand);
        assert_eq!(
            pool("m5.large on demand in us-east-1a"),
            Some((kind, market, zone))
        );
        assert!(pool("u-6tb1.metal spot in us-west-2-lax-1a").is_some());
        for other in [
            "",
            "m5.large",
            "m5.large in us-east-1a",
            "m5.large free in us-east-1a",
            "m5.large spot in ",
            " spot in us-east-1a",
            "m5,large spot in us-east-1a",
            "m5.large spot in \u{1b}[2J",
            "m5.large spot in a in b c",
        ] {
            assert_eq!(pool(other), None, "{other}");
        }
    }

    #[test]
    fn a_note_fits_a_tag_and_a_line() {
        assert!("é".repeat(256).parse::<Note>().is_ok());
        assert_eq!(
            "é".repeat(257).parse::<Note>(),
            Err(InvalidNote::TooLong(257))
        );
        assert_eq!("a\nb".parse::<Note>(), Err(InvalidNote::Control));
        assert_eq!("\u{1b}[31m".parse::<Note>(), Err(InvalidNote::Control));
    }
}
