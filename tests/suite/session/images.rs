//! Images of different make: each carries its drive from one instance to the next.

mod wide;

use std::process::Command;

use super::site::Site;

/// Writes in the container's own layer and in `/work`, and prints whose the files are.
const WRITE: &str = "echo layer >/tmp/note && echo work >/work/note && id -u";

/// Prints what was written, and the user.
const READ: &str = "cat /tmp/note /work/note && id -u";

/// A root file system that is busybox alone, as an archive.
fn busybox(site: &Site) -> String {
    let tar = site.path("busybox.tar");
    let script = "cd \"$(mktemp -d)\" && mkdir bin tmp && chmod 1777 tmp && \
                  cp \"$(command -v busybox)\" bin/busybox && \
                  for name in $(busybox --list | grep -vx busybox); do ln -s busybox bin/\"$name\"; done && \
                  tar -cf \"$1\" . && rm -r \"$PWD\"";
    let made = Command::new("sh")
        .args(["-c", script, "sh", tar.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    tar.into_os_string().into_string().unwrap()
}

/// Makes a drive of an image, or of the default one; writes in it, and comes back to that on another
/// instance, as the same `user`.
fn goes_and_comes_back(site: &Site, image: Option<&str>, user: &str) {
    let image = image.map_or_else(Vec::new, |image| vec!["--image", image]);
    let made = site.run(&[&["connect", "demo"][..], &image, &["--", "sh", "-c", WRITE]].concat());
    assert_eq!(made.is(0).stdout, format!("{user}\n"));
    made.reports("created the container");
    site.is_saved("demo", 1);
    let back = site.run(&["connect", "demo", "--", "sh", "-c", READ]);
    assert_eq!(back.is(0).stdout, format!("layer\nwork\n{user}\n"));
    back.reports("started the container");
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and busybox"]
fn busybox_alone_is_enough() {
    let site = Site::new();
    let image = busybox(&site);
    goes_and_comes_back(&site, Some(&image), "0");
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and the Jupyter image"]
fn the_default_image_with_jupyter() {
    goes_and_comes_back(&Site::new(), None, "0");
}
