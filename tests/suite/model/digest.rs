//! The digest of a state: without the absolute time, and with ages up to the largest limit of any
//! rule.

use std::hash::{DefaultHasher, Hash, Hasher};

use xdrive::clock::BootTime;
use xdrive::drive::observed::{Observed, Verdict};
use xdrive::drive::overlay::Overlay;
use xdrive::drive::plan::Step;

use super::check::State;
use super::client::{At, Client};
use super::lists::Seen;
use super::steps::{Made, Read, Stage};
use super::values;
use super::world::{Deadline, Instance, Thing, Tick, World};

/// More ticks than any limit of the model has: older is old.
const OLD: u64 = 5;
const PAST: i32 = 5;

/// The digest of a plan. Proofs carry a moment that no code outside can read: it is left out here,
/// and hashed as the age of the look it was made from.
pub(super) fn label(steps: &[Step], seen: &Observed) -> u64 {
    let mut hasher = DefaultHasher::new();
    for part in format!("{steps:?}").split("BootTime(") {
        let timeless = part.split_once(')').map_or(part, |(_, rest)| rest);
        // The same for the end of a lease, which is in its host's record too.
        let timeless = timeless.split("LeaseOver(").next().unwrap_or_default();
        timeless.hash(&mut hasher);
        part.len().min(1).hash(&mut hasher);
    }
    for instance in &seen.instances {
        (&instance.id, instance.listed, &instance.session).hash(&mut hasher);
    }
    for volume in seen.all_volumes() {
        (&volume.id, volume.listed, volume.holder()).hash(&mut hasher);
    }
    hasher.finish()
}

fn age(moment: BootTime, now: Tick) -> u64 {
    values::age(moment, now).min(OLD)
}

fn ticks(moment: Tick, now: Tick) -> u64 {
    u64::from(now.saturating_sub(moment)).min(OLD)
}

/// The distance of a recorded moment, up to what a rule distinguishes.
fn due(moment: Deadline, now: Tick) -> Option<i32> {
    let ahead = i32::from(moment.0) - i32::from(now);
    (moment != Deadline::NEVER).then_some(ahead.max(-PAST))
}

fn hash_things<T: Hash + Clone + PartialEq, H: Hasher>(things: &[Thing<T>], now: Tick, to: &mut H) {
    things.len().hash(to);
    for thing in things {
        (thing.id, &thing.now, thing.past().len()).hash(to);
        for (version, replaced) in thing.past() {
            (version, ticks(*replaced, now)).hash(to);
        }
    }
}

pub(super) fn hash_world<H: Hasher>(world: &World, to: &mut H) {
    hash_things(&world.instances, world.now, to);
    hash_things(&world.volumes, world.now, to);
    hash_things(&world.snapshots, world.now, to);
    for thing in &world.instances {
        let versions = thing.past().iter().map(|(version, _)| version);
        for record in versions.chain([&thing.now]).flatten() {
            due(record.until, world.now).hash(to);
        }
    }
    for host in &world.hosts {
        due(host.ends, world.now).hash(to);
    }
    (&world.hosts, &world.bytes, world.next_id).hash(to);
    (world.acknowledged, world.written, &world.broken).hash(to);
    (&world.aside, world.kept_aside, &world.ordered).hash(to);
    (world.run, world.has_capacity, &world.hung).hash(to);
}

