//! The images that a Dockerfile names (Docker's documentation, *Dockerfile reference*).
//!
//! Only what leads to their names is read: the escape directive, `ARG` before the first stage, `FROM`,
//! and `--from` and `--mount` of other instructions. A name that only the build knows, and whatever is
//! no Dockerfile, is left out here: the build says what is wrong with it.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// The image that is empty, which no registry has.
const SCRATCH: &str = "scratch";

/// The images that the stage `target` needs, or without one the last stage: each once. `arguments` are
/// the build's.
pub(super) fn images(
    text: &str,
    target: Option<&str>,
    arguments: &[(String, String)],
) -> Vec<String> {
    let stages = stages(text, arguments);
    let mut images = Vec::new();
    let last = match target {
        Some(target) => place(&stages, target),
        None => stages.len().checked_sub(1),
    };
    let mut needed: Vec<usize> = last.into_iter().collect();
    let mut seen = Vec::new();
    while let Some(number) = needed.pop() {
        if seen.contains(&number) {
            continue;
        }
        seen.push(number);
        for source in &stages[number].sources {
            match place(&stages[..number], source) {
                Some(stage) => needed.push(stage),
                None if is_image(source) && !images.contains(source) => images.push(source.clone()),
                None => {}
            }
        }
    }
    images
}

/// A stage of a Dockerfile.
struct Stage {
    name: String,
    /// The stages and images that the stage begins with and copies from.
    sources: Vec<String>,
}

/// The place of the stage with this name or number; of several that with the highest.
fn place(stages: &[Stage], name: &str) -> Option<usize> {
    let named = |stage: &Stage| !name.is_empty() && stage.name.eq_ignore_ascii_case(name);
    let number = || name.parse().ok().filter(|number| *number < stages.len());
    stages.iter().rposition(named).or_else(number)
}

/// Whether it may be an image's name, and none that has variables or is of a kind of its own.
fn is_image(name: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_known)
        && name != SCRATCH
}

fn stages(text: &str, given: &[(String, String)]) -> Vec<Stage> {
    let escape = escape(text);
    let mut arguments = Arguments::default();
    let mut stages: Vec<Stage> = Vec::new();
    for Instruction { keyword, rest } in instructions(text, escape) {
        let words = words(&rest, escape);
        match (keyword.as_str(), stages.last_mut()) {
            ("ARG", None) => {
                for word in words {
                    arguments.declare(word, given, escape);
                }
            }
            ("FROM", _) => {
                let mut words = words.into_iter().skip_while(|word| word.starts_with("--"));
                let base = words.next().and_then(|it| arguments.expand(it, escape));
                let is_named = words.next().is_some_and(|it| it.eq_ignore_ascii_case("AS"));
                let name = words.next().filter(|_| is_named).unwrap_or_default();
                stages.push(Stage {
                    name: name.to_owned(),
                    sources: base.into_iter().collect(),
                });
            }
            (_, Some(stage)) => {
                let flags = words.iter().take_while(|word| word.starts_with("--"));
                stage.sources.extend(flags.filter_map(|flag| from(flag)));
            }
            (_, None) => {}
        }
    }
    stages
}

/// The stage or image that a flag of an instruction copies from.
fn from(flag: &str) -> Option<String> {
    let source = match flag.split_once('=')? {
        ("--from", source) => Some(source),
        ("--mount", fields) => fields.split(',').find_map(|it| it.strip_prefix("from=")),
        _ => None,
    };
    source.map(str::to_owned)
}

/// The character that continues a line and takes its meaning from the one after it. A directive may
/// name another: before anything else, even before a comment.
fn escape(text: &str) -> char {
    for line in lines(text) {
        let directive = line
            .trim_start()
            .strip_prefix('#')
            .and_then(|it| it.split_once('='));
        let Some((key, value)) = directive else {
            break;
        };
        match key.trim().to_ascii_lowercase().as_str() {
            "escape" if value.trim() == "`" => return '`',
            "syntax" | "check" => {}
            _ => break,
        }
    }
    '\\'
}

/// Splits the text into lines, without the space at their ends, and without the mark of its
/// encoding.
fn lines(text: &str) -> impl Iterator<Item = &str> + Clone {
    let lines = text.trim_start_matches('\u{feff}').lines();
    lines.map(str::trim_end)
}

/// An instruction: its first word in capitals, and the rest of all its lines.
struct Instruction {
    keyword: String,
    rest: String,
}

