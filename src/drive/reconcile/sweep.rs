//! One ordered look: instances, their own words, volumes, snapshots; never in parallel.
//!
//! Data moves from a mounted volume to a snapshot, so what is read later shows at least what was
//! there when the earlier was read. What this process made and the lists do not show yet is read
//! by id.

use std::collections::BTreeSet;

use crate::clock::BootTime;
use crate::ec2::{self, InstanceState};

use super::super::hosts::{Contact, Hosts};
use super::super::memory::Sweep;
use super::super::observed::Observed;
use super::Reconciler;

impl<H: Hosts> Reconciler<H> {
    /// Looks once.
    pub(super) async fn sweep(&mut self) -> Result<Observed, ec2::Error> {
        let drive = self.drive.as_str();
        let (began, wall) = (self.clock.boot(), self.clock.now());
        let mut unlisted = BTreeSet::new();

        let mut listed = self.ec2.instances(drive).await?;
        for (id, (made, at)) in self.memory.instances.clone() {
            if listed.iter().any(|instance| instance.id == id) {
                continue;
            }
            match self.ec2.instance(&id).await? {
                Some(instance) => listed.push(instance),
                None if self.is_young(at) => listed.push(made),
                None => {
                    self.memory.instances.remove(&id);
                    continue;
                }
            }
            unlisted.insert(id.to_string());
        }
        let mut instances = Vec::new();
        for instance in listed {
            let ended = self.memory.gone.contains(instance.id.as_str());
            let may_answer =
                instance.state == InstanceState::Running && instance.address.is_some() && !ended;
            let contact = if may_answer {
                self.hosts.contact(&instance).await
            } else {
                Contact::NotAsked
            };
            instances.push((instance, contact));
        }

        let proven = self.clock.boot();
        let drive = self.drive.as_str();
        let mut volumes = self.ec2.volumes(drive).await?;
        for (id, (made, at)) in self.memory.volumes.clone() {
            if volumes.iter().any(|volume| volume.id == id) {
                continue;
            }
            match self.ec2.volume(&id).await? {
                Some(volume) => volumes.push(volume),
                None if self.is_young(at) => volumes.push(made),
                None => {
                    self.memory.volumes.remove(&id);
                    continue;
                }
            }
            unlisted.insert(id.to_string());
        }

        let mut snapshots = self.ec2.snapshots(self.drive.as_str()).await?;
        for (id, (made, at)) in self.memory.snapshots.clone() {
            if snapshots.iter().any(|snapshot| snapshot.id == id) {
                continue;
            }
            match self.ec2.snapshot(&id).await? {
                Some(snapshot) => snapshots.push(snapshot),
                None if self.is_young(at) => snapshots.push(made),
                None => {
                    self.memory.snapshots.remove(&id);
                }
            }
        }

        self.seen_instances = instances
            .iter()
            .map(|(instance, _)| (instance.id.clone(), instance.clone()))
            .collect();
        let sweep = Sweep {
            began,
            wall,
            proven,
            instances,
            volumes,
            snapshots,
            unlisted,
        };
        Ok(self.memory.observe(sweep, &self.limits))
    }

    /// Whether a thing made then may be missing although it is there.
    fn is_young(&self, made: BootTime) -> bool {
        self.clock.boot().since(made) <= self.limits.settle
    }
}
