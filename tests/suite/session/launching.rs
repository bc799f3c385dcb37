//! What is launched, where and on which terms: the program as its user runs it, against an EC2 in
//! a folder whose instances are states only. Each run ends before there would be a host to wait for.

use std::fs;
use std::time::Duration;

use xdrive::ec2::{Ec2, SnapshotId, SnapshotState, VolumeId, VolumeOrder, VolumeState, Zone};
use xdrive::local::Fault;
use xdrive::local::plane::Sheet;

use super::site::{Ended, Site};

/// The prices of t3.medium in the folder's zones.
const CHEAPEST: &str = "$0.01248 an hour";

fn paper() -> Site {
    let site = Site::new();
    fs::create_dir(site.dir()).unwrap();
    fs::write(site.dir().join("settings.toml"), "plane = \"paper\"\n").unwrap();
    site
}

fn configured(site: &Site, text: &str) {
    let folder = site.home().join(".config/xdrive");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), text).unwrap();
}

/// `xdrive --local connect demo` with these flags, an image, and every call told of.
fn connect(site: &Site, flags: &[&str]) -> Ended {
    let image = site.image();
    let all = [
        &["connect", "demo", "--image", &image],
        flags,
        &["--", "true"],
    ]
    .concat();
    traced(site, &all)
}

fn dry_run(site: &Site, flags: &[&str]) -> Ended {
    connect(site, &[flags, &["--dry-run"]].concat())
}

