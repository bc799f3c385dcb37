//! `delete`: all of a drive, or the save of one of its generations.
//!
//! Nothing here decides what may be destroyed: a whole drive goes by the plan, and a generation as `gc`
//! prunes it.

use std::pin::pin;

use anyhow::anyhow;

use super::leaving::{demand_rest, leave_name, stop_failure};
use super::no_hosts::NoHosts;
use crate::drive::Goal;
use crate::drive::kept::Kept;
use crate::drive::tags;
use crate::ec2::{Snapshot, StoragePrices};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, Generation, SnapshotId};
use crate::launch::cost::dollars;
use crate::opener::{Drive, Ending, ask_name, can_ask, run_failure};

/// The part of a drive that is deleted.
pub(crate) enum Deletion {
    /// The drive.
    Whole,
    /// The save of a generation, which later ones have superseded.
    Of(Generation),
}

/// Deletes the drive, or one of its saves. It must have neither instance nor volume.
/// Returns the exit code.
pub(crate) async fn delete(drive: Drive, what: Deletion) -> Result<u8, Failure> {
    demand_rest(&drive)?;
    match what {
        Deletion::Whole => delete_whole(drive).await,
        Deletion::Of(generation) => delete_generation(drive, generation).await,
    }
}

async fn delete_whole(mut drive: Drive) -> Result<u8, Failure> {
    let (name, snapshots, backups) = (
        drive.name.clone(),
        &drive.facts.snapshots,
        &drive.facts.backups,
    );
    let is_fork = |it: &Snapshot| tags::is_copy(&it.tags);
    let shares = snapshots.iter().any(is_fork);
    let prices = drive.cloud.ec2.storage_prices().await;
    drive.report.print(&goes(&name, snapshots, shares, prices));
    if !backups.is_empty() {
        drive.report.print(&stays(backups));
    }
    let shown = snapshots.iter().map(|it| it.id.clone()).collect();
    let question = format!("type {name} to delete it for good:");
    demand_yes(&mut drive, &question, name.as_str()).await?;
    let same = format!("delete {name}");
    let done = format!(
        "{name} is deleted; where the account has a Recycle Bin rule for snapshots, they can be had \
         back from there"
    );
    leave_name(&mut drive, Goal::Deleted { shown }, &same, &done).await
}

