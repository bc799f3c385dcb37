//! The code that is compiled for a fuzzer alone (`src/fuzzing.rs`, `shell/fuzz.sh`), which no other test sees.

use std::fs;
use std::path::Path;

use super::orders::is_word;
use super::sources;

/// The names in conditions of compilation. The compiler passes over one that it does not know, since it
/// is not told of `fuzzing`.
const KNOWN: &[&str] = &[
    "all",
    "any",
    "feature",
    "fuzzing",
    "not",
    "target_arch",
    "target_os",
    "target_vendor",
    "test",
];

/// The names in the condition that `text` begins with, behind its bracket: as far as the bracket or, of a
/// `cfg_attr`, the comma that ends it.
fn names(text: &str, is_attribute: bool) -> Vec<&str> {
    let mut depth = 0;
    let end = text.char_indices().find(|(_, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth < 0 || (depth == 0 && is_attribute && *c == ',')
    });
    let condition = &text[..end.map_or(text.len(), |(at, _)| at)];
    // Every other part is in quotes.
    let parts = condition.split('"').step_by(2);
    let words = parts.flat_map(|part| part.split(|c| !is_word(c)));
    words.filter(|word| !word.is_empty()).collect()
}

#[test]
fn every_condition_of_compilation_is_known() {
    let beginnings = [("cfg(", false), ("cfg!(", false), ("cfg_attr(", true)];
    let mut wrong = Vec::new();
    for (file, text) in sources("src", "rs") {
        for (beginning, is_attribute) in beginnings {
            for (at, _) in text.match_indices(beginning) {
                let rest = &text[at + beginning.len()..];
                let names = names(rest, is_attribute).into_iter();
                let unknown = names.filter(|name| !KNOWN.contains(name));
                wrong.extend(unknown.map(|name| format!("src/{file}: {beginning}…{name}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let condition = "not(fuzzing),\n expect(unexpected_cfgs))]";
    assert_eq!(names(condition, true), ["not", "fuzzing"]);
    let condition = r#"all(feature = "local", tset))] mod"#;
    assert_eq!(names(condition, false), ["all", "feature", "tset"]);
}

#[test]
fn the_script_has_every_target_of_the_fuzzer() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(top.join(path)).expect("a file can be read");
    let script = read("shell/fuzz.sh");
    let all = script.lines().find_map(|line| line.strip_prefix("ALL='"));
    let all: Vec<&str> = all
        .unwrap_or_default()
        .trim_end_matches('\'')
        .split(' ')
        .collect();
    let text = read("src/fuzzing.rs");
    let targets = text.lines().filter_map(|line| line.strip_prefix("    (\""));
    let targets: Vec<&str> = targets.filter_map(|line| line.split('"').next()).collect();
    assert_eq!(targets, all);
    for target in all {
        let about = script
            .lines()
            .any(|line| line.starts_with(&format!("#   {target} ")));
        assert!(about, "shell/fuzz.sh does not say what {target} reads");
        assert!(
            top.join("tests/fuzz/words").join(target).exists(),
            "{target}"
        );
    }
}
