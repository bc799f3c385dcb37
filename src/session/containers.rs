//! The containers of a drive, looked at from any laptop, and the end of one of them. Nothing is
//! launched for that, and no lease begins.

use anyhow::anyhow;

use super::asleep::Files;
use super::prompt::or_interrupted;
use super::request::Request;
use super::state::{Session, begin};
use crate::asleep::Asleep;
use crate::cloud::Cloud;
use crate::failure::{Exit, Failure};
use crate::host::scripts::{Host, Removed};
use crate::ids::{ContainerName, InstanceId};
use crate::ssh::UserKey;

pub use crate::host::on_record::{ContainerState, OnRecord};

/// The containers of the drive of `request`, the main one first; and its instance, if it is up, else
/// those of its newest snapshot.
pub async fn list_containers(
    request: Request,
    cloud: Cloud,
    key: UserKey,
) -> Result<(Option<InstanceId>, Vec<OnRecord>), Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let sleeping = match session.find_files(facts, None).await? {
        Files::Up(instance) => {
            let (instance, host) = session.reach_live(Some(*instance)).await?;
            return Ok((Some(instance.id), session.on_record(&host).await?));
        }
        Files::Asleep(sleeping) => sleeping,
    };
    let (ec2, drive) = (session.cloud.ec2.clone(), &session.request.drive);
    let asleep = Asleep::new(ec2, &sleeping.snapshot, drive);
    let reading = asleep.containers();
    let found = or_interrupted(&mut session.signals, &session.report, reading).await?;
    session.note_reading(&sleeping, &asleep);
    let found = found.map_err(|error| session.lost_asleep(&asleep, &error.to_string()))?;
    Ok((None, found))
}

/// Removes the container `name` of the drive of `request`, with all that is in it, if the user agrees
/// and no program runs in it. Returns the exit code.
pub async fn remove_container(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    name: &ContainerName,
) -> Result<u8, Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let instance = session.host_that_is_up(facts, "--remove")?;
    let (_, host) = session.reach_live(Some(instance)).await?;
    let containers = session.on_record(&host).await?;
    let (drive, command) = (session.request.drive.clone(), session.cloud.command.clone());
    let not_there = || {
        let error = anyhow!("{drive} has no container {name}");
        let hint = format!("{command} containers {drive} lists those that it has");
        Failure::new(Exit::Unavailable, error).hint(hint)
    };
    if containers.iter().all(|it| it.name.as_ref() != Some(name)) {
        return Err(not_there());
    }
    session.report.print(&format!(
        "all that is in {drive}'s container {name} goes, but for /work, which is the drive's"
    ));
    let question = format!("remove the container {name}? [y/N]");
    if !session.ask(&question, false).await {
        let error = anyhow!("nothing was removed");
        return Err(Failure::new(Exit::Failed, error).hint("--yes answers the question"));
    }
    let step = session.report.step(format!("remove the container {name}"));
    let removed = host.remove_container(name).await;
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

impl Session {
    /// The containers on record on the drive that `host` has.
    async fn on_record(&mut self, host: &Host) -> Result<Vec<OnRecord>, Failure> {
        let containers = host.containers();
        let containers = or_interrupted(&mut self.signals, &self.report, containers).await?;
        Ok(containers.map_err(anyhow::Error::new)?)
    }
}
