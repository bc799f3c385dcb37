//! The output at the end of a session, and its exit code.
//!
//! Both come from two results: how the use of the drive ended (a command's exit code, a signal, a
//! failure), and the outcome of the save after it. A failed save replaces an exit code of 0, and no
//! other. Every command in a hint can be typed as it stands.

use std::fmt::Write as _;

use anyhow::anyhow;

use crate::drive::reconcile::{Holder, RunError, RunFailure};
use crate::drive::{Billed, HostError, Hosts, Left, Outcome, Reconciler, Stuck};
use crate::failure::{Exit, Failure};
use crate::host::Committed;

use super::drive::Drive;
use super::ending::Ending;
use super::launch_failure::launch_failure;
use super::room;

impl Drive {
    /// Reports a failed commit: it loses nothing, but explains why a later session may create the
    /// container anew.
    pub(crate) fn report_commit<H: Hosts>(&self, reconciler: &mut Reconciler<H>) {
        let closed = reconciler.hosts().closed();
        for frozen in closed.iter().flat_map(|closed| &closed.commands) {
            self.report.print(&frozen.to_string());
        }
        let closed = reconciler.hosts().closed();
        for share in closed.iter().flat_map(|closed| &closed.silent) {
            self.report.print(&format!(
                "the share {share} did not answer: what was written to it last may not be there"
            ));
        }
        if let Some(closed) = reconciler.hosts().closed()
            && closed.committed == Committed::Failed
        {
            let why = closed.why.as_ref();
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            self.report.print(&format!(
                "the container was not committed as an image{why}; its files are on the drive all \
                 the same"
            ));
        }
    }

    /// Reports the outcome of the save. Returns the exit code of the ending; that of a failed save
    /// in place of 0.
    pub(crate) fn finish<H: Hosts>(
        &self,
        reconciler: &mut Reconciler<H>,
        ending: Ending,
        outcome: Outcome,
    ) -> Result<u8, Failure> {
        let saved = self.report_outcome(reconciler, outcome);
        let code = match ending.code() {
            Ok(code) => code,
            Err(failure) => {
                if let Err(unsaved) = saved {
                    self.print_failure(&unsaved, unsaved.exit.code());
                }
                return Err(failure);
            }
        };
        match saved {
            Ok(()) => Ok(code),
            // The command did not fail, and the next run may finish the save.
            Err(unsaved) if code == 0 && matches!(unsaved.exit, Exit::Failed | Exit::Denied) => {
                Err(Failure {
                    exit: Exit::TryAgain,
                    ..unsaved
                })
            }
            Err(unsaved) if code == 0 => Err(unsaved),
            Err(unsaved) => {
                self.print_failure(&unsaved, code);
                Ok(code)
            }
        }
    }

    /// Prints a failure that is not the session's own result; `exit` is the process's exit code, as
    /// far as it is known.
    fn print_failure(&self, failure: &Failure, exit: u8) {
        self.report.print(&failure.shown(self.json, exit));
    }

    /// The failure of a request for a drive that another session uses.
    pub(crate) fn busy(&self, holder: &Holder) -> Failure {
        let (drive, command) = (&self.name, &self.cloud.command);
        let (what, hint) = if holder.discards {
            let hint = format!("it saves nothing; {command} stop {drive} ends it from here");
            (", which discards what it changes", hint)
        } else {
            let hint = "leave that session, or save it from here";
            ("", format!("{hint}: {command} stop {drive}"))
        };
        let error = anyhow!(
            "{drive} is in use on {} by another xdrive of {}{what}, since {}",
            holder.instance.short_label(),
            holder.owner,
            holder.since
        );
        Failure::new(Exit::TryAgain, error).hint(hint)
    }

