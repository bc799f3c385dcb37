//! A host that hangs: its user ends it, where EC2's own check of it has failed for long enough.

use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;

use super::connection_lost::recorded;
use super::site::{SESSION, Site};
use harness::eventually_within;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_that_hangs_is_ended_for_its_user_once_ec2_says_so_too() {
    let site = Site::with_a_drive();
    let command = "echo kept >/work/kept; sync; sleep 10000";
    let run = [
        "run",
        "demo",
        "-d",
        "--no-jupyter",
        "--",
        "sh",
        "-c",
        command,
    ];
    site.run(&run).is(0);
    let is_kept = || site.run(&["cat", "demo:kept"]).stdout == "kept\n";
    eventually_within(SESSION, || "its file".to_owned(), is_kept);
    // Every process of the host but the first one: none answers a client.
    let init = recorded(&site, "init.json").as_raw_nonzero().to_string();
    let frozen = Command::new("nsenter")
        .args(["--target", &init, "--mount", "--pid"])
        .args(["sh", "-c", "kill -STOP -1"])
        .status();
    assert!(frozen.unwrap().success());

    // To this laptop alone it may seem to hang.
    let refused = site.run(&["stop", "demo", "--hung"]);
    refused
        .is(75)
        .reports("EC2's status check of")
        .reports("has not failed")
        .reports("nothing was done");
    let instance = site.instance("demo");
    let local = site.local();
    let long_ago = Timestamp::now() - Duration::from_mins(2);
    local.impair(&instance, long_ago).unwrap();
    let refused = site.run(&["stop", "demo", "--hung"]);
    refused.is(75).reports(" s, not 5 min");
    assert_eq!(site.instance("demo"), instance);

    let long_ago = Timestamp::now() - Duration::from_mins(6);
    local.impair(&instance, long_ago).unwrap();
    site.run(&["stop", "demo", "--hung"])
        .is(0)
        .reports("demo is saved");
    site.is_saved("demo", 2);
    assert_eq!(site.run(&["cat", "demo:kept"]).is(0).stdout, "kept\n");
    site.has_no_leaks();
}
