//! Two tenders and a person, whose lists of EC2's all lag.

use super::*;

/// Writes the number of its try, and, once that cannot be lost any more, a line with it; ends well when
/// it is asked to.
const NUMBERED: &str = "echo $XDRIVE_TRY >>/work/tries; sync; echo $XDRIVE_TRY >>/work/lines; sync; \
                        until [ -e /work/end ]; do sleep 0.2; done";

/// How often the host is lost.
fn rounds() -> u32 {
    if std::env::var_os("XDRIVE_LONG").is_some() {
        20
    } else {
        2
    }
}

/// Has EC2 take the instance of `demo`. A list that lags may have none, or a former one.
fn interrupt(site: &Site) {
    let is_taken = || {
        let things = site.drive("demo")["things"].clone();
        let things = things.as_array().into_iter().flatten();
        let ids = things
            .filter(|thing| thing["kind"] == "instance")
            .filter_map(|thing| thing["id"].as_str());
        ids.map(|id| site.run(&["local", "interrupt", id, "--in", "0"]))
            .any(|ended| ended.code() == 0)
    };
    eventually_within(SESSION, || "an interruption".to_owned(), is_taken);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn two_tenders_and_a_person_with_lists_that_lag_begin_each_try_once() {
    let site = Site::with_settings("delays = \"aws\"\n");
    start(&site, NUMBERED);
    is_at_try(&site, 1);
    let other = site.other_laptop();
    for next in 2..=1 + rounds() {
        interrupt(&site);
        let tenders = [&site, &other].map(|laptop| laptop.start(&["tend", "--once"]));
        let person = other.start(&["connect", "demo", "--no-jupyter", "--", "true"]);
        let mut codes = tenders.map(|tender| tender.end().code()).to_vec();
        codes.push(person.end().code());
        eprintln!("try {next}: two tenders and a person ended with {codes:?}");
        let is_next = || {
            // Whoever came between them has saved the drive, or has seen the instance that is gone.
            site.run(&["tend", "--once"]);
            let lines = site.run(&["cat", "demo:lines"]).stdout;
            lines.lines().last() == Some(&next.to_string())
        };
        eventually_within(2 * TENDED, || format!("try {next}"), is_next);
    }
    let asks = [
        "connect",
        "demo",
        "--no-jupyter",
        "--",
        "touch",
        "/work/end",
    ];
    site.run(&asks).is(0);
    // It is over, and saved once whoever looks sees that its host is gone.
    let is_over = || {
        site.run(&["tend", "--once"]);
        let listed = site.run(&["ps", "demo", "--all", "--json"]);
        listed.code() == 0 && document("ps", &listed)[0]["status"] == 0
    };
    eventually_within(2 * TENDED, || "the end of the run".to_owned(), is_over);
    let is_saved = || {
        site.run(&["tend", "--once"]);
        site.drive("demo")["state"] == "saved"
    };
    eventually_within(2 * TENDED, || "a saved drive".to_owned(), is_saved);
    let each: Vec<String> = (1..=1 + rounds())
        .map(|number| number.to_string())
        .collect();
    for file in ["demo:tries", "demo:lines"] {
        let numbers = site.run(&["cat", file]).is(0).stdout.clone();
        let numbers: Vec<&str> = numbers.lines().collect();
        assert_eq!(numbers, each, "{file}");
    }
    // One drive, one line: each generation was saved once at most, and no part was put aside.
    let log = document("log", &site.run(&["log", "demo", "--json"]));
    let log = log.as_array().unwrap();
    let generation = |row: &Value| row["generation"].as_u64().unwrap();
    let generations: Vec<u64> = log.iter().map(generation).collect();
    assert!(
        generations.is_sorted_by(|one, next| one > next),
        "{generations:?}"
    );
    assert!(generations[0] > u64::from(rounds()), "{generations:?}");
    let drives = document("list", &site.run(&["list", "--json"]));
    assert_eq!(drives.as_array().unwrap().len(), 1, "{drives}");
    eprintln!("generations {generations:?}");
    site.has_no_leaks();
}
