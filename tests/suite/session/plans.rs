//! The limits of an account's launches: AWS's Free plan, and quotas.

use xdrive::local::Fault;

use super::simulated::{connect, count, dry_run, plant, vcpu_limit};
use super::site::{Ended, Site};

const ON_FREE: &str = "plan = \"free\"\n";

/// A site with a paper EC2 with these settings.
fn site(settings: &str) -> Site {
    Site::with_settings(&format!("plane = \"paper\"\n{settings}"))
}

/// A session that ends after its launch, as its volume is refused.
fn launched(site: &Site, flags: &[&str]) -> Ended {
    let message = "You are not authorized to perform this operation.";
    plant(
        site,
        Fault::new("CreateVolume", 403, "UnauthorizedOperation", message),
    );
    let ended = connect(site, flags);
    ended
        .is(77)
        .reports("error: CreateVolume: UnauthorizedOperation");
    ended
}

/// The session launched this type in this market.
fn is_launched(ended: &Ended, kind: &str, market: &str) {
    ended
        .reports(&format!("launching {kind}, x86_64, {market} in us-east-1a"))
        .reports(&format!("), {kind} {market}\n"));
}

#[test]
fn on_the_free_plan_a_need_goes_on_among_the_types_that_the_free_tier_has() {
    let site = site(ON_FREE);
    // A dry run launches nothing, and no call shows the plan.
    dry_run(&site, &[]).is(0).prints("1. c6a.large");
    // The default: the free tier has some of its pools, in the wanted market.
    let ended = launched(&site, &[]);
    ended
        .reports("this account is on AWS's Free plan, which launches only types that the free tier has: c6a.large is none of them");
    is_launched(&ended, "c7i-flex.large", "spot");
    assert_eq!(count(&ended, "RunInstances"), 2, "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("Free plan").count(), 1);
    // Requirements whose pools have none of the free tier's.
    let need = ["--cpus", "2", "--memory", "1", "--arch", "arm64"];
    let ended = dry_run(&site, &need);
    assert!(!ended.is(0).stdout.contains("t4g"), "{}", ended.stdout);
}

#[test]
fn spot_that_the_free_plan_would_not_have_is_followed_by_on_demand() {
    let refusals = [
        (
            "InvalidParameterCombination",
            "The specified instance type is not eligible for Free Tier. For a list of Free Tier \
             instance types, run 'describe-instance-types' with the filter 'free-tier-eligible=true'.",
        ),
        ("InvalidParameterValue", "spot is not for this plan"),
        (
            "MaxSpotInstanceCountExceeded",
            "Max spot instance count exceeded",
        ),
    ];
    for (code, message) in refusals {
        let site = site(ON_FREE);
        for kind in ["c7i-flex.large", "m7i-flex.large"] {
            let mut fault = Fault::new("RunInstances", 400, code, message);
            fault.times = 9;
            fault.matching.extend([
                ("InstanceType".to_owned(), kind.to_owned()),
                (
                    "InstanceMarketOptions.MarketType".to_owned(),
                    "spot".to_owned(),
                ),
            ]);
            plant(&site, fault);
        }
        if code.starts_with("Max") {
            // A quota is no plan: with the flag, on demand is launched.
            let ended = launched(&site, &["--fallback", "on-demand"]);
            is_launched(&ended, "c7i-flex.large", "on demand");
            continue;
        }
        let ended = launched(&site, &[]);
        ended
            .reports("going on among the types that the free tier has, on demand; --free (free = true in the configuration) begins with them");
        is_launched(&ended, "c7i-flex.large", "on demand");
        // c6a, one of spot, and what was launched.
        assert_eq!(
            count(&ended, "RunInstances"),
            3,
            "{code}:\n{}",
            ended.stderr
        );
        // A flag for the market rules out the other.
        let ended = connect(&site, &["--spot"]);
        assert_ne!(ended.code(), 0);
        assert!(!ended.stderr.contains("launched demo"), "{}", ended.stderr);
    }
}

#[test]
fn free_launches_what_the_free_tier_has_on_demand_and_of_a_need_what_meets_it() {
    let site = site(ON_FREE);
    let ended = dry_run(&site, &["--free"]);
    ended
        .is(0)
        .prints("1. c7i-flex.large  x86_64, 2 CPUs, 4 GiB  on demand  us-east-1a")
        .prints("t3.micro is burstable");
    for other in ["c6a", "t4g", "spot "] {
        assert!(!ended.stdout.contains(other), "{other}:\n{}", ended.stdout);
    }
    dry_run(&site, &["--free", "--memory", "8"])
        .is(0)
        .prints("1. m7i-flex.large");
    dry_run(&site, &["--free", "--spot"])
        .is(0)
        .prints("  spot  ");
    let ended = launched(&site, &["--free"]);
    is_launched(&ended, "c7i-flex.large", "on demand");
    assert_eq!(count(&ended, "RunInstances"), 1);
    connect(&site, &["--free", "--gpu", "1"])
        .is(2)
        .reports("error: of the free tier's types (c7i-flex.large, m7i-flex.large, t3.micro, t3.small) none has 1 NVIDIA GPU")
        .reports("hint: ask for less, or leave --free away; a paid plan launches any type");
    connect(&site, &["--free", "--type", "t3.micro"])
        .is(2)
        .reports("cannot be used with");
    site.configure("free = true\n");
    dry_run(&site, &[]).is(0).prints("1. c7i-flex.large");
    dry_run(&site, &["--type", "m5.large"])
        .is(0)
        .prints("1. m5.large  x86_64, 2 CPUs, 8 GiB  spot");
    site.configure("free = true\ntype = \"m5.large\"\n");
    dry_run(&site, &[]).is(78).reports("but not both");
}

#[test]
fn types_that_the_free_plan_does_not_launch_are_one_error_that_names_those_it_does() {
    let site = site(ON_FREE);
    let ended = connect(
        &site,
        &["--type", "m5.large,r5.large", "--fallback", "on-demand"],
    );
    ended
        .is(77)
        .reports("error: this account is on AWS's Free plan, which does not launch m5.large: RunInstances: InvalidParameterCombination: The specified instance type is not eligible for Free Tier.")
        .reports("hint: the free tier has c7i-flex.large, m7i-flex.large, t3.micro, t3.small: --type names one, --free chooses among them, on demand")
        .reports("a paid plan launches any type");
    assert_eq!(count(&ended, "RunInstances"), 1, "{}", ended.stderr);
    // Other named types are tried.
    let ended = launched(&site, &["--type", "m5.large,t3.micro"]);
    is_launched(&ended, "t3.micro", "spot");
    assert_eq!(count(&ended, "RunInstances"), 2, "{}", ended.stderr);
}

#[test]
fn a_quota_is_named_with_what_asks_for_more_and_another_family_is_launched() {
    let site = site("[quotas]\nL-3819A6DF = 0\nL-34B43A08 = 8\n");
    let ended = launched(&site, &["--type", "g4dn.xlarge,g5.xlarge,m5.large"]);
    ended
        .reports("no g4dn.xlarge spot in us-east-1a to be had: RunInstances: MaxSpotInstanceCountExceeded: ")
        .reports("\"All G and VT Spot Instance Requests\" (L-3819A6DF) allows 0 vCPUs at once, and g4dn.xlarge has 4")
        .reports("aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-3819A6DF --desired-value 4 --region us-east-1");
    is_launched(&ended, "m5.large", "spot");
    // g5 counts against the same one.
    assert_eq!(count(&ended, "RunInstances"), 2, "{}", ended.stderr);
}

#[test]
fn a_launch_that_no_quota_has_room_for_names_every_quota() {
    let site = site("[quotas]\nL-3819A6DF = 0\nL-DB2E81BA = 2\nL-34B43A08 = 4\n");
    let ended = launched(
        &site,
        &[
            "--type",
            "g4dn.xlarge,m5.2xlarge",
            "--fallback",
            "on-demand",
        ],
    );
    // On demand there is no quota of the standard families here.
    is_launched(&ended, "m5.2xlarge", "on demand");
    let types = ["--type", "g4dn.xlarge", "--fallback", "on-demand"];
    let ended = connect(&site, &types);
    ended
        .is(75)
        .reports("error: the account's quota is reached: \"All G and VT Spot Instance Requests\" (L-3819A6DF) allows 0")
        .reports("\"Running On-Demand G and VT instances\" (L-DB2E81BA) allows 2 vCPUs at once, and g4dn.xlarge has 4")
        .reports("VcpuLimitExceeded")
        .reports("--quota-code L-DB2E81BA --desired-value 6 --region us-east-1` asks for more")
        .reports("Service Quotas");
    assert_eq!(count(&ended, "RunInstances"), 2, "{}", ended.stderr);
    // A smaller type of the same family may fit into what is left.
    let ended = launched(&site, &["--type", "m5.2xlarge,m5.large"]);
    is_launched(&ended, "m5.large", "spot");
}

#[test]
fn a_quota_that_may_not_be_read_is_named_all_the_same() {
    let site = site("[quotas]\nL-3819A6DF = 0\n");
    let message = "User is not authorized to perform: servicequotas:GetServiceQuota";
    let mut denied = Fault::new("GetServiceQuota", 400, "AccessDeniedException", message);
    denied.times = 99;
    plant(&site, denied);
    connect(&site, &["--type", "g4dn.xlarge"])
        .is(75)
        .reports("\"All G and VT Spot Instance Requests\" (L-3819A6DF) allows no more vCPUs, and g4dn.xlarge has 4")
        .reports("--desired-value 4 ");
    let ended = site.run(&["doctor"]).unfolded();
    ended
        .is(0)
        .prints(" ?  quotas         L-34B43A08, L-3819A6DF, L-7212CCBC, L-C4BD4855, L-1216C47A, L-DB2E81BA, L-417A185B: GetServiceQuota: AccessDenied");
}

#[test]
fn doctor_shows_the_quotas_that_can_be_read() {
    let site = site("[quotas]\nL-3819A6DF = 0\nL-34B43A08 = 5\nL-1216C47A = 16\nL-DB2E81BA = 0\n");
    let ended = site.run(&["doctor"]).unfolded();
    ended
        .is(0)
        .prints("ok  quota          5 vCPUs: All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests (L-34B43A08)")
        .prints("ok  quota          0 vCPUs: All G and VT Spot Instance Requests (L-3819A6DF)")
        .prints("ok  quota          16 vCPUs: Running On-Demand Standard");
    // A folder limits nothing by those that its settings do not have.
    assert!(!ended.stdout.contains("L-7212CCBC"), "{}", ended.stdout);
    plant(&site, vcpu_limit());
    connect(&site, &[])
        .is(75)
        .reports("(L-34B43A08) allows 0 vCPUs at once, and c6a.large has 2");
}
