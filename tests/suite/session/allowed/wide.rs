//! Variants of `allowed`, which `shell/test.sh --all` runs.

use std::collections::BTreeSet;

use xdrive::ec2::calls::{CALLS, Right, SHARES};

use super::ADA;
use crate::session::elastic::allocated;
use crate::session::simulated::{calls, traced};
use crate::session::site::{Ended, Site};

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_printed_policy_is_enough_for_whole_sessions_and_every_call_is_made_under_it() {
    let site = Site::new();
    let (id, _) = allocated(&site);
    let printed = site.run(&["policy", "--own", "--address"]);
    let printed = printed.is(0).stdout.clone();
    site.allow(&printed, ADA, "");
    let mut made = BTreeSet::new();
    let image = site.image();
    let mut does = |words: &[&str]| -> Ended {
        let ended = traced(&site, words);
        made.extend(calls(&ended));
        ended
    };
    let session = ["connect", "demo", "--image", &image, "--ingress", "8443"];
    let reached = ["--address", &id, "--", "sh", "-c", "echo one >/work/one"];
    does(&[&session[..], &reached].concat())
        .is(0)
        .reports("has the address");
    // The second restores from a snapshot, under a note and a checkpoint.
    let again = ["-m", "more", "--checkpoint", "15s", "--", "sleep", "20"];
    does(&[&["connect", "demo"], &again[..]].concat()).is(0);
    does(&["connect", "demo", "--discard", "--yes", "--", "true"]).is(0);
    does(&["run", "demo", "-d", "--", "sleep", "600"]).is(0);
    does(&["resize", "demo", "20"])
        .is(0)
        .reports("demo has 20 GiB");
    does(&["stop", "demo"]).is(0);
    does(&["cat", "demo:one"]).is(0).prints("one");
    does(&["diff", "demo@1", "demo@2"]).is(0);
    does(&["fork", "demo", "trial"]).is(0);
    does(&["rename", "trial", "other"]).is(0);
    does(&["connect", "demo@1", "--", "true"]).is(0);
    does(&["gc", "--keep-last", "1"]).is(0);
    does(&["delete", "other", "--yes"]).is(0);
    does(&["doctor"]);
    let missing: Vec<&str> = CALLS
        .iter()
        .filter(|call| !matches!(call.right, Right::Free | Right::Read) && call.service != SHARES)
        .map(|call| call.name)
        .filter(|name| !made.contains(*name))
        .collect();
    // Of a rule that is a day old, of a second laptop's, of a host that fails, and of a disk that was attached by
    // hand.
    let rare = [
        "DetachVolume",
        "GetConsoleOutput",
        "RevokeSecurityGroupIngress",
        "SendSSHPublicKey",
        "UpdateSecurityGroupRuleDescriptionsIngress",
    ];
    for name in missing {
        assert!(rare.contains(&name), "{name} was never made");
    }
}