fn traced(site: &Site, arguments: &[&str]) -> Ended {
    let mut command = site.command(arguments);
    command
        .env("XDRIVE_LOG", "xdrive::ec2=debug")
        .env("NO_COLOR", "1");
    let output = command.output().unwrap();
    Ended {
        status: output.status,
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The calls that were sent, in order.
fn calls(ended: &Ended) -> Vec<String> {
    let sent = ended.stderr.lines().filter(|line| line.contains("sending"));
    let name = |line: &str| {
        line.split("call=\"")
            .nth(1)?
            .split('"')
            .next()
            .map(str::to_owned)
    };
    sent.filter_map(name).collect()
}

fn count(ended: &Ended, call: &str) -> usize {
    calls(ended).iter().filter(|name| *name == call).count()
}

/// A drive of generation 1, as a volume in `zone` with these tags besides.
fn with_volume(site: &Site, zone: &str, tags: &[(&str, &str)]) -> VolumeId {
    let own = [
        ("Name", "demo"),
        ("xdrive:drive", "demo"),
        ("xdrive:session", "an earlier one"),
        ("xdrive:owner", "arn:aws:iam::000000000000:user/local"),
        ("xdrive:base", "0"),
        ("xdrive:generation", "1"),
        ("xdrive:blank", "yes"),
        ("xdrive:formatted", "1"),
    ];
    let order = VolumeOrder {
        client_token: format!("{zone} {tags:?}"),
        zone: Zone(zone.to_owned()),
        size: 8,
        snapshot: None,
        tags: own
            .iter()
            .chain(tags)
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
    };
    in_the_cloud(site, async |ec2| {
        ec2.create_volume(&order).await.unwrap().id
    })
}

/// The same as a completed snapshot alone.
fn with_snapshot(site: &Site, tags: &[(&str, &str)]) -> SnapshotId {
    let volume = with_volume(site, "us-east-1a", tags);
    let own = [("xdrive:kind", "clean"), ("xdrive:op", "op")];
    in_the_cloud(site, async |ec2| {
        let made = loop {
            let volume = ec2.volume(&volume).await.unwrap().unwrap();
            if volume.state == VolumeState::Available {
                break volume;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let tags = own
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .chain(made.tags)
            .collect();
        let snapshot = ec2.create_snapshot(&volume, &tags).await.unwrap().id;
        while ec2.snapshot(&snapshot).await.unwrap().unwrap().state == SnapshotState::Pending {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        ec2.delete_volume(&volume).await.unwrap();
        snapshot
    })
}

fn in_the_cloud<T>(site: &Site, what: impl AsyncFnOnce(Ec2) -> T) -> T {
    let ec2 = Ec2::local(&site.local());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(what(ec2))
}

fn plant(site: &Site, fault: Fault) {
    site.local().plant(fault).unwrap();
}

fn vcpu_limit() -> Fault {
    Fault::new(
        "RunInstances",
        400,
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current vCPU limit of 0 allows.",
    )
}

#[test]
fn a_dry_run_names_pools_and_prices_and_changes_nothing() {
    let site = paper();
    let ended = dry_run(&site, &["--fallback", "on-demand"]);
    ended
        .is(0)
        .prints("demo is new: an empty volume of 8 GiB, about $0.64 a month")
        .prints(&format!(
            "1. t3.medium  x86_64, 2 CPUs, 4 GiB  spot       us-east-1a  {CHEAPEST}"
        ))
        .prints("3. t3.medium  x86_64, 2 CPUs, 4 GiB  spot       us-east-1c")
        .prints("4. t3.medium  x86_64, 2 CPUs, 4 GiB  on demand  us-east-1a  on-demand price: not")
        .prints("image: resolve:ssm:/aws/service/ecs/")
        .prints("nothing was changed");
    let calls = calls(&ended);
    let looks = |call: &String| call.starts_with("Describe") || call == "GetCallerIdentity";
    assert!(calls.iter().all(looks), "{calls:?}");
    assert!((5..=9).contains(&calls.len()), "{calls:?}");
    assert_eq!(site.drive("demo"), serde_json::Value::Null);
}

#[test]
fn pools_are_tried_in_the_order_of_their_price_with_one_line_each() {
    let site = paper();
    plant(&site, Fault::no_capacity("t3.medium", 99));
    plant(&site, Fault::no_capacity("m5.large", 99));
    let ended = connect(&site, &["--type", "m5.large,t3.medium"]);
    ended
        .is(75)
        .says("error: no capacity: RunInstances: InsufficientInstanceCapacity: ")
        .says("hint: --fallback on-demand launches on demand where no spot is to be had");
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
fn a_quota_stops_at_once_and_says_what_raises_it() {
    let site = paper();
    plant(&site, vcpu_limit());
    let ended = connect(&site, &[]);
    ended
        .is(75)
        .says("VcpuLimitExceeded")
        .says("Service Quotas");
    assert_eq!(count(&ended, "RunInstances"), 1);
}

#[test]
fn without_spot_and_terminal_the_hint_names_the_flag_and_with_it_on_demand_is_next() {
    let no_spot = || {
        let message = "Max spot instance count exceeded";
        Fault::new("RunInstances", 400, "MaxSpotInstanceCountExceeded", message)
    };
    let site = paper();
    plant(&site, no_spot());
    let ended = connect(&site, &[]);
    ended
        .is(75)
        .says("no t3.medium spot in us-east-1a to be had: RunInstances: MaxSpotInstanceCount")
        .says("hint: --fallback on-demand");
    assert_eq!(
        count(&ended, "RunInstances"),
        1,
        "no other spot pool is tried"
    );

    plant(&site, no_spot());
    plant(&site, vcpu_limit());
    let ended = connect(&site, &["--fallback", "on-demand"]);
    ended.is(75).says("VcpuLimitExceeded");
    assert_eq!(count(&ended, "RunInstances"), 2, "on demand is next");

    configured(&site, "fallback = \"on-demand\"\n");
    plant(&site, no_spot());
    plant(&site, vcpu_limit());
    let ended = connect(&site, &[]);
    assert_eq!(count(&ended, "RunInstances"), 2, "{ended:?}");
}

#[test]
fn a_waiting_volume_pins_its_zone() {
    let site = paper();
    let volume = with_volume(&site, "us-east-1c", &[("xdrive:arch", "x86_64")]);
    dry_run(&site, &[])
        .is(0)
        .prints(&format!(
            "demo is {volume}, generation 1, 8 GiB, waiting in us-east-1c"
        ))
        .prints("1. t3.medium  x86_64, 2 CPUs, 4 GiB  spot  us-east-1c  $0.01");
    plant(&site, Fault::no_capacity("t3.medium", 99));
    let ended = connect(&site, &[]);
    ended
        .is(75)
        .says("error: no capacity in us-east-1c, where the drive's volume is: ")
        .says("connect demo --leave-zone saves the volume as a snapshot");
    assert_eq!(count(&ended, "RunInstances"), 1);
    assert_eq!(site.kinds("demo"), ["volume"]);
}

#[test]
fn a_full_zone_is_left_when_told_so_by_way_of_a_snapshot() {
    let site = paper();
    let volume = with_volume(&site, "us-east-1c", &[("xdrive:arch", "x86_64")]);
    let sheet = Sheet::mounted([7; 16]);
    site.local().write(volume.as_str(), sheet).unwrap();
    let mut full = Fault::no_capacity("t3.medium", 99);
    let zone = "Placement.AvailabilityZone";
    full.matching.insert(zone.into(), "us-east-1c".into());
    plant(&site, full);
    let mut elsewhere = vcpu_limit();
    elsewhere.matching.insert(zone.into(), "us-east-1a".into());
    plant(&site, elsewhere);
    let ended = connect(&site, &["--leave-zone"]);
    ended
        .is(75)
        .says("there is no capacity in us-east-1c: demo is saved as a snapshot")
        .says("VcpuLimitExceeded");
    assert_eq!(
        count(&ended, "RunInstances"),
        2,
        "the cheapest zone is next"
    );
    assert_eq!(site.kinds("demo"), ["snapshot"]);
}

#[test]
fn a_type_that_there_is_not_is_refused_with_its_neighbours() {
    let site = paper();
    let ended = connect(&site, &["--type", "t3.medum"]);
    ended
        .is(2)
        .says("t3.medum")
        .says("hint: there are t3.2xlarge, t3.large, t3.medium, ");
    assert_eq!(count(&ended, "RunInstances"), 0);
    connect(&site, &["--type", "t9.medium"])
        .is(2)
        .says("hint: types are written like t3.medium");
    connect(&site, &["--gpu", "99"])
        .is(2)
        .says("no instance type that runs x86_64 programs has 99 NVIDIA GPUs");
}

#[test]
fn a_drive_is_not_launched_on_another_architecture() {
    let site = paper();
    with_snapshot(&site, &[("xdrive:arch", "x86_64")]);
    let ended = connect(&site, &["--type", "m7g.large"]);
    ended
        .is(2)
        .says("m7g.large runs arm64 programs, and those on the drive are compiled for x86_64")
        .says("connect demo --from empty begins anew on the other architecture");
    assert_eq!(count(&ended, "RunInstances"), 0);
    // Whatever has so much: only what the drive can be used on.
    let ended = dry_run(&site, &["--memory", "8"]);
    ended.is(0).prints("t3.large");
    assert!(!ended.stdout.contains("arm64"), "{}", ended.stdout);
    // Begun anew it may be another one.
    dry_run(&site, &["--type", "m7g.large", "--from", "empty"])
        .is(0)
        .prints("first: keep snap-")
        .prints("demo is new: an empty volume")
        .prints("1. m7g.large");
}

#[test]
fn no_more_is_paid_than_was_said() {
    let site = paper();
    let ended = connect(&site, &["--max-price", "0.01"]);
    ended.is(75).says(
        "the cheapest is t3.medium spot in us-east-1a, at $0.01248 an hour: more than $0.0100",
    );
    assert_eq!(count(&ended, "RunInstances"), 0);
    dry_run(&site, &["--max-price", "0.013"])
        .is(0)
        .prints("1. t3.medium")
        .prints(
            "left out: 2 pools cost more than $0.0130 an hour, the least t3.medium spot in us-",
        );
}

#[test]
fn with_the_name_alone_another_laptop_launches_what_was_chosen() {
    let site = paper();
    with_snapshot(
        &site,
        &[
            ("xdrive:arch", "x86_64"),
            ("xdrive:type", "m5.large,c5.large"),
        ],
    );
    let other = site.other_laptop();
    let by_name = |flags: &[&str]| {
        let ended = traced(&other, &[&["connect", "demo", "--dry-run"], flags].concat());
        ended.is(0).prints("demo is restored from snap-");
        let lines = ended.stdout.lines();
        let first = |number: &str| {
            let line = lines.clone().find(|line| line.trim().starts_with(number));
            line.map(|line| line.split_whitespace().nth(1).unwrap().to_owned())
        };
        (first("1."), first("4."))
    };
    let some = |kind: &str| Some(kind.to_owned());
    assert_eq!(
        by_name(&[]),
        (some("m5.large"), some("c5.large")),
        "the drive's own"
    );
    configured(&other, "x = 1\n");
    let folder = other.home().join(".config/xdrive/config.toml");
    fs::write(&folder, "type = [\"r5.large\", \"c5.xlarge\"]\n").unwrap();
    assert_eq!(
        by_name(&[]),
        (some("r5.large"), some("c5.xlarge")),
        "the configuration's"
    );
    assert_eq!(
        by_name(&["--type", "t3.large"]),
        (some("t3.large"), None),
        "the flag's"
    );
    fs::write(&folder, "gpu = 1\n").unwrap();
    assert_eq!(
        by_name(&[]).0,
        some("g4dn.xlarge"),
        "a need instead of a type"
    );
}

#[test]
fn what_says_two_things_or_nonsense_is_refused() {
    let site = Site::new();
    for (flags, why) in [
        (
            &["--type", "t3.medium", "--gpu", "1"][..],
            "cannot be used with",
        ),
        (&["--spot", "--on-demand"], "cannot be used with"),
        (
            &["--on-demand", "--fallback", "on-demand"],
            "cannot be used with",
        ),
        (
            &["--type", "medium"],
            "is not an instance type such as t3.medium",
        ),
        (&["--gpu", "0"], "1..=1024"),
        (
            &["--max-price", "free"],
            "it is not a number of dollars such as 0.05",
        ),
        (&["--max-price", "0"], "nothing is sold for nothing"),
        (
            &["--ami", "al2023"],
            "it is neither ami-… nor resolve:ssm:PARAMETER",
        ),
    ] {
        connect(&site, flags).is(2).says(why);
    }
    for (text, why) in [
        ("type = \"t3.medium\"\ngpu = 1\n", "but not both"),
        ("type = \"medium\"\n", "is not an instance type"),
        ("max_price = 0\n", "nothing is sold for nothing"),
        ("market = \"auction\"\n", "auction"),
        ("ami = \"mine\"\n", "neither ami-"),
    ] {
        configured(&site, text);
        connect(&site, &[]).is(78).says(why);
    }
    assert!(!site.dir().exists(), "nothing was made");
}

#[test]
fn prices_are_shown_by_type_and_zone() {
    let site = paper();
    let ended = site.run(&["prices", "t3.medium", "g5g.xlarge"]);
    ended
        .is(0)
        .prints("type        arch    CPUs    memory  GPUs  zone        spot, an hour\n")
        .prints("t3.medium   x86_64     2     4 GiB     0  us-east-1a  $0.01248\n")
        .prints("g5g.xlarge  arm64      4     8 GiB     1  us-east-1c  $0.1596\n");
    let rows: serde_json::Value =
        serde_json::from_str(&site.run(&["prices", "t3.medium", "--json"]).is(0).stdout).unwrap();
    assert_eq!(rows[0]["zone"], "us-east-1a");
    assert_eq!(rows[0]["name"], "t3.medium");
    assert_eq!(rows[0]["arch"], "x86_64");
    assert!(rows[0]["spot_dollars_an_hour"].as_f64().unwrap() > 0.012);

    site.run(&["prices"])
        .is(0)
        .says("t3.medium, the default")
        .prints("us-east-1b");
    with_snapshot(&site, &[("xdrive:type", "m5.large")]);
    configured(&site, "gpu = 1\n");
    site.run(&["prices"])
        .is(0)
        .says("gpus=1, the configuration's; m5.large, of a drive of yours")
        .prints("m5.large")
        .prints("g4dn.xlarge");
    site.run(&["prices", "t3.medum"])
        .is(2)
        .says("there are t3.2xlarge");
}

#[test]
fn at_a_terminal_on_demand_is_launched_only_after_a_yes() {
    let site = paper();
    let image = site.image();
    for (answer, said) in [("n\r", "no capacity: "), ("y\r", "VcpuLimitExceeded")] {
        // Three zones of spot, then on demand.
        plant(&site, Fault::no_capacity("t3.medium", 3));
        let mut pty = site.in_terminal(&["connect", "demo", "--image", &image]);
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
        assert!(pty.contents().contains(said), "{}", pty.contents());
    }
    assert_eq!(site.drive("demo"), serde_json::Value::Null);
}
