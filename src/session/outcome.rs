//! The output at the end of a session, and its exit code.
//!
//! Both come from two results: how the use of the drive ended (a command's exit code, a signal, a
//! failure), and the outcome of the save after it. A failed save replaces an exit code of 0, and no
//! other. Every command in a hint can be typed as it stands.

use std::fmt::Write as _;

use anyhow::anyhow;

use crate::drive::reconcile::{Holder, RunError, RunFailure};
use crate::drive::{HostError, Left, Outcome, Stuck};
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::Committed;
use crate::signals::End;
use crate::ssh::shell::ShellExit;

use super::cost::Cost;
use super::ending::Ending;
use super::room;
use super::state::Session;

impl Session {
    /// Reports a failed commit: it loses nothing, but explains why a later session may create the
    /// container anew.
    pub(super) fn report_commit(&mut self) {
        if let Some(closed) = self.reconciler.hosts().closed()
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

    /// Extends the lease and leaves the host running; prints how to come back and how to save.
    /// Returns the exit code.
    pub(super) async fn leave_running(&mut self, instance: &Instance) -> Result<u8, Failure> {
        let keep = self.request.command_lease();
        let (command, drive) = (self.cloud.command.clone(), self.request.drive.clone());
        let until = self.reconciler.hosts().leave(instance, keep).await;
        let until = until.map_err(|error| self.not_kept(instance, error))?;
        let price = Cost::hourly(instance, &self.cloud.ec2).await;
        let (until_when, way_back) = if self.request.has_terminal() {
            let place = self.request.place();
            let back = format!("{command} connect {place}  comes back to it");
            ("until", back)
        } else {
            let back = format!(
                "{command} logs {drive} -f  shows what it prints\n  \
                 {command} attach {drive}  comes back to it"
            );
            ("until its command has ended, at most until", back)
        };
        self.report.print(&format!(
            "{drive} is left running on {} {until_when} {until:.0}{price}; then it is closed and \
             the instance switches itself off\n  {way_back}\n  {command} stop {drive}  saves it",
            instance.id.its()
        ));
        Ok(0)
    }

    /// The failure of leaving a host, which runs until its lease ends.
    pub(super) fn not_kept(&self, instance: &Instance, error: anyhow::Error) -> Failure {
        let (command, drive) = (&self.cloud.command, &self.request.drive);
        let error = error.context(format!(
            "{drive} runs on {}, but not for longer than its lease",
            instance.id.its()
        ));
        Failure::new(Exit::Failed, error).hint(format!(
            "{command} connect {} comes back, {command} stop {drive} saves it",
            self.request.place()
        ))
    }

    /// Ends a session whose drive did not become ready. Returns the exit code.
    pub(super) fn not_ready(
        &mut self,
        outcome: Outcome,
        asked: Option<End>,
    ) -> Result<u8, Failure> {
        match (outcome, asked) {
            (outcome @ (Outcome::Unwound { .. } | Outcome::Saved { .. }), Some(end)) => {
                self.finish(Ending::Asked(end), outcome)
            }
            (outcome, _) => self.report_outcome(outcome).map(|()| 0),
        }
    }

    /// Reports the outcome of the save. Returns the exit code of the ending; that of a failed save
    /// in place of 0.
    pub(super) fn finish(&mut self, ending: Ending, outcome: Outcome) -> Result<u8, Failure> {
        let saved = self.report_outcome(outcome);
        let code = match Self::code(ending) {
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
        self.report
            .print(&failure.shown(self.request.options.config.json, exit));
    }

    /// The exit code of an ending.
    pub(super) fn code(ending: Ending) -> Result<u8, Failure> {
        Ok(match ending {
            Ending::Exit(code) => code,
            Ending::Escaped => ShellExit::Escaped.code(),
            Ending::Asked(end) => Exit::from(end).code(),
            // An interruption was reported when it came.
            Ending::Detached | Ending::Interruption(_) => 0,
            Ending::Closed(reason) => {
                return Err(Failure::new(
                    Exit::Disconnected,
                    anyhow!("the host closed the drive: {reason}"),
                ));
            }
            Ending::Failed(failure) => return Err(failure),
        })
    }

    /// The failure of a request for a drive that another session uses.
    pub(super) fn busy(&self, holder: &Holder) -> Failure {
        let (drive, command) = (&self.request.drive, &self.cloud.command);
        let (what, hint) = if holder.discards {
            let hint = format!("it saves nothing; {command} stop {drive} ends it from here");
            (", which discards what it changes", hint)
        } else {
            let hint = "leave that session, or save it from here";
            ("", format!("{hint}: {command} stop {drive}"))
        };
        let error = anyhow!(
            "{drive} is in use on {} by another xdrive of {}{what}, since {}",
            holder.instance.its(),
            holder.owner,
            holder.since
        );
        Failure::new(Exit::TryAgain, error).hint(hint)
    }

    /// Prints an outcome that is a success; returns any other as a failure.
    pub(super) fn report_outcome(&mut self, outcome: Outcome) -> Result<(), Failure> {
        let drive = &self.request.drive.clone();
        match outcome {
            Outcome::Saved {
                snapshot: Some((snapshot, generation)),
                ..
            } => {
                self.report.note(&format!(
                    "{drive} is saved: {}, generation {generation}",
                    snapshot.its()
                ));
                let closed = self.reconciler.hosts().closed();
                let room = closed.and_then(|closed| closed.room);
                self.warn_if_full(room, room::Growth::AtNextConnect);
                self.report_snapshot_cost();
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
                        listed(&left)
                    )
                };
                self.report
                    .print(&format!("cancelled: {drive} is unchanged{words}"));
                Ok(())
            }
            Outcome::StoppedWaiting(left) => Err(Failure::new(
                Exit::TryAgain,
                anyhow!(
                    "stopped waiting{}",
                    if left.has_instances() {
                        ""
                    } else {
                        "; the bill for the instance has stopped"
                    },
                ),
            )
            .left(left)
            .hint(format!(
                "the next run does the rest, for example: {} stop {drive}",
                self.cloud.command
            ))),
            Outcome::Busy(holder) => Err(self.busy(&holder)),
            Outcome::Stuck(stuck) => Err(self.stuck(&stuck)),
            Outcome::Failed(failure) => Err(self.failed(failure)),
            Outcome::Ready { .. }
            | Outcome::Parked { .. }
            | Outcome::Deleted
            | Outcome::Renamed
            | Outcome::Copied { .. } => Ok(()),
        }
    }

