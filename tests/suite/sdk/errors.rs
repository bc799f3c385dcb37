//! Failed calls become errors of a kind to act on, after as many attempts as are safe.

use std::time::Duration;

use xdrive::cloud;
use xdrive::ec2::{Kind, Market};
use xdrive::ids::{InstanceId, SnapshotId, VolumeId};
use xdrive::local::{Fault, Preset};

use super::{DEVICE, drive, launch_order, tags, volume_order};
use crate::folder::Folder;
use harness::evidence::{may_delete, may_prune, may_terminate};
use harness::faults::connector::Trouble;

fn nowhere() -> (InstanceId, VolumeId, SnapshotId) {
    let hex = "0123456789abcdef0";
    (
        format!("i-{hex}").parse().unwrap(),
        format!("vol-{hex}").parse().unwrap(),
        format!("snap-{hex}").parse().unwrap(),
    )
}

#[tokio::test(start_paused = true)]
async fn an_empty_pool_is_capacity_after_one_attempt() {
    let folder = Folder::delayed(Preset::Fast);
    folder
        .local
        .plant(Fault::no_capacity("t3.medium", 1))
        .unwrap();
    let error = folder.ec2.launch(&launch_order("a")).await.unwrap_err();
    assert_eq!(error.kind, Kind::Capacity);
    assert_eq!(error.call, "RunInstances");
    assert_eq!(error.code, "InsufficientInstanceCapacity");
    assert!(error.message.contains("sufficient capacity"), "{error}");
    assert_eq!(folder.connector.calls(), ["RunInstances"]);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_launch_is_repeated_because_it_was_not_carried_out() {
    let folder = Folder::delayed(Preset::Fast);
    folder
        .local
        .plant(Fault::throttled("RunInstances", 2))
        .unwrap();
    folder.ec2.launch(&launch_order("a")).await.unwrap();
    assert_eq!(folder.connector.calls().len(), 3);
    folder
        .local
        .plant(Fault::throttled("RunInstances", 9))
        .unwrap();
    let error = folder.ec2.launch(&launch_order("b")).await.unwrap_err();
    assert_eq!(error.kind, Kind::Throttled);
    assert_eq!(folder.connector.calls().len(), 4, "with an end");
}

#[tokio::test(start_paused = true)]
async fn destructive_calls_are_attempted_once_whatever_is_answered() {
    let folder = Folder::delayed(Preset::Fast);
    let (instance, volume, snapshot) = nowhere();
    for (status, code, kind) in [
        (503, "RequestLimitExceeded", Kind::Throttled),
        (500, "InternalError", Kind::Server),
        (403, "UnauthorizedOperation", Kind::Denied),
    ] {
        for action in ["TerminateInstances", "DeleteVolume", "DeleteSnapshot"] {
            folder
                .local
                .plant(Fault::new(action, status, code, "no"))
                .unwrap();
            let error = match action {
                "TerminateInstances" => folder.ec2.terminate(may_terminate(&instance)).await,
                "DeleteVolume" => folder.ec2.delete_volume(may_delete(&volume)).await,
                _ => folder.ec2.delete_snapshot(may_prune(&snapshot)).await,
            }
            .unwrap_err();
            assert_eq!((error.kind, error.code.as_str()), (kind, code));
            assert_eq!(folder.connector.calls(), [action]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn missing_resources_are_destroyed_already_and_read_as_none() {
    let folder = Folder::delayed(Preset::Fast);
    let (instance, volume, snapshot) = nowhere();
    folder
        .ec2
        .terminate(may_terminate(&instance))
        .await
        .unwrap();
    folder.ec2.delete_volume(may_delete(&volume)).await.unwrap();
    folder
        .ec2
        .delete_snapshot(may_prune(&snapshot))
        .await
        .unwrap();
    assert_eq!(folder.ec2.instance(&instance).await.unwrap(), None);
    assert_eq!(folder.ec2.volume(&volume).await.unwrap(), None);
    assert_eq!(folder.ec2.snapshot(&snapshot).await.unwrap(), None);
    for error in [
        folder
            .ec2
            .attach(&volume, &instance, DEVICE)
            .await
            .unwrap_err(),
        folder.ec2.detach(&volume, &instance).await.unwrap_err(),
        folder
            .ec2
            .tag(volume.as_str(), &tags(&[]))
            .await
            .unwrap_err(),
        folder
            .ec2
            .create_snapshot(&volume, &tags(&[]))
            .await
            .unwrap_err(),
        folder
            .ec2
            .keep_on_termination(&instance, DEVICE)
            .await
            .unwrap_err(),
        folder.ec2.console(&instance).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, Kind::NotFound, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_in_use_or_of_another_zone_is_distinguished_from_a_wrong_request() {
    let folder = Folder::delayed(Preset::Fast);
    let instance = folder.ec2.launch(&launch_order("a")).await.unwrap().id;
    let volume = folder
        .ec2
        .create_volume(&volume_order("v"))
        .await
        .unwrap()
        .id;
    let early = folder
        .ec2
        .attach(&volume, &instance, DEVICE)
        .await
        .unwrap_err();
    assert_eq!(early.kind, Kind::State, "{early}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    folder.ec2.attach(&volume, &instance, DEVICE).await.unwrap();
    let twice = folder
        .ec2
        .attach(&volume, &instance, "/dev/sdg")
        .await
        .unwrap_err();
    assert_eq!(
        (twice.kind, twice.code.as_str()),
        (Kind::State, "VolumeInUse")
    );
    let used = folder
        .ec2
        .delete_volume(may_delete(&volume))
        .await
        .unwrap_err();
    assert_eq!(used.kind, Kind::State, "{used}");
    for image in ["no image", "ami-0123456789abcdef0"] {
        let mut order = launch_order("b");
        order.image = image.to_owned();
        let wrong = folder.ec2.launch(&order).await.unwrap_err();
        assert_eq!(wrong.kind, Kind::Invalid, "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_ambiguous_and_the_thing_may_exist() {
    let folder = Folder::delayed(Preset::Fast);
    for trouble in [
        Trouble::AnswerLost,
        Trouble::NoAnswerAfter,
        Trouble::Answered(502, "<html>Bad Gateway</html>"),
        Trouble::Answered(200, "<html>Log in to this network</html>"),
        Trouble::Answered(200, "<RunInstancesResponse><instancesSet><item>"),
        Trouble::Answered(200, "<RunInstancesResponse></RunInstancesResponse>"),
    ] {
        let before = folder.ec2.instances(&drive()).await.unwrap().len();
        folder.connector.calls();
        folder.connector.trouble("RunInstances", trouble.clone());
        let order = launch_order(&format!("lost-{before}"));
        let error = folder.ec2.launch(&order).await.unwrap_err();
        assert_eq!(error.kind, Kind::Ambiguous, "{trouble:?}: {error}");
        assert_eq!(error.code, "", "{trouble:?}: {error}");
        assert!(!error.message.is_empty());
        assert_eq!(folder.connector.calls(), ["RunInstances"], "{trouble:?}");
        let after = folder.ec2.instances(&drive()).await.unwrap().len();
        assert_eq!(after, before + 1, "{trouble:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_arrives_is_ambiguous_too() {
    let folder = Folder::delayed(Preset::Fast);
    for trouble in [Trouble::Refused, Trouble::NoAnswer] {
        folder.connector.trouble("RunInstances", trouble.clone());
        let error = folder.ec2.launch(&launch_order("a")).await.unwrap_err();
        assert_eq!(error.kind, Kind::Ambiguous, "{trouble:?}: {error}");
        assert_eq!(folder.connector.calls(), ["RunInstances"]);
    }
    assert_eq!(folder.ec2.instances(&drive()).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_made_with_its_tags_and_never_attempted_twice() {
    let folder = Folder::delayed(Preset::Fast);
    let order = volume_order("v");
    let volume = folder.ec2.create_volume(&order).await.unwrap().id;
    tokio::time::sleep(Duration::from_mins(1)).await;
    // Without it a snapshot is somebody else's backup.
    let saved = tags(&[("xdrive:op", "a save")]);
    let source = folder.ec2.create_snapshot(&volume, &saved).await;
    let source = source.unwrap().id;
    let region = folder.ec2.region().to_owned();
    let early = folder.ec2.copy_snapshot(&region, &source, &tags(&[])).await;
    assert_eq!(early.unwrap_err().kind, Kind::State);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let own = tags(&[("xdrive:op", "a copy")]);
    let copy = folder.ec2.copy_snapshot(&region, &source, &own).await;
    let copy = folder.ec2.snapshot(&copy.unwrap()).await.unwrap().unwrap();
    assert_eq!(copy.volume.unwrap().as_str(), "vol-ffffffff");
    assert_eq!(copy.tags, own);
    let afar = folder.ec2.copy_snapshot("us-west-2", &source, &own).await;
    assert_eq!(afar.unwrap_err().kind, Kind::NotFound);

    folder.connector.calls();
    folder
        .connector
        .trouble("CopySnapshot", Trouble::AnswerLost);
    let lost = folder.ec2.copy_snapshot(&region, &source, &own).await;
    assert_eq!(lost.unwrap_err().kind, Kind::Ambiguous);
    // The first has its key.
    let calls = folder.connector.calls();
    assert_eq!(calls, ["DescribeSnapshots", "CopySnapshot"]);
    assert_eq!(folder.ec2.snapshots(&drive()).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_never_attempted_twice() {
    let folder = Folder::delayed(Preset::Fast);
    let volume = folder
        .ec2
        .create_volume(&volume_order("v"))
        .await
        .unwrap()
        .id;
    tokio::time::sleep(Duration::from_mins(1)).await;
    folder.connector.calls();
    folder
        .connector
        .trouble("CreateSnapshot", Trouble::AnswerLost);
    let saved = tags(&[("xdrive:op", "a save")]);
    let error = folder
        .ec2
        .create_snapshot(&volume, &saved)
        .await
        .unwrap_err();
    assert_eq!(error.kind, Kind::Ambiguous);
    assert_eq!(folder.connector.calls(), ["CreateSnapshot"]);
    assert_eq!(folder.ec2.snapshots(&drive()).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_look_and_a_call_with_a_token_survive_a_bad_line() {
    let folder = Folder::delayed(Preset::Fast);
    folder
        .connector
        .trouble("CreateVolume", Trouble::AnswerLost);
    folder.connector.trouble("CreateVolume", Trouble::NoAnswer);
    folder.ec2.create_volume(&volume_order("v")).await.unwrap();
    assert_eq!(folder.connector.calls(), ["CreateVolume"; 3]);
    folder
        .connector
        .trouble("DescribeVolumes", Trouble::Refused);
    folder
        .local
        .plant(Fault::throttled("DescribeVolumes", 1))
        .unwrap();
    assert_eq!(folder.ec2.volumes(&drive()).await.unwrap().len(), 1);
    assert_eq!(folder.connector.calls(), ["DescribeVolumes"; 3]);
}

#[tokio::test(start_paused = true)]
async fn many_failures_do_not_use_up_the_retries_of_others() {
    // The SDK's own budget is 500 tokens for all clients of a region, and a retry costs five.
    for _ in 0..60 {
        let folder = Folder::delayed(Preset::Fast);
        for _ in 0..2 {
            folder
                .connector
                .trouble("DescribeVolumes", Trouble::Refused);
        }
        folder.ec2.volumes(&drive()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_is_refused_is_not_sent_again_in_another_way() {
    let folder = Folder::delayed(Preset::Fast);
    let fault = Fault::new("RunInstances", 400, "InvalidParameterCombination", "no");
    folder.local.plant(fault).unwrap();
    let error = folder.ec2.launch(&launch_order("a")).await.unwrap_err();
    assert_eq!(
        (error.kind, &*error.code),
        (Kind::Invalid, "InvalidParameterCombination")
    );
    assert_eq!(folder.connector.calls(), ["RunInstances"]);
    assert!(folder.ec2.instances(&drive()).await.unwrap().is_empty());
    // EC2 accepts one-time spot with the shutdown behaviour `terminate`.
    let launched = folder.ec2.launch(&launch_order("b")).await.unwrap();
    assert_eq!(launched.market, Market::Spot);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_folder_is_a_matter_of_credentials() {
    let folder = Folder::delayed(Preset::Fast);
    let other = Folder::delayed(Preset::Fast);
    let stranger = cloud::folder::ec2_through(&folder.local, other.connector.client());
    let error = stranger.volumes(&drive()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.code.as_str()),
        (Kind::Credentials, "AuthFailure")
    );
    let error = stranger.owner().await.unwrap_err();
    assert_eq!(
        (error.kind, error.code.as_str()),
        (Kind::Credentials, "InvalidClientTokenId")
    );
}
