//! A session that saves nothing, `connect --discard`: it works on a volume that was made from the drive's
//! newest snapshot, and throws that away at its end.
//!
//! The drive has to be wholly saved before, and is never touched: this session ends only what it made
//! itself, whatever its ending is. Nobody joins it, and it neither outlives its laptop for long nor goes
//! on elsewhere.

use std::time::Duration;

use anyhow::anyhow;

use super::state::Session;
use crate::attached::in_words;
use crate::drive::tags::{self, VolumeTags};
use crate::drive::{Billed, Goal, Left, Outcome};
use crate::ec2::{Instance, StoragePrices, Volume};
use crate::failure::{Exit, Failure};
use crate::opener::{Drive, DriveFacts, Ending, Interruption, can_ask};

impl Session {
    /// Refuses a drive of which something is not saved, and fails unless the user agrees that nothing
    /// of this session will be.
    pub(super) async fn agree_to_discard(&mut self, facts: &DriveFacts) -> Result<(), Failure> {
        if !self.request.options.config.once.discard {
            return Ok(());
        }
        self.drive.refuse_unsaved(facts)?;
        if self.request.worker.is_some() {
            return Ok(());
        }
        let drive = &self.request.drive;
        let question = format!("nothing of this session on {drive} will be saved: go on? [y/N]");
        if !self.request.yes && !can_ask() {
            let error =
                anyhow!("nothing is thrown away without a yes, and nobody can be asked here");
            return Err(Failure::new(Exit::Usage, error).hint("--yes answers"));
        }
        if self.drive.ask(&question, false).await {
            return Ok(());
        }
        let error = anyhow!("nothing was begun, and {drive} is unchanged");
        Err(Failure::new(Exit::Interrupted, error))
    }

    /// Ends the session on `host`: terminates that, and deletes the volume. Returns the exit code.
    pub(super) async fn throw_away(
        &mut self,
        host: &Instance,
        ending: Ending,
    ) -> Result<u8, Failure> {
        let ending = self.drive.as_thrown_away(host, ending);
        let (outcome, _) = self.run(Goal::Ended).await;
        let Outcome::Unwound { left } = outcome else {
            return self.finish(ending, outcome);
        };
        let drive = &self.request.drive;
        self.drive.report.note(&format!(
            "{drive} is as it was: what this session changed is discarded{}",
            not_gone(left, self.drive.cloud.ec2.known_storage_prices())
        ));
        ending.code()
    }
}

impl Drive {
    /// Refuses a drive that is not wholly saved, or of which nothing is.
    fn refuse_unsaved(&self, facts: &DriveFacts) -> Result<(), Failure> {
        let (drive, command) = (&self.name, &self.cloud.command);
        let is_thrown_away = |volume: &Volume| {
            let read = tags::read_volume(&volume.tags);
            matches!(read, Ok(VolumeTags::Throwaway { .. }))
        };
        let unsaved = facts.volumes_left().find(|it| !is_thrown_away(it));
        let part = match (&facts.host, unsaved) {
            (Some(host), _) => Some(host.id.short_label()),
            (None, Some(volume)) => Some(volume.id.short_label()),
            (None, None) => None,
        };
        if let Some(part) = part {
            let error = anyhow!("{drive} is not wholly saved: it has {part}");
            return Err(Failure::new(Exit::TryAgain, error).hint(format!(
                "{command} stop {drive} saves it first; without --discard, {command} connect \
                 {drive} works on it"
            )));
        }
        if facts.snapshots.is_empty() {
            let error = anyhow!("nothing of {drive} is saved yet: there is nothing to try out");
            let hint = format!("{command} connect {drive} begins it");
            return Err(Failure::new(Exit::Unavailable, error).hint(hint));
        }
        Ok(())
    }

    /// The ending of a session with which its changes are gone.
    fn as_thrown_away(&self, host: &Instance, ending: Ending) -> Ending {
        let (command, drive) = (&self.cloud.command, &self.name);
        let anew = format!("{command} connect {drive} --discard begins anew from the saved drive");
        match ending {
            Ending::Interruption(Interruption::Noticed { .. } | Interruption::Taken) => {
                let error = anyhow!("EC2 took {} back", host.id.drive_label(drive));
                Ending::Failed(Failure::new(Exit::TryAgain, error).hint(anew))
            }
            Ending::Interruption(Interruption::Gone(failure)) => Ending::Failed(failure.hint(anew)),
            Ending::Failed(failure) if failure.exit == Exit::Disconnected => {
                Ending::Failed(failure.hint(anew))
            }
            // `~d` while the connection was lost.
            Ending::Detached => Ending::Escaped,
            ending => ending,
        }
    }
}

/// The line at the beginning of the stay.
pub(super) fn rule(lease: Duration) -> String {
    format!(
        "nothing of this session will be saved; asleep longer than {} ends it",
        in_words(lease)
    )
}

/// The answer to `~d`.
pub(super) const STAYS: &str = "a session that saves nothing is not left running: exit ends it";

/// The resources that are there beside the drive's snapshots, for the end of a line.
fn not_gone(left: Left, prices: StoragePrices) -> String {
    let left = Billed::all(&left.without_snapshots(), prices);
    let things = left.iter().map(|thing| format!("\n  left: {thing}"));
    things.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_fits_a_line_of_a_terminal() {
        let line = rule(Duration::from_mins(15));
        assert!(line.len() <= 80, "{line}");
        assert!(line.contains("longer than 15 min"), "{line}");
    }
}
