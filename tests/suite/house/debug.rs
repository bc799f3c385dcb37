//! The output of `{:?}`, such as in a log, is never content.

use super::sources;

/// Types whose `Debug` would print content, state or a client's insides.
const CONTENT: &[&str] = &[
    "Bytes",
    "BytesMut",
    "Vec<u8>",
    "[u8]",
    "Store",
    "RuntimeComponents",
    "World",
];

/// Fields that are names of files or patterns of them, which have bytes and no content.
const NAMES: &[(&str, &str)] = &[
    ("host/sftp/packet.rs", "Entry"),
    ("visit/difference.rs", "Difference"),
    ("transfer/order.rs", "Order"),
    ("transfer/place.rs", "Place"),
    ("transfer/rules/pattern.rs", "Pattern"),
    ("transfer/rules/pattern.rs", "Rest"),
    ("transfer/rules/repository.rs", "Repository"),
    ("transfer/state.rs", "State"),
];

/// Whether `line` names the type `word`, and not one whose name it is a part of.
fn names(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// The types of a file that derive `Debug`, with their fields, a line each.
fn derived(text: &str) -> Vec<(String, Vec<String>)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !(line.trim_start().starts_with("#[derive(") && names(line, "Debug")) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let rest = &lines[at + 1..];
        let Some(start) = rest
            .iter()
            .position(|it| names(it, "struct") || names(it, "enum"))
        else {
            continue;
        };
        let head = rest[start];
        let word = if names(head, "struct") {
            "struct "
        } else {
            "enum "
        };
        let name = head.split(word).nth(1).unwrap_or_default();
        let name = name.split(|c: char| !c.is_alphanumeric()).next();
        let end = format!("{indent}}}");
        let is_short = head.ends_with(';') || head.ends_with('}');
        let fields = rest[start..].iter().enumerate();
        let fields = fields.take_while(|(index, it)| *index == 0 || !is_short && **it != end);
        let fields = fields.map(|(_, it)| it.split("//").next().unwrap_or_default().to_owned());
        found.push((name.unwrap_or_default().to_owned(), fields.collect()));
    }
    found
}

#[test]
fn no_derived_debug_prints_content_state_or_a_client() {
    let mut wrong = Vec::new();
    for (file, text) in sources("src", "rs") {
        if file.ends_with("tests.rs") || file.contains("/tests/") {
            continue;
        }
        for (name, fields) in derived(&text) {
            if NAMES.contains(&(file.as_str(), name.as_str())) {
                continue;
            }
            for field in fields {
                let is_client = field.contains("::Client");
                if is_client || CONTENT.iter().any(|word| names(&field, word)) {
                    wrong.push(format!(
                        "src/{file}: {name} derives Debug: {}",
                        field.trim()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_shape_of_a_type_is_seen() {
    let text = "#[derive(Debug)]\nstruct A(Bytes);\n#[derive(Clone, Debug)]\npub enum B {\n    \
                C(Vec<u8>), // Bytes\n}\nstruct D(Bytes);\n#[derive(Clone)]\nstruct E(Bytes);\n";
    let found = derived(text);
    let names_of: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names_of, ["A", "B"]);
    assert!(names(&found[0].1[0], "Bytes"));
    assert!(found[1].1.iter().any(|field| names(field, "Vec<u8>")));
    assert!(!found[1].1.iter().any(|field| names(field, "Bytes")));
    assert!(!names("GibiBytes", "Bytes"));
}

/// The values that are logged by their `Debug` all the same: ids, and a length of time.
const LOGGED: &[(&str, &str)] = &[
    ("local/change.rs", "?intent"),
    ("local/wire/serve.rs", "{GRACE:?}"),
];

/// Macros of the log.
const LOGS: &[&str] = &["trace!(", "debug!(", "info!(", "warn!(", "error!("];

#[test]
fn nothing_is_logged_by_its_debug() {
    let mut wrong = Vec::new();
    for (file, text) in sources("src", "rs") {
        for (at, word) in LOGS.iter().flat_map(|word| text.match_indices(word)) {
            let call = &text[at..];
            let call = &call[..call.find(");").unwrap_or(call.len())];
            let call = LOGGED
                .iter()
                .filter(|(of, _)| *of == file)
                .fold(call.to_owned(), |call, (_, field)| call.replace(field, ""));
            if text[..at].ends_with("tracing::") && (call.contains('?') || call.contains(":?}")) {
                wrong.push(format!("src/{file}: {word} prints a Debug: {call}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
