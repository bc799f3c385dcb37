//! A sweep in order: instances and their hosts, volumes, snapshots; never in parallel.
//!
//! Data moves from a mounted volume to a snapshot, so what is read later shows at least what was
//! there when the earlier was read. What this process made and the lists do not show yet is read
//! by id; so is what it waits for, since lists lag behind that too.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::clock::BootTime;
use crate::ec2::{self, AttachmentState, Instance, InstanceState, Volume};
use crate::host::Mounted;
use crate::ids::InstanceId;

use super::super::hosts::{Client, Contact, HostView, Hosts};
use super::super::kept::Kept;
use super::super::observed::Observed;
use super::super::tags;
use super::{Holder, Reconciler};
use crate::drive::overlay::Sweep;

/// The result of a sweep that stops at a session to join.
pub(super) enum Look {
    /// The whole sweep.
    Whole(Box<Observed>),
    /// Another live client has the drive mounted, by its host's report: nothing else was read.
    InUse(Holder),
}

/// The first half of a sweep.
struct Begun {
    began: BootTime,
    wall: Timestamp,
    instances: Vec<(Instance, Contact)>,
    unlisted: BTreeSet<String>,
}

impl<H: Hosts> Reconciler<H> {
    /// Sweeps once.
    pub(super) async fn sweep(&mut self) -> Result<Observed, ec2::Error> {
        let begun = self.instances().await?;
        self.storage(begun).await
    }

    /// Sweeps once, and stops after the hosts if there is a session to join. The only consequence
    /// is to join as a guest, who mounts, attaches, launches and ends nothing: no list needs to be
    /// settled for it.
    pub(super) async fn look_for_session(&mut self) -> Result<Look, ec2::Error> {
        let begun = self.instances().await?;
        if let Some(holder) = leader(&begun.instances) {
            return Ok(Look::InUse(holder));
        }
        Ok(Look::Whole(Box::new(self.storage(begun).await?)))
    }

    /// Reads the instances and contacts their hosts.
    async fn instances(&mut self) -> Result<Begun, ec2::Error> {
        let (began, wall) = (self.clock.boot(), self.clock.now());
        let mut unlisted = BTreeSet::new();

        let mut listed = self.ec2.instances(&self.drive).await?;
        for (id, (made, at)) in self.overlay.instances.clone() {
            if let Some(instance) = listed.iter_mut().find(|instance| instance.id == id) {
                self.refresh_instance(instance).await?;
                continue;
            }
            match self.ec2.instance(&id).await? {
                Some(instance) => listed.push(instance),
                None if self.is_young(at) => listed.push(made),
                None => {
                    self.overlay.instances.remove(&id);
                    continue;
                }
            }
            unlisted.insert(id.to_string());
        }
        let mut instances = Vec::new();
        for instance in listed {
            let ended = self.overlay.gone.contains(instance.id.as_str());
            let has_address = instance.address.is_some() || instance.ipv6.is_some();
            let may_answer = instance.state == InstanceState::Running && has_address && !ended;
            let contact = if may_answer {
                self.hosts.contact(&instance).await
            } else {
                Contact::NotAsked
            };
            if contact == Contact::Unreachable {
                self.check(&instance.id).await?;
            } else {
                self.overlay.checks.remove(&instance.id);
            }
            instances.push((instance, contact));
        }
        Ok(Begun {
            began,
            wall,
            instances,
            unlisted,
        })
    }