async fn delete_generation(mut drive: Drive, generation: Generation) -> Result<u8, Failure> {
    let (name, command) = (drive.name.clone(), drive.cloud.command.clone());
    let is_of = |snapshot: &&Snapshot| {
        tags::read_snapshot(&snapshot.tags).is_ok_and(|it| it.generation == generation)
    };
    let snapshots = &drive.facts.snapshots;
    let those: Vec<Snapshot> = snapshots.iter().filter(is_of).cloned().collect();
    if those.is_empty() {
        let error = anyhow!("{name} has no snapshot of generation {generation}");
        let hint = format!("{command} log {name} shows those that it has");
        return Err(Failure::new(Exit::Unavailable, error).hint(hint));
    }
    let newest = tags::newest(snapshots.iter(), |snapshot| &snapshot.tags);
    if newest.is_some_and(|(newest, _)| newest == generation) {
        let error = anyhow!("generation {generation} is the newest of {name}");
        let hint = format!("{command} delete {name} deletes the whole drive");
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    // The newest stays.
    let prices = drive.cloud.ec2.storage_prices().await;
    drive.report.print(&goes(&name, &those, true, prices));
    let question = format!("type {generation} to delete that for good:");
    demand_yes(&mut drive, &question, &generation.to_string()).await?;
    let mut reconciler = drive.reconciler(NoHosts, drive.wanted()?, drive.progress());
    let mut gone: Vec<SnapshotId> = Vec::new();
    let mut asked = None;
    let goes_on = || {
        asked = asked.or(drive.signals.asked());
        asked.is_none()
    };
    let pruning = reconciler.prune((1, Some(generation)), &mut gone, goes_on);
    pin!(pruning).await.map_err(run_failure)?;
    for id in &gone {
        let deleted = id.drive_label(&name);
        drive
            .report
            .note(&format!("deleted {deleted}, generation {generation}"));
    }
    match asked {
        Some(_) if gone.len() < those.len() => {
            let same = format!("delete {name}@{generation}");
            Err(stop_failure(&drive.cloud, &same))
        }
        Some(end) => Ending::Asked(end).code(),
        None if gone.is_empty() => {
            let error = anyhow!("no snapshot of generation {generation} could be deleted");
            let hint = format!("{command} list {name} -v shows what there is of {name}");
            Err(Failure::new(Exit::Failed, error).hint(hint))
        }
        None => Ok(0),
    }
}

/// Fails unless the user types `word`, or has said yes to everything.
async fn demand_yes(drive: &mut Drive, question: &str, word: &str) -> Result<(), Failure> {
    if drive.answers_yes() {
        return Ok(());
    }
    if !can_ask() {
        let error = anyhow!("nothing is deleted without a yes, and nobody can be asked here");
        return Err(Failure::new(Exit::Usage, error).hint("--yes answers"));
    }
    let exit = match ask_name(&mut drive.signals, &drive.report, question, word).await {
        Ok(true) => return Ok(()),
        Ok(false) => Exit::Interrupted,
        Err(end) => Exit::from(end),
    };
    Err(Failure::new(exit, anyhow!("nothing was deleted")))
}

/// The sentence that says which snapshots are deleted, and how much a month that saves. With
/// `shares`, blocks are shared with snapshots that stay, and it is less.
fn goes(drive: &DriveName, snapshots: &[Snapshot], shares: bool, prices: StoragePrices) -> String {
    let of = |snapshot: &Snapshot| Some(tags::read_snapshot(&snapshot.tags).ok()?.generation);
    let generations = || snapshots.iter().filter_map(of);
    let which = match (generations().min(), generations().max()) {
        (Some(first), Some(last)) if first < last => format!(" of generations {first} to {last}"),
        (Some(only), _) => format!(" of generation {only}"),
        _ => String::new(),
    };
    let kept = Kept::count(snapshots);
    let (count, goes) = match snapshots.len() {
        1 => ("1 snapshot".to_owned(), "goes"),
        count => (format!("{count} snapshots"), "go"),
    };
    let (least, most) = kept.cost(prices);
    let cost = match least {
        Some(least) if least.cents() == most.cents() && !shares => {
            format!("about {}", dollars(most))
        }
        _ => format!("at most {}", dollars(most)),
    };
    format!("{drive}: {count}{which} {goes}; that frees {cost} a month")
}

/// The sentence on backups that xdrive did not make, and that stay.
fn stays(backups: &[Snapshot]) -> String {
    let ids: Vec<&str> = backups.iter().map(|it| it.id.as_str()).collect();
    format!(
        "somebody else's backups of it stay, and are billed as theirs: {}",
        ids.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2::{SnapshotState, Tags};

    fn snapshot(generation: u64) -> Snapshot {
        let tags = [
            (tags::GENERATION, generation.to_string()),
            (tags::KIND, "clean".to_owned()),
            (tags::OP, "an-op".to_owned()),
        ];
        let tags: Tags = tags.map(|(key, value)| (key.to_owned(), value)).into();
        Snapshot {
            id: "snap-1".parse().unwrap(),
            state: SnapshotState::Completed,
            volume: None,
            size: 20,
            full_size: Some(10 << 30),
            started: jiff::Timestamp::UNIX_EPOCH,
            message: String::new(),
            tags,
        }
    }

    #[test]
    fn the_deleted_snapshots_are_named_with_the_money_that_this_saves() {
        let demo: DriveName = "demo".parse().unwrap();
        assert_eq!(
            goes(
                &demo,
                &[snapshot(11), snapshot(12)],
                false,
                StoragePrices::default()
            ),
            "demo: 2 snapshots of generations 11 to 12 go; that frees at most $1.00 a month"
        );
        assert_eq!(
            goes(&demo, &[snapshot(3)], false, StoragePrices::default()),
            "demo: 1 snapshot of generation 3 goes; that frees about $0.50 a month"
        );
        // Others have some of its blocks.
        assert_eq!(
            goes(&demo, &[snapshot(3)], true, StoragePrices::default()),
            "demo: 1 snapshot of generation 3 goes; that frees at most $0.50 a month"
        );
    }
}
