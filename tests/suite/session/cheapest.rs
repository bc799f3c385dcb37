//! The default launch, and the costs beside its price.

use xdrive::local::Fault;

use super::simulated::{connect, count, dry_run, paper, plant, vcpu_limit, with_snapshot};

#[test]
fn without_a_word_the_cheapest_type_is_launched_that_has_enough_and_is_not_burstable() {
    let site = paper();
    let ended = dry_run(&site, &[]);
    ended
        .is(0)
        .prints("1. c6a.large       x86_64, 2 CPUs, 4 GiB  spot  us-east-1a  $0.02295 an hour")
        .prints("  each plus about $0.009 an hour for address and disks\n");
    for other in ["t3.", "arm64", "burstable"] {
        assert!(!ended.stdout.contains(other), "{other}:\n{}", ended.stdout);
    }
    with_snapshot(&site, &[("xdrive:arch", "arm64")]);
    let ended = dry_run(&site, &[]);
    ended.is(0).prints("1. m6g.large  arm64, 2 CPUs, 8 GiB");
    assert!(!ended.stdout.contains("x86_64"), "{}", ended.stdout);
}

#[test]
fn the_next_type_is_announced_where_the_cheapest_is_not_to_be_had() {
    let site = paper();
    plant(&site, Fault::no_capacity("c6a.large", 1));
    plant(&site, vcpu_limit());
    let ended = connect(&site, &[]);
    ended
        .is(75)
        .reports(
            "launching c6a.large, x86_64, spot in us-east-1a, $0.02295 an hour\n  plus about $0.00",
        )
        .reports("no c6a.large spot in us-east-1a to be had")
        .reports("launching c7i-flex.large, x86_64, spot in us-east-1a");
    assert_eq!(count(&ended, "RunInstances"), 2);
}

#[test]
fn a_need_passes_over_burstable_types_and_who_names_one_reads_what_it_can_cost() {
    let site = paper();
    let ended = dry_run(&site, &["--memory", "8"]);
    ended.is(0).prints("1. m7i-flex.large");
    assert!(!ended.stdout.contains("t3."), "{}", ended.stdout);
    dry_run(&site, &["--type", "t3.medium,m5.large"])
        .is(0)
        .prints("t3.medium is burstable: each vCPU-hour above its baseline costs $0.05 more\n");
    dry_run(&site, &["--type", "t4g.medium"])
        .is(0)
        .prints("t4g.medium is burstable: each vCPU-hour above its baseline costs $0.04 more\n");
    plant(&site, vcpu_limit());
    connect(&site, &["--type", "t3.medium"])
        .is(75)
        .reports("launching t3.medium, x86_64, spot in us-east-1a, $0.01248 an hour")
        .reports("t3.medium is burstable: each vCPU-hour above its baseline costs $0.05 more");
    site.run(&["prices", "t3.medium"])
        .is(0)
        .reports("each plus about $0.009 an hour for address and disks")
        .reports("t3.medium is burstable");
}
