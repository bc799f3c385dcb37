//! The run of a drive that is begun again where its host was lost: the marks of it on the drive's parts.

use anyhow::anyhow;
use jiff::Timestamp;

use super::drive::Drive;
use crate::drive::reconcile::is_left;
use crate::drive::tags::{
    self, RunState, VolumeTags, WantedRun, WantedWorkers, run_over, run_tended, run_waits,
};
use crate::ec2::{self, Instance, Tags, Volume};
use crate::failure::{Exit, Failure};
use crate::host::container::CommandId;

impl Drive {
    /// The run of the drive that is wanted, as the furthest of its parts has it; none if it is over.
    pub(crate) fn wanted_run(&self) -> Option<WantedRun> {
        let of_volumes = self.facts.volumes_left().map(|it| &it.tags);
        let of_snapshots = self.facts.snapshots.iter().map(|it| &it.tags);
        let parts: Vec<&Tags> = of_volumes.chain(of_snapshots).collect();
        WantedRun::of_drive(&parts)
    }

    /// The run that the drive's newest part names, wanted or over.
    pub(crate) fn marked_run(&self) -> Option<WantedRun> {
        WantedRun::read(self.facts.newest_part()?.1)
    }

    /// The workers that the drive is to have while it is on `host`, as its volume there has it: no checkpoint
    /// is asked, which may be older.
    pub(crate) async fn wanted_workers(
        &self,
        host: &Instance,
    ) -> Result<Option<WantedWorkers>, ec2::Error> {
        let volume = self.mounted_volume(host).await?;
        Ok(volume.and_then(|volume| WantedWorkers::read(&volume.tags)))
    }

    /// Notes which workers the drive is to have: on the volume that is mounted on `host`.
    pub(crate) async fn mark_workers(
        &self,
        host: &Instance,
        workers: &WantedWorkers,
    ) -> Result<(), Failure> {
        let tags = workers.tags().ok_or_else(|| {
            let error = anyhow!("the launch options of workers do not fit one tag");
            Failure::new(Exit::Usage, error)
        })?;
        let volume = self.mounted_volume(host).await?;
        let volume = volume.ok_or_else(|| anyhow!("no volume of {} is mounted", self.name))?;
        Ok(self.cloud.ec2.tag(volume.id.as_str(), &tags).await?)
    }

    /// Notes that the drive is to have no workers any more, on all of its parts that say otherwise.
    pub(crate) async fn mark_no_workers(&self) -> Result<(), ec2::Error> {
        let volumes = self.facts.volumes_left();
        let volumes = volumes.map(|it| (it.id.as_str(), &it.tags));
        let snapshots = self.facts.snapshots.iter();
        let all = volumes.chain(snapshots.map(|it| (it.id.as_str(), &it.tags)));
        for (id, _) in all.filter(|(_, tags)| tags::names_workers(tags)) {
            self.cloud.ec2.tag(id, &WantedWorkers::none()).await?;
        }
        Ok(())
    }

    /// The failure of a run that another one, which `goes_on`, leaves no place.
    pub(crate) fn goes_on(&self, run: &CommandId, goes_on: &str) -> Failure {
        let (drive, xdrive) = (&self.name, &self.cloud.command);
        let error = anyhow!("the run {} of {drive} {goes_on}", run.as_str());
        let hint = format!("{xdrive} ps {drive} shows it, {xdrive} stop {drive} ends it");
        Failure::new(Exit::TryAgain, error).hint(hint)
    }

    /// The volume that is mounted on `host`, if it is listed.
    pub(crate) async fn mounted_volume(
        &self,
        host: &Instance,
    ) -> Result<Option<Volume>, ec2::Error> {
        let volumes = self.cloud.ec2.volumes(&self.name).await?;
        Ok(volumes.into_iter().find(|it| {
            let attachment = it.attachment.as_ref();
            attachment.is_some_and(|it| it.instance == host.id)
                && matches!(tags::read_volume(&it.tags), Ok(VolumeTags::Drive { .. }))
        }))
    }

    /// Marks the volume that is mounted on `host` as that of a wanted run. Refused while another one is
    /// wanted.
    pub(crate) async fn mark_wanted(
        &self,
        host: &Instance,
        run: &WantedRun,
    ) -> Result<(), Failure> {
        let mounted = self.mounted_volume(host).await?;
        let volume = mounted.ok_or_else(|| anyhow!("the drive's volume is not listed yet"))?;
        let former = WantedRun::read(&volume.tags);
        if let Some(former) = former.filter(|it| it.state == RunState::Wanted && it.id != run.id) {
            return Err(self.goes_on(&former.id, "is wanted already"));
        }
        let ec2 = &self.cloud.ec2;
        Ok(ec2.tag(volume.id.as_str(), &run.tags()).await?)
    }

    /// Marks all parts of the drive that say that the run `id` is wanted: it is over, in this `state`.
    /// Reports what could not be marked: of a command that ended by itself the drive has it all the same.
    pub(crate) async fn mark_over(&self, id: &CommandId, state: RunState, exit: Option<u8>) {
        if let Err(error) = self.mark_parts(id, &run_over(state, exit)).await {
            self.report.warn(&format!(
                "the run {} is {}, and its tags do not say so: {error}",
                id.as_str(),
                state.as_str()
            ));
        }
    }

    /// Notes since when and why the next try of the run waits, on the drive's parts; or that it does not
    /// any more.
    pub(crate) async fn mark_waiting(
        &self,
        id: &CommandId,
        waits: Option<(Timestamp, &str)>,
    ) -> Result<(), ec2::Error> {
        self.mark_parts(id, &run_waits(waits)).await
    }

    /// Notes that the run is looked after now, and when its user was `told` that it waits.
    pub(crate) async fn mark_tended(
        &self,
        id: &CommandId,
        told: Option<Timestamp>,
    ) -> Result<(), ec2::Error> {
        let now = self.cloud.clock.now();
        self.mark_parts(id, &run_tended(now, told)).await
    }

    /// Writes these tags on all parts of the drive that say that the run `id` is wanted.
    async fn mark_parts(&self, id: &CommandId, marks: &Tags) -> Result<(), ec2::Error> {
        let ec2 = &self.cloud.ec2;
        let is_wanted = |tags: &Tags| {
            let run = WantedRun::read(tags);
            run.is_some_and(|run| run.id == *id && run.state == RunState::Wanted)
        };
        let volumes = ec2.volumes(&self.name).await?;
        for volume in volumes
            .iter()
            .filter(|it| is_left(it) && is_wanted(&it.tags))
        {
            ec2.tag(volume.id.as_str(), marks).await?;
        }
        let (snapshots, _) = ec2.snapshots_and_backups(&self.name).await?;
        for snapshot in snapshots.iter().filter(|it| is_wanted(&it.tags)) {
            ec2.tag(snapshot.id.as_str(), marks).await?;
        }
        Ok(())
    }
}

/// The failure of a run whose order is not on the drive.
pub(crate) fn no_order(id: &CommandId) -> Failure {
    let error = anyhow!(
        "the drive has no order for the run {} that this xdrive can read",
        id.as_str()
    );
    Failure::new(Exit::Failed, error)
}
