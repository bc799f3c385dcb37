//! `stop`: saves a drive, from anywhere and even while it is in use.

use std::time::Duration;

use anyhow::anyhow;
use serde::Serialize;

use super::visitor::{Visit, Visitor};
use crate::attached::reach_live;
use crate::attached::runs::list;
use crate::drive::proof::HUNG;
use crate::drive::tags::RunState;
use crate::drive::{Billed, Goal, Hosts as _, Outcome};
use crate::ec2::StoragePrices;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, Generation, InstanceId, SnapshotId};
use crate::opener::{Drive, Ending, Receipt};
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
    left: Vec<Billed>,
    /// Cost of the instances and disks that this has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Receipt>,
}

impl Stopped {
    /// The drive after this outcome; none if it was not stopped.
    fn from_outcome(drive: &DriveName, outcome: &Outcome, prices: StoragePrices) -> Option<Self> {
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
            left: Billed::all(left, prices),
            cost: None,
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

/// How a drive is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// What runs on it is ended.
    End,
    /// Likewise; also from an instance that hangs.
    EndHung,
    /// What may be frozen goes on where it was on the drive's next instance.
    Freeze,
}

/// Fails unless a command, shell or notebook runs on the drive that may be frozen, and all of those can be.
async fn demand_freezable(visit: &mut Visit) -> Result<(), Failure> {
    let instance = visit.drive.facts.host.clone();
    let live = reach_live(&mut visit.drive, visit.reconciler.hosts(), instance).await?;
    let runs = list(&mut visit.drive, &live).await?;
    let shells = live.host.freezable_shells().await;
    let shells = shells.map_err(anyhow::Error::new)?;
    let (xdrive, name) = (&visit.drive.cloud.command, &visit.drive.name);
    let hint = format!("nothing was done; {xdrive} stop {name} ends what runs, and saves it");
    let running = runs.iter().filter(|run| run.runs());
    let freezable: Vec<_> = running
        .filter_map(|run| Some((run, run.freezing.as_ref()?)))
        .collect();
    let unfit = freezable.iter().find(|(_, freezing)| !freezing.fits);
    let unfit_shell = shells.iter().find_map(|shell| shell.as_ref().err());
    let error = match (unfit, unfit_shell) {
        (Some((run, freezing)), _) => {
            anyhow!("the run {} cannot be frozen: {}", run.id, freezing.words)
        }
        (None, Some(why)) => anyhow!("{why}"),
        (None, None) if !freezable.is_empty() || !shells.is_empty() => return Ok(()),
        (None, None) => {
            anyhow!("nothing runs on {name} that may be frozen: that is what --freeze begins")
        }
    };
    Err(Failure::new(Exit::Unavailable, error).hint(hint))
}

/// The failure of a close that has ended, not frozen, what was to be frozen; or that does not say so.
fn not_frozen(visit: &mut Visit) -> Option<Failure> {
    let closed = visit.reconciler.hosts().closed();
    let commands = closed.map_or(&[][..], |closed| &closed.commands);
    let words = if commands.is_empty() {
        "whether it is frozen is not known: ps says so"
    } else if commands.iter().all(|it| it.outcome.is_ok()) {
        return None;
    } else {
        "not all that was to be frozen is: the rest was ended"
    };
    Some(Failure::new(Exit::Failed, anyhow!(words)))
}

/// Saves the drive. Returns the exit code.
pub(crate) async fn stop(drive: Drive, visitor: Visitor, manner: Manner) -> Result<u8, Failure> {
    let hung = if manner == Manner::EndHung {
        hung_host(&drive).await?
    } else {
        None
    };
    let wanted = drive.wanted_run();
    let mut visit = Visit::new(drive, visitor, false)?;
    if let Some(host) = hung {
        visit.reconciler.take_for_hung(host);
    }
    if manner == Manner::Freeze {
        demand_freezable(&mut visit).await?;
        visit.reconciler.hosts().freeze_at_close(true);
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
    if let (Some(leader), Outcome::Saved { .. }) = (visit.drive.facts.leader(), &outcome) {
        let name = &visit.drive.name;
        let words = format!("{name} has ended: a worker of {leader}, of which nothing is kept");
        visit.drive.report.print(&words);
        visit.drive.report_cost(&visit.reconciler).await;
        return ending.code();
    }
    let unfrozen = (manner == Manner::Freeze)
        .then(|| not_frozen(&mut visit))
        .flatten();
    let Visit {
        drive, reconciler, ..
    } = &mut visit;
    let stopped = Stopped::from_outcome(
        &drive.name,
        &outcome,
        drive.cloud.ec2.known_storage_prices(),
    );
    let code = drive.finish(reconciler, ending, outcome);
    let cost = drive.report_cost(reconciler).await;
    let code = code?;
    if let (true, Some(stopped)) = (drive.json, stopped) {
        report::json(&Stopped { cost, ..stopped })?;
    }
    unfrozen.map_or(Ok(code), Err)
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
