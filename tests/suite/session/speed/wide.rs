//! Variants of `speed`, which `shell/test.sh --all` runs.

use std::time::Instant;

use super::{has, volumes};
use crate::session::site::{SESSION, Site};

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_is_as_fast_as_it_was_asked_for_from_any_laptop() {
    let site = Site::new();
    let image = site.image();
    let flags = ["--image", &image, "--throughput", "300", "--iops", "4000"];
    let volume = volumes(&site, &flags);
    assert!(
        has(&volume, "throughput", 300) && has(&volume, "iops", 4000),
        "{volume}"
    );
    let other = site.other_laptop();
    let volume = volumes(&other, &["--warm", "200"]);
    assert!(
        has(&volume, "throughput", 300) && has(&volume, "iops", 4000),
        "{volume}"
    );
    assert!(has(&volume, "volumeInitializationRate", 200), "{volume}");
    let volume = volumes(&site, &["--throughput", "125"]);
    assert!(
        !has(&volume, "throughput", 300) && has(&volume, "iops", 4000),
        "{volume}"
    );
    assert!(has(&volume, "volumeInitializationRate", 200), "{volume}");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn bought_speed_is_part_of_the_cost_of_a_session() {
    let site = Site::new();
    let image = site.image();
    let flags = ["--image", &image, "--throughput", "300", "--iops", "4000"];
    let mut pty = site.in_terminal(&[&["connect", "demo"], &flags[..]].concat());
    pty.see_within(SESSION, "plus about $0.026 an hour for address and disks");
    pty.see_within(SESSION, "# ");
    // $0.64 for 8 GiB, $7.00 for 175 MiB/s, $5.00 for 1000 operations a second.
    let month = "the drive: about $12.64 a month while it is a volume";
    let end = Instant::now() + SESSION;
    while !pty.contents().contains(month) {
        assert!(Instant::now() < end, "{}", pty.contents());
        // It is read in parallel with the shell.
        pty.type_in("~$");
        pty.see("spot, 0 h ");
        pty.type_in("\r");
    }
    pty.see("an hour, plus about $0.026 an hour for address and disks");
    pty.type_in("exit\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());

    // From another laptop, without flags for it.
    let other = site.other_laptop();
    let dry = other.run(&["connect", "demo", "--dry-run"]);
    dry.is(0)
        .prints("each plus about $0.026 an hour for address and disks");
    let mut pty = other.in_terminal(&["connect", "demo", "--throughput", "125"]);
    pty.see_within(SESSION, "plus about $0.016 an hour for address and disks");
    pty.see_within(SESSION, "# ");
    pty.type_in("exit\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    site.is_saved("demo", 2);
}
