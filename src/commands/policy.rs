//! `xdrive policy`: the IAM policy that allows what xdrive does, and no more.
//!
//! Made from the one list of calls ([`crate::ec2::calls`]). Calls that change or destroy are
//! allowed only on resources with xdrive's tags, and new resources must have these tags in the
//! create call; tags may be changed only on resources that have them. IAM cannot tell drives apart:
//! the policy allows the use of every drive of the account.
//!
//! A policy whose ARNs name another partition is malformed. The partition is that of `--partition`,
//! else that of the given ARNs, else that of the region if one is set.

use anyhow::anyhow;
use serde_json::{Value, json};

use super::Context;
use crate::cloud;
use crate::ec2::calls::{CALLS, Right};
use crate::ec2::{DRIVE, KeyArn, Partition};
use crate::failure::{Exit, Failure};

/// Resources whose ARNs name no account (Service authorization reference, *Resource types defined
/// by Amazon EC2*).
const OF_NOBODY: [&str; 2] = ["image", "snapshot"];

/// Resources that must be a drive's even where a call only uses them to make another.
const OF_A_DRIVE: [&str; 2] = ["snapshot", "volume"];

/// The KMS actions of a caller who makes, attaches, saves and reads encrypted disks (EBS user
/// guide, *Permissions for IAM users*).
const USE_OF_A_KEY: [&str; 4] = [
    "kms:DescribeKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncrypt*",
    "kms:Decrypt",
];

/// `xdrive policy`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Also allow to give this role to instances (`--instance-profile`).
    #[arg(long, value_name = "ARN")]
    pub role: Option<String>,

    /// Also allow disks that are encrypted with this key of the account's own instead of aws/ebs
    /// (repeatable).
    #[arg(long, value_name = "ARN")]
    pub kms_key: Vec<KeyArn>,

    /// The partition that the account is in: aws, aws-us-gov, aws-cn or aws-eusc [default: that of
    /// the ARNs given here, else of the region that is set, else aws].
    #[arg(long, value_name = "PARTITION")]
    pub partition: Option<Partition>,

    /// Write instead what `xdrive selftest` asks besides: IAM's simulation, Session Manager, and
    /// Fault Injection Service.
    #[arg(long, conflicts_with_all = ["role", "kms_key"])]
    pub selftest: bool,
}

/// Prints the policy. Returns the exit code. The region, which may decide the partition, is read
/// from environment and profile without a call.
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let partition = match partition(args)? {
        Some(partition) => partition,
        None => cloud::partition(&context.account)?,
    };
    let policy = if args.selftest {
        of_selftest(partition)
    } else {
        policy(partition, args.role.as_deref(), &args.kms_key)
    };
    super::print(&format!("{policy:#}\n"))
}

/// The partition of `--partition` or of the ARNs. Fails if they disagree.
fn partition(args: &Args) -> Result<Option<Partition>, Failure> {
    let mut known = args.partition;
    let keys = args.kms_key.iter().map(KeyArn::as_str);
    for arn in keys.chain(args.role.as_deref()) {
        let Some(found) = Partition::of_arn(arn) else {
            let error = anyhow!("{arn:?} is no ARN of a partition that xdrive knows");
            return Err(Failure::new(Exit::Usage, error));
        };
        match known {
            Some(partition) if partition != found => {
                let error = anyhow!("{arn} is of the partition {found}, and not of {partition}");
                return Err(Failure::new(Exit::Usage, error));
            }
            _ => known = Some(found),
        }
    }
    Ok(known)
}

