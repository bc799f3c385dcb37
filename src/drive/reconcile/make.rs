//! The steps that launch an instance, from the first pool with capacity, and make a volume.
//!
//! An order whose answer got lost is sent again with the same client token: EC2 then returns what
//! it made the first time.

use std::collections::BTreeMap;

use crate::ec2::{Arch, Error, Instance, Kind, LaunchOrder, Market, Tags, VolumeOrder, Zone};
use crate::ids::{Generation, random_id};

use super::super::event::Event;
use super::super::hosts::Hosts;
use super::super::pools::{self, Offer, Pool};
use super::super::quotas::Reached;
use super::super::source::Source;
use super::super::subnets::Subnets;
use super::super::tags::{self, Carried, RunTags};
use super::act::may_have_happened;
use super::{FreePlan, NoCapacity, Reconciler, RunError};

/// The name of Amazon Linux's root device (EC2 user guide, *Device names for volumes*).
const ROOT_DEVICE: &str = "/dev/xvda";

impl<H: Hosts> Reconciler<H> {
    /// Launches one instance, from the best pool with capacity; in the zone `pinned`, that of the
    /// drive's volume, if given. It is the drive's, or for a volume that this session throws away.
    #[expect(
        clippy::too_many_lines,
        reason = "one loop over the offers, an arm for each way in which one is refused"
    )]
    pub(super) async fn launch(
        &mut self,
        pinned: Option<&Zone>,
        throwaway: bool,
    ) -> Result<String, RunError> {
        let mut last = None;
        if let Some(order) = self.overlay.launch.clone() {
            match Box::pin(self.send_launch(order)).await {
                // The instance has been and is over: another order launches the next one.
                Err(error) if error.is_over_already() => {}
                Err(error) if is_elsewhere(&error) => last = Some(error),
                answer => return Ok(answer?),
            }
        }
        self.await_pools().await?;
        let is_reserved = self.wanted.is_reserved();
        if let Some(elsewhere) = self.wanted.elsewhere(pinned) {
            return Err(RunError::NoCapacity(Box::new(NoCapacity {
                zone: pinned.cloned(),
                tried: 0,
                of: 0,
                on_demand: true,
                elsewhere: Some(elsewhere),
                is_reserved,
                last: None,
                reached: Vec::new(),
            })));
        }
        let zone = pinned.or(self.wanted.placement.zone.as_ref()).cloned();
        let subnets = self.hosts.subnets().await?;
        let reachable = self.reachable(&subnets, zone.as_ref())?;
        let (offers, cut) = pools::to_try(&reachable, zone.as_ref());
        let offers: Vec<Offer> = offers.into_iter().cloned().collect();
        let of = offers.len() + cut;
        let (mut tried, mut on_demand) = (0, false);
        let (mut no_spot, mut over_quota) = (false, Vec::<Reached>::new());
        let (mut refused, mut no_spot_of_plan) = (Refusals::default(), None);
        for mut offer in offers {
            if self.is_ending.get() {
                return Err(RunError::Changed(
                    "no instance is wanted any more".to_owned(),
                ));
            }
            if !refused.may_be_had(&offer) {
                continue;
            }
            // A waiting volume's zone holds also where the offer leaves it to EC2.
            if offer.pool.zone.is_none() {
                offer.pool.zone.clone_from(&zone);
            }
            let pool = &offer.pool;
            let is_spot = pool.market == Market::Spot;
            if (is_spot && no_spot) || over_quota.iter().any(|quota| quota.applies_to(&offer)) {
                continue;
            }
            tried += 1;
            on_demand |= pool.market == Market::OnDemand;
            self.emit(Event::Launching {
                offer: Box::new(offer.clone()),
                size: self.wanted.size,
            });
            match Box::pin(self.launch_from(pool, (zone.as_ref(), throwaway), &subnets)).await {
                Err(RunError::Ec2(error)) if refused.is_spot_of_the_plan(&offer, &error) => {
                    no_spot = true;
                    self.emit(Event::NoCapacity {
                        pool: offer.pool,
                        error: error.to_string(),
                        reached: None,
                    });
                    no_spot_of_plan = Some(error);
                }
                Err(RunError::Ec2(error)) if error.kind == Kind::NotEligible => {
                    if refused.is_first() {
                        let instance_type = pool.instance_type.clone();
                        self.emit(Event::NotEligible { instance_type });
                    }
                    refused.by_plan(&offer, error);
                }
                Err(RunError::Ec2(error)) if is_elsewhere(&error) => {
                    let mut reached = None;
                    match error.kind {
                        // Not in this zone alone.
                        Kind::SpotQuota | Kind::VcpuQuota => {
                            let quota = Reached::by(&offer, &error, &self.ec2).await;
                            over_quota.push(quota.clone());
                            reached = Some(Box::new(quota));
                        }
                        Kind::SpotUnavailable => no_spot = true,
                        _ => {}
                    }
                    self.emit(Event::NoCapacity {
                        pool: offer.pool,
                        error: error.to_string(),
                        reached,
                    });
                    last = Some(error);
                }
                answer => {
                    let made = answer?;
                    self.emit(Event::Launched {
                        made: made.clone(),
                        offer: Box::new(offer),
                    });
                    return Ok(made);
                }
            }
        }
        if let (Some(plan), None) = (refused.0, &last) {
            return Err(self.of_plan(plan).await);
        }
        let last = last.or(no_spot_of_plan);
        Err(RunError::NoCapacity(Box::new(NoCapacity {
            zone: pinned.cloned(),
            tried,
            of,
            on_demand,
            elsewhere: None,
            is_reserved,
            last,
            reached: over_quota,
        })))
    }

    /// The offers whose instances this laptop would reach; an error if there is none.
    fn reachable(
        &mut self,
        subnets: &Subnets,
        zone: Option<&Zone>,
    ) -> Result<Vec<Offer>, RunError> {
        let is_there =
            |pool: &Pool| pool.zone.is_none() || zone.is_none() || pool.zone.as_ref() == zone;
        let mut reachable = Vec::new();
        let mut unreachable = BTreeMap::new();
        for offer in &self.wanted.offers {
            let pool = &offer.pool;
            match subnets.place(zone.or(pool.zone.as_ref())) {
                Err(error) if is_there(pool) => {
                    unreachable
                        .entry(pool.zone.clone())
                        .or_insert((pool.clone(), error));
                }
                // The next steps leave out what does not exist.
                _ => reachable.push(offer.clone()),
            }
        }
        let is_any_there = reachable.iter().any(|offer| is_there(&offer.pool));
        for (pool, error) in unreachable.into_values() {
            if !is_any_there {
                return Err(RunError::Host(error));
            }
            let error = error.to_string();
            self.emit(Event::NoCapacity {
                pool,
                error,
                reached: None,
            });
        }
        Ok(reachable)
    }

    /// The error for a plan's refusal, with the types that the plan has.
    async fn of_plan(&self, mut plan: FreePlan) -> RunError {
        let offers = &self.wanted.offers;
        let mut archs: Vec<Arch> = offers.iter().map(|offer| offer.kind.arch).collect();
        archs.sort_unstable();
        archs.dedup();
        let types = self.ec2.instance_types_for(Market::OnDemand, &archs, true);
        // It is only for the hint.
        let types = types.await.unwrap_or_default();
        plan.eligible = types.into_iter().map(|kind| kind.name).collect();
        plan.eligible.sort();
        RunError::FreePlan(Box::new(plan))
    }

    /// Awaits the running choice, if there is one. After a failure the next launch begins it anew.
    async fn await_pools(&mut self) -> Result<(), RunError> {
        let Some(choose) = &mut self.choose else {
            return Ok(());
        };
        let chosen = choose().await?;
        self.choose = None;
        self.wanted.offers = chosen.offers;
        for left_out in chosen.left_out {
            self.emit(Event::LeftOut(left_out));
        }
        Ok(())
    }

    /// Launches from one pool.
    async fn launch_from(
        &mut self,
        pool: &Pool,
        (zone, throwaway): (Option<&Zone>, bool),
        subnets: &Subnets,
    ) -> Result<String, RunError> {
        let prepared = self.hosts.prepare(&self.overlay.who.session).await?;
        // The first lease begins before the first sign of life is overdue.
        let until = self.clock.now() + prepared.first_sign + self.wanted.lease;
        let zone = zone.cloned().or_else(|| pool.zone.clone());
        let place = subnets.place(zone.as_ref())?;
        let root_device = self.root_device(&pool.image).await?;
        let (who, placement) = (&self.overlay.who, &self.wanted.placement);
        // The tags of the account's own are on all that the call makes.
        let own = self.wanted.settings.own_tags();
        let mut interface_tags = Tags::new();
        if !own.is_empty() {
            interface_tags.extend(tags::common(&self.drive, who));
            interface_tags.extend(own.clone());
        }
        let mut root_tags = tags::root(&self.drive, who);
        root_tags.extend(own.clone());
        let mut tags = tags::instance(&self.drive, who, &prepared.host_key, until);
        tags.extend(tags::image(&pool.image));
        tags.extend(own);
        if throwaway {
            tags.extend(tags::throwaway(&who.session));
        }
        let mut order = LaunchOrder {
            client_token: random_id()?,
            image: pool.image.clone(),
            instance_type: pool.instance_type.clone(),
            zone,
            subnet: placement.subnet.clone().or(place.subnet),
            public_address: place.public_address,
            root_device,
            groups: prepared.groups,
            instance_profile: placement.instance_profile.clone(),
            market: pool.market,
            max_price: pool.max_price,
            reservation: pool.reservation.clone(),
            user_data: prepared.user_data,
            tags,
            root_tags,
            interface_tags,
        };
        let mut sent = self.send_launch(order.clone()).await;
        if sent.as_ref().is_err_and(Error::lacks_root_device) {
            // Nothing was launched. The drive itself is encrypted all the same.
            self.root_devices.insert(pool.image.clone(), None);
            let image = pool.image.clone();
            self.emit(Event::RootAsItIs { image });
            order.root_device = None;
            order.client_token = random_id()?;
            sent = self.send_launch(order).await;
        }
        if sent.as_ref().is_err_and(Error::lacks_group) {
            self.hosts.forget_groups();
        }
        Ok(sent?)
    }

    /// The root device of `image`. For a parameter (`resolve:ssm:`), which only EC2 resolves, and
    /// for an image that this caller may not describe, it is Amazon Linux's.
    async fn root_device(&mut self, image: &str) -> Result<Option<String>, RunError> {
        if let Some(known) = self.root_devices.get(image) {
            return Ok(known.clone());
        }
        let described = if image.starts_with("ami-") {
            match self.ec2.root_device(image).await {
                Err(error) if error.kind == Kind::Denied => None,
                // The launch has the better error.
                Err(error) if error.kind == Kind::NotFound => None,
                answer => answer?,
            }
        } else {
            None
        };
        let device = Some(described.unwrap_or_else(|| ROOT_DEVICE.to_owned()));
        self.root_devices.insert(image.to_owned(), device.clone());
        Ok(device)
    }

    async fn send_launch(&mut self, order: LaunchOrder) -> Result<String, Error> {
        match self.ec2.launch(&order).await {
            Ok(mut instance) => {
                self.overlay.launch = None;
                self.overlay.me.launches += 1;
                let at = self.clock.boot();
                self.overlay.me.announced = Some(at);
                if instance.tags.is_empty() {
                    instance.tags = order.tags;
                }
                let made = instance.id.to_string();
                self.overlay
                    .instances
                    .insert(instance.id.clone(), (instance, at));
                Ok(made)
            }
            Err(error) => {
                if may_have_happened(&error) {
                    self.overlay.me.unsure = Some(self.clock.boot());
                    self.overlay.launch = Some(order);
                } else {
                    self.overlay.launch = None;
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
        let order = match &self.overlay.order {
            Some((known_zone, known_from, order)) if known_zone == zone && known_from == from => {
                order.clone()
            }
            _ => self.volume_order(zone, from).await?,
        };
        match self.ec2.create_volume(&order).await {
            Ok(mut volume) => {
                self.overlay.order = None;
                let at = self.clock.boot();
                self.overlay.me.announced = Some(at);
                if volume.tags.is_empty() {
                    volume.tags = order.tags;
                }
                let made = volume.id.to_string();
                self.overlay.volumes.insert(volume.id.clone(), (volume, at));
                Ok(made)
            }
            Err(error) => {
                if may_have_happened(&error) {
                    self.overlay.me.unsure = Some(self.clock.boot());
                    self.overlay.order = Some((zone.clone(), from.clone(), order));
                } else {
                    self.overlay.order = None;
                }
                Err(error.into())
            }
        }
    }

    async fn volume_order(&mut self, zone: &Zone, from: &Source) -> Result<VolumeOrder, RunError> {
        let (snapshot, base, size, uuid, mut carried) = match from {
            Source::Empty => {
                let (size, new) = (self.wanted.size, self.wanted.new_settings.clone());
                (None, Generation::EMPTY, size, None, new.into())
            }
            Source::Snapshot(id, generation) | Source::Throwaway(id, generation) => {
                let snapshot = self.ec2.snapshot(id).await?.ok_or_else(|| {
                    RunError::Changed(format!("{} is gone", id.drive_label(&self.drive)))
                })?;
                // The size for new drives does not grow this one.
                let size = self.wanted.settings.size().unwrap_or(0).max(snapshot.size);
                (
                    Some(id.clone()),
                    *generation,
                    size,
                    tags::read_snapshot(&snapshot.tags)
                        .ok()
                        .and_then(|own| own.uuid),
                    Carried {
                        mounter: tags::mounter_before(&snapshot.tags, &self.overlay.who.owner)
                            .to_owned(),
                        ..Carried::from_snapshot(&snapshot.tags)
                    },
                )
            }
        };
        carried.settings = self.wanted.settings.over(&carried.settings);
        if let Source::Throwaway(..) = from {
            carried.run = RunTags::default();
        }
        let speed = carried
            .settings
            .speed()
            .map_err(|error| RunError::Invalid(error.to_string()))?;
        let blank = snapshot.is_none();
        if blank {
            self.emit(Event::NewDrive {
                size,
                cost: self.ec2.known_storage_prices().volume(size, speed),
            });
        }
        let who = &self.overlay.who;
        let mut tags = tags::volume(&self.drive, who, base, blank, uuid, &carried);
        if let Source::Throwaway(..) = from {
            tags.extend(tags::throwaway(&who.session));
        }
        if let Some(host) = self.host_in(Some(zone)) {
            tags.extend(tags::image(&host.image));
            // The drive's first launch settles its architecture.
            for (key, value) in host.arch.map(tags::arch).unwrap_or_default() {
                tags.entry(key).or_insert(value);
            }
        }
        Ok(VolumeOrder {
            client_token: random_id()?,
            zone: zone.clone(),
            size,
            snapshot,
            speed,
            tags,
        })
    }

    /// The live instance, in `zone` if that is given, that the drive's volume is for: as last seen,
    /// the earliest.
    pub(super) fn host_in(&self, zone: Option<&Zone>) -> Option<&Instance> {
        self.seen_instances
            .values()
            .filter(|instance| instance.state.is_live())
            .filter(|instance| zone.is_none_or(|zone| instance.zone == *zone))
            .min_by_key(|instance| (instance.launched, &instance.id))
    }
}

/// The types that the account's plan refused.
#[derive(Default)]
struct Refusals(Option<FreePlan>);

impl Refusals {
    /// Whether the account's plan may launch the offer, by EC2's free-tier flag.
    fn may_be_had(&self, offer: &Offer) -> bool {
        let is_out = |plan: &FreePlan| {
            !offer.kind.free_tier || plan.types.contains(&offer.pool.instance_type)
        };
        !self.0.as_ref().is_some_and(is_out)
    }

    fn is_first(&self) -> bool {
        self.0.is_none()
    }

    fn by_plan(&mut self, offer: &Offer, error: Error) {
        let plan = self.0.get_or_insert_with(|| FreePlan {
            types: Vec::new(),
            eligible: Vec::new(),
            last: error,
        });
        plan.types.push(offer.pool.instance_type.clone());
    }

    /// Whether the plan may have refused spot: AWS does not document whether it includes spot.
    fn is_spot_of_the_plan(&self, offer: &Offer, error: &Error) -> bool {
        let is_this = match error.kind {
            Kind::NotEligible => offer.kind.free_tier,
            Kind::Invalid | Kind::Denied => self.0.is_some(),
            _ => false,
        };
        is_this && offer.pool.market == Market::Spot
    }
}

/// Whether another pool may have capacity where this one has none.
fn is_elsewhere(error: &Error) -> bool {
    matches!(
        error.kind,
        Kind::Capacity | Kind::SpotQuota | Kind::SpotUnavailable | Kind::VcpuQuota
    )
}
