//! Variants of `images`, which `shell/test.sh --all` runs.

use std::fs;

use super::{READ, WRITE, goes_and_comes_back};
use crate::session::site::Site;
use harness::image_with;

/// A folder with this Dockerfile and these files, as `--image` takes it.
fn folder(site: &Site, dockerfile: &str, files: &[(&str, Vec<u8>)]) -> String {
    let folder = site.path("made");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("Dockerfile"), dockerfile).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    folder.into_os_string().into_string().unwrap()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_image_whose_user_is_not_root() {
    let site = Site::new();
    let dockerfile = "FROM scratch\nADD root.tar /\nUSER 1000:1000\nWORKDIR /tmp\n";
    let image = folder(&site, dockerfile, &[("root.tar", image_with(&[]))]);
    goes_and_comes_back(&site, Some(&image), "1000");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_configured_image_is_that_of_new_drives_alone() {
    let site = Site::with_a_drive();
    let other = site.path("other.tar");
    fs::write(&other, image_with(&["chmod"])).unwrap();
    site.run(&["connect", "demo", "--", "sh", "-c", "echo own >/own"])
        .is(0);
    site.configure(&format!("image = \"{}\"\n", other.display()));
    let back = site.run(&["connect", "demo", "--", "cat", "/own"]);
    assert_eq!(back.is(0).stdout, "own\n");
    back.reports("started the container");
    let new = site.run(&["connect", "new", "--", "sh", "-c", "command -v chmod"]);
    new.is(0).reports("created the container");
    // It travels with the drive: the configuration may have another one by then.
    site.configure(&format!("image = \"{}\"\n", site.image()));
    let again = site.run(&["connect", "new", "--", "sh", "-c", "command -v chmod"]);
    again.is(0).reports("started the container");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_image_whose_own_command_ends_at_once() {
    let site = Site::new();
    let dockerfile = "FROM scratch\nADD root.tar /\nENTRYPOINT [\"/bin/false\"]\nCMD [\"x\"]\n";
    let image = folder(&site, dockerfile, &[("root.tar", image_with(&["false"]))]);
    goes_and_comes_back(&site, Some(&image), "0");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_image_without_a_shell_is_refused_and_the_drive_takes_another() {
    let site = Site::new();
    let program = fs::read("/bin/cat").unwrap();
    let dockerfile = "FROM scratch\nCOPY cat /bin/cat\nCMD [\"/bin/cat\"]\n";
    let image = folder(&site, dockerfile, &[("cat", program)]);
    site.run(&["connect", "demo", "--image", &image, "--", "/bin/cat"])
        .is(69)
        .reports("error: the image has no shell (sh), and a drive without one cannot be worked on")
        .reports("hint: --image names another one");
    site.is_saved("demo", 1);
    // Where there is no container, nothing is copied either.
    fs::write(site.path("file"), "text").unwrap();
    let copied = site.run(&["cp", "file", "demo:/work/file"]);
    copied.is(69).reports("demo is not up");
    let other = site.image();
    let session = ["connect", "demo", "--image", &other, "--", "sh", "-c"];
    let made = site.run(&[&session[..], &[WRITE]].concat());
    assert_eq!(made.is(0).stdout, "0\n");
    let back = site.run(&["connect", "demo", "--", "sh", "-c", READ]);
    assert_eq!(back.is(0).stdout, "layer\nwork\n0\n");
    site.is_saved("demo", 3);
}
