//! Missing rights, quotas and resources of an account.

mod wide;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use russh::keys::PrivateKey;
use russh::keys::ssh_key::LineEnding;
use xdrive::ssh::HostKey;

use super::{Account, is_xdrive};
use crate::session::site::Ended;
use harness::faults::proxy::{Asked, Fate};

const DENIED: Fate = Fate::Refused(
    403,
    "UnauthorizedOperation",
    "You are not authorized to perform this operation. Encoded authorization failure message: \
     AbCdEf",
);

/// The calls that a session needs before it waits for its host.
const NEEDED: [&str; 10] = [
    "GetCallerIdentity",
    "DescribeInstances",
    "DescribeVolumes",
    "DescribeSnapshots",
    "DescribeVpcs",
    "DescribeInstanceTypes",
    "DescribeSecurityGroups",
    "CreateSecurityGroup",
    "AuthorizeSecurityGroupIngress",
    "RunInstances",
];

fn only(action: &'static str, fate: Fate) -> impl FnMut(&Asked) -> Fate + Send + 'static {
    move |asked| {
        if asked.action == action {
            fate.clone()
        } else {
            Fate::Passed
        }
    }
}

fn count(account: &Account, action: &str) -> usize {
    let calls = account.proxy.calls();
    calls.iter().filter(|call| *call == action).count()
}

#[test]
fn a_right_that_is_missing_is_named_once_with_what_grants_it() {
    // Each with a new group to make.
    for action in NEEDED {
        let account = Account::new();
        account.proxy.decide(only(action, DENIED));
        // With a proxy command no ingress rule is needed.
        let flags: &[&str] = match action {
            "AuthorizeSecurityGroupIngress" => &["--cidr", "192.0.2.7/32"],
            _ => &[],
        };
        let ended = account.connect(flags);
        ended
            .is(77)
            .reports("hint: an administrator of the account");
        ended.reports("`xdrive policy` prints all that xdrive needs");
        assert_eq!(
            ended.error(),
            format!(
                "{action}: UnauthorizedOperation: You are not authorized to perform this \
                 operation."
            )
        );
        assert_eq!(count(&account, action), 1, "{action}");
        account.is_bare();
    }
}

/// The end of `xdrive connect` if nothing can be launched.
fn launching(account: &Account, fate: Fate, flags: &[&str]) -> Ended {
    account.proxy.decide(only("RunInstances", fate));
    let ended = account.connect(flags);
    account.is_bare();
    ended
}

#[test]
fn a_quota_and_an_empty_region_say_what_helps() {
    let account = Account::new();
    let message = "You have requested more vCPU capacity than your current vCPU limit of 0 allows.";
    let ended = launching(
        &account,
        Fate::Refused(400, "VcpuLimitExceeded", message),
        &[],
    );
    ended
        .is(75)
        .reports(
            "`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code",
        )
        .reports("Service Quotas in the AWS console shows how far it is");
    assert_eq!(
        ended.error(),
        format!(
            "the account's quota is reached: \"All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance \
             Requests\" (L-34B43A08) allows 0 vCPUs at once, and c6a.large has 2: \
             RunInstances: VcpuLimitExceeded: {message}"
        )
    );
    // All types that meet the requirements count against one quota.
    assert_eq!(count(&account, "RunInstances"), 1);

    let message = "We currently do not have sufficient capacity.";
    let full = Fate::Refused(500, "InsufficientInstanceCapacity", message);
    let flags = ["--type", "t3.medium", "--fallback", "on-demand"];
    let ended = launching(&account, full, &flags);
    ended.is(75).reports("hint: --type names other types");
    let error = format!("no capacity: RunInstances: InsufficientInstanceCapacity: {message}");
    assert_eq!(ended.error(), error);
    // Three zones of spot and three on demand, once each.
    assert_eq!(count(&account, "RunInstances"), 6);
}

#[test]
fn a_missing_vpc_type_image_or_subnet_is_named() {
    let account = Account::with_settings("default-vpc = false\n");
    let ended = account.connect(&[]);
    ended.is(69).reports("hint: --subnet names a subnet");
    assert_eq!(ended.error(), "there is no default VPC in us-east-1");
    account.is_untouched();

    let account = Account::new();
    let ended = account.connect(&["--type", "t3.medum"]);
    ended.is(2).reports("t3.medum").reports("hint: there are ");
    account.is_bare();
    let ended = account.connect(&["--ami", "ami-00000000000000009"]);
    ended
        .is(2)
        .reports("hint: --ami names an image of this region");
    assert!(ended.error().contains("InvalidAMIID.NotFound"), "{ended:?}");
    account.is_bare();
    let ended = account.connect(&["--subnet", "subnet-0000000000000dead"]);
    ended.is(2).reports("hint: `aws ec2 describe-subnets`");
    account.is_bare();
    let ended = account.connect(&["--image", "./no.tar"]);
    assert!(matches!(ended.code(), 2 | 69), "{ended:?}");
    account.is_bare();
}

#[test]
fn user_data_over_the_limit_is_never_sent() {
    let account = Account::new();
    let folder = account.home().join(".config/xdrive");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("id_ed25519");
    let mut key = PrivateKey::from_openssh(HostKey::generate().unwrap().private).unwrap();
    // Incompressible data.
    let mut noise = vec![0; 16 * 1024];
    getrandom::fill(&mut noise).unwrap();
    key.set_comment(hex::encode(noise));
    fs::write(&file, key.to_openssh(LineEnding::LF).unwrap()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let ended = account.connect(&[]);
    ended
        .is(69)
        .reports("hint: the longest part of it is this computer's public key");
    let error = ended.error();
    assert!(error.contains("EC2 takes 16384"), "{error}");
    assert_eq!(count(&account, "RunInstances"), 0);
    account.is_bare();
}

#[test]
fn an_instance_is_terminated_where_the_next_call_is_denied() {
    let name = test_name!(an_instance_is_terminated_where_the_next_call_is_denied);
    if is_xdrive() {
        return;
    }
    let account = Account::new();
    account.proxy.decide(only("CreateVolume", DENIED));
    let ended = account.hurried(name, &[]);
    ended.is(77).reports("`xdrive policy` prints");
    assert!(
        ended
            .error()
            .starts_with("CreateVolume: UnauthorizedOperation: ")
    );
    assert_eq!(count(&account, "RunInstances"), 1);
    account.is_bare();

    // A caller that may not even end it gets what is left, and its cost.
    account.proxy.decide(|asked| match asked.action.as_str() {
        "CreateVolume" | "TerminateInstances" => DENIED,
        _ => Fate::Passed,
    });
    let ended = account.hurried(name, &[]);
    ended
        .is(77)
        .reports("xdrive stop demo finishes what is left");
    ended
        .reports("left: instance i-")
        .reports(", billed by the second");
    // Another caller may.
    account.proxy.decide(|_| Fate::Passed);
    account.stops(name);
    account.is_bare();
}
