//! Ledgers of drives as EC2 could list them.

mod oracle;

use super::*;
use crate::ec2::{
    Attachment, Instance, InstanceState, Market, Price, PriceChange, SnapshotState, SpotPrice,
    Tags, Volume, VolumeState, Zone,
};

/// The type and zones of the lives here.
const KIND: &str = "g5.xlarge";
const A: &str = "us-east-1a";
const B: &str = "us-east-1b";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn price(text: &str) -> Price {
    text.parse().unwrap()
}

/// A period of November 2026, from the `first` day on.
fn since(first: &str, now: &str) -> Period {
    Period {
        start: at(&format!("2026-11-{first}T00:00:00Z")),
        end: at(now),
    }
}

/// Prices of spot: a dollar an hour in one zone, and in the other two dollars until noon of the second, then three.
fn prices() -> Prices {
    let mut prices = Prices::default();
    let change = |zone: &str, since: &str, text: &str| PriceChange {
        to: SpotPrice {
            instance_type: KIND.to_owned(),
            zone: Zone(zone.to_owned()),
            zone_id: None,
            price: price(text),
        },
        since: at(since),
    };
    prices.add(vec![
        change(A, "2026-11-01T00:00:00Z", "1"),
        change(B, "2026-11-01T00:00:00Z", "2"),
        change(B, "2026-11-02T12:00:00Z", "3"),
    ]);
    prices
}

/// The record of an instance.
fn record(host: &str, since: &str) -> Tags {
    Tags::from([
        ("xdrive:host".to_owned(), host.to_owned()),
        ("xdrive:since".to_owned(), since.to_owned()),
    ])
}

fn spot(zone: &str, since: &str) -> Tags {
    record(&format!("{KIND} spot in {zone}"), since)
}

/// A completed snapshot of 100 GiB, 10 of them used.
fn snapshot(generation: u64, kind: &str, taken: &str, more: Tags) -> Snapshot {
    let own = [
        ("xdrive:drive", "demo"),
        ("xdrive:generation", &generation.to_string()),
        ("xdrive:kind", kind),
        ("xdrive:op", "op"),
    ];
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Snapshot {
        id: "snap-1".parse().unwrap(),
        state: SnapshotState::Completed,
        volume: Some(format!("vol-{generation}").parse().unwrap()),
        size: 100,
        full_size: Some(10 << 30),
        started: at(taken),
        message: String::new(),
        tags: own.into_iter().chain(more).collect(),
    }
}

/// A volume of 100 GiB that has been raised to this generation.
fn volume(generation: u64, created: &str, more: Tags) -> Volume {
    let own = [
        ("xdrive:drive", "demo"),
        ("xdrive:base", "0"),
        ("xdrive:generation", &generation.to_string()),
    ];
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Volume {
        id: format!("vol-{generation}").parse().unwrap(),
        state: VolumeState::InUse,
        zone: Zone(A.to_owned()),
        size: 100,
        created: at(created),
        snapshot: None,
        attachment: None::<Attachment>,
        tags: own.into_iter().chain(more).collect(),
    }
}

fn instance(state: InstanceState, launched: &str) -> Instance {
    Instance {
        id: "i-1".parse().unwrap(),
        state,
        zone: Zone(A.to_owned()),
        subnet: None,
        instance_type: KIND.to_owned(),
        arch: None,
        market: Market::Spot,
        address: None,
        private: None,
        ipv6: None,
        launched: at(launched),
        image: String::new(),
        mappings: Vec::new(),
        groups: Vec::new(),
        ended: None,
        has_role: false,
        has_public: true,
        tags: Tags::new(),
    }
}

fn saved(snapshots: Vec<Snapshot>) -> Parts {
    Parts {
        snapshots,
        ..Parts::default()
    }
}

fn ledger(parts: &Parts, period: Period) -> Ledger {
    let history = parts.history(period.start, period.end);
    Ledger::new(history, &parts.snapshots, &prices(), period)
}

#[track_caller]
fn is(bounds: Bounds, least: f64, most: f64) {
    let is_close = |one: f64, other: f64| (one - other).abs() < 1e-9;
    assert!(
        is_close(bounds.least, least) && is_close(bounds.most, most),
        "{bounds:?}, not {least} to {most}"
    );
}

/// The kinds of gaps.
fn gaps(ledger: &Ledger) -> Vec<String> {
    ledger.unknown.iter().map(ToString::to_string).collect()
}

