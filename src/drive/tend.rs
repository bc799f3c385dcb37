//! What follows for a run whose host is gone, and on a host that has its drive. Pure functions of what EC2
//! and the drive have of it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::reconcile::is_left;
use super::tags::{self, RunState, WantedRun, WantedWorkers};
use crate::ec2::{Snapshot, Tags, Volume};
use crate::host::runs::Run;
use crate::ids::{DriveName, Generation};

/// The reason of an instance that a caller of EC2 ended (EC2 API reference, *`StateReason`*).
const BY_CALLER: &str = "Client.UserInitiatedShutdown";

/// The prefix of the state reason of an instance that EC2 ended. For one that a caller or its own
/// system ended it is `Client.` (likewise).
pub const BY_EC2: &str = "Server.";

/// The run of a drive that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The run.
    pub run: WantedRun,
    /// The owner of the drive's newest part; empty if that has none.
    pub owner: &'a str,
}

/// The runs that are wanted of the drives with these parts.
#[must_use]
pub fn wanted<'a>(
    volumes: &'a [Volume],
    snapshots: &'a [Snapshot],
) -> BTreeMap<DriveName, Wanted<'a>> {
    let mut parts: BTreeMap<DriveName, Vec<&Tags>> = BTreeMap::new();
    let left = volumes.iter().filter(|volume| is_left(volume));
    let all = left.map(|volume| &volume.tags);
    for tags in all.chain(snapshots.iter().map(|snapshot| &snapshot.tags)) {
        if let Some(name) = tags::drive(tags) {
            parts.entry(name).or_default().push(tags);
        }
    }
    let runs = parts.into_iter().filter_map(|(name, parts)| {
        let run = WantedRun::of_drive(&parts)?;
        let (_, newest) = tags::newest(parts.into_iter(), |tags| tags)?;
        let owner = tags::owner(newest);
        Some((name, Wanted { run, owner }))
    });
    runs.collect()
}

/// The drives with these volumes that are to have workers, each with its owner.
#[must_use]
pub fn leaders(volumes: &[Volume], now: Timestamp) -> BTreeMap<DriveName, &str> {
    let left = volumes.iter().filter(|volume| is_left(volume));
    let leads = |tags: &Tags| {
        let workers = WantedWorkers::read(tags);
        let generation = tags.get(tags::GENERATION).and_then(|it| it.parse().ok());
        let run = WantedRun::read(tags).is_some_and(|run| run.state == RunState::Wanted);
        let keeps =
            |workers: WantedWorkers| keeps_workers(&workers, generation?, run, now).then_some(());
        workers.and_then(keeps).is_some()
    };
    left.filter(|volume| leads(&volume.tags))
        .filter_map(|volume| Some((tags::drive(&volume.tags)?, tags::owner(&volume.tags))))
        .collect()
}

/// Whether workers are kept at their number: as long as their time is not over, their leader has the
/// generation for which they were begun, or has come back by a run that is wanted.
#[must_use]
pub fn keeps_workers(
    workers: &WantedWorkers,
    generation: Generation,
    has_wanted_run: bool,
    now: Timestamp,
) -> bool {
    now < workers.until && (generation == workers.generation || has_wanted_run)
}

/// What follows for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Its next try.
    Bring,
    /// Nothing: it is over, in this state and with this exit code.
    Over(RunState, Option<u8>),
}

/// An instance that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// When it was launched.
    pub launched: Timestamp,
    /// Why it ended, as EC2 says.
    pub why: &'a str,
    /// Whether the drive was closed there: its newest snapshot is a clean one.
    pub was_closed: bool,
}

/// What a host whose drive has a record of a run does for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHost {
    /// Nothing: it ended for good, with this exit code.
    Over(u8),
    /// Nothing: it runs there.
    There,
    /// The next try may begin.
    Begins,
}

/// Whether the drive of a run is saved and its record read before anything else: unless EC2 took its host,
/// as `why_ended` has it, and left its volume, where the next try may begin at once.
#[must_use]
pub fn is_saved_first(why_ended: Option<&str>, has_volume: bool, is_late: bool) -> bool {
    let was_taken = why_ended.is_some_and(|why| why.starts_with(BY_EC2));
    is_late || !was_taken || !has_volume
}

/// What a host does for a run with this `record` on its drive, if it has one.
#[must_use]
pub fn on_host(record: Option<&Run>) -> OnHost {
    match record {
        Some(run) if run.runs() => OnHost::There,
        Some(run) => run.finished().map_or(OnHost::Begins, OnHost::Over),
        None => OnHost::Begins,
    }
}

