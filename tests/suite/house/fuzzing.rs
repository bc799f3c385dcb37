//! The code that is compiled for a fuzzer alone (`src/fuzzing.rs`, `shell/fuzz.sh`), which no other test sees.

use std::fs;
use std::path::Path;

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
