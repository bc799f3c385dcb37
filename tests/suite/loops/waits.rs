//! How often EC2 is asked while something is waited for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use xdrive::cloud::folder;
use xdrive::drive::tags::Identity;
use xdrive::drive::{Goal, Outcome, Reconciler, Timing};
use xdrive::ec2::Market;
use xdrive::ids::SessionId;
use xdrive::local::{Preset, Settings};

use crate::folder::Folder;
use harness::simulation::host::{PaperHosts, wanted};
use harness::simulation::{Hidden, drive};

/// How long the snapshot of a large drive may take.
const PENDING: Duration = Duration::from_hours(1);

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_takes_an_hour_is_waited_for_with_a_few_hundred_calls() {
    let folder = Folder::new(Settings {
        delays: Some(Preset::Aws),
        stale_lists_ms: Some(0),
        stale_reads_ms: Some(0),
        snapshots_take_ms: Some(PENDING.as_millis().try_into().unwrap()),
        ..Settings::default()
    });
    let (local, ec2) = (&folder.local, folder.ec2.clone());
    let hidden = Arc::new(Mutex::new(Hidden::default()));
    let mut reconciler = Reconciler::new(
        drive(),
        Identity::new(
            SessionId("session-1".to_owned()),
            ec2.owner().await.unwrap(),
        ),
        ec2,
        PaperHosts::of_cloud(1, &hidden, &folder::ec2(local), Some(local.clone())),
        folder.clock.clone(),
        Timing::aws(),
        wanted(Market::Spot),
        |_| {},
    );
    let (_nobody, mut interrupted) = watch::channel(0);
    let goal = Goal::Ready { from: None };
    let outcome = Box::pin(reconciler.run(goal, &mut interrupted)).await;
    assert!(matches!(outcome, Outcome::Ready { .. }), "{outcome:?}");
    let _before = folder.connector.calls();
    let began = Instant::now();
    let goal = Goal::Saved {
        even_if_used: false,
    };
    let outcome = Box::pin(reconciler.run(goal, &mut interrupted)).await;
    assert!(matches!(outcome, Outcome::Saved { .. }), "{outcome:?}");
    let took = began.elapsed();
    assert!(
        took >= PENDING && took < PENDING + Duration::from_mins(1),
        "{took:?}"
    );
    let calls = folder.connector.calls();
    let count = |name: &str| calls.iter().filter(|it| it.as_str() == name).count();
    let [instances, volumes, snapshots] =
        ["DescribeInstances", "DescribeVolumes", "DescribeSnapshots"].map(count);
    // A sweep each five minutes, and those around the save itself.
    assert!(instances < 40 && volumes < 60, "{instances}, {volumes}");
    // One a second, then each 5 s, then each 15 s.
    assert!(snapshots < 400, "{snapshots}");
}
