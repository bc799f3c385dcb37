//! What is refused before anything is launched for it: what cannot work, and another's drive.
//!
//! A drive is whose made or last claimed its newest part, as the record says. Callers of one
//! account see each other's drives, and nothing but this keeps one from using, or ending, another's
//! by a mistyped name. It is a question of manners: rights are IAM's.

use anyhow::anyhow;

use super::Session;
use crate::cloud::Cloud;
use crate::config::Options;
use crate::drive::DriveName;
use crate::drive::stuck::Head;
use crate::drive::tags::{self, Settings, VolumeTags};
use crate::ec2::{
    Ec2, GibiBytes, Instance, Kind, Ownership, Snapshot, Subnet, SubnetId, Tags, Volume,
};
use crate::failure::{Exit, Failure};
use crate::launch::image;

/// What there is of a drive.
pub(super) struct Found {
    /// Its own settings: those of its newest part, or of the one that was chosen.
    pub(super) settings: Settings,
    /// The size of the largest of its volumes and snapshots; none if it has neither, and is new.
    pub(super) largest: Option<GibiBytes>,
    /// The type of the instance that runs, if one does.
    pub(super) live: Option<String>,
    /// Its volumes, root disks among them.
    pub(super) volumes: Vec<Volume>,
    /// Its snapshots.
    pub(super) snapshots: Vec<Snapshot>,
}

/// All that carries a drive's tag.
pub(super) struct Parts {
    instances: Vec<Instance>,
    volumes: Vec<Volume>,
    snapshots: Vec<Snapshot>,
}

impl Parts {
    /// Lists them, in the order in which data moves.
    pub(super) async fn list(ec2: &Ec2, drive: &DriveName) -> Result<Self, Failure> {
        let drive = drive.as_str();
        Ok(Self {
            instances: ec2.instances(drive).await?,
            volumes: ec2.volumes(drive).await?,
            snapshots: ec2.snapshots(drive).await?,
        })
    }
}

impl Session {
    /// Refuses a drive that is another caller's, unless that may be. The answer is what was found of
    /// it.
    pub(super) fn check(&self, parts: Parts) -> Result<Found, Failure> {
        let Parts {
            instances,
            volumes,
            snapshots,
        } = parts;
        let live = instances.iter().filter(|instance| instance.state.is_live());
        let live = live.min_by_key(|instance| (instance.launched, &instance.id));
        let parts = || {
            let volumes = volumes.iter().map(|volume| &volume.tags);
            volumes.chain(snapshots.iter().map(|snapshot| &snapshot.tags))
        };
        let own = live.map(|instance| &instance.tags);
        if let Some(tags) = own.or_else(|| newest(parts())) {
            self.check_owner(tags::owner(tags), live.is_some(), self.request.shared)?;
        }
        let drives = volumes.iter().filter(|volume| {
            matches!(
                tags::read_volume(&volume.tags),
                Ok(VolumeTags::Drive { .. })
            )
        });
        let sizes = drives.map(|volume| volume.size);
        let largest = sizes
            .chain(snapshots.iter().map(|snapshot| snapshot.size))
            .max();
        let head = match &self.request.from {
            Some(Head::Volume(id)) => volumes
                .iter()
                .find(|volume| volume.id == *id)
                .map(|volume| &volume.tags),
            Some(Head::Snapshot(id)) => snapshots
                .iter()
                .find(|snapshot| snapshot.id == *id)
                .map(|snapshot| &snapshot.tags),
            Some(Head::Empty) | None => newest(parts()),
        };
        Ok(Found {
            settings: head.map(Settings::read).unwrap_or_default(),
            largest,
            live: live.map(|instance| instance.instance_type.clone()),
            volumes,
            snapshots,
        })
    }

    /// Refuses to connect to a new drive without an image for its container, to a drive that would
    /// have to shrink, and to one that cannot be as fast as it is wanted.
    pub(super) fn check_request(&self, found: &Found) -> Result<(), Failure> {
        let (drive, options) = (self.request.drive.as_str(), &self.request.options);
        check_size(drive, options, found.largest, &self.cloud)?;
        check_speed(drive, options, &found.settings, found.largest, &self.cloud)
    }

