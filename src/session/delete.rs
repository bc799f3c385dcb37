//! `delete`: all of a drive, or the save of one of its generations.
//!
//! Nothing here decides what may be destroyed: a whole drive goes by the plan, and a generation as `gc`
//! prunes it.

use std::pin::pin;

use anyhow::anyhow;

use super::ending::Ending;
use super::outcome::run_failure;
use super::preflight::DriveFacts;
use super::prompt::{ask_name, can_ask};
use super::request::Request;
use super::state::{Session, begin};
use crate::cloud::Cloud;
use crate::drive::kept::Kept;
use crate::drive::tags;
use crate::drive::{Goal, Outcome};
use crate::ec2::Snapshot;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, Generation, SnapshotId};
use crate::launch::cost::dollars;
use crate::ssh::UserKey;

/// What is deleted.
pub(crate) enum Deletion {
    /// The drive.
    Whole,
    /// The save of a generation, which later ones have superseded.
    Of(Generation),
}

/// Deletes the drive of `request`, or one of its saves. It must have neither instance nor volume.
/// Returns the exit code.
pub(crate) async fn delete(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    what: Deletion,
) -> Result<u8, Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    session.demand_rest(&facts)?;
    match what {
        Deletion::Whole => session.delete_whole(&facts.snapshots, &facts.backups).await,
        Deletion::Of(generation) => session.delete_generation(&facts, generation).await,
    }
}

impl Session {
    /// Refuses a drive that is not there, or not wholly saved.
    pub(super) fn demand_rest(&self, facts: &DriveFacts) -> Result<(), Failure> {
        let (drive, command) = (&self.request.drive, &self.cloud.command);
        let has_volume = facts.volumes_left().next().is_some();
        let part = match &facts.host {
            Some(host) => host.id.its(),
            None if has_volume => "a volume".to_owned(),
            None if facts.snapshots.is_empty() => return Err(Failure::no_drive(drive, command)),
            None => return Ok(()),
        };
        let error = anyhow!("{drive} is not at rest: it has {part}");
        let hint = format!("{command} stop {drive} saves it first");
        Err(Failure::new(Exit::TryAgain, error).hint(hint))
    }

    async fn delete_whole(
        &mut self,
        snapshots: &[Snapshot],
        backups: &[Snapshot],
    ) -> Result<u8, Failure> {
        let drive = self.request.drive.clone();
        let is_fork = |it: &Snapshot| tags::is_copy(&it.tags);
        let shares = snapshots.iter().any(is_fork);
        self.report.print(&goes(&drive, snapshots, shares));
        if !backups.is_empty() {
            self.report.print(&stays(backups));
        }
        let question = format!("type {drive} to delete it for good:");
        self.demand_yes(&question, drive.as_str()).await?;
        let done = format!(
            "{drive} is deleted; where the account has a Recycle Bin rule for snapshots, they can be \
             had back from there"
        );
        let shown = snapshots.iter().map(|it| it.id.clone()).collect();
        self.leave_name(Goal::Deleted { shown }, &format!("delete {drive}"), &done)
            .await
    }

    /// Runs towards `goal`, after which the drive has its name no more, and says what is `done`. `same`
    /// is the command that goes on after an interruption. Returns the exit code.
    pub(super) async fn leave_name(
        &mut self,
        goal: Goal,
        same: &str,
        done: &str,
    ) -> Result<u8, Failure> {
        let (outcome, asked) = self.run(goal).await;
        match outcome {
            Outcome::StoppedWaiting(left) => Err(self.stopped(same).left(left)),
            Outcome::Failed(failed) => {
                let failure = run_failure(failed.error);
                let advice = failure.hint.clone().map(|hint| format!("{hint}\n      "));
                let hint = format!("{}{}", advice.unwrap_or_default(), self.goes_on(same));
                Err(failure.hint(hint).left(failed.left))
            }
            outcome => {
                self.report_outcome(outcome)?;
                self.report.note(done);
                Self::code(asked.map_or(Ending::Exit(0), Ending::Asked))
            }
        }
    }

    /// The failure of a command that a signal stopped, and that goes on if it is given again.
    fn stopped(&self, same: &str) -> Failure {
        let error = anyhow!("stopped before the end of: {same}");
        Failure::new(Exit::TryAgain, error).hint(self.goes_on(same))
    }

    fn goes_on(&self, same: &str) -> String {
        format!("the same again goes on: {} {same}", self.cloud.command)
    }

