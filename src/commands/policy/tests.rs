use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Args, Grants, partition};
use crate::ec2::Partition;

/// The longest that a managed policy may be, white space not counted (IAM user guide, *IAM and
/// STS character limits*).
const LONGEST: usize = 6144;

/// The only action of EC2's that reads under another name than `Describe…`.
const SCORES: &str = "ec2:GetSpotPlacementScores";

const ROLE: &str = "arn:aws:iam::111122223333:role/xdrive";

const KEY: &str = "arn:aws:kms:us-east-1:111122223333:key/mrk-0123456789abcdef";

fn policy(role: Option<&str>) -> Value {
    let grants = Grants {
        role,
        ..Grants::default()
    };
    super::policy(Partition::default(), grants)
}

fn statements() -> Vec<Value> {
    policy(None)["Statement"].as_array().unwrap().clone()
}

fn allows(statement: &Value, action: &str) -> bool {
    let actions = statement["Action"].as_array().unwrap();
    actions.contains(&json!(action))
}

#[test]
fn every_destructive_action_requires_a_tag() {
    for action in [
        "ec2:TerminateInstances",
        "ec2:DeleteVolume",
        "ec2:DeleteSnapshot",
        "ec2:DetachVolume",
        "ec2:DeleteSecurityGroup",
        "ec2:RevokeSecurityGroupIngress",
    ] {
        let all = statements();
        let mut found = all.iter().filter(|statement| allows(statement, action));
        let statement = found.next().unwrap();
        let condition = statement["Condition"]["Null"].as_object().unwrap();
        let (key, value) = condition.iter().next().unwrap();
        assert!(
            key.starts_with("aws:ResourceTag/xdrive:"),
            "{action}: {key}"
        );
        assert_eq!(value, "false");
        assert!(found.next().is_none(), "{action} is allowed elsewhere too");
    }
}

#[test]
fn nothing_that_is_no_read_is_allowed_everywhere() {
    for statement in statements() {
        if statement["Resource"] == "*" {
            for action in statement["Action"].as_array().unwrap() {
                let action = action.as_str().unwrap();
                let others = [
                    "servicequotas:GetServiceQuota",
                    "pricing:GetProducts",
                    SCORES,
                ];
                assert!(
                    others.contains(&action) || action.starts_with("ec2:Describe"),
                    "{action}"
                );
            }
        }
    }
}

#[test]
fn a_snapshot_is_made_with_its_tag_of_a_volume_that_has_one() {
    let made: Vec<_> = statements()
        .into_iter()
        .filter(|statement| allows(statement, "ec2:CreateSnapshot"))
        .map(|statement| {
            (
                statement["Resource"].clone(),
                statement["Condition"].clone(),
            )
        })
        .collect();
    let (asked, carried) = (
        "aws:RequestTag/xdrive:drive",
        "aws:ResourceTag/xdrive:drive",
    );
    assert_eq!(
        made,
        [
            (
                json!(["arn:aws:ec2:*::snapshot/*"]),
                json!({"Null": {asked: "false"}})
            ),
            (
                json!(["arn:aws:ec2:*:*:volume/*"]),
                json!({"Null": {carried: "false"}})
            ),
        ]
    );
}

#[test]
fn a_copy_is_asked_for_with_its_tag_and_its_original_without() {
    let copying: Vec<_> = statements()
        .into_iter()
        .filter(|statement| allows(statement, "ec2:CopySnapshot"))
        .map(|statement| {
            (
                statement["Resource"].clone(),
                statement["Condition"].clone(),
            )
        })
        .collect();
    assert_eq!(
        copying,
        [
            (
                json!(["arn:aws:ec2:*::snapshot/${*}"]),
                json!({"Null": {"aws:RequestTag/xdrive:drive": "false"}})
            ),
            (json!(["arn:aws:ec2:*::snapshot/snap-*"]), Value::Null),
        ]
    );
}

#[test]
fn with_an_owner_nothing_is_tied_to_the_drive_alone() {
    const OWNER: &str = "arn:aws:iam::111122223333:user/ada";
    let grants = Grants {
        owner: Some(OWNER),
        ..Grants::default()
    };
    let policy = super::policy(Partition::Aws, grants);
    let text = policy.to_string();
    assert!(!text.contains("xdrive:drive"), "{text}");
    let anybodys = ["ec2:RunInstances", "ec2:CreateSecurityGroup"];
    for statement in policy["Statement"].as_array().unwrap() {
        let actions = statement["Action"].as_array().unwrap();
        let actions = actions.iter().map(|action| action.as_str().unwrap());
        let changes = actions.clone().any(|action| {
            let read = action.starts_with("ec2:Describe") || action == SCORES;
            action.starts_with("ec2") && !read || action.starts_with("ebs:")
        });
        let uses = actions.clone().all(|action| anybodys.contains(&action));
        if changes && statement["Effect"] == "Allow" && !(uses && statement["Condition"].is_null())
        {
            let condition = statement["Condition"]["StringEquals"].as_object().unwrap();
            assert!(
                condition.values().any(|value| value == OWNER),
                "{statement}"
            );
        }
    }
}

