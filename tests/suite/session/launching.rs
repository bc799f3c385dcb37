//! Launches: pools in their order, terms, and the handling of missing capacity.

use rustix::process::Signal;
use xdrive::local::Fault;
use xdrive::local::plane::PaperSuperblock;

use super::simulated::{
    SLOW, connect, count, dry_run, paper, plant, start_traced, vcpu_limit, with_volume,
};

/// A named type: no other is tried.
const T3: &[&str] = &["--type", "t3.medium"];

#[test]
fn pools_are_tried_in_the_order_of_their_price_with_one_line_each() {
    let site = paper();
    plant(&site, Fault::no_capacity("t3.medium", 99));
    plant(&site, Fault::no_capacity("m5.large", 99));
    let ended = connect(&site, &["--type", "m5.large,t3.medium"]);
    ended
        .is(75)
        .reports("error: no capacity: RunInstances: InsufficientInstanceCapacity: ")
        .reports("hint: --fallback on-demand launches on demand where no spot is to be had");
    let tried: Vec<&str> = ended
        .stderr
        .lines()
        .filter(|line| line.contains(" to be had: RunInstances: Insufficient"))
        .map(|line| line.split(" to be had").next().unwrap())
        .collect();
    let in_order = ["m5.large", "t3.medium"]
        .map(|kind| ["a", "b", "c"].map(|zone| format!("no {kind} spot in us-east-1{zone}")));
    assert_eq!(tried, in_order.concat());
    assert_eq!(count(&ended, "RunInstances"), 6);
}

#[test]
fn no_further_pool_is_tried_once_ctrl_c_asks_for_the_end() {
    const TYPES: &str = "t3.medium,t3.large,m5.large,c5.large,r5.large,c6a.large";
    let site = paper();
    for instance_type in TYPES.split(',') {
        plant(&site, Fault::no_capacity(instance_type, 99));
    }
    // So long that a signal comes in time.
    site.set(&format!("{SLOW}calls-take-ms = 150\n"));
    let image = site.image();
    let words = [
        "connect", "demo", "--image", &image, "--type", TYPES, "--", "true",
    ];
    let mut connect = start_traced(&site, &words);
    connect.reports("RunInstances");
    connect.signal(Signal::INT);
    let ended = connect.end();
    ended.is(130).reports("interrupted: ending what was begun");
    // Of 18; this process may have to wait for a processor.
    let tried = count(&ended, "RunInstances");
    assert!((1..9).contains(&tried), "{ended:?}");
    assert_eq!(site.kinds("demo"), [""; 0]);
}

#[test]
fn a_quota_stops_at_once_and_says_what_raises_it() {
    let site = paper();
    plant(&site, vcpu_limit());
    let ended = connect(&site, &[]);
    ended
        .is(75)
        .reports("VcpuLimitExceeded")
        .reports("Service Quotas");
    assert_eq!(count(&ended, "RunInstances"), 1);
    // The only calls of a choice.
    assert_eq!(count(&ended, "DescribeInstanceTypes"), 1);
    assert_eq!(count(&ended, "DescribeSpotPriceHistory"), 1);
}

#[test]
fn without_spot_and_terminal_the_hint_names_the_flag_and_with_it_on_demand_is_next() {
    let no_spot = || {
        let message = "Max spot instance count exceeded";
        Fault::new("RunInstances", 400, "MaxSpotInstanceCountExceeded", message)
    };
    let site = paper();
    plant(&site, no_spot());
    let ended = connect(&site, T3);
    ended
        .is(75)
        .reports("no t3.medium spot in us-east-1a to be had: RunInstances: MaxSpotInstanceCount")
        .reports("hint: --fallback on-demand");
    assert_eq!(
        count(&ended, "RunInstances"),
        1,
        "no other spot pool is tried"
    );

    plant(&site, no_spot());
    plant(&site, vcpu_limit());
    let ended = connect(&site, &["--fallback", "on-demand"]);
    ended.is(75).reports("VcpuLimitExceeded");
    assert_eq!(count(&ended, "RunInstances"), 2, "on demand is next");

    plant(&site, no_spot());
    plant(&site, vcpu_limit());
    let ended = connect(&site, &["-y"]);
    ended.reports("launch on demand instead? [y/N] yes\n");
    assert_eq!(count(&ended, "RunInstances"), 2, "{ended:?}");

    site.configure("fallback = \"on-demand\"\n");
    plant(&site, no_spot());
    plant(&site, vcpu_limit());
    let ended = connect(&site, &[]);
    assert_eq!(count(&ended, "RunInstances"), 2, "{ended:?}");
}

