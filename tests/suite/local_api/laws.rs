//! The laws that hold after any sequence of calls, in any order and timing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use xdrive::local::wire::Xml;
use xdrive::local::{Local, Settings};

use super::{call, find, launch_params, text, texts};
use crate::folder::Folder;

/// A call, or some time without one.
#[derive(Debug, Clone)]
enum Move {
    Launch(usize),
    Terminate(Index),
    SwitchOff(Index),
    KeepOrDelete(Index, bool),
    CreateVolume(usize),
    Restore(Index, usize),
    Attach(Index, Index, bool),
    Detach(Index),
    DeleteVolume(Index),
    Snapshot(Index),
    DeleteSnapshot(Index),
    Tag(Index, bool),
    Pass(u8),
}

fn any_move() -> impl Strategy<Value = Move> {
    let index = any::<Index>;
    prop_oneof![
        2 => (0..2_usize).prop_map(Move::Launch),
        1 => index().prop_map(Move::Terminate),
        1 => index().prop_map(Move::SwitchOff),
        1 => (index(), any::<bool>()).prop_map(|(i, b)| Move::KeepOrDelete(i, b)),
        2 => (0..2_usize).prop_map(Move::CreateVolume),
        1 => (index(), 0..2_usize).prop_map(|(i, zone)| Move::Restore(i, zone)),
        4 => (index(), index(), any::<bool>()).prop_map(|(v, i, d)| Move::Attach(v, i, d)),
        2 => index().prop_map(Move::Detach),
        1 => index().prop_map(Move::DeleteVolume),
        2 => index().prop_map(Move::Snapshot),
        1 => index().prop_map(Move::DeleteSnapshot),
        1 => (index(), any::<bool>()).prop_map(|(i, b)| Move::Tag(i, b)),
        6 => (1..6_u8).prop_map(Move::Pass),
    ]
}

const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];
const DEVICES: [&str; 2] = ["/dev/sdf", "/dev/sdg"];
/// The time between two checks, and the staleness of the stale handle.
const TICK: Duration = Duration::from_millis(10);
const STALE_TICKS: u64 = 7;

/// The folder under test, with all ids ever returned and all states seen.
struct Game {
    folder: Folder,
    stale: Local,
    tick: u64,
    instances: Vec<String>,
    volumes: Vec<String>,
    snapshots: Vec<String>,
    states: BTreeMap<String, String>,
    worlds: BTreeMap<u64, [Xml; 3]>,
}

fn pick(ids: &[String], index: Index) -> String {
    if ids.is_empty() {
        String::new()
    } else {
        index.get(ids).clone()
    }
}

impl Game {
    fn new() -> Self {
        let folder = Folder::new(Settings::default());
        let stale = folder.reopen_with(&Settings {
            stale_lists_ms: Some(u64::try_from(TICK.as_millis()).unwrap() * STALE_TICKS),
            ..Settings::default()
        });
        Self {
            folder,
            stale: stale.unwrap(),
            tick: 0,
            instances: Vec::new(),
            volumes: Vec::new(),
            snapshots: Vec::new(),
            states: BTreeMap::new(),
            worlds: BTreeMap::new(),
        }
    }

    async fn play(&mut self, step: &Move) {
        match step {
            Move::Launch(zone) => {
                let answer = self
                    .folder
                    .call("RunInstances", &launch_params(ZONES[*zone]));
                self.instances.push(text(&answer, "instanceId"));
            }
            Move::Terminate(i) => {
                self.attempt(
                    "TerminateInstances",
                    &[("InstanceId.1", &pick(&self.instances, *i))],
                );
            }
            Move::SwitchOff(i) => {
                let outcome = self.folder.local.switch_off(&pick(&self.instances, *i));
                assert!(outcome.is_ok() || self.instances.is_empty());
            }
            Move::KeepOrDelete(i, deletes) => {
                let id = pick(&self.instances, *i);
                self.attempt(
                    "ModifyInstanceAttribute",
                    &[
                        ("InstanceId", &id),
                        ("BlockDeviceMapping.1.DeviceName", DEVICES[0]),
                        (
                            "BlockDeviceMapping.1.Ebs.DeleteOnTermination",
                            if *deletes { "true" } else { "false" },
                        ),
                    ],
                );
            }
            Move::CreateVolume(zone) => {
                let params = [("AvailabilityZone", ZONES[*zone]), ("Size", "1")];
                self.volumes
                    .push(text(&self.folder.call("CreateVolume", &params), "volumeId"));
            }
            Move::Restore(s, zone) => {
                let id = pick(&self.snapshots, *s);
                let params = [
                    ("AvailabilityZone", ZONES[*zone]),
                    ("SnapshotId", &id),
                    ("Size", "1"),
                ];
                if let Some(answer) = self.attempt("CreateVolume", &params) {
                    self.volumes.push(text(&answer, "volumeId"));
                }
            }
            Move::Attach(v, i, device) => {
                let (volume, instance) = (pick(&self.volumes, *v), pick(&self.instances, *i));
                let params = [
                    ("VolumeId", volume.as_str()),
                    ("InstanceId", &instance),
                    ("Device", DEVICES[usize::from(*device)]),
                ];
                self.attempt("AttachVolume", &params);
            }
            Move::Detach(v) => {
                self.attempt("DetachVolume", &[("VolumeId", &pick(&self.volumes, *v))]);
            }
            Move::DeleteVolume(v) => {
                self.attempt("DeleteVolume", &[("VolumeId", &pick(&self.volumes, *v))]);
            }
            Move::Snapshot(v) => {
                let params = [("VolumeId", pick(&self.volumes, *v))];
                let params = params
                    .each_ref()
                    .map(|(name, value)| (*name, value.as_str()));
                if let Some(answer) = self.attempt("CreateSnapshot", &params) {
                    self.snapshots.push(text(&answer, "snapshotId"));
                }
            }
            Move::DeleteSnapshot(s) => {
                self.attempt(
                    "DeleteSnapshot",
                    &[("SnapshotId", &pick(&self.snapshots, *s))],
                );
            }
            Move::Tag(v, set) => {
                let action = if *set { "CreateTags" } else { "DeleteTags" };
                let id = pick(&self.volumes, *v);
                self.attempt(
                    action,
                    &[("ResourceId.1", &id), ("Tag.1.Key", "generation")],
                );
            }
            Move::Pass(ticks) => {
                for _ in 0..*ticks {
                    self.check();
                    tokio::time::advance(TICK).await;
                    self.tick += 1;
                }
            }
        }
    }

