//! An account: how often its credentials are fetched.

use std::fs;
use std::process::Command;

use super::served::ServedSite;
use harness::home::PATH;
use harness::write_script;

/// A credential process that logs each run in `log`, and prints the keys in `environment`.
fn program(log: &str, environment: &str) -> String {
    format!(
        "#!/bin/sh\n{environment}\necho run >> '{log}'\n\
         printf '{{\"Version\": 1, \"AccessKeyId\": \"%s\", \"SecretAccessKey\": \"%s\"}}' \
         \"$AWS_ACCESS_KEY_ID\" \"$AWS_SECRET_ACCESS_KEY\"\n"
    )
}

#[test]
fn a_program_that_fetches_credentials_runs_once_a_command() {
    let served = ServedSite::paper("");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (log, fetch, config) = (path("log"), path("fetch"), path("config"));
    let environment = String::from_utf8(served.environment().stdout).unwrap();
    write_script(fetch.as_ref(), &program(&log, &environment));
    let profile = format!("[default]\nregion = us-east-1\ncredential_process = {fetch}\n");
    fs::write(&config, profile).unwrap();
    for (words, printed) in [
        (&["list"][..], "no drives"),
        (
            &["connect", "demo", "--dry-run"],
            "launches the first of these",
        ),
        (&["doctor"], "ok  rights"),
    ] {
        fs::write(&log, "").unwrap();
        let ended = Command::new(env!("CARGO_BIN_EXE_xdrive"))
            .args(words)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", folder.path())
            .env("AWS_CONFIG_FILE", &config)
            .env("AWS_ENDPOINT_URL", served.url())
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&ended.stdout);
        assert!(stdout.contains(printed), "{words:?}: {ended:?}");
        assert_eq!(fs::read_to_string(&log).unwrap(), "run\n", "{words:?}");
    }
}

#[test]
fn the_policy_takes_its_partition_from_region_profile_or_arns_without_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    fs::write(&config, "[profile gov]\nregion = us-gov-west-1\n").unwrap();
    let policy = |words: &[&str], region: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xdrive"));
        command.args(words).arg("policy").env_clear();
        command.env("HOME", folder.path());
        command.env("AWS_CONFIG_FILE", &config);
        command.envs(region.map(|region| ("AWS_REGION", region)));
        command
    };
    let key = "arn:aws-cn:kms:cn-north-1:111122223333:key/1234abcd";
    for (words, region, more, partition) in [
        (&[][..], None, &[][..], "aws"),
        (&[], Some("cn-north-1"), &[], "aws-cn"),
        (&["--profile", "gov"], None, &[], "aws-us-gov"),
        (
            &["--region", "eusc-de-east-1"],
            Some("us-east-1"),
            &[],
            "aws-eusc",
        ),
        (&[], Some("us-east-1"), &["--partition", "aws-cn"], "aws-cn"),
        (&[], Some("us-east-1"), &["--kms-key", key], "aws-cn"),
    ] {
        let ended = policy(words, region).args(more).output().unwrap();
        let text = String::from_utf8(ended.stdout).unwrap();
        let own = format!("\"arn:{partition}:ec2:*:*:volume/*\"");
        assert!(text.contains(&own), "{words:?} {region:?} {more:?}: {text}");
        assert_eq!(text.contains("kms:CreateGrant"), more.contains(&key));
    }
    for wrong in [
        &["--partition", "aws-moon"][..],
        &["--partition", "aws", "--kms-key", key],
        &["--kms-key", "alias/own"],
    ] {
        let ended = policy(&[], None).args(wrong).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{wrong:?}: {ended:?}");
    }
}
