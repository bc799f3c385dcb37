//! The tags of a run that is begun again where its host was lost, whoever notices that: on the drive's
//! volume and its snapshots, which carry them on. What the run is, and how far it got, is on the drive;
//! these only say that it is wanted.

use jiff::Timestamp;

use super::workers::WORKERS;
use crate::ec2::Tags;
use crate::host::container::CommandId;
use crate::ids::ContainerName;

/// The run's id, with `/` and the name of its container unless that is the main one.
const RUN: &str = "xdrive:run";
/// Whether it is wanted: [`RunState`], with a space and the exit code that it ended with, if it has one. Of
/// two parts of a drive the later state counts.
const STATE: &str = "xdrive:run-state";
/// What its hosts are launched by: the launch options, on one line.
const LAUNCH: &str = "xdrive:run-launch";
/// When its time is over (RFC 3339).
const UNTIL: &str = "xdrive:run-until";
/// Why its next try waits, and since when: a moment (RFC 3339), a space, and the words.
const NOTE: &str = "xdrive:run-note";

/// When somebody last looked after it (RFC 3339); behind a space, when its user was notified that it waits.
const TENDED: &str = "xdrive:run-tended";

/// All of them, and that of workers: they travel together. No more: a resource has so many tags, and each of them is one.
const FAMILY: [&str; 7] = [RUN, STATE, LAUNCH, UNTIL, NOTE, TENDED, WORKERS];

/// The most characters of a tag's value (EC2 user guide, *Tag restrictions*).
const LONGEST: usize = 256;

/// How far a run is, in the order in which states follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// Its next try is begun where its host was lost.
    Wanted,
    /// It ended with 0.
    Done,
    /// It ended with another exit code, or may not be begun again.
    Failed,
    /// Its user ended it.
    Stopped,
}

impl RunState {
    const ALL: [Self; 4] = [Self::Wanted, Self::Done, Self::Failed, Self::Stopped];

    /// The state of a run that ended with this exit code.
    #[must_use]
    pub fn ended_with(code: u8) -> Self {
        if code == 0 { Self::Done } else { Self::Failed }
    }

    /// The value of the tag.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wanted => "wanted",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// A run that is, or was, wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedRun {
    /// The run.
    pub id: CommandId,
    /// Its container; none for the main one.
    pub container: Option<ContainerName>,
    /// How far it is.
    pub state: RunState,
    /// The launch options of its hosts, on one line.
    pub launch: String,
    /// When its time is over.
    pub until: Timestamp,
    /// The exit code that it ended with.
    pub exit: Option<u8>,
    /// Since when its next try waits, and why.
    pub waits: Option<(Timestamp, String)>,
    /// When somebody last looked after it, some minutes late.
    pub tended: Option<Timestamp>,
    /// When its user was last notified that it waits.
    pub told: Option<Timestamp>,
}

impl WantedRun {
    /// The run in the tags of a volume or snapshot; none without one, or if any of it cannot be parsed.
    #[must_use]
    pub fn read(tags: &Tags) -> Option<Self> {
        let (id, container) = match tags.get(RUN)?.split_once('/') {
            Some((id, container)) => (id, Some(container.parse().ok()?)),
            None => (tags.get(RUN)?.as_str(), None),
        };
        let state = tags.get(STATE)?;
        let (state, exit) = state.split_once(' ').unwrap_or((state, ""));
        let moments = tags.get(TENDED).map_or("", String::as_str);
        let (tended, told) = moments.split_once(' ').unwrap_or((moments, ""));
        let waits = tags.get(NOTE).and_then(|note| note.split_once(' '));
        Some(Self {
            id: CommandId::parse(id)?,
            container,
            state: RunState::ALL
                .into_iter()
                .find(|known| known.as_str() == state)?,
            launch: tags.get(LAUNCH).cloned().unwrap_or_default(),
            until: tags.get(UNTIL)?.parse().ok()?,
            exit: exit.parse().ok(),
            waits: waits.and_then(|(since, why)| Some((since.parse().ok()?, why.to_owned()))),
            tended: tended.parse().ok(),
            told: told.parse().ok(),
        })
    }

    /// The run of a drive whose newest part has these tags, as the furthest of its `parts` has it.
    #[must_use]
    fn of_parts<'a>(newest: &Tags, parts: impl Iterator<Item = &'a Tags>) -> Option<Self> {
        let run = Self::read(newest)?;
        let furthest = parts
            .filter_map(Self::read)
            .filter(|other| other.id == run.id && other.state > run.state)
            .max_by_key(|other| other.state);
        Some(furthest.unwrap_or(run))
    }

    /// The run of a drive whose volumes and snapshots have these tags, if it is wanted.
    #[must_use]
    pub fn of_drive(parts: &[&Tags]) -> Option<Self> {
        let (_, newest) = super::newest(parts.iter(), |tags| tags)?;
        let run = Self::of_parts(newest, parts.iter().copied());
        run.filter(|run| run.state == RunState::Wanted)
    }

    /// The tags of a run that is wanted from now on, over those of any former one.
    #[must_use]
    pub fn tags(&self) -> Tags {
        let place = match &self.container {
            Some(container) => format!("{}/{container}", self.id.as_str()),
            None => self.id.as_str().to_owned(),
        };
        let values = [
            (RUN, place),
            (STATE, state(self.state, self.exit)),
            (LAUNCH, self.launch.clone()),
            (UNTIL, format!("{:.0}", self.until)),
            (
                NOTE,
                self.waits
                    .as_ref()
                    .map_or_else(String::new, |(since, why)| note(*since, why)),
            ),
            (TENDED, moments(self.tended, self.told)),
        ];
        values
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }
}