/// The policy document (IAM user guide, *IAM JSON policy elements reference*).
#[must_use]
pub fn policy(partition: Partition, role: Option<&str>, keys: &[KeyArn]) -> Value {
    let mut statements = Statements::default();
    let arns = |kinds: &[&str]| arns(partition, kinds);
    let mut creating = Vec::new();
    let mut created: Vec<&str> = Vec::new();
    for call in CALLS {
        let action = format!("{}:{}", call.service, call.name);
        match call.right {
            Right::Free => {}
            Right::Read => statements.allow(&action, &json!("*"), &Value::Null),
            Right::Own { kinds, tag } => statements.allow(&action, &arns(kinds), &carries(tag)),
            Right::Make { kinds, tag, with } => {
                statements.allow(&action, &arns(kinds), &asks_for(tag));
                let (own, others): (Vec<&str>, Vec<&str>) =
                    with.iter().partition(|kind| OF_A_DRIVE.contains(kind));
                statements.allow(&action, &arns(&own), &carries(tag));
                statements.allow(&action, &arns(&others), &Value::Null);
                creating.push(call.name);
                created.extend(kinds);
            }
        }
    }
    created.sort_unstable();
    created.dedup();
    let in_a_create_call = json!({"StringEquals": {"ec2:CreateAction": creating}});
    statements.allow("ec2:CreateTags", &arns(&created), &in_a_create_call);
    // EC2 resolves `resolve:ssm:` images as the caller.
    let parameters = json!(format!("arn:{partition}:ssm:*::parameter/aws/service/*"));
    statements.allow("ssm:GetParameters", &parameters, &Value::Null);
    // The account's first spot request makes this role.
    statements.allow(
        "iam:CreateServiceLinkedRole",
        &json!(format!(
            "arn:{partition}:iam::*:role/aws-service-role/spot.amazonaws.com/\
             AWSServiceRoleForEC2Spot"
        )),
        &json!({"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}}),
    );
    if let Some(role) = role {
        let to_instances = json!({"StringEquals": {"iam:PassedToService": partition.ec2()}});
        statements.allow("iam:PassRole", &json!(role), &to_instances);
    }
    if !keys.is_empty() {
        let keys = json!(keys.iter().map(KeyArn::as_str).collect::<Vec<_>>());
        for action in USE_OF_A_KEY {
            statements.allow(action, &keys, &Value::Null);
        }
        // EBS makes a grant for each disk; nothing else needs the key.
        let for_aws = json!({"Bool": {"kms:GrantIsForAWSResource": "true"}});
        statements.allow("kms:CreateGrant", &keys, &for_aws);
    }
    json!({"Version": "2012-10-17", "Statement": statements.0})
}

/// What `xdrive selftest` calls in addition: IAM's own simulation of the caller's policies
/// (`GetRole` has a role's path); Session Manager where it is named (Systems Manager user guide,
/// *Sample IAM policies for Session Manager*); and experiments in the role that is named (AWS FIS
/// user guide, *Policy examples*), of the one action that takes spot instances back.
#[must_use]
pub fn of_selftest(partition: Partition) -> Value {
    let mut statements = Statements::default();
    let of_iam = |kind: &str| format!("arn:{partition}:iam::*:{kind}/*");
    let callers = json!([of_iam("user"), of_iam("role")]);
    statements.allow("iam:SimulatePrincipalPolicy", &callers, &Value::Null);
    statements.allow("iam:GetRole", &json!(of_iam("role")), &Value::Null);
    let session = "ssm:StartSession";
    statements.allow(session, &arns(partition, &["instance"]), &carries(DRIVE));
    let document = format!("arn:{partition}:ssm:*:*:document/AWS-StartSSHSession");
    statements.allow(session, &json!(document), &Value::Null);
    let own = json!(format!("arn:{partition}:ssm:*:*:session/${{aws:userid}}-*"));
    statements.allow("ssm:TerminateSession", &own, &Value::Null);
    experiments(&mut statements, partition);
    json!({"Version": "2012-10-17", "Statement": statements.0})
}

fn experiments(statements: &mut Statements, partition: Partition) {
    let of_fis = |name: &str| json!(format!("arn:{partition}:fis:*:*:{name}"));
    let action = of_fis("action/aws:ec2:send-spot-instance-interruptions");
    let (template, experiment) = (of_fis("experiment-template/*"), of_fis("experiment/*"));
    let (asked, carried) = (asks_for(DRIVE), carries(DRIVE));
    let none = Value::Null;
    statements.allow("fis:CreateExperimentTemplate", &action, &none);
    statements.allow("fis:CreateExperimentTemplate", &template, &asked);
    statements.allow("fis:TagResource", &template, &asked);
    statements.allow("fis:StartExperiment", &template, &carried);
    statements.allow("fis:DeleteExperimentTemplate", &template, &carried);
    statements.allow("fis:StartExperiment", &experiment, &asked);
    statements.allow("fis:TagResource", &experiment, &asked);
    statements.allow("fis:GetExperiment", &experiment, &carried);
    let roles = json!(format!("arn:{partition}:iam::*:role/*"));
    let to_fis = json!({"StringEquals": {"iam:PassedToService": "fis.amazonaws.com"}});
    statements.allow("iam:PassRole", &roles, &to_fis);
    // The account's first experiment makes this role.
    let own = json!(format!(
        "arn:{partition}:iam::*:role/aws-service-role/fis.amazonaws.com/AWSServiceRoleForFIS"
    ));
    let for_fis = json!({"StringEquals": {"iam:AWSServiceName": "fis.amazonaws.com"}});
    statements.allow("iam:CreateServiceLinkedRole", &own, &for_fis);
}

/// Statements. Actions on the same resources under the same condition share one.
#[derive(Default)]
struct Statements(Vec<Value>);

impl Statements {
    /// Allows `action`; a null `condition` is none.
    fn allow(&mut self, action: &str, resource: &Value, condition: &Value) {
        if resource.as_array().is_some_and(Vec::is_empty) {
            return;
        }
        let same = |statement: &&mut Value| {
            statement["Resource"] == *resource && statement["Condition"] == *condition
        };
        if let Some(statement) = self.0.iter_mut().find(same)
            && let Some(actions) = statement["Action"].as_array_mut()
        {
            actions.push(json!(action));
            return;
        }
        let mut statement = json!({"Effect": "Allow", "Action": [action], "Resource": resource});
        if !condition.is_null() {
            statement["Condition"] = condition.clone();
        }
        self.0.push(statement);
    }
}

fn arns(partition: Partition, kinds: &[&str]) -> Value {
    let arn = |kind: &&str| {
        let account = if OF_NOBODY.contains(kind) { "" } else { "*" };
        json!(format!("arn:{partition}:ec2:*:{account}:{kind}/*"))
    };
    kinds.iter().map(arn).collect()
}

/// The condition that an existing resource has the tag.
fn carries(tag: &str) -> Value {
    json!({"Null": {format!("aws:ResourceTag/{tag}"): "false"}})
}

/// The condition that a new resource gets the tag.
fn asks_for(tag: &str) -> Value {
    json!({"Null": {format!("aws:RequestTag/{tag}"): "false"}})
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Args, partition};
    use crate::ec2::Partition;

    /// The longest that a managed policy may be, white space not counted (IAM user guide, *IAM and
    /// STS character limits*).
    const LONGEST: usize = 6144;

    const ROLE: &str = "arn:aws:iam::111122223333:role/xdrive";

    const KEY: &str = "arn:aws:kms:us-east-1:111122223333:key/mrk-0123456789abcdef";

    fn policy(role: Option<&str>) -> Value {
        super::policy(Partition::default(), role, &[])
    }

    fn statements() -> Vec<Value> {
        policy(None)["Statement"].as_array().unwrap().clone()
    }

    fn allows(statement: &Value, action: &str) -> bool {
        let actions = statement["Action"].as_array().unwrap();
        actions.contains(&json!(action))
    }

    #[test]
    fn what_destroys_is_tied_to_a_tag() {
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
                    let is_quota = action == "servicequotas:GetServiceQuota";
                    assert!(is_quota || action.starts_with("ec2:Describe"), "{action}");
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
        let text = super::policy(Partition::UsGov, Some(ROLE), &keys).to_string();
        assert!(text.len() <= LONGEST, "{} characters", text.len());
    }

    #[test]
    fn a_role_may_be_passed_only_if_it_is_named() {
        let passes = |policy: &Value| policy.to_string().contains("iam:PassRole");
        assert!(!passes(&policy(None)));
        assert!(passes(&policy(Some(ROLE))));
    }

    #[test]
    fn every_arn_is_of_the_partition() {
        for partition in Partition::ALL {
            let (role, key) = (
                ROLE.replace("arn:aws:", &format!("arn:{partition}:")),
                KEY.replace("arn:aws:", &format!("arn:{partition}:")),
            );
            let keys = [key.parse().unwrap()];
            let text = super::policy(partition, Some(&role), &keys).to_string();
            let arns: Vec<&str> = text.split("\"arn:").skip(1).collect();
            assert!(arns.len() > 10, "{text}");
            for arn in arns {
                let own = arn.split(':').next();
                assert_eq!(own, Some(&*partition.to_string()), "{arn}");
            }
        }
        let china = super::policy(Partition::Cn, Some(ROLE), &[]).to_string();
        assert!(china.contains("ec2.amazonaws.com.cn"), "{china}");
    }

    #[test]
    fn an_own_key_is_used_and_granted_to_aws_alone() {
        let policy = super::policy(Partition::Aws, None, &[KEY.parse().unwrap()]);
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
            !super::policy(Partition::Aws, None, &[])
                .to_string()
                .contains("kms:")
        );
    }

    #[test]
    fn what_selftest_asks_besides_is_none_of_what_drives_take() {
        let policy = super::of_selftest(Partition::Cn);
        let text = policy.to_string();
        for statement in policy["Statement"].as_array().unwrap() {
            assert_ne!(statement["Resource"], "*", "{statement}");
            for action in statement["Action"].as_array().unwrap() {
                let is_there = |own: &Value| {
                    own["Resource"] == statement["Resource"]
                        && allows(own, action.as_str().unwrap())
                };
                assert!(!statements().iter().any(is_there), "{statement}");
            }
        }
        assert!(text.len() <= LONGEST, "{} characters", text.len());
        assert!(
            text.contains("iam:SimulatePrincipalPolicy")
                && text.contains("arn:aws-cn:iam::*:role/*")
        );
        assert!(!text.contains("arn:aws:"), "{text}");
        let starts = &policy["Statement"][2];
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
            partition,
            role: Some(role.to_owned()),
            selftest: false,
            kms_key: key.map(|key| key.parse().unwrap()).into_iter().collect(),
        };
        let gov = ROLE.replace("aws", "aws-us-gov");
        assert_eq!(partition(&Args::default()).unwrap(), None);
        let found = partition(&order(None, &gov, None)).unwrap();
        assert_eq!(found, Some(Partition::UsGov));
        for wrong in [
            order(Some(Partition::Aws), &gov, None),
            order(None, &gov, Some(KEY)),
            order(None, "xdrive", None),
        ] {
            assert!(partition(&wrong).is_err(), "{wrong:?}");
        }
    }
}
