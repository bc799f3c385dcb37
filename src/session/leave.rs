//! The end of a session on a drive that others may use too: the last to leave saves it.
//!
//! The host detaches a session and counts the others in one step: of two that leave at once, only
//! the second learns that none remains. A drive that others use is saved only if the user of the
//! leading session confirms it.

use super::Session;
use super::ending::Ending;
use crate::drive::{Goal, HostError, Outcome};
use crate::ec2::Instance;
use crate::failure::Failure;
use crate::host::Remaining;

impl Session {
    /// Leaves `host`, as the leading session or as a guest: saves the drive unless others go on
    /// with it. Returns the exit code.
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
            if is_interactive && matches!(ending, Ending::Exit(_)) {
                let who = if others == 1 {
                    "another has joined: end that session".to_owned()
                } else {
                    format!("{others} others have joined: end their sessions")
                };
                even_if_used = self.ask(&format!("{who} and save now? [y/N]"), false).await;
            }
            if !even_if_used {
                let others = self.detach(host).await.others;
                if others > 0 {
                    return self.report_others(ending, others);
                }
            }
        }
        self.save(host, ending, even_if_used).await
    }

    /// Detaches a guest, without a question, and saves if no other session remains.
    async fn leave_as_guest(&mut self, host: &Instance, ending: Ending) -> Result<u8, Failure> {
        let remaining = self.detach(host).await;
        match ended_by(ending, remaining.closing) {
            // The leading session saves too.
            ending @ Ending::Closed(_) if remaining.attached.is_some() => Self::code(ending),
            ending @ Ending::Closed(_) => self.save(host, ending, false).await,
            ending if remaining.others > 0 => self.report_others(ending, remaining.others),
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
                self.report_commit();
                return self.finish(ending, outcome);
            };
            let is_attached = self.reconciler.hosts().is_attached(&host.id);
            let others = if holder.instance == host.id && is_attached {
                // The other session may have left since, and left the save to this one.
                match self.reconciler.hosts().leave_to_others(host).await {
                    Ok(Remaining { others: 0, .. }) => continue,
                    Ok(remaining) => remaining.others,
                    Err(_) => 1,
                }
            } else {
                self.others(host).await.unwrap_or(1).max(1)
            };
            return self.report_others(ending, others);
        }
    }

    /// Whether this session is a guest, and others are attached too.
    pub(super) async fn is_one_of_several_guests(&mut self, host: &Instance) -> bool {
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

    /// Prints how many other sessions go on. Returns the exit code.
    fn report_others(&self, ending: Ending, others: usize) -> Result<u8, Failure> {
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

/// A shell or command that a signal ended on a closing host was ended by the close, although its
/// exit code arrived before the host's announcement.
fn ended_by(ending: Ending, closing: Option<String>) -> Ending {
    match (ending, closing) {
        (Ending::Exit(128..), Some(reason)) => Ending::Closed(reason),
        (ending, _) => ending,
    }
}
