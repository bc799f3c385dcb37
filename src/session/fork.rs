//! `fork` and `copy`: a new drive that begins with a copy of a snapshot, without an instance.

use anyhow::anyhow;

use super::ending::Ending;
use super::lookup::Listing;
use super::preflight::DriveFacts;
use super::request::Request;
use super::state::{Session, begin};
use crate::cloud::Cloud;
use crate::drive::reconcile::is_left;
use crate::drive::stuck::Why;
use crate::drive::tags::{self, SnapshotKind, SnapshotTags, VolumeTags};
use crate::drive::{CopyOrder, CopySource};
use crate::drive::{Goal, Outcome};
use crate::ec2::{Snapshot, SnapshotState, Tags, Volume};
use crate::failure::{Exit, Failure, KEY};
use crate::ids::{DriveAt, DriveName, Generation, SnapshotId, Uuid};
use crate::report::Report;
use crate::signals::End;
use crate::ssh::UserKey;

/// What a new drive is a copy of.
pub(crate) struct Original {
    /// The drive, and the generation; without one the newest.
    pub(crate) of: DriveAt,
    /// Where that is.
    pub(crate) cloud: Cloud,
}

/// Makes the drive of `request`, which must be new, of a copy of `original`. Returns the exit code.
pub(crate) async fn fork(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    original: Original,
) -> Result<u8, Failure> {
    let here = cloud.ec2.region().to_owned();
    let of = Request {
        drive: original.of.name.clone(),
        ..request.clone()
    };
    let (order, of) = find(of, original, key.clone()).await?;
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let of = of.to_string();
    session.demand_new(&facts, &order, &of)?;
    let is_afar = order.region != here;
    if is_afar {
        session.report.print(&format!(
            "EC2 copies the data from {} to {here}, and bills its transfer; Ctrl-C ends the \
             waiting alone, the copy goes on",
            order.region
        ));
    }
    let (copied, asked) = session.copy_to(order).await?;
    if let Some(copied) = copied {
        let place = if is_afar {
            format!(" in {here}")
        } else {
            String::new()
        };
        session.report_copy(&copied, &of, &place);
    }
    Session::code(asked.map_or(Ending::Exit(0), Ending::Asked))
}

/// Makes the drive of `request` as a fork of `of`, unless it is there. Fails where the name is another
/// drive's. Returns the exit code.
pub(crate) async fn fork_once(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    of: DriveAt,
) -> Result<u8, Failure> {
    let (drive, command) = (&request.drive, &cloud.command);
    let listing = Listing::of(&cloud.ec2, drive).await?;
    let parts = (&*listing.volumes, &*listing.snapshots);
    demand_fork(drive, parts, &of, &cloud).await?;
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
    let original = Original {
        of,
        cloud: cloud.clone(),
    };
    fork(request, cloud, key, original).await
}

/// Fails if the drive of these parts is known not to be a fork of `of`: anybody may have made a drive of
/// that name, or a fork of something else. Where nothing is recorded it is taken for one.
pub(super) async fn demand_fork(
    drive: &DriveName,
    (volumes, snapshots): (&[Volume], &[Snapshot]),
    of: &DriveAt,
    cloud: &Cloud,
) -> Result<(), Failure> {
    let volumes = volumes.iter().filter(|it| is_left(it));
    let volumes: Vec<&Tags> = volumes.map(|it| &it.tags).collect();
    let snapshots: Vec<&Tags> = snapshots.iter().map(|it| &it.tags).collect();
    if volumes.is_empty() && snapshots.is_empty() {
        return Ok(());
    }
    let originals = cloud.ec2.snapshots(&of.name).await?;
    let originals: Vec<&Tags> = originals.iter().map(|it| &it.tags).collect();
    if may_be_fork(&volumes, &snapshots, of, &originals) {
        return Ok(());
    }
    let command = &cloud.command;
    let error = anyhow!("there is a drive {drive} already, and it is no fork of {of}");
    let hint = format!(
        "{command} connect {drive} opens that one, {command} fork {of} ANOTHER makes a fork"
    );
    Err(Failure::new(Exit::Usage, error).hint(hint))
}

/// Whether the tags of a drive's parts allow that it began as a fork of `of`, whose drive has the
/// snapshots `originals`. Only the copy that a fork begins with has the record, and it may be deleted.
fn may_be_fork(volumes: &[&Tags], snapshots: &[&Tags], of: &DriveAt, originals: &[&Tags]) -> bool {
    let recorded = snapshots.iter().filter_map(|it| tags::forked_from(it));
    let recorded: Vec<&str> = recorded.collect();
    let name = of.to_string();
    let is_recorded =
        !snapshots.iter().any(|it| tags::is_copy(it)) || recorded.contains(&name.as_str());
    // A fork goes on from the generation of its original.
    let first = of.generation.unwrap_or_default();
    let read = |it: &&Tags| tags::read_snapshot(it).ok();
    let own: Vec<SnapshotTags> = snapshots.iter().filter_map(read).collect();
    let is_later = own.iter().all(|it| it.generation >= first)
        && volumes.iter().all(|it| match tags::read_volume(it) {
            Ok(VolumeTags::Drive { base, .. } | VolumeTags::Throwaway { base, .. }) => {
                base >= first
            }
            Ok(VolumeTags::Root) | Err(_) => true,
        });
    // Another drive may have had the original's name.
    let originals = originals.iter().filter_map(read);
    let originals = originals.filter(|it| it.generation == first);
    let known: Vec<Uuid> = originals.filter_map(|it| it.uuid).collect();
    let own = own.iter().find_map(|it| it.uuid);
    let is_same = own.is_none_or(|own| known.is_empty() || known.contains(&own));
    is_recorded && is_later && is_same
}

