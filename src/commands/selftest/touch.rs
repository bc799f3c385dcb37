//! How late the blocks of a volume come that was made from a snapshot: what hosts fetch first, and the topic
//! *first-touch*, rely on it.
//!
//! A session leaves a file on its drive and saves it; in the next one the host reads that file's blocks past
//! the host's caches (`shell/first_touch.py`).

use super::facts::Facts;
use super::finding::Finding;

pub(super) const NAME: &str = "first touch";

/// The script that is run on both hosts.
pub(super) const SCRIPT: &str = include_str!("../../../shell/first_touch.py");

/// Whether the facts are those of the second session, or why there are none.
pub(super) fn is_measured(facts: &Facts) -> bool {
    facts.get("wrote").is_empty()
}

/// The line of what was measured.
pub(super) fn line(facts: &Facts) -> Finding {
    if let Some(why) = facts.failed() {
        return Finding::failed(NAME, why, None);
    }
    judge(facts).unwrap_or_else(|| Finding::failed(NAME, "the host did not measure it", None))
}

/// None if a figure is missing.
fn judge(facts: &Facts) -> Option<Finding> {
    let number = |name| number(facts, name);
    let (alone, late, slowest) = (number("alone")?, number("late")?, number("slowest_ms")?);
    let (there, fetched) = (number("there_ms")?, number("fetched_mib_s")?);
    let found =
        format!("{late:.0} of {alone:.0} blocks of 512 KiB were late, the slowest {slowest:.0} ms");
    if late * 2.0 < alone {
        let rest = format!("what is there comes after {there:.1}; 32 at once: {fetched:.0} MiB/s");
        return Some(Finding::ok(NAME, format!("{found}; {rest}")));
    }
    let (first, rest, later) = (number("first_ms")?, number("rest_ms")?, number("later_ms")?);
    let words = format!(
        "{found}: the first 4 KiB of such a one came after {first:.1} ms, its last 4 KiB then after {rest:.1}, \
         or later after {later:.1}, and what is there after {there:.1}; 32 at once: {fetched:.0} MiB/s"
    );
    // Hosts fetch a block by a page of it (`shell/host/hot.py`).
    if later > f64::midpoint(first, there) {
        let hint =
            "hosts fetch less by what they read first than xdrive counts on: please report it";
        let why = format!("a block comes in parts: {words}");
        return Some(Finding::failed(NAME, why, Some(hint)));
    }
    let (touched, again) = (number("touched_mib_s")?, number("there_mib_s")?);
    let more = format!("{touched:.0} by 4 KiB of each, {again:.0} once they are there");
    Some(Finding::ok(NAME, format!("{words}, {more}")))
}

/// The fact of that name; none if it is missing, or cannot be.
fn number(facts: &Facts, name: &str) -> Option<f64> {
    let number = facts.get(name).parse().ok();
    number.filter(|it| (0.0..1e6).contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result, and the text, of the line where so many of 64 blocks were late, and the last page of those
    /// came then.
    fn result(late: &str, later: &str) -> (String, String) {
        let text = format!(
            "alone=64.000\nlate={late}\nslowest_ms=150\nthere_ms=0.5\nfirst_ms=31.2\nrest_ms=3\n\
             later_ms={later}\ntouched_mib_s=98.4\nfetched_mib_s=97.2\nthere_mib_s=124.9\nend=yes\n"
        );
        let line = serde_json::to_value(line(&Facts::read(&text).unwrap())).unwrap();
        let words = line["found"].as_str().or(line["why"].as_str()).unwrap();
        let result = line["result"].as_str().unwrap();
        (result.to_owned(), words.to_owned())
    }

    #[test]
    fn a_block_that_comes_in_parts_fails() {
        let (is, words) = result("64", "0.6");
        assert_eq!(is, "ok");
        let found = "64 of 64 blocks of 512 KiB were late, the slowest 150 ms: the first 4 KiB of such a one";
        assert!(words.starts_with(found), "{words}");
        assert!(words.contains("came after 31.2 ms"), "{words}");
        assert!(
            words.ends_with("97 MiB/s, 98 by 4 KiB of each, 125 once they are there"),
            "{words}"
        );
        let (is, words) = result("64", "29.8");
        assert_eq!(is, "failed");
        assert!(
            words.starts_with("a block comes in parts: 64 of 64"),
            "{words}"
        );
        // Nothing says how much a page had come.
        assert!(words.ends_with("32 at once: 97 MiB/s"), "{words}");
    }

    #[test]
    fn of_blocks_that_were_mostly_there_no_more_is_said() {
        let (is, words) = result("3", "29.8");
        assert_eq!(is, "ok");
        let found = "3 of 64 blocks of 512 KiB were late, the slowest 150 ms; what is there comes after 0.5";
        assert!(words.starts_with(found), "{words}");
    }

    #[test]
    fn why_it_was_not_measured_is_said() {
        let facts = Facts::read("failed=[Errno 5] Input/output error\nend=yes\n").unwrap();
        assert!(is_measured(&facts));
        let line = serde_json::to_value(line(&facts)).unwrap();
        assert_eq!(line["why"], "[Errno 5] Input/output error");
        assert!(!is_measured(&Facts::read("wrote=yes\nend=yes\n").unwrap()));
    }

    #[test]
    fn what_is_no_number_was_not_measured() {
        for later in ["", "soon", "NaN", "inf", "-1", "1e308"] {
            let (is, words) = result("64", later);
            assert_eq!(
                (is.as_str(), words.as_str()),
                ("failed", "the host did not measure it")
            );
        }
    }
}
