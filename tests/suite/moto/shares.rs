//! Elastic File System of both clouds, through boto3 and through xdrive.

use super::server::{against_moto, prints_the_same_in_both_clouds};
use super::verbs::run_xdrive;
use xdrive::ec2::ShareState;

/// The lines in which the two differ: moto's and the folder's, which AWS agrees with.
const DIFFERENT: [(&str, &str); 3] = [
    // EFS API reference, `CreateMountTarget`.
    (
        "an unknown subnet SubnetNotFound 404",
        "an unknown subnet SubnetNotFound 400",
    ),
    (
        "an unknown group SecurityGroupNotFound 404",
        "an unknown group SecurityGroupNotFound 400",
    ),
    // EC2 API reference, `DeleteSecurityGroup`: a mount target's network interface uses it.
    (
        "the group is used is done",
        "the group is used DependencyViolation 400",
    ),
];

#[test]
#[ignore = "needs python3 with moto and boto3"]
fn file_systems_and_mount_targets_are_the_same_in_both_clouds() {
    prints_the_same_in_both_clouds("shares.py", &DIFFERENT);
}

#[test]
#[ignore = "needs python3 with moto"]
fn a_share_is_made_listed_and_deleted() {
    let name = test_name!(a_share_is_made_listed_and_deleted);
    against_moto(name, async |ec2| {
        for words in ["made data (fs-", "data was there (fs-"] {
            let (code, printed) = run_xdrive(&["share", "create", "data"]);
            assert_eq!(code, 0, "{printed}");
            assert!(printed.contains(words), "{printed}");
        }
        let made = ec2.file_systems().await.unwrap();
        assert_eq!(made.len(), 1, "{made:?}");
        assert_eq!(made[0].state, ShareState::Available);
        assert_eq!(made[0].tags["xdrive:share"], "data");
        assert_eq!(made[0].tags["xdrive:owner"], ec2.owner().await.unwrap());
        assert_eq!(made[0].throughput, "bursting");
        let id = &made[0].id;
        let vpc = ec2.default_vpc().await.unwrap().unwrap();
        let subnets = ec2.default_subnets().await.unwrap();
        let tags = harness::cloud::tags(&[("xdrive:owner", "me")]);
        let group = ec2.create_group("nfs", "nfs", &vpc, &tags).await.unwrap();
        let group = group.unwrap();
        let target = ec2.create_mount_target(id, &subnets[0].id, &group).await;
        let target = target.unwrap().unwrap();
        let again = ec2.create_mount_target(id, &subnets[0].id, &group).await;
        assert_eq!(again.unwrap(), None);
        let there = ec2.mount_targets(id).await.unwrap();
        assert_eq!(there.len(), 1, "{there:?}");
        assert_eq!((&there[0].id, &there[0].vpc), (&target, &Some(vpc)));

        let (code, listed) = run_xdrive(&["share", "list"]);
        assert_eq!(code, 0, "{listed}");
        assert!(listed.contains(id.as_str()), "{listed}");
        let (code, printed) = run_xdrive(&["share", "delete", "data", "--yes"]);
        assert_eq!(code, 0, "{printed}");
        assert_eq!(ec2.file_systems().await.unwrap(), []);
        assert_eq!(ec2.mount_targets(id).await.unwrap(), []);
        ec2.delete_file_system(id).await.unwrap();
        ec2.delete_mount_target(&target).await.unwrap();
    });
}
