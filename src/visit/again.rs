//! The last run of a drive, which is to be begun once more: its order, read where the drive is. Nothing
//! is launched for that; a drive that waits as a volume is saved first, as a tender does.

use anyhow::anyhow;
use tokio::time::sleep;

use super::finish::finish_drive;
use super::runs::runs_asleep;
use super::visitor::{Visit, Visitor};
use crate::attached::reach_live;
use crate::attached::runs::list;
use crate::cloud::Cloud;
use crate::drive::tags;
use crate::ec2::{Instance, Ownership};
use crate::failure::{Exit, Failure};
use crate::host::container::CommandId;
use crate::host::runs::Run;
use crate::host::tries::TriedCommand;
use crate::opener::{Drive, Files, Opening, Sleeping, no_order, or_interrupted};

/// A run that is over, to be begun once more. Whoever may write on the drive may have written its order.
pub(crate) struct LastRun {
    pub(crate) id: CommandId,
    pub(crate) order: TriedCommand,
    /// The launch options of its hosts, on one line; none if the drive's tags have those of no such run.
    pub(crate) launch: Option<String>,
    /// Whether the drive is the caller's own.
    pub(crate) is_own: bool,
}

/// The last run of the drive and container of this `opening`. Fails while a run is wanted, or goes on.
pub(crate) async fn last_run(
    opening: Opening,
    cloud: &Cloud,
    visitor: Visitor,
) -> Result<LastRun, Failure> {
    let mut drive = Drive::open(opening.clone(), cloud.clone()).await?;
    if let Some(run) = drive.wanted_run() {
        return Err(drive.goes_on(&run.id, "is wanted already"));
    }
    if drive.facts.host.is_none() && drive.facts.volumes_left().next().is_some() {
        drive = saved(drive, opening, visitor.clone()).await?;
    }
    let files = drive.find_files(None).await?;
    let marked = drive.marked_run();
    let owner = drive.facts.newest_part().map(|(_, tags)| tags::owner(tags));
    let ownership = owner.map(|owner| Ownership::from_tag(owner, &drive.identity.caller));
    let (id, order) = match files {
        Files::Up(instance) => on_host(drive, visitor, *instance).await?,
        Files::Asleep(sleeping) => in_snapshot(drive, &sleeping).await?,
    };
    let marked = marked.filter(|run| run.id == id);
    Ok(LastRun {
        launch: marked.map(|run| run.launch),
        is_own: ownership == Some(Ownership::Own),
        id,
        order,
    })
}

/// Saves the drive, and opens it again once its lists have what was saved.
async fn saved(drive: Drive, opening: Opening, visitor: Visitor) -> Result<Drive, Failure> {
    let known = drive.facts.newest_part().map(|(generation, _)| generation);
    let (name, cloud) = (drive.name.clone(), drive.cloud.clone());
    // Its signals are the save's.
    drop(drive);
    let done = finish_drive(opening.clone(), &cloud, visitor, None).await?;
    if let Some(end) = done.asked {
        return Err(Failure::new(Exit::from(end), anyhow!("{name} is saved")));
    }
    if let Some(failure) = done.failure {
        return Err(failure);
    }
    let drive = Drive::open(opening.clone(), cloud.clone()).await?;
    let newest = |drive: &Drive| {
        let newest = drive.facts.newest_readable(None);
        newest.map(|(tags, _)| tags.generation)
    };
    if newest(&drive) >= known {
        return Ok(drive);
    }
    sleep(cloud.timing.settle).await;
    let drive = Drive::open(opening, cloud).await?;
    if newest(&drive) >= known {
        return Ok(drive);
    }
    let (error, xdrive) = (anyhow!("{name} is not saved yet"), &drive.cloud.command);
    let hint = format!("{xdrive} stop {name} saves it; its last run is read then");
    Err(Failure::new(Exit::TryAgain, error).hint(hint))
}

async fn on_host(
    drive: Drive,
    visitor: Visitor,
    instance: Instance,
) -> Result<(CommandId, TriedCommand), Failure> {
    let mut visit = Visit::new(drive, visitor, false)?;
    let drive = &mut visit.drive;
    let live = reach_live(drive, visit.reconciler.hosts(), Some(instance)).await?;
    let runs = list(drive, &live).await?;
    let id = last(&runs, drive)?;
    let tries = live.host.tries(&id);
    let tries = or_interrupted(&mut drive.signals, &drive.report, tries).await?;
    let tries = tries.map_err(anyhow::Error::new)?;
    order(id, tries.order, drive)
}

async fn in_snapshot(
    mut drive: Drive,
    sleeping: &Sleeping,
) -> Result<(CommandId, TriedCommand), Failure> {
    let (runs, asleep) = runs_asleep(&mut drive, sleeping).await?;
    let id = last(&runs, &drive)?;
    let tries = or_interrupted(&mut drive.signals, &drive.report, asleep.tries(&id)).await?;
    let tries = tries.map_err(|error| drive.lost_asleep(&asleep, &error.to_string()))?;
    drive.note_reading(sleeping, &asleep);
    order(id, tries.order, &drive)
}

/// The last of the drive's `runs`. Fails if it goes on, or was in another container than is meant.
fn last(runs: &[Run], drive: &Drive) -> Result<CommandId, Failure> {
    let (xdrive, name) = (&drive.cloud.command, &drive.name);
    let last = runs.last().and_then(|run| Some((run, run.command_id()?)));
    let Some((run, id)) = last else {
        let error = anyhow!("no run of {name} is on record");
        let hint = format!("{xdrive} run {name} -d -- CMD… begins one");
        return Err(Failure::new(Exit::Unavailable, error).hint(hint));
    };
    if run.runs() {
        return Err(drive.goes_on(&id, "goes on"));
    }
    if run.is_frozen {
        return Err(drive.goes_on(&id, "is frozen, and goes on with the next connect"));
    }
    let container = run.container_name();
    if container != drive.container {
        let place = match container {
            Some(container) => format!("{name}/{container}"),
            None => name.to_string(),
        };
        let id = id.as_str();
        let error = anyhow!("the last run of {name}, {id}, was in another container");
        let hint = format!("{xdrive} run {place} --again");
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    Ok(id)
}

fn order(
    id: CommandId,
    order: Option<TriedCommand>,
    drive: &Drive,
) -> Result<(CommandId, TriedCommand), Failure> {
    if let Some(order) = order {
        return Ok((id, order));
    }
    let (xdrive, name) = (&drive.cloud.command, &drive.name);
    let hint = format!(
        "one that was begun with -d or --restart by no newer xdrive has it; \
         {xdrive} run {name} -d -- CMD… begins another one"
    );
    Err(no_order(&id).hint(hint))
}

#[cfg(test)]
impl LastRun {
    /// A run with this `order`, as it is on a drive.
    pub(crate) fn with_order(order: &str, launch: Option<&str>, is_own: bool) -> Self {
        Self {
            id: CommandId::parse("1f").unwrap(),
            order: TriedCommand::parse(order).unwrap(),
            launch: launch.map(str::to_owned),
            is_own,
        }
    }
}
