//! One drive that is tended: what is done for its run in a pass.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::anyhow;
use jiff::{SignedDuration, Timestamp};

use super::super::{key, whole, workers};
use crate::cloud::Cloud;
use crate::config::launch::{Fallback, LaunchOptions};
use crate::config::quantity::LONGEST_RUN;
use crate::config::{Config, NotifyUrl, Options, Paths, Places};
use crate::drive::tags::{RunState, SnapshotKind, WantedRun};
use crate::drive::tend::{Ended, Next, is_saved_first, next};
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::opener::{Drive, Opening, no_order};
use crate::session::{self, Again, Named, OVERDUE, Request, Task};
use crate::visit::{self, Visitor};

/// How long a run waits until its user is notified.
const NOTIFIED: SignedDuration = SignedDuration::from_mins(30);

/// How long the mark that somebody tends a run may be late.
const MARK: SignedDuration = SignedDuration::from_mins(5);

/// A drive that is tended.
pub(super) struct TendedDrive {
    pub(super) name: DriveName,
    /// The cloud of the drive's owner.
    pub(super) cloud: Cloud,
    pub(super) visitor: Visitor,
    pub(super) paths: Paths,
    /// Who is notified.
    pub(super) address: Option<NotifyUrl>,
    /// Whether a signal has asked for the end: nothing is begun any more.
    pub(super) is_ending: Rc<Cell<bool>>,
}

impl TendedDrive {
    /// Goes on with what is wanted of the drive: its run, then its workers.
    pub(super) async fn tend(self) -> Result<(), Failure> {
        self.tend_run().await?;
        if self.is_ending.get() {
            return Ok(());
        }
        let (leader, visitor) = (self.name.clone(), self.visitor.clone());
        workers::keep(leader, &self.cloud, visitor, &self.paths).await
    }

    /// Goes on with the wanted run of the drive, unless its host is there: then a checkpoint may be due.
    /// Where that fails the drive's tags say since when the run waits, and why.
    async fn tend_run(&self) -> Result<(), Failure> {
        let drive = self.open().await?;
        let now = self.cloud.clock.now();
        let Some(mut run) = drive.wanted_run() else {
            return Ok(());
        };
        // Whoever may tag may have written it.
        run.until = run
            .until
            .min(now.saturating_add(LONGEST_RUN).unwrap_or(now));
        let is_marked = |at: Timestamp| now.duration_since(at).abs() < MARK;
        if !run.tended.is_some_and(is_marked) {
            // For people alone, as below, and the next pass writes it again.
            let _ = drive.mark_tended(&run.id, run.told).await;
        }
        let done = if let Some(host) = drive.facts.host.clone() {
            self.take_checkpoint(&drive, &run, &host, now).await;
            Ok(())
        } else {
            self.go_on(&drive, &run).await
        };
        let waits: Option<(Timestamp, String)> = match (&done, &run.waits) {
            (Err(failure), since) => {
                let since = since.as_ref().map_or(now, |(since, _)| *since);
                Some((since, failure.error.to_string()))
            }
            (Ok(()), Some(_)) => None,
            (Ok(()), None) => return done,
        };
        let waits = waits.as_ref().map(|(since, why)| (*since, why.as_str()));
        if let Some((since, why)) = waits.filter(|(since, _)| is_due(*since, run.told, now)) {
            let words = format!("the run {} waits since {since:.0}: {why}", run.id.as_str());
            if self.notify(&drive, &words).await {
                // Which is how the next pass, and every other tender, knows.
                let _ = drive.mark_tended(&run.id, Some(now)).await;
            }
        }
        let _ = drive.mark_waiting(&run.id, waits).await;
        done
    }

    /// Posts words to the address for them. Whether that was done: not if there is none.
    async fn notify(&self, drive: &Drive, words: &str) -> bool {
        let Some(address) = &self.address else {
            return false;
        };
        let posted = drive.notify(address, words).await;
        if let Err(error) = &posted {
            let report = &drive.report;
            report.print(&format!("nobody was notified by --notify: {error}"));
        }
        posted.is_ok()
    }

    /// Opens the drive once more, as it is now.
    async fn open(&self) -> Result<Drive, Failure> {
        Drive::open(self.opening(), self.cloud.clone()).await
    }

    fn opening(&self) -> Opening {
        Opening {
            shared: self.cloud.acts_for_another(),
            is_one_of_many: true,
            ..Opening::new(whole(self.name.clone()))
        }
    }

    /// Takes a checkpoint of a drive that is up on `host`, if its run is to have them and one is due.
    async fn take_checkpoint(
        &self,
        drive: &Drive,
        run: &WantedRun,
        host: &Instance,
        now: Timestamp,
    ) {
        let launch = run.launch.parse::<LaunchOptions>().ok();
        let Some(interval) = launch.and_then(|launch| launch.checkpoint) else {
            return;
        };
        let started = drive.facts.snapshots.iter().map(|it| it.started);
        let last = started.fold(host.launched, Timestamp::max);
        // One that begins later than now has just begun: the clocks differ.
        let since = Duration::try_from(now.duration_since(last)).unwrap_or_default();
        if since < interval {
            return;
        }
        let taken = async { visit::checkpoint(self.open().await?, self.visitor.clone()).await };
        if let Err(failure) = taken.await {
            let report = &drive.report;
            report.print(&format!("no checkpoint: {:#}", failure.error));
        }
    }