    async fn delete_generation(
        &mut self,
        facts: &DriveFacts,
        generation: Generation,
    ) -> Result<u8, Failure> {
        let (drive, command) = (self.request.drive.clone(), self.cloud.command.clone());
        let is_of = |snapshot: &&Snapshot| {
            tags::read_snapshot(&snapshot.tags).is_ok_and(|it| it.generation == generation)
        };
        let those: Vec<Snapshot> = facts.snapshots.iter().filter(is_of).cloned().collect();
        let hint = format!("{command} log {drive} shows those that it has");
        if those.is_empty() {
            let error = anyhow!("{drive} has no snapshot of generation {generation}");
            return Err(Failure::new(Exit::Unavailable, error).hint(hint));
        }
        let newest = tags::newest(facts.snapshots.iter(), |snapshot| &snapshot.tags);
        if newest.is_some_and(|(newest, _)| newest == generation) {
            let error = anyhow!("generation {generation} is the newest of {drive}");
            let hint = format!("{command} delete {drive} deletes the whole drive");
            return Err(Failure::new(Exit::Usage, error).hint(hint));
        }
        // The newest stays.
        self.report.print(&goes(&drive, &those, true));
        let question = format!("type {generation} to delete that for good:");
        self.demand_yes(&question, &generation.to_string()).await?;
        let mut gone: Vec<SnapshotId> = Vec::new();
        let mut asked = None;
        let goes_on = || {
            asked = asked.or(self.signals.asked());
            asked.is_none()
        };
        let pruning = self
            .reconciler
            .prune((1, Some(generation)), &mut gone, goes_on);
        pin!(pruning).await.map_err(run_failure)?;
        for id in &gone {
            let deleted = id.of(&drive);
            self.report
                .note(&format!("deleted {deleted}, generation {generation}"));
        }
        match asked {
            Some(_) if gone.len() < those.len() => {
                Err(self.stopped(&format!("delete {drive}@{generation}")))
            }
            Some(end) => Self::code(Ending::Asked(end)),
            None if gone.is_empty() => {
                let error = anyhow!("no snapshot of generation {generation} could be deleted");
                let hint = format!("{command} list {drive} -v shows what there is of {drive}");
                Err(Failure::new(Exit::Failed, error).hint(hint))
            }
            None => Ok(0),
        }
    }

    /// Fails unless the user types `word`, or has said yes to everything.
    async fn demand_yes(&mut self, question: &str, word: &str) -> Result<(), Failure> {
        if self.request.yes {
            return Ok(());
        }
        if !can_ask() {
            let error = anyhow!("nothing is deleted without a yes, and nobody can be asked here");
            return Err(Failure::new(Exit::Usage, error).hint("--yes answers"));
        }
        let exit = match ask_name(&mut self.signals, &self.report, question, word).await {
            Ok(true) => return Ok(()),
            Ok(false) => Exit::Interrupted,
            Err(end) => Exit::from(end),
        };
        Err(Failure::new(exit, anyhow!("nothing was deleted")))
    }
}

/// What goes, and what that cost; less where it `shares` blocks with snapshots that stay.
fn goes(drive: &DriveName, snapshots: &[Snapshot], shares: bool) -> String {
    let of = |snapshot: &Snapshot| Some(tags::read_snapshot(&snapshot.tags).ok()?.generation);
    let generations = || snapshots.iter().filter_map(of);
    let which = match (generations().min(), generations().max()) {
        (Some(first), Some(last)) if first < last => format!(" of generations {first} to {last}"),
        (Some(only), _) => format!(" of generation {only}"),
        _ => String::new(),
    };
    let kept = Kept::count(snapshots);
    let (count, goes) = match snapshots.len() {
        1 => ("1 snapshot".to_owned(), "goes"),
        count => (format!("{count} snapshots"), "go"),
    };
    let (least, most) = kept.cents();
    let cost = match least {
        Some(least) if least == most && !shares => format!("about {}", dollars(most)),
        _ => format!("at most {}", dollars(most)),
    };
    format!("{drive}: {count}{which} {goes}; that frees {cost} a month")
}

/// What stays: backups that xdrive did not make.
fn stays(backups: &[Snapshot]) -> String {
    let ids: Vec<&str> = backups.iter().map(|it| it.id.as_str()).collect();
    format!(
        "somebody else's backups of it stay, and are billed as theirs: {}",
        ids.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2::{SnapshotState, Tags};

    fn snapshot(generation: u64) -> Snapshot {
        let tags = [
            (tags::GENERATION, generation.to_string()),
            (tags::KIND, "clean".to_owned()),
            (tags::OP, "an-op".to_owned()),
        ];
        let tags: Tags = tags.map(|(key, value)| (key.to_owned(), value)).into();
        Snapshot {
            id: "snap-1".parse().unwrap(),
            state: SnapshotState::Completed,
            volume: None,
            size: 20,
            full_size: Some(10 << 30),
            started: jiff::Timestamp::UNIX_EPOCH,
            message: String::new(),
            tags,
        }
    }

    #[test]
    fn what_goes_is_said_with_what_it_frees() {
        let demo: DriveName = "demo".parse().unwrap();
        assert_eq!(
            goes(&demo, &[snapshot(11), snapshot(12)], false),
            "demo: 2 snapshots of generations 11 to 12 go; that frees at most $1.00 a month"
        );
        assert_eq!(
            goes(&demo, &[snapshot(3)], false),
            "demo: 1 snapshot of generation 3 goes; that frees about $0.50 a month"
        );
        // Others have some of its blocks.
        assert_eq!(
            goes(&demo, &[snapshot(3)], true),
            "demo: 1 snapshot of generation 3 goes; that frees at most $0.50 a month"
        );
    }
}
