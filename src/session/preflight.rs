//! The checks before the drive's loop begins: of the drive's parts and its owner, and of requests
//! that are refused before anything is launched.
//!
//! A drive belongs to the owner in the tags of its newest part. Callers of one account see each
//! other's drives; this check keeps them from using, or ending, another's by a mistyped name. It
//! protects against mistakes; IAM decides rights.

use anyhow::anyhow;

use super::lookup::{Listing, may_retry, report_retry};
use super::prompt::or_interrupted;
use super::start::no_named;
use super::state::Session;
use crate::cloud::Cloud;
use crate::config::Options;
use crate::drive::provenance::{Foreign, Provenance};
use crate::drive::reconcile::is_left;
use crate::drive::stuck::Head;
use crate::drive::tags::{self, Settings, SnapshotTags, VolumeTags};
use crate::ec2::{GibiBytes, Instance, Ownership, Snapshot, SnapshotState, Tags, Volume};
use crate::failure::{Exit, Failure};
use crate::ids::Generation;
use crate::launch::image;

/// What helps with another's drive.
const SHARED: &str = "--shared uses it all the same";

/// The facts about a drive before the loop begins.
pub(super) struct DriveFacts {
    /// Its own settings: those of its newest part, or of the one that `--from` chose.
    pub(super) settings: Settings,
    /// The size of the largest of its volumes and snapshots; none if it has neither, and is new.
    pub(super) largest: Option<GibiBytes>,
    /// Its live instance, if there is one: not that of a session that throws away what it has.
    pub(super) host: Option<Instance>,
    /// Its volumes, root disks among them.
    pub(super) volumes: Vec<Volume>,
    /// Its snapshots.
    pub(super) snapshots: Vec<Snapshot>,
    /// The backups of it that somebody else made.
    pub(super) backups: Vec<Snapshot>,
}

impl DriveFacts {
    /// Its volumes that are there, without root disks.
    pub(super) fn volumes_left(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.iter().filter(|it| is_left(it))
    }

    /// The newest snapshot that can be read: of that generation, or of any.
    pub(super) fn newest_readable(
        &self,
        generation: Option<Generation>,
    ) -> Option<(SnapshotTags, &Snapshot)> {
        let completed = |it: &&Snapshot| it.state == SnapshotState::Completed;
        let completed = self.snapshots.iter().filter(completed);
        completed
            .filter_map(|it| Some((tags::read_snapshot(&it.tags).ok()?, it)))
            .filter(|(tags, _)| generation.is_none_or(|wanted| tags.generation == wanted))
            .max_by_key(|(tags, _)| (tags.generation, tags.kind, tags.number))
    }
}

impl DriveFacts {
    /// Why this snapshot, the newest, may be none that xdrive made of the one before.
    pub(super) fn doubt(&self, newest: &Snapshot) -> Option<Foreign> {
        // What is of one volume has its file system.
        let others = self
            .snapshots
            .iter()
            .filter(|it| it.volume != newest.volume);
        let others = others.filter_map(|it| Provenance::read(&it.tags));
        Provenance::read(&newest.tags)?.doubt(others)
    }
}

impl Session {
    /// Checks the drive by this `listing`. One that EC2 throttles is retried, by the limits of the
    /// loop. A signal ends the pause before a retry, and with it the session.
    pub(super) async fn check(
        &mut self,
        mut listing: Result<Listing, Failure>,
    ) -> Result<DriveFacts, Failure> {
        let mut failures = 0;
        loop {
            let checked = listing.and_then(|listing| self.check_drive(listing));
            let failure = match checked {
                Err(failure) if may_retry(&failure, &mut failures, &self.cloud.timing) => failure,
                answer => return answer,
            };
            report_retry(&self.report, &failure);
            let pause = tokio::time::sleep(self.cloud.timing.pause(failures));
            or_interrupted(&mut self.signals, &self.report, pause).await?;
            listing = Listing::of(&self.cloud.ec2, &self.request.drive).await;
        }
    }

