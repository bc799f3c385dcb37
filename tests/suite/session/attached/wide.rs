//! Variants of `attached`, which `shell/test.sh --all` runs.

use std::time::Duration;

use super::{LEASE, Scripts, end, working};
use crate::session::site::Site;

/// How long the host is silent: longer than the limit of a contact, and than the lease.
const STALL: Duration = Duration::from_secs(30);

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_that_answers_half_a_minute_late_keeps_its_session_and_its_lease() {
    let site = Site::with_a_drive();
    let mut running = working(&site);
    let scripts = Scripts::wrap(&site);
    let stall = scripts.stall();
    std::thread::sleep(STALL);
    drop(stall);
    running.reports("took a checkpoint: demo's snapshot (snap-");
    // Only the lease could end it now.
    std::thread::sleep(2 * LEASE);
    end(&site);
    let ended = running.end();
    ended.is(5).reports("demo is saved: its snapshot (snap-");
    assert!(!ended.stderr.contains("not attached"), "{}", ended.stderr);
    site.has_no_leaks();
}