#[test]
fn a_period_begins_at_midnight_and_ends_now() {
    let now = at("2026-11-03T10:00:00Z");
    let period = Period::until(now, Duration::from_hours(24));
    let days: Vec<String> = period
        .days()
        .map(|(day, from, to)| format!("{day} {from} {to}"))
        .collect();
    assert_eq!(
        days,
        [
            "2026-11-02 2026-11-02T00:00:00Z 2026-11-03T00:00:00Z",
            "2026-11-03 2026-11-03T00:00:00Z 2026-11-04T00:00:00Z"
        ]
    );
    assert_eq!(period.first_day().to_string(), "2026-11-02");
}

#[test]
fn a_session_over_midnight_is_split_between_its_days_at_the_prices_of_its_zone() {
    let one = snapshot(
        1,
        "clean",
        "2026-11-02T18:00:00Z",
        spot(B, "2026-11-01T22:00:00Z"),
    );
    let ledger = ledger(&saved(vec![one]), since("01", "2026-11-03T12:00:00Z"));
    let [(_, first), (_, second), (_, third)] = &ledger.days[..] else {
        panic!("{:?}", ledger.days)
    };
    is(first[Kind::Spot], 4.0, 4.0);
    is(second[Kind::Spot], 24.0 + 18.0, 42.0);
    is(third[Kind::Spot], 0.0, 0.0);
    is(first[Kind::Addresses], 0.01, 0.01);
    is(second[Kind::Addresses], 0.09, 0.09);
    // The drive's 100 GiB and the root's 30.
    let disks = 130.0 * 0.08 / 720.0;
    is(first[Kind::Disks], 2.0 * disks, 2.0 * disks);
    is(second[Kind::Disks], 18.0 * disks, 18.0 * disks);
    is(first[Kind::Snapshots], 0.0, 0.0);
    let kept = 10.0 * 0.05 / 720.0;
    is(second[Kind::Snapshots], 6.0 * kept, 6.0 * kept);
    is(third[Kind::Snapshots], 12.0 * kept, 12.0 * kept);
    assert_eq!(gaps(&ledger), [""; 0]);
    assert!(!ledger.sum().is_open);
}

#[test]
fn a_minute_is_billed_as_soon_as_it_is_begun() {
    let launched = "2026-11-01T09:59:40Z";
    let one = snapshot(1, "clean", "2026-11-01T09:59:50Z", spot(A, launched));
    let ledger = ledger(&saved(vec![one]), since("01", "2026-11-01T10:00:00Z"));
    is(ledger.costs()[Kind::Spot], 1.0 / 60.0, 1.0 / 60.0);
    // Of what is kept no more than has passed.
    let kept = 10.0 / 3600.0 * 10.0 * 0.05 / 720.0;
    is(ledger.costs()[Kind::Snapshots], kept, kept);
}

#[test]
fn checkpoints_and_the_save_of_one_instance_are_one_instance() {
    let launched = "2026-11-01T10:00:00Z";
    let of = |kind, taken| snapshot(1, kind, taken, spot(A, launched));
    let all = vec![
        of("checkpoint", "2026-11-01T11:00:00Z"),
        of("clean", "2026-11-01T13:00:00Z"),
        of("checkpoint", "2026-11-01T12:00:00Z"),
    ];
    let period = since("01", "2026-11-02T00:00:00Z");
    let whole = ledger(&saved(all.clone()), period);
    is(whole.costs()[Kind::Spot], 3.0, 3.0);
    is(
        whole.costs()[Kind::Disks],
        3.0 * 130.0 * 0.08 / 720.0,
        3.0 * 130.0 * 0.08 / 720.0,
    );
    // At least one of the three, at most all.
    let kept = 10.0 * 0.05 / 720.0;
    is(
        whole.costs()[Kind::Snapshots],
        13.0 * kept,
        (13.0 + 12.0 + 11.0) * kept,
    );
    let alone = ledger(&saved(vec![all[0].clone(), all[2].clone()]), period);
    is(alone.costs()[Kind::Spot], 2.0, 2.0);
    let words = "only checkpoints are left of generation 1: what came after is not known";
    assert_eq!(gaps(&alone), [words]);
    assert!(alone.sum().is_open);
}

