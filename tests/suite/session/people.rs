//! People who share a role, as all with one permission set of IAM Identity Center do.

mod wide;

use super::simulated::{dry_run, with_snapshot, with_volume};
use super::site::Site;

const ROLE: &str = "arn:aws:sts::000000000000:assumed-role/AWSReservedSSO_Dev_0123456789abcdef";

/// From now on `person` is the caller, with the permission set that all have here.
pub(super) fn calls(site: &Site, plane: &str, person: &str) {
    site.set(&format!(
        "plane = \"{plane}\"\ncaller = \"{ROLE}/{person}\"\n"
    ));
}

#[test]
fn a_drive_of_a_colleague_with_the_same_permission_set_needs_shared() {
    let site = Site::new();
    calls(&site, "paper", "ada@example.com");
    let hers = format!("{ROLE}/ada@example.com");
    with_snapshot(&site, &[("xdrive:owner", &hers)]);
    dry_run(&site, &[]).is(0).prints("launches the first");
    site.run(&["doctor"]).prints(&hers);

    calls(&site, "paper", "bob@example.com");
    let his = format!("{ROLE}/bob@example.com");
    for refused in [dry_run(&site, &[]), site.run(&["stop", "demo"])] {
        refused
            .is(77)
            .reports(&format!("error: demo is {hers}'s, and you are {his}"))
            .reports("hint: --shared uses it all the same");
    }
    dry_run(&site, &["--shared"]).is(0);
    let gc = site.run(&["gc"]);
    gc.is(0).prints("nothing is left of any drive of yours");
}

#[test]
fn a_drive_that_has_the_role_alone_is_taken_with_a_word() {
    let site = Site::new();
    calls(&site, "paper", "ada@example.com");
    with_snapshot(&site, &[("xdrive:owner", ROLE)]);
    let words = format!("demo is {ROLE}'s, a role without a person's name: taken for yours");
    dry_run(&site, &[]).is(0).reports(&words);
    site.run(&["stop", "demo"]).is(0).reports(&words);
    // Old saves are deleted only by their known owner.
    with_snapshot(&site, &[("xdrive:owner", ROLE), ("xdrive:generation", "2")]);
    let gc = site.run(&["gc", "--keep-last", "1"]);
    gc.is(0).prints("demo: saved");
    assert_eq!(site.kinds("demo"), ["snapshot"; 2]);
    // A colleague has used it since.
    let his = format!("{ROLE}/bob@example.com");
    let tags = [("xdrive:owner", &*his), ("xdrive:generation", "3")];
    with_volume(&site, "us-east-1a", &tags);
    dry_run(&site, &[]).is(77).reports("error: demo is ");
    let gc = site.run(&["gc"]);
    gc.is(0).prints("nothing is left of any drive of yours");
}
