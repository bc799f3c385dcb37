//! `RunInstances`: brings the machines up, records instances and root disks.

use std::net::Ipv4Addr;

use super::Answer;
use super::images;
use super::instances;
use super::order::{Market, Order, order};
use super::quotas;
use super::request::{Request, new_id, repeats};
use crate::catalog;
use crate::change::Change;
use crate::plane;
use crate::records::{Attachment, Ending, Instance, Spot, Tags, Volume};
use crate::wire::{ApiError, Xml};
use crate::world::Intent;

/// `RunInstances`.
pub(super) fn run_instances(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let token = request.token(request.text("Placement.AvailabilityZone"));
    let mut known = Vec::new();
    for (id, instance) in &change.world.instances {
        if repeats(instance.token.as_ref(), token.as_ref())? {
            if instance.termination.is_some() {
                return Err(ApiError::client(
                    "IdempotentInstanceTerminated",
                    format!("The instance {id} of this client token has been terminated"),
                ));
            }
            known.push(id.clone());
        }
    }
    if !known.is_empty() {
        known.sort_by_key(|id| {
            change
                .world
                .instances
                .get(id)
                .map(|known| known.launch_index)
        });
        return Ok(answer(change, &known));
    }
    let order = order(request, change, token)?;
    quotas::check(&order, change)?;
    let reservation = new_id("r-")?;
    let mut ids = Vec::new();
    for index in 0..order.count {
        ids.push(launch_one(&order, &reservation, index, change)?);
    }
    change.guard_new()?;
    Ok(answer(change, &ids))
}

fn answer(change: &Change<'_>, ids: &[String]) -> Vec<Xml> {
    let delays = change.local.delays();
    let reservation = ids.first().and_then(|id| change.world.instances.get(id));
    let reservation = reservation.map_or("", |instance| instance.reservation.as_str());
    let items = ids.iter().filter_map(|id| {
        let (instance, state) = change.world.instance(id, change.now, delays)?;
        Some(instances::item(
            &change.world,
            id,
            instance,
            state,
            change.now,
            delays,
        ))
    });
    vec![
        Xml::text("reservationId", reservation),
        Xml::text("ownerId", catalog::ACCOUNT),
        Xml::node("groupSet", []),
        Xml::list("instancesSet", items),
    ]
}

#[expect(
    clippy::too_many_lines,
    reason = "most are the fields of the two records"
)]
fn launch_one(
    order: &Order,
    reservation: &str,
    index: u32,
    change: &mut Change<'_>,
) -> Result<String, ApiError> {
    let id = new_id("i-")?;
    let now = change.now;
    let running = now + change.local.delays().running;
    let boot = change.local.boots(order.kind.name);
    let machine = plane::Machine {
        instance: id.clone(),
        image: order.image.clone(),
        instance_type: order.kind.name.to_owned(),
        zone: order.zone.name.clone(),
        user_data: order.user_data.clone(),
        tokens_required: order.tokens_required,
        hop_limit: order.hop_limit,
        role: order
            .profile
            .as_deref()
            .map(catalog::role)
            .map(str::to_owned),
        public: order.public,
        account: catalog::ACCOUNT.to_owned(),
        vpc_cidrs: change.local.vpc_cidrs().to_vec(),
        gpu: order.kind.nvidia().map(|_| change.local.gpu()),
        boots: change.boot_time(running + boot.after()),
    };
    let is_spot = matches!(order.market, Market::Spot { .. });
    let is_locked = is_spot && order.root.encrypted && change.local.locks_out_spot();
    let mut up = None;
    if !is_locked {
        change.effect(Intent::Sweep, |plane| {
            up = Some(plane.launch(&machine)?);
            Ok(())
        })?;
    }
    let launches = change.world.launches;
    change.world.launches = launches.wrapping_add(1);
    // On paper: an address that no machine has (RFC 2544, benchmarking).
    let machine = up.unwrap_or_else(|| plane::Up {
        address: Ipv4Addr::from_bits(
            Ipv4Addr::new(198, 18, 0, 0).to_bits() | (launches & 0x1_ffff),
        ),
        supervisor: 0,
        started: 0,
    });
    let tags = |kind: &str| {
        order
            .tags
            .get(kind)
            .map_or_else(Tags::default, |tags| Tags::new(now, tags))
    };
    let spot = match &order.market {
        Market::OnDemand => None,
        Market::Spot { max_price } => Some(Spot {
            id: new_id("sir-")?,
            max_price: max_price.clone(),
            interruption: None,
            locked: is_locked,
            tags: tags("spot-instances-request"),
        }),
    };
    let instance = Instance {
        reservation: reservation.to_owned(),
        launch_index: index,
        token: order.token.clone(),
        image: order.image.clone(),
        kind: order.kind.name.to_owned(),
        zone: order.zone.name.clone(),
        spot,
        groups: order.groups.clone(),
        public: order.public,
        tokens_required: order.tokens_required,
        hop_limit: order.hop_limit,
        terminates_itself: order.terminates_itself,
        profile: order.profile.clone(),
        capacity: order.capacity.clone(),
        machine,
        launched: now,
        running,
        boot,
        impaired: None,
        stop: None,
        termination: is_locked.then(|| Ending {
            done: Some(now),
            ..Ending::failed(now)
        }),
        tags: tags("instance"),
    };
    let root = Volume {
        token: None,
        zone: order.zone.name.clone(),
        gib: order.root.gib,
        kind: order.root.kind.clone(),
        iops: Some(3000),
        throughput: Some(125),
        initialization: None,
        encrypted: order.root.encrypted,
        key: None,
        snapshot: Some(images::root_snapshot(&order.image)),
        root: true,
        created: now,
        available: now,
        failed: None,
        deleting: None,
        deleted: None,
        modifications: Vec::new(),
        attachments: vec![Attachment {
            instance: id.clone(),
            device: change.local.root_device().to_owned(),
            attaching: now,
            attached: now,
            detaching: None,
            detached: None,
            delete_on_termination: vec![(now, order.root.delete_on_termination)],
        }],
        superblock: None,
        origin: None,
        tags: tags("volume"),
    };
    change.world.volumes.insert(new_id("vol-")?, root);
    change.world.instances.insert(id.clone(), instance);
    if is_locked {
        change.world.end(&id, now);
    }
    Ok(id)
}