fn hash_memory<H: Hasher>(overlay: &Overlay, now: Tick, to: &mut H) {
    let me = &overlay.me;
    let moment = |moment: Option<BootTime>| moment.map(|moment| age(moment, now));
    (
        moment(overlay.first),
        moment(me.announced),
        moment(me.unsure),
    )
        .hash(to);
    (me.launches, &me.raised, &me.closed, &me.closes).hash(to);
    (&me.attached, &me.unmounted, &me.reported, &me.leaving).hash(to);
    me.hung.hash(to);
    me.verdicts.len().hash(to);
    for (id, verdict) in &me.verdicts {
        match verdict {
            Verdict::Open { first, last } => {
                (id, age(*first, now), age(*last, now)).hash(to);
            }
            other => (id, other).hash(to),
        }
    }
    (&me.refused, &me.rejected, &me.not_pruned, me.attempts.len()).hash(to);
    for attempt in &me.attempts {
        (
            &attempt.volume,
            &attempt.op,
            attempt.kind,
            age(attempt.at, now),
        )
            .hash(to);
    }
    for (id, (_, at)) in &overlay.instances {
        (id, age(*at, now)).hash(to);
    }
    for (id, at) in &overlay.noticed {
        (id, age(*at, now)).hash(to);
    }
    for (id, (_, at)) in &overlay.volumes {
        (id, age(*at, now)).hash(to);
    }
    for (id, (_, at)) in &overlay.snapshots {
        (id, age(*at, now)).hash(to);
    }
    (&overlay.gone, &overlay.claimed, &overlay.generations).hash(to);
    (&overlay.formatted, &overlay.kept, &overlay.leaving).hash(to);
    for (id, (state, instance, at)) in &overlay.moves {
        (id, state, instance, age(*at, now)).hash(to);
    }
    for (id, (word, since)) in &overlay.watched {
        (id, word, age(*since, now)).hash(to);
    }
}

fn hash_records<C, H: Hasher>(seen: &[(Seen<Instance>, C)], now: Tick, to: &mut H) {
    for (seen, _) in seen {
        let until = seen.record.as_ref().map(|record| due(record.until, now));
        until.hash(to);
    }
}

fn hash_client<H: Hasher>(client: &Client, now: Tick, to: &mut H) {
    (client.slot, client.session, client.began).hash(to);
    (&client.goal, &client.verdict).hash(to);
    (client.launch, client.order, client.orders).hash(to);
    (client.suspended, client.cut, client.tending).hash(to);
    if let Some(keep) = &client.keep {
        let moment = |moment: Option<Tick>| moment.map(|moment| ticks(moment, now));
        (keep.instance, moment(keep.renewed), moment(keep.recorded)).hash(to);
    }
    std::mem::discriminant(&client.at).hash(to);
    match &client.at {
        At::Off => return,
        At::Tending => {}
        At::Over(end) => return end.hash(to),
        At::Rest { until } => (*until > now).hash(to),
        At::Snapshots { began, snapshots } => (ticks(*began, now), snapshots).hash(to),
        At::Instances {
            began,
            instances,
            early,
        } => {
            hash_records(instances, now, to);
            (ticks(*began, now), instances, early).hash(to);
        }
        At::Volumes {
            began,
            stored,
            instances,
            volumes,
            early,
        } => {
            let began = ticks(*began, now);
            hash_records(instances, now, to);
            (began, ticks(*stored, now), instances, volumes, early).hash(to);
        }
        At::Acting {
            seen,
            steps,
            label,
            read,
            stage,
        } => {
            for instance in &seen.instances {
                // Its end, which proofs and claims compare.
                let until = instance.lease.map(|lease| values::tick(lease.until));
                until.map(|until| due(until, now)).hash(to);
            }
            match stage {
                Stage::Call(Read::Instance(Some(record), _)) => due(record.until, now).hash(to),
                Stage::Answer(Ok(Made::Recorded(at))) | Stage::Call(Read::Recorded(at)) => {
                    due(*at, now).hash(to);
                }
                _ => {}
            }
            let (began, read) = (age(seen.began, now), ticks(*read, now));
            (began, read, steps.len(), label, stage).hash(to);
        }
        At::Inside { wrote } => wrote.hash(to),
    }
    hash_memory(&client.overlay, now, to);
}

/// A run and the world around it.
pub(super) fn of_run(world: &World, client: &Client) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_world(world, &mut hasher);
    hash_client(client, world.now, &mut hasher);
    hasher.finish()
}

impl Hash for State {
    fn hash<H: Hasher>(&self, to: &mut H) {
        hash_world(&self.world, to);
        for client in &self.clients {
            hash_client(client, self.world.now, to);
        }
        self.budget.hash(to);
    }
}

/// Two states are equal if their hashes are: the checker compares no more.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let digest = |state: &Self| {
            let mut hasher = DefaultHasher::new();
            state.hash(&mut hasher);
            hasher.finish()
        };
        digest(self) == digest(other)
    }
}
