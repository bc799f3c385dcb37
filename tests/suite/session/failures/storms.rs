//! Throttling: storms that pass, and storms that do not.

use super::{Account, is_xdrive};
use harness::faults::proxy::Fate;

const THROTTLED: Fate = Fate::Refused(503, "RequestLimitExceeded", "Request limit exceeded.");

/// The error of a session whose launch reaches the quota.
const QUOTA: &str = ": RunInstances: VcpuLimitExceeded: no";

#[test]
fn a_storm_that_passes_is_waited_out() {
    let account = Account::new();
    // More often than the SDK itself asks.
    account
        .proxy
        .decide(move |asked| match asked.action.as_str() {
            "GetCallerIdentity" if asked.number <= 4 => THROTTLED,
            // The session has come so far.
            "RunInstances" => Fate::Refused(400, "VcpuLimitExceeded", "no"),
            _ => Fate::Passed,
        });
    let ended = account.connect(&[]);
    ended
        .is(75)
        .reports("trying again: GetCallerIdentity: RequestLimitExceeded");
    assert!(ended.error().ends_with(QUOTA), "{}", ended.error());
    account.is_bare();
}

#[test]
fn a_storm_at_every_call_is_waited_out() {
    let name = test_name!(a_storm_at_every_call_is_waited_out);
    if is_xdrive() {
        return;
    }
    let account = Account::new();
    // The first calls of each action, more of them than the SDK makes in a row.
    account
        .proxy
        .decide(move |asked| match asked.action.as_str() {
            _ if asked.number <= 4 => THROTTLED,
            "RunInstances" => Fate::Refused(400, "VcpuLimitExceeded", "no"),
            _ => Fate::Passed,
        });
    let ended = account.hurried(name, &[]);
    assert!(ended.is(75).error().ends_with(QUOTA), "{}", ended.error());
    account.is_bare();
}

#[test]
fn a_storm_without_end_is_given_up_with_a_hint() {
    let name = test_name!(a_storm_without_end_is_given_up_with_a_hint);
    if is_xdrive() {
        return;
    }
    let account = Account::new();
    account.proxy.decide(|asked| match asked.action.as_str() {
        "GetCallerIdentity" => Fate::Passed,
        _ => THROTTLED,
    });
    let ended = account.hurried(name, &[]);
    ended
        .is(75)
        .reports("hint: too many calls at once: try again in a minute");
    let error = "DescribeInstances: RequestLimitExceeded: Request limit exceeded.";
    assert_eq!(ended.error(), error);
    account.is_untouched();
}

#[test]
fn a_storm_that_comes_after_the_launch_leaves_nothing_unreported() {
    let name = test_name!(a_storm_that_comes_after_the_launch_leaves_nothing_unreported);
    if is_xdrive() {
        return;
    }
    let account = Account::new();
    let mut launched = false;
    account.proxy.decide(move |asked| {
        let fate = if launched { THROTTLED } else { Fate::Passed };
        launched |= asked.action == "RunInstances";
        fate
    });
    let ended = account.hurried(name, &[]);
    ended
        .is(75)
        .reports("hint: too many calls at once: try again in a minute")
        .reports("xdrive stop demo finishes what is left")
        .reports("left: instance i-");
    assert!(ended.error().contains("RequestLimitExceeded"));
    account.proxy.decide(|_| Fate::Passed);
    account.stops(name);
    account.is_bare();
}