    fn stuck(&self, stuck: &Stuck) -> Failure {
        if let Some(failure) = self.launch_failure(stuck) {
            return failure;
        }
        let error = anyhow!("{}", stuck.why);
        let commands: Vec<String> = stuck
            .commands(&self.request.drive)
            .iter()
            .map(|command| match command.strip_prefix("xdrive ") {
                Some(rest) => format!("{} {rest}", self.cloud.command),
                None => command.clone(),
            })
            .collect();
        Failure::new(Exit::Stuck, error)
            .left(stuck.left.clone())
            .hint(commands.join("\n      "))
    }

    fn failed(&mut self, failure: RunFailure) -> Failure {
        let RunFailure { error, also, left } = failure;
        if let Some(also) = also
            && let Err(also) = self.report_outcome(*also)
        {
            self.print_failure(&also, also.exit.code());
        }
        let connect = format!("{} connect {}", self.cloud.command, self.request.drive);
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
            self.request.drive,
        );
        failure.hint(hint).left(left)
    }
}

/// An error of the loop as a failure of the session.
pub(super) fn run_failure(error: RunError) -> Failure {
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
fn listed(left: &Left) -> String {
    let mut lines = String::new();
    for thing in &left.0 {
        let _ = write!(lines, "\n  left: {thing}");
    }
    lines
}
