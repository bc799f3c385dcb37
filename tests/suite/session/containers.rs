//! Several containers on one drive.

mod wide;

use std::fs;

use super::json::document;
use super::openssh::{configured, end, ran};
use super::site::{Ended, Running, SESSION, Site};
use harness::{eventually_within, image_with};

/// A site whose drives' main containers are made from the small image.
fn site() -> Site {
    let site = Site::new();
    site.configure(&format!(
        "image = \"{}\"\nno_jupyter = true\n",
        site.image()
    ));
    site
}

/// Makes another image, which has `chmod`.
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
