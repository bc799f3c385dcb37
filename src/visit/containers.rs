//! The containers of a drive, looked at from any laptop, and the end of one of them. Nothing is
//! launched for that, and no lease begins.

use anyhow::anyhow;

use super::up::demand_host;
use super::visitor::{Visit, Visitor};
use crate::asleep::Asleep;
use crate::attached::{Live, reach_live};
use crate::failure::{Exit, Failure};
use crate::host::on_record::OnRecord;
use crate::host::scripts::Removed;
use crate::ids::{ContainerName, InstanceId};
use crate::opener::{Drive, Files, is_among, or_interrupted};

/// The containers of a drive.
pub(crate) struct Containers {
    /// The drive's instance, if it is up.
    pub(crate) instance: Option<InstanceId>,
    /// The main one first.
    pub(crate) found: Vec<OnRecord>,
}

/// The containers of the drive; those of its newest snapshot unless it is up, when `visitor` visits.
pub(crate) async fn list_containers(
    mut drive: Drive,
    visitor: impl FnOnce() -> Result<Visitor, Failure>,
) -> Result<Containers, Failure> {
    let sleeping = match drive.find_files(None).await? {
        Files::Up(instance) => {
            let mut visit = Visit::new(drive, visitor()?, false)?;
            let hosts = visit.reconciler.hosts();
            let live = reach_live(&mut visit.drive, hosts, Some(*instance)).await?;
            let found = on_record(&mut visit.drive, &live).await?;
            return Ok(Containers {
                instance: Some(live.instance.id),
                found,
            });
        }
        Files::Asleep(sleeping) => sleeping,
    };
    let asleep = Asleep::new(drive.cloud.ec2.clone(), &sleeping.snapshot, &drive.place());
    let found = drive.on_record_asleep(&asleep).await;
    drive.note_reading(&sleeping, &asleep);
    Ok(Containers {
        instance: None,
        found: found?,
    })
}

/// Removes the container `name` of the drive, with all that is in it, if the user agrees and no program
/// runs in it. Returns the exit code.
pub(crate) async fn remove_container(
    drive: Drive,
    visitor: Visitor,
    name: &ContainerName,
) -> Result<u8, Failure> {
    let instance = demand_host(&drive, "--remove")?;
    let mut visit = Visit::new(drive, visitor, false)?;
    let hosts = visit.reconciler.hosts();
    let live = reach_live(&mut visit.drive, hosts, Some(instance)).await?;
    let containers = on_record(&mut visit.drive, &live).await?;
    let opened = &mut visit.drive;
    let (drive, command) = (opened.name.clone(), opened.cloud.command.clone());
    let not_there = || {
        let error = anyhow!("{drive} has no container {name}");
        let hint = format!("{command} containers {drive} lists those that it has");
        Failure::new(Exit::Unavailable, error).hint(hint)
    };
    if !is_among(name, &containers) {
        return Err(not_there());
    }
    opened.report.print(&format!(
        "all that is in {drive}'s container {name} goes, but for /work, which is the drive's"
    ));
    let question = format!("remove the container {name}? [y/N]");
    if !opened.ask(&question, false).await {
        let error = anyhow!("nothing was removed");
        return Err(Failure::new(Exit::Failed, error).hint("--yes answers the question"));
    }
    let step = opened.report.step(format!("remove the container {name}"));
    let removed = live.host.remove_container(name).await;
    match removed.map_err(anyhow::Error::new)? {
        Removed::Yes => {
            step.done(&format!("removed the container {name}"));
            Ok(0)
        }
        Removed::NotThere => Err(not_there()),
        Removed::Busy(programs) => {
            let error = anyhow!("{drive}'s container {name} is in use: {programs}");
            let hint = format!("nothing was removed; {command} ps {drive} lists runs");
            Err(Failure::new(Exit::TryAgain, error).hint(hint))
        }
    }
}

/// The containers on record on the drive of a host that is up.
async fn on_record(drive: &mut Drive, live: &Live) -> Result<Vec<OnRecord>, Failure> {
    let containers = live.host.containers();
    let containers = or_interrupted(&mut drive.signals, &drive.report, containers).await?;
    Ok(containers.map_err(anyhow::Error::new)?)
}
