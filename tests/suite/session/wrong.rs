//! Sessions that fail before their shell: clear errors, nothing left, and an unchanged drive.

use super::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_image_that_cannot_be_used_is_refused_and_the_drive_goes_on() {
    let site = Site::new();
    let no_archive = site.path("no-archive.tar");
    std::fs::write(&no_archive, "not a tar").unwrap();
    let no_archive = no_archive.to_str().unwrap();
    let connect = |image: &str| site.run(&["connect", "demo", "--image", image, "--", "true"]);
    // On a drive without a container, and on one with it.
    connect(no_archive)
        .is(69)
        .reports("error: this is not an image archive")
        .reports("hint: --image names another one");
    site.is_saved("demo", 1);
    site.session("demo", &["sh", "-c", "echo kept >/root-note"])
        .is(0);
    connect("127.0.0.1:9/nothing:here")
        .is(69)
        .reports("error: the instance does not reach the registry 127.0.0.1:9\n  caused by: ");
    connect(no_archive).is(69);
    let after = site.run(&["connect", "demo", "--", "cat", "/root-note"]);
    assert_eq!(after.is(0).stdout, "kept\n");
    site.is_saved("demo", 5);

    site.run(&["connect", "demo", "--size", "4", "--", "true"])
        .is(2)
        .reports("demo has 8 GiB, and a drive cannot shrink to 4 GiB");
    site.is_saved("demo", 5);
}

#[test]
#[ignore = "needs root (namespaces, loop devices)"]
fn without_a_machine_tree_nothing_is_launched_and_what_to_do_is_reported() {
    let site = Site::new();
    let image = site.image();
    let mut command = site.command(&["connect", "demo", "--image", &image, "--", "true"]);
    let output = command
        .env("XDRIVE_CACHE", site.path("empty"))
        .output()
        .unwrap();
    let report = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{report}");
    assert!(
        report.contains("hint: xdrive local setup builds it"),
        "{report}"
    );
    assert!(!report.contains("launch"), "{report}");
    site.is_saved("demo", 0);
}