#[test]
fn a_host_that_was_gone_before_its_save_is_counted_between_bounds() {
    let launched = "2026-11-01T10:00:00Z";
    let crashed = snapshot(1, "crashed", "2026-11-01T20:00:00Z", spot(A, launched));
    let point = snapshot(1, "checkpoint", "2026-11-01T12:00:00Z", spot(A, launched));
    let period = since("01", "2026-11-02T00:00:00Z");
    let alone = ledger(&saved(vec![crashed.clone()]), period);
    is(alone.costs()[Kind::Spot], 1.0 / 60.0, 10.0);
    let with_point = saved(vec![crashed, point]);
    let both = ledger(&with_point, period);
    is(both.costs()[Kind::Spot], 2.0, 10.0);
    // Its volume was there until the save, whatever became of the host.
    let (volume, root) = (100.0 * 0.08 / 720.0, 30.0 * 0.08 / 720.0);
    is(
        both.costs()[Kind::Disks],
        10.0 * volume + 2.0 * root,
        10.0 * (volume + root),
    );
    let words =
        "the host of generation 1 was gone before the save, and is counted until that at most";
    assert_eq!(gaps(&both), [words]);
    assert!(!both.sum().is_open);
    // While EC2 lists the instance, it says when that ended.
    let ended = Instance {
        ended: Some(at("2026-11-01T15:00:00Z")),
        ..instance(InstanceState::Terminated, launched)
    };
    let listed = Parts {
        instances: vec![ended],
        ..with_point
    };
    let listed = ledger(&listed, period);
    is(listed.costs()[Kind::Spot], 5.0, 5.0);
    assert_eq!(gaps(&listed), [""; 0]);
}

#[test]
fn a_volume_that_waits_has_a_host_that_may_have_ended_at_any_time() {
    let launched = "2026-11-01T10:00:00Z";
    let parts = Parts {
        volumes: vec![volume(1, launched, spot(A, launched))],
        ..Parts::default()
    };
    let ledger = ledger(&parts, since("01", "2026-11-01T16:00:00Z"));
    is(ledger.costs()[Kind::Spot], 1.0 / 60.0, 6.0);
    let volume = 6.0 * 100.0 * 0.08 / 720.0;
    assert!(ledger.costs()[Kind::Disks].least >= volume);
    assert_eq!(ledger.unknown[0].as_str(), "late");
}

#[test]
fn a_drive_that_is_up_is_counted_until_now_and_each_part_once() {
    let launched = "2026-11-01T10:00:00Z";
    let mut root = volume(9, launched, Tags::new());
    root.tags
        .insert("xdrive:disk".to_owned(), "root".to_owned());
    root.size = 30;
    let parts = Parts {
        instances: vec![instance(InstanceState::Running, launched)],
        volumes: vec![volume(1, launched, spot(A, launched)), root],
        snapshots: vec![snapshot(
            1,
            "checkpoint",
            "2026-11-01T12:00:00Z",
            spot(A, launched),
        )],
    };
    let ledger = ledger(&parts, since("01", "2026-11-01T16:00:00Z"));
    is(ledger.costs()[Kind::Spot], 6.0, 6.0);
    is(ledger.costs()[Kind::Addresses], 0.03, 0.03);
    let disks = 6.0 * 130.0 * 0.08 / 720.0;
    is(ledger.costs()[Kind::Disks], disks, disks);
    assert_eq!(gaps(&ledger), [""; 0]);
}

#[test]
fn drives_are_those_of_which_anything_is_still_there_with_all_that_was() {
    let launched = "2026-11-01T10:00:00Z";
    let of = |drive: &str| Tags::from([("xdrive:drive".to_owned(), drive.to_owned())]);
    let ended = |drive: &str| Instance {
        tags: of(drive),
        ..instance(InstanceState::Terminated, launched)
    };
    let gone = Volume {
        state: VolumeState::Deleting,
        ..volume(1, launched, of("over"))
    };
    let root = volume(2, launched, of("root"));
    let saved = snapshot(1, "clean", "2026-11-01T11:00:00Z", of("saved"));
    let up = Instance {
        tags: of("up"),
        ..instance(InstanceState::Running, launched)
    };
    let instances = vec![ended("over"), ended("saved"), up];
    let drives = Parts::by_drive(instances, vec![gone, root], vec![saved]);
    let count = |parts: &Parts| {
        let (instances, volumes) = (parts.instances.len(), parts.volumes.len());
        (instances, volumes, parts.snapshots.len())
    };
    let counts: Vec<_> = drives
        .iter()
        .map(|(name, parts)| (name.as_str(), count(parts)))
        .collect();
    let expected = [("root", (0, 1, 0)), ("saved", (1, 0, 1)), ("up", (1, 0, 0))];
    assert_eq!(counts, expected);
}

#[test]
fn generations_that_are_gone_are_named_and_not_guessed() {
    let of = |generation, day: &str| {
        let launched = format!("2026-11-{day}T10:00:00Z");
        let taken = format!("2026-11-{day}T11:00:00Z");
        snapshot(generation, "clean", &taken, spot(A, &launched))
    };
    let parts = saved(vec![of(9, "06"), of(2, "02"), of(5, "04"), of(8, "05")]);
    let whole = ledger(&parts, since("01", "2026-11-07T00:00:00Z"));
    is(whole.costs()[Kind::Spot], 4.0, 4.0);
    let words = "no snapshot is left of generations 1, 3–4 and 6–7: what they cost is not known";
    assert_eq!(gaps(&whole), [words]);
    let sum = whole.sum();
    assert!(sum.is_open && sum.known_most().is_none());
    // Of what was over before, nothing is missing.
    let later = ledger(&parts, since("05", "2026-11-07T00:00:00Z"));
    let words = "no snapshot is left of generations 6–7: what they cost is not known";
    assert_eq!(gaps(&later), [words]);
    let last = ledger(&parts, since("06", "2026-11-07T00:00:00Z"));
    is(last.costs()[Kind::Spot], 1.0, 1.0);
    assert_eq!(gaps(&last), [""; 0]);
}

