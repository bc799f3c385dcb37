//! The instances and disks of a drive that were there while a run looked, and are over since: what it has cost.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::tags;
use crate::ec2::{Instance, Volume, VolumeState};
use crate::ids::{InstanceId, VolumeId};

/// The instances and disks that were seen, and when each was over.
#[derive(Debug, Default)]
pub(super) struct Used {
    instances: BTreeMap<InstanceId, (Instance, Option<End>)>,
    volumes: BTreeMap<VolumeId, (Volume, Option<Timestamp>)>,
}

/// The end of an instance.
#[derive(Debug, Clone, Copy)]
struct End {
    at: Timestamp,
    is_known: bool,
    by_this_run: bool,
}

/// An instance that is over.
#[derive(Debug, Clone)]
pub struct EndedInstance {
    /// The instance, as it was seen last while it was live.
    pub instance: Instance,
    /// When it was over, to a few seconds; the latest time where that is not known.
    pub at: Timestamp,
    /// Whether that is known: EC2 does not say when an instance has switched itself off.
    pub is_known: bool,
    /// Whether the run itself has ended it.
    pub by_this_run: bool,
}

/// The instances and disks that are over.
#[derive(Debug, Clone, Default)]
pub struct Ended {
    /// The instances.
    pub instances: Vec<EndedInstance>,
    /// The disks, each with when it was over.
    pub volumes: Vec<(Volume, Timestamp)>,
}

impl Ended {
    /// Takes in what is known better of an instance, with whose end its disks are over.
    pub fn know(&mut self, number: usize, better: EndedInstance) {
        for (volume, at) in &mut self.volumes {
            let to = volume.attachment.as_ref();
            if to.is_some_and(|to| to.delete_on_termination && to.instance == better.instance.id) {
                *at = better.at.min(*at);
            }
        }
        self.instances[number] = better;
    }
}

impl Used {
    /// Takes in what a sweep at `now` lists, but for what this run knows to be `gone`.
    pub(super) fn look<'a>(
        &mut self,
        instances: impl Iterator<Item = &'a Instance>,
        volumes: &[Volume],
        gone: &BTreeSet<String>,
        now: Timestamp,
    ) {
        let mut live = BTreeSet::new();
        let mut ends = BTreeMap::new();
        for instance in instances {
            if instance.state.is_live() && !gone.contains(instance.id.as_str()) {
                live.insert(instance.id.clone());
                let known = self.instances.entry(instance.id.clone());
                known.insert_entry((instance.clone(), None));
            } else if let Some(at) = instance.ended {
                ends.insert(instance.id.clone(), at);
            }
        }
        for (id, (instance, end)) in &mut self.instances {
            if !live.contains(id) {
                let by_this_run = gone.contains(id.as_str());
                let told = ends.get(id).copied();
                // Without its clients it lives no longer than its lease.
                let latest = tags::until(&instance.tags).map_or(now, |until| now.min(until));
                end.get_or_insert(End {
                    at: told.unwrap_or(if by_this_run { now } else { latest }),
                    is_known: by_this_run || told.is_some(),
                    by_this_run,
                });
            }
        }
        let mut there = BTreeSet::new();
        for volume in volumes {
            let is_over = matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted);
            if !is_over && !gone.contains(volume.id.as_str()) {
                there.insert(volume.id.clone());
                let known = self.volumes.entry(volume.id.clone());
                known.insert_entry((volume.clone(), None));
            }
        }
        for (id, (_, end)) in &mut self.volumes {
            if !there.contains(id) {
                end.get_or_insert(now);
            }
        }
    }

    /// The end of a disk that goes with its instance, which EC2 may still be ending.
    fn end_with_instance(&self, volume: &Volume) -> Option<Timestamp> {
        let to = volume.attachment.as_ref();
        let to = to.filter(|to| to.delete_on_termination)?;
        let (_, end) = self.instances.get(&to.instance)?;
        end.map(|end| end.at)
    }

    /// The instances and disks that are over.
    pub(super) fn endings(&self) -> Ended {
        let instances = self.instances.values();
        let instances = instances.filter_map(|(instance, end)| {
            end.map(|end| EndedInstance {
                instance: instance.clone(),
                at: end.at,
                is_known: end.is_known,
                by_this_run: end.by_this_run,
            })
        });
        let volumes = self.volumes.values();
        let volumes = volumes.filter_map(|(volume, end)| {
            let end = end.or_else(|| self.end_with_instance(volume))?;
            Some((volume.clone(), end))
        });
        Ended {
            instances: instances.collect(),
            volumes: volumes.collect(),
        }
    }
}
