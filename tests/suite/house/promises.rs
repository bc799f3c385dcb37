//! The promises of `src/lib.rs`: each names the tests that show it, and they are there.

use std::fs;
use std::path::Path;

/// The number of a promise in a line of the table, and the tests in its last cell.
fn shown_by(line: &str) -> Option<(&str, Vec<&str>)> {
    let cells: Vec<&str> = line.strip_prefix("//! | P")?.split(" | ").collect();
    let last = cells.last()?.trim_end_matches(" |");
    Some((cells[0], last.split('`').skip(1).step_by(2).collect()))
}

/// Whether `test` is a file of tests of the suite, or a test in one.
fn is_there(test: &str) -> bool {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite");
    let tests = |file: &str| {
        let file = suite.join(file.replace("::", "/")).with_extension("rs");
        let content = fs::read_to_string(file).unwrap_or_default();
        let is_of_tests = content.contains("\n#[test]\n") || content.contains("\n#[tokio::test");
        is_of_tests.then_some(content)
    };
    let has_test = |(file, name): (&str, &str)| {
        tests(file).is_some_and(|text| text.contains(&format!("fn {name}(")))
    };
    tests(test).is_some() || test.rsplit_once("::").is_some_and(has_test)
}

#[test]
fn every_promise_is_shown_by_tests_that_are_there() {
    let text = include_str!("../../../src/lib.rs");
    let table: Vec<_> = text.lines().filter_map(shown_by).collect();
    let numbers: Vec<&str> = table.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    for (number, tests) in table {
        assert!(!tests.is_empty(), "P{number} is shown by no test");
        for test in tests {
            assert!(is_there(test), "P{number}: there is no {test}");
        }
    }
}