    /// Ends the run if it is over, else brings its drive up and begins the next try.
    async fn go_on(&self, drive: &Drive, run: &WantedRun) -> Result<(), Failure> {
        let why_ended = match drive.facts.last() {
            Some(last) => self.cloud.ec2.why_ended(&last.id).await?,
            None => None,
        };
        let is_late = self.cloud.clock.now() >= run.until;
        let has_volume = drive.facts.volumes_left().next().is_some();
        let id = run.id.as_str();
        if is_saved_first(why_ended.as_deref(), has_volume, is_late) {
            let saving =
                visit::finish_drive(self.opening(), &self.cloud, self.visitor.clone(), None);
            let saved = saving.await?;
            if let Some(failure) = saved.failure {
                return Err(failure);
            }
            if saved.asked.is_some() {
                return Ok(());
            }
            // Read where it sleeps: what cannot begin needs no instance.
            let opened = self.open().await?;
            let newest = opened.facts.newest_readable(None);
            let was_closed = newest.is_some_and(|(tags, _)| tags.kind == SnapshotKind::Clean);
            let Some((record, tries)) = visit::run_asleep(opened, &run.id).await? else {
                return Ok(());
            };
            let host = record.as_ref();
            let host = host.and_then(|run| drive.facts.last_since(run.began_at()));
            let why = match host {
                Some(host) => self.cloud.ec2.why_ended(&host.id).await?,
                None => None,
            };
            let last = host.zip(why.as_deref()).map(|(host, why)| Ended {
                launched: host.launched,
                why,
                was_closed,
            });
            let is_frozen = record.as_ref().is_some_and(|run| run.is_frozen);
            let next = match next(record.as_ref(), last) {
                Next::Bring if is_late => Next::Over(RunState::Failed, Some(OVERDUE)),
                Next::Bring => match &tries.order {
                    None => return Err(no_order(&run.id)),
                    // A frozen one goes on with the try that it is.
                    Some(order) if !is_frozen && !tries.may_begin(order) => {
                        Next::Over(RunState::Failed, None)
                    }
                    Some(_) => Next::Bring,
                },
                next @ Next::Over(..) => next,
            };
            if let Next::Over(state, exit) = next {
                drive.mark_over(&run.id, state, exit).await;
                let code = exit.map_or_else(String::new, |code| format!(" (exit code {code})"));
                let state = state.as_str();
                let words = format!("the run {id} is {state}{code}");
                drive.report.print(&words);
                // Its host has posted what its command did.
                if record.is_none_or(|run| run.finished().is_none()) {
                    self.notify(drive, &words).await;
                }
                return Ok(());
            }
        }
        if self.is_ending.get() {
            return Ok(());
        }
        drive
            .report
            .print(&format!("the run {id} goes on on another instance"));
        let key = key(&self.paths)?;
        session::connect(self.request(run)?, self.cloud.clone(), key).await?;
        Ok(())
    }

    /// The session that begins the next try of a run, or goes on with one that is frozen.
    fn request(&self, run: &WantedRun) -> Result<Request, Failure> {
        let launch: LaunchOptions = run.launch.parse().map_err(|error| {
            let error = anyhow::Error::new(error).context("the launch options in its tags");
            Failure::new(Exit::Config, error)
        })?;
        let mut options = Options::choose(Config::default(), Config::read(&self.paths)?)
            .map_err(|error| Failure::new(Exit::Config, anyhow!(error)))?;
        options.launch = LaunchOptions {
            // Before anything dearer, for which nobody is asked.
            leave_zone: true,
            fallback: launch.fallback.or(Some(Fallback::None)),
            ..launch
        };
        // The container stays as it is.
        options.places = Places::default();
        options.reach = self.visitor.reach.clone();
        options.config.once.shared = self.cloud.acts_for_another();
        options.config.once.no_join = true;
        options.config.no_jupyter = true;
        options.config.agent = false;
        options.config.aws = false;
        options.config.forwards.clear();
        options.config.remote_forwards.clear();
        let again = Again {
            run: run.id.clone(),
            until: run.until,
        };
        Ok(Request {
            named: run.container.clone().map(Named::as_it_is),
            task: Task::Again(again),
            criu: self.paths.criu.clone(),
            ..Request::new(self.name.clone(), options)
        })
    }
}

/// Whether a run has waited for so long, `since` then, that its user is notified, who was not `told` since.
fn is_due(since: Timestamp, told: Option<Timestamp>, now: Timestamp) -> bool {
    now.duration_since(since) >= NOTIFIED && told.is_none_or(|told| told < since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_notified_once_of_a_run_that_waits() {
        let at = |minutes: i64| Timestamp::from_second(minutes * 60).unwrap();
        assert!(!is_due(at(0), None, at(29)));
        assert!(is_due(at(0), None, at(30)));
        assert!(!is_due(at(0), Some(at(31)), at(900)), "another pass");
        assert!(is_due(at(100), Some(at(31)), at(130)), "another wait");
    }
}
