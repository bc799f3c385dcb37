//! `xdrive policy`: the IAM policy that allows what xdrive does, and no more.
//!
//! Made from the one list of calls ([`crate::ec2::calls`]). Calls that change or destroy are
//! allowed only on resources with xdrive's tags, and new resources must have these tags in the
//! create call; tags may be changed only on resources that have them. Whoever has the plain policy
//! may so use, read, retag and delete every drive of the account; that of `--own` asks for the
//! caller's own owner tag instead, and denies to change whose a resource is.
//!
//! A policy whose ARNs name another partition is malformed. The partition is that of `--partition`,
//! else that of the given ARNs, else that of the region if one is set.

use anyhow::anyhow;
use serde_json::{Value, json};

use super::Context;
use crate::cloud::{self, Cloud};
use crate::config::S3Prefix;
use crate::ec2::calls::{CALLS, Call, OF_ADDRESSES, OF_RESERVATIONS, RESERVATION, Role, SHARES};
use crate::ec2::{DRIVE, KeyArn, OWNER, Partition, SHARE};
use crate::failure::{Exit, Failure};

/// Resources whose ARNs name no account (Service authorization reference, *Resource types defined
/// by Amazon EC2*).
const OF_NOBODY: [&str; 2] = ["image", "snapshot"];

/// The KMS actions of a caller who makes, attaches, saves, copies and reads encrypted disks (EBS
/// user guide, *Requirements for Amazon EBS encryption*, *Copy an Amazon EBS snapshot*).
const USE_OF_A_KEY: [&str; 5] = [
    "kms:DescribeKey",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncrypt*",
    "kms:Decrypt",
];

/// Calls that `xdrive tend` never makes: of `fork`, `copy` and `adopt`, and of `gc`.
const NOT_OF_TEND: [&str; 2] = ["CopySnapshot", "DeleteSecurityGroup"];

/// `xdrive policy`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Also allow to give this role to instances (`--instance-profile`).
    #[arg(long, value_name = "ARN")]
    pub role: Option<String>,

    /// Also allow disks that are encrypted with this key of the account's own instead of aws/ebs
    /// (repeatable).
    #[arg(long, value_name = "ARN")]
    pub kms_key: Vec<KeyArn>,

    /// Also allow to give a drive's host an Elastic IP address of the account (`--address`).
    #[arg(long, hide_short_help = true)]
    pub address: bool,

    /// Also allow to launch in capacity reservations of the account (`--reservation`).
    #[arg(long, hide_short_help = true)]
    pub reservation: bool,

    /// Allow only drives that are this caller's own.
    ///
    /// Those whose tag xdrive:owner is who asks now. Without it, whoever has the policy may use, read and delete every drive of the account.
    #[arg(long)]
    pub own: bool,

    /// Allow only what `xdrive tend` does.
    ///
    /// For the role of a machine that tends. --role adds what runs with --instance-profile take.
    #[arg(long, hide_short_help = true)]
    pub tend: bool,

    /// The partition that the account is in: aws, aws-us-gov, aws-cn or aws-eusc [default: that of
    /// the ARNs given here, else of the region that is set, else aws].
    #[arg(long, value_name = "PARTITION")]
    pub partition: Option<Partition>,

    /// Write instead what the role of a run's instance needs to bring its results there.
    #[arg(
        long,
        value_name = "s3://BUCKET/PREFIX",
        hide_short_help = true,
        conflicts_with_all = [
            "role", "kms_key", "address", "reservation", "own", "tend", "selftest", "shares",
        ]
    )]
    pub results: Option<S3Prefix>,

    /// Write instead what `xdrive share` takes besides.
    ///
    /// A policy of its own beside the other: one policy has 6144 characters at most.
    #[arg(
        long,
        hide_short_help = true,
        conflicts_with_all = [
            "role", "kms_key", "address", "reservation", "tend", "results", "selftest",
        ]
    )]
    pub shares: bool,

    /// Write instead what `xdrive selftest` asks besides: Session Manager and Fault Injection
    /// Service.
    #[arg(long, conflicts_with_all = ["role", "kms_key", "address", "reservation", "own", "tend"])]
    pub selftest: bool,
}