    /// Prints an outcome that is a success; returns any other as a failure.
    pub(crate) fn report_outcome<H: Hosts>(
        &self,
        reconciler: &mut Reconciler<H>,
        outcome: Outcome,
    ) -> Result<(), Failure> {
        let drive = &self.name;
        match outcome {
            Outcome::Saved {
                snapshot: Some((snapshot, generation)),
                ..
            } => {
                self.report.note(&format!(
                    "{drive} is saved: {}, generation {generation}",
                    snapshot.short_label()
                ));
                let closed = reconciler.hosts().closed();
                let room = closed.and_then(|closed| closed.room);
                self.warn_if_full(room, room::Growth::AtNextConnect);
                self.report_snapshot_cost(reconciler.kept_snapshots());
                Ok(())
            }
            // A killed run had created a drive and never mounted it.
            Outcome::Saved { snapshot: None, .. } if self.acted.get() => {
                self.report.print(&format!(
                    "nothing is left of {drive}: it never held anything"
                ));
                Ok(())
            }
            Outcome::Saved { snapshot: None, .. } => {
                Err(Failure::no_drive(drive, &self.cloud.command))
            }
            Outcome::Unwound { left } => {
                let left = left.without_snapshots();
                let words = if left.0.is_empty() {
                    String::new()
                } else {
                    let xdrive = &self.cloud.command;
                    format!(
                        ", not saved ({xdrive} stop {drive} does that){}",
                        listed(&self.billed(&left))
                    )
                };
                self.report
                    .print(&format!("cancelled: {drive} is unchanged{words}"));
                Ok(())
            }
            Outcome::StoppedWaiting(left) => Err(self.stopped_waiting(&left)),
            Outcome::Busy(holder) => Err(self.busy(&holder)),
            Outcome::Stuck(stuck) => Err(self.stuck(reconciler, &stuck)),
            Outcome::Failed(failure) => Err(self.failed(reconciler, failure)),
            Outcome::Ready { .. }
            | Outcome::Parked { .. }
            | Outcome::Deleted
            | Outcome::Renamed
            | Outcome::Copied { .. } => Ok(()),
        }
    }

    /// The resources that are still billed, with what they cost.
    pub(crate) fn billed(&self, left: &Left) -> Vec<Billed> {
        Billed::all(left, self.cloud.ec2.known_storage_prices())
    }

    /// The failure of a run that was interrupted after the instance ended.
    pub(crate) fn stopped_waiting(&self, left: &Left) -> Failure {
        let bill = if left.has_instances() {
            ""
        } else {
            "; the bill for the instance has stopped"
        };
        let error = anyhow!("stopped waiting{bill}");
        Failure::new(Exit::TryAgain, error)
            .left(self.billed(left))
            .hint(format!(
                "the next run does the rest, for example: {} stop {}",
                self.cloud.command, self.name
            ))
    }

    /// The failure of a run that cannot go on safely.
    pub(crate) fn stuck<H: Hosts>(&self, reconciler: &Reconciler<H>, stuck: &Stuck) -> Failure {
        if let Some(failure) = launch_failure(stuck, reconciler.unusable()) {
            let failure = failure.left(self.billed(&stuck.left));
            return failure;
        }
        let error = anyhow!("{}", stuck.why);
        let commands: Vec<String> = stuck
            .commands(&self.name)
            .iter()
            .map(|command| match command.strip_prefix("xdrive ") {
                Some(rest) => format!("{} {rest}", self.cloud.command),
                None => command.clone(),
            })
            .collect();
        Failure::new(Exit::Stuck, error)
            .left(self.billed(&stuck.left))
            .hint(commands.join("\n      "))
    }

    /// The failure of a run that failed for good. Prints the outcome of ending what it had made.
    pub(crate) fn failed<H: Hosts>(
        &self,
        reconciler: &mut Reconciler<H>,
        failure: RunFailure,
    ) -> Failure {
        let RunFailure { error, also, left } = failure;
        if let Some(also) = also
            && let Err(also) = self.report_outcome(reconciler, *also)
        {
            self.print_failure(&also, also.exit.code());
        }
        let connect = format!("{} connect {}", self.cloud.command, self.name);
        let failure = match error {
            RunError::NoCapacity(lack) => crate::launch::failure::no_capacity(*lack, &connect),
            RunError::FreePlan(plan) => crate::launch::failure::free_plan(*plan),
            RunError::Pools(refused) => crate::launch::failure::refused(refused, &connect),
            error => run_failure(error),
        };
        if left.0.is_empty() {
            return failure;
        }
        let advice = failure.hint.as_ref().map(|hint| format!("{hint}\n      "));
        let hint = format!(
            "{}{} stop {} finishes what is left",
            advice.unwrap_or_default(),
            self.cloud.command,
            self.name,
        );
        failure.hint(hint).left(self.billed(&left))
    }
}

/// An error of the loop as a failure of the session.
pub(crate) fn run_failure(error: RunError) -> Failure {
    let exit = match error {
        RunError::Ec2(error) => return error.into(),
        RunError::Host(HostError::NoRoute { why, hint }) => {
            return Failure::new(Exit::Unavailable, anyhow!(why)).hint(hint);
        }
        RunError::NoCapacity(_) | RunError::Busy(_) => Exit::TryAgain,
        RunError::Stuck(_) => Exit::Stuck,
        RunError::Invalid(_) => Exit::Usage,
        _ => Exit::Failed,
    };
    Failure::new(exit, error)
}

/// The resources that are still billed, a line each.
fn listed(left: &[Billed]) -> String {
    let mut lines = String::new();
    for thing in left {
        let _ = write!(lines, "\n  left: {thing}");
    }
    lines
}
