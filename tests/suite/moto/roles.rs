//! Instance profiles of both clouds: by name and by ARN, kept with the instance, refused where
//! there is none.

mod wide;

use xdrive::ec2::{Ec2, LaunchOrder};
use xdrive::ids::InstanceId;
use xdrive::local::Settings;
use xdrive::local::wire::Params;

use super::calls::launch;
use crate::folder::Folder;
use harness::evidence::may_terminate;

#[tokio::test]
async fn the_folder_gives_instances_the_role_that_is_named() {
    let folder = Folder::in_real_time(Settings {
        instance_profiles: Some(["lab"].into_iter().collect()),
        ..Settings::default()
    });
    let record_of = |id: &InstanceId| {
        let params = Params::new([("InstanceId.1".to_owned(), id.to_string())]);
        let record = folder.local.call("DescribeInstances", &params);
        format!("{:?}", record.unwrap())
    };
    let error = gives_roles(&folder.ec2, "000000000000", record_of).await;
    assert_eq!(error, "InvalidParameterValue");
}

/// Launches with the profile `lab` of `account`, twice, and with a missing one: returns that
/// error's code. `record_of` is the cloud's record of an instance.
async fn gives_roles(
    ec2: &Ec2,
    account: &str,
    record_of: impl Fn(&InstanceId) -> String,
) -> String {
    let with = async |token: &str, profile: Option<&str>| {
        let order = LaunchOrder {
            instance_profile: profile.map(str::to_owned),
            ..launch(token)
        };
        ec2.launch(&order).await
    };
    let arn = format!("arn:aws:iam::{account}:instance-profile/lab");
    for (token, profile) in [("by-name", "lab"), ("by-arn", &arn)] {
        let made = with(token, Some(profile)).await.unwrap();
        let record = record_of(&made.id);
        assert!(record.contains(&arn), "{profile}: {record}");
        ec2.terminate(may_terminate(&made.id)).await.unwrap();
    }
    let plain = with("without", None).await.unwrap();
    let record = record_of(&plain.id);
    assert!(!record.contains("instance-profile"), "{record}");
    ec2.terminate(may_terminate(&plain.id)).await.unwrap();

    let wrong = with("wrong-arn", Some(&format!("{arn}oratory"))).await;
    let refused = with("wrong", Some("nobody")).await.unwrap_err();
    assert_eq!(wrong.unwrap_err().code, refused.code);
    let (instances, ..) = ec2.everything().await.unwrap();
    assert!(instances.len() <= 3, "{instances:?}");
    refused.code
}
