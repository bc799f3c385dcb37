//! Variants of `boto`, which `shell/test.sh --all` runs.

use super::live;
use crate::session::served::ServedSite;
use harness::leaks;

#[test]
#[ignore = "needs python3 with boto3, root (namespaces, loop devices) and the machine tree"]
fn boto3_lives_it_with_real_machines_and_disks_and_leaves_none() {
    let mut served = ServedSite::real("");
    live(&mut served);
    assert_eq!(leaks(&served.site.dir()), [""; 0]);
}
