//! Bad credentials, regions and clocks.

use std::fs;

use super::{Account, run_to_end};
use harness::faults::proxy::Fate;

/// The name of the AWS CLI's file with the token of the SSO session `lab`: the SHA-1 of the
/// session's name (AWS SDKs and tools reference guide, *Understand IAM Identity Center
/// authentication*).
const TOKEN: &str = "3953f9ddf975ab5097ee468d99555c5b441169bf.json";

/// AWS's refusals of credentials and times: code, status, message, and our hint.
const REFUSALS: [(&str, u16, &str, &str, &str); 6] = [
    (
        "GetCallerIdentity",
        403,
        "InvalidClientTokenId",
        "The security token included in the request is invalid.",
        "`aws sts get-caller-identity` shows whose they are",
    ),
    (
        "GetCallerIdentity",
        403,
        "ExpiredToken",
        "The security token included in the request is expired",
        "`aws sso login` or `aws login` renews them",
    ),
    (
        "GetCallerIdentity",
        403,
        "SignatureDoesNotMatch",
        "Signature expired: 20261121T100000Z is now earlier than 20261121T101500Z",
        "is this computer's clock right (`xdrive doctor` shows how far it is off)",
    ),
    (
        "DescribeInstances",
        400,
        "RequestExpired",
        "Request has expired.",
        "is this computer's clock right",
    ),
    (
        "DescribeInstances",
        401,
        "AuthFailure",
        "AWS was not able to validate the provided access credentials",
        "or the region is not enabled for the account",
    ),
    (
        "DescribeInstances",
        401,
        "OptInRequired",
        "You are not subscribed to this service.",
        "the account is not signed up for EC2, or not for this region",
    ),
];

#[test]
fn credentials_clocks_and_regions_that_aws_refuses_are_distinguished() {
    let account = Account::new();
    for (action, status, code, message, hint) in REFUSALS {
        account.proxy.decide(move |asked| {
            if asked.action == action {
                Fate::Refused(status, code, message)
            } else {
                Fate::Passed
            }
        });
        let ended = account.connect(&[]);
        ended.is(77).reports("\n\nhint: ").reports(hint);
        assert_eq!(ended.error(), format!("{action}: {code}: {message}"));
        account.is_untouched();
    }
}

#[test]
fn keys_of_another_account_and_another_region_are_refused_by_the_ec2_itself() {
    let account = Account::new();
    let mut stranger = account.xdrive(&["list"]);
    let stranger = run_to_end(stranger.env("AWS_SECRET_ACCESS_KEY", "another"));
    stranger.is(77).reports("hint: ");
    let elsewhere = account.run(&["--region", "eu-west-9", "list"]);
    elsewhere.is(77).reports("us-east-1");
    account.is_untouched();
}

#[test]
fn a_region_that_is_none_is_refused_before_it_is_looked_for() {
    let account = Account::new();
    for region in ["us-east1", "us-east-1a", "Ohio"] {
        let mut xdrive = account.xdrive(&["--region", region, "list"]);
        let ended = run_to_end(xdrive.env_remove("AWS_ENDPOINT_URL"));
        ended
            .is(78)
            .reports("hint: regions are called like us-east-1");
        let error = format!("{region:?} is not written like an AWS region");
        assert_eq!(ended.error(), error);
    }
    assert_eq!(account.proxy.calls(), [""; 0]);
}

#[test]
fn an_sso_session_that_is_over_is_renewed_by_the_command_of_the_hint() {
    let account = Account::new();
    let aws = account.home().join(".aws");
    fs::create_dir_all(aws.join("sso/cache")).unwrap();
    let config = "[profile lab]\nsso_session = lab\nsso_account_id = 111122223333\n\
                  sso_role_name = dev\nregion = us-east-1\n[sso-session lab]\n\
                  sso_region = us-east-1\nsso_start_url = https://lab.awsapps.com/start\n";
    fs::write(aws.join("config"), config).unwrap();
    let token = "{\"accessToken\": \"x\", \"expiresAt\": \"2020-01-01T00:00:00Z\", \
                 \"region\": \"us-east-1\", \"startUrl\": \"https://lab.awsapps.com/start\"}";
    for token in [None, Some(token)] {
        if let Some(token) = token {
            fs::write(aws.join("sso/cache").join(TOKEN), token).unwrap();
        }
        let mut xdrive = account.xdrive(&["--profile", "lab", "list"]);
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            xdrive.env_remove(name);
        }
        let ended = run_to_end(&mut xdrive);
        ended.is(77).reports(
            "hint: `aws sso login --profile lab` renews them; xdrive --local needs no account",
        );
        let error = ended.error();
        assert!(
            error.starts_with("the AWS credentials cannot be used: "),
            "{error}"
        );
    }
    account.is_untouched();
}
