//! The files of `~/.aws`, as the AWS CLI reads them: with Python's `RawConfigParser`.
//!
//! The SDK reads them by rules of its own: no `:` between key and value, no indented keys, no names
//! with spaces. It gets what is read here, written anew by its rules. A section or key that stands
//! twice, which the CLI refuses, counts with its last value.

use std::collections::BTreeMap;

/// The keys of a section and their values. A value of several lines has them all, also the first, which
/// may be empty.
pub(super) type Section = BTreeMap<String, String>;

/// The section whose keys count in all others.
const COMMON: &str = "DEFAULT";

/// The number of a line that cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvalidLine(pub(super) usize);

/// Parses a file: its sections in order.
pub(super) fn parse(text: &str) -> Result<Vec<(String, Section)>, InvalidLine> {
    let mut sections: Vec<(String, Section)> = Vec::new();
    let mut current: Option<usize> = None;
    let mut key: Option<String> = None;
    // Lines that are indented deeper go on with the value.
    let mut indent = 0;
    for (number, line) in text.lines().enumerate() {
        let value = line.trim();
        let is_comment = value.starts_with(['#', ';']);
        if value.is_empty() || is_comment {
            if !is_comment && let (Some(at), Some(key)) = (current, &key) {
                push(&mut sections[at].1, key, "");
            }
            continue;
        }
        let depth = line.chars().take_while(|it| it.is_whitespace()).count();
        if let (Some(at), Some(key), true) = (current, &key, depth > indent) {
            push(&mut sections[at].1, key, value);
            continue;
        }
        indent = depth;
        if let Some(name) = header(value) {
            let known = sections.iter().position(|(it, _)| it == name);
            current = Some(known.unwrap_or_else(|| {
                sections.push((name.to_owned(), Section::new()));
                sections.len() - 1
            }));
            key = None;
            continue;
        }
        let invalid = InvalidLine(number + 1);
        let at = current.ok_or(invalid)?;
        let (name, value) = value.split_once(['=', ':']).ok_or(invalid)?;
        let name = name.trim().to_lowercase();
        if name.is_empty() {
            return Err(invalid);
        }
        sections[at].1.insert(name.clone(), value.trim().to_owned());
        key = Some(name);
    }
    let common = sections.iter().position(|(name, _)| name == COMMON);
    let common = common.map(|at| sections.remove(at).1).unwrap_or_default();
    for (_, section) in &mut sections {
        for value in section.values_mut() {
            value.truncate(value.trim_end().len());
        }
        for (key, value) in &common {
            let value = value.trim_end().to_owned();
            section.entry(key.clone()).or_insert(value);
        }
    }
    Ok(sections)
}

fn push(section: &mut Section, key: &str, line: &str) {
    if let Some(value) = section.get_mut(key) {
        value.push('\n');
        value.push_str(line);
    }
}

/// The name in a section's header, up to the last bracket.
fn header(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('[')?;
    let name = &rest[..rest.rfind(']')?];
    (!name.is_empty()).then_some(name)
}

/// The keys in a value that has its lines below it, as those of a service.
pub(super) fn nested(value: &str) -> Section {
    let lines = value.lines().filter_map(|line| line.split_once('='));
    let keys = lines.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
    keys.collect()
}

/// The words of a section's name, as a shell has them; none where a quote does not end.
pub(super) fn words(name: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, ' ' | '\t' | '\r' | '\n') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), _) if letter == open => quote = None,
            (None, '\\') => word.get_or_insert_default().push(letters.next()?),
            (Some('"'), '\\') if matches!(letters.peek(), Some('"' | '\\')) => {
                word.get_or_insert_default().push(letters.next()?);
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}
