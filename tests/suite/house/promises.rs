//! The promises of `src/lib.rs`: each names the tests that show it, and they are there.

use std::fs;
use std::path::Path;

/// The number of a promise in a line of the table, and the tests in its last cell.
fn shown_by(line: &str) -> Option<(&str, Vec<&str>)> {
    let cells: Vec<&str> = line.strip_prefix("//! | P")?.split(" | ").collect();
    let last = cells.last()?.trim_end_matches(" |");
    Some((cells[0], last.split('`').skip(1).step_by(2).collect()))
}

/// Whether `test` is a file of tests of the suite or of a room, or a test in one.
fn is_there(test: &str) -> bool {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = |file: &str| {
        let inline = file.strip_suffix("::tests").unwrap_or(file);
        let places = [("tests/suite", file), ("src", file), ("src", inline)];
        let contents = places.map(|(folder, file)| {
            let path = top.join(folder).join(file.replace("::", "/"));
            fs::read_to_string(path.with_extension("rs")).unwrap_or_default()
        });
        let is_of_tests =
            |content: &String| content.contains("#[test]\n") || content.contains("#[tokio::test");
        contents.into_iter().find(is_of_tests)
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
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
    for (number, tests) in table {
        assert!(!tests.is_empty(), "P{number} is shown by no test");
        for test in tests {
            assert!(is_there(test), "P{number}: there is no {test}");
            assert!(
                !test.contains("wide::"),
                "P{number}: `shell/test.sh` leaves {test} out"
            );
        }
    }
}
