//! The tag of a drive that is to have workers: on its volume and its snapshots, which carry it on. What the
//! workers run is on the drive; this says only that they are wanted, and what is launched for them.

use jiff::Timestamp;

use crate::ec2::Tags;
use crate::host::container::CommandId;
use crate::ids::{Generation, InstanceId};

/// A [`WantedWorkers`] in words, or nothing once they are not wanted any more.
pub(super) const WORKERS: &str = "xdrive:workers";

/// The most workers of a drive: those of a class, each on an instance of its own. Nobody else's tag launches
/// more.
pub const MOST_WORKERS: u16 = 200;

/// The workers that a drive is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedWorkers {
    /// The id of the order that the drive has of what they run.
    pub order: CommandId,
    /// How many there are to be.
    pub count: u16,
    /// When their time is over.
    pub until: Timestamp,
    /// The generation of the drive for which they were begun.
    pub generation: Generation,
    /// The instance to whose network they came last.
    pub leader: InstanceId,
    /// The launch options of each, on one line.
    pub launch: String,
}

impl WantedWorkers {
    /// So many workers until then, by a new order, for the drive's `generation` on the instance `leader`; each
    /// is launched by these options.
    pub fn new(
        count: u16,
        until: Timestamp,
        (generation, leader): (Generation, InstanceId),
        launch: String,
    ) -> Result<Self, getrandom::Error> {
        Ok(Self {
            order: CommandId::new()?,
            count,
            until,
            generation,
            leader,
            launch,
        })
    }

    /// The workers in the tags of a volume or snapshot; none if none are wanted, or any of it cannot be parsed.
    #[must_use]
    pub fn read(tags: &Tags) -> Option<Self> {
        let mut words = tags.get(WORKERS)?.splitn(6, ' ');
        Some(Self {
            order: CommandId::parse(words.next()?)?,
            count: words
                .next()?
                .parse()
                .ok()
                .filter(|it| *it <= MOST_WORKERS)?,
            until: words.next()?.parse().ok()?,
            generation: words.next()?.parse().ok()?,
            leader: words.next()?.parse().ok()?,
            launch: words.next().unwrap_or_default().to_owned(),
        })
    }

    /// The tag, if it fits one.
    #[must_use]
    pub fn tags(&self) -> Option<Tags> {
        /// The most characters of a tag's value (EC2 user guide, *Tag restrictions*).
        const LONGEST: usize = 256;
        let Self {
            order,
            count,
            until,
            generation,
            leader,
            launch,
        } = self;
        let order = order.as_str();
        let value = format!("{order} {count} {until:.0} {generation} {leader} {launch}");
        let fits = value.chars().count() <= LONGEST;
        fits.then(|| Tags::from([(WORKERS.to_owned(), value.trim_end().to_owned())]))
    }

    /// The tag of a drive that is to have none any more.
    #[must_use]
    pub fn none() -> Tags {
        Tags::from([(WORKERS.to_owned(), String::new())])
    }
}

/// Whether the thing has the tag, also of workers that are not wanted any more.
#[must_use]
pub fn names_workers(tags: &Tags) -> bool {
    tags.get(WORKERS).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> WantedWorkers {
        WantedWorkers {
            order: CommandId::parse("1f").unwrap(),
            count: 3,
            until: "2026-11-29T12:00:00Z".parse().unwrap(),
            generation: Generation(41),
            leader: "i-0abc".parse().unwrap(),
            launch: "type=m5.large market=spot".to_owned(),
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_is_made_of_anything_else() {
        let wanted = wanted();
        let tags = wanted.tags().unwrap();
        let value = "1f 3 2026-11-29T12:00:00Z 41 i-0abc type=m5.large market=spot";
        assert_eq!(tags[WORKERS], value);
        assert_eq!(WantedWorkers::read(&tags), Some(wanted.clone()));
        let bare = WantedWorkers {
            launch: String::new(),
            ..wanted.clone()
        };
        assert_eq!(WantedWorkers::read(&bare.tags().unwrap()), Some(bare));
        assert!(names_workers(&tags) && !names_workers(&WantedWorkers::none()));
        for value in [
            "",
            "3",
            "../x 3 2026-11-29T12:00:00Z 41 i-0abc",
            &value.replace(" 3 ", " -3 "),
            &value.replace(" 3 ", " 201 "),
        ] {
            let tags = Tags::from([(WORKERS.to_owned(), value.to_owned())]);
            assert_eq!(WantedWorkers::read(&tags), None, "{value}");
        }
        let long = WantedWorkers {
            launch: "x".repeat(256),
            ..wanted
        };
        assert_eq!(long.tags(), None);
    }
}
