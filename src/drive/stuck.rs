//! A run that cannot go on safely: why, what is still billed, and the commands that resolve it.

use std::fmt;
use std::iter;
use std::str::FromStr;

use crate::ec2::GibiBytes;
use crate::ids::{DriveName, Generation, InstanceId, SnapshotId, VolumeId};

use super::observed::Observed;
use super::overlay::Overlay;
use super::provenance::Foreign;
use super::tags::Leaving;

/// The newest end of a lineage: a volume or a snapshot that holds a drive's state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Head {
    /// A volume.
    Volume(VolumeId),
    /// A snapshot.
    Snapshot(SnapshotId),
    /// An empty volume: the drive begins anew, and all of its lineages are kept as forks.
    Empty,
}

/// Why a run cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Why {
    /// Two lineages: a person has to choose.
    Forked(Vec<(Head, Generation)>),
    /// The newest snapshot failed and its volume is gone; `older` is the best before it.
    NewestFailed {
        /// The failed one.
        failed: SnapshotId,
        /// The newest completed one.
        older: Option<SnapshotId>,
    },
    /// Snapshots of this volume failed too often.
    SnapshotsFail(VolumeId),
    /// A used volume is in state `error`.
    VolumeError(VolumeId),
    /// The snapshot that is to stand for the volume does not hold the drive as it was left. The
    /// volume is kept.
    Unsound {
        /// The snapshot.
        snapshot: SnapshotId,
        /// The volume it was taken of.
        volume: VolumeId,
        /// The fault that was found in the snapshot.
        problem: String,
        /// The heads that `--from` can choose.
        ways: Vec<Head>,
    },
    /// A host has the drive attached and does not answer, which proves nothing.
    Unreachable(InstanceId),
    /// An instance has been ending for too long while the drive is attached to it.
    NeverEnds(InstanceId),
    /// The newest state may be none that xdrive made of the one before.
    Foreign(Box<ForeignHead>),
    /// A resource of this drive has tags that cannot be parsed.
    Unreadable(Vec<(String, String)>),
    /// The drive's file system cannot be mounted.
    Damaged(VolumeId, String),
    /// So many instances were launched, and none answered.
    NoHost(u32),
    /// The allowed number of volumes was made, and all failed; the last one.
    NoVolume(VolumeId),
    /// The user deletes or renames the drive.
    Leaving(Leaving),
    /// The drive is to be deleted, renamed or tried out, and it has an instance or a volume.
    NotAtRest,
    /// The drive is to be deleted, and has this snapshot, which its user was not shown.
    SavedSince(SnapshotId),
    /// The drive is to be tried out, and nothing of it is saved.
    NothingSaved,
    /// The drive is to begin as a copy, and has parts already.
    NotNew,
    /// The drive is to get a name under which another one has been made since.
    NameTaken {
        /// The name.
        to: DriveName,
        /// The part of a drive that is there, in words.
        part: String,
    },
    /// The copy that the drive was to begin with failed.
    CopyFailed(SnapshotId),
    /// `--from` names nothing of this drive, or something that cannot be used.
    From(Head, &'static str),
    /// `--from` names this, and another lineage is mounted on a running instance.
    Mounted(Head),
}

/// A newest state that may be none that xdrive made of the one before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ForeignHead {
    /// The newest state.
    pub head: Head,
    /// The generation of that state.
    pub generation: Generation,
    /// The evidence against it.
    pub foreign: Foreign,
    /// The newest one before, against which nothing speaks.
    pub older: Option<Head>,
}

/// A resource that is still billed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Thing {
    /// A running instance.
    Instance(InstanceId),
    /// A volume of that size.
    Volume(VolumeId, GibiBytes),
    /// A snapshot of a volume of that size (it costs at most that).
    Snapshot(SnapshotId, GibiBytes),
}

/// The resources that are still billed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Left(pub Vec<Thing>);

/// A run that cannot go on safely.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stuck {
    /// Why.
    pub why: Why,
    /// The resources that are still billed.
    pub left: Left,
}

