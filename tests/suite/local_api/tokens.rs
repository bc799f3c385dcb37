//! Client tokens, and planted faults: repeated calls, and lost answers.

use xdrive::local::Fault;

use super::{launch_params, pass, text, texts};
use crate::folder::Folder;

#[tokio::test(start_paused = true)]
async fn a_repeated_launch_answers_with_the_first_instance() {
    let folder = Folder::aws();
    let mut params = launch_params("us-east-1a");
    params.push(("ClientToken", "once"));
    let first = text(&folder.call("RunInstances", &params), "instanceId");
    pass(20.0).await;
    let again = folder.call("RunInstances", &params);
    assert_eq!(text(&again, "instanceId"), first);
    assert_eq!(text(&again, "name"), "running");
    params[1].1 = "t3.small";
    assert_eq!(
        folder.refused("RunInstances", &params),
        "IdempotentParameterMismatch"
    );
    // A token does not cross zones.
    let mut elsewhere = launch_params("us-east-1b");
    elsewhere.push(("ClientToken", "once"));
    assert_ne!(
        text(&folder.call("RunInstances", &elsewhere), "instanceId"),
        first
    );
    params[1].1 = "t3.micro";
    folder.call("TerminateInstances", &[("InstanceId.1", &first)]);
    assert_eq!(
        folder.refused("RunInstances", &params),
        "IdempotentInstanceTerminated"
    );
    let filter = [
        ("Filter.1.Name", "client-token"),
        ("Filter.1.Value.1", "once"),
    ];
    assert_eq!(
        texts(&folder.call("DescribeInstances", &filter), "clientToken").len(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_repeated_volume_is_the_same_volume() {
    let folder = Folder::aws();
    let mut params = vec![
        ("AvailabilityZone", "us-east-1a"),
        ("Size", "8"),
        ("ClientToken", "once"),
    ];
    let first = text(&folder.call("CreateVolume", &params), "volumeId");
    assert_eq!(
        text(&folder.call("CreateVolume", &params), "volumeId"),
        first
    );
    params[1].1 = "9";
    assert_eq!(
        folder.refused("CreateVolume", &params),
        "IdempotentParameterMismatch"
    );
    params[0].1 = "us-east-1c";
    assert_ne!(
        text(&folder.call("CreateVolume", &params), "volumeId"),
        first
    );
}

#[tokio::test(start_paused = true)]
async fn planted_faults_meet_the_calls_they_are_for_in_any_process() {
    let folder = Folder::aws();
    folder
        .local
        .plant(Fault::no_capacity("t3.micro", 2))
        .unwrap();
    let mut params = launch_params("us-east-1a");
    let error = folder.try_call("RunInstances", &params).unwrap_err();
    assert_eq!(
        (error.status, error.code.as_str()),
        (500, "InsufficientInstanceCapacity")
    );
    params[1].1 = "t3.small";
    folder.call("RunInstances", &params);
    params[1].1 = "t3.micro";
    let other = folder.reopen().unwrap();
    assert!(super::call(&other, "RunInstances", &params).is_err());
    folder.call("RunInstances", &params);
    folder
        .local
        .plant(Fault::throttled("DescribeInstances", 1))
        .unwrap();
    assert_eq!(
        folder.refused("DescribeInstances", &[]),
        "RequestLimitExceeded"
    );
    assert_eq!(
        texts(&folder.call("DescribeInstances", &[]), "instanceId").len(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_its_effect() {
    let folder = Folder::aws();
    let volume = folder.volume();
    pass(10.0).await;
    folder
        .local
        .plant(Fault::answer_lost("CreateSnapshot"))
        .unwrap();
    let params = [("VolumeId", volume.as_str())];
    assert_eq!(folder.refused("CreateSnapshot", &params), "InternalError");
    assert_eq!(
        texts(&folder.call("DescribeSnapshots", &[]), "snapshotId").len(),
        1
    );
}
