//! `fork` and `copy`: a new drive that begins with a copy of a snapshot, without an instance.

use anyhow::anyhow;

use super::copied::{copy, demand_new, most_a_month, report_copy};
use crate::cloud::Cloud;
use crate::drive::reconcile::is_left;
use crate::drive::tags::{self, SnapshotKind};
use crate::drive::{CopyOrder, CopySource};
use crate::ec2::{Snapshot, SnapshotState, Volume};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveAt, DriveIn, Generation, SnapshotId};
use crate::opener::{Drive, Ending, Listing, Opening, demand_fork};
use crate::report::Report;

/// The order for a copy, and what that is a copy of.
pub(crate) struct Found {
    order: CopyOrder,
    of: DriveAt,
    /// The bytes that are used of it, if EC2 says so.
    used: Option<u64>,
}

impl Found {
    /// The copy that a worker begins with, on the drive of `opening`. `false` if a former worker has left
    /// another one there, which has to go first.
    pub(crate) async fn begin_worker(
        &self,
        opening: Opening,
        cloud: Cloud,
    ) -> Result<bool, Failure> {
        let mut drive = Drive::open(opening, cloud).await?;
        let of = self.of.to_string();
        let snapshots = &drive.facts.snapshots;
        let is_workers = |it: &Snapshot| tags::worker_of(&it.tags).as_ref() == Some(&self.of.name);
        let is_same = |it: &Snapshot| {
            it.state == SnapshotState::Completed && tags::forked_from(&it.tags) == Some(&of)
        };
        if !snapshots.is_empty() && snapshots.iter().all(is_workers) {
            return Ok(snapshots.iter().all(is_same));
        }
        let mut order = self.order.clone();
        let leader = self.of.name.to_string();
        order.tags.insert(tags::WORKER_OF.to_owned(), leader);
        demand_new(&drive, &order, &of)?;
        match copy(&mut drive, order).await?.asked {
            None => Ok(true),
            Some(end) => Err(Failure::new(Exit::from(end), anyhow!("interrupted"))),
        }
    }
}

/// Makes `drive`, which must be new, of the copy that was ordered. Returns the exit code.
pub(crate) async fn fork(mut drive: Drive, found: Found) -> Result<u8, Failure> {
    let here = drive.cloud.ec2.region().to_owned();
    let Found { order, of, used } = found;
    let of = of.to_string();
    demand_new(&drive, &order, &of)?;
    let is_afar = order.region != here;
    let is_now = matches!(order.source, CopySource::Volume(_));
    if is_afar {
        let most = used.map_or_else(String::new, |used| {
            format!(" of at most {} GiB", used.div_ceil(1 << 30))
        });
        drive.report.print(&format!(
            "EC2 copies the data from {} to {here}, and bills its transfer{most}; Ctrl-C ends the \
             waiting alone, the copy goes on",
            order.region
        ));
    }
    let copied = copy(&mut drive, order).await?;
    if let Some(copy) = &copied.copy {
        let place = if is_afar {
            format!(" in {here}")
        } else {
            String::new()
        };
        report_copy(&drive, copy, &of, &place);
        if is_now {
            report_cost(&drive, &of, &copy.snapshot).await;
        }
    }
    copied.asked.map_or(Ending::Exit(0), Ending::Asked).code()
}

/// Prints what a copy of the drive `of` as it is now costs a month.
async fn report_cost(drive: &Drive, of: &str, copy: &SnapshotId) {
    if let Some(most) = most_a_month(&drive.cloud.ec2, copy).await {
        drive.report.note(&format!(
            "it costs what differs from the saves of {of}, at most {most} a month"
        ));
    }
}

/// Makes the drive of `opening` as a fork of `of`, unless it is there. Fails where the name is another
/// drive's. Returns the exit code.
pub(crate) async fn fork_once(opening: Opening, cloud: Cloud, of: DriveAt) -> Result<u8, Failure> {
    let (drive, command) = (&opening.place.drive, &cloud.command);
    let listing = Listing::read(&cloud.ec2, drive).await?;
    demand_fork(drive, &listing.volumes, &listing.snapshots, &of, &cloud).await?;
    let words = format!(
        "this works on {drive}, a fork of {of}, which is unchanged; from now on: {command} connect \
         {drive}"
    );
    Report::stderr().print(&words);
    let is_pending = |it: &Snapshot| it.state == SnapshotState::Pending;
    let is_there = listing.instances.iter().any(|it| it.state.is_live())
        || listing.volumes.iter().any(is_left)
        || listing.snapshots.iter().any(|it| !is_pending(it));
    if is_there {
        return Ok(0);
    }
    let place = DriveIn {
        drive: of.name,
        container: None,
    };
    let original = Opening {
        place,
        ..opening.clone()
    };
    let original = Drive::open(original, cloud.clone()).await?;
    let found = find(&original, of.generation)?;
    fork(Drive::open(opening, cloud).await?, found).await
}

/// The order for a snapshot of the `volume` of `original`, on which that is up, as a new drive.
pub(crate) fn find_now(original: &Drive, volume: &Volume) -> Result<Found, Failure> {
    let name = &original.name;
    let copy = tags::fork_now(&volume.tags, &volume.id, name);
    let (own, tags) = copy.map_err(|error| Failure::new(Exit::Failed, error))?;
    let order = CopyOrder {
        region: original.cloud.ec2.region().to_owned(),
        source: CopySource::Volume(volume.id.clone()),
        op: own.op,
        tags,
    };
    let of = DriveAt {
        name: name.clone(),
        generation: Some(own.generation),
    };
    Ok(Found {
        order,
        of,
        used: None,
    })
}

/// The order for a copy of that `generation` of `original`; without one of the newest.
pub(crate) fn find(original: &Drive, generation: Option<Generation>) -> Result<Found, Failure> {
    let found = original.find_saved(generation)?;
    let (name, generation) = (original.name.clone(), found.generation);
    let of = DriveAt {
        name,
        generation: Some(generation),
    };
    let mut snapshots = original.facts.snapshots.iter();
    let source = snapshots.find(|snapshot| snapshot.id == found.snapshot);
    let used = source.and_then(|snapshot| snapshot.full_size);
    let source = source.map(|snapshot| &snapshot.tags);
    let copy = tags::fork(&source.cloned().unwrap_or_default(), &found.snapshot, &of);
    let (own, tags) = copy.map_err(|error| Failure::new(Exit::Failed, error))?;
    let name = &of.name;
    if own.kind == SnapshotKind::Crashed {
        original.report.print(&format!(
            "the host of generation {generation} of {name} vanished: this is what its volume held"
        ));
    }
    if original.facts.host.is_some() {
        original.report.print(&format!(
            "{name} is up: the copy has generation {generation}, and nothing that changed since"
        ));
    }
    let order = CopyOrder {
        region: original.cloud.ec2.region().to_owned(),
        source: CopySource::Snapshot(found.snapshot),
        op: own.op,
        tags,
    };
    Ok(Found { order, of, used })
}