    /// Refuses a drive that is another caller's, unless the request allows that.
    fn check_drive(&self, listing: Listing) -> Result<DriveFacts, Failure> {
        let Listing {
            instances,
            volumes,
            snapshots,
            backups,
        } = listing;
        let live = instances.iter().filter(|instance| instance.state.is_live());
        let is_thrown_away = |it: &Instance| tags::thrown_away_by(&it.tags).is_some();
        let live = live.min_by_key(|it| (is_thrown_away(it), it.launched, &it.id));
        let newest = || {
            let of_volumes = volumes.iter().map(|volume| &volume.tags);
            let of_snapshots = snapshots.iter().map(|snapshot| &snapshot.tags);
            let newest = tags::newest(of_volumes.chain(of_snapshots), |tags| tags);
            newest.map(|(_, tags)| tags)
        };
        if let Some(live) = live {
            let parts = volumes.iter().map(|volume| &volume.tags);
            let parts = parts.chain(snapshots.iter().map(|snapshot| &snapshot.tags));
            self.refuse_nobodys(live, parts)?;
        }
        if let Some(tags) = live.map(|instance| &instance.tags).or_else(newest) {
            self.check_owner(
                tags::owner(tags),
                live.is_some(),
                self.request.options.config.shared,
            )?;
        }
        let drives = volumes.iter().filter(|volume| {
            let tags = tags::read_volume(&volume.tags);
            is_left(volume) && matches!(tags, Ok(VolumeTags::Drive { .. }))
        });
        let sizes = drives.map(|volume| volume.size);
        let largest = sizes
            .chain(snapshots.iter().map(|snapshot| snapshot.size))
            .max();
        let head = match &self.request.options.config.from {
            Some(Head::Volume(id)) => volumes
                .iter()
                .find(|volume| volume.id == *id)
                .map(|volume| &volume.tags),
            Some(Head::Snapshot(id)) => snapshots
                .iter()
                .find(|snapshot| snapshot.id == *id)
                .map(|snapshot| &snapshot.tags),
            Some(Head::Empty) | None => newest(),
        };
        Ok(DriveFacts {
            settings: head.map(Settings::read).unwrap_or_default(),
            largest,
            host: live.filter(|live| !is_thrown_away(live)).cloned(),
            volumes,
            snapshots,
            backups,
        })
    }

    /// Refuses an instance without an owner that says it is of a drive which has one: xdrive launches
    /// none like that.
    fn refuse_nobodys<'a>(
        &self,
        live: &Instance,
        mut parts: impl Iterator<Item = &'a Tags>,
    ) -> Result<(), Failure> {
        let is_nobodys = !tags::has_owner(&live.tags) && parts.any(tags::has_owner);
        if !is_nobodys || self.request.options.config.shared {
            return Ok(());
        }
        let drive = &self.request.drive;
        let error = anyhow!("{} has no owner, and the drive has one", live.id.of(drive));
        Err(Failure::new(Exit::Denied, error).hint(SHARED))
    }

    /// Takes what the configuration has for new drives, where `drive` is one.
    pub(super) fn take_up_new(&mut self, drive: &DriveFacts) -> Result<(), Failure> {
        if !self.begins_anew(drive) {
            return Ok(());
        }
        let request = &mut self.request;
        request.options.launch.size = request.options.size_of_new();
        if request.options.image.is_none()
            && let Some(image) = request.options.new_image.clone()
        {
            image::check_image(&image)?;
            request.options.image = Some(image);
            if request.named.is_none() {
                request.add_described()?;
                request.check_places()?;
            }
        }
        Ok(())
    }

    /// Whether the drive begins with an empty volume.
    pub(super) fn begins_anew(&self, drive: &DriveFacts) -> bool {
        drive.largest.is_none() || self.request.options.config.from == Some(Head::Empty)
    }

    /// Refuses a new drive without an image for each container, a drive that would have to shrink,
    /// and a speed, of the options or the drive's settings, that its volume cannot have.
    pub(super) fn check_request(&self, drive: &DriveFacts) -> Result<(), Failure> {
        let (name, options) = (self.request.drive.as_str(), &self.request.options);
        if let Some(named) = &self.request.named
            && named.image.is_none()
            && self.begins_anew(drive)
        {
            return Err(no_named(&self.request, named));
        }
        if drive.largest.is_none() && options.image.is_none() {
            image::check_default(&self.cloud.image)?;
        }
        let largest = drive.largest.filter(|_| !self.begins_anew(drive));
        check_size(name, options, largest)?;
        check_speed(name, options, &drive.settings, largest, &self.cloud)
    }

    /// Refuses a drive whose `owner` is another caller, unless `may_be`. A drive without an owner
    /// is anybody's. An owner that is the caller's role without a session name (in older tags) may
    /// be a colleague: the drive is the caller's unless it `is_used`, and has the caller's name
    /// from then on.
    pub(super) fn check_owner(
        &self,
        owner: &str,
        is_used: bool,
        may_be: bool,
    ) -> Result<(), Failure> {
        if may_be || owner.is_empty() {
            return Ok(());
        }
        let drive = &self.request.drive;
        match Ownership::of(owner, &self.owner) {
            Ownership::Own => Ok(()),
            Ownership::OfRole if !is_used => {
                self.report.print(&format!(
                    "{drive} is {owner}'s, a role without a person's name: taken for yours"
                ));
                Ok(())
            }
            Ownership::OfRole => Err(Failure::new(
                Exit::Denied,
                anyhow!("{drive} is in use by {owner}, a role without a person's name"),
            )
            .hint(SHARED)),
            Ownership::Other => Err(Failure::new(
                Exit::Denied,
                anyhow!("{drive} is {owner}'s, and you are {}", self.owner),
            )
            .hint(SHARED)),
        }
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
