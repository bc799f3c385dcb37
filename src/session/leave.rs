//! The end of a session on a drive that others may use too: the last to leave saves it.
//!
//! The host detaches a session and counts the others in one step: of two that leave at once, only
//! the second learns that none remains. A drive that others use is saved only if the user of the
//! leading session confirms it. A connection of an SSH client's saves nothing: where none but those
//! remain, the host closes the drive when the lease ends after the last of them.

use super::request::Task;
use super::state::Session;
use crate::access::lease::News;
use crate::drive::{Goal, HostError, Outcome};
use crate::ec2::Instance;
use crate::failure::Failure;
use crate::host::{HostEvent, Remaining};
use crate::opener::{Drive, Ending};

/// How a session goes on once it has left a host.
pub(super) enum Parting {
    /// On another host: EC2 took this one.
    Resumes,
    /// The session is over, with this exit code.
    Ends(u8),
}

impl Session {
    /// Leaves `host` after this `ending`: saves the drive, throws away what was changed, leaves the
    /// host running, or resumes on another one.
    pub(super) async fn leave(
        &mut self,
        host: &Instance,
        ending: Ending,
    ) -> Result<Parting, Failure> {
        let over = self.run_over(&ending);
        self.mark_over(over).await;
        let code = match ending {
            ending if self.leaves_worker(&ending) => self.leave_detached(host).await,
            ending if self.request.options.config.once.discard => {
                self.throw_away(host, ending).await
            }
            Ending::Interruption(interruption) => {
                return self.interrupted(interruption, host).await;
            }
            Ending::Detached => self.leave_detached(host).await,
            Ending::Frozen => {
                self.reconciler.hosts().freeze_at_close(true);
                self.leave_drive(host, Ending::Frozen).await
            }
            ending => self.leave_drive(host, ending).await,
        };
        // A snapshot has what the list said of its volume, which may be older.
        self.mark_over(over).await;
        code.map(Parting::Ends)
    }

    /// Leaves `host` running with what was detached there, unless others, who lead, decide that.
    /// Returns the exit code.
    async fn leave_detached(&mut self, host: &Instance) -> Result<u8, Failure> {
        let printed = self.request.report_run(self.command.as_ref());
        if let Err(error) = self.leave_command(host).await {
            return Err(self.not_kept(host, error));
        }
        // A run needs its host for longer than others may have it.
        let is_run = matches!(self.request.task, Task::Run { .. } | Task::Again(_));
        let code = if is_run || !self.is_one_of_several_guests(host).await {
            self.leave_running(host).await?
        } else {
            self.leave_drive(host, Ending::Detached).await?
        };
        printed.map(|()| code)
    }

    /// Leaves the drive on `host`, as the leading session or as a guest: saves it unless others go on
    /// with it. Returns the exit code.
    pub(super) async fn leave_drive(
        &mut self,
        host: &Instance,
        ending: Ending,
    ) -> Result<u8, Failure> {
        if !self.reconciler.hosts().leads(&host.id) {
            return self.leave_as_guest(host, ending).await;
        }
        let (ending, others) = match self.reconciler.hosts().ask(host).await {
            Ok(contact) => {
                let ending = self.ended_by(ending, contact.closing);
                let hosts = self.reconciler.hosts();
                let others = contact.clients.iter();
                let others = others.filter(|(_, line)| !hosts.is_own(line)).count();
                (ending, others)
            }
            // The save asks the host again.
            Err(_) => (ending, 0),
        };
        let others = match &ending {
            // A closing host detaches every session.
            Ending::Closed(_) => 0,
            _ => others,
        };
        let mut even_if_used = false;
        if others > 0 {
            let is_by_user = matches!(ending, Ending::Exit(_) | Ending::Escaped | Ending::Frozen);
            if self.request.has_terminal() && is_by_user {
                let who = if others == 1 {
                    "another has joined: end that session".to_owned()
                } else {
                    format!("{others} others have joined: end their sessions")
                };
                even_if_used = self
                    .drive
                    .ask(&format!("{who} and save now? [y/N]"), false)
                    .await;
            }
            if !even_if_used {
                let remaining = self.detach(host).await;
                if remaining.others > 0 {
                    return self.drive.report_others(ending, &remaining);
                }
            }
        }
        self.save(host, ending, even_if_used).await
    }