    /// The same of one thing, whose `owner` is known, and whether somebody uses it. What has none
    /// is anybody's. What has the caller's role alone, as xdrive once wrote it, may be a
    /// colleague's: it is the caller's as long as nobody uses it, and then bears their name.
    pub(super) fn check_owner(
        &self,
        owner: &str,
        is_used: bool,
        may_be: bool,
    ) -> Result<(), Failure> {
        const HINT: &str = "--shared uses it all the same";
        if may_be || owner.is_empty() {
            return Ok(());
        }
        let drive = &self.request.drive;
        match Ownership::of(owner, &self.owner) {
            Ownership::Own => Ok(()),
            Ownership::OfRole if !is_used => {
                self.report.print(&format!(
                    "{drive} is {owner}'s, which does not tell who of you: taken for yours"
                ));
                Ok(())
            }
            Ownership::OfRole => Err(Failure::new(
                Exit::Denied,
                anyhow!("{drive} is in use by {owner}, which does not tell whether that is you"),
            )
            .hint(HINT)),
            Ownership::Other => Err(Failure::new(
                Exit::Denied,
                anyhow!("{drive} is {owner}'s, and you are {}", self.owner),
            )
            .hint(HINT)),
        }
    }
}

/// A subnet that was named: its zone and VPC are the session's.
pub(super) async fn subnet(id: &SubnetId, cloud: &Cloud) -> Result<Subnet, Failure> {
    cloud.ec2.subnet(id).await.map_err(|error| {
        if error.kind != Kind::NotFound {
            return error.into();
        }
        let region = cloud.ec2.region();
        Failure::new(Exit::Usage, anyhow!("there is no {id} in {region}")).hint(
            "`aws ec2 describe-subnets` shows the subnets of a region; --region names another one",
        )
    })
}

/// Whether the drive's volume can be as fast as `options`, or its own settings, have it.
fn check_speed(
    drive: &str,
    options: &Options,
    own: &Settings,
    largest: Option<GibiBytes>,
    cloud: &Cloud,
) -> Result<(), Failure> {
    let own = own.speed().map_err(|error| {
        let hint = "--throughput, --iops and --warm say it anew, and are recorded in its place";
        Failure::new(Exit::Config, anyhow!("{drive}: {error}")).hint(hint)
    })?;
    let new = options.size.unwrap_or(cloud.size);
    let size = largest.map_or(new, |largest| largest.max(options.size.unwrap_or(0)));
    let checked = options.speed.or(own).check_for(size);
    checked.map_err(|(why, hint)| Failure::new(Exit::Usage, anyhow!(why)).hint(hint))
}

/// Whether a drive, whose largest part has `largest` GiB, can be as `options` say.
fn check_size(
    drive: &str,
    options: &Options,
    largest: Option<GibiBytes>,
    cloud: &Cloud,
) -> Result<(), Failure> {
    let Some(largest) = largest else {
        return match options.image {
            Some(_) => Ok(()),
            None => image::check_default(&cloud.image),
        };
    };
    match options.size {
        Some(size) if size < largest => Err(Failure::new(
            Exit::Usage,
            anyhow!("{drive} has {largest} GiB, and a drive cannot shrink to {size} GiB"),
        )
        .hint(format!("leave --size away, or make it {largest} or more"))),
        _ => Ok(()),
    }
}

/// The tags of the part with the highest generation.
fn newest<'a>(parts: impl Iterator<Item = &'a Tags>) -> Option<&'a Tags> {
    parts
        .filter_map(|part| {
            let generation = match (tags::read_volume(part), tags::read_snapshot(part)) {
                (_, Ok(snapshot)) => snapshot.generation,
                (Ok(VolumeTags::Drive { generation, .. }), _) => generation,
                _ => return None,
            };
            Some((generation, part))
        })
        .max_by_key(|(generation, _)| *generation)
        .map(|(_, part)| part)
}