#[test]
fn tags_are_given_in_create_calls_and_to_what_has_them() {
    let all = statements();
    let tagging: Vec<_> = all
        .iter()
        .filter(|statement| allows(statement, "ec2:CreateTags"))
        .map(|statement| &statement["Condition"])
        .collect();
    assert_eq!(tagging.len(), 2);
    assert_eq!(tagging[0]["Null"]["aws:ResourceTag/xdrive:drive"], "false");
    assert_eq!(
        tagging[1]["StringEquals"]["ec2:CreateAction"],
        json!([
            "CopySnapshot",
            "CreateSecurityGroup",
            "CreateSnapshot",
            "CreateVolume",
            "RunInstances"
        ])
    );
}

#[test]
fn it_fits_a_managed_policy() {
    let keys = [KEY.parse().unwrap(), KEY.parse().unwrap()];
    let owner = format!(
        "arn:aws-us-gov:sts::111122223333:assumed-role/AWSReservedSSO_{}_0123456789abcdef/{}",
        "s".repeat(32),
        "p".repeat(64)
    );
    for owner in [None, Some(&*owner)] {
        let grants = Grants {
            role: Some(ROLE),
            keys: &keys,
            owner,
            tends: false,
            addresses: true,
            reservations: true,
        };
        let text = super::policy(Partition::UsGov, grants).to_string();
        assert!(text.len() <= LONGEST, "{} characters", text.len());
    }
}

#[test]
fn capacity_reservations_are_used_only_where_that_is_asked_for() {
    let grants = Grants {
        reservations: true,
        ..Grants::default()
    };
    let with = super::policy(Partition::Aws, grants);
    let with = with["Statement"].as_array().unwrap();
    let uses = |statement: &Value| {
        statement["Resource"]
            .to_string()
            .contains(":capacity-reservation/*")
    };
    let using: Vec<_> = with.iter().filter(|it| uses(it)).collect();
    assert_eq!(using.len(), 1);
    assert_eq!(using[0]["Action"], json!(["ec2:RunInstances"]));
    assert!(
        with.iter()
            .any(|it| allows(it, "ec2:DescribeCapacityReservations"))
    );
    assert!(!policy(None).to_string().contains("apacity"));
}

#[test]
fn a_role_may_be_passed_only_if_it_is_named() {
    let passes = |policy: &Value| policy.to_string().contains("iam:PassRole");
    assert!(!passes(&policy(None)));
    assert!(passes(&policy(Some(ROLE))));
}

