//! The containers of a drive, looked at from any laptop, and the end of one of them. Nothing is
//! launched for that, and no lease begins.

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::timeout;

use super::asleep::Files;
use super::preflight::DriveFacts;
use super::prompt::or_interrupted;
use super::request::Request;
use super::state::{Session, begin};
use crate::asleep::Asleep;
use crate::cloud::Cloud;
use crate::drive::stuck::Head;
use crate::ec2::SnapshotState;
use crate::failure::{Exit, Failure};
use crate::host::scripts::{Host, Removed};
use crate::ids::{ContainerName, InstanceId, MAIN};
use crate::ssh::UserKey;

pub use crate::host::on_record::{ContainerState, OnRecord};

/// How long a launch waits for the containers on record in a snapshot: eight calls in turn, at 300 ms
/// each, five times over.
const READING: Duration = Duration::from_secs(12);

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
    let (ec2, place) = (session.cloud.ec2.clone(), session.request.place());
    let asleep = Asleep::new(ec2, &sleeping.snapshot, &place);
    let found = session.on_record_asleep(&asleep).await;
    session.note_reading(&sleeping, &asleep);
    Ok((None, found?))
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
    if !is_among(name, &containers) {
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
    /// The containers on record on a drive that is asleep.
    async fn on_record_asleep(&mut self, asleep: &Asleep) -> Result<Vec<OnRecord>, Failure> {
        let reading = asleep.containers();
        let found = or_interrupted(&mut self.signals, &self.report, reading).await?;
        found.map_err(|error| self.lost_asleep(asleep, &error.to_string()))
    }

    /// Refuses a container that a session cannot have, before anything is launched: one without an
    /// image that is not on record in the newest snapshot of a drive that is asleep. Where that cannot
    /// be read, or may not be all, the host finds out.
    pub(super) async fn refuse_unmade(&mut self, drive: &DriveFacts) -> Result<(), Failure> {
        let wanted = self.request.named.as_ref().filter(|it| it.image.is_none());
        let Some(name) = wanted.map(|it| it.name.clone()) else {
            return Ok(());
        };
        let is_saved = drive
            .snapshots
            .iter()
            .all(|it| it.state == SnapshotState::Completed);
        if drive.host.is_some() || drive.volumes_left().next().is_some() || !is_saved {
            return Ok(());
        }
        let snapshot = match &self.request.options.config.from {
            Some(Head::Snapshot(id)) => id.clone(),
            Some(Head::Volume(_) | Head::Empty) => return Ok(()),
            None => match drive.newest_readable(None) {
                Some((_, snapshot)) => snapshot.id.clone(),
                None => return Ok(()),
            },
        };
        let asleep = Asleep::new(self.cloud.ec2.clone(), &snapshot, &self.request.place());
        let drive = &self.request.drive;
        let step = format!("look for the container {name} in {}", snapshot.of(drive));
        let step = self.report.step(step);
        let reading = timeout(READING, asleep.containers());
        let found = or_interrupted(&mut self.signals, &self.report, reading).await?;
        drop(step);
        match found {
            Ok(Ok(found)) if !is_among(&name, &found) => Err(self.not_among(&name, &found)),
            Ok(Ok(_) | Err(_)) | Err(_) => Ok(()),
        }
    }

    /// Fails unless the container of the request is on the drive that is asleep.
    pub(super) async fn demand_container(&mut self, asleep: &Asleep) -> Result<(), Failure> {
        let Some(name) = self.request.container().cloned() else {
            return Ok(());
        };
        let found = self.on_record_asleep(asleep).await?;
        if is_among(&name, &found) {
            return Ok(());
        }
        Err(self.not_among(&name, &found))
    }

    /// The failure of a container of this name that is not among those that the drive has.
    pub(super) fn not_among(&self, name: &ContainerName, found: &[OnRecord]) -> Failure {
        let drive = &self.request.drive;
        let label = |it: &OnRecord| match &it.name {
            Some(name) => name.to_string(),
            None => MAIN.to_owned(),
        };
        let names: Vec<String> = found.iter().map(label).collect();
        let has = match names.len() {
            0 => "none".to_owned(),
            _ => names.join(", "),
        };
        let error = anyhow!("{drive} has no container {name}; it has {has}");
        let command = &self.cloud.command;
        let hint = format!("{command} connect {drive}/{name} --image IMAGE makes it");
        Failure::new(Exit::Unavailable, error).hint(hint)
    }

    /// The containers on record on the drive that `host` has.
    async fn on_record(&mut self, host: &Host) -> Result<Vec<OnRecord>, Failure> {
        let containers = host.containers();
        let containers = or_interrupted(&mut self.signals, &self.report, containers).await?;
        Ok(containers.map_err(anyhow::Error::new)?)
    }
}

/// Whether a container of this name is on record.
pub(super) fn is_among(name: &ContainerName, on_record: &[OnRecord]) -> bool {
    on_record.iter().any(|it| it.name.as_ref() == Some(name))
}