#[test]
fn a_quota_of_spot_that_is_reached_passes_over_its_type_alone() {
    let site = paper();
    let message = "Max spot instance count exceeded";
    let mut no_gpus = Fault::new("RunInstances", 400, "MaxSpotInstanceCountExceeded", message);
    let of = |kind: &str| [("InstanceType".to_owned(), kind.to_owned())];
    no_gpus.matching.extend(of("g4dn.xlarge"));
    plant(&site, no_gpus);
    let mut reached = vcpu_limit();
    reached.matching.extend(of("m5.large"));
    plant(&site, reached);
    let ended = connect(&site, &["--type", "g4dn.xlarge,m5.large"]);
    ended
        .is(75)
        .reports("no g4dn.xlarge spot in us-east-1a to be had: ")
        .reports("VcpuLimitExceeded");
    assert_eq!(count(&ended, "RunInstances"), 2, "{ended:?}");
}

#[test]
fn choosing_that_fails_in_passing_is_done_again() {
    for (call, code, status) in [
        ("DescribeInstanceTypes", "RequestLimitExceeded", 503),
        ("DescribeInstanceTypes", "InternalError", 500),
        ("DescribeSpotPriceHistory", "RequestLimitExceeded", 503),
    ] {
        let site = paper();
        // More often than the SDK retries.
        let passing = Fault {
            times: 4,
            ..Fault::new(call, status, code, "not now")
        };
        plant(&site, passing);
        plant(&site, vcpu_limit());
        let ended = connect(&site, &[]);
        ended.is(75).reports("VcpuLimitExceeded");
        assert_eq!(count(&ended, "RunInstances"), 1, "{ended:?}");
    }
}

#[test]
fn a_launch_whose_group_was_tidied_away_finds_another() {
    let site = paper();
    let message = "The security group 'sg-1' does not exist";
    let mut gone = Fault::new("RunInstances", 400, "InvalidGroup.NotFound", message);
    // Longer than a new group lags.
    gone.times = 5;
    plant(&site, gone);
    plant(&site, vcpu_limit());
    let ended = connect(&site, &[]);
    ended
        .is(75)
        .reports("trying again: ")
        .reports("VcpuLimitExceeded");
    // Ahead of the first launch, and for the second.
    assert_eq!(count(&ended, "DescribeSecurityGroups"), 2, "{ended:?}");
}

#[test]
fn a_waiting_volume_pins_its_zone() {
    let site = paper();
    let volume = with_volume(&site, "us-east-1c", &[("xdrive:arch", "x86_64")]);
    dry_run(&site, T3)
        .is(0)
        .prints(&format!(
            "demo's volume ({volume}), generation 1, 8 GiB, waits in us-east-1c"
        ))
        .prints("1. t3.medium  x86_64, 2 CPUs, 4 GiB  spot  us-east-1c  $0.01");
    plant(&site, Fault::no_capacity("t3.medium", 99));
    let ended = connect(&site, T3);
    ended
        .is(75)
        .reports("error: no capacity in us-east-1c, where the drive's volume is: ")
        .reports("connect demo --leave-zone saves the volume as a snapshot");
    assert_eq!(count(&ended, "RunInstances"), 1);
    assert_eq!(site.kinds("demo"), ["volume"]);
}

