//! The time until a drive is ready, with AWS's delays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use xdrive::cloud::folder;
use xdrive::drive::tags::Identity;
use xdrive::drive::{Goal, Outcome, Reconciler, Timing};
use xdrive::ec2::Market;
use xdrive::ids::SessionId;
use xdrive::local::{Delays, Local, Preset, Settings};

use crate::folder::Folder;
use harness::simulation::host::{PaperHosts, wanted};
use harness::simulation::{Hidden, drive};

/// The interval of polls: long enough for a fast test.
const POLL: Duration = Duration::from_millis(200);

/// The time that polling may add.
const LOOKS: Duration = Duration::from_millis(1200);

/// Runs one session; how long it took to get ready. Hosts know the `truth`.
async fn session(
    local: &Local,
    truth: &Local,
    hidden: &Arc<Mutex<Hidden>>,
    process: u32,
) -> Duration {
    let ec2 = folder::ec2(local);
    let who = Identity::new(
        SessionId(format!("session-{process}")),
        ec2.owner().await.unwrap(),
    );
    let mut reconciler = Reconciler::new(
        drive(),
        who,
        ec2,
        PaperHosts::of_cloud(process, hidden, &folder::ec2(truth), Some(local.clone())),
        local.clock().clone(),
        Timing {
            poll: POLL,
            ..Timing::local(local.delays().settle())
        },
        wanted(Market::Spot),
        |_| {},
    );
    let (_nobody, mut interrupted) = watch::channel(0);
    let began = Instant::now();
    let goal = Goal::Ready { from: None };
    let outcome = Box::pin(reconciler.run(goal, &mut interrupted)).await;
    let Outcome::Ready { volume, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let took = began.elapsed();
    let content = hidden.lock().unwrap().contents[volume.as_str()].clone();
    let goal = Goal::Saved {
        even_if_used: false,
    };
    let outcome = Box::pin(reconciler.run(goal, &mut interrupted)).await;
    let Outcome::Saved {
        snapshot: Some((saved, _)),
        ..
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    let contents = &mut hidden.lock().unwrap().contents;
    contents.insert(saved.to_string(), content);
    took
}

/// The session sees the instance run after the staleness of reads by id, not that of lists. It
/// reads the generation back while EC2 attaches, and the host itself sees the device.
#[tokio::test(start_paused = true)]
async fn a_saved_drive_is_ready_as_soon_as_reads_by_id_are_current() {
    let stale = |stale: Option<u64>| Settings {
        delays: Some(Preset::Aws),
        stale_lists_ms: stale,
        stale_reads_ms: stale,
        ..Settings::default()
    };
    let folder = Folder::new(stale(None));
    let truth = folder.reopen_with(&stale(Some(0))).unwrap();
    let local = &folder.local;
    let hidden = Arc::new(Mutex::new(Hidden::default()));
    session(local, &truth, &hidden, 1).await;
    // Until ended resources are in no list any more.
    tokio::time::sleep(Duration::from_hours(2)).await;
    let took = session(local, &truth, &hidden, 2).await;
    let delays = Delays::new(Preset::Aws);
    let path = delays.running + delays.attached;
    let known = path + delays.stale_reads;
    assert!(
        took >= path && took <= known + LOOKS,
        "{took:?}, path {path:?}"
    );
}
