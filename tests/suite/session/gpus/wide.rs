//! Variants of `gpus`, which `shell/test.sh --all` runs.

use super::{on, site};
use crate::session::site::SESSION;
use crate::session::terminal::ends;

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
