//! Folders of the drive that are mounted into its container, and Docker's socket in it.

mod wide;

use super::site::{Ended, Site};

/// Runs `script` in a session with these flags.
fn session(site: &Site, flags: &[&str], script: &str) -> Ended {
    let command = ["--", "sh", "-c", script];
    site.run(&[&["connect", "demo"], flags, &command].concat())
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_mount_is_kept_on_the_next_instance_until_others_are_given() {
    let site = Site::new();
    let image = site.image();
    let odd = "/work/a b'\",c:/srv/it's, \"odd\"";
    let flags = [
        "--image",
        &image,
        "--mount",
        "sets/one:/data",
        "--mount",
        odd,
    ];
    let write = "echo layer >/own; echo one >/data/file; echo two >\"/srv/it's, \\\"odd\\\"/file\"";
    session(&site, &flags, write)
        .is(0)
        .reports("created the container");
    let read = "cat /own /data/file \"/srv/it's, \\\"odd\\\"/file\" /work/sets/one/file";
    let kept = session(&site, &[], read);
    assert_eq!(kept.is(0).stdout, "layer\none\ntwo\none\n");
    kept.reports("started the container");
    site.is_saved("demo", 2);
    // Nor does it take an instance to find what is there.
    let asleep = site.run(&["cat", "demo:/data/file"]);
    assert_eq!(asleep.is(0).stdout, "one\n");
    let asleep = site.run(&["cat", "demo:/srv/it's, \"odd\"/../it's, \"odd\"/file"]);
    assert_eq!(asleep.is(0).stdout, "two\n");

    // Others replace them, and the container's own layer stays.
    let flags = ["--mount", "sets/one:/other:ro"];
    let script = "cat /own /other/file; echo x 2>/dev/null >/other/file || echo refused; ls /data 2>/dev/null; :";
    let changed = session(&site, &flags, script);
    assert_eq!(changed.is(0).stdout, "layer\none\nrefused\n");
    changed.reports("recreated the container from its own image: its mounts changed");

    // The flags outrank the configuration, and that what the container has.
    site.configure("mount = [\"sets:/sets\"]\n");
    let configured = session(&site, &[], "cat /own /sets/one/file; ls /other; :");
    assert_eq!(configured.is(0).stdout, "layer\none\n");
    let cleared = session(&site, &["--no-mounts"], "cat /own; ls /sets; :");
    assert_eq!(cleared.is(0).stdout, "layer\n");
}

#[test]
fn invalid_mounts_are_refused_before_anything_is_launched() {
    let site = Site::new();
    for (mount, why) in [
        ("data", "it is not HOST:CONTAINER"),
        ("../x:/data", "has `..`"),
        ("/etc:/data", "is no folder of the drive"),
        ("data:/proc/x", "cannot be replaced"),
        ("a\nb:/data", "control character"),
    ] {
        site.run(&["connect", "demo", "--mount", mount, "--", "true"])
            .is(2)
            .reports(why);
    }
    let twice = ["--mount", "a:/x", "--mount", "b:/x", "--", "true"];
    site.run(&[&["connect", "demo"], &twice[..]].concat())
        .is(2)
        .reports("two mounts are to be /x in the container");
    site.configure("mount = \"/etc:/data\"\n");
    site.run(&["connect", "demo", "--", "true"])
        .is(78)
        .reports("is no folder of the drive");
}
