//! Leaving a drive that others are in as well: whoever leaves last saves it.
//!
//! First this session lets go and sees that the host has noticed, and only then it looks who is
//! left: of two that leave at once, one sees nobody. Nothing is saved under anybody who did not
//! agree; who leads may ask for it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Ending, Session};
use crate::drive::{Goal, HostError, Outcome};
use crate::ec2::Instance;
use crate::failure::Failure;

/// How long the host may take to notice that this session has let go. (sshd notices at once that a
/// channel was closed, half a round trip later; only a dead connection takes longer.)
const NOTICE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);

impl Session {
    /// Leaves `host`, where this session was in part of lead or guest: saves the drive, unless
    /// others go on with it. The answer is the exit code.
    pub(super) async fn leave(
        &mut self,
        host: &Instance,
        ending: Ending,
        is_interactive: bool,
    ) -> Result<u8, Failure> {
        let (ending, others) = match self.reconciler.hosts().ask(host).await {
            Ok(contact) => {
                let is_led = contact.attached.is_some();
                let ending = ended_by(ending, contact.closing);
                if let Ending::Closed(_) = &ending
                    && is_led
                    && !self.reconciler.hosts().leads(&host.id)
                {
                    // Whoever leads saves as well.
                    return Self::code(ending);
                }
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
            let leads = self.reconciler.hosts().leads(&host.id);
            if leads && is_interactive && matches!(ending, Ending::Exit(_)) {
                let who = if others == 1 {
                    "another has joined: end that session".to_owned()
                } else {
                    format!("{others} others have joined: end their sessions")
                };
                even_if_used = self.agrees(&format!("{who} and save now? [y/N]")).await?;
            }
            if !even_if_used && let Some(others) = self.left_to_others(host).await {
                return self.left_behind(ending, others);
            }
        } else if !self.reconciler.hosts().leads(&host.id) {
            self.reconciler.hosts().let_go(&host.id);
        }
        let (outcome, _) = self.run(Goal::Saved { even_if_used }).await;
        if let Outcome::Busy(_) = outcome {
            // Somebody came in between.
            let others = self.others(host).await.unwrap_or(1).max(1);
            return self.left_behind(ending, others);
        }
        self.tell_of_the_commit();
        self.finish(ending, outcome)
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

    /// Lets go; how many go on without this session, once the host has noticed. None if nobody
    /// does, or if that cannot be known: then there is a drive to be saved.
    async fn left_to_others(&mut self, host: &Instance) -> Option<usize> {
        let hosts = self.reconciler.hosts();
        hosts.let_go(&host.id);
        let end = Instant::now() + NOTICE;
        loop {
            let contact = hosts.ask(host).await.ok()?;
            let (own, others): (Vec<_>, Vec<_>) = contact
                .clients
                .iter()
                .partition(|(_, line)| hosts.is_own(line));
            if own.is_empty() {
                return (!others.is_empty()).then_some(others.len());
            }
            if Instant::now() >= end {
                return None;
            }
            sleep(LOOK).await;
        }
    }

    /// Says who goes on.
    fn left_behind(&self, ending: Ending, others: usize) -> Result<u8, Failure> {
        let who = if others == 1 {
            "another session goes".to_owned()
        } else {
            format!("{others} other sessions go")
        };
        self.report.say(&format!(
            "left {}: {who} on with it, and the last one to leave saves it",
            self.drive
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