/// What follows for a run with this `record`, if it has one, after the drive's `last` instance has ended,
/// where EC2 still knows it.
#[must_use]
pub fn next(record: Option<&Run>, last: Option<Ended<'_>>) -> Next {
    if let Some(status) = record.and_then(Run::finished) {
        return Next::Over(RunState::ended_with(status), Some(status));
    }
    let (Some(run), Some(last)) = (record, last) else {
        return Next::Bring;
    };
    // xdrive ends hosts by the same call, but those that have closed: the end of what ran there is on
    // record then, unless that host had restarted before. Whoever ended this one in the console wants to pay
    // no more.
    let was_cut_off = run.status.is_none() && !last.was_closed && run.began_at() >= last.launched;
    if was_cut_off && last.why.starts_with(BY_CALLER) {
        return Next::Over(RunState::Stopped, None);
    }
    Next::Bring
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::container::CommandId;

    /// A run that began ten seconds after 1970.
    fn run(status: Option<u8>, closing: Option<&str>) -> Run {
        let status = status.map_or_else(|| "null".to_owned(), |status| status.to_string());
        let closing = closing.map_or_else(|| "null".to_owned(), |why| format!("{why:?}"));
        let record = format!(
            r#"{{"run": "1f", "command": "x", "began": 10.0, "ended": null, "status": {status},
                "closing": {closing}, "written": [0, 0]}}"#
        );
        let id = CommandId::parse("1f").unwrap();
        Run::on_record(&id, record.as_bytes(), false).unwrap().0
    }

    fn last_instance(launched: i64, why: &str) -> Ended<'_> {
        let launched = Timestamp::from_second(launched).unwrap();
        Ended {
            launched,
            why,
            was_closed: false,
        }
    }

    const BY_USER: &str = "Client.UserInitiatedShutdown: User initiated shutdown";

    #[test]
    fn a_run_is_over_once_its_command_ended_by_itself_or_well() {
        let next = |status, closing, last| next(Some(&run(status, closing)), last);
        let notice = Some("EC2 takes the machine");
        assert_eq!(
            next(Some(0), None, None),
            Next::Over(RunState::Done, Some(0))
        );
        assert_eq!(
            next(Some(0), notice, None),
            Next::Over(RunState::Done, Some(0))
        );
        let failed = Next::Over(RunState::Failed, Some(3));
        assert_eq!(next(Some(3), None, Some(last_instance(5, BY_USER))), failed);
        assert_eq!(next(Some(143), notice, None), Next::Bring);
        let by_ec2 = Some(last_instance(5, "Server.SpotInstanceTermination"));
        assert_eq!(next(None, None, by_ec2), Next::Bring);
    }

    #[test]
    fn a_drive_is_saved_first_unless_ec2_took_its_host_and_left_its_volume() {
        let taken = Some("Server.SpotInstanceTermination: Spot instance termination");
        assert!(!is_saved_first(taken, true, false));
        assert!(is_saved_first(taken, false, false));
        assert!(is_saved_first(taken, true, true));
        assert!(is_saved_first(Some(BY_USER), true, false));
        assert!(is_saved_first(None, true, false));
    }

    #[test]
    fn a_host_begins_the_next_try_of_what_neither_runs_there_nor_is_over() {
        let lost = Run {
            is_lost: true,
            ..run(None, None)
        };
        let there = Run {
            is_lost: false,
            is_frozen: false,
            freezing: None,
            ..run(None, None)
        };
        assert_eq!(on_host(None), OnHost::Begins);
        assert_eq!(on_host(Some(&lost)), OnHost::Begins);
        assert_eq!(on_host(Some(&there)), OnHost::There);
        assert_eq!(on_host(Some(&run(Some(7), None))), OnHost::Over(7));
        assert_eq!(
            on_host(Some(&run(Some(143), Some("notice")))),
            OnHost::Begins
        );
    }

    #[test]
    fn workers_are_kept_for_the_session_that_began_them_and_for_a_run_that_comes_back() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let host = (Generation(41), "i-0abc".parse().unwrap());
        let workers = WantedWorkers::new(3, at(100), host, String::new()).unwrap();
        let keeps = |generation, has_run, now| {
            keeps_workers(&workers, Generation(generation), has_run, at(now))
        };
        assert!(keeps(41, false, 99));
        assert!(!keeps(42, false, 99), "another session");
        assert!(keeps(42, true, 99));
        assert!(!keeps(41, true, 100), "their time is over");
    }

    #[test]
    fn a_run_whose_host_was_ended_in_the_console_is_not_begun_again() {
        let stopped = Next::Over(RunState::Stopped, None);
        assert_eq!(
            next(Some(&run(None, None)), Some(last_instance(5, BY_USER))),
            stopped
        );
        // A later one, on which it did not run: a session of somebody's, which closed.
        assert_eq!(
            next(Some(&run(None, None)), Some(last_instance(20, BY_USER))),
            Next::Bring
        );
        assert_eq!(next(None, Some(last_instance(5, BY_USER))), Next::Bring);
        // A host that closed before xdrive ended it.
        let closed = run(Some(143), Some("EC2 takes the machine"));
        assert_eq!(
            next(Some(&closed), Some(last_instance(5, BY_USER))),
            Next::Bring
        );
        assert_eq!(next(None, None), Next::Bring);
        // A host that restarted, which ended the run, and that a session closed later.
        let closed = Ended {
            was_closed: true,
            ..last_instance(5, BY_USER)
        };
        assert_eq!(next(Some(&run(None, None)), Some(closed)), Next::Bring);
    }
}
