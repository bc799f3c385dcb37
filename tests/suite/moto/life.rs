//! A drive's life, twice: made empty and saved, restored and saved again.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use xdrive::clock::Clock;
use xdrive::drive::tags::{Identity, RunState, WantedRun};
use xdrive::drive::{Goal, Outcome, Reconciler, Timing};
use xdrive::ec2::{Ec2, InstanceState, Market, SnapshotState, VolumeState};
use xdrive::host::container::CommandId;
use xdrive::ids::{Generation, InstanceId, SessionId, SnapshotId, VolumeId};
use xdrive::local::{Local, Settings};

use super::server::{against_moto, ask};
use super::verbs::run_xdrive;
use crate::folder::Folder;
use harness::DEADLINE;
use harness::simulation::host::{PaperHosts, wanted};
use harness::simulation::{Hidden, drive};

#[test]
#[ignore = "needs python3 with moto"]
fn a_drive_lives_twice_against_moto() {
    against_moto(test_name!(a_drive_lives_twice_against_moto), async |ec2| {
        live_twice(&ec2, None).await;
    });
}

#[tokio::test]
async fn a_drive_lives_twice_in_the_folder() {
    let folder = Folder::in_real_time(Settings::default());
    live_twice(&folder.ec2, Some(folder.local.clone())).await;
}

async fn live_twice(ec2: &Ec2, local: Option<Local>) {
    let hidden = Arc::new(Mutex::new(Hidden::default()));
    let first = session(ec2, 1, &hidden, local.clone()).await;
    assert_eq!(first.1, Generation(1));
    let second = session(ec2, 2, &hidden, local).await;
    assert_eq!(second.1, Generation(2));

    assert_eq!(hidden.lock().unwrap().broken, [""; 0]);
    // Lists may be a moment old.
    let began = Instant::now();
    let snapshots = loop {
        let (instances, volumes, snapshots) = ec2.everything().await.unwrap();
        let left: Vec<_> = instances
            .iter()
            .filter(|instance| instance.state != InstanceState::Terminated)
            .map(|instance| instance.id.to_string())
            .chain(
                volumes
                    .iter()
                    .filter(|volume| volume.state != VolumeState::Deleted)
                    .map(|volume| volume.id.to_string()),
            )
            .collect();
        if left.is_empty() {
            break snapshots;
        }
        assert!(began.elapsed() < DEADLINE, "besides snapshots: {left:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let mut saved: Vec<_> = snapshots
        .iter()
        .map(|snapshot| {
            assert_eq!(snapshot.state, SnapshotState::Completed, "{snapshot:?}");
            (
                snapshot.tags["xdrive:generation"].as_str(),
                snapshot.tags["xdrive:kind"].as_str(),
                snapshot.tags["Name"].as_str(),
            )
        })
        .collect();
    saved.sort_unstable();
    assert_eq!(saved, [("1", "clean", "demo"), ("2", "clean", "demo")]);
}

/// The run of the drive, which is wanted.
fn run() -> WantedRun {
    WantedRun {
        id: CommandId::parse("1f00c2").unwrap(),
        container: None,
        state: RunState::Wanted,
        launch: "market=spot".to_owned(),
        until: "2099-01-01T00:00:00Z".parse().unwrap(),
        exit: None,
        waits: None,
        tended: None,
        told: None,
    }
}

/// moto has no hosts, and no blocks of snapshots: who tends saves what the host left, with the tags of its
/// run, and cannot read how that ended.
#[test]
#[ignore = "needs python3 with moto"]
fn a_tender_saves_what_a_lost_host_left_against_moto() {
    let name = test_name!(a_tender_saves_what_a_lost_host_left_against_moto);
    against_moto(name, async |ec2| {
        let hidden = Arc::new(Mutex::new(Hidden::default()));
        let (_, host, volume) = ready(&ec2, 1, &hidden, None).await;
        ec2.tag(volume.as_str(), &run().tags()).await.unwrap();
        // In this order: moto leaves it attached to what has ended, where EC2 detaches it.
        for call in [
            format!("DetachVolume&VolumeId={volume}&InstanceId={host}"),
            format!("TerminateInstances&InstanceId.1={host}"),
        ] {
            ask("ec2", &format!("{call}&Version=2016-11-15"));
        }
        let tended = run_xdrive(&["tend", "--once"]);
        assert_eq!(tended.0, 75, "{tended:?}");
        let (instances, volumes, snapshots) = ec2.everything().await.unwrap();
        assert!(
            instances
                .iter()
                .all(|it| it.state == InstanceState::Terminated)
        );
        assert_eq!(volumes, []);
        let [saved] = &snapshots[..] else {
            panic!("{snapshots:?}");
        };
        assert_eq!(saved.tags["xdrive:kind"], "crashed");
        let wanted = WantedRun::read(&saved.tags).unwrap();
        assert!(
            wanted.waits.is_some() && wanted.tended.is_some(),
            "{wanted:?}"
        );
        assert_eq!(
            WantedRun {
                waits: None,
                tended: None,
                ..wanted
            },
            run()
        );
    });
}

/// Runs a session of one process: ready, a note, saved.
async fn session(
    ec2: &Ec2,
    process: u32,
    hidden: &Arc<Mutex<Hidden>>,
    local: Option<Local>,
) -> (SnapshotId, Generation) {
    let (mut reconciler, _, volume) = ready(ec2, process, hidden, local).await;
    let (_nobody, mut interrupted) = watch::channel(0);
    let content = {
        let mut hidden = hidden.lock().unwrap();
        hidden.acknowledged.insert(process);
        let content = hidden.contents.get_mut(volume.as_str()).unwrap();
        content.notes.insert(process);
        content.clone()
    };
    let goal = Goal::Saved {
        even_if_used: false,
    };
    let outcome = Box::pin(reconciler.run(goal, &mut interrupted)).await;
    let Outcome::Saved {
        snapshot: Some(saved),
        ..
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    hidden
        .lock()
        .unwrap()
        .contents
        .insert(saved.0.to_string(), content);
    saved
}

/// The drive of one process, mounted: on that host, and that volume.
async fn ready(
    ec2: &Ec2,
    process: u32,
    hidden: &Arc<Mutex<Hidden>>,
    local: Option<Local>,
) -> (Reconciler<PaperHosts>, InstanceId, VolumeId) {
    let timing = Timing {
        poll: Duration::from_millis(100),
        ..Timing::local(Duration::from_millis(100))
    };
    let who = Identity::new(
        SessionId(format!("session-{process}")),
        ec2.owner().await.unwrap(),
    );
    let mut reconciler = Reconciler::new(
        drive(),
        who,
        ec2.clone(),
        PaperHosts::of_cloud(process, hidden, ec2, local),
        Clock::system(),
        timing,
        wanted(Market::Spot),
        |_| {},
    );
    let (_nobody, mut interrupted) = watch::channel(0);
    let goal = Goal::Ready { from: None };
    let outcome = Box::pin(reconciler.run(goal, &mut interrupted)).await;
    let Outcome::Ready {
        instance, volume, ..
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    (reconciler, instance.id, volume)
}
