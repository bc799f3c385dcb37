//! Several containers on one drive.

use std::fs;
use std::time::Duration;

use harness::{cache, eventually_within, image_with};

use super::connection_lost::recorded;
use super::json::document;
use super::life::{address, fetch};
use super::openssh::{configured, end, ran};
use super::site::{Ended, Running, SESSION, Site};

/// A site whose drives' main containers are made from the small image.
fn site() -> Site {
    let site = Site::new();
    site.configure(&format!(
        "image = \"{}\"\nno_jupyter = true\n",
        site.image()
    ));
    site
}

/// Another image, which has `chmod`.
fn other_image(site: &Site) -> String {
    let tar = site.path("other.tar");
    fs::write(&tar, image_with(&["chmod"])).unwrap();
    tar.into_os_string().into_string().unwrap()
}

/// Runs `script` in a session in this place, with these flags.
fn session(site: &Site, place: &str, flags: &[&str], script: &str) -> Ended {
    let command = ["--", "sh", "-c", script];
    site.run(&[&["connect", place], flags, &command].concat())
}

/// Has a command wait in the main container of `demo`, until the drive has a file called `end`.
fn leading(site: &Site) -> Running {
    let wait = "echo begun; until [ -e /work/end ]; do sleep 0.1; done";
    let mut lead = site.start(&["connect", "demo", "--", "sh", "-c", wait]);
    lead.prints("begun\n");
    lead
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn two_containers_of_a_drive_keep_a_layer_each() {
    let site = site();
    let other = other_image(&site);
    session(
        &site,
        "demo",
        &[],
        "echo main >/own; echo both >/work/shared",
    )
    .is(0)
    .reports("created the container");
    // Nothing is launched for one that cannot be made: there would be another snapshot.
    session(&site, "demo/tools", &[], "true")
        .is(69)
        .reports("error: demo has no container tools; it has main")
        .reports("hint: xdrive --local connect demo/tools --image IMAGE makes it");
    site.is_saved("demo", 1);
    let made = session(
        &site,
        "demo/tools",
        &["--image", &other, "--mount", "sets:/data"],
        "cat /own 2>/dev/null || echo none; cat /work/shared /proc/sys/kernel/hostname; \
         echo set >/data/set; echo tools >/own; chmod 600 /own && echo changed",
    );
    assert_eq!(made.is(0).stdout, "none\nboth\ntools\nchanged\n");
    made.reports("started the container")
        .reports("created the container tools");
    site.is_saved("demo", 2);
    let listed = document("containers", &site.run(&["containers", "demo", "--json"]));
    assert_eq!(listed[0]["container"], "main", "{listed}");
    assert_eq!(listed[1]["container"], "tools", "{listed}");
    assert_eq!(listed[1]["state"], "asleep", "{listed}");
    site.run(&["containers", "demo"])
        .is(0)
        .prints("demo, asleep\n  main   asleep   small.tar ")
        .prints("  tools  asleep   other.tar ");

    // Each is found again without its image, and has what was left in it.
    let tools = session(
        &site,
        "demo/tools",
        &[],
        "cat /own; chmod 644 /own && echo again",
    );
    assert_eq!(tools.is(0).stdout, "tools\nagain\n");
    tools.reports("started the container tools");
    let main = session(
        &site,
        "demo/main",
        &[],
        "cat /own; chmod 644 /own 2>/dev/null || echo no",
    );
    assert_eq!(main.is(0).stdout, "main\nno\n");
    // Where the drive is asleep the files of each are found, and its own mounts.
    for (place, content) in [
        ("demo:/own", "main\n"),
        ("demo/tools:/own", "tools\n"),
        ("demo/tools:/data/set", "set\n"),
        ("demo:sets/set", "set\n"),
    ] {
        assert_eq!(site.run(&["cat", place]).is(0).stdout, content, "{place}");
    }
    site.run(&["cat", "demo:/data/set"]).is(1);
    let here = site.path("own").display().to_string();
    site.run(&["cp", "demo/tools:/own", &here]).is(0);
    assert_eq!(fs::read_to_string(&here).unwrap(), "tools\n");
    site.run(&["ls", "demo/tools:/own"]).is(0).prints("own");
    site.run(&["ls", "demo/other:/own"])
        .is(69)
        .reports("error: demo has no container other; it has main, tools")
        .reports("hint: xdrive --local connect demo/other --image IMAGE makes it");
    // Its second session has changed the permissions of its file; main's has changed nothing.
    let changed = site.run(&["diff", "demo@2/tools", "demo@3/tools", "/own"]);
    assert!(changed.is(0).stdout.starts_with("M  /own"), "{changed:?}");
    let same = site.run(&["diff", "demo@3/tools", "demo@4/tools", "/own"]);
    assert_eq!(same.is(0).stdout, "");
    site.run(&["diff", "demo@1/tools", "demo@2/tools", "/own"])
        .is(69)
        .reports("error: demo has no container tools; it has main");

    // Where the drive has another name both are made again from their own images.
    site.run(&["rename", "demo", "new", "--yes"]).is(0);
    for (place, own) in [("new:/own", "main\n"), ("new/tools:/own", "tools\n")] {
        assert_eq!(site.run(&["cat", place]).is(0).stdout, own, "{place}");
    }
    let renamed = session(
        &site,
        "new/tools",
        &[],
        "cat /own /proc/sys/kernel/hostname",
    );
    assert_eq!(renamed.is(0).stdout, "tools\ntools\n");
    renamed
        .reports("recreated the container from its own image: the drive has another name")
        .reports("recreated the container tools from its own image: the drive has another name");
    assert_eq!(
        session(&site, "new", &[], "cat /own").is(0).stdout,
        "main\n"
    );
    site.has_no_leaks();
}

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
fn a_guest_has_a_container_of_its_own_beside_the_lead() {
    let site = site();
    let other = other_image(&site);
    let lead = leading(&site);
    let script = "echo tools >/own; chmod 600 /own && echo made";
    let guest = session(&site, "demo/tools", &["--image", &other], script);
    assert_eq!(guest.is(0).stdout, "made\n");
    guest
        .reports("joined the session of")
        .reports("created the container tools");
    let again = session(&site, "demo/tools", &[], "cat /own");
    assert_eq!(again.is(0).stdout, "tools\n");
    // OpenSSH finds it by one word.
    configured(&site);
    let own = ran(
        &site,
        &[
            "ssh",
            "demo..tools.xdrive",
            "cat /own; chmod 644 /own && pwd",
        ],
    );
    assert_eq!(own, "tools\n/work\n");
    fs::write(site.path("sent"), "sent\n").unwrap();
    ran(&site, &["scp", "sent", "demo..tools.xdrive:/sent"]);
    let both = "cat /sent 2>/dev/null || echo none";
    assert_eq!(
        session(&site, "demo/tools", &[], both).is(0).stdout,
        "sent\n"
    );
    assert_eq!(session(&site, "demo", &[], both).is(0).stdout, "none\n");
    // So do xdrive's own commands for files.
    let here = site.path("sent").display().to_string();
    let back = site.path("back").display().to_string();
    site.run(&["cp", &here, "demo/tools:/copied"]).is(0);
    site.run(&["cp", "demo/tools:/copied", &back]).is(0);
    assert_eq!(fs::read_to_string(&back).unwrap(), "sent\n");
    let folder = site.path("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a"), "a\n").unwrap();
    let folder = folder.display().to_string();
    site.run(&["sync", &folder, "demo/tools:/folder"]).is(0);
    let cat = site.run(&["cat", "demo/tools:/folder/a", "demo/tools:/own"]);
    assert_eq!(cat.is(0).stdout, "a\ntools\n");
    for absent in ["demo:/copied", "demo:/folder"] {
        site.run(&["ls", absent]).is(1);
    }
    for refused in [
        &["cp", &here, "demo/other:/copied"][..],
        &["sync", &folder, "demo/other:/folder"],
        &["cat", "demo/other:/own"],
    ] {
        site.run(refused)
            .is(69)
            .reports("error: demo has no container other; it has main, tools");
    }
    end(&site, lead);
    site.is_saved("demo", 1);
    // What it has now is compared with what it had.
    let script = "cat /sent && echo now >/new && until [ -e /work/over ]; do sleep 0.1; done; cat /work/over";
    let mut lead = site.start(&["connect", "demo/tools", "--", "sh", "-c", script]);
    lead.prints("sent\n");
    let found = || {
        site.run(&["diff", "demo@1/tools", "demo/tools", "/new"])
            .stdout
    };
    eventually_within(SESSION, found, || found().starts_with("A  /new"));
    site.run(&["cp", &here, "demo:over"]).is(0);
    assert_eq!(lead.end().is(0).stdout, "sent\nsent\n");
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
fn what_names_no_container_is_refused_before_anything_is_launched() {
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
