//! `--from`: it chooses one of several lineages, and the others are kept as forks.

use crate::ec2::{SnapshotState, VolumeState};
use crate::ids::{Generation, VolumeId};

use super::lineage;
use super::step::{Next, Step, View, Waiting};
use crate::drive::hosts::Client;
use crate::drive::observed::{SeenSnapshot, SeenVolume};
use crate::drive::provenance::Provenance;
use crate::drive::stuck::{Head, Why};

/// The next step before `head` is the newest state; `None` if it is, or if another session uses the
/// drive.
pub(super) fn choose(view: &View, head: &Head) -> Option<Next> {
    let seen = view.seen;
    let in_use = |client: Option<&Client>| matches!(client, Some(Client::Other { .. }));
    if seen
        .instances
        .iter()
        .any(|instance| in_use(instance.client()))
    {
        return None;
    }
    let (generation, lineage, own) = match head {
        Head::Empty => (Generation::EMPTY, None, None),
        Head::Volume(id) => match seen.volume(id).filter(|volume| volume.exists()) {
            // Before other lineages are renamed for it.
            Some(volume) if volume.state == VolumeState::Error => {
                return Some(view.stuck(Why::From(head.clone(), "this volume failed")));
            }
            Some(volume) => (
                volume.generation,
                Some(&volume.id),
                Some(volume.provenance()),
            ),
            None => return Some(missing(view, head)),
        },
        Head::Snapshot(id) => {
            let Some(snapshot) = seen.snapshots.iter().find(|snapshot| snapshot.id == *id) else {
                return Some(missing(view, head));
            };
            match snapshot.state {
                SnapshotState::Completed => (
                    snapshot.generation,
                    snapshot.volume.as_ref(),
                    Some(snapshot.provenance()),
                ),
                SnapshotState::Pending => return Some(view.wait(Waiting::Copy(id.clone()))),
                SnapshotState::Error => {
                    return Some(view.stuck(Why::From(head.clone(), "this snapshot failed")));
                }
            }
        }
    };
    if !view.has_looked() {
        return Some(view.settle());
    }
    let mut forks = unreadable(view);
    let choice = Choice {
        head,
        generation,
        lineage,
        own,
        root: match head {
            Head::Snapshot(id) => seen.snapshots.iter().find(|snapshot| snapshot.id == *id),
            Head::Volume(_) | Head::Empty => None,
        },
    };
    for volume in &seen.volumes {
        if !choice.conflicts_with_volume(view, volume) {
            continue;
        }
        if volume.holder().is_some() {
            let instance = volume.holder().and_then(|id| seen.instance(id));
            return Some(match instance {
                Some(instance) if instance.is_live() => view.stuck(Why::Mounted(head.clone())),
                _ => super::recovery::release(view, volume)?,
            });
        }
        forks.push((
            volume.generation,
            Step::Fork {
                head: Head::Volume(volume.id.clone()),
                lineage: Some(volume.id.clone()),
            },
        ));
    }
    let snapshots = seen.snapshots.iter();
    let conflicting: Vec<&SeenSnapshot> =
        snapshots.filter(|it| choice.conflicts_with(it)).collect();
    // The generations of another file system are one drive's, and stay together.
    let another = conflicting
        .iter()
        .filter(|it| choice.is_of_another(it.provenance()))
        .max_by_key(|it| (it.generation, &it.id));
    for snapshot in &conflicting {
        let is_of_another = choice.is_of_another(snapshot.provenance());
        let first = another.filter(|_| is_of_another).unwrap_or(snapshot);
        forks.push((
            snapshot.generation,
            Step::Fork {
                head: Head::Snapshot(snapshot.id.clone()),
                lineage: first.volume.clone(),
            },
        ));
    }
    // The oldest first: if xdrive is killed half way, the newest is unchanged.
    forks.sort_by_key(|(generation, _)| *generation);
    let steps: Vec<Step> = forks.into_iter().map(|(_, step)| step).collect();
    (!steps.is_empty()).then_some(Next::Do(steps))
}

struct Choice<'a> {
    head: &'a Head,
    generation: Generation,
    lineage: Option<&'a VolumeId>,
    /// The file system, owner and generation that its tags record.
    own: Option<Provenance>,
    /// The chosen snapshot, if that is one.
    root: Option<&'a SeenSnapshot>,
}

impl Choice<'_> {
    fn conflicts_with(&self, snapshot: &SeenSnapshot) -> bool {
        if matches!(self.head, Head::Snapshot(id) if *id == snapshot.id) {
            return false;
        }
        if self
            .root
            .is_some_and(|root| lineage::is_stranger(root, snapshot))
        {
            return true;
        }
        let same_lineage = snapshot.volume.as_ref() == self.lineage;
        if !same_lineage && self.is_of_another(snapshot.provenance()) {
            return true;
        }
        // A checkpoint is part of its generation, and a final snapshot has more than it.
        snapshot.generation > self.generation
            || (snapshot.generation == self.generation && !same_lineage)
    }

    fn conflicts_with_volume(&self, view: &View, volume: &SeenVolume) -> bool {
        let chosen = matches!(self.head, Head::Volume(id) if *id == volume.id);
        let mine = volume.session == view.seen.me.session;
        if chosen || mine || !lineage::is_used(view.seen, volume) {
            return false;
        }
        !lineage::is_saved(view.seen, volume)
            || volume.generation > self.generation
            || self.is_of_another(volume.provenance())
    }

    /// Whether an older state is of another file system: another drive's, as it seems.
    fn is_of_another(&self, older: Provenance) -> bool {
        self.own.is_some_and(|own| own.differs_from(older))
    }
}

fn missing(view: &View, head: &Head) -> Next {
    view.stuck(Why::From(
        head.clone(),
        "this drive has no such volume or snapshot",
    ))
}

/// The forks of what cannot be parsed, which was not chosen either.
fn unreadable(view: &View) -> Vec<(Generation, Step)> {
    let head = |id: &str| match (id.parse(), id.parse()) {
        (Ok(volume), _) => Some(Head::Volume(volume)),
        (_, Ok(snapshot)) => Some(Head::Snapshot(snapshot)),
        _ => None,
    };
    view.seen
        .unreadable
        .iter()
        .filter_map(|(id, _)| head(id))
        .map(|head| {
            (
                Generation::EMPTY,
                Step::Fork {
                    head,
                    lineage: None,
                },
            )
        })
        .collect()
}
