//! Sessions on a type with a stand-in for a GPU: there is no GPU here, and no test is of one.

mod wide;

use super::site::{Ended, Site};
use super::tree::inside;

/// A site with this stand-in for types with a GPU.
fn site(settings: &str) -> Site {
    Site::with_settings(&format!("[gpu]\n{settings}\n"))
}

fn on(site: &Site, kind: &str, command: &[&str]) -> Ended {
    let image = site.image();
    let arguments = ["connect", "demo", "--image", &image, "--type", kind, "--"];
    site.run(&[&arguments, command].concat())
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_waits_for_a_stand_in_whose_driver_comes_late() {
    const WAIT: &str = "echo there; until [ -e /work/end ]; do sleep 0.05; done; rm /work/end";
    let site = site("driver = \"late\"\nseconds = 5");
    // Made on a type without a GPU, used on one with.
    let ended = on(&site, "t3.medium", &["sh", "-c", "echo kept >/note"]);
    assert!(!ended.is(0).stderr.contains("NVIDIA"), "{}", ended.stderr);
    let command = [
        "sh",
        "-c",
        &format!("test -s /usr/bin/nvidia-smi && echo driver >/driver; {WAIT}"),
    ];
    let arguments = ["connect", "demo", "--type", "g4dn.xlarge", "--"];
    let mut running = site.start(&[&arguments[..], &command].concat());
    running.prints("there\n");
    let asked = inside(&site, "cat /run/gpu-stand-in/asked");
    assert!(asked.contains("NVIDIA_VISIBLE_DEVICES=all"), "{asked}");
    inside(&site, "touch /v1/work/end");
    running
        .end()
        .is(0)
        .reports("the NVIDIA driver is ready: stand-in, no GPU")
        .reports("GPUs: none before, all now");
    // What the driver's files were mounted over is not in the image.
    let look = "cat /note /driver; test -e /usr/bin/nvidia-smi || echo gone";
    let ended = on(&site, "t3.medium", &["sh", "-c", look]);
    assert_eq!(ended.is(0).stdout, "kept\ndriver\ngone\n");
    site.is_saved("demo", 3);
}
