//! Leaving a drive that others are in as well: whoever leaves last saves it.
//!
//! The host counts who remains while it lets go of this session: of two that leave at once, just one
//! hears that nobody does. Nothing is saved under anybody who did not agree; who leads may ask for
//! it.

use super::Session;
use super::ending::Ending;
use crate::drive::{Goal, HostError, Outcome};
use crate::ec2::Instance;
use crate::failure::Failure;
use crate::host::scripts::Remaining;

impl Session {
    /// Leaves `host`, where this session was in part of lead or guest: saves the drive, unless
    /// others go on with it. The answer is the exit code.
    pub(super) async fn leave(
        &mut self,
        host: &Instance,
        ending: Ending,
        is_interactive: bool,
    ) -> Result<u8, Failure> {
        if !self.reconciler.hosts().leads(&host.id) {
            return self.leave_as_guest(host, ending).await;
        }
        let (ending, others) = match self.reconciler.hosts().ask(host).await {
            Ok(contact) => {
                let ending = ended_by(ending, contact.closing);
                let hosts = self.reconciler.hosts();
                let others = contact.clients.iter();
                let others = others.filter(|(_, line)| !hosts.is_own(line)).count();
                (ending, others)
            }
            // What can be known shows while the drive is saved.
            Err(_) => (ending, 0),
        };
        let others = match &ending {
            // The host lets nobody in any more.
            Ending::Closed(_) => 0,
            _ => others,
        };
        let mut even_if_used = false;
        if others > 0 {
            if is_interactive && matches!(ending, Ending::Exit(_)) {
                let who = if others == 1 {
                    "another has joined: end that session".to_owned()
                } else {
                    format!("{others} others have joined: end their sessions")
                };
                even_if_used = self.ask(&format!("{who} and save now? [y/N]"), false).await;
            }
            if !even_if_used {
                let others = self.let_go(host).await.others;
                if others > 0 {
                    return self.left_behind(ending, others);
                }
            }
        }
        self.save(host, ending, even_if_used).await
    }

    /// The same of a guest, who has nobody to ask: lets go, and saves if nobody is left.
    async fn leave_as_guest(&mut self, host: &Instance, ending: Ending) -> Result<u8, Failure> {
        let remaining = self.let_go(host).await;
        match ended_by(ending, remaining.closing) {
            // Whoever leads saves as well.
            ending @ Ending::Closed(_) if remaining.attached.is_some() => Self::code(ending),
            ending @ Ending::Closed(_) => self.save(host, ending, false).await,
            ending if remaining.others > 0 => self.left_behind(ending, remaining.others),
            ending => self.save(host, ending, false).await,
        }
    }

    /// Saves the drive, unless somebody has come in between and goes on with it.
    async fn save(
        &mut self,
        host: &Instance,
        ending: Ending,
        even_if_used: bool,
    ) -> Result<u8, Failure> {
        loop {
            let (outcome, _) = self.run(Goal::Saved { even_if_used }).await;
            let Outcome::Busy(holder) = outcome else {
                self.report_commit();
                return self.finish(ending, outcome);
            };
            let is_attached = self.reconciler.hosts().is_attached(&host.id);
            let others = if holder.instance == host.id && is_attached {
                // Whoever came may have gone again, and have left the drive to this session.
                match self.reconciler.hosts().leave_to_others(host).await {
                    Ok(Remaining { others: 0, .. }) => continue,
                    Ok(remaining) => remaining.others,
                    Err(_) => 1,
                }
            } else {
                self.others(host).await.unwrap_or(1).max(1)
            };
            return self.left_behind(ending, others);
        }
    }

    /// Whether this session is a guest, and not the only one who is here.
    pub(super) async fn is_one_of_several_guests(&mut self, host: &Instance) -> bool {
        !self.reconciler.hosts().leads(&host.id) && self.others(host).await.is_ok_and(|n| n > 0)
    }

    /// How many others are attached.
    async fn others(&mut self, host: &Instance) -> Result<usize, HostError> {
        let hosts = self.reconciler.hosts();
        let contact = hosts.ask(host).await?;
        let others = contact.clients.iter();
        Ok(others.filter(|(_, line)| !hosts.is_own(line)).count())
    }

    /// Lets go; who goes on without this session. Nobody where that cannot be known: then there is a
    /// drive to be saved, and the host says meanwhile whether it is in use.
    async fn let_go(&mut self, host: &Instance) -> Remaining {
        let remaining = self.reconciler.hosts().leave_to_others(host).await;
        remaining.unwrap_or_default()
    }

    /// Says who goes on.
    fn left_behind(&self, ending: Ending, others: usize) -> Result<u8, Failure> {
        let who = if others == 1 {
            "another session goes".to_owned()
        } else {
            format!("{others} other sessions go")
        };
        self.report.print(&format!(
            "left {}: {who} on with it, and the last one to leave saves it",
            self.request.drive
        ));
        Self::code(ending)
    }
}

/// A shell or command that was ended by a signal on a host that is closing, for that reason, was
/// ended by it: its own word came before the host's.
fn ended_by(ending: Ending, closing: Option<String>) -> Ending {
    match (ending, closing) {
        (Ending::Exit(128..), Some(reason)) => Ending::Closed(reason),
        (ending, _) => ending,
    }
}
