//! `run --again`: the order of the last run once more, as a new run.

use std::io::Write as _;
use std::path::PathBuf;

use super::super::simulated::{paper, with_snapshot};
use super::*;

/// Writes a line with its own number, try and notice; ends with 3 when it is asked to.
const LISTED: &str = "echo $XDRIVE_RUN $XDRIVE_TRY $XDRIVE_NOTICE >>/work/lines; sync; \
                      until [ -e /work/end ]; do sleep 0.2; done; rm /work/end; exit 3";

/// The file with the order of a run, on the host of `demo`.
fn order_file(site: &Site, run: &str) -> PathBuf {
    let init = recorded(site, "init.json").as_raw_nonzero();
    PathBuf::from(format!("/proc/{init}/root/v1/xdrive/runs/{run}/order"))
}

fn order(site: &Site, run: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(order_file(site, run)).unwrap()).unwrap()
}

/// Writes an order on the drive, as whoever is root on its host can.
fn forge(site: &Site, run: &str, order: &Value) {
    // Closed at once: who holds it open keeps the drive mounted.
    let mut file = fs::File::create(order_file(site, run)).unwrap();
    file.write_all(order.to_string().as_bytes()).unwrap();
    file.sync_all().unwrap();
}

/// Begins a run, which is left at once; its id.
fn begin(site: &Site, words: &[&str]) -> String {
    let run = ["run", "demo", "-d", "--json", "--no-jupyter"];
    let started = site.run(&[&run[..], words].concat());
    let run = document("run", started.is(0));
    run["run"].as_str().unwrap().to_owned()
}

/// Waits until `demo:lines` ends with this line.
fn is_there(site: &Site, line: &str) {
    let is_last = || site.run(&["cat", "demo:lines"]).stdout.lines().last() == Some(line);
    eventually_within(SESSION, || line.to_owned(), is_last);
}