    /// Detaches a guest, without a question, and saves if no other session remains.
    async fn leave_as_guest(&mut self, host: &Instance, ending: Ending) -> Result<u8, Failure> {
        let remaining = self.detach(host).await;
        match self.ended_by(ending, remaining.closing.clone()) {
            // The leading session saves too.
            ending @ Ending::Closed(_) if remaining.attached.is_some() => ending.code(),
            ending @ Ending::Closed(_) => self.save(host, ending, false).await,
            ending if remaining.others > 0 => self.drive.report_others(ending, &remaining),
            ending => self.save(host, ending, false).await,
        }
    }

    /// Saves the drive, unless another session has attached meanwhile and goes on with it.
    async fn save(
        &mut self,
        host: &Instance,
        ending: Ending,
        even_if_used: bool,
    ) -> Result<u8, Failure> {
        loop {
            let (outcome, _) = self.run(Goal::Saved { even_if_used }).await;
            let Outcome::Busy(holder) = outcome else {
                self.drive.report_commit(&mut self.reconciler);
                if let Ending::Closed(_) = ending {
                    self.report_frozen();
                }
                return self.finish(ending, outcome);
            };
            let is_attached = self.reconciler.hosts().is_attached(&host.id);
            let at_least = |others: usize| Remaining {
                others: others.max(1),
                sessions: others.max(1),
                ..Remaining::default()
            };
            let remaining = if holder.instance == host.id && is_attached {
                // The other session may have left since, and left the save to this one.
                match self.reconciler.hosts().leave_to_others(host).await {
                    Ok(Remaining { others: 0, .. }) => continue,
                    Ok(remaining) => remaining,
                    Err(_) => at_least(1),
                }
            } else {
                at_least(self.others(host).await.unwrap_or(1))
            };
            return self.drive.report_others(ending, &remaining);
        }
    }

    /// Prints what a host that closed by itself has frozen since the session heard of that.
    fn report_frozen(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            if let News::Host(HostEvent::Freeze(frozen)) = news {
                self.drive.report.print(&frozen.to_string());
            }
        }
    }

    /// Makes the session's command, if it has one, a client of the host: as long as it runs, a
    /// session that joins and leaves does not save the drive.
    async fn leave_command(&mut self, host: &Instance) -> anyhow::Result<()> {
        let Some(id) = self.command.clone() else {
            return Ok(());
        };
        let client = self.client_of(&id);
        let (_, scripts) = self.reconciler.hosts().reach(host).await?;
        Ok(scripts.leave_command(&id, &client).await?)
    }

    /// Whether this session is a guest, and others are attached too.
    async fn is_one_of_several_guests(&mut self, host: &Instance) -> bool {
        !self.reconciler.hosts().leads(&host.id) && self.others(host).await.is_ok_and(|n| n > 0)
    }

    /// How many other sessions are attached.
    async fn others(&mut self, host: &Instance) -> Result<usize, HostError> {
        let hosts = self.reconciler.hosts();
        let contact = hosts.ask(host).await?;
        let others = contact.clients.iter();
        Ok(others.filter(|(_, line)| !hosts.is_own(line)).count())
    }

    /// Detaches this session, and returns what remains. If the host does not answer, no other
    /// counts as attached: the save then asks the host again whether the drive is in use.
    async fn detach(&mut self, host: &Instance) -> Remaining {
        let remaining = self.reconciler.hosts().leave_to_others(host).await;
        remaining.unwrap_or_default()
    }

    /// A shell or command that a signal ended on a closing host was ended by the close, although its
    /// exit code arrived before the host's announcement.
    fn ended_by(&self, ending: Ending, closing: Option<String>) -> Ending {
        match (ending, closing) {
            (Ending::Exit(128..) | Ending::Escaped, Some(reason)) => {
                self.report_unconfirmed();
                Ending::Closed(reason)
            }
            (ending, _) => ending,
        }
    }
}

impl Drive {
    /// Prints who goes on with the drive, and what follows. Returns the exit code.
    fn report_others(&self, ending: Ending, remaining: &Remaining) -> Result<u8, Failure> {
        let follows = match remaining.sessions {
            // Their lease may be longer than this session's.
            0 => "ssh or cp goes on; the host closes it at the end of its lease".to_owned(),
            1 => "another session goes on with it, and the last one to leave saves it".to_owned(),
            n => format!("{n} other sessions go on with it, and the last one to leave saves it"),
        };
        let drive = &self.name;
        self.report.print(&format!("left {drive}: {follows}"));
        ending.code()
    }
}