#[test]
fn a_full_zone_is_left_on_request_by_way_of_a_snapshot() {
    let site = paper();
    let volume = with_volume(&site, "us-east-1c", &[("xdrive:arch", "x86_64")]);
    let sheet = PaperSuperblock::mounted([7; 16]);
    site.local().write(volume.as_str(), sheet).unwrap();
    let mut full = Fault::no_capacity("t3.medium", 99);
    let zone = "Placement.AvailabilityZone";
    full.matching.insert(zone.into(), "us-east-1c".into());
    plant(&site, full);
    let mut elsewhere = vcpu_limit();
    elsewhere.matching.insert(zone.into(), "us-east-1a".into());
    plant(&site, elsewhere);
    let ended = connect(&site, &[T3, &["--leave-zone"]].concat());
    ended
        .is(75)
        .reports("there is no capacity in us-east-1c: demo is saved as a snapshot")
        .reports("VcpuLimitExceeded");
    assert_eq!(
        count(&ended, "RunInstances"),
        2,
        "the cheapest zone is next"
    );
    assert_eq!(site.kinds("demo"), ["snapshot"]);
}

#[test]
fn at_a_terminal_on_demand_is_launched_only_after_a_yes() {
    let site = paper();
    let image = site.image();
    for (answer, shown) in [("n\r", "no capacity: "), ("y\r", "VcpuLimitExceeded")] {
        // Three zones of spot, then on demand.
        plant(&site, Fault::no_capacity("t3.medium", 3));
        let mut pty = site.in_terminal(&[&["connect", "demo", "--image", &image][..], T3].concat());
        pty.see("launch on demand instead? [y/N]");
        if answer == "y\r" {
            plant(&site, vcpu_limit());
        }
        pty.type_in(answer);
        assert_eq!(
            pty.wait_within(super::site::SESSION),
            75,
            "{}",
            pty.contents()
        );
        pty.see(shown);
    }
    assert_eq!(site.drive("demo"), serde_json::Value::Null);
}

#[test]
fn a_subnet_has_a_zone_that_is_the_only_one_and_may_not_be_the_volumes() {
    // The default subnet of us-east-1b.
    let subnet = ["--subnet", "subnet-00000000000000002"];
    let site = paper();
    let ended = dry_run(&site, &[&subnet[..], T3].concat());
    ended
        .is(0)
        .prints("1. t3.medium  x86_64, 2 CPUs, 4 GiB  spot  us-east-1b  $0.0141");
    assert!(!ended.stdout.contains("us-east-1a"), "{}", ended.stdout);
    with_volume(&site, "us-east-1c", &[("xdrive:arch", "x86_64")]);
    dry_run(&site, &subnet)
        .is(0)
        .prints("the subnet is in us-east-1b: nothing is launched");
    let ended = connect(&site, &subnet);
    ended
        .is(75)
        .reports(
            "no capacity in us-east-1c, where the drive's volume is: subnet-00000000000000002 is",
        )
        .reports("--leave-zone");
    assert_eq!(count(&ended, "RunInstances"), 0);
}

#[test]
fn an_image_that_cannot_be_launched_is_refused_once_with_a_hint() {
    let site = paper();
    for (image, why, hint) in [
        (
            "ami-00000000000000009",
            "InvalidAMIID.NotFound",
            "hint: --ami names an image of this region",
        ),
        (
            "resolve:ssm:/no/such",
            "could not be resolved",
            "hint: the image's parameter has to exist in this region",
        ),
    ] {
        let ended = connect(&site, &["--ami", image]);
        ended.is(2).reports(why).reports(hint);
        assert_eq!(
            count(&ended, "RunInstances"),
            1,
            "the next pool is no better"
        );
    }
    let message = "The architecture 'x86_64' of the specified instance type does not match the \
                   architecture 'arm64' of the specified AMI.";
    plant(
        &site,
        Fault::new("RunInstances", 400, "InvalidParameterValue", message),
    );
    connect(&site, &[])
        .is(2)
        .reports("hint: the image that --ami names has to be of the instance type's architecture");
}
