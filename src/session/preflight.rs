//! The checks of a request before the drive's loop begins, and before anything is launched.

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::timeout;

use super::request::{Named, Request, Task};
use super::shares::Shares;
use super::start::no_named;
use super::state::Session;
use crate::asleep::Asleep;
use crate::cloud::Cloud;
use crate::config::Options;
use crate::drive::CopySource;
use crate::drive::stuck::Head;
use crate::drive::tags::Settings;
use crate::ec2::{GibiBytes, SnapshotState, VolumeState};
use crate::failure::{Exit, Failure};
use crate::launch::image;
use crate::opener::{DriveFacts, is_among, or_interrupted};

/// How long a launch waits for the containers on record in a snapshot: eight calls in turn, at 300 ms
/// each, five times over.
const READING: Duration = Duration::from_secs(12);

impl Session {
    /// Checks the request for this drive, before anything is launched; a dry run ends with it.
    pub(super) async fn check(&mut self, drive: &DriveFacts) -> Result<(), Failure> {
        self.refuse_worker(drive)?;
        self.agree_to_discard(drive).await?;
        let cloud = &self.drive.cloud;
        self.request.refuse_unadopted(drive, cloud).await?;
        self.request.take_up_new(drive)?;
        self.request.check_for(drive, cloud)?;
        self.refuse_unmade(drive).await
    }

    /// Settles what is launched, or attached to, for a drive that was checked.
    pub(super) async fn prepare(&mut self, drive: DriveFacts) -> Result<(), Failure> {
        if let Task::Attach(wanted) = self.request.task.clone() {
            let host = drive.host.clone();
            let run = self.choose_run(host, wanted.as_deref()).await?;
            self.request.named = run.container_name().map(Named::as_it_is);
            self.request.task = Task::Attach(Some(run.id));
        }
        self.settle_terms(&drive)?;
        self.find_shares(&drive).await?;
        self.find_address(&drive).await?;
        self.explain_first(&drive).await;
        if let Some(host) = &drive.host {
            let report = &self.drive.report;
            self.request.report_ineffective_flags(host, false, report);
            self.prepare_for_live_host();
        }
        self.recorded = drive.settings;
        Ok(())
    }

    /// Finds the shares of the drive's containers, for which mount targets are made from then on.
    pub(super) async fn find_shares(&mut self, drive: &DriveFacts) -> Result<(), Failure> {
        if let Some(launched) = self.launched.take() {
            let (request, opened) = (&self.request, &self.drive);
            let (caller, cloud) = (&opened.identity.caller, &opened.cloud);
            self.shares = Shares::find(request, drive, caller, cloud, launched).await?;
        }
        Ok(())
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
        let snapshot = match &self.request.options.config.once.from {
            Some(Head::Snapshot(id)) => id.clone(),
            Some(Head::Volume(_) | Head::Empty) => return Ok(()),
            None => match drive.newest_readable(None) {
                Some((_, snapshot)) => snapshot.id.clone(),
                None => return Ok(()),
            },
        };
        let asleep = Asleep::new(
            self.drive.cloud.ec2.clone(),
            &snapshot,
            &self.request.place(),
        );
        let drive = &self.request.drive;
        let step = format!(
            "look for the container {name} in {}",
            snapshot.drive_label(drive)
        );
        let step = self.drive.report.step(step);
        let reading = timeout(READING, asleep.containers());
        let found = or_interrupted(&mut self.drive.signals, &self.drive.report, reading).await?;
        drop(step);
        let mut read = self.drive.read.get();
        read += asleep.reading();
        self.drive.read.set(read);
        match found {
            Ok(Ok(found)) if !is_among(&name, &found) => Err(self.drive.not_among(&name, &found)),
            Ok(Ok(_) | Err(_)) | Err(_) => Ok(()),
        }
    }
}

impl Request {
    /// Whether the drive begins with an empty volume.
    pub(super) fn begins_anew(&self, drive: &DriveFacts) -> bool {
        drive.largest.is_none() || self.options.config.once.from == Some(Head::Empty)
    }