fn instructions(text: &str, escape: char) -> Vec<Instruction> {
    // Also between the lines of one instruction these have no meaning.
    let has_meaning = |line: &&str| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#')
    };
    let mut lines = lines(text);
    let mut found = Vec::new();
    while let Some(first) = lines.by_ref().find(has_meaning) {
        let (mut whole, mut line) = (String::new(), first);
        while let Some(start) = line.strip_suffix(escape)
            && !start.ends_with(escape)
        {
            whole.push_str(start);
            line = lines.by_ref().find(has_meaning).unwrap_or_default();
        }
        whole.push_str(line);
        let whole = whole.trim();
        let (keyword, rest) = whole.split_once(char::is_whitespace).unwrap_or((whole, ""));
        let instruction = Instruction {
            keyword: keyword.to_ascii_uppercase(),
            rest: rest.trim().to_owned(),
        };
        if matches!(instruction.keyword.as_str(), "RUN" | "COPY" | "ADD") {
            for end in instruction.rest.split_whitespace().filter_map(document) {
                // One that never ends is none.
                let mut after = lines.clone();
                if after.any(|line| line.trim_start_matches('\t') == end) {
                    lines = after;
                }
            }
        }
        found.push(instruction);
    }
    found
}

/// The last line of the document that this word begins (`<<EOF`, *Here-Documents*).
fn document(word: &str) -> Option<&str> {
    let begin = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let end = begin.strip_prefix("<<")?;
    let end = end.strip_prefix('-').unwrap_or(end);
    let quoted = |quote: char| end.strip_prefix(quote)?.strip_suffix(quote);
    let end = quoted('"').or_else(|| quoted('\'')).unwrap_or(end);
    let is_word = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    (!end.is_empty() && end.chars().all(is_word)).then_some(end)
}

/// The words of a text, with their quotes.
fn words(text: &str, escape: char) -> Vec<&str> {
    let (mut quote, mut is_escaped) = (None, false);
    let ends = |c: char| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match quote {
            _ if c == escape && quote != Some('\'') => is_escaped = true,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            Some(begun) if c == begun => quote = None,
            _ => {}
        }
        quote.is_none() && c.is_whitespace()
    };
    text.split(ends).filter(|word| !word.is_empty()).collect()
}

/// The arguments that were declared before the first stage.
#[derive(Default)]
struct Arguments(BTreeMap<String, Value>);

/// The value of an argument; none if it has none.
type Value = Option<String>;

impl Arguments {
    /// Declares one: `NAME` or `NAME=DEFAULT`. The build's own value outranks a default.
    fn declare(&mut self, word: &str, given: &[(String, String)], escape: char) {
        let (name, default) = match word.split_once('=') {
            Some((name, default)) => (name, Some(default)),
            None => (word, None),
        };
        let own = given.iter().find(|(key, _)| key == name);
        let value = match (own, default) {
            (Some((_, value)), _) => Some(value.clone()),
            // With what only the build knows it has no value that an image's name may have.
            (None, Some(default)) => {
                let default = self.expand(default, escape);
                Some(default.unwrap_or_else(|| "$".to_owned()))
            }
            (None, None) => self.0.get(name).cloned().flatten(),
        };
        self.0.insert(name.to_owned(), value);
    }

    /// The word with its variables replaced and without its quotes; none if only the build knows
    /// what it is.
    fn expand(&self, word: &str, escape: char) -> Option<String> {
        let mut expansion = Expansion {
            rest: word.chars().peekable(),
            arguments: self,
            escape,
        };
        expansion.until(None)
    }

    /// The value of a variable; none if only the build knows that, such as the platform.
    fn value(&self, name: &str) -> Option<Value> {
        match self.0.get(name) {
            Some(value) => Some(value.clone()),
            None if name.starts_with("TARGET") || name.starts_with("BUILD") => None,
            None => Some(None),
        }
    }
}

/// The expansion of a word.
struct Expansion<'a> {
    rest: Peekable<Chars<'a>>,
    arguments: &'a Arguments,
    escape: char,
}