#[test]
fn who_tends_may_do_less() {
    let tends = Grants {
        tends: true,
        ..Grants::default()
    };
    let actions = |policy: &Value| -> BTreeSet<String> {
        let all = policy["Statement"].as_array().unwrap().iter();
        let actions = all.flat_map(|it| it["Action"].as_array().unwrap());
        actions.map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let (whole, less) = (
        actions(&policy(None)),
        actions(&super::policy(Partition::Aws, tends)),
    );
    assert!(less.is_subset(&whole));
    let missing: Vec<&str> = whole.difference(&less).map(String::as_str).collect();
    assert_eq!(missing, ["ec2:CopySnapshot", "ec2:DeleteSecurityGroup"]);
}

#[test]
fn every_arn_is_of_the_partition() {
    for partition in Partition::ALL {
        let (role, key) = (
            ROLE.replace("arn:aws:", &format!("arn:{partition}:")),
            KEY.replace("arn:aws:", &format!("arn:{partition}:")),
        );
        let keys = [key.parse().unwrap()];
        let grants = Grants {
            role: Some(&role),
            keys: &keys,
            owner: None,
            tends: false,
            addresses: true,
            reservations: true,
        };
        let text = super::policy(partition, grants).to_string();
        let arns: Vec<&str> = text.split("\"arn:").skip(1).collect();
        assert!(arns.len() > 10, "{text}");
        for arn in arns {
            let own = arn.split(':').next();
            assert_eq!(own, Some(&*partition.to_string()), "{arn}");
        }
    }
    let grants = Grants {
        role: Some(ROLE),
        ..Grants::default()
    };
    let china = super::policy(Partition::Cn, grants).to_string();
    assert!(china.contains("ec2.amazonaws.com.cn"), "{china}");
}

#[test]
fn an_own_key_is_used_and_granted_to_aws_alone() {
    let grants = Grants {
        keys: &[KEY.parse().unwrap()],
        ..Grants::default()
    };
    let policy = super::policy(Partition::Aws, grants);
    let all = policy["Statement"].as_array().unwrap();
    let of_key: Vec<_> = all
        .iter()
        .filter(|statement| statement["Resource"] == json!([KEY]))
        .collect();
    assert_eq!(of_key.len(), 2);
    assert_eq!(
        of_key[0]["Action"],
        json!([
            "kms:DescribeKey",
            "kms:GenerateDataKey",
            "kms:GenerateDataKeyWithoutPlaintext",
            "kms:ReEncrypt*",
            "kms:Decrypt"
        ])
    );
    assert!(of_key[0]["Condition"].is_null());
    assert_eq!(of_key[1]["Action"], json!(["kms:CreateGrant"]));
    let granted = &of_key[1]["Condition"]["Bool"]["kms:GrantIsForAWSResource"];
    assert_eq!(granted, "true");
    assert!(
        !super::policy(Partition::Aws, Grants::default())
            .to_string()
            .contains("kms:")
    );
}

#[test]
fn the_rights_of_selftest_overlap_with_none_of_a_drive() {
    let policy = super::of_selftest(Partition::Cn);
    let text = policy.to_string();
    for statement in policy["Statement"].as_array().unwrap() {
        assert_ne!(statement["Resource"], "*", "{statement}");
        for action in statement["Action"].as_array().unwrap() {
            let is_there = |own: &Value| {
                own["Resource"] == statement["Resource"] && allows(own, action.as_str().unwrap())
            };
            assert!(!statements().iter().any(is_there), "{statement}");
        }
    }
    assert!(text.len() <= LONGEST, "{} characters", text.len());
    assert!(text.contains("arn:aws-cn:iam::*:role/*"), "{text}");
    assert!(!text.contains("arn:aws:"), "{text}");
    let starts = &policy["Statement"][0];
    assert_eq!(
        starts["Condition"]["Null"]["aws:ResourceTag/xdrive:drive"],
        "false"
    );
}

#[test]
fn an_experiment_takes_its_tags_and_a_role_goes_to_nobody_but_its_service() {
    let policy = super::of_selftest(Partition::Aws);
    let all = policy["Statement"].as_array().unwrap();
    for (action, key) in [
        (
            "fis:DeleteExperimentTemplate",
            "aws:ResourceTag/xdrive:drive",
        ),
        ("fis:GetExperiment", "aws:ResourceTag/xdrive:drive"),
        ("fis:TagResource", "aws:RequestTag/xdrive:drive"),
    ] {
        let mut found = all.iter().filter(|statement| allows(statement, action));
        assert!(found.clone().count() > 0, "{action}");
        assert!(
            found.all(|it| it["Condition"]["Null"][key] == "false"),
            "{action}"
        );
    }
    let starts = all.iter().filter(|it| allows(it, "fis:StartExperiment"));
    assert_eq!(starts.count(), 2);
    let passes: Vec<_> = all.iter().filter(|it| allows(it, "iam:PassRole")).collect();
    assert_eq!(passes.len(), 1);
    let to = &passes[0]["Condition"]["StringEquals"]["iam:PassedToService"];
    assert_eq!(to, "fis.amazonaws.com");
}

#[test]
fn the_partition_is_that_of_the_arns_which_have_to_agree() {
    let order = |partition, role: &str, key: Option<&str>| Args {
        results: None,
        partition,
        role: Some(role.to_owned()),
        address: false,
        reservation: false,
        own: false,
        tend: false,
        selftest: false,
        shares: false,
        kms_key: key.map(|key| key.parse().unwrap()).into_iter().collect(),
    };
    let gov = ROLE.replace("aws", "aws-us-gov");
    assert_eq!(partition(&Args::default(), None).unwrap(), None);
    let found = partition(&order(None, &gov, None), None).unwrap();
    assert_eq!(found, Some(Partition::UsGov));
    for wrong in [
        order(Some(Partition::Aws), &gov, None),
        order(None, &gov, Some(KEY)),
        order(None, "xdrive", None),
    ] {
        assert!(partition(&wrong, None).is_err(), "{wrong:?}");
    }
}

#[test]
fn the_role_of_a_run_may_add_to_the_place_of_its_results_alone() {
    let of = |place: &str| super::of_results(Partition::default(), &place.parse().unwrap());
    let expected = json!({"Version": "2012-10-17", "Statement": [
        {
            "Effect": "Allow",
            "Action": ["s3:PutObject", "s3:AbortMultipartUpload"],
            "Resource": "arn:aws:s3:::bucket/runs/demo/*",
        },
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": "arn:aws:s3:::bucket",
            "Condition": {"StringLike": {"s3:prefix": ["runs/demo", "runs/demo/*"]}},
        },
    ]});
    assert_eq!(of("s3://bucket/runs/demo"), expected);
    let whole = of("s3://bucket");
    assert_eq!(whole["Statement"][0]["Resource"], "arn:aws:s3:::bucket/*");
    assert_eq!(whole["Statement"][1]["Condition"], Value::Null);
}
