//! Variants of `volume`, which `shell/test.sh --all` runs.

use super::{end, working};
use crate::session::site::Site;
use crate::session::tree::inside;

/// The name of the drive's disk on the only instance.
fn disk(site: &Site) -> String {
    inside(site, "findmnt -n -o SOURCE /v1")
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_moves_to_a_xen_type_without_serial_numbers_and_back() {
    let site = Site::new();
    let running = working(&site, "t2.medium", "echo first > /work/note");
    assert_eq!(disk(&site), "/dev/xvdf\n");
    let by_id = inside(&site, "ls /dev/disk/by-id; ls /dev | grep -c nvme || true");
    assert_eq!(by_id, "0\n");
    assert_eq!(end(&site, running), "there\n");
    site.is_saved("demo", 1);

    let running = working(
        &site,
        "t3.medium",
        "cat /work/note; echo second > /work/note",
    );
    assert_eq!(disk(&site), "/dev/nvme1n1\n");
    assert_eq!(end(&site, running), "first\nthere\n");
    site.is_saved("demo", 2);

    let running = working(&site, "t2.large", "cat /work/note");
    assert_eq!(disk(&site), "/dev/xvdf\n");
    assert_eq!(end(&site, running), "second\nthere\n");
    site.is_saved("demo", 3);
}