#[test]
fn what_cannot_be_begun_once_more_is_refused_before_anything_is_launched() {
    let site = paper();
    let again = ["run", "demo", "--again"];
    let refused = |words: &[&str]| site.run(&[&again[..], words].concat());
    refused(&["--", "true"])
        .is(2)
        .reports("cannot be used with");
    refused(&["--dry-run"]).is(2).reports("cannot be used with");
    refused(&[]).is(69).reports("there is no drive demo");
    site.run(&["run", "demo@1", "--again"])
        .is(2)
        .reports("--again is for the last run of a drive, not for NAME@N");
    let tags = [
        ("xdrive:run", "1f00c2"),
        ("xdrive:run-state", "wanted"),
        ("xdrive:run-launch", ""),
        ("xdrive:run-until", "2999-01-01T00:00:00Z"),
    ];
    with_snapshot(&site, &tags);
    refused(&[])
        .is(75)
        .reports("error: the run 1f00c2 of demo is wanted already")
        .reports("ps demo shows it, ")
        .reports("stop demo ends it");
    assert_eq!(site.kinds("demo"), ["snapshot"]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_stopped_and_a_failed_run_are_begun_once_more_as_they_were_ordered() {
    let site = Site::new();
    let image = site.image();
    let words = [
        "--restart",
        "--retry",
        "2",
        "--retry-on",
        "7",
        "--max",
        "3d",
    ];
    let options = ["--notice", "7s", "--fallback", "none", "--image", &image];
    let run = ["--", "sh", "-c", LISTED];
    let first = begin(&site, &[&words[..], &options, &run].concat());
    is_there(&site, &format!("{first} 1 7"));
    let ordered = order(&site, &first);
    site.run(&["run", "demo", "--again"])
        .is(75)
        .reports(&format!("error: the run {first} of demo is wanted already"));
    site.run(&["stop", "demo"]).is(0);
    site.run(&["run", "demo", "-d", "--again", "-e", "A=1"])
        .is(2)
        .reports(&format!(
            "the run {first} once more: sh -c 'echo $XDRIVE_RUN"
        ))
        .reports("with -d --restart no variable is brought along");
    site.is_saved("demo", 1);
    let second = begin(&site, &["--again"]);
    assert_ne!(first, second);
    is_there(&site, &format!("{second} 1 7"));
    assert_eq!(order(&site, &second), ordered);
    site.run(&["list", "demo"]).is(0).prints(&format!(
        "  run {second} is begun again if EC2 takes the instance"
    ));
    end(&site);
    is_gone(&site);
    site.run(&["tend", "--once"])
        .is(0)
        .reports(&format!("demo: the run {second} is failed (exit code 3)"));
    // What is typed outranks the order.
    let third = begin(&site, &["--again", "--notice", "9s", "--max", "1h"]);
    is_there(&site, &format!("{third} 1 9"));
    let mut typed = ordered;
    (typed["notice"], typed["limit"]) = (9.into(), 3600.into());
    assert_eq!(order(&site, &third), typed);
    site.run(&["stop", "demo"]).is(0);
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_that_had_a_variable_is_begun_once_more_with_that_alone() {
    let site = Site::new();
    let image = site.image();
    let command = "echo $TOKEN >>/work/lines; sync; exit 3";
    let run = [
        "--image",
        &image,
        "-e",
        "TOKEN=one",
        "--",
        "sh",
        "-c",
        command,
    ];
    let id = begin(&site, &run);
    // It waits as a volume: its host has switched itself off.
    is_gone(&site);
    let why = format!("error: the run {id} had something that is not on the drive: -e TOKEN\n");
    site.run(&["run", "demo", "--again"])
        .is(2)
        .reports(&why)
        .reports("hint: --again -e TOKEN  brings it along once more");
    site.is_saved("demo", 1);
    let again = ["run", "demo", "--again", "--no-jupyter", "-e", "TOKEN=two"];
    site.run(&again).is(3);
    assert_eq!(site.run(&["cat", "demo:lines"]).is(0).stdout, "one\ntwo\n");
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_order_has_nothing_posted_from_here_and_anothers_is_its_command_alone() {
    const ADA: &str = "arn:aws:iam::000000000000:user/ada";
    let site = Site::new();
    let calls = |person: &str| {
        site.set(&format!(
            "caller = \"arn:aws:iam::000000000000:user/{person}\"\n"
        ));
    };
    calls("ada");
    let image = site.image();
    let first = begin(&site, &["--image", &image, "--", "sh", "-c", LISTED]);
    is_there(&site, &format!("{first} 30"));
    site.run(&["run", "demo", "--again"])
        .is(75)
        .reports(&format!("error: the run {first} of demo goes on"));
    // Nobody answers there: whoever posts to it fails.
    let mut forged = order(&site, &first);
    forged["notify"]["address"] = "http://127.0.0.1:1/secret".into();
    forged["notify"]["drive"] = "demo".into();
    forge(&site, &first, &forged);
    site.run(&["stop", "demo"]).is(0);
    let own = begin(&site, &["--again"]);
    assert_eq!(order(&site, &own)["notify"], forged["notify"]);
    site.run(&["stop", "demo"]).is(0);
    calls("bob");
    site.run(&["run", "demo", "-d", "--again"])
        .is(77)
        .reports(&format!("demo is {ADA}'s"));
    let again = ["run", "demo", "-d", "--again", "--shared", "--json"];
    let begun = site.run(&[&again[..], &["--no-jupyter"]].concat());
    begun.is(0).reports("the drive is another's: ");
    let run = document("run", &begun)["run"].clone();
    let run = run.as_str().unwrap();
    is_there(&site, &format!("{run} 30"));
    let mut newer = order(&site, run);
    assert_eq!(newer["notify"], Value::Null, "{newer}");
    newer["version"] = 1_000_000.into();
    forge(&site, run, &newer);
    site.run(&["stop", "demo", "--shared"]).is(0);
    site.run(&["run", "demo", "--again", "--shared"])
        .is(1)
        .reports(&format!("error: the drive has no order for the run {run}"));
    let kinds = site.kinds("demo");
    assert!(kinds.iter().all(|kind| kind == "snapshot"), "{kinds:?}");
    site.has_no_leaks();
}
