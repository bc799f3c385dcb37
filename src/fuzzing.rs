//! Readers of what comes from elsewhere, as a fuzzer calls them (`shell/fuzz.sh`): each takes any bytes,
//! reads them as the program would, and panics where a promise about the outcome does not hold.
//!
//! Each room has its own part, in its file `fuzzing.rs`; here are their names, and what several rooms
//! promise together. Compiled with `--cfg fuzzing` alone.

use std::env;
use std::sync::LazyLock;

use crate::report::ToText as _;
use crate::{access, asleep, drive, host, launch, transfer};

/// A target: reads any bytes.
type Target = fn(&[u8]);

/// The targets by the names that `shell/fuzz.sh` has.
const TARGETS: [(&str, Target); 7] = [
    ("ext4", asleep::fuzzing::read),
    ("sftp", host::sftp::fuzzing::answer),
    ("facts", facts),
    ("runs", runs),
    ("tags", drive::fuzzing::read),
    ("rules", transfer::fuzzing::compare),
    ("devcontainer", launch::image::fuzzing::parse),
];

/// Reads `input` with the target that the environment names.
///
/// # Panics
/// Where a promise does not hold, and without the name of a target in `XDRIVE_FUZZ`.
pub fn run(input: &[u8]) {
    static TARGET: LazyLock<Target> = LazyLock::new(|| {
        let name = env::var("XDRIVE_FUZZ").unwrap_or_default();
        let found = TARGETS.iter().find(|(known, _)| *known == name);
        found.expect("XDRIVE_FUZZ names a target").1
    });
    TARGET(input);
}

fn facts(input: &[u8]) {
    for text in host::fuzzing::facts(input) {
        access::fuzzing::client(&text);
        show(&text);
    }
}

fn runs(input: &[u8]) {
    for text in host::fuzzing::runs(input) {
        show(&text);
    }
}

/// Shows a text as every other one is: a terminal obeys nothing in it.
fn show(text: &str) {
    let shown = text.to_text().to_string();
    let is_obeyed = |c: char| c.is_control() && c != '\n';
    assert!(!shown.contains(is_obeyed), "{shown:?}");
    assert_eq!(
        shown.to_text().to_string().lines().count(),
        shown.lines().count()
    );
}
