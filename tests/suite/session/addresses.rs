//! Subnets that give their instances no public address, and those without a route.

mod wide;

use super::simulated::{calls, connect, count, dry_run, paper, traced};
use super::site::Site;

/// The subnet of the second zone.
const SECOND: &str = "subnet-00000000000000002";

#[test]
fn a_subnet_that_nothing_leads_to_is_refused_before_anything_is_made() {
    let site =
        Site::with_settings("plane = \"paper\"\nmap-public-ip = false\ninternet-gateway = false\n");
    for flags in [
        &[][..],
        &["--subnet", SECOND],
        &["--type", "t3.medium,m5.large"],
    ] {
        let ended = connect(&site, flags);
        ended
            .is(69)
            .reports("can be reached from here: its routes lead to no internet gateway")
            .reports("--proxy-command")
            .reports("--subnet");
        let changes = calls(&ended);
        let looks = |call: &String| call.starts_with("Describe") || call == "GetCallerIdentity";
        assert!(changes.iter().all(looks), "{changes:?}");
        // The dry run reports the same.
        dry_run(&site, flags)
            .is(69)
            .reports("can be reached from here: its routes lead to no internet gateway");
    }
    assert_eq!(site.run(&["list"]).is(0).stdout, "no drives\n");
}

#[test]
fn the_dry_run_and_the_doctor_say_that_a_public_address_is_asked_for() {
    const ASKED: &str = "no public address: one is asked for";
    let site = Site::with_settings("plane = \"paper\"\nmap-public-ip = false\n");
    dry_run(&site, &[]).is(0).prints(ASKED);
    dry_run(&site, &["--subnet", SECOND])
        .is(0)
        .prints(SECOND)
        .prints(ASKED);
    let proxied = dry_run(&site, &["--proxy-command", "nc %h %p"]);
    assert!(!proxied.is(0).stdout.contains(ASKED), "{}", proxied.stdout);
    site.run(&["doctor"]).unfolded().prints(ASKED);

    let shut =
        Site::with_settings("plane = \"paper\"\nmap-public-ip = false\ninternet-gateway = false\n");
    shut.run(&["doctor"])
        .unfolded()
        .is(69)
        .prints("no  network")
        .prints("can be reached from here: its routes lead to no internet gateway");
}

#[test]
fn a_caller_who_may_not_see_routes_launches_as_before() {
    let site = Site::with_settings("plane = \"paper\"\nmap-public-ip = false\n");
    let message = "You are not authorized to perform this operation.";
    let denied =
        xdrive::local::Fault::new("DescribeRouteTables", 403, "UnauthorizedOperation", message);
    super::simulated::plant(&site, denied);
    let ended = dry_run(&site, &[]);
    ended.is(0).prints("one is asked for");
    assert_eq!(count(&ended, "DescribeRouteTables"), 1);
    // If subnets give addresses themselves none is requested.
    let usual = paper();
    let ended = traced(
        &usual,
        &["connect", "demo", "--image", &usual.image(), "--dry-run"],
    );
    assert_eq!(count(ended.is(0), "DescribeRouteTables"), 0);
}

#[test]
fn a_network_that_is_shut_for_the_internet_is_refused_unless_its_user_names_it_or_another_way() {
    const SHUT: &str = "VPC Block Public Access (block-ingress) keeps what comes from the internet";
    let site = Site::with_settings("plane = \"paper\"\nblock-public-access = \"block-ingress\"\n");
    let ended = connect(&site, &[]);
    ended
        .is(69)
        .reports("can be reached from here: VPC Block Public Access (block-ingress)")
        .reports("--proxy-command");
    assert_eq!(count(&ended, "RunInstances"), 0);
    dry_run(&site, &[]).is(69).reports(SHUT);
    site.run(&["doctor"])
        .unfolded()
        .is(69)
        .prints("no  network")
        .prints(SHUT);
    // What EC2 says of exclusions is not documented.
    dry_run(&site, &["--subnet", SECOND])
        .is(0)
        .prints(&format!("warning: {SECOND}: {SHUT}"));
    let proxied = dry_run(&site, &["--proxy-command", "nc %h %p"]);
    assert!(!proxied.is(0).stdout.contains(SHUT), "{}", proxied.stdout);
}
