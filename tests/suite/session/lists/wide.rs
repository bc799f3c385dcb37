//! Variants of `lists`, which `shell/test.sh --all` runs.

use rustix::process::Signal;

use crate::session::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn two_drives_are_used_at_once() {
    let site = Site::new();
    let image = site.image();
    let script = "echo begun; sleep 1000";
    let start = |drive: &str| {
        let arguments = [
            "connect", drive, "--image", &image, "--", "sh", "-c", script,
        ];
        let mut session = site.start(&arguments);
        session.prints("begun\n");
        session
    };
    let sessions = [start("one"), start("two")];
    for session in sessions {
        session.signal(Signal::TERM);
        session.end().is(143);
    }
    site.is_saved("one", 1);
    site.is_saved("two", 1);
}