    /// Calls; a refusal must be the caller's fault, not EC2's.
    fn attempt(&self, action: &str, params: &[(&str, &str)]) -> Option<Xml> {
        match self.folder.try_call(action, params) {
            Ok(answer) => Some(answer),
            Err(error) => {
                assert_eq!(error.status, 400, "{action} {params:?}: {error}");
                None
            }
        }
    }

    /// Reads the world, and checks all laws on it.
    fn check(&mut self) {
        let lists = ["DescribeInstances", "DescribeVolumes", "DescribeSnapshots"];
        let world = lists.map(|action| self.folder.call(action, &[]));
        self.volumes_have_one_instance_in_their_zone(&world);
        self.states_move_along_legal_edges(&world);
        if let Some(earlier) = self
            .tick
            .checked_sub(STALE_TICKS)
            .and_then(|t| self.worlds.get(&t))
        {
            for (action, earlier) in lists.into_iter().zip(earlier) {
                let stale = call(&self.stale, action, &[]).unwrap();
                assert!(stale == *earlier, "stale: {stale:?}\nearlier: {earlier:?}");
            }
        }
        self.worlds.insert(self.tick, world);
    }

    fn volumes_have_one_instance_in_their_zone(&self, [instances, volumes, _]: &[Xml; 3]) {
        let mut from_volumes = BTreeSet::new();
        for volume in &find(volumes, "volumeSet").unwrap().children {
            let attachments = &find(volume, "attachmentSet").unwrap().children;
            assert!(attachments.len() <= 1);
            let in_use = text(volume, "status") == "in-use";
            for attachment in attachments {
                assert!(in_use, "{volume:?}");
                let instance = text(attachment, "instanceId");
                from_volumes.insert((
                    text(volume, "volumeId"),
                    instance,
                    text(volume, "availabilityZone"),
                ));
            }
        }
        let mut from_instances = BTreeSet::new();
        for instance in texts(instances, "instanceId") {
            let seen = self
                .folder
                .call("DescribeInstances", &[("InstanceId.1", &instance)]);
            let zone = text(&seen, "availabilityZone");
            let disks = texts(find(&seen, "blockDeviceMapping").unwrap(), "volumeId");
            let state = text(find(&seen, "instanceState").unwrap(), "name");
            assert!(state != "terminated" || disks.is_empty(), "{seen:?}");
            from_instances.extend(
                disks
                    .into_iter()
                    .map(|disk| (disk, instance.clone(), zone.clone())),
            );
        }
        assert_eq!(from_volumes, from_instances);
    }

    fn states_move_along_legal_edges(&mut self, [instances, volumes, snapshots]: &[Xml; 3]) {
        let mut now = BTreeMap::new();
        for reservation in &find(instances, "reservationSet").unwrap().children {
            let state = text(find(reservation, "instanceState").unwrap(), "name");
            now.insert(text(reservation, "instanceId"), state);
        }
        for (list, id) in [(volumes, "volumeId"), (snapshots, "snapshotId")] {
            for item in &list.children[0].children {
                let own = item
                    .children
                    .iter()
                    .find(|child| child.name == "status")
                    .unwrap();
                now.insert(text(item, id), own.text.clone().unwrap());
            }
        }
        for (id, before) in &self.states {
            let after = now.get(id).map_or("gone", String::as_str);
            assert!(legal(before, after), "{id}: {before} → {after}");
        }
        // A deleted resource stays deleted.
        for (id, state) in self
            .states
            .iter_mut()
            .filter(|(id, _)| !now.contains_key(*id))
        {
            assert!(
                !id.starts_with("i-"),
                "{id} was {state}, and is not listed within the hour"
            );
            "gone".clone_into(state);
        }
        self.states.extend(now);
    }
}

/// Whether a resource can be in `after` some time after `before`: a walk along edges.
fn legal(before: &str, after: &str) -> bool {
    let mut reached = vec![before];
    let mut looked_at = 0;
    while let Some(state) = reached.get(looked_at).copied() {
        looked_at += 1;
        let next: &[&str] = match state {
            "pending" => &["running", "shutting-down", "stopping", "completed", "gone"],
            "running" => &["shutting-down", "stopping"],
            "stopping" => &["stopped", "shutting-down"],
            "stopped" => &["shutting-down"],
            "shutting-down" => &["terminated"],
            "creating" => &["available"],
            "available" => &["in-use", "deleting"],
            "in-use" => &["available", "gone"],
            "deleting" | "completed" => &["gone"],
            _ => &[],
        };
        reached.extend(
            next.iter()
                .filter(|state| !reached.contains(state))
                .collect::<Vec<_>>(),
        );
    }
    reached.contains(&after)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_calls_keeps_the_laws(moves in prop::collection::vec(any_move(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut game = Game::new();
            for step in &moves {
                game.play(step).await;
                game.check();
            }
            game.play(&Move::Pass(20)).await;
            game.check();
        });
    }
}
