//! `xdrive doctor` on an account: its output, and that it changes nothing there.

use std::path::Path;
use std::process::Output;

use crate::folded::unfolded;
use crate::moto::server::Moto;

const XDRIVE: &str = env!("CARGO_BIN_EXE_xdrive");

fn xdrive(moto: &Moto, arguments: &[&str], without: &[&str]) -> Output {
    let mut command = moto.command(Path::new(XDRIVE));
    for name in without {
        command.env_remove(name);
    }
    command.args(arguments).output().unwrap()
}

fn printed(output: &Output) -> String {
    unfolded(&String::from_utf8(output.stdout.clone()).unwrap())
}

#[test]
#[ignore = "needs python3 with moto"]
fn doctor_finds_an_account_in_order_and_leaves_it_as_it_was() {
    let moto = Moto::start();
    let output = xdrive(&moto, &["doctor"], &[]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let line = |thing: &str| {
        let mut lines = text.lines().filter(|line| line.contains(thing));
        lines
            .next()
            .unwrap_or_else(|| panic!("no {thing}:\n{text}"))
            .to_owned()
    };
    assert!(line("account").starts_with("ok"), "{text}");
    assert!(line("network").contains("vpc-"), "{text}");
    assert!(line("clock").starts_with("ok"), "{text}");
    let tried = line("RunInstances");
    assert!(tried.starts_with("ok"), "{text}");
    assert!(tried.contains("CreateSecurityGroup"), "{text}");
    assert!(line("TerminateInstances").starts_with(" ?"), "{text}");
    let left = printed(&xdrive(&moto, &["list"], &[]));
    assert_eq!(left, "no drives\n");
}

#[test]
#[ignore = "needs python3 with moto"]
fn doctor_says_what_an_account_lacks_and_what_helps() {
    let moto = Moto::start();
    let output = xdrive(&moto, &["doctor"], &["AWS_REGION"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(printed(&output).contains("no  account        no AWS region is set\n"));
    assert!(printed(&output).contains("hint: xdrive --region us-east-1"));

    let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let output = xdrive(&moto, &["doctor"], &keys);
    assert_eq!(output.status.code(), Some(77));
    assert!(printed(&output).contains("no AWS credentials were found"));
    assert!(printed(&output).contains("xdrive --local needs no account"));
}
