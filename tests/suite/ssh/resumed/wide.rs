//! Variants of `resumed`, which `shell/test.sh --all` runs.

use super::{NUMBERED, between_two_links, end, numbers, see};
use crate::ssh::client::report;
use harness::sshd::Sshd;

#[test]
#[ignore = "needs root and sshd"]
fn a_link_that_dies_silently_is_as_good_as_a_cut() {
    let sshd = Sshd::start();
    let command = format!("sleep 1; {NUMBERED}");
    let (mut client, first, second) = between_two_links(&sshd, &command, 64 << 20);
    let mut errors = client.0.stderr.take().unwrap();
    see(&mut errors, "e0\ne1\ne2\n");
    first.die();
    second.revive();
    let printed = end(client, errors);
    assert_eq!(report(&sshd), "Status(7) 7");
    assert!(
        printed.output.starts_with(&numbers("")),
        "{}",
        printed.output
    );
    assert_eq!(format!("e0\ne1\ne2\n{}", printed.errors), numbers("e"));
}
