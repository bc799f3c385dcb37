//! Ledgers of seeded lives, held to the bills of the EC2 in a folder.

use std::time::Duration;

use super::super::*;
use crate::clock::Clock;
use crate::cloud::folder;
use crate::drive::tags::{self, Carried, Identity, Record, SnapshotKind, SnapshotTags};
use crate::ec2::{LaunchOrder, Market, Speed, VolumeOrder, Zone};
use crate::ids::{DriveName, Generation, SessionId};
use crate::local::plane::PaperPlane;
use crate::local::wire::Params;
use crate::local::{Bill, Local, OpenOptions};

const IMAGE: &str =
    "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id";

/// How many drives there are, and the most sessions of each.
const DRIVES: u64 = 12;
const SESSIONS: u64 = 5;

/// The seconds from a snapshot's beginning to the end of its instance and of its volume, at most: so much the bill
/// may have more than the record.
const END: u64 = 20;

/// The next number of a sequence, below `limit`.
fn draw(seed: &mut u64, limit: u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % limit
}

/// An EC2 in a folder on paper, whose time passes as it is told.
struct World {
    _dir: tempfile::TempDir,
    local: Local,
    ec2: Ec2,
    clock: Clock,
    who: Identity,
    seed: u64,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::tokio("2026-11-02T21:00:00Z".parse().unwrap());
        let options = OpenOptions::new(&dir.path().join("state"), PaperPlane, clock.clone());
        let local = Local::open(options).unwrap();
        Self {
            _dir: dir,
            ec2: folder::ec2(&local),
            local,
            clock,
            who: Identity::new(
                SessionId("one".to_owned()),
                "arn:aws:iam::1:user/a".to_owned(),
            ),
            seed: 7,
        }
    }

    fn call(&self, action: &str, key: &str, id: &str) {
        let pairs = [(key.to_owned(), id.to_owned())];
        self.local.call(action, &Params::new(pairs)).unwrap();
    }

    async fn pass(&mut self, most: u64) {
        let seconds = draw(&mut self.seed, most);
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    /// A session of `drive` from its launch to its save, with a checkpoint now and then. Returns what EC2 bills for it.
    async fn session(&mut self, drive: &DriveName, generation: u64) -> Bill {
        let random = &mut self.seed;
        let kinds = ["t3.micro", "c6a.large", "g5.xlarge"];
        let kind = kinds[usize::try_from(draw(random, 3)).unwrap()];
        let zones = ["us-east-1a", "us-east-1b", "us-east-1c"];
        let zone = Zone(zones[usize::try_from(draw(random, 3)).unwrap()].to_owned());
        let market = if draw(random, 4) == 0 {
            Market::OnDemand
        } else {
            Market::Spot
        };
        let token = format!("{drive} {generation}");
        let order = LaunchOrder {
            client_token: token.clone(),
            image: IMAGE.to_owned(),
            instance_type: kind.to_owned(),
            zone: Some(zone.clone()),
            subnet: None,
            public_address: false,
            root_device: None,
            groups: Vec::new(),
            instance_profile: None,
            market,
            max_price: None,
            reservation: None,
            user_data: b"#!/bin/sh\n".to_vec(),
            tags: tags::instance(drive, &self.who, "key", self.clock.now()),
            root_tags: tags::root(drive, &self.who),
            interface_tags: tags::common(drive, &self.who),
        };
        let host = self.ec2.launch(&order).await.unwrap();
        let base = Generation(generation - 1);
        let fast = Speed {
            iops: Some(4_000),
            throughput: Some(250),
            warm: None,
        };
        let settings = tags::Settings::default().with_speed(fast);
        let carried = Carried::from(settings);
        let order = VolumeOrder {
            client_token: token,
            zone,
            size: 200,
            snapshot: None,
            speed: fast,
            tags: tags::volume(drive, &self.who, base, false, None, &carried),
        };
        let disk = self.ec2.create_volume(&order).await.unwrap();
        let carried = Carried {
            record: Record::new(&host, None, None),
            ..carried
        };
        let snapshot = async |world: &Self, kind| {
            let own = SnapshotTags {
                generation: Generation(generation),
                kind,
                op: format!("{generation} {kind:?}"),
                uuid: None,
                number: 0,
            };
            let tags = tags::snapshot(drive, &world.who, &own, &carried);
            world.ec2.create_snapshot(&disk.id, &tags).await.unwrap();
        };
        self.pass(40_000).await;
        if draw(&mut self.seed, 2) == 0 {
            snapshot(self, SnapshotKind::Checkpoint).await;
            tokio::time::advance(Duration::from_secs(20)).await;
            self.pass(20_000).await;
        }
        snapshot(self, SnapshotKind::Clean).await;
        self.pass(END / 2).await;
        self.call("TerminateInstances", "InstanceId.1", host.id.as_str());
        self.pass(END / 2).await;
        self.call("DeleteVolume", "VolumeId", disk.id.as_str());
        // Its last price of spot is in force for up to six hours, and in the past the same for ever. What is over is
        // forgotten by the next change, which the next session makes.
        tokio::time::advance(Duration::from_hours(7)).await;
        let bill = self.local.bill(drive.as_str()).unwrap();
        self.pass(20_000).await;
        bill
    }

    async fn parts(&self, drive: &DriveName) -> Parts {
        Parts {
            instances: self.ec2.instances(drive).await.unwrap(),
            volumes: self.ec2.volumes(drive).await.unwrap(),
            snapshots: self.ec2.snapshots(drive).await.unwrap(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_ledger_has_what_ec2_bills_but_for_the_seconds_of_the_ends() {
    let mut world = World::new();
    let mut sessions = Vec::new();
    for number in 0..DRIVES {
        let drive: DriveName = format!("life{number}").parse().unwrap();
        let count = 1 + draw(&mut world.seed, SESSIONS);
        let mut bill = Bill::default();
        for generation in 1..=count {
            let one = world.session(&drive, generation).await;
            bill.instances += one.instances;
            bill.addresses += one.addresses;
            bill.disks += one.disks;
        }
        sessions.push((drive, count, bill));
    }
    let period = Period::until(world.clock.now(), Duration::from_hours(24 * 60));
    let mut parts = Vec::new();
    for (drive, ..) in &sessions {
        parts.push(world.parts(drive).await);
    }
    let (ledgers, troubles) = Ledger::read(&world.ec2, &parts, period).await;
    assert_eq!(troubles, [""; 0]);
    let (mut own, mut billed) = (0.0, 0.0);
    for ((drive, count, bill), ledger) in sessions.iter().zip(&ledgers) {
        let costs = ledger.costs();
        assert_eq!(ledger.unknown, [], "{drive}");
        let ends = f64::from(u32::try_from(count * END).unwrap()) / 3600.0;
        // The dearest price, an address, and the disks: dollars an hour.
        for (what, cost, bill, hour) in [
            (
                "instances",
                costs[Kind::Spot] + costs[Kind::OnDemand],
                bill.instances,
                1.3,
            ),
            ("addresses", costs[Kind::Addresses], bill.addresses, 0.005),
            ("disks", costs[Kind::Disks], bill.disks, 0.045),
        ] {
            let (least, most) = (cost.least, cost.most);
            assert!((most - least).abs() < 1e-9, "{drive}: {what}: {cost:?}");
            // A month's end within a session has the days of either month.
            let month = if what == "disks" { bill * 0.04 } else { 0.0 };
            assert!(
                (bill - most).abs() <= ends * hour + month + 1e-4,
                "{drive}, {count} sessions: {what}: ${most:.6}, billed ${bill:.6}"
            );
        }
        let sum =
            costs[Kind::Spot] + costs[Kind::OnDemand] + costs[Kind::Addresses] + costs[Kind::Disks];
        own += sum.least;
        billed += bill.sum();
    }
    let apart = (own - billed).abs() / billed;
    assert!(apart < 0.002, "${own:.4}, billed ${billed:.4}: {apart:.5}");
}

#[tokio::test(start_paused = true)]
async fn days_cost_together_what_the_whole_does() {
    let mut world = World::new();
    let drive: DriveName = "demo".parse().unwrap();
    for generation in 1..=3 {
        world.session(&drive, generation).await;
    }
    let parts = [world.parts(&drive).await];
    let period = Period::until(world.clock.now(), Duration::from_hours(24 * 10));
    let (ledgers, _) = Ledger::read(&world.ec2, &parts, period).await;
    let days: Bounds = ledgers[0].days.iter().map(|(_, costs)| costs.sum()).sum();
    assert!((days.most - ledgers[0].sum().most).abs() < 1e-9);
    let used = ledgers[0]
        .days
        .iter()
        .filter(|(_, costs)| costs[Kind::Disks].most > 0.0);
    assert!(used.count() > 1, "a session is over midnight");
}
