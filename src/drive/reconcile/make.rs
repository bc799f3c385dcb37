//! Making new things: a launch from the first pool that has one, and volumes.
//!
//! An order whose answer got lost is sent again as it was, under the same client token: EC2 then
//! answers with what it made the first time.

use crate::ec2::{Error, Kind, LaunchOrder, VolumeOrder, Zone};

use super::super::event::Event;
use super::super::hosts::Hosts;
use super::super::name::{Generation, random_id};
use super::super::plan::Source;
use super::super::stuck::volume_cents;
use super::super::tags::{self, Settings};
use super::act::may_have_happened;
use super::{Pool, Reconciler, RunError};

impl<H: Hosts> Reconciler<H> {
    /// Launches one instance, from the best pool that has one, in the zone that a volume has
    /// `pinned` if one has.
    pub(super) async fn launch(&mut self, pinned: Option<&Zone>) -> Result<String, RunError> {
        let mut last: Option<Error> = None;
        if let Some(order) = self.memory.launch.clone() {
            match Box::pin(self.send_launch(order)).await {
                Err(error) if is_elsewhere(&error) => last = Some(error),
                answer => return Ok(answer?),
            }
        }
        let placement = self.wanted.placement.clone();
        if let (Some(pinned), Some(subnet), Some(there)) =
            (pinned, &placement.subnet, &placement.zone)
            && pinned != there
        {
            return Err(RunError::Invalid(format!(
                "the drive's volume is in {pinned}, and {subnet} is in {there}"
            )));
        }
        let zone = pinned.or(placement.zone.as_ref());
        let pools: Vec<Pool> = self
            .wanted
            .pools
            .iter()
            .filter(|pool| zone.is_none() || pool.zone.is_none() || pool.zone.as_ref() == zone)
            .cloned()
            .collect();
        for pool in pools {
            let prepared = self.hosts.prepare(&self.memory.who.session).await?;
            let who = &self.memory.who;
            // The first lease begins before the first sign of life is overdue.
            let until = self.clock.now() + prepared.first_sign + self.wanted.lease;
            let order = LaunchOrder {
                client_token: random_id()?,
                image: self.wanted.image.clone(),
                instance_type: pool.instance_type.clone(),
                zone: zone.cloned().or(pool.zone),
                subnet: placement.subnet.clone(),
                groups: prepared.groups,
                instance_profile: placement.instance_profile.clone(),
                market: pool.market,
                user_data: prepared.user_data,
                tags: tags::instance(&self.drive, who, &prepared.host_key, until),
                root_tags: tags::root(&self.drive, who),
            };
            match Box::pin(self.send_launch(order)).await {
                Err(error) if is_elsewhere(&error) => {
                    self.tell(Event::NoCapacity {
                        instance_type: pool.instance_type,
                        error: error.to_string(),
                    });
                    last = Some(error);
                }
                answer => return Ok(answer?),
            }
        }
        match last {
            Some(last) => Err(RunError::NoCapacity {
                zone: pinned.cloned(),
                last,
            }),
            None => Err(RunError::Invalid(match (pinned, zone) {
                (Some(zone), _) => format!("no pool is in {zone}, where the drive's volume is"),
                (None, Some(zone)) => format!("no pool is in {zone}, where the subnet is"),
                (None, None) => "no instance type is wanted".to_owned(),
            })),
        }
    }

    async fn send_launch(&mut self, order: LaunchOrder) -> Result<String, Error> {
        match self.ec2.launch(&order).await {
            Ok(mut instance) => {
                self.memory.launch = None;
                self.memory.me.launches += 1;
                let at = self.clock.boot();
                self.memory.me.announced = Some(at);
                if instance.tags.is_empty() {
                    instance.tags = order.tags;
                }
                let made = instance.id.to_string();
                self.memory
                    .instances
                    .insert(instance.id.clone(), (instance, at));
                Ok(made)
            }
            Err(error) => {
                if may_have_happened(&error) {
                    self.memory.me.unsure = Some(self.clock.boot());
                    self.memory.launch = Some(order);
                } else {
                    self.memory.launch = None;
                }
                Err(error)
            }
        }
    }

    /// Makes a volume, with the drive's own settings, at least as large as its snapshot.
    pub(super) async fn create_volume(
        &mut self,
        zone: &Zone,
        from: &Source,
    ) -> Result<String, RunError> {
        let order = match &self.memory.order {
            Some((known_zone, known_from, order)) if known_zone == zone && known_from == from => {
                order.clone()
            }
            _ => self.volume_order(zone, from).await?,
        };
        match self.ec2.create_volume(&order).await {
            Ok(mut volume) => {
                self.memory.order = None;
                let at = self.clock.boot();
                self.memory.me.announced = Some(at);
                if volume.tags.is_empty() {
                    volume.tags = order.tags;
                }
                let made = volume.id.to_string();
                self.memory.volumes.insert(volume.id.clone(), (volume, at));
                Ok(made)
            }
            Err(error) => {
                if may_have_happened(&error) {
                    self.memory.me.unsure = Some(self.clock.boot());
                    self.memory.order = Some((zone.clone(), from.clone(), order));
                } else {
                    self.memory.order = None;
                }
                Err(error.into())
            }
        }
    }

    async fn volume_order(&mut self, zone: &Zone, from: &Source) -> Result<VolumeOrder, RunError> {
        let (snapshot, base, size, uuid, kept) = match from {
            Source::Empty => {
                let size = self.wanted.size;
                self.tell(Event::NewDrive {
                    size,
                    cents: volume_cents(size),
                });
                (None, Generation::EMPTY, size, None, Settings::default())
            }
            Source::Snapshot(id, generation) => {
                let snapshot = self
                    .ec2
                    .snapshot(id)
                    .await?
                    .ok_or_else(|| RunError::Changed(format!("{id} is gone")))?;
                let size = self.wanted.size.max(snapshot.size);
                (
                    Some(id.clone()),
                    *generation,
                    size,
                    tags::read_snapshot(&snapshot.tags)
                        .ok()
                        .and_then(|own| own.uuid),
                    Settings::read(&snapshot.tags),
                )
            }
        };
        let settings = self.wanted.settings.over(&kept);
        let blank = snapshot.is_none();
        Ok(VolumeOrder {
            client_token: random_id()?,
            zone: zone.clone(),
            size,
            snapshot,
            tags: tags::volume(&self.drive, &self.memory.who, base, blank, uuid, &settings),
        })
    }
}

/// Whether another pool may have what this one has not.
fn is_elsewhere(error: &Error) -> bool {
    matches!(error.kind, Kind::Capacity | Kind::SpotUnavailable)
}
