//! Variants of `rights`, which `shell/test.sh --all` runs.

use super::DENIED;
use crate::session::failures::{Account, is_xdrive};
use harness::faults::proxy::Fate;

#[test]
#[ignore = "needs root, and a machine tree"]
fn a_host_whose_tag_cannot_be_written_keeps_both_its_keys_and_is_used_all_the_same() {
    let name =
        test_name!(a_host_whose_tag_cannot_be_written_keeps_both_its_keys_and_is_used_all_the_same);
    if is_xdrive() {
        return;
    }
    let account = Account::with_machines("");
    account.proxy.decide(|asked| {
        let names = |(name, value): (&String, &String)| {
            name.starts_with("Tag.") && value == "xdrive:host-key"
        };
        match asked.action.as_str() {
            "CreateTags" if asked.params.iter().any(names) => DENIED,
            _ => Fate::Passed,
        }
    });
    account
        .hurried(name, &[])
        .is(0)
        .reports(
            " keeps the SSH host key that is in its user data, until it is claimed again: CreateTags: \
             UnauthorizedOperation",
        )
        .reports("demo is saved: ");
    account.proxy.decide(|_| Fate::Passed);
    let ended = account.hurried(name, &[]);
    ended.is(0).reports("demo is saved: ");
    assert!(!ended.stderr.contains("SSH host key"), "{}", ended.stderr);
}
