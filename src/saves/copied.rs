//! The copy that a new drive begins with: of another drive's snapshot, or of what is no drive's.

use anyhow::anyhow;

use super::no_hosts::NoHosts;
use crate::cloud::Cloud;
use crate::drive::kept::Kept;
use crate::drive::stuck::Why;
use crate::drive::tags;
use crate::drive::{CopyOrder, CopySource, Goal, Left, Outcome};
use crate::ec2::{Ec2, Snapshot, SnapshotState};
use crate::failure::{Exit, Failure, KEY};
use crate::ids::{Generation, SnapshotId};
use crate::launch::cost::dollars;
use crate::opener::Drive;
use crate::signals::End;

/// A copy that was made.
pub(super) struct DriveCopy {
    pub(super) snapshot: SnapshotId,
    /// The generation from which its drive goes on.
    pub(super) generation: Generation,
}

/// The result of copying.
pub(super) struct Copied {
    /// The copy, unless a signal came before it.
    pub(super) copy: Option<DriveCopy>,
    /// The first signal that asked for the end.
    pub(super) asked: Option<End>,
}

/// Refuses a drive that has any part, but for the same copy that is under way.
pub(super) fn demand_new(opened: &Drive, order: &CopyOrder, of: &str) -> Result<(), Failure> {
    let (facts, drive, command) = (&opened.facts, &opened.name, &opened.cloud.command);
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

/// Makes the copy of `order` the beginning of `drive`.
pub(super) async fn copy(drive: &mut Drive, order: CopyOrder) -> Result<Copied, Failure> {
    let mut reconciler = drive.reconciler(NoHosts, drive.wanted()?, drive.progress());
    let goal = Goal::Copied(Box::new(order));
    let (outcome, asked) = drive.run(&mut reconciler, goal).await;
    let copy = match &outcome {
        Outcome::StoppedWaiting(left) => {
            return Err(not_waited_for(drive, left));
        }
        Outcome::Copied {
            snapshot,
            generation,
        } => Some(DriveCopy {
            snapshot: snapshot.clone(),
            generation: *generation,
        }),
        _ => None,
    };
    let failed = match &outcome {
        Outcome::Stuck(stuck) => match &stuck.why {
            Why::CopyFailed(copy) => Some(copy.clone()),
            _ => None,
        },
        _ => None,
    };
    if let Err(failure) = drive.report_outcome(&mut reconciler, outcome) {
        return Err(match failed {
            Some(copy) => explain_failed_copy(&drive.cloud, &copy, failure).await,
            None => failure,
        });
    }
    Ok(Copied { copy, asked })
}

/// The failure of a copy, with EC2's own words for it: it says only there that the key may not be
/// used (EBS user guide, *Copy an Amazon EBS snapshot*).
async fn explain_failed_copy(cloud: &Cloud, copy: &SnapshotId, failure: Failure) -> Failure {
    // A look that fails keeps only the reason back.
    let Ok(Some(snapshot)) = cloud.ec2.snapshot(copy).await else {
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

/// The most that a copy costs a month, in words; a look that fails keeps only that back.
pub(super) async fn most_a_month(ec2: &Ec2, copy: &SnapshotId) -> Option<String> {
    let snapshot = ec2.snapshot(copy).await.ok()??;
    let (_, most) = Kept::count(&[snapshot]).cost(ec2.storage_prices().await);
    Some(dollars(most))
}

/// Prints what the drive is a copy of, in what `place`, and how to go on.
pub(super) fn report_copy(opened: &Drive, copy: &DriveCopy, of: &str, place: &str) {
    let DriveCopy {
        snapshot,
        generation,
    } = copy;
    let (drive, command) = (&opened.name, &opened.cloud.command);
    opened.report.note(&format!(
        "{drive}{place} is a copy of {of}: {}; {command} connect {drive} goes on from \
         generation {generation}",
        snapshot.short_label()
    ));
}

/// The failure of a copy that was not waited for.
fn not_waited_for(drive: &Drive, left: &Left) -> Failure {
    let (name, command) = (&drive.name, &drive.cloud.command);
    let (error, hint) = if left.0.is_empty() {
        (
            anyhow!("stopped: nothing of {name} is known to be made"),
            format!("{command} list {name} shows what there is of it"),
        )
    } else {
        (
            anyhow!("stopped waiting: EC2 goes on with the copy"),
            format!("{command} connect {name} waits for it"),
        )
    };
    Failure::new(Exit::TryAgain, error)
        .left(drive.billed(left))
        .hint(hint)
}
