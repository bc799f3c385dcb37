//! The end of an instance's console output, as some lines of plain text.
//!
//! The output may contain colours, cursor movements and progress bars. None of that reaches the
//! user's terminal. (`console::strip_ansi_codes` drops all that follows a sequence without an end.)

/// How many lines are printed: enough for a panic and what led to it.
const LINES: usize = 30;

/// How many characters of a line are printed.
const WIDTH: usize = 160;

/// The last non-empty lines of `text`, indented, without control characters.
pub(crate) fn end(text: &str) -> String {
    let plain = plain(text);
    let lines: Vec<&str> = plain
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    let shown = &lines[lines.len().saturating_sub(LINES)..];
    let cut = |line: &&str| format!("  | {}", line.chars().take(WIDTH).collect::<String>());
    shown.iter().map(cut).collect::<Vec<_>>().join("\n")
}

/// The text without escape sequences (ECMA-48, 5.4: what begins with `ESC [` ends with a letter or
/// one of ``@[\\]^_`{|}~``) and other control characters. A carriage return ends a line too.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' if rest.peek() == Some(&'[') => {
                rest.next();
                while rest
                    .next_if(|next| matches!(next, '\u{20}'..='\u{3f}'))
                    .is_some()
                {}
                rest.next_if(|next| matches!(next, '@'..='~'));
            }
            '\u{1b}' => {
                rest.next_if(|next| !next.is_control());
            }
            '\n' | '\r' => plain.push('\n'),
            '\t' => plain.push(' '),
            character if character.is_control() => {}
            character => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{LINES, WIDTH, end};

    #[test]
    fn only_plain_text_is_left() {
        let text = "\u{1b}[0;1;31mFAILED\u{1b}[0m to mount /\r\n\n\tpanic\u{7}: no \u{1b}]init\n";
        assert_eq!(end(text), "  | FAILED to mount /\n  |  panic: no init");
        assert_eq!(end("\u{1b}[2J\u{1b}[H\n \n"), "");
        assert_eq!(end("cut \u{1b}[12"), "  | cut");
        assert_eq!(end(""), "");
    }

    #[test]
    fn it_is_the_end_that_is_shown() {
        let lines: Vec<String> = (0..1000).map(|line| format!("line {line}")).collect();
        let shown = end(&lines.join("\n"));
        assert_eq!(shown.lines().count(), LINES);
        assert!(shown.ends_with("  | line 999"), "{shown}");
        let long = end(&"x".repeat(1000));
        assert_eq!(long.chars().count(), WIDTH + "  | ".len());
    }
}
