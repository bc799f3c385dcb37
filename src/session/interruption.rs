//! The way on after EC2 has interrupted the instance: park the drive, then resume on another
//! instance, or save.
//!
//! The drive's volume can be attached at once in its own zone. So that zone is tried first. If it has
//! no capacity, the session waits for the snapshot and resumes in any zone: as spot, and on demand
//! only after that, and only if its user has asked for it or says so now. A command is not run a second time, since it may
//! have done half of its work: only if the caller allows that (`--restart`), EC2's reason is that
//! it took the instance, and the command did not end well.

use std::time::Duration;

use anyhow::anyhow;

use crate::config::quantity::Port;
use crate::drive::pools::Like;
use crate::drive::tags::RunState;
use crate::drive::tend::BY_EC2;
use crate::drive::{Goal, Outcome};
use crate::ec2::{Instance, Market};
use crate::failure::{Exit, Failure};
use crate::ids::SnapshotId;
use crate::signals::End;

use super::leave::Parting;
use super::request::{Request, Task};
use super::state::Session;
use crate::opener::{Cost, Drive, DriveFacts, Ending, Interruption, Listing};

/// How far a session's command had come when its instance was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandState {
    NotBegun,
    Begun,
    Frozen,
}

/// The exit code of a command that was interrupted: Ctrl-C, which is its user's.
const INTERRUPTED: u8 = Exit::Interrupted as u8;

/// The time below which a command is not started again.
const SHORTEST: Duration = Duration::from_mins(1);

impl Session {
    /// Parks the drive, which then is off `instance`. Saves it unless the session resumes. A guest
    /// leaves both to the leading session, and joins it again.
    pub(super) async fn interrupted(
        &mut self,
        interruption: Interruption,
        instance: &Instance,
    ) -> Result<Parting, Failure> {
        let is_command = !self.request.is_shell();
        let is_guest = self.reconciler.hosts().is_guest();
        let mut asked = None;
        if !is_guest {
            let (outcome, signal) = self.run(Goal::Parked).await;
            asked = signal;
            self.drive.report_commit(&mut self.reconciler);
            let Outcome::Parked { snapshot } = outcome else {
                let ending = self.final_ending(interruption, instance);
                return self.finish(ending, outcome).map(Parting::Ends);
            };
            self.drive.report_parking(
                &interruption,
                instance,
                snapshot.map(|(snapshot, _)| snapshot),
            );
        }
        let resumes = asked.is_none()
            && if is_command && self.is_frozen.get() {
                self.goes_on_frozen(instance)
            } else if is_command {
                self.takes_a_try(&interruption, instance).await
            } else {
                let question = question(&self.markets());
                self.request.options.config.resume || self.drive.ask(&question, true).await
            };
        if resumes {
            if is_guest {
                self.reconciler.hosts().detach(&instance.id);
            }
            // News of the old host are not about the next one.
            while self.news.try_recv().is_ok() {}
            self.has_begun = false;
            self.is_resumed = true;
            // Jupyter keeps its local port on the next instance.
            let port = &mut self.request.options.config.jupyter_port;
            *port = self.port.map(Port).or(*port);
            return Ok(Parting::Resumes);
        }
        let is_by_user = matches!(asked, Some(End::Interrupt { .. }))
            || matches!(
                interruption,
                Interruption::Noticed {
                    code: Some(INTERRUPTED),
                    ..
                }
            );
        let ending = self.final_ending(interruption, instance);
        let over = match &ending {
            _ if !self.request.may_restart() => None,
            _ if is_by_user => Some((RunState::Stopped, None)),
            Ending::Exit(code) => Some((RunState::ended_with(*code), Some(*code))),
            // Somebody else goes on with it, if anybody is to.
            _ if asked.is_some() => None,
            _ => Some((RunState::Failed, None)),
        };
        self.mark_over(over).await;
        if is_guest {
            let code = self.leave_drive(instance, ending).await;
            return code.map(Parting::Ends);
        }
        let goal = Goal::Saved {
            even_if_used: false,
        };
        let (outcome, _) = self.run(goal).await;
        self.finish(ending, outcome).map(Parting::Ends)
    }

    /// Whether the frozen command goes on on another instance, which uses up no try: nothing of it is done
    /// twice.
    fn goes_on_frozen(&mut self, instance: &Instance) -> bool {
        let is_in_time = match self.request.task {
            Task::Run { limit, .. } => self.time_left(limit) >= SHORTEST,
            _ => true,
        };
        if is_in_time {
            if let Some(terms) = &mut self.terms {
                terms.like = Some(Like::host(instance, true));
            }
            self.drive.report.print(&format!(
                "the command goes on, where it was, on another instance than {}",
                instance.id
            ));
        }
        is_in_time
    }

    /// The ending of this session if it does not resume.
    fn final_ending(&self, interruption: Interruption, instance: &Instance) -> Ending {
        let command = &self.drive.cloud.command;
        let state = if self.is_frozen.get() {
            CommandState::Frozen
        } else if self.has_begun {
            CommandState::Begun
        } else {
            CommandState::NotBegun
        };
        self.request
            .final_ending(interruption, instance, state, command)
    }

