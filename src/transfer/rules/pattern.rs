//! The lines of a file of rules, as git reads them.

use super::glob::{Glob, literal};

/// How git begins to read a file that an editor marked as UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The rules of one file, in order.
#[derive(Debug, Default)]
pub(super) struct Patterns(Vec<Pattern>);

/// A rule.
#[derive(Debug)]
struct Pattern {
    /// Whether it takes back what rules before it say.
    is_negated: bool,
    /// Whether it is for folders alone.
    is_for_folders: bool,
    /// Whether it is for the last name of a path alone, wherever that is.
    is_for_names: bool,
    /// The text that it begins with.
    beginning: Vec<u8>,
    rest: Rest,
}

/// The wildcards behind the text.
#[derive(Debug)]
enum Rest {
    Nothing,
    /// `*` and this text, for names: the most usual wildcard.
    Ends(Vec<u8>),
    Glob(Glob),
}

impl Patterns {
    /// Parses the content of a file. With `folds` the case of ASCII letters does not count
    /// (`core.ignoreCase`).
    pub(super) fn parse(content: &[u8], folds: bool) -> Self {
        let content = content.strip_prefix(MARK).unwrap_or(content);
        let lines = content.split(|byte| *byte == b'\n');
        Self(
            lines
                .filter_map(|line| Pattern::parse(line, folds))
                .collect(),
        )
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The word of the last rule for `path`, from the folder of the file on: whether it is ignored. Where case does not count it has no capital ASCII letters.
    pub(super) fn say(&self, path: &[u8], is_folder: bool) -> Option<bool> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let mut rules = self.0.iter().rev();
        let rule = rules.find(|it| it.matches(path, name, is_folder))?;
        Some(!rule.is_negated)
    }
}

impl Pattern {
    /// Parses a line; none if it is empty or a comment, or matches nothing.
    fn parse(line: &[u8], folds: bool) -> Option<Self> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.split(|byte| *byte == 0).next()?;
        if line.first() == Some(&b'#') {
            return None;
        }
        let line = without_spaces(line);
        let is_negated = line.first() == Some(&b'!');
        let line = &line[usize::from(is_negated)..];
        let is_for_folders = line.last() == Some(&b'/');
        let line = &line[..line.len() - usize::from(is_for_folders)];
        let is_for_names = !line.contains(&b'/');
        let line = line.strip_prefix(b"/").unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        let fold = |text: &[u8]| {
            if folds {
                text.to_ascii_lowercase()
            } else {
                text.to_vec()
            }
        };
        let (mut beginning, rest) = line.split_at(literal(line));
        let rest = match rest {
            [] => Rest::Nothing,
            [b'*', end @ ..]
                if is_for_names && beginning.is_empty() && literal(end) == end.len() =>
            {
                Rest::Ends(fold(end))
            }
            // Git compares the beginning and matches only what follows, so that `a**/b` is any b
            // below what begins with an a. A name is matched as a whole, which is the same.
            rest => Rest::Glob(Glob::parse(rest, folds)?),
        };
        if matches!(rest, Rest::Ends(_)) {
            beginning = &[];
        }
        Some(Self {
            is_negated,
            is_for_folders,
            is_for_names,
            beginning: fold(beginning),
            rest,
        })
    }

    fn matches(&self, path: &[u8], name: &[u8], is_folder: bool) -> bool {
        if self.is_for_folders && !is_folder {
            return false;
        }
        let text = if self.is_for_names { name } else { path };
        let Some(text) = text.strip_prefix(&*self.beginning) else {
            return false;
        };
        match &self.rest {
            Rest::Nothing => text.is_empty(),
            Rest::Ends(end) => text.ends_with(end),
            Rest::Glob(glob) => glob.matches(text),
        }
    }
}

/// A line without the spaces at its end that have no backslash before them.
fn without_spaces(line: &[u8]) -> &[u8] {
    let mut spaces = None;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => spaces = spaces.or(Some(at)),
            b'\\' if at + 1 == line.len() => return line,
            b'\\' => {
                at += 1;
                spaces = None;
            }
            _ => spaces = None,
        }
        at += 1;
    }
    spaces.map_or(line, |at| &line[..at])
}