/// The rights that the policy allows beside the calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grants<'a> {
    /// The role that may be given to instances.
    pub role: Option<&'a str>,
    /// The keys of the account's own.
    pub keys: &'a [KeyArn],
    /// The owner of all that may be touched; none for every drive of the account.
    pub owner: Option<&'a str>,
    /// Whether only what `xdrive tend` does is allowed.
    pub tends: bool,
    /// Whether hosts may be given Elastic IP addresses.
    pub addresses: bool,
    /// Whether launches may use capacity reservations.
    pub reservations: bool,
}

/// Prints the policy. Returns the exit code. The region, which may decide the partition, is read
/// from environment and profile without a call; only who asks, for `--own`, takes one.
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let owner = if args.own {
        Some(owner(context)?)
    } else {
        None
    };
    let partition = match partition(args, owner.as_deref())? {
        Some(partition) => partition,
        None => cloud::partition(&context.account)?,
    };
    let policy = if args.selftest {
        of_selftest(partition)
    } else if args.shares {
        of_shares(partition, owner.as_deref())
    } else if let Some(place) = &args.results {
        of_results(partition, place)
    } else {
        let grants = Grants {
            role: args.role.as_deref(),
            keys: &args.kms_key,
            owner: owner.as_deref(),
            tends: args.tend,
            addresses: args.address,
            reservations: args.reservation,
        };
        policy(partition, grants)
    };
    super::print(&format!("{policy:#}\n"))
}

/// The owner of what the caller makes.
fn owner(context: &Context) -> Result<String, Failure> {
    let paths = context.paths()?;
    let which = context.which(&paths)?;
    super::block_on(async {
        let cloud = Cloud::open(&which, &paths).await?;
        Ok(cloud.ec2.owner().await?)
    })
}

