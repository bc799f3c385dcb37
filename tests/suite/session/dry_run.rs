//! Dry runs: choices, their prices, and refusals, before anything is made.

use std::fs;
use std::process::Command;

use xdrive::local::Fault;

use super::simulated::{
    calls, connect, count, dry_run, in_the_cloud, paper, plant, traced, with_snapshot,
};
use super::site::Site;

/// The prices of t3.medium in the folder's zones.
const CHEAPEST: &str = "$0.01248 an hour";

/// The flags for that type.
const T3: &[&str] = &["--type", "t3.medium"];

#[test]
fn a_dry_run_names_pools_and_prices_and_changes_nothing() {
    let site = paper();
    let ended = dry_run(&site, &[T3, &["--fallback", "on-demand"]].concat());
    ended
        .is(0)
        .prints("demo is new: an empty volume of 8 GiB, about $0.64 a month")
        .prints(&format!(
            "1. t3.medium  x86_64, 2 CPUs, 4 GiB  spot       us-east-1a  {CHEAPEST}"
        ))
        .prints("3. t3.medium  x86_64, 2 CPUs, 4 GiB  spot       us-east-1c")
        .prints("4. t3.medium  x86_64, 2 CPUs, 4 GiB  on demand  us-east-1a  $0.0416 an hour")
        .prints("image: resolve:ssm:/aws/service/ecs/")
        .prints("nothing was changed");
    let calls = calls(&ended);
    let looks = |call: &String| call.starts_with("Describe") || call == "GetCallerIdentity";
    assert!(calls.iter().all(looks), "{calls:?}");
    // Two of them ask what else has the name of a new drive.
    assert!((5..=13).contains(&calls.len()), "{calls:?}");
    assert_eq!(site.drive("demo"), serde_json::Value::Null);
}

#[test]
fn the_configured_size_is_that_of_new_drives_alone() {
    let site = paper();
    site.configure("size = \"200G\"\n");
    dry_run(&site, T3)
        .is(0)
        .prints("demo is new: an empty volume of 200 GiB");
    let snapshot = with_snapshot(&site, &[]);
    let own = in_the_cloud(&site, async |ec2| {
        ec2.snapshot(&snapshot).await.unwrap().unwrap().size
    });
    dry_run(&site, T3)
        .is(0)
        .prints(&format!("generation 1, {own} GiB"));
    dry_run(&site, &[T3, &["--size", "300"]].concat())
        .is(0)
        .prints("generation 1, 300 GiB");
}

#[test]
fn a_type_that_there_is_not_is_refused_with_its_neighbours() {
    let site = paper();
    let ended = connect(&site, &["--type", "t3.medum"]);
    ended
        .is(2)
        .reports("t3.medum")
        .reports("hint: there are t3.2xlarge, t3.large, t3.medium, ");
    assert_eq!(count(&ended, "RunInstances"), 0);
    connect(&site, &["--type", "t9.medium"])
        .is(2)
        .reports("hint: types are written like t3.medium");
    connect(&site, &["--gpu", "99"])
        .is(2)
        .reports("no instance type that runs x86_64 programs has 99 NVIDIA GPUs");
}

#[test]
fn a_drive_is_not_launched_on_another_architecture() {
    let site = paper();
    with_snapshot(&site, &[("xdrive:arch", "x86_64")]);
    let ended = connect(&site, &["--type", "m7g.large"]);
    ended
        .is(2)
        .reports("m7g.large runs arm64 programs, and those on the drive are compiled for x86_64")
        .reports("connect demo --from empty begins anew on the other architecture");
    assert_eq!(count(&ended, "RunInstances"), 0);
    // Of all types with so much memory only those that the drive can use.
    let ended = dry_run(&site, &["--memory", "8"]);
    ended.is(0).prints("m5.large");
    assert!(!ended.stdout.contains("arm64"), "{}", ended.stdout);
    // A drive begun anew may have another.
    dry_run(&site, &["--type", "m7g.large", "--from", "empty"])
        .is(0)
        .prints("first: keep demo's snapshot (snap-")
        .prints("demo is new: an empty volume")
        .prints("1. m7g.large");
}

