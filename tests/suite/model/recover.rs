//! What the next run makes of a world, when nothing goes wrong any more.

use xdrive::ec2::{InstanceState, SnapshotState};

use super::client::{At, Client, End, Rules, Run};
use super::steps::{Fate, Stage};
use super::world::World;

/// The slot of the run that comes after all others.
const NEXT: u8 = 2;

/// Longer than any run takes.
const PATIENCE: usize = 400;

/// Every client is dead; one `xdrive stop` runs undisturbed. Saved means that all acknowledged
/// bytes are in the newest snapshot and nothing else is billed; stuck, that all which is billed is
/// listed. Anything else counts as killed.
pub(super) fn next_run(world: &World, rules: &Rules) -> End {
    let mut world = world.clone();
    for host in &mut world.hosts {
        host.client = None;
    }
    let mut client = Client::new(NEXT);
    client.start(Run::Stop, world.now);
    for _ in 0..PATIENCE {
        match &client.at {
            At::Rest { until } if *until > world.now => world.tick(false),
            At::Rest { .. } | At::Instances { .. } | At::Volumes { .. } => {
                client.look(&world, rules, 0);
            }
            At::Acting { stage, .. } => match stage {
                Stage::Read => {
                    let truth = client.reads_by_id(&world).swap_remove(0);
                    client.read(truth);
                }
                Stage::Call(_) => client.call(&mut world, rules, Fate::Done, 0),
                Stage::Answer(_) => client.hear(&world),
            },
            At::Over(end) => return judge(&world, end),
            At::Off | At::Inside { .. } => return End::Killed,
        }
    }
    End::Killed
}

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
        .filter(|thing| thing.now.is_some())
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
            let listed: Vec<String> = left.0.iter().map(ToString::to_string).collect();
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
