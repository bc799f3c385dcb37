//! How soon a drive is ready where everything takes as long as on AWS.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use xdrive::clock::Clock;
use xdrive::drive::pools::{Pool, image_of};
use xdrive::drive::reconcile::Placement;
use xdrive::drive::tags::{Identity, Settings};
use xdrive::drive::{Goal, Limits, Outcome, Reconciler, SessionId, Wanted};
use xdrive::ec2::{Arch, Ec2, Market};
use xdrive::local::plane::Plane;
use xdrive::local::{Delays, Local, OpenOptions, Preset, Settings as LocalSettings};

use crate::paper::host::PaperHosts;
use crate::paper::{Hidden, drive};

/// How often is looked: rarely enough for a test that is over soon.
const POLL: Duration = Duration::from_millis(200);

/// What that may add.
const LOOKS: Duration = Duration::from_millis(1200);

/// One session: how long it took to get ready. Hosts know the `truth`.
async fn session(
    local: &Local,
    truth: &Local,
    hidden: &Arc<Mutex<Hidden>>,
    process: u32,
) -> Duration {
    let ec2 = Ec2::local(local);
    let who = Identity {
        session: SessionId(format!("session-{process}")),
        owner: ec2.owner().await.unwrap(),
    };
    let wanted = Wanted {
        pools: vec![Pool {
            instance_type: "t3.medium".to_owned(),
            zone: None,
            market: Market::Spot,
            image: image_of(Arch::X86_64, 0).to_owned(),
            max_price: None,
        }],
        size: 2,
        lease: Duration::from_mins(15),
        settings: Settings::default(),
        placement: Placement::default(),
    };
    let mut reconciler = Reconciler::new(
        drive(),
        who,
        ec2,
        PaperHosts::of(process, hidden, &Ec2::local(truth), Some(local.clone())),
        local.clock().clone(),
        Limits {
            poll: POLL,
            ..Limits::local(local.delays().settle())
        },
        wanted,
        |_| {},
    );
    let (_nobody, mut heard) = watch::channel(0);
    let began = Instant::now();
    let goal = Goal::Ready { from: None };
    let outcome = Box::pin(reconciler.run(goal, &mut heard)).await;
    let Outcome::Ready { volume, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let took = began.elapsed();
    let content = hidden.lock().unwrap().contents[volume.as_str()].clone();
    let goal = Goal::Saved {
        even_if_used: false,
    };
    let outcome = Box::pin(reconciler.run(goal, &mut heard)).await;
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

/// The instance runs and the volume is attached; that, and the generation that is read back, is
/// heard as late as reads by id are old, and not as late as lists are.
#[tokio::test(start_paused = true)]
async fn a_saved_drive_is_ready_as_soon_as_reads_by_id_tell_what_is() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::tokio("2026-01-01T00:00:00Z".parse().unwrap());
    let open = |stale: Option<u64>| {
        let mut options = OpenOptions::new(dir.path(), Plane::Paper, clock.clone());
        options.settings = LocalSettings {
            delays: Some(Preset::Aws),
            stale_lists_ms: stale,
            stale_reads_ms: stale,
            ..LocalSettings::default()
        };
        Local::open(options).unwrap()
    };
    let (local, truth) = (open(None), open(Some(0)));
    let hidden = Arc::new(Mutex::new(Hidden::default()));
    session(&local, &truth, &hidden, 1).await;
    // Until what has ended is in no list any more.
    tokio::time::sleep(Duration::from_hours(2)).await;
    let took = session(&local, &truth, &hidden, 2).await;
    let delays = Delays::new(Preset::Aws);
    let path = delays.running + delays.attached;
    let told = path + 3 * delays.stale_reads;
    assert!(
        took >= path && took <= told + LOOKS,
        "{took:?}, path {path:?}"
    );
}