/// An archive as `docker save` writes it, of an image for `architecture`.
pub(super) fn archive(site: &Site, architecture: &str) -> String {
    let tree = site.path(architecture);
    fs::create_dir(&tree).unwrap();
    let configuration = format!("{{\"architecture\": \"{architecture}\", \"os\": \"linux\"}}");
    fs::write(tree.join("config.json"), configuration).unwrap();
    let manifest = "[{\"Config\": \"config.json\", \"RepoTags\": null, \"Layers\": []}]";
    fs::write(tree.join("manifest.json"), manifest).unwrap();
    let tar = site.path(&format!("{architecture}.tar"));
    let mut command = Command::new("tar");
    let made = command.arg("-cf").arg(&tar).arg("-C").arg(&tree).arg(".");
    assert!(made.status().unwrap().success());
    tar.into_os_string().into_string().unwrap()
}

#[test]
fn an_image_archive_says_on_what_it_runs() {
    let site = paper();
    let arm = archive(&site, "arm64");
    let with_archive = |flags: &[&str]| {
        let words = ["connect", "demo", "--image", &arm, "--dry-run"];
        traced(&site, &[&words, flags].concat())
    };
    with_archive(&[]).is(0).prints("1. m6g.large");
    with_archive(&["--memory", "8"])
        .is(0)
        .prints("1. m6g.large");
    with_archive(&["--type", "t3.medium,m5.large"])
        .is(2)
        .reports("t3.medium, m5.large run x86_64 programs, and those of the image are compiled for arm64")
        .reports("--image names another image");
    with_snapshot(&site, &[("xdrive:arch", "x86_64")]);
    with_archive(&[])
        .is(2)
        .reports("arm64.tar has arm64 programs, and demo is used on x86_64 alone")
        .reports("hint: --image names one that has x86_64 programs");
    with_archive(&["--from", "empty"])
        .is(0)
        .prints("1. m6g.large");
}

#[test]
fn no_more_is_paid_than_max_price_allows() {
    let site = paper();
    let ended = connect(&site, &[T3, &["--max-price", "0.01"]].concat());
    ended.is(75).reports(
        "the cheapest is t3.medium spot in us-east-1a, at $0.01248 an hour: more than $0.0100",
    );
    assert_eq!(count(&ended, "RunInstances"), 0);
    dry_run(&site, &[T3, &["--max-price", "0.013"]].concat())
        .is(0)
        .prints("1. t3.medium")
        .prints(
            "left out: 2 pools cost more than $0.0130 an hour; the cheapest, t3.medium spot in us-",
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
        ended
            .is(0)
            .prints("demo is restored from its snapshot (snap-");
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
    other.configure("type = [\"r5.large\", \"c5.xlarge\"]\n");
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
    other.configure("gpu = 1\n");
    assert_eq!(
        by_name(&[]).0,
        some("g4dn.xlarge"),
        "a need instead of a type"
    );
}

#[test]
fn contradictory_and_invalid_terms_are_refused() {
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
        (&["--gpu", "0"], "it is not a whole number from 1 to 1024"),
        (&["--gpu", "L4"], "hint: --type g6.xlarge has the L4"),
        (
            &["--max-price", "free"],
            "it is not a number of dollars such as 0.05",
        ),
        (
            &["--max-price", "1001"],
            "more than 0 dollars an hour, and 1000 at most",
        ),
        (&["--max-price", "0"], "is more than 0 dollars"),
        (
            &["--ami", "al2023"],
            "it is neither ami-… nor resolve:ssm:PARAMETER",
        ),
    ] {
        connect(&site, flags).is(2).reports(why);
    }
    for (text, why) in [
        ("type = \"t3.medium\"\ngpu = 1\n", "but not both"),
        ("type = \"medium\"\n", "is not an instance type"),
        ("max_price = 0\n", "is more than 0 dollars"),
        ("market = \"auction\"\n", "auction"),
        ("ami = \"mine\"\n", "neither ami-"),
    ] {
        site.configure(text);
        connect(&site, &[]).is(78).reports(why);
    }
    assert!(!site.dir().exists(), "nothing was made");
}

