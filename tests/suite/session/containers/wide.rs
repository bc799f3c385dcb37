//! Variants of `containers`, which `shell/test.sh --all` runs.

use std::fs;
use std::time::Duration;

use super::{other_image, session, site};
use crate::session::connection_lost::recorded;
use crate::session::json::document;
use crate::session::life::{address, fetch};
use crate::session::site::{SESSION, Site};
use harness::{cache, eventually_within};

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_is_listed_with_its_container_which_is_not_removed_before_it_has_ended() {
    let site = site();
    let other = other_image(&site);
    // It keeps the drive up.
    site.run(&["run", "demo", "-d", "--", "sleep", "1000"])
        .is(0);
    let only = site.run(&["ps", "demo"]);
    assert!(!only.is(0).stdout.contains("main"), "{}", only.stdout);
    let script = "echo begun; until [ -e /work/end ]; do sleep 0.1; done; rm /work/end; exit 5";
    let flags = ["run", "demo/tools", "-d", "--image", &other];
    site.run(&[&flags[..], &["--", "sh", "-c", script]].concat())
        .is(0);
    site.run(&["ps", "demo"])
        .is(0)
        .prints("  tools  running  ")
        .prints("  main   running  ");
    let rows = document("ps", &site.run(&["ps", "demo", "--json"]));
    assert_eq!(rows[0]["container"], "main", "{rows}");
    assert_eq!(rows[1]["container"], "tools", "{rows}");
    let run = rows[1]["run"].as_str().unwrap();
    assert_eq!(site.run(&["logs", "demo", run]).is(0).stdout, "begun\n");

    let listed = document("containers", &site.run(&["containers", "demo", "--json"]));
    assert_eq!(listed[0]["container"], "main", "{listed}");
    assert_eq!(listed[1]["container"], "tools", "{listed}");
    assert_eq!(listed[1]["state"], "running", "{listed}");
    site.run(&["containers", "demo"])
        .is(0)
        .prints("  tools  running  other.tar");
    let ports = document("ports", &site.run(&["ports", "demo/tools", "--json"]));
    assert_eq!(ports, serde_json::json!([]));
    site.run(&["ports", "demo/none"])
        .is(69)
        .reports("where its container none does not run");
    let removing = ["containers", "demo", "--remove", "tools"];
    site.run(&removing)
        .is(1)
        .reports("hint: --yes answers the question");
    let removing = [&removing[..], &["--yes"]].concat();
    site.run(&removing)
        .is(75)
        .reports("error: demo's container tools is in use: ");
    // Whoever attaches need not know in which one it is, and its signals arrive there.
    let mut attached = site.start(&["attach", "demo", run]);
    attached.prints("begun\n");
    let init = recorded(&site, "init.json").as_raw_nonzero();
    fs::write(format!("/proc/{init}/root/v1/work/end"), "").unwrap();
    attached.end().is(5);

    site.run(&removing)
        .is(0)
        .reports("removed the container tools");
    let listed = document("containers", &site.run(&["containers", "demo", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    site.run(&removing)
        .is(69)
        .reports("error: demo has no container tools");
    session(&site, "demo/tools", &[], "true").is(69);
    site.run(&["stop", "demo"]).is(0);
    site.run(&removing)
        .is(69)
        .reports("demo is not up, and --remove launches nothing")
        .reports("hint: xdrive --local connect demo brings it up");
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_shell_that_was_left_is_come_back_to_in_its_own_container() {
    let site = site();
    let other = other_image(&site);
    let mut pty = site.in_terminal(&["connect", "demo/tools", "--image", &other]);
    pty.see_within(SESSION, "bash-");
    pty.type_in("here=tools; clear; echo on$((1+1))\r");
    pty.see("on2");
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    pty.see("xdrive --local connect demo/tools  comes back to it");
    let mut pty = site.in_terminal(&["connect", "demo"]);
    pty.see_within(SESSION, "bash-");
    pty.type_in("clear; echo in-${here-main}-$((1+1))\r");
    pty.see("in-main-2");
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    let mut pty = site.in_terminal(&["connect", "demo/tools"]);
    pty.see_within(SESSION, "bash-");
    pty.type_in("clear; echo in-${here-main}-$((1+1))\r");
    pty.see("in-tools-2");
    pty.type_in("exit 3\r");
    assert_eq!(pty.wait_within(SESSION), 3, "{}", pty.contents());
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn under_a_notice_both_containers_end_well_and_lose_nothing() {
    let site = site();
    let other = other_image(&site);
    let script =
        "trap 'echo ended >>/own; exit' TERM; echo begun >/own; while :; do sleep 0.1; done";
    let image = ["--image", &other];
    for (place, flags) in [("demo", &[][..]), ("demo/tools", &image[..])] {
        let command = ["--", "sh", "-c", script];
        site.run(&[&["run", place, "-d"], flags, &command].concat())
            .is(0);
    }
    site.interrupt("demo", 120);
    let is_off = || site.kinds("demo").iter().all(|kind| kind != "instance");
    eventually_within(Duration::from_mins(4), || "no instance".to_owned(), is_off);
    for place in ["demo", "demo/tools"] {
        let own = session(&site, place, &[], "cat /own");
        assert_eq!(own.is(0).stdout, "begun\nended\n", "{place}");
        own.reports(&format!(
            "started the container{}",
            &place[4..].replace('/', " ")
        ));
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and the Jupyter image"]
fn jupyter_is_in_the_container_that_the_session_is_in() {
    let site = Site::new();
    site.configure(&format!("image = \"{}\"\n", site.image()));
    let image = cache().join("local/jupyter.tar");
    let image = image.to_str().unwrap();
    let mut pty = site.in_terminal(&["connect", "demo/lab", "--image", image]);
    pty.see_within(SESSION, "/work#");
    assert_eq!(fetch(&address(&pty)), "200");
    pty.type_in("exit\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn invalid_and_missing_containers_are_refused_before_anything_is_launched() {
    let site = site();
    for (place, why) in [
        (
            "demo/Tools",
            "a container's name has lower-case letters, digits and '-' only, not 'T'",
        ),
        ("demo/", "a container's name cannot be empty"),
        ("demo/a/b", "'-' only, not '/'"),
        ("demo/-a", "starts and ends with a letter or a digit"),
    ] {
        session(&site, place, &[], "true").is(2).reports(why);
    }
    site.run(&["containers", "demo", "--remove", "main"])
        .is(2)
        .reports("main is the drive's main container, which every drive has");
    site.run(&["ls", "demo/tools:/own"])
        .is(69)
        .reports("error: there is no drive demo")
        .reports("hint: xdrive --local list shows all there are");
    session(&site, "demo/tools", &[], "true")
        .is(69)
        .reports("demo has no container tools yet");
    assert_eq!(site.kinds("demo"), Vec::<String>::new());
}
