//! Variants of `roles`, which `shell/test.sh --all` runs.

use xdrive::ids::InstanceId;

use super::gives_roles;
use crate::moto::server::{against_moto, ask};

#[test]
#[ignore = "needs python3 with moto"]
fn moto_gives_instances_the_role_that_is_named() {
    let name = test_name!(moto_gives_instances_the_role_that_is_named);
    against_moto(name, async |ec2| {
        // Roles are IAM's, which xdrive never calls.
        ask("iam", "CreateInstanceProfile&InstanceProfileName=lab");
        let record_of = |id: &InstanceId| {
            let query = format!("DescribeInstances&InstanceId.1={id}");
            ask("ec2", &query)
        };
        let error = gives_roles(&ec2, "123456789012", record_of).await;
        // moto answers as IAM does. AWS agrees with the folder: EC2 answers InvalidParameterValue
        // (EC2 API reference, Error codes).
        assert_eq!(error, "NoSuchEntity");
    });
}
