//! The tags that go on from a volume to its snapshots, and from a snapshot to the volume that is made
//! of it. A family of tags that does so is a field here.

use super::{Record, RunTags, Settings, mounted_by, mounter};
use crate::ec2::Tags;

/// The tags that a part of a drive has of the one that it was made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// The drive's own settings.
    pub settings: Settings,
    /// The record of a snapshot's generation. A volume has none before it is raised to its own.
    pub record: Record,
    /// The run that is wanted, or was.
    pub run: RunTags,
    /// The owner who had the drive mounted last; empty where that is not known.
    pub mounter: String,
}

impl Carried {
    /// The tags that go on to the snapshots of a volume that has `tags`.
    #[must_use]
    pub fn from_volume(tags: &Tags) -> Self {
        Self {
            settings: Settings::read(tags),
            record: Record::read(tags),
            run: RunTags::read(tags),
            mounter: mounter(tags).to_owned(),
        }
    }

    /// The tags that go on to a volume of the snapshot that has `tags`: all but those of the
    /// snapshot's generation alone.
    #[must_use]
    pub fn from_snapshot(tags: &Tags) -> Self {
        Self {
            record: Record::default(),
            ..Self::from_volume(tags)
        }
    }

    /// All of them, as they are written.
    #[must_use]
    pub fn tags(&self) -> Tags {
        let Self {
            settings,
            record,
            run,
            mounter,
        } = self;
        let mut tags = settings.tags();
        tags.extend(record.tags());
        tags.extend(run.tags());
        tags.extend(mounted_by(mounter));
        tags
    }
}

impl From<Settings> for Carried {
    fn from(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tests::keys_in_source;
    use super::super::{
        BASE, BLANK, DELETING, DISCARD, DISK, DRIVE, FORKED_FROM, FORMATTED, GENERATION, HOST_KEY,
        KIND, NUMBER, OP, OWNER, RENAMING, SESSION, UNTIL, UUID, WORKER_OF,
    };
    use super::*;

    /// The keys that each thing has of its own: written by its creation or later, never copied from
    /// what it was made of. (The UUID is carried as what was read of it.) The last is of dry runs.
    const OF_ONE_THING: [&str; 21] = [
        BASE,
        BLANK,
        DELETING,
        DISCARD,
        DISK,
        DRIVE,
        FORKED_FROM,
        FORMATTED,
        GENERATION,
        HOST_KEY,
        KIND,
        NUMBER,
        OP,
        OWNER,
        RENAMING,
        SESSION,
        UNTIL,
        UUID,
        concat!("xdrive:", "try"),
        concat!("xdrive:", "share"),
        WORKER_OF,
    ];

    #[test]
    fn every_tag_goes_on_from_volume_to_snapshot_to_volume_or_is_of_one_thing() {
        let with_value = |key: String| {
            let value = match key.as_str() {
                "xdrive:since" => "2026-01-02T03:04:05Z",
                _ => "1",
            };
            (key, value.to_owned())
        };
        let volume: Tags = keys_in_source().into_iter().map(with_value).collect();
        let snapshot = Carried::from_volume(&volume).tags();
        let mut known = OF_ONE_THING.into_iter();
        assert_eq!(known.find(|key| snapshot.contains_key(*key)), None);
        let known = OF_ONE_THING.into_iter();
        let known: BTreeSet<&str> = known.chain(snapshot.keys().map(String::as_str)).collect();
        let all: BTreeSet<&str> = volume.keys().map(String::as_str).collect();
        assert_eq!(known, all, "whether a tag is carried was not decided");

        let mut next = Carried::from_snapshot(&snapshot).tags();
        assert_eq!(Record::read(&next), Record::default());
        next.extend(Record::read(&snapshot).tags());
        assert_eq!(next, snapshot, "a tag does not come to the next volume");
    }
}
