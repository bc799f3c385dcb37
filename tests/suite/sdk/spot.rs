//! The notice of an interruption in the spot request.

use std::time::Duration;

use xdrive::ec2::{InstanceState, LaunchOrder, Market, TakenBack};
use xdrive::local::Preset;

use super::{launch_order, until};
use crate::folder::Folder;
use harness::evidence::may_terminate;

#[tokio::test(start_paused = true)]
async fn an_interruption_is_seen_from_outside_while_the_instance_still_runs() {
    let folder = Folder::delayed(Preset::Aws);
    let ec2 = &folder.ec2;
    let instance = ec2.launch(&launch_order("spot")).await.unwrap().id;
    let status = until("its spot request", async || {
        ec2.spot_status(&instance).await.unwrap()
    })
    .await;
    assert_eq!(status.code, "fulfilled");
    assert_eq!(status.interruption(), None);

    tokio::time::sleep(Duration::from_secs(20)).await;
    let at = folder
        .local
        .interrupt(instance.as_str(), Duration::from_mins(2))
        .unwrap();
    let seen = until("the notice", async || {
        ec2.spot_status(&instance).await.unwrap()?.interruption()
    })
    .await;
    let apart = seen.duration_since(at).abs();
    assert!(
        apart.unsigned_abs() <= Duration::from_secs(1),
        "{seen} is not {at}"
    );
    let state = ec2.instance(&instance).await.unwrap().unwrap().state;
    assert_eq!(state, InstanceState::Running);
    let taken = ec2.taken_back(&instance).await.unwrap();
    assert_eq!(taken, Some(TakenBack::At(seen)));

    tokio::time::sleep(Duration::from_mins(3)).await;
    let state = ec2.instance(&instance).await.unwrap().unwrap().state;
    assert_eq!(state, InstanceState::Terminated);
    let taken = ec2.taken_back(&instance).await.unwrap();
    assert_eq!(taken, Some(TakenBack::Already));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_gone_without_a_notice_has_no_minutes_left() {
    let folder = Folder::delayed(Preset::Fast);
    let ec2 = &folder.ec2;
    let instance = ec2.launch(&launch_order("spot")).await.unwrap().id;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(ec2.taken_back(&instance).await.unwrap(), None);
    assert!(!ec2.was_taken_back(&instance).await.unwrap());
    let cut = folder.local.interrupt(instance.as_str(), Duration::ZERO);
    cut.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        ec2.taken_back(&instance).await.unwrap(),
        Some(TakenBack::Already)
    );
    assert!(ec2.was_taken_back(&instance).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_end_by_the_owner_is_no_interruption_and_on_demand_has_no_request() {
    let folder = Folder::delayed(Preset::Fast);
    let ec2 = &folder.ec2;
    let spot = ec2.launch(&launch_order("spot")).await.unwrap().id;
    let order = LaunchOrder {
        market: Market::OnDemand,
        ..launch_order("on-demand")
    };
    let on_demand = ec2.launch(&order).await.unwrap().id;
    ec2.terminate(may_terminate(&spot)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let status = ec2.spot_status(&spot).await.unwrap().unwrap();
    assert_eq!(status.code, "instance-terminated-by-user");
    assert_eq!(status.interruption(), None);
    assert_eq!(ec2.taken_back(&spot).await.unwrap(), None);
    assert!(!ec2.was_taken_back(&spot).await.unwrap());
    assert_eq!(ec2.spot_status(&on_demand).await.unwrap(), None);
}
