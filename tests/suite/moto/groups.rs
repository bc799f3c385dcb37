//! Rules whose source is a group, of both clouds, through boto3.

use std::process::Output;

use super::server::Moto;
use crate::boto;
use crate::session::served::ServedSite;
use harness::python;

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
    let moto = Moto::start();
    let python = python("boto3");
    let script = format!("{}/tests/suite/groups.py", env!("CARGO_MANIFEST_DIR"));
    let mut ask = moto.command(&python);
    // The name that boto3 knows the region by.
    ask.arg(script).env("AWS_DEFAULT_REGION", "us-east-1");
    let printed = lines(ask.output().unwrap());
    let served = ServedSite::paper("");
    let environment = String::from_utf8(served.environment().stdout).unwrap();
    let expected = with(printed, &DIFFERENT);
    assert_eq!(
        lines(boto::run(&python, "groups.py", &environment)),
        expected
    );
}

/// The lines that moto has printed, with those of its lines replaced that AWS would not.
pub(super) fn with(mut printed: Vec<String>, different: &[(&str, &str)]) -> Vec<String> {
    for (moto, folder) in different {
        let line = printed.iter_mut().find(|line| line == moto);
        let line = line.unwrap_or_else(|| panic!("moto does not print {moto}"));
        (*folder).clone_into(line);
    }
    printed
}

pub(super) fn lines(output: Output) -> Vec<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let printed = String::from_utf8(output.stdout).unwrap();
    printed
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}
