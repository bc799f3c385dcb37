//! The next run of a world, when nothing goes wrong any more.

use std::collections::HashMap;
use std::sync::Mutex;

use xdrive::drive::Billed;
use xdrive::ec2::{InstanceState, SnapshotState, StoragePrices};

use super::client::{At, Client, End, Rules, Run};
use super::digest;
use super::lease::First;
use super::runs::RUN;
use super::steps::{Fate, Stage};
use super::world::World;

/// The slot of the run that comes after all others.
const NEXT: u8 = 2;

/// More looks than any run takes.
const TIMEOUT: usize = 100;

/// More looks than it takes until the lease of a host is over, and the drive is up again.
const TENDED: usize = 400;

/// The results so far: whether such a run ends well from a moment on, by its digest.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<u64, bool>>);

impl Known {
    /// Whether one undisturbed run ends well after every client has died.
    pub(super) fn next_run(&self, world: &World, rules: &Rules, run: Run, well: Well) -> bool {
        let mut world = world.clone();
        world.has_capacity = true;
        if run != Run::Tend {
            world.drop_run();
        }
        for host in &mut world.hosts {
            host.client = host
                .client
                .filter(|client| *client == RUN && host.run.is_some());
        }
        let mut client = Client::new(NEXT);
        client.start(run, &world);
        if run == Run::StopHung {
            client.take_for_hung(&world, rules);
        }
        let mut passed = Vec::new();
        let timeout = if run == Run::Tend { TENDED } else { TIMEOUT };
        let is_well = loop {
            if let At::Rest { .. } = client.at {
                let digest = digest::of_run(&world, &client);
                if let Some(known) = self.0.lock().unwrap().get(&digest) {
                    break *known;
                }
                passed.push(digest);
            }
            if run == Run::Tend && matches!(client.at, At::Over(_)) {
                let is_stuck = matches!(&client.at, At::Over(End::Stuck(_)));
                if world.is_run_settled() {
                    break true;
                } else if !is_stuck {
                    tend_again(&mut client, &world);
                    continue;
                }
            }
            if let At::Over(end) = &client.at {
                break well(&judge(&world, end));
            }
            if passed.len() > timeout || !go_on(&mut client, &mut world, rules) {
                break well(&End::Killed);
            }
        };
        let mut known = self.0.lock().unwrap();
        known.extend(passed.into_iter().map(|digest| (digest, is_well)));
        is_well
    }
}

/// The next pass, a moment later. No session of the one before is left.
fn tend_again(client: &mut Client, world: &World) {
    client.began = 0;
    client.start(Run::Tend, world);
    client.at = At::Rest {
        until: world.now + 1,
    };
}

/// The ends that are good.
pub(super) type Well<'a> = &'a dyn Fn(&End) -> bool;

/// The next action of such a run; false if a promise is broken already.
fn go_on(client: &mut Client, world: &mut World, rules: &Rules) -> bool {
    while client.has_to_renew(world) {
        client.renew(world, First::Record);
    }
    match &client.at {
        At::Rest { until } if *until > world.now => world.tick(false),
        At::Rest { .. } | At::Snapshots { .. } | At::Instances { .. } | At::Volumes { .. } => {
            client.look(world, rules, 0);
        }
        At::Acting { stage, .. } => match stage {
            Stage::Read => {
                let truth = client.reads_by_id(world).swap_remove(0);
                client.read(truth, world.now);
            }
            Stage::Call(_) => client.call(world, rules, Fate::Done, 0),
            Stage::Answer(_) => client.receive(world),
        },
        At::Tending => client.tend_on(world, rules, 0),
        At::Inside { .. } => client.leave(world.now),
        At::Off | At::Over(_) => return false,
    }
    // What it mounts has all acknowledged data.
    world.broken.is_empty()
}

/// Judges an end by the world: saved means that all acknowledged bytes are in the newest snapshot
/// and nothing else is billed; stuck, that everything billed is listed. Anything else counts as
/// killed.
fn judge(world: &World, end: &End) -> End {
    let running: Vec<u8> = world
        .instances
        .iter()
        .filter(|thing| {
            let state = thing.now.as_ref().map(|instance| instance.state);
            !matches!(
                state,
                None | Some(InstanceState::Terminated | InstanceState::ShuttingDown)
            )
        })
        .map(|thing| thing.id)
        .collect();
    let volumes: Vec<u8> = world
        .volumes
        .iter()
        .filter(|thing| thing.now.is_some() && !world.is_orphan(thing.id))
        .map(|thing| thing.id)
        .collect();
    match end {
        End::Saved => {
            let newest = world
                .snapshots
                .iter()
                .filter_map(|thing| Some((thing.id, thing.now.as_ref()?)))
                .filter(|(_, snapshot)| snapshot.state == SnapshotState::Completed)
                .max_by_key(|(id, snapshot)| (snapshot.generation, snapshot.kind, *id));
            let kept = newest.map_or(0, |(id, _)| world.bytes(id).data);
            let whole = world.acknowledged & !kept == 0;
            let clean = running.is_empty() && volumes.is_empty();
            if whole && clean {
                End::Saved
            } else {
                End::Killed
            }
        }
        End::Stuck(left) => {
            let listed: Vec<String> = {
                let billed = Billed::all(left, StoragePrices::default());
                billed.iter().map(ToString::to_string).collect()
            };
            let is_listed = |id: String| listed.iter().any(|line| line.contains(&id));
            let instances = running.iter().map(|id| format!("i-{id:02x}"));
            let volumes = volumes.iter().map(|id| format!("vol-{id:02x}"));
            if instances.chain(volumes).all(is_listed) {
                end.clone()
            } else {
                End::Killed
            }
        }
        End::Busy | End::Killed => End::Killed,
    }
}