/// The order for a copy of `original`, and what that is a copy of.
async fn find(
    request: Request,
    original: Original,
    key: UserKey,
) -> Result<(CopyOrder, DriveAt), Failure> {
    let Original { of, cloud } = original;
    let region = cloud.ec2.region().to_owned();
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let found = session.find_saved(&facts, of.generation)?;
    let of = DriveAt {
        generation: Some(found.generation),
        ..of
    };
    let mut snapshots = facts.snapshots.iter();
    let source = snapshots.find(|snapshot| snapshot.id == found.snapshot);
    let source = source.map(|snapshot| &snapshot.tags);
    let copy = tags::fork(&source.cloned().unwrap_or_default(), &found.snapshot, &of);
    let (own, tags) = copy.map_err(|error| Failure::new(Exit::Failed, error))?;
    let (name, generation) = (&of.name, found.generation);
    if own.kind == SnapshotKind::Crashed {
        session.report.print(&format!(
            "the host of generation {generation} of {name} vanished: this is what its volume held"
        ));
    }
    if facts.host.is_some() {
        session.report.print(&format!(
            "{name} is up: the copy has generation {generation}, and nothing that changed since"
        ));
    }
    let order = CopyOrder {
        region,
        source: CopySource::Snapshot(found.snapshot),
        op: own.op,
        tags,
    };
    Ok((order, of))
}

impl Session {
    /// Refuses a drive that has any part, but for the same copy that is under way.
    pub(super) fn demand_new(
        &self,
        facts: &DriveFacts,
        order: &CopyOrder,
        of: &str,
    ) -> Result<(), Failure> {
        let (drive, command) = (&self.request.drive, &self.cloud.command);
        // The copy of a volume is looked into once it is completed.
        let is_of_volume = matches!(order.source, CopySource::Volume(_));
        let is_begun = |snapshot: &Snapshot| {
            (snapshot.state == SnapshotState::Pending || is_of_volume)
                && tags::read_snapshot(&snapshot.tags).is_ok_and(|own| own.op == order.op)
        };
        let is_new = facts.host.is_none()
            && facts.volumes_left().next().is_none()
            && facts.snapshots.iter().all(is_begun);
        if is_new {
            return Ok(());
        }
        let from = facts.snapshots.iter();
        let from = from.filter_map(|snapshot| tags::forked_from(&snapshot.tags));
        let (error, hint) = if from.clone().any(|from| from == of) {
            (
                anyhow!("there is a drive {drive} already, a copy of {of}"),
                format!("{command} connect {drive} goes on with it"),
            )
        } else {
            (
                anyhow!("there is a drive {drive} already"),
                format!("another name, or {command} delete {drive}"),
            )
        };
        Err(Failure::new(Exit::Usage, error).hint(hint))
    }

    /// Makes the copy. Returns it with its generation, and the first signal that asked for the end.
    pub(super) async fn copy_to(
        &mut self,
        order: CopyOrder,
    ) -> Result<(Option<(SnapshotId, Generation)>, Option<End>), Failure> {
        let (outcome, asked) = self.run(Goal::Copied(Box::new(order))).await;
        let copied = match &outcome {
            Outcome::StoppedWaiting(left) => {
                let (drive, command) = (&self.request.drive, &self.cloud.command);
                return Err(stopped(drive, left.clone(), command));
            }
            Outcome::Copied {
                snapshot,
                generation,
            } => Some((snapshot.clone(), *generation)),
            _ => None,
        };
        let failed = match &outcome {
            Outcome::Stuck(stuck) => match &stuck.why {
                Why::CopyFailed(copy) => Some(copy.clone()),
                _ => None,
            },
            _ => None,
        };
        if let Err(failure) = self.report_outcome(outcome) {
            return Err(match failed {
                Some(copy) => self.explain_failed_copy(&copy, failure).await,
                None => failure,
            });
        }
        Ok((copied, asked))
    }

    /// The failure of a copy, with EC2's own words for it: it says only there that the key may not be
    /// used (EBS user guide, *Copy an Amazon EBS snapshot*).
    async fn explain_failed_copy(&self, copy: &SnapshotId, failure: Failure) -> Failure {
        // A look that fails keeps only the reason back.
        let Ok(Some(snapshot)) = self.cloud.ec2.snapshot(copy).await else {
            return failure;
        };
        if snapshot.message.is_empty() {
            return failure;
        }
        let is_key = snapshot.message.to_lowercase().contains("key");
        let way_out = failure.hint.as_deref().unwrap_or_default();
        let hint = is_key.then(|| format!("{KEY}; then: {way_out}"));
        Failure {
            error: anyhow!("{}: {}", failure.error, snapshot.message),
            hint: hint.or_else(|| failure.hint.clone()),
            ..failure
        }
    }

    /// Says what the drive is a copy of, and how to go on.
    pub(super) fn report_copy(
        &self,
        (snapshot, generation): &(SnapshotId, Generation),
        of: &str,
        place: &str,
    ) {
        let (drive, command) = (&self.request.drive, &self.cloud.command);
        self.report.note(&format!(
            "{drive}{place} is a copy of {of}: {}; {command} connect {drive} goes on from \
             generation {generation}",
            snapshot.its()
        ));
    }
}

/// The failure of a copy that was not waited for.
fn stopped(drive: &DriveName, left: crate::drive::Left, command: &str) -> Failure {
    let (error, hint) = if left.0.is_empty() {
        (
            anyhow!("stopped: nothing of {drive} is known to be made"),
            format!("{command} list {drive} shows what there is of it"),
        )
    } else {
        (
            anyhow!("stopped waiting: EC2 goes on with the copy"),
            format!("{command} connect {drive} waits for it"),
        )
    };
    Failure::new(Exit::TryAgain, error).left(left).hint(hint)
}
