//! `tend --away`: who tends is an instance of the user's own, and no laptop is left.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::super::{counting, is_gone, only_run, start};
use crate::session::json::document;
use crate::session::site::{SESSION, Site};
use harness::home::program;
use harness::{eventually_within, image_with};

/// The role by which it tends.
const SETTINGS: &str = "[instance-profiles.tender]\npolicy = \"tender.json\"\n";

/// The path of this program without what only a debugger reads, and of an image that has what it needs.
fn program_and_image(site: &Site) -> [String; 2] {
    let (small, image) = (site.path("xdrive"), site.path("tender.tar"));
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&small).arg(program());
    assert!(strip.status().unwrap().success());
    fs::write(&image, image_with(&[small.to_str().unwrap()])).unwrap();
    [small, image].map(|path| path.into_os_string().into_string().unwrap())
}

/// A process that is recorded in this file of the instance of a drive.
fn recorded(site: &Site, drive: &str, file: &str) -> Pid {
    let path = site.dir().join("instances").join(site.instance(drive));
    let text = fs::read_to_string(path.join(file)).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    Pid::from_raw(i32::try_from(record["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

/// Waits until the run on `demo` is at the try of this number.
fn is_at_try(site: &Site, number: u32) {
    let words = ["cat", "demo:lines"];
    let is_there = || {
        let seen = site.run(&words).stdout;
        seen.lines().last() == Some(&number.to_string())
    };
    let what = || format!("try {number}; {}", site.run(&["logs", "tender"]).stderr);
    eventually_within(2 * SESSION, what, is_there);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and binutils"]
fn a_run_ends_with_every_laptop_gone_and_so_does_its_tender() {
    let site = Site::with_settings(SETTINGS);
    let policy = site.run(&["policy", "--tend"]);
    fs::write(site.dir().join("tender.json"), &policy.is(0).stdout).unwrap();
    let [program, image] = program_and_image(&site);
    // What freezes programs comes along, also by a link.
    fs::write(site.path("archive"), "criu's").unwrap();
    symlink("archive", site.path("criu-x86_64.tar.gz")).unwrap();
    let words = ["tend", "--away", "--image", &image, "--program", &program];
    site.run(&words)
        .is(2)
        .reports("hint: xdrive policy --tend prints what that role needs");
    let away = [
        &words[..],
        &["--instance-profile", "tender", "--until-idle", "30s"],
    ]
    .concat();
    let id = start(&site, &counting(1, 0.2));
    let begun = site.run(&away);
    begun
        .is(0)
        .reports("tender is a t")
        .reports(" on demand with 4 GiB, about $0.")
        .reports("tender tends: xdrive --local ps tender  shows it");
    site.run(&away)
        .is(0)
        .reports("tender tends already, by the run ");
    site.run(&["ps", "tender"])
        .is(0)
        .prints("--until-idle 30s --owner");
    let criu = site.run(&["cat", "tender:criu-x86_64.tar.gz"]);
    assert_eq!(criu.is(0).stdout, "criu's");

    // Every laptop is gone; another one only looks.
    fs::remove_dir_all(site.home()).unwrap();
    let looks = site.other_laptop();
    is_at_try(&looks, 1);
    looks.interrupt("demo", 10);
    is_at_try(&looks, 2);
    kill_process(recorded(&looks, "demo", "supervisor.json"), Signal::KILL).unwrap();
    is_at_try(&looks, 3);
    let init = recorded(&looks, "demo", "init.json").as_raw_nonzero();
    fs::write(format!("/proc/{init}/root/v1/work/end"), "").unwrap();
    is_gone(&looks);
    let is_saved = || looks.kinds("demo").iter().all(|kind| kind == "snapshot");
    eventually_within(SESSION, || format!("{:?}", looks.kinds("demo")), is_saved);
    let run = only_run(&looks);
    assert_eq!((&run["run"], &run["try"]), (&id.into(), &3.into()), "{run}");
    assert_eq!(run["state"], "ended", "{run}");
    let tries = looks.run(&["cat", "demo:tries"]);
    assert_eq!(tries.is(0).stdout, "1\n2\n3\n");

    // Nothing is wanted any more, and its host switches itself off. What it leaves is its volume.
    let is_off = || looks.kinds("tender").iter().all(|kind| kind != "instance");
    eventually_within(SESSION, || format!("{:?}", looks.kinds("tender")), is_off);
    looks
        .run(&away)
        .is(0)
        .reports(" is done (exit code 0)")
        .reports("tender tends: ");
    looks.run(&["stop", "tender"]).is(0);
    let kinds = looks.kinds("tender");
    assert!(kinds.iter().all(|kind| kind == "snapshot"), "{kinds:?}");
    let rows = document("ps", &looks.run(&["ps", "tender", "--all", "--json"]));
    assert_eq!(rows[0]["status"], 0, "{rows}");
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and binutils"]
fn a_tender_that_may_not_launch_says_so_and_destroys_nothing() {
    let site = Site::with_settings(SETTINGS);
    let policy = site.run(&["policy", "--tend"]);
    let policy = policy
        .is(0)
        .stdout
        .replace("ec2:RunInstances", "ec2:GetConsoleOutput");
    fs::write(site.dir().join("tender.json"), policy).unwrap();
    let [program, image] = program_and_image(&site);
    let words = ["tend", "--away", "--image", &image, "--program", &program];
    let away = [&words[..], &["--instance-profile", "tender"]].concat();
    start(&site, &counting(1, 0.2));
    site.run(&away).is(0);
    is_at_try(&site, 1);
    kill_process(recorded(&site, "demo", "supervisor.json"), Signal::KILL).unwrap();
    is_gone(&site);
    let says = || {
        let listed = site.run(&["ps", "demo"]).stdout;
        listed.contains("UnauthorizedOperation")
    };
    let seen = || {
        format!(
            "{:?} {:?}",
            site.run(&["ps", "demo"]),
            site.run(&["logs", "tender"])
        )
    };
    eventually_within(2 * SESSION, seen, says);
    let kinds = site.kinds("demo");
    assert!(kinds.iter().any(|kind| kind != "instance"), "{kinds:?}");
    site.run(&["stop", "tender"]).is(0);
    site.run(&["tend", "--once"]).is(0);
    is_at_try(&site, 2);
    site.run(&["stop", "demo"]).is(0);
    site.has_no_leaks();
}