#[test]
fn a_fork_begins_with_what_another_drive_has_paid_for() {
    let mut copy = snapshot(
        7,
        "clean",
        "2026-11-02T00:00:00Z",
        spot(A, "2026-11-01T00:00:00Z"),
    );
    let from = ("xdrive:forked-from".to_owned(), "demo@7".to_owned());
    copy.tags.extend([from]);
    let own = snapshot(
        8,
        "clean",
        "2026-11-02T03:00:00Z",
        spot(A, "2026-11-02T01:00:00Z"),
    );
    let ledger = ledger(&saved(vec![copy, own]), since("01", "2026-11-03T00:00:00Z"));
    is(ledger.costs()[Kind::Spot], 2.0, 2.0);
    assert_eq!(gaps(&ledger), [""; 0]);
}

#[test]
fn prices_are_those_of_the_time_then_of_the_launch_and_else_not_known() {
    let hour = ("2026-10-31T23:30:00Z", "2026-11-01T00:30:00Z");
    let with = |host: &str, paid: &str| {
        let mut tags = record(host, hour.0);
        tags.insert("xdrive:price".to_owned(), paid.to_owned());
        let one = snapshot(1, "clean", hour.1, tags);
        let period = Period {
            start: at("2026-10-31T00:00:00Z"),
            end: at("2026-11-01T01:00:00Z"),
        };
        ledger(&saved(vec![one]), period)
    };
    // Before the history that EC2 knows, the price of the launch.
    let old = with(&format!("{KIND} spot in {A}"), "0.5");
    is(old.costs()[Kind::Spot], 0.25 + 0.5, 0.75);
    assert_eq!(gaps(&old), [""; 0]);
    let none = with(&format!("{KIND} spot in {A}"), "");
    let words = format!("the price of {KIND} spot in {A} is not known");
    assert_eq!(gaps(&none), [words]);
    // The day whose prices are known is counted.
    is(none.costs()[Kind::Spot], 0.5, 0.5);
    assert!(none.sum().is_open);
    let dear = with(&format!("{KIND} on demand in {A}"), "4");
    is(dear.costs()[Kind::OnDemand], 4.0, 4.0);
    let unlisted = with("x9.huge on demand in us-east-1c", "");
    let words = "the price of x9.huge on demand in us-east-1c is not known";
    assert_eq!(gaps(&unlisted), [words]);
    // The address and the disks are known all the same.
    is(unlisted.costs()[Kind::Addresses], 0.005, 0.005);
}

#[test]
fn tags_that_somebody_else_wrote_cost_nothing_and_are_named() {
    let period = since("01", "2026-11-03T00:00:00Z");
    let taken = "2026-11-02T00:00:00Z";
    for tags in [
        Tags::new(),
        record("\u{1b}[2J", "2026-11-01T00:00:00Z"),
        record(&format!("{KIND} spot in {A}"), "soon"),
        record(&format!("{KIND} spot in {A}"), "2027-01-01T00:00:00Z"),
        record(&format!("{KIND} spot in {A}"), "9999-12-30T22:00:00Z"),
    ] {
        let ledger = ledger(&saved(vec![snapshot(1, "clean", taken, tags)]), period);
        is(ledger.costs()[Kind::Spot], 0.0, 0.0);
        let words = "no instance is recorded of generation 1: what it cost is not known";
        assert_eq!(gaps(&ledger), [words]);
        assert!(ledger.sum().is_open);
    }
    // Before all time, and after every generation.
    let tags = spot(B, "-009999-01-02T01:59:59Z");
    let one = snapshot(u64::MAX, "clean", taken, tags);
    let whole = ledger(&saved(vec![one]), period);
    is(whole.costs()[Kind::Spot], 48.0, 48.0);
    assert_eq!(gaps(&whole), [""; 0]);
    let mut other = snapshot(1, "clean", taken, Tags::new());
    other
        .tags
        .insert("xdrive:generation".to_owned(), "\u{9b}".to_owned());
    let ledger = ledger(&saved(vec![other]), period);
    assert_eq!(gaps(&ledger), ["the tags of snap-1 cannot be read"]);
    assert!(ledger.costs()[Kind::Snapshots].least > 0.0);
}
