//! How late the blocks of a volume come that was made from a snapshot: what hosts fetch first, and the topic
//! *first-touch*, rely on it.
//!
//! A session leaves a file on its drive and saves it; in the next one the host reads that file's blocks past
//! every cache (`shell/first_touch.py`).

use super::facts::Facts;
use super::finding::Finding;

pub(super) const NAME: &str = "first touch";

/// The script that is run on both hosts.
pub(super) const SCRIPT: &str = include_str!("../../../shell/first_touch.py");

/// How much later than again a first read is, at least, where blocks come late.
const LATE: f64 = 2.0;

/// The line of what was measured.
pub(super) fn line(facts: &Facts) -> Finding {
    if let Some(why) = facts.failed() {
        return Finding::failed(NAME, why, None);
    }
    let Some([first, slowest, rest, there]) =
        numbers(facts, ["first_ms", "slowest_ms", "rest_ms", "there_ms"])
    else {
        return Finding::failed(NAME, "the host did not measure it", None);
    };
    let Some([touched, fetched, again]) =
        numbers(facts, ["touched_mib_s", "fetched_mib_s", "there_mib_s"])
    else {
        return Finding::failed(NAME, "the host did not measure it", None);
    };
    let words = format!(
        "4 KiB of a block of 512 KiB after {first:.1} ms (the slowest {slowest:.0}), the block's last 4 KiB \
         then after {rest:.1}, and again after {there:.1}; 32 at once: {touched:.0} MiB/s of blocks by 4 KiB \
         of each, {fetched:.0} by all of it, {again:.0} again"
    );
    if first < LATE * there {
        Finding::ok(NAME, format!("nothing was late: {words}"))
    } else if rest > f64::midpoint(first, there) {
        // Hosts fetch a block by a page of it (`shell/host/hot.py`).
        let hint =
            "hosts fetch less by what they read first than xdrive counts on: please report it";
        Finding::failed(NAME, format!("a block comes in parts: {words}"), Some(hint))
    } else {
        Finding::ok(NAME, words)
    }
}

/// The facts of these names; none if one is missing, or no time or rate.
fn numbers<const N: usize>(facts: &Facts, names: [&str; N]) -> Option<[f64; N]> {
    let mut found = [0.0; N];
    for (slot, name) in found.iter_mut().zip(names) {
        let number: f64 = facts.get(name).parse().ok()?;
        *slot = (number.is_finite() && number >= 0.0).then_some(number)?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result, and the text, of the line where these were measured one after the other.
    fn result(first: &str, rest: &str, there: &str) -> (String, String) {
        let text = format!(
            "first_ms={first}\nslowest_ms=150\nrest_ms={rest}\nthere_ms={there}\ntouched_mib_s=98.4\n\
             fetched_mib_s=97.2\nthere_mib_s=124.9\nend=yes\n"
        );
        let line = serde_json::to_value(line(&Facts::read(&text).unwrap())).unwrap();
        let words = line["found"].as_str().or(line["why"].as_str()).unwrap();
        let result = line["result"].as_str().unwrap();
        (result.to_owned(), words.to_owned())
    }

    #[test]
    fn a_block_that_comes_in_parts_fails() {
        let (is, words) = result("31.2", "0.6", "0.5");
        assert_eq!(is, "ok");
        assert!(words.starts_with("4 KiB of a block"), "{words}");
        assert!(words.contains("after 31.2 ms (the slowest 150)"), "{words}");
        assert!(words.contains("98 MiB/s of blocks by 4 KiB"), "{words}");
        let (is, words) = result("31.2", "29.8", "0.5");
        assert_eq!(is, "failed");
        assert!(words.starts_with("a block comes in parts"), "{words}");
        let (is, words) = result("0.6", "0.6", "0.5");
        assert_eq!(is, "ok");
        assert!(words.starts_with("nothing was late"), "{words}");
    }

    #[test]
    fn why_it_was_not_measured_is_said() {
        let facts = Facts::read("failed=[Errno 5] Input/output error\nend=yes\n").unwrap();
        let line = serde_json::to_value(line(&facts)).unwrap();
        assert_eq!(line["why"], "[Errno 5] Input/output error");
    }

    #[test]
    fn what_is_no_number_was_not_measured() {
        for first in ["", "soon", "NaN", "inf", "-1"] {
            let (is, words) = result(first, "0.6", "0.5");
            assert_eq!(
                (is.as_str(), words.as_str()),
                ("failed", "the host did not measure it")
            );
        }
    }
}