#[test]
fn prices_on_demand_take_a_right_and_nothing_else_does() {
    let site = paper();
    let policy = site.run(&["policy"]).is(0).stdout.clone();
    assert!(policy.contains("pricing:GetProducts"), "{policy}");
    site.set(&format!(
        "plane = \"paper\"\npolicy = '''{}'''\n",
        policy.replace("pricing:GetProducts", "ec2:DescribeVpcs")
    ));
    let words = [T3, &["--on-demand"]].concat();
    dry_run(&site, &words)
        .is(0)
        .prints("t3.medium  x86_64, 2 CPUs, 4 GiB  on demand  us-east-1a  price not known");
    site.run(&["prices", "t3.medium"])
        .is(0)
        .prints("$0.01248       ?              ?\n")
        .reports("on-demand prices are not known: GetProducts: AccessDenied");
    site.run(&["doctor"])
        .is(0)
        .prints(" ?  prices         on demand they are not known: GetProducts:");
    site.set(&format!("plane = \"paper\"\npolicy = '''{policy}'''\n"));
    dry_run(&site, &words)
        .is(0)
        .prints("on demand  us-east-1a  $0.0416 an hour");
    site.run(&["doctor"])
        .is(0)
        .prints("ok  prices         m5.large on demand: $0.0960 an hour");
}

#[test]
fn prices_are_shown_by_type_and_zone() {
    let site = paper();
    let ended = site.run(&["prices", "t3.medium", "g5g.xlarge"]);
    ended
        .is(0)
        .prints("type        arch    CPUs    memory  GPUs  zone        spot, an hour  on demand  score\n")
        .prints("t3.medium   x86_64     2     4 GiB     0  us-east-1a  $0.01248       $0.0416        ?\n")
        .prints("g5g.xlarge  arm64      4     8 GiB     1  us-east-1c  $0.1596        $0.4200        ?\n");
    let rows: serde_json::Value =
        serde_json::from_str(&site.run(&["prices", "t3.medium", "--json"]).is(0).stdout).unwrap();
    assert_eq!(rows[0]["zone"], "us-east-1a");
    assert_eq!(rows[0]["name"], "t3.medium");
    assert_eq!(rows[0]["arch"], "x86_64");
    assert!(rows[0]["spot_dollars_an_hour"].as_f64().unwrap() > 0.012);

    site.run(&["prices"])
        .is(0)
        .reports("2 CPUs and 4 GiB, the default")
        .prints("c6a.large")
        .prints("us-east-1b");
    with_snapshot(&site, &[("xdrive:type", "m5.large")]);
    site.configure("gpu = 1\n");
    site.run(&["prices"])
        .is(0)
        .reports("gpus=1, the configuration's; m5.large, of a drive of yours")
        .prints("m5.large")
        .prints("g4dn.xlarge");
    site.run(&["prices", "t3.medum"])
        .is(2)
        .reports("there are t3.2xlarge");
}

#[test]
fn a_look_that_is_not_allowed_is_reported_and_prices_are_not_worth_a_failure() {
    let denied = |call: &str| {
        let message = "You are not authorized to perform this operation.";
        Fault::new(call, 403, "UnauthorizedOperation", message)
    };
    let site = paper();
    plant(&site, denied("DescribeInstanceTypes"));
    let ended = connect(&site, &[]);
    ended
        .is(77)
        .reports("error: DescribeInstanceTypes: UnauthorizedOperation");
    assert_eq!(count(&ended, "RunInstances"), 0);
    plant(&site, denied("DescribeSpotPriceHistory"));
    dry_run(&site, T3)
        .is(0)
        .prints(
            "1. t3.medium  x86_64, 2 CPUs, 4 GiB  spot  a zone of EC2's choice  price not known",
        )
        .prints("left out: spot prices could not be asked for, EC2 chooses the zone");
    for call in ["DescribeInstanceTypes", "DescribeSpotPriceHistory"] {
        plant(&site, Fault::throttled(call, 2));
        dry_run(&site, &[]).is(0).prints("us-east-1a");
    }
}