/// The partition of `--partition` or of the ARNs, the caller's among them. Fails if they disagree.
fn partition(args: &Args, owner: Option<&str>) -> Result<Option<Partition>, Failure> {
    let mut known = args.partition;
    let keys = args.kms_key.iter().map(KeyArn::as_str);
    for arn in keys.chain(args.role.as_deref()).chain(owner) {
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
pub fn policy(partition: Partition, grants: Grants<'_>) -> Value {
    let Grants {
        role, keys, owner, ..
    } = grants;
    let mut statements = Statements::default();
    // An owner's tag tells the resources apart, and a policy is short.
    let whole = json!(format!("arn:{partition}:ec2:*:*:*"));
    let arns = |kinds: &[&str]| arns(partition, kinds);
    let arns_of = |kinds: &[&str], ids| match owner {
        Some(_) => whole.clone(),
        None => arns_of(partition, kinds, ids),
    };
    let carried = |tag| owner.map_or_else(|| carries(tag), |owner| equals("Resource", owner));
    let asked = |tag| owner.map_or_else(|| asks_for(tag), |owner| equals("Request", owner));
    let mut creating = Vec::new();
    // An instance's interface gets the tags of the account's own.
    let mut created: Vec<&str> = vec!["network-interface"];
    let is_made = |call: &&Call| {
        call.service != SHARES
            && (!grants.tends || !NOT_OF_TEND.contains(&call.name))
            && (grants.addresses || !OF_ADDRESSES.contains(&call.name))
            && (grants.reservations || call.name != OF_RESERVATIONS)
    };
    for call in CALLS.iter().filter(is_made) {
        let action = call.action();
        let mut by_role: Vec<(Role, Vec<&str>)> = Vec::new();
        let is_asked = |kind: &str| grants.reservations || kind != RESERVATION;
        let resources = call.resources().into_iter();
        for (kind, role) in resources.filter(|(kind, _)| is_asked(kind)) {
            match by_role.iter_mut().find(|(known, _)| *known == role) {
                Some((_, kinds)) => kinds.push(kind),
                None => by_role.push((role, vec![kind])),
            }
        }
        for (role, kinds) in by_role {
            match role {
                Role::Any => statements.allow(&action, &json!("*"), &Value::Null),
                Role::Used => statements.allow(&action, &arns(&kinds), &Value::Null),
                Role::Tagged(tag) => {
                    statements.allow(&action, &arns_of(&kinds, "*"), &carried(tag));
                }
                Role::New(tag) => statements.allow(&action, &arns_of(&kinds, "*"), &asked(tag)),
                Role::Copied(tag) => {
                    statements.allow(&action, &arns_of(&kinds, NEW_COPY), &asked(tag));
                }
                Role::Original => {
                    // Tags of the account's other snapshots are not xdrive's to ask for: `adopt`
                    // copies what is no drive's. With --own it cannot.
                    let condition = owner.map_or(Value::Null, |owner| equals("Resource", owner));
                    statements.allow(&action, &arns_of(&kinds, ORIGINAL), &condition);
                }
            }
            if let Role::New(_) | Role::Copied(_) = role {
                if creating.last() != Some(&call.name) {
                    creating.push(call.name);
                }
                created.extend(kinds);
            }
        }
    }
    created.sort_unstable();
    created.dedup();
    let mut in_a_create_call = json!({"StringEquals": {"ec2:CreateAction": creating}});
    if let Some(owner) = owner {
        in_a_create_call["StringEquals"][format!("aws:RequestTag/{OWNER}")] = json!(owner);
        statements.deny_another_owner(owner);
    }
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

/// The rights for shares: those of Elastic File System, and the ones in EC2 by which it makes and removes
/// their network interfaces for its caller (EFS API reference, `CreateMountTarget`, `DeleteMountTarget`).
/// With an `owner` shares of that one alone can be made, changed and deleted.
#[must_use]
pub fn of_shares(partition: Partition, owner: Option<&str>) -> Value {
    let mut statements = Statements::default();
    let (all, none) = (json!("*"), Value::Null);
    let shares = json!(format!("arn:{partition}:{SHARES}:*:*:file-system/*"));
    let carried = owner.map_or_else(|| carries(SHARE), |owner| equals("Resource", owner));
    let asked = owner.map_or_else(|| asks_for(SHARE), |owner| equals("Request", owner));
    let mut creating = Vec::new();
    for call in CALLS.iter().filter(|call| call.service == SHARES) {
        for (_, role) in call.resources() {
            match role {
                Role::New(_) => {
                    statements.allow(&call.action(), &shares, &asked);
                    creating.push(call.name);
                }
                Role::Any => statements.allow(&call.action(), &all, &none),
                _ => statements.allow(&call.action(), &shares, &carried),
            }
        }
    }
    let mut in_a_create_call =
        json!({"StringEquals": {format!("{SHARES}:CreateAction"): creating}});
    if let Some(owner) = owner {
        in_a_create_call["StringEquals"][format!("aws:RequestTag/{OWNER}")] = json!(owner);
    }
    statements.allow(&format!("{SHARES}:TagResource"), &shares, &in_a_create_call);
    for action in [
        "CreateNetworkInterface",
        "DeleteNetworkInterface",
        "DescribeNetworkInterfaceAttribute",
        "DescribeNetworkInterfaces",
        "DescribeSubnets",
    ] {
        statements.allow(&format!("ec2:{action}"), &all, &none);
    }
    // The account's first file system makes this role.
    let own = json!(format!(
        "arn:{partition}:iam::*:role/aws-service-role/{SHARES}.amazonaws.com/\
         AWSServiceRoleForAmazonElasticFileSystem"
    ));
    let service = format!("{SHARES}.amazonaws.com");
    let for_shares = json!({"StringEquals": {"iam:AWSServiceName": service}});
    statements.allow("iam:CreateServiceLinkedRole", &own, &for_shares);
    json!({"Version": "2012-10-17", "Statement": statements.0})
}

/// The policy by which `aws s3 sync` adds to the place, and lists it, and does nothing else (Service
/// authorization reference, *Actions, resources, and condition keys for Amazon S3*).
#[must_use]
pub fn of_results(partition: Partition, place: &S3Prefix) -> Value {
    let S3Prefix { bucket, prefix } = place;
    let bucket = format!("arn:{partition}:s3:::{bucket}");
    let mut statements = Statements::default();
    let (objects, listed) = if prefix.is_empty() {
        (format!("{bucket}/*"), Value::Null)
    } else {
        let prefixes = [prefix.clone(), format!("{prefix}/*")];
        (
            format!("{bucket}/{prefix}/*"),
            json!({"StringLike": {"s3:prefix": prefixes}}),
        )
    };
    for action in ["s3:PutObject", "s3:AbortMultipartUpload"] {
        statements.allow(action, &json!(objects), &Value::Null);
    }
    statements.allow("s3:ListBucket", &json!(bucket), &listed);
    json!({"Version": "2012-10-17", "Statement": statements.0})
}

/// The rights for the calls that `xdrive selftest` makes in addition: Session Manager where it is
/// named (Systems Manager user guide, *Sample IAM policies for Session Manager*); and experiments
/// in the role that is named (AWS FIS user guide, *Policy examples*), of the one action that takes
/// spot instances back.
#[must_use]
pub fn of_selftest(partition: Partition) -> Value {
    let mut statements = Statements::default();
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
            statement["Effect"] == "Allow"
                && statement["Resource"] == *resource
                && statement["Condition"] == *condition
        };
        if let Some(statement) = self.0.iter_mut().find(same)
            && let Some(actions) = statement["Action"].as_array_mut()
        {
            if !actions.contains(&json!(action)) {
                actions.push(json!(action));
            }
            return;
        }
        let mut statement = json!({"Effect": "Allow", "Action": [action], "Resource": resource});
        if !condition.is_null() {
            statement["Condition"] = condition.clone();
        }
        self.0.push(statement);
    }

    /// Denies to tag what has another owner, and to give anything to another one. It also holds
    /// where a wider policy is attached beside this one.
    fn deny_another_owner(&mut self, owner: &str) {
        for (of, actions) in [
            ("Resource", json!(["ec2:CreateTags", "ec2:DeleteTags"])),
            ("Request", json!(["ec2:CreateTags"])),
        ] {
            let key = format!("aws:{of}Tag/{OWNER}");
            self.0.push(json!({
                "Effect": "Deny",
                "Action": actions,
                "Resource": "*",
                // Without the second, a tag that is not there would be another one too.
                "Condition": {"StringNotEquals": {&key: owner}, "Null": {&key: "false"}},
            }));
        }
    }
}

/// The id of a copy that is not made yet, literally, so that no original has it; and those of
/// originals (EBS user guide, *Example: Copying snapshots*).
const NEW_COPY: &str = "${*}";
const ORIGINAL: &str = "snap-*";

fn arns(partition: Partition, kinds: &[&str]) -> Value {
    arns_of(partition, kinds, "*")
}

/// The ARNs of resources of these kinds with these ids.
fn arns_of(partition: Partition, kinds: &[&str], ids: &str) -> Value {
    let arn = |kind: &&str| {
        let account = if OF_NOBODY.contains(kind) { "" } else { "*" };
        json!(format!("arn:{partition}:ec2:*:{account}:{kind}/{ids}"))
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

/// The condition that the owner in the tags of an existing resource, or in those that a new one
/// gets, is this one.
fn equals(of: &str, owner: &str) -> Value {
    json!({"StringEquals": {format!("aws:{of}Tag/{OWNER}"): owner}})
}

#[cfg(test)]
mod tests;
