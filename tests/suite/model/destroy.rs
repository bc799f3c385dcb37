//! The last check before a resource is destroyed: the proof, against the re-read.

use std::time::Duration;

use xdrive::drive::Goal;
use xdrive::drive::plan::Step;
use xdrive::drive::proof::{HUNG, Reread};
use xdrive::ec2::InstanceState;
use xdrive::ids::SnapshotId;

use super::calls::Call;
use super::client::{At, Client, Rules};
use super::steps::{Failure, Made, Read};
use super::values::{self, number};
use super::world::World;

impl Client {
    /// The last check of a proof, and its call at once.
    pub(super) fn destroy(
        &mut self,
        step: &Step,
        read: &Read,
        world: &World,
        rules: &Rules,
    ) -> Result<Call, Result<Made, Failure>> {
        let At::Acting {
            seen, read: asked, ..
        } = &self.at
        else {
            return Err(Err(Failure::Changed));
        };
        let (now, asked) = (values::moment(world.now), values::moment(*asked));
        let now = rules
            .broken
            .map_or(now, |broken| broken.clock_of_proofs(now, asked));
        let failing = failing(step, world, rules);
        let at = Reread {
            asked,
            now,
            failing,
        };
        let gone = |listed| {
            Err(if listed {
                Ok(Made::Unneeded)
            } else {
                Err(Failure::Changed)
            })
        };
        match (step, read) {
            (Step::Terminate(quiet), Read::Instance(read, contact)) => {
                let id = number(quiet.instance().as_str());
                let Some(read) = read else {
                    let known = seen.instance(quiet.instance());
                    return gone(known.is_some_and(|instance| instance.listed));
                };
                let ended = [InstanceState::ShuttingDown, InstanceState::Terminated];
                if ended.contains(&read.state) {
                    return Err(Ok(Made::Unneeded));
                }
                let contact = match rules.broken {
                    Some(broken) => broken.answer_of_host(contact.clone()),
                    None => contact.clone(),
                };
                let read = values::instance(id, read);
                if quiet.confirm(at, &read, contact.as_ref()).is_none() {
                    return Err(Err(Failure::Changed));
                }
                Ok(Call::Terminate(id))
            }
            (Step::DeleteVolume(spent), Read::Volume(volume, snapshot)) => {
                let id = number(spent.volume().as_str());
                let Some(volume) = volume else {
                    return gone(seen.lists_volume(spent.volume()));
                };
                let snapshot = spent.snapshot().zip(snapshot.as_ref());
                let mut snapshot =
                    snapshot.map(|(id, read)| values::snapshot(number(id.as_str()), read));
                let mut volume = values::volume(id, volume);
                if let Some(broken) = rules.broken {
                    broken.distort_discarded(&mut volume, &mut snapshot);
                    if let Some(snapshot) = &mut snapshot {
                        broken.distort_read(snapshot);
                    }
                }
                if spent.confirm(at, &volume, snapshot.as_ref()).is_none() {
                    return Err(Err(Failure::Changed));
                }
                Ok(Call::DeleteVolume(id))
            }
            (Step::DeleteSnapshot(failed), Read::Volume(volume, snapshot)) => {
                let id = number(failed.snapshot().as_str());
                let Some(snapshot) = snapshot else {
                    return Err(Ok(Made::Unneeded));
                };
                let of = number(failed.volume().as_str());
                let holds = volume.as_ref().is_some_and(|volume| {
                    let snapshot = values::snapshot(id, snapshot);
                    failed
                        .confirm(at, &snapshot, &values::volume(of, volume))
                        .is_some()
                });
                if !holds {
                    return Err(Err(Failure::Changed));
                }
                Ok(Call::DeleteSnapshot(id))
            }
            (Step::Prune(superseded) | Step::Erase(superseded), Read::Snapshots(victim, by)) => {
                let id = number(superseded.snapshot().as_str());
                let Some(victim) = victim else {
                    return Err(Ok(Made::Unneeded));
                };
                let by = by.iter().map(|(id, record)| values::snapshot(*id, record));
                let by: Vec<_> = by.collect();
                let victim = values::snapshot(id, victim);
                if superseded.confirm(at, &victim, &by).is_none() {
                    return Err(Err(Failure::Changed));
                }
                Ok(match step {
                    Step::Erase(_) => Call::Erase(id, self.was_shown(superseded.snapshot())),
                    _ => Call::DeleteSnapshot(id),
                })
            }
            _ => Err(Err(Failure::Changed)),
        }
    }

    /// Whether the user who deletes the drive was shown this snapshot.
    fn was_shown(&self, id: &SnapshotId) -> bool {
        matches!(&self.goal, Goal::Deleted { shown } if shown.contains(id))
    }
}

/// For how long EC2's own check of an instance that is to be terminated has failed.
fn failing(step: &Step, world: &World, rules: &Rules) -> Option<Duration> {
    let Step::Terminate(quiet) = step else {
        return None;
    };
    let id = number(quiet.instance().as_str());
    world.is_hung(id, rules).then_some(HUNG)
}
