//! `--prefer lasting`: what is launched, and shown, by AWS's spot placement scores.

use xdrive::local::Fault;

use super::json::document;
use super::simulated::{calls, connect, count, dry_run, paper, plant, vcpu_limit};

const LASTING: &[&str] = &["--prefer", "lasting"];

/// The call for the scores.
const SCORES: &str = "GetSpotPlacementScores";

#[test]
fn what_lasts_comes_first_where_that_is_preferred_and_the_score_is_said() {
    let site = paper();
    let ended = dry_run(&site, LASTING);
    ended.is(0).prints(
        "1. c6a.large       x86_64, 2 CPUs, 4 GiB  spot  us-east-1c  $0.02907 an hour, score 9 of 10",
    );
    let lines = || ended.stdout.lines();
    assert!(lines().any(|line| line.contains("us-east-1b") && line.ends_with("score 6 of 10")));
    assert_eq!(count(&ended, SCORES), 1);
    // Without the flag nothing is asked, and nothing changes.
    let plain = dry_run(&site, &[]);
    plain
        .is(0)
        .prints("1. c6a.large       x86_64, 2 CPUs, 4 GiB  spot  us-east-1a  $0.02295");
    assert_eq!(count(&plain, SCORES), 0);
    assert!(!plain.stdout.contains("score"), "{}", plain.stdout);
    site.configure("prefer = \"lasting\"\n");
    dry_run(&site, &[])
        .is(0)
        .prints("1. c6a.large       x86_64, 2 CPUs, 4 GiB  spot  us-east-1c");
    dry_run(&site, &["--prefer", "price"])
        .is(0)
        .prints("spot  us-east-1a  $0.02295 an hour\n");
    let shown = document(
        "dry-run",
        &site.run(&["connect", "demo", "--dry-run", "--json"]),
    );
    assert_eq!(shown["offers"][0]["placement_score"], 9, "{shown}");
    plant(&site, vcpu_limit());
    let ended = connect(&site, LASTING);
    ended.is(75).reports(
        "launching c6a.large, x86_64, spot in us-east-1c, $0.02907 an hour, score 9 of 10",
    );
    assert_eq!(count(&ended, SCORES), 1, "{:?}", calls(&ended));
}

#[test]
fn named_types_stay_in_order_and_of_fewer_than_three_nothing_is_asked() {
    let site = paper();
    let named = [
        "--type",
        "m5.large,c5.large,r5.large",
        "--fallback",
        "on-demand",
    ];
    let ended = dry_run(&site, &[LASTING, &named].concat());
    ended
        .is(0)
        .prints("1. m5.large  x86_64, 2 CPUs, 8 GiB   spot       us-east-1c")
        .prints("4. c5.large  x86_64, 2 CPUs, 4 GiB   spot       us-east-1c")
        .prints("10. m5.large  x86_64, 2 CPUs, 8 GiB   on demand  us-east-1a  $0.0960 an hour\n");
    let ended = dry_run(&site, &[LASTING, &["--type", "m5.large,c5.large"]].concat());
    ended
        .is(0)
        .prints("1. m5.large  x86_64, 2 CPUs, 8 GiB  spot  us-east-1a  $0.0288 an hour, score not known")
        .prints(
            "left out: spot placement scores are not known: AWS scores 3 types or more together, and \
             here are 2",
        );
    assert_eq!(count(&ended, SCORES), 0);
    let ended = dry_run(&site, &[LASTING, &["--on-demand"]].concat());
    ended.is(0);
    assert!(!ended.stdout.contains("score"), "{}", ended.stdout);
    assert_eq!(count(&ended, SCORES), 0);
}

#[test]
fn scores_take_a_right_and_nothing_else_does() {
    let site = paper();
    let policy = site.run(&["policy"]).is(0).stdout.clone();
    assert!(policy.contains("ec2:GetSpotPlacementScores"), "{policy}");
    let without = policy.replace("ec2:GetSpotPlacementScores", "ec2:DescribeVpcs");
    site.set(&format!("plane = \"paper\"\npolicy = '''{without}'''\n"));
    dry_run(&site, LASTING)
        .is(0)
        .prints("1. c6a.large       x86_64, 2 CPUs, 4 GiB  spot  us-east-1a  $0.02295 an hour, score not known")
        .prints("left out: spot placement scores are not known: GetSpotPlacementScores: UnauthorizedOperation");
    site.run(&["prices"])
        .is(0)
        .prints("$0.02295       $0.0765        ?\n")
        .reports(
            "spot placement scores are not known: GetSpotPlacementScores: UnauthorizedOperation",
        );
    let doctor = site.run(&["doctor"]);
    assert!(!doctor.stdout.contains("Placement"), "{}", doctor.stdout);
    site.set(&format!("plane = \"paper\"\npolicy = '''{policy}'''\n"));
    dry_run(&site, LASTING).is(0).prints("score 9 of 10");
    // What AWS does not answer in time, or cannot be read, is not known either.
    plant(
        &site,
        Fault::new(SCORES, 400, "InvalidParameterValue", "no such set"),
    );
    dry_run(&site, LASTING).is(0).prints("score not known");
}

#[test]
fn prices_have_the_scores_and_come_in_their_order_where_that_is_asked() {
    let site = paper();
    let named = ["prices", "m5.large", "c5.large", "r5.large"];
    site.run(&named)
        .is(0)
        .prints(
            "type      arch    CPUs    memory  GPUs  zone        spot, an hour  on demand  score\n",
        )
        .prints(
            "m5.large  x86_64     2     8 GiB     0  us-east-1a  $0.0288        $0.0960        3\n",
        );
    let flags = ["--json", "--prefer", "lasting"];
    let rows = document("prices", &site.run(&[&named[..], &flags].concat()));
    let all = rows.as_array().unwrap().iter();
    let scores: Vec<_> = all.map(|row| row["placement_score"].as_u64()).collect();
    assert_eq!(scores, [9, 6, 3, 9, 6, 3, 9, 6, 3].map(Some));
    let rows = document(
        "prices",
        &site.run(&["prices", "--json", "--prefer", "lasting"]),
    );
    assert_eq!(
        (&rows[0]["name"], &rows[0]["zone"]),
        (&"c6a.large".into(), &"us-east-1c".into())
    );
    site.run(&["prices", "m5.large"])
        .is(0)
        .reports("AWS scores 3 types or more together, and here is 1")
        .prints("$0.0960        ?\n");
}