    /// Takes what the configuration has for new drives, where `drive` is one.
    fn take_up_new(&mut self, drive: &DriveFacts) -> Result<(), Failure> {
        if !self.begins_anew(drive) {
            return Ok(());
        }
        self.options.launch.size = self.options.size_of_new();
        if self.options.image.is_none()
            && let Some(image) = self.options.new_image.clone()
        {
            image::check_image(&image)?;
            self.options.image = Some(image);
            if self.named.is_none() {
                self.add_described()?;
                self.check_places()?;
            }
        }
        Ok(())
    }

    /// Refuses a new drive without an image for each container, a drive that would have to shrink,
    /// and a speed, of the options or the drive's settings, that its volume cannot have.
    fn check_for(&self, drive: &DriveFacts, cloud: &Cloud) -> Result<(), Failure> {
        let (name, options) = (self.drive.as_str(), &self.options);
        if let Some(named) = &self.named
            && named.image.is_none()
            && self.begins_anew(drive)
        {
            return Err(no_named(self, named));
        }
        if drive.largest.is_none() && options.image.is_none() {
            image::check_default(&cloud.image)?;
        }
        let largest = drive.largest.filter(|_| !self.begins_anew(drive));
        check_size(name, options, largest)?;
        check_speed(name, options, &drive.settings, largest, cloud)
    }

    /// Refuses to begin a new drive where something has its name that `adopt` would make it of, unless
    /// `--from empty` says to.
    async fn refuse_unadopted(&self, facts: &DriveFacts, cloud: &Cloud) -> Result<(), Failure> {
        if !facts.is_empty() || self.options.config.once.from.is_some() {
            return Ok(());
        }
        let (drive, command) = (&self.drive, &cloud.command);
        // A list that is denied is reported by what needs it.
        let Ok((volumes, snapshots)) = cloud.ec2.unmarked(drive).await else {
            return Ok(());
        };
        let volume = volumes
            .into_iter()
            .filter(|it| it.state == VolumeState::Available && it.attachment.is_none())
            .max_by_key(|it| it.created)
            .map(|it| CopySource::Volume(it.id));
        let snapshot = || {
            let complete = snapshots.into_iter();
            let complete = complete.filter(|it| it.state == SnapshotState::Completed);
            let newest = complete.max_by_key(|it| it.started);
            newest.map(|it| CopySource::Snapshot(it.id))
        };
        let Some(found) = volume.or_else(snapshot) else {
            return Ok(());
        };
        let error = anyhow!(
            "there is no drive {drive}, but {} has that name",
            found.label()
        );
        Err(Failure::new(Exit::Usage, error).hint(format!(
            "{command} adopt {found} {drive} makes the drive of a copy\n      \
             {command} connect {drive} --from empty begins an empty one"
        )))
    }
}

/// Refuses a speed, of the options or else the drive's own settings, that its volume cannot have.
fn check_speed(
    drive: &str,
    options: &Options,
    own: &Settings,
    largest: Option<GibiBytes>,
    cloud: &Cloud,
) -> Result<(), Failure> {
    let own = own.speed().map_err(|error| {
        let hint = "--throughput, --iops and --warm replace it";
        Failure::new(Exit::Config, anyhow!("{drive}: {error}")).hint(hint)
    })?;
    let new = options.launch.size.unwrap_or(cloud.size);
    let size = largest.map_or(new, |largest| largest.max(options.launch.size.unwrap_or(0)));
    let checked = options.launch.speed.or(own).check_for(size);
    checked.map_err(|(why, hint)| Failure::new(Exit::Usage, anyhow!(why)).hint(hint))
}

/// Refuses a size below that of the `largest` part that the drive goes on from.
fn check_size(drive: &str, options: &Options, largest: Option<GibiBytes>) -> Result<(), Failure> {
    match (options.launch.size, largest) {
        (Some(size), Some(largest)) if size < largest => Err(Failure::new(
            Exit::Usage,
            anyhow!("{drive} has {largest} GiB, and a drive cannot shrink to {size} GiB"),
        )
        .hint(format!("leave --size away, or make it {largest} or more"))),
        _ => Ok(()),
    }
}