impl Left {
    /// All resources of the drive that are billed, by this sweep.
    #[must_use]
    pub fn from_observed(seen: &Observed) -> Self {
        let instances = seen
            .instances
            .iter()
            .filter(|instance| instance.is_live())
            .map(|instance| Thing::Instance(instance.id.clone()));
        let volumes = seen
            .all_volumes()
            .filter(|volume| volume.exists())
            .map(|volume| Thing::Volume(volume.id.clone(), volume.size));
        let snapshots = seen
            .snapshots
            .iter()
            .map(|snapshot| Thing::Snapshot(snapshot.id.clone(), snapshot.size));
        Self(instances.chain(volumes).chain(snapshots).collect())
    }

    /// Adds the resources that this process has made since the sweep.
    #[must_use]
    pub fn and_made(mut self, overlay: &Overlay) -> Self {
        let instances = overlay
            .instances
            .keys()
            .map(|id| (id.as_str(), Thing::Instance(id.clone())));
        let volumes = overlay.volumes.values().map(|(volume, _)| {
            let thing = Thing::Volume(volume.id.clone(), volume.size);
            (volume.id.as_str(), thing)
        });
        for (id, thing) in instances.chain(volumes) {
            if !overlay.gone.contains(id) && !self.0.contains(&thing) {
                self.0.push(thing);
            }
        }
        self
    }

    /// Leaves out the snapshots, which a saved drive always costs.
    #[must_use]
    pub fn without_snapshots(mut self) -> Self {
        self.0.retain(|thing| !matches!(thing, Thing::Snapshot(..)));
        self
    }

    /// Whether an instance is among it, which is billed by the second.
    #[must_use]
    pub fn has_instances(&self) -> bool {
        self.0
            .iter()
            .any(|thing| matches!(thing, Thing::Instance(_)))
    }
}

impl Stuck {
    /// The commands that resolve it, one for each choice.
    #[must_use]
    pub fn commands(&self, drive: &DriveName) -> Vec<String> {
        let from = |head: &dyn fmt::Display| format!("xdrive connect {drive} --from {head}");
        let snapshots = || {
            self.left.0.iter().filter_map(|thing| match thing {
                Thing::Snapshot(id, _) => Some(id),
                Thing::Instance(_) | Thing::Volume(..) => None,
            })
        };
        let shown = || format!("xdrive list {drive} -v");
        match &self.why {
            Why::Forked(heads) => heads.iter().map(|(head, _)| from(head)).collect(),
            Why::Unsound { ways, .. } => ways.iter().map(|head| from(head)).collect(),
            Why::NewestFailed { older, .. } => {
                let older = older.clone().map_or(Head::Empty, Head::Snapshot);
                vec![from(&older)]
            }
            Why::Foreign(newest) => {
                let heads = newest.older.iter().chain([&newest.head]);
                heads.map(|head| from(head)).collect()
            }
            Why::SnapshotsFail(volume) => vec![from(volume)],
            Why::VolumeError(_) | Why::Damaged(..) => {
                let older: Vec<String> = snapshots().map(|id| from(id)).collect();
                if older.is_empty() {
                    vec![from(&Head::Empty)]
                } else {
                    older
                }
            }
            Why::Unreadable(things) => {
                let is_readable = |id: &&SnapshotId| things.iter().all(|(it, _)| it != id.as_str());
                let readable = snapshots().filter(is_readable).map(|id| from(id));
                readable.chain(iter::once(shown())).collect()
            }
            Why::Leaving(Leaving::Deleted) | Why::CopyFailed(_) | Why::SavedSince(_) => {
                vec![format!("xdrive delete {drive}")]
            }
            Why::Leaving(Leaving::Renamed(to)) => vec![format!("xdrive rename {drive} {to}")],
            Why::NameTaken { to, .. } => vec![
                format!("xdrive rename {to} ANOTHER"),
                format!("xdrive rename {drive} ANOTHER"),
            ],
            Why::NotNew | Why::From(..) => vec![shown()],
            // Later, it may have ended or answer again.
            Why::NotAtRest | Why::Mounted(_) | Why::Unreachable(_) | Why::NeverEnds(_) => {
                vec![format!("xdrive stop {drive}")]
            }
            Why::NothingSaved | Why::NoHost(_) | Why::NoVolume(_) => {
                vec![format!("xdrive connect {drive}")]
            }
        }
    }
}

impl FromStr for Head {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        if given == "empty" {
            return Ok(Self::Empty);
        }
        given
            .parse()
            .map(Self::Volume)
            .or_else(|_| given.parse().map(Self::Snapshot))
            .map_err(|_| {
                format!("{given:?} is neither a volume's id (vol-…) nor a snapshot's (snap-…), nor `empty`")
            })
    }
}

