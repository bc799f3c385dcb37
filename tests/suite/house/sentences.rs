//! A doc comment begins with the thing that it documents, and a function is called by what it does.

use super::sources;

/// First words that point at something which the reader of a single item has not got.
const REFERENCES: [&str; 15] = [
    "He", "Him", "His", "It", "Its", "One", "Such", "That", "The same", "Their", "Them", "These",
    "This", "Those", "What",
];

/// How many doc comments still begin with such a word: mostly help of flags, and fields of JSON
/// documents, which their users read beside others. The number may only fall.
const REFERENCES_LEFT: usize = 95;

/// Names that leave open what a function does: a constructor says what it reads, a predicate what it
/// asks, anything else is a verb or the field's noun.
const RIDDLES: [&str; 13] = [
    "came", "doing", "ended", "found", "gone", "its", "kept", "named", "of", "other", "own",
    "stopped", "waited",
];

/// Whether `text` begins with `word`, and not with a longer one.
fn begins_with(text: &str, word: &str) -> bool {
    text.strip_prefix(word)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
}

/// The doc comments in `text` that begin with a word of [`REFERENCES`]: line and word.
fn references(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut marker = "";
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let kind = ["///", "//!"]
            .into_iter()
            .find(|kind| line.starts_with(kind))
            .unwrap_or_default();
        if !kind.is_empty() && kind != marker {
            let sentence = line[kind.len()..].trim_start();
            let word = REFERENCES.iter().find(|word| begins_with(sentence, word));
            found.extend(word.map(|word| (index + 1, *word)));
        }
        marker = kind;
    }
    found
}

/// The functions in `text` that have a name of [`RIDDLES`]: line and name.
fn riddles(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate();
    let names = lines.filter_map(|(index, line)| {
        let (before, after) = line.split_once("fn ")?;
        let is_word = before.is_empty() || before.ends_with(' ');
        let end = after.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
        (is_word && after[end..].starts_with(['(', '<'])).then(|| (index + 1, &after[..end]))
    });
    names.filter(|(_, name)| RIDDLES.contains(name)).collect()
}

/// The places in all Rust files that `found` gives for a text: a line's number and a word.
fn places(found: fn(&str) -> Vec<(usize, &str)>) -> Vec<String> {
    let mut places = Vec::new();
    for root in ["src", "tests"] {
        for (file, text) in sources(root, "rs") {
            let found = found(&text).into_iter();
            places.extend(found.map(|(line, word)| format!("{root}/{file}:{line}: {word}")));
        }
    }
    places.sort();
    places
}

#[test]
fn doc_comments_begin_with_what_they_document() {
    let places = places(references);
    assert!(
        places.len() <= REFERENCES_LEFT,
        "{} doc comments begin with a reference, and {REFERENCES_LEFT} may:\n{}",
        places.len(),
        places.join("\n")
    );
}

#[test]
fn functions_are_called_by_what_they_do() {
    let places = places(riddles);
    assert!(places.is_empty(), "{}", places.join("\n"));
}

#[test]
fn references_and_riddles_are_seen() {
    let text = "/// Its id.\nid: u8,\n/// Items.\n/// It goes on.\npub(super) \tn of<T>() {}\n//! The same.\n\
                \n//! Thatch.\n\tn kept_one() {}\nlet f = || other();\n";
    let text = text.replace('\t', "f");
    assert_eq!(references(&text), [(1, "Its"), (6, "The same")]);
    assert_eq!(riddles(&text), [(5, "of")]);
}
