//! `stop`: saves a drive, from anywhere and even while it is in use.

use std::time::Duration;

use anyhow::anyhow;
use serde::Serialize;

use super::visitor::{Visit, Visitor};
use crate::drive::proof::HUNG;
use crate::drive::tags::RunState;
use crate::drive::{Goal, Left, Outcome};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, Generation, InstanceId, SnapshotId};
use crate::opener::{Drive, Ending};
use crate::report;

/// A drive that was stopped, as `stop --json` prints it (`src/cli/schemas/stop.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Stopped {
    /// Name of the drive.
    drive: String,
    /// `saved`; or `nothing` if nothing of it is left, because it never held anything.
    #[cfg_attr(test, schemars(extend("enum" = ["saved", "nothing"])))]
    result: &'static str,
    /// Id of the drive's newest snapshot.
    snapshot: Option<String>,
    /// How often the drive had been mounted when that was taken.
    generation: Option<u64>,
    /// Snapshots, which are billed.
    left: Left,
}

impl Stopped {
    /// The drive after this outcome; none if it was not stopped.
    fn from_outcome(drive: &DriveName, outcome: &Outcome) -> Option<Self> {
        let (result, newest, left): (_, Option<&(SnapshotId, Generation)>, _) = match outcome {
            Outcome::Saved { snapshot, left } => match snapshot {
                Some(newest) => ("saved", Some(newest), left),
                None => ("nothing", None, left),
            },
            _ => return None,
        };
        Some(Self {
            drive: drive.to_string(),
            result,
            snapshot: newest.map(|(id, _)| id.to_string()),
            generation: newest.map(|(_, generation)| generation.0),
            left: left.clone(),
        })
    }
}

/// The instance of a drive that hangs, by EC2's own check of it; none if it has none. Fails if that check
/// has not failed for long enough.
async fn hung_host(drive: &Drive) -> Result<Option<InstanceId>, Failure> {
    let Some(host) = &drive.facts.host else {
        return Ok(None);
    };
    let cloud = &drive.cloud;
    let since = cloud.ec2.impaired_since(&host.id).await?;
    // One that fails from later than now on has just failed: the clocks differ.
    let failing = since.map(|since| {
        let failing = cloud.clock.now().duration_since(since);
        Duration::try_from(failing).unwrap_or_default()
    });
    if failing.is_some_and(|failing| failing >= HUNG) {
        return Ok(Some(host.id.clone()));
    }
    let least = HUNG.as_secs() / 60;
    let found = match failing {
        Some(failing) => format!("has failed for {} s, not {least} min", failing.as_secs()),
        None => "has not failed".to_owned(),
    };
    let error = anyhow!("EC2's status check of {} {found}", host.id);
    let hint = format!(
        "nothing was done; {} stop {} saves it once it answers, and its lease ends it otherwise",
        cloud.command, drive.name
    );
    Err(Failure::new(Exit::TryAgain, error).hint(hint))
}

/// Saves the drive; with `is_hung` also from an instance that hangs. Returns the exit code.
pub(crate) async fn stop(drive: Drive, visitor: Visitor, is_hung: bool) -> Result<u8, Failure> {
    let hung = if is_hung {
        hung_host(&drive).await?
    } else {
        None
    };
    let wanted = drive.wanted_run();
    let mut visit = Visit::new(drive, visitor, false)?;
    if let Some(host) = hung {
        visit.reconciler.take_for_hung(host);
    }
    if let Some(run) = &wanted {
        // First: who tends it would begin the next try.
        visit
            .drive
            .mark_over(&run.id, RunState::Stopped, None)
            .await;
    }
    let (outcome, asked) = visit.run(Goal::Saved { even_if_used: true }).await;
    let ending = asked.map_or(Ending::Exit(0), Ending::Asked);
    let Visit {
        drive, reconciler, ..
    } = &mut visit;
    drive.report_commit(reconciler);
    if let Some(run) = &wanted {
        // A snapshot has what the list said of its volume, which may be older.
        drive.mark_over(&run.id, RunState::Stopped, None).await;
    }
    let stopped = Stopped::from_outcome(&drive.name, &outcome);
    let code = drive.finish(reconciler, ending, outcome)?;
    if let (true, Some(stopped)) = (drive.json, stopped) {
        report::json(&stopped)?;
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = ("xdrive stop --json", "A drive that was stopped.");
        crate::report::schema::check::<Stopped>("stop", title, description);
    }
}
