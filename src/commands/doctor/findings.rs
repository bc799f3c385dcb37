//! The findings of the checks, as text of at most 80 columns and as JSON.

use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::report::{Label, Text, WIDTH};

/// The width of what stands before a check's text: mark, name, and two blanks after each.
const INDENT: usize = 19;

/// The result of a check.
pub(super) enum Check {
    Ok(String),
    /// The fault, and a hint.
    No(String, Option<String>),
    /// Why it cannot be known.
    Unknown(String),
}

/// A check and its result.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Finding {
    /// Name of the check; it may come several times.
    check: String,
    /// `no` if a session would fail by it; `unknown` if it cannot be known from here.
    #[cfg_attr(test, schemars(extend("enum" = ["ok", "no", "unknown"])))]
    result: &'static str,
    /// Finding, in words.
    text: String,
    /// Advice.
    hint: Option<String>,
}

/// A command that comes next, and what it does.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Next {
    /// Command to type.
    command: String,
    /// Effect of the command.
    does: &'static str,
}

/// The results of all checks, as `doctor --json` prints them (`src/cli/schemas/doctor.json`).
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Findings {
    /// Each check, in the order they were made: later ones need earlier ones.
    checks: Vec<Finding>,
    /// Commands that come next.
    next: Vec<Next>,
    /// Exit code of the first check that failed; 0 if none did.
    exit: u8,
}

impl Findings {
    pub(super) fn add(&mut self, check: &str, exit: Exit, found: Check) {
        let (result, text, hint) = match found {
            Check::Ok(text) => ("ok", text, None),
            Check::No(text, hint) => ("no", text, hint),
            Check::Unknown(text) => ("unknown", text, None),
        };
        if result == "no" && self.exit == 0 {
            self.exit = exit.code();
        }
        self.checks.push(Finding {
            check: check.to_owned(),
            result,
            text,
            hint,
        });
    }

    pub(super) fn add_failure(&mut self, check: &str, failure: Failure) {
        let text = format!("{:#}", failure.error);
        self.add(check, failure.exit, Check::No(text, failure.hint));
    }

    /// Adds what to type next; `command` is how xdrive is called.
    pub(super) fn add_next(&mut self, command: &str) {
        let next = |arguments: &str, does| Next {
            command: format!("{command} {arguments}"),
            does,
        };
        self.next = if self.exit == 0 {
            vec![
                next(
                    "connect demo --dry-run",
                    "what would be launched, and its price",
                ),
                next("connect demo", "a shell on a drive called demo"),
                next("list", "what there is, and what it costs"),
            ]
        } else {
            vec![next(
                "doctor",
                "again, once what is marked \"no\" is mended",
            )]
        };
    }

    /// The exit code.
    pub(super) fn exit(&self) -> u8 {
        self.exit
    }

    pub(super) fn text(&self) -> Text {
        let mut text = Text::default();
        for finding in &self.checks {
            let mark = match finding.result {
                "unknown" => " ?",
                mark => mark,
            };
            let mut head = format!("{mark}  {:13}  ", finding.check);
            for line in wrap(&finding.text, WIDTH - INDENT) {
                text.push(&Text::block(&format!("{head}{line}\n")));
                head = " ".repeat(INDENT);
            }
            let mut head = Text::block(&" ".repeat(INDENT));
            head.push(&Text::label(Label::Hint));
            head.push(" ");
            for line in finding
                .hint
                .iter()
                .flat_map(|it| wrap(it, WIDTH - INDENT - 6))
            {
                text.push(&head);
                text.push(&Text::block(&format!("{line}\n")));
                head = Text::block(&" ".repeat(INDENT + 6));
            }
        }
        text.push(&Text::block("\nnext:\n"));
        let width = self.next.iter().map(|next| next.command.len()).max();
        let width = width.unwrap_or_default();
        for Next { command, does } in &self.next {
            text.push(&Text::block(&if width + does.len() + 4 <= WIDTH {
                format!("  {command:width$}  {does}\n")
            } else {
                format!("  {command}\n    {does}\n")
            }));
        }
        text
    }
}

/// Breaks `text` into lines of at most `width` characters. A command between backticks is broken
/// only where no line has room for it, so that a shell takes what is copied.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words(text) {
        for (index, part) in parts(&word, width).into_iter().enumerate() {
            let length = part.chars().count();
            match lines.last_mut() {
                Some(line) if index == 0 && (used == 0 || used + 1 + length <= width) => {
                    if used > 0 {
                        line.push(' ');
                        used += 1;
                    }
                    line.push_str(&part);
                    used += length;
                }
                _ => {
                    used = length;
                    lines.push(part);
                }
            }
        }
    }
    lines
}

/// A word as it is; the parts of a command that is longer than `width`. Each but the last ends with
/// a backslash, and none within quotes.
fn parts(word: &str, width: usize) -> Vec<String> {
    if word.chars().count() <= width {
        return vec![word.to_owned()];
    }
    let mut quote = None;
    let arguments = word.split(|c: char| {
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            _ => {}
        }
        quote.is_none() && c == ' '
    });
    let mut parts: Vec<String> = Vec::new();
    for argument in arguments {
        let length = argument.chars().count();
        match parts.last_mut() {
            // With room for the backslash.
            Some(part) if part.chars().count() + length + 3 <= width => {
                part.push(' ');
                part.push_str(argument);
            }
            last => {
                if let Some(part) = last {
                    part.push_str(" \\");
                }
                parts.push(argument.to_owned());
            }
        }
    }
    parts
}

/// The words of `text`; what stands between backticks belongs to one.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut is_command = false;
    for c in text.chars() {
        is_command ^= c == '`';
        if is_command || !c.is_whitespace() {
            word.push(c);
        } else if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = ("xdrive doctor --json", "What the checks found.");
        crate::report::schema::check::<Findings>("doctor", title, description);
    }

    #[test]
    fn lines_break_between_words_and_not_within_a_command() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("one  two\nthree", 80), ["one two three"]);
        assert_eq!(
            wrap("type `aws iam list-roles` once", 20),
            ["type", "`aws iam list-roles`", "once"]
        );
        assert_eq!(
            wrap("type `aws iam list-roles` once", 16),
            ["type `aws iam \\", "list-roles` once"]
        );
        assert_eq!(
            wrap("`aws configure set x 'aws configure'`", 20),
            ["`aws configure set \\", "x 'aws configure'`"]
        );
        assert_eq!(wrap("indivisible", 4), ["indivisible"]);
        assert_eq!(wrap("an `open end", 80), ["an `open end"]);
        assert_eq!(wrap("", 80), [""]);
    }

    #[test]
    fn the_first_failure_decides_the_exit_code_and_what_comes_next() {
        let mut findings = Findings::default();
        findings.add("config", Exit::Config, Check::Ok("there".to_owned()));
        findings.add("clock", Exit::Failed, Check::Unknown("late".to_owned()));
        findings.add_next("xdrive");
        assert_eq!(findings.exit(), 0);
        assert!(
            findings
                .text()
                .to_string()
                .contains("\n  xdrive connect demo --dry-run  ")
        );
        findings.add("rights", Exit::Denied, Check::No("none".to_owned(), None));
        findings.add("region", Exit::Config, Check::No("none".to_owned(), None));
        findings.add_next("xdrive");
        assert_eq!(findings.exit(), Exit::Denied.code());
        assert!(
            findings.text().to_string().ends_with(
                "\nnext:\n  xdrive doctor  again, once what is marked \"no\" is mended\n"
            )
        );
    }
}
