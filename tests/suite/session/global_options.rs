//! The global options: which EC2 is meant, and how much is printed; and the names of commands.

mod wide;

use std::process::Command;

use super::simulated::paper;
use super::site::{Ended, Site};

/// How `command` ends, in an environment without an account.
fn end(mut command: Command) -> Ended {
    let output = command.env("AWS_EC2_METADATA_DISABLED", "true").output();
    Ended::from_output(output.unwrap())
}

fn with(site: &Site, variable: &str, words: &[&str]) -> Ended {
    let mut command = site.words(words);
    command.env("XDRIVE_LOCAL", variable);
    end(command)
}

#[test]
fn a_variable_that_is_set_and_empty_is_not_set() {
    let site = paper();
    for (name, _) in xdrive::config::environment::ALL {
        let mut command = site.words(&["--local", "list"]);
        command.env(name, "");
        let ended = end(command);
        assert_eq!(ended.is(0).stdout, "no drives\n", "{name}");
    }
    // The configuration chooses where the variable does not.
    let config = site.home().join(".config/xdrive");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "cloud = \"local\"\n").unwrap();
    assert_eq!(with(&site, "", &["list"]).is(0).stdout, "no drives\n");
    with(&site, "0", &["list"]).is(78);
}

#[test]
fn the_ec2_in_a_folder_is_chosen_by_flag_word_variable_and_configuration() {
    let site = paper();
    let is_local = |ended: Ended| assert_eq!(ended.is(0).stdout, "no drives\n");
    let is_account = |ended: Ended| {
        ended.is(78).reports("no AWS region is set");
    };
    is_account(end(site.words(&["list"])));
    is_local(end(site.words(&["--local", "ls"])));
    is_local(end(site.words(&["local", "list"])));
    is_local(with(&site, "1", &["list"]));
    is_account(with(&site, "", &["list"]));
    with(&site, "maybe", &["list"])
        .is(2)
        .reports("XDRIVE_LOCAL=maybe is neither yes nor no");
    with(&site, "1", &["--region", "us-east-1", "list"])
        .is(77)
        .reports("no AWS credentials");

    site.configure("cloud = \"local\"\n");
    is_local(end(site.words(&["list"])));
    is_account(with(&site, "0", &["list"]));
    site.configure("cloud = \"clouds\"\n");
    end(site.words(&["list"])).is(78).reports("clouds");
    end(site.words(&["doctor"])).is(78).prints("no  config");
    // Nothing of an account is asked for, and so nothing is missing.
    site.configure("");
    end(site.words(&["local", "connect", "x y"]))
        .is(2)
        .reports("invalid value 'x y'");
}

#[test]
fn commands_have_the_names_that_fingers_know() {
    let site = paper();
    site.run(&["ls", "demo"])
        .is(69)
        .reports("there is no drive demo");
    site.run(&["save", "demo"])
        .is(69)
        .reports("there is no drive demo");
    site.run(&["ssh", "demo"])
        .is(2)
        .reports("connect demo -- CMD");
    site.run(&["gc", "--snapshots", "0"])
        .is(2)
        .reports("--keep-last");
    let mut logged = site.words(&["--local", "list"]);
    logged.env("XDRIVE_LOG", "xdrive=loud");
    end(logged)
        .is(2)
        .reports("error: XDRIVE_LOG=xdrive=loud is no filter of logs");
    site.run(&["selftest", "--budget", "1001"])
        .is(2)
        .reports("a budget is 0 dollars at least, and 1000 at most");
    let quiet = site.run(&["-q", "-v", "list"]);
    quiet.is(2).reports("cannot be used with");
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and the Jupyter image"]
fn a_quiet_session_prints_nothing_of_itself_and_a_verbose_one_what_hosts_do() {
    let site = Site::new();
    let image = site.image();
    let command = ["connect", "demo", "--image", &image, "--", "echo", "here"];
    let quiet = site.run(&[&["-q"], &command[..]].concat());
    assert_eq!((&*quiet.stdout, &*quiet.stderr), ("here\n", ""));
    assert_eq!(quiet.code(), 0);
    let verbose = site.run(&[&["-v"], &command[..]].concat());
    verbose
        .is(0)
        .reports("xdrive::host: logged in")
        .reports("demo is saved");
    assert!(!verbose.stderr.contains("xdrive::ec2"), "{verbose:?}");
    site.is_saved("demo", 2);
}

#[test]
fn colour_is_for_first_words_and_for_those_who_want_it() {
    let site = paper();
    let red = "\u{1b}[1;31merror:\u{1b}[0m there is no drive nothere";
    site.run(&["--color", "always", "list", "nothere"])
        .is(69)
        .reports(red)
        .reports("\u{1b}[1;36mhint:\u{1b}[0m xdrive --local list");
    site.run(&["--color=always", "lits"])
        .is(2)
        .reports("\u{1b}[1;31merror:\u{1b}[0m unrecognized subcommand");
    for plain in [
        &["list", "nothere"][..],
        &["--color", "never", "list", "nothere"],
    ] {
        let report = site.run(plain).stderr;
        assert!(!report.contains('\u{1b}'), "{report:?}");
    }
}

#[test]
fn a_log_of_everything_has_an_end_and_no_bytes_of_the_state() {
    let site = paper();
    let mut command = site.command(&["list"]);
    command.env("XDRIVE_LOG", "trace");
    let ended = end(command);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.stderr.contains("aws_smithy_runtime"), "{ended:?}");
    assert!(ended.stderr.len() < 1 << 20, "{} bytes", ended.stderr.len());
    let world = "unfinished: ";
    assert!(!ended.stderr.contains(world), "the state is in the log");
}