    /// Reads the volumes, then the snapshots, after the instances.
    async fn storage(&mut self, begun: Begun) -> Result<Observed, ec2::Error> {
        let Begun {
            began,
            wall,
            instances,
            mut unlisted,
        } = begun;
        let stored = self.clock.boot();
        let mut volumes = self.ec2.volumes(&self.drive).await?;
        for (id, (made, at)) in self.overlay.volumes.clone() {
            if volumes.iter().any(|volume| volume.id == id) {
                continue;
            }
            match self.ec2.volume(&id).await? {
                Some(volume) => volumes.push(volume),
                None if self.is_young(at) => volumes.push(made),
                None => {
                    // EC2 forgets a volume that it could not make.
                    if !self.overlay.gone.contains(id.as_str()) {
                        self.overlay.me.failed.insert(id.clone());
                    }
                    self.overlay.volumes.remove(&id);
                    continue;
                }
            }
            unlisted.insert(id.to_string());
        }
        for volume in &mut volumes {
            self.refresh_volume(volume).await?;
        }

        let mut snapshots = self.ec2.snapshots(&self.drive).await?;
        for (id, (made, at)) in self.overlay.snapshots.clone() {
            if snapshots.iter().any(|snapshot| snapshot.id == id) {
                continue;
            }
            match self.ec2.snapshot(&id).await? {
                Some(snapshot) => snapshots.push(snapshot),
                None if self.is_young(at) => snapshots.push(made),
                None => {
                    self.overlay.snapshots.remove(&id);
                }
            }
        }

        self.seen_instances = instances
            .iter()
            .map(|(instance, _)| (instance.id.clone(), instance.clone()))
            .collect();
        let gone = &self.overlay.gone;
        let listed = instances.iter().map(|(instance, _)| instance);
        self.used.look(listed, &volumes, gone, self.clock.now());
        let stay = snapshots.iter().filter(|it| !gone.contains(it.id.as_str()));
        self.kept = Kept::count(stay);
        let sweep = Sweep {
            began,
            wall,
            stored,
            instances,
            volumes,
            snapshots,
            unlisted,
        };
        Ok(self.overlay.observe(sweep, &self.timing))
    }

    /// Reads an instance by id that the list has as pending: it may run by now.
    async fn refresh_instance(&self, instance: &mut Instance) -> Result<(), ec2::Error> {
        if instance.state != InstanceState::Pending {
            return Ok(());
        }
        if let Some(read) = self.ec2.instance(&instance.id).await?
            && read.state != InstanceState::Pending
        {
            let tags = std::mem::take(&mut instance.tags);
            *instance = Instance { tags, ..read };
        }
        Ok(())
    }

    /// Reads a volume by id that this process attaches: it may be attached by now.
    async fn refresh_volume(&self, volume: &mut Volume) -> Result<(), ec2::Error> {
        let moved = self.overlay.moves.get(&volume.id);
        let Some((AttachmentState::Attaching, to, _)) = moved else {
            return Ok(());
        };
        if is_attached(volume, to) {
            return Ok(());
        }
        if let Some(read) = self.ec2.volume(&volume.id).await?
            && is_attached(&read, to)
        {
            volume.state = read.state;
            volume.attachment = read.attachment;
        }
        Ok(())
    }

    /// Whether a thing made then may exist although EC2 does not know it.
    fn is_young(&self, made: BootTime) -> bool {
        self.clock.boot().since(made) <= self.timing.settle
    }
}

fn is_attached(volume: &Volume, to: &InstanceId) -> bool {
    let attachment = volume.attachment.as_ref();
    attachment.is_some_and(|it| it.state == AttachmentState::Attached && it.instance == *to)
}

/// The session that has the drive, if the only live instance has it mounted for another client.
fn leader(instances: &[(Instance, Contact)]) -> Option<Holder> {
    let mut live = instances.iter().filter(|(it, _)| it.state.is_live());
    let (Some((instance, contact)), None) = (live.next(), live.next()) else {
        return None;
    };
    let Contact::Reached(HostView {
        client: Client::Other { owner, since },
        closing: false,
        mounted: Mounted::Volume(_),
        ..
    }) = contact
    else {
        return None;
    };
    Some(Holder {
        instance: instance.id.clone(),
        owner: owner.clone(),
        since: since.clone(),
        discards: tags::thrown_away_by(&instance.tags).is_some(),
    })
}
