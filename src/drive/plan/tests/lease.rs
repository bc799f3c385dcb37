//! Hosts under a lease, and under more than one client.

use std::time::Duration;

use super::fixtures::*;
use crate::drive::hosts::{Client, Contact, HostView};
use crate::drive::observed::{Observed, SeenInstance, SeenLease};
use crate::drive::plan::{Goal, Next, Waiting};
use crate::host::Mounted;

#[test]
fn a_silent_host_that_holds_the_drive_is_waited_for_until_its_lease_is_long_past() {
    let until = jiff::Timestamp::UNIX_EPOCH;
    let silent = |off_by| Observed {
        instances: vec![SeenInstance {
            contact: Contact::Unreachable,
            since: at(0),
            lease: Some(SeenLease {
                until,
                off_by: at(off_by),
            }),
            ..others(1)
        }],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    };
    for next in [ready, saved] {
        assert_eq!(
            next(&silent(NOW + 700)),
            Next::Wait(Waiting::Lease(id(1), until), Duration::from_secs(700))
        );
        assert_eq!(
            words(&next(&silent(NOW))),
            "read the console of i-1; terminate i-1"
        );
    }
}

#[test]
fn a_lease_that_is_past_allows_nothing_while_the_host_answers() {
    let answering = SeenInstance {
        contact: answers(somebody(), false, Mounted::Volume(vol(1))),
        lease: Some(SeenLease {
            until: jiff::Timestamp::UNIX_EPOCH,
            off_by: at(0),
        }),
        ..others(1)
    };
    let seen = Observed {
        instances: vec![answering],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    };
    assert_eq!(ready(&seen), Next::Busy(id(1)));
    assert_eq!(saved(&seen), Next::Busy(id(1)));
}

#[test]
fn the_drive_is_not_closed_under_those_who_joined() {
    let joined = SeenInstance {
        contact: Contact::Reached(HostView {
            client: Client::Me,
            guests: 1,
            closing: false,
            noticed: false,
            mounted: Mounted::Volume(vol(1)),
            unmounted: None,
        }),
        ..host(1)
    };
    let seen = Observed {
        instances: vec![joined],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    };
    assert_eq!(saved(&seen), Next::Busy(id(1)));
    let forced = next(&Goal::Saved { even_if_used: true }, &seen);
    assert_eq!(words(&forced), "close the drive on i-1");
}

#[test]
fn a_host_that_does_not_let_this_laptop_in_is_in_use_until_its_lease_is_long_past() {
    let refused = |off_by| Observed {
        instances: vec![SeenInstance {
            contact: Contact::KeyRefused,
            since: at(0),
            lease: Some(SeenLease {
                until: jiff::Timestamp::UNIX_EPOCH,
                off_by: at(off_by),
            }),
            ..others(1)
        }],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    };
    for next in [ready, saved] {
        assert_eq!(next(&refused(NOW + 700)), Next::Busy(id(1)));
        assert_eq!(
            words(&next(&refused(NOW))),
            "read the console of i-1; terminate i-1"
        );
    }
}