/// The tags of a run as a part of the drive has them: they go on to what is made of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunTags(Tags);

impl RunTags {
    /// Those among `tags`.
    #[must_use]
    pub fn read(tags: &Tags) -> Self {
        let family = tags
            .iter()
            .filter(|(key, _)| FAMILY.contains(&key.as_str()));
        Self(
            family
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        )
    }

    /// The tags.
    #[must_use]
    pub fn tags(&self) -> Tags {
        self.0.clone()
    }
}

/// The tags that end a run, in this `state` and with this exit code, if it has one.
#[must_use]
pub fn run_over(over: RunState, exit: Option<u8>) -> Tags {
    [(STATE, state(over, exit)), (NOTE, String::new())]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn state(state: RunState, exit: Option<u8>) -> String {
    match exit {
        Some(code) => format!("{} {code}", state.as_str()),
        None => state.as_str().to_owned(),
    }
}

/// The tag that says since when and why the next try waits; an empty one if it does not any more.
#[must_use]
pub fn run_waits(waits: Option<(Timestamp, &str)>) -> Tags {
    let note = waits.map_or_else(String::new, |(since, why)| note(since, why));
    Tags::from([(NOTE.to_owned(), note)])
}

/// The tag that says when somebody last looked after the run, and when its user was `told` that it waits.
#[must_use]
pub fn run_tended(at: Timestamp, told: Option<Timestamp>) -> Tags {
    Tags::from([(TENDED.to_owned(), moments(Some(at), told))])
}

fn moments(tended: Option<Timestamp>, told: Option<Timestamp>) -> String {
    let moment = |at: Option<Timestamp>| at.map_or_else(String::new, |at| format!("{at:.0}"));
    let both = format!("{} {}", moment(tended), moment(told));
    both.trim_end().to_owned()
}

fn note(since: Timestamp, why: &str) -> String {
    let one_line = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let note = format!("{since:.0} {one_line}");
    note.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(state: RunState) -> WantedRun {
        WantedRun {
            id: CommandId::parse("1f00c2").unwrap(),
            container: Some("tools".parse().unwrap()),
            state,
            launch: "type=g5.xlarge market=spot".to_owned(),
            until: "2026-12-11T10:00:00Z".parse().unwrap(),
            exit: None,
            waits: None,
            tended: None,
            told: None,
        }
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let wanted = run(RunState::Wanted);
        assert_eq!(WantedRun::read(&wanted.tags()), Some(wanted.clone()));
        let main = WantedRun {
            container: None,
            exit: Some(7),
            waits: Some((wanted.until, "no capacity".to_owned())),
            tended: Some(wanted.until),
            told: Some(wanted.until),
            ..run(RunState::Failed)
        };
        assert_eq!(WantedRun::read(&main.tags()), Some(main.clone()));
        let mut tags = main.tags();
        tags.extend(run_tended(Timestamp::UNIX_EPOCH, None));
        let tended = WantedRun::read(&tags).unwrap().tended;
        assert_eq!(tended, Some(Timestamp::UNIX_EPOCH));
        tags.extend(run_waits(None));
        assert_eq!(WantedRun::read(&tags).unwrap().waits, None);
        tags.extend(run_over(RunState::Stopped, None));
        let over = WantedRun::read(&tags).unwrap();
        assert_eq!((over.state, over.exit), (RunState::Stopped, None));
        assert_eq!(WantedRun::read(&Tags::new()), None);
        assert_eq!(RunTags::read(&tags).tags(), tags);
    }

    #[test]
    fn nothing_is_made_of_tags_that_cannot_be_parsed() {
        for (key, value) in [
            (RUN, "../x"),
            (RUN, "1f/../x"),
            (RUN, ""),
            (STATE, "begun"),
            (UNTIL, "soon"),
        ] {
            let mut tags = run(RunState::Wanted).tags();
            tags.insert(key.to_owned(), value.to_owned());
            assert_eq!(WantedRun::read(&tags), None, "{key} {value}");
        }
        let mut tags = run(RunState::Wanted).tags();
        tags.insert(NOTE.to_owned(), "nonsense".to_owned());
        assert_eq!(WantedRun::read(&tags).unwrap().waits, None);
    }

    #[test]
    fn of_two_parts_the_later_state_counts_and_another_runs_does_not() {
        let (wanted, done) = (run(RunState::Wanted).tags(), run(RunState::Done).tags());
        let parts = [&wanted, &done];
        let found = WantedRun::of_parts(&wanted, parts.into_iter()).unwrap();
        assert_eq!(found.state, RunState::Done);
        let former = WantedRun {
            id: CommandId::parse("2e").unwrap(),
            ..run(RunState::Stopped)
        };
        let former = former.tags();
        let found = WantedRun::of_parts(&wanted, [&wanted, &former].into_iter()).unwrap();
        assert_eq!(found.state, RunState::Wanted);
    }

    #[test]
    fn a_note_is_one_line_that_fits_a_tag() {
        let why = format!("no\ncapacity {}", "x".repeat(400));
        let tags = run_waits(Some((Timestamp::UNIX_EPOCH, &why)));
        let note = &tags[NOTE];
        assert_eq!(note.chars().count(), LONGEST);
        assert!(
            note.starts_with("1970-01-01T00:00:00Z no capacity xxx"),
            "{note}"
        );
    }
}
