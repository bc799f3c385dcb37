//! The way on after EC2 has interrupted the instance: park the drive, then resume on another
//! instance, or save.
//!
//! The drive's volume can be attached at once in its own zone. So that zone is tried first, on
//! demand before spot, whose capacity has just run out there. If it has no capacity, the session
//! waits for the snapshot and resumes in any zone. A command is never run a second time: it may
//! have done half of its work.

use anyhow::anyhow;

use crate::drive::reconcile::{RunError, RunFailure};
use crate::drive::{Goal, Outcome};
use crate::ec2::{Instance, Market, Zone};
use crate::failure::{Exit, Failure};
use crate::ids::SnapshotId;
use crate::signals::End;

use super::Session;
use super::cost::Cost;
use super::ending::{Ending, Interruption};
use crate::launch::terms::markets_to_resume;

/// The question, unless `--resume` has answered it.
const QUESTION: &str = "resume on another instance? [Y/n]";

impl Session {
    /// Parks the drive, which then is off `instance`. Returns `None` if the session resumes;
    /// otherwise saves the drive, and returns the session's result. A guest leaves both to the
    /// leading session, and joins it again.
    pub(super) async fn interrupted(
        &mut self,
        interruption: Interruption,
        instance: &Instance,
    ) -> Option<Result<u8, Failure>> {
        let is_command = !self.request.is_shell();
        let is_guest = self.reconciler.hosts().is_guest();
        let mut asked = None;
        if !is_guest {
            let (outcome, signal) = self.run(Goal::Parked).await;
            asked = signal;
            self.report_commit();
            let Outcome::Parked { snapshot } = outcome else {
                let ending = self.ended(interruption, instance, is_command);
                return Some(self.finish(ending, outcome));
            };
            self.report_parking(
                &interruption,
                instance,
                snapshot.map(|(snapshot, _)| snapshot),
            );
        }
        let resumes = !is_command
            && asked.is_none()
            && (self.request.options.resume || self.ask(QUESTION, true).await);
        if resumes {
            if is_guest {
                self.reconciler.hosts().detach(&instance.id);
            }
            // News of the old host are not about the next one.
            while self.news.try_recv().is_ok() {}
            let markets =
                markets_to_resume(&self.request.options, [Market::OnDemand, Market::Spot]);
            self.choose(&markets, false);
            return None;
        }
        let ending = self.ended(interruption, instance, is_command);
        if is_guest {
            return Some(self.leave(instance, ending, false).await);
        }
        let goal = Goal::Saved {
            even_if_used: false,
        };
        let (outcome, _) = self.run(goal).await;
        Some(self.finish(ending, outcome))
    }

    /// Prints that the drive is parked, and how long before the end of its host.
    fn report_parking(
        &self,
        interruption: &Interruption,
        instance: &Instance,
        snapshot: Option<SnapshotId>,
    ) {
        let (Interruption::Noticed { at, .. }, Some(snapshot)) = (interruption, snapshot) else {
            return;
        };
        let left = at.duration_since(self.cloud.clock.now()).as_secs();
        let (drive, id) = (&self.request.drive, &instance.id);
        self.report.print(&if left > 0 {
            format!("{drive} was off {id}, with {snapshot} begun, {left} s before its end")
        } else {
            format!("{drive} is off {id}, with {snapshot} begun")
        });
    }

    /// As [`Session::run`] towards a mounted drive, for a session that resumes: if the volume's
    /// zone has no capacity, from the snapshot in any zone.
    pub(super) async fn resume(&mut self) -> (Outcome, Option<End>) {
        let (outcome, asked) = self.try_to_resume().await;
        if let Outcome::Ready { instance, .. } = &outcome {
            let market = instance.market;
            let price = Cost::hourly(instance, &self.cloud.ec2).await;
            self.report.print(&format!(
                "{} goes on on {}, {} {market}{price}",
                self.request.drive, instance.id, instance.instance_type
            ));
        }
        (outcome, asked)
    }

    async fn try_to_resume(&mut self) -> (Outcome, Option<End>) {
        let goal = Goal::Ready { from: None };
        let (outcome, asked) = self.run(goal.clone()).await;
        match (zone_without_capacity(&outcome), asked) {
            (Some(zone), None) => {
                self.report.print(&format!(
                    "there is no capacity in {zone}: {} goes on from its snapshot, in any zone",
                    self.request.drive
                ));
                let markets =
                    markets_to_resume(&self.request.options, [Market::Spot, Market::OnDemand]);
                self.choose(&markets, false);
                self.run(goal).await
            }
            (_, asked) => (outcome, asked),
        }
    }

    /// The ending of a session that does not resume.
    fn ended(&self, interruption: Interruption, instance: &Instance, is_command: bool) -> Ending {
        let (xdrive, drive, id) = (&self.cloud.command, &self.request.drive, &instance.id);
        Ending::Failed(match interruption {
            Interruption::Gone(failure) => failure,
            Interruption::Noticed { code, .. } => {
                let of_the_command = match code {
                    Some(code) if is_command => format!(
                        ", which ended the command (exit code {code}): it may have done half of \
                         what it does"
                    ),
                    _ if is_command => {
                        ", and with it the command: it may have done half of what it does"
                            .to_owned()
                    }
                    _ => String::new(),
                };
                let error = anyhow!("EC2 took the instance ({id}) back{of_the_command}");
                Failure::new(Exit::TryAgain, error).hint(format!(
                    "{xdrive} connect {drive} goes on with the drive; --resume does so by itself"
                ))
            }
        })
    }
}

/// The zone of the drive's volume, if the run failed because it has no capacity, and the drive was
/// saved after that.
fn zone_without_capacity(outcome: &Outcome) -> Option<Zone> {
    match outcome {
        Outcome::Failed(RunFailure {
            error: RunError::NoCapacity(lack),
            also: Some(also),
            ..
        }) if matches!(**also, Outcome::Saved { .. }) => lack.zone.clone(),
        _ => None,
    }
}
