//! Interrupted spot instances.

use std::time::Duration;

use super::{find, launch_params, pass, text};
use crate::folder::Folder;

/// A spot instance that runs, and its request.
fn spot(folder: &Folder) -> (String, String) {
    let mut params = launch_params("us-east-1a");
    params.push(("InstanceMarketOptions.MarketType", "spot"));
    let launched = folder.call("RunInstances", &params);
    (
        text(&launched, "instanceId"),
        text(&launched, "spotInstanceRequestId"),
    )
}

/// State and status code of a spot request.
fn request(folder: &Folder, id: &str) -> (String, String) {
    let seen = folder.call(
        "DescribeSpotInstanceRequests",
        &[("SpotInstanceRequestId.1", id)],
    );
    let item = &seen.children[0].children[0];
    let status = find(item, "status").unwrap();
    (text(item, "state"), text(status, "code"))
}

fn no_capacity() -> (String, String) {
    (
        "closed".to_owned(),
        "instance-terminated-no-capacity".to_owned(),
    )
}

#[tokio::test(start_paused = true)]
async fn an_interruption_shows_two_minutes_before_the_end() {
    let folder = Folder::aws();
    let (id, spot) = spot(&folder);
    let volume = folder.volume();
    pass(16.0).await;
    folder.call(
        "AttachVolume",
        &[
            ("VolumeId", &volume),
            ("InstanceId", &id),
            ("Device", "/dev/sdf"),
        ],
    );
    let at = folder.local.interrupt(&id, Duration::from_mins(2)).unwrap();
    let left = at.duration_since(folder.local.clock().now());
    assert!((119..=120).contains(&left.as_secs()), "{left}");
    assert_eq!(request(&folder, &spot), no_capacity());
    pass(118.0).await;
    assert_eq!(folder.instance_state(&id), "running");
    pass(3.0).await;
    assert_eq!(folder.instance_state(&id), "shutting-down");
    assert_eq!(folder.volume_state(&volume), "in-use");
    pass(60.0).await;
    assert_eq!(folder.instance_state(&id), "terminated");
    assert_eq!(folder.volume_state(&volume), "available");
    assert_eq!(request(&folder, &spot), no_capacity());
    let seen = folder.call("DescribeInstances", &[("InstanceId.1", &id)]);
    let reason = find(&seen, "stateReason").unwrap();
    assert_eq!(text(reason, "code"), "Server.SpotInstanceTermination");
    assert!(text(&seen, "reason").starts_with("Service initiated ("));
}

#[tokio::test(start_paused = true)]
async fn who_ends_an_instance_after_its_notice_ended_it_and_the_request_stays_closed() {
    let folder = Folder::aws();
    let (id, spot) = spot(&folder);
    pass(16.0).await;
    folder.local.interrupt(&id, Duration::from_mins(2)).unwrap();
    pass(10.0).await;
    folder.call("TerminateInstances", &[("InstanceId.1", &id)]);
    pass(60.0).await;
    assert_eq!(folder.instance_state(&id), "terminated");
    assert_eq!(request(&folder, &spot), no_capacity());
    let seen = folder.call("DescribeInstances", &[("InstanceId.1", &id)]);
    let reason = find(&seen, "stateReason").unwrap();
    assert_eq!(text(reason, "code"), "Client.UserInitiatedShutdown");
}

#[tokio::test(start_paused = true)]
async fn of_two_interruptions_the_earlier_end_holds_in_another_process_too() {
    let folder = Folder::aws();
    let (id, _) = spot(&folder);
    pass(16.0).await;
    let soon = folder
        .local
        .interrupt(&id, Duration::from_secs(30))
        .unwrap();
    let other = folder.reopen().unwrap();
    let again = other.interrupt(&id, Duration::from_mins(2)).unwrap();
    assert_eq!(again, soon);
    let sooner = other.interrupt(&id, Duration::from_secs(5)).unwrap();
    assert!(sooner < soon);
    pass(60.0).await;
    assert_eq!(folder.instance_state(&id), "terminated");
}

#[tokio::test(start_paused = true)]
async fn only_running_spot_instances_are_interrupted_or_recommended_to_be_left() {
    let folder = Folder::aws();
    let (on_demand, (ended, _)) = (folder.launch(), spot(&folder));
    let (running, request_id) = spot(&folder);
    pass(16.0).await;
    folder.call("TerminateInstances", &[("InstanceId.1", &ended)]);
    let unknown = "i-0123456789abcdef0".to_owned();
    for (id, code) in [
        (&on_demand, "UnsupportedOperation"),
        (&ended, "IncorrectInstanceState"),
        (&unknown, "InvalidInstanceID.NotFound"),
    ] {
        let interrupted = folder.local.interrupt(id, Duration::from_mins(2));
        assert_eq!(interrupted.unwrap_err().code, code);
        let recommended = folder.local.recommend_rebalance(id);
        assert_eq!(recommended.unwrap_err().code, code);
    }
    folder.local.recommend_rebalance(&running).unwrap();
    pass(600.0).await;
    assert_eq!(folder.instance_state(&running), "running");
    assert_eq!(folder.instance_state(&on_demand), "running");
    assert_eq!(request(&folder, &request_id).1, "fulfilled");
}
