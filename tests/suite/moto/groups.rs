//! Rules whose source is a group, of both clouds, through boto3.

use super::server::prints_the_same_in_both_clouds;

/// The lines in which the two differ: moto's and the folder's, which AWS agrees with.
const DIFFERENT: [(&str, &str); 5] = [
    // One of many reports: terraform-provider-aws, issue 2587.
    (
        "twice InvalidPermission.Duplicate",
        "twice InvalidParameterValue",
    ),
    // terraform-provider-aws, issue 1793.
    (
        "unknown protocol is done",
        "unknown protocol InvalidParameterValue",
    ),
    // EC2 identifies a rule without its description.
    (
        "described otherwise is done",
        "described otherwise InvalidPermission.Duplicate",
    ),
    // VPC user guide, *Default security groups*.
    (
        "default",
        "default ('-1', None, None, [('default', None)], [])",
    ),
    // EC2 API reference, `DeleteSecurityGroup`.
    (
        "named by a rule is done",
        "named by a rule DependencyViolation",
    ),
];

#[test]
#[ignore = "needs python3 with moto and boto3"]
fn rules_of_groups_are_the_same_in_both_clouds() {
    prints_the_same_in_both_clouds("groups.py", &DIFFERENT);
}
