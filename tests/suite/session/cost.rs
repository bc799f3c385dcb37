//! Costs of drives, as `xdrive cost` reads them from their snapshots, held to the bill of the EC2 in a folder.

use std::fs;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use xdrive::clock::Clock;
use xdrive::local::Fault;

use super::json::document;
use super::simulated::{calls, paper, plant, traced, with_snapshot};
use super::site::Site;

/// The seconds that a session may have after its record's end: the save begins, and then the instance is terminated;
/// the volume stays until the save is completed and looked into.
const END: f64 = 20.0;

/// A time that is so long ago.
fn ago(time: Duration) -> Timestamp {
    Clock::system().now() - time
}

/// Makes a saved generation of demo whose instance was launched so many hours ago.
fn with_session(site: &Site, generation: u64, host: &str, hours: u64) {
    let since = format!("{:.0}", ago(Duration::from_hours(hours)));
    let tags = [
        ("xdrive:generation", &*generation.to_string()),
        ("xdrive:host", host),
        ("xdrive:since", &since),
    ];
    with_snapshot(site, &tags);
}

/// A document's dollars: the least, and the most if it is known.
fn bounds(of: &Value) -> (f64, Option<f64>) {
    (of["least"].as_f64().unwrap(), of["most"].as_f64())
}

#[test]
fn a_drive_has_cost_what_its_records_say_and_gaps_are_named() {
    let site = paper();
    with_session(&site, 1, "t3.medium on demand in us-east-1a", 30);
    with_session(&site, 4, "t3.medium spot in us-east-1b", 3);
    let json = document("cost", site.run(&["cost", "demo", "--json"]).is(0));
    let drive = &json["drives"][0];
    let (least, most) = bounds(&drive["by_kind"]["on_demand"]);
    assert!((least - 30.0 * 0.0416).abs() < 0.01, "{least}");
    assert_eq!(most, Some(least));
    let (spot, _) = bounds(&drive["by_kind"]["spot"]);
    assert!((0.02..0.08).contains(&spot), "{spot}");
    let (addresses, _) = bounds(&drive["by_kind"]["addresses"]);
    assert!((addresses - 33.0 * 0.005).abs() < 0.001, "{addresses}");
    // Two generations are gone, so it has cost this at least.
    assert_eq!(bounds(&drive["dollars"]).1, None);
    assert_eq!(json["dollars"], drive["dollars"]);
    let gap = &drive["unknown"][0];
    assert_eq!(gap["why"], "deleted");
    assert_eq!(gap["generations"][0]["first"], 2);
    assert_eq!(gap["generations"][0]["last"], 3);
    assert!(drive["days"].as_array().unwrap().len() > 1, "{drive}");

    let words = "no snapshot is left of generations 2–3: what they cost is not known\n";
    site.run(&["cost"])
        .is(0)
        .prints("drive   spot  on demand  addresses  disks     sum\n")
        .prints("\ndemo   $0.")
        .prints("\n+ is at least, because something is not known:\n")
        .prints(&format!("  demo: {words}"));
    let shown = site.run(&["cost", "demo", "--since", "7d"]);
    shown
        .is(0)
        .prints("day  ")
        .prints("\nin all ")
        .prints(words);
    for line in shown.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    site.run(&["cost", "none"])
        .is(69)
        .reports("there is no drive none");
    for (since, why) in [
        ("367d", "cost is shown since 1d at least and 366d at most"),
        ("1h", "cost is shown since 1d at least"),
        ("soon", "it is not a time such as 30m or 8h"),
    ] {
        site.run(&["cost", "--since", since]).is(2).reports(why);
    }
}

#[test]
fn without_prices_the_rest_is_counted_and_no_call_but_reading_ones_is_made() {
    let site = paper();
    with_session(&site, 1, "t3.medium on demand in us-east-1a", 2);
    with_session(&site, 2, "t3.medium spot in us-east-1b", 1);
    let ended = traced(&site, &["cost"]);
    let mut made = calls(ended.is(0));
    made.sort();
    made.dedup();
    assert_eq!(
        made,
        [
            "DescribeInstances",
            "DescribeSnapshots",
            "DescribeSpotPriceHistory",
            "DescribeVolumes"
        ]
    );
    let denied = |call: &str| Fault::new(call, 403, "UnauthorizedOperation", "not you");
    plant(&site, denied("DescribeSpotPriceHistory"));
    site.run(&["cost", "demo"])
        .is(0)
        .reports("past spot prices are not known: DescribeSpotPriceHistory: UnauthorizedOperation")
        .prints("the price of t3.medium spot in us-east-1b is not known");
}