impl Head {
    /// The head for people, with its drive's name: `demo's volume (vol-…)`.
    #[must_use]
    pub fn drive_label(&self, drive: &DriveName) -> String {
        match self {
            Self::Volume(id) => id.drive_label(drive),
            Self::Snapshot(id) => id.drive_label(drive),
            Self::Empty => "nothing".to_owned(),
        }
    }

    /// The head in a line that has named the drive: `its volume (vol-…)`.
    fn short_label(&self) -> String {
        match self {
            Self::Volume(id) => id.short_label(),
            Self::Snapshot(id) => id.short_label(),
            Self::Empty => "nothing".to_owned(),
        }
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(id) => id.fmt(f),
            Self::Snapshot(id) => id.fmt(f),
            Self::Empty => f.pad("empty"),
        }
    }
}

impl fmt::Display for ForeignHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, of generation {}, may be none that xdrive made of this drive, and is not taken over \
             unasked: {}",
            self.head.short_label(),
            self.generation,
            self.foreign
        )
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forked(heads) => {
                f.write_str("the drive has forked: ")?;
                for (index, (head, generation)) in heads.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{} at generation {generation}", head.short_label())?;
                }
                Ok(())
            }
            Self::NewestFailed { failed, older } => {
                let failed = failed.after("the drive's newest");
                write!(f, "{failed} failed, and its volume is gone")?;
                match older {
                    Some(older) => write!(f, "; the newest completed one is older ({older})"),
                    None => f.write_str("; there is no older one"),
                }
            }
            Self::Foreign(newest) => newest.fmt(f),
            Self::SnapshotsFail(volume) => {
                write!(f, "snapshots of {} keep failing", volume.drive_label("the drive"))
            }
            Self::VolumeError(volume) => {
                write!(f, "AWS reports that {} failed", volume.drive_label("the drive"))
            }
            Self::Unsound {
                snapshot,
                volume,
                problem,
                ..
            } => write!(
                f,
                "{} is not what was on {}, which is kept: {problem}",
                snapshot.after("the drive's new"),
                volume.short_label()
            ),
            Self::Unreachable(instance) => write!(
                f,
                "{} does not answer, which does not prove that it is unused",
                instance.drive_label("the drive")
            ),
            Self::NeverEnds(instance) => write!(
                f,
                "{} is being terminated, and still holds the volume",
                instance.drive_label("the drive")
            ),
            Self::Unreadable(things) => {
                f.write_str("of these the tags cannot be read: ")?;
                for (index, (id, problem)) in things.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{id} ({problem})")?;
                }
                Ok(())
            }
            Self::Damaged(volume, problem) => {
                let volume = volume.drive_label("the drive");
                write!(f, "{volume} cannot be mounted: {problem}")
            }
            Self::NoHost(launches) => {
                write!(
                    f,
                    "{launches} instances were launched and none could be used"
                )
            }
            Self::NoVolume(volume) => write!(
                f,
                "EC2 could not make {}: it failed before it was attached",
                volume.drive_label("the drive")
            ),
            Self::Leaving(leaving) => write!(
                f,
                "the drive is being {leaving}: what is left of it here is not mounted any more"
            ),
            Self::NotAtRest => f.write_str(
                "the drive is not at rest: it has an instance or a volume, perhaps of a session that \
                 has just begun",
            ),
            Self::SavedSince(snapshot) => write!(
                f,
                "somebody has used the drive meanwhile: {} was not there when you were asked",
                snapshot.drive_label("the drive")
            ),
            Self::NothingSaved => {
                f.write_str("nothing of the drive is saved yet: there is nothing to try out")
            }
            Self::NotNew => f.write_str(
                "the drive is not new: somebody has made something of that name, perhaps just now",
            ),
            Self::NameTaken { to, part } => write!(
                f,
                "there is another drive {to} now, with {part}: one of the two needs another name"
            ),
            Self::CopyFailed(copy) => {
                write!(f, "EC2 could not make {}: the copy failed", copy.drive_label("the drive"))
            }
            Self::From(head, problem) => write!(f, "--from {head}: {problem}"),
            Self::Mounted(head) => write!(
                f,
                "--from {head}: another lineage is mounted on a running instance, and is saved first"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