impl Expansion<'_> {
    /// Expands the word up to `end`, or to its own end.
    fn until(&mut self, end: Option<char>) -> Option<String> {
        let is_quoted = end == Some('"');
        let mut done = String::new();
        while let Some(c) = self.rest.next() {
            match c {
                _ if Some(c) == end => return Some(done),
                '"' => done.push_str(&self.until(Some('"'))?),
                '\'' if !is_quoted => loop {
                    match self.rest.next()? {
                        '\'' => break,
                        c => done.push(c),
                    }
                },
                '$' => done.push_str(&self.variable()?),
                _ if c == self.escape => {
                    let next = self.rest.next()?;
                    if is_quoted && !matches!(next, '"' | '$') && next != c {
                        done.push(c);
                    }
                    done.push(next);
                }
                _ => done.push(c),
            }
        }
        end.is_none().then_some(done)
    }

    /// A variable, after its `$`.
    fn variable(&mut self) -> Option<String> {
        let has_braces = self.rest.next_if_eq(&'{').is_some();
        let mut name = String::new();
        while let Some(c) = self
            .rest
            .next_if(|c| c.is_ascii_alphanumeric() || *c == '_')
        {
            name.push(c);
        }
        if name.is_empty() {
            return None;
        }
        let value = self.arguments.value(&name)?;
        if !has_braces {
            return Some(value.unwrap_or_default());
        }
        let is_strict = self.rest.next_if_eq(&':').is_some();
        let value = value.filter(|value| !is_strict || !value.is_empty());
        match self.rest.next()? {
            '}' if !is_strict => Some(value.unwrap_or_default()),
            '-' => {
                let default = self.until(Some('}'))?;
                Some(value.unwrap_or(default))
            }
            '+' => {
                let other = self.until(Some('}'))?;
                Some(value.map(|_| other).unwrap_or_default())
            }
            // `?` ends the build, and patterns are read by it alone.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pairs.collect()
    }

    #[test]
    fn a_stage_needs_the_images_that_it_begins_with_and_copies_from() {
        let text = "\
FROM --platform=$BUILDPLATFORM reg.example/build:1 AS Build
RUN --mount=type=bind,from=reg.example/tools,target=/tools make
from docker.io/library/python:3@sha256:0 as unused
FROM scratch AS empty
FROM build
COPY --chown=1:1 --from=empty /a /a
COPY --from=reg.example/files /b /b
COPY --from=0 /c --from=reg.example/none /c
ADD --from=$LATER /d /d
";
        let last = images(text, None, &[]);
        assert_eq!(
            last,
            [
                "reg.example/files",
                "reg.example/build:1",
                "reg.example/tools"
            ]
        );
        let unused = ["docker.io/library/python:3@sha256:0"];
        assert_eq!(images(text, Some("UNUSED"), &[]), unused);
        assert_eq!(images(text, Some("1"), &[]), unused);
        assert!(images(text, Some("empty"), &[]).is_empty());
        assert!(images(text, Some("gone"), &[]).is_empty());
        // A stage is named only after it.
        assert_eq!(images("FROM a AS a\nFROM a AS b", None, &[]), ["a"]);
        assert_eq!(images("FROM b\nFROM x AS b", Some("0"), &[]), ["b"]);
    }

    #[test]
    fn lines_go_on_and_comments_and_documents_are_no_instructions() {
        let plain =
            "\u{feff}# syntax = docker/dockerfile:1\r\n\r\n  FROM \\\r\n # FROM no\r\n\r\n  a\r\n";
        assert_eq!(images(plain, None, &[]), ["a"]);
        let other = "# Escape = `\nFROM a`\n:1 AS x\nRUN dir c:\\\nFROM x";
        assert_eq!(images(other, None, &[]), ["a:1"]);
        // After a comment it is no directive.
        let late = "# a comment\n# escape=`\nFROM a \\\n AS x\nFROM x";
        assert_eq!(images(late, None, &[]), ["a"]);
        let documents = "FROM a AS x\nRUN <<EOF cat <<-\"END\"\nFROM b\nEOF\n\tFROM c\n\tEND\n\
                         RUN echo '<<x' \"a <<b\" 3<<4\nCOPY <<E /file\nFROM d\nE\nFROM x";
        assert_eq!(images(documents, None, &[]), ["a"]);
        assert_eq!(images("FROM a \\\\\nAS x\nFROM x", None, &[]), ["x"]);
        assert!(images("RUN true\nARG X", None, &[]).is_empty());
        assert!(images("", None, &[]).is_empty());
        assert!(images("FROM \\", None, &[]).is_empty());
    }

    #[test]
    fn arguments_before_the_first_stage_are_replaced() {
        let base = |from: &str| {
            let text = format!(
                "ARG A=one B=\"t\\\"w o\" EMPTY=\nARG C=${{A}}-$NONE'$A' UNSET\nARG OWN=1\nARG P=$TARGETARCH\n\
                 FROM {from}\nARG A=later"
            );
            let images = images(&text, None, &given(&[("OWN", "mine"), ("NONE", "no")]));
            images.into_iter().next()
        };
        for (from, expected) in [
            ("x:$A", "x:one"),
            ("x:${A}y", "x:oney"),
            ("\"x\":'y'$OWN", "x:ymine"),
            ("x:${UNSET:-${A:-z}}", "x:one"),
            ("x:${EMPTY:-d}${EMPTY-d}", "x:d"),
            ("x${A:+:a}${UNSET+:b}${EMPTY+c}${EMPTY:+d}", "x:ac"),
            ("x$UNSET$NONE", "x"),
        ] {
            assert_eq!(base(from).as_deref(), Some(expected), "{from}");
        }
        for unknown in [
            "$TARGETARCH/x",
            "x:$P",
            "x:$C",
            "x:$B",
            "x:${A:?why}",
            "x:${A#o}",
            "x:${A",
            "x:$",
            "\"x${UNSET:-\"}\"",
            "x:\\$A",
            "'x",
        ] {
            assert_eq!(base(unknown), None, "{unknown}");
        }
        // A stage's own arguments are for what follows in it.
        assert!(images("FROM a\nARG X=b\nFROM $X", None, &[]).is_empty());
        assert_eq!(images("ARG X\nARG X=a\nFROM $X", None, &[]), ["a"]);
    }
}