#[test]
fn tags_of_somebody_else_are_counted_as_nothing_and_obeyed_by_nobody() {
    let site = paper();
    with_session(&site, 1, "\u{9b}2Jt3.medium spot in us-east-1a", 2);
    with_snapshot(&site, &[("xdrive:generation", "\u{9b}31m")]);
    let shown = site.run(&[
        "cost",
        "demo",
        "--svg",
        site.path("cost.svg").to_str().unwrap(),
    ]);
    shown
        .is(0)
        .prints("no instance is recorded of generation 1")
        .prints("cannot be read");
    let picture = fs::read_to_string(site.path("cost.svg")).unwrap();
    for text in [&shown.stdout, &picture] {
        let is_obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(is_obeyed), "{text:?}");
    }
    with_snapshot(&site, &[("xdrive:drive", "<b>\"&'\u{202e}")]);
    let file = site.path("all.svg");
    let all = site.run(&["cost", "--svg", file.to_str().unwrap()]);
    all.is(0).prints("<b>\"&'?");
    let picture = fs::read_to_string(&file).unwrap();
    assert!(
        picture.contains("&lt;b&gt;") && !picture.contains("<b>"),
        "{picture}"
    );
}

#[test]
fn a_picture_is_written_over_the_former_one_and_none_without_a_drive() {
    let site = paper();
    let file = site.path("cost.svg");
    let words = ["cost", "--svg", file.to_str().unwrap()];
    site.run(&words)
        .is(69)
        .reports("there are no drives to draw");
    assert!(!file.exists());
    site.run(&["cost"]).is(0).prints("no drives");
    with_session(&site, 1, "t3.medium on demand in us-east-1a", 30);
    fs::write(&file, "an older one").unwrap();
    site.run(&words).is(0);
    let picture = fs::read_to_string(&file).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("prefers-color-scheme:dark"));
    let nowhere = file.join("cost.svg");
    site.run(&["cost", "--svg", nowhere.to_str().unwrap()])
        .is(1)
        .reports(&format!("cannot write {}: ", nowhere.display()));
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn sessions_have_cost_what_ec2_bills() {
    let site = Site::new();
    let image = site.image();
    let session = |drive: &str, flags: &[&str], command: &[&str]| {
        let words = ["connect", drive, "--image", &image];
        site.run(&[&words[..], flags, &["--"], command].concat())
            .is(0);
        site.local().bill(drive).unwrap()
    };
    let cost = |drive: &str| {
        let json = document("cost", site.run(&["cost", drive, "--json"]).is(0));
        let drive = &json["drives"][0];
        assert_eq!(drive["unknown"], Value::Array(Vec::new()), "{drive}");
        let exact = |kind: &str| {
            let (least, most) = bounds(&drive["by_kind"][kind]);
            assert_eq!(most, Some(least), "{kind}: {drive}");
            least
        };
        [
            exact("spot") + exact("on_demand"),
            exact("addresses"),
            exact("disks"),
        ]
    };
    // For a minute at least, and for longer.
    let fast = ["--throughput", "500"];
    let short = session("demo", &fast, &["true"]);
    let long = session("dear", &["--on-demand"], &["sleep", "70"]);
    for (drive, bill) in [("demo", short), ("dear", long)] {
        let own = cost(drive);
        let billed = [bill.instances, bill.addresses, bill.disks];
        // The dollars an hour of what comes after the record: of an instance here, an address, and the disks.
        for ((own, billed), hour) in own.into_iter().zip(billed).zip([0.2, 0.005, 0.04]) {
            assert!(
                own > 0.0 && (billed - own).abs() < END * hour / 3600.0,
                "{drive}: {own}, billed {bill:?}"
            );
        }
    }
    let over = cost("demo");
    // What is up is counted until now.
    let run = ["run", "demo", "-d", "--", "sleep", "600"];
    site.run(&run).is(0);
    let up = cost("demo");
    for (up, over) in up.into_iter().zip(over) {
        assert!(up > over, "{up} {over}");
    }
    // A session that throws away what it did leaves no record.
    site.run(&["stop", "demo"]).is(0);
    let stopped = cost("demo");
    let discard = ["connect", "demo", "--discard", "--yes", "--", "true"];
    site.run(&discard).is(0);
    let after = cost("demo");
    for (after, before) in after.into_iter().zip(stopped) {
        assert!((after - before).abs() < 1e-9, "{stopped:?} {after}");
    }
}