    /// Whether the command is started again, which uses up one try if it had begun. Its user must not
    /// have ended it, and EC2's reason must be that it took the instance: while this computer slept,
    /// the command may have ended, or `xdrive stop` may have ended it.
    async fn takes_a_try(&mut self, interruption: &Interruption, instance: &Instance) -> bool {
        let Task::Run {
            limit,
            tries: Some(tries),
            ..
        } = self.request.task
        else {
            return false;
        };
        let Some(left) = tries_left(tries, self.has_begun) else {
            return false;
        };
        let may_begin_again = match interruption {
            Interruption::Noticed { code, .. } => !matches!(code, Some(0 | INTERRUPTED)),
            Interruption::Taken => true,
            Interruption::Gone(_) => {
                let why = self.drive.cloud.ec2.why_ended(&instance.id).await;
                matches!(why, Ok(Some(why)) if why.starts_with(BY_EC2))
            }
        };
        if !may_begin_again || self.time_left(limit) < SHORTEST {
            return false;
        }
        if let Task::Run { tries, .. } = &mut self.request.task {
            *tries = Some(left);
        }
        self.drive.report.print(&match (self.has_begun, left) {
            (false, _) => format!(
                "the command had not begun on {}: it is started on another",
                instance.id.drive_label(&self.request.drive)
            ),
            (true, 0) => "the command is started again, for the last time".to_owned(),
            (true, left) => format!("the command is started again, and {left} more times at most"),
        });
        true
    }

    /// Takes up what others have set on the drive since this session began: its ports, its address. Without an
    /// answer of EC2 they stay as they were.
    async fn take_up_settings(&mut self) {
        let listing = Listing::read(&self.drive.cloud.ec2, &self.drive.name).await;
        let Ok(listing) = listing else { return };
        let facts = DriveFacts::read(listing, None);
        let options = &mut self.request.options;
        // Those that were typed are the drive's since the first mount.
        (options.ingress, options.address) = (None, None);
        self.reconciler.prefer(&facts.settings);
        if let Err(failure) = self.find_address(&facts).await {
            self.drive.report.warn(&failure.to_string());
        }
        self.recorded = facts.settings;
    }

    /// As [`Session::run`] towards a mounted drive, for a session that resumes: if the volume's
    /// zone has no capacity, from the snapshot in any zone.
    pub(super) async fn resume(&mut self) -> (Outcome, Option<End>) {
        self.take_up_settings().await;
        let (outcome, asked) = self.resume_with_fallbacks().await;
        if let Outcome::Ready { instance, .. } = &outcome {
            let market = instance.market;
            let price = Cost::hourly(instance, &self.drive.cloud.ec2).await;
            self.drive.report.print(&format!(
                "{} goes on on {}, {} {market}{price}",
                self.request.drive,
                instance.id.after("another"),
                instance.instance_type
            ));
        }
        (outcome, asked)
    }
}

impl Request {
    /// The ending of a session that does not resume, and whose command may have begun. `xdrive` begins
    /// the command in its hint.
    fn final_ending(
        &self,
        interruption: Interruption,
        instance: &Instance,
        state: CommandState,
        xdrive: &str,
    ) -> Ending {
        let is_command = !self.is_shell();
        if self.may_restart() && is_done(&interruption) {
            return Ending::Exit(0);
        }
        let (drive, id) = (&self.drive, &instance.id);
        let not_begun = state == CommandState::NotBegun && !matches!(self.task, Task::Attach(_));
        let code = match interruption {
            Interruption::Gone(failure) => return Ending::Failed(failure),
            Interruption::Noticed { code, .. } => code,
            Interruption::Taken => None,
        };
        let of_the_command = match code {
            _ if state == CommandState::Frozen => {
                ", and the command is frozen: it goes on with the drive".to_owned()
            }
            _ if is_command && not_begun => ", before the command had begun".to_owned(),
            Some(code) if is_command => format!(
                ", which ended the command (exit code {code}): it may have done half of what it does"
            ),
            _ if is_command => {
                ", and with it the command: it may have done half of what it does".to_owned()
            }
            _ => String::new(),
        };
        let error = anyhow!("EC2 took {} back{of_the_command}", id.drive_label(drive));
        let by_itself = match (is_command, self.may_restart()) {
            _ if state == CommandState::Frozen => "",
            (false, _) => "; --resume does so by itself",
            (true, false) => "; `run --restart` starts a command again by itself",
            (true, true) => "",
        };
        let failure = Failure::new(Exit::TryAgain, error).hint(format!(
            "{xdrive} connect {drive} goes on with the drive{by_itself}"
        ));
        Ending::Failed(failure)
    }
}

impl Drive {
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
        let drive = &self.name;
        let (host, snapshot) = (instance.id.short_label(), snapshot.short_label());
        self.report.print(&if left > 0 {
            format!("{drive} was off {host}, with {snapshot} begun, {left} s before its end")
        } else {
            format!("{drive} is off {host}, with {snapshot} begun")
        });
    }
}

/// How many of the `left` tries remain once the command is started again; none if it may not be. One
/// that never began was no try.
fn tries_left(left: u32, has_begun: bool) -> Option<u32> {
    left.checked_sub(u32::from(has_begun))
}

/// Whether the command ended well, although its instance was taken.
fn is_done(interruption: &Interruption) -> bool {
    matches!(interruption, Interruption::Noticed { code: Some(0), .. })
}

/// The question whether to resume in these `markets`.
fn question(markets: &[Market]) -> String {
    let markets: Vec<String> = markets.iter().map(ToString::to_string).collect();
    let markets = markets.join(", then ");
    format!("resume on another instance ({markets})? [Y/n]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_names_the_market() {
        use Market::{OnDemand, Spot};
        assert_eq!(
            question(&[Spot]),
            "resume on another instance (spot)? [Y/n]"
        );
        assert_eq!(
            question(&[Spot, OnDemand]),
            "resume on another instance (spot, then on demand)? [Y/n]"
        );
    }

    #[test]
    fn only_an_instance_on_which_the_command_began_uses_up_a_try() {
        assert_eq!(tries_left(3, true), Some(2));
        assert_eq!(tries_left(1, true), Some(0));
        assert_eq!(tries_left(0, true), None);
        assert_eq!(tries_left(3, false), Some(3));
        assert_eq!(tries_left(0, false), Some(0));
    }
}
