//! Sessions on a type with a stand-in for a GPU: there is no GPU here, and no test is of one.

use super::site::{Ended, SESSION, Site};
use super::terminal::ends;
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

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_whose_stand_in_has_no_driver_is_saved_and_says_what_helps() {
    for (settings, why) in [
        ("driver = \"never\"", "did not answer within 30 s"),
        ("driver = \"failed\"", "cannot be built for this kernel"),
        ("toolkit = false", "could not select device driver"),
    ] {
        let site = site(settings);
        on(&site, "g4dn.xlarge", &["true"])
            .is(69)
            .reports("error: ")
            .reports(why)
            .reports("hint: nothing is lost")
            .reports("demo is saved: its snapshot (snap-");
        site.is_saved("demo", 1);
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_type_with_a_gpu_whose_stand_in_is_not_on_the_bus_is_refused() {
    let site = site("on-bus = false");
    on(&site, "g4dn.xlarge", &["true"])
        .is(69)
        .reports("is a g4dn.xlarge, which has an NVIDIA GPU, and its system sees none on its bus")
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_terminal_shows_that_a_stand_ins_driver_is_waited_for_and_ctrl_c_ends_that() {
    let site = site("driver = \"never\"");
    let image = site.image();
    let arguments = [
        "connect",
        "demo",
        "--image",
        &image,
        "--type",
        "g4dn.xlarge",
    ];
    let mut pty = site.in_terminal(&arguments);
    pty.see_within(SESSION, "wait for the NVIDIA driver");
    pty.type_in("\x03");
    ends(pty, &site, 130, 1);
}
