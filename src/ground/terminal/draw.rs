//! The text that xdrive itself draws on a terminal: the lines of a notice, and an empty screen.
//!
//! Nothing is printed here: the text goes the way of the remote's output, in its order.

use crossterm::Command;
use crossterm::cursor::{MoveTo, RestorePosition, SavePosition};
use crossterm::style::{Attribute, SetAttribute};
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};

/// `line` in reverse in the last of `rows` rows, with the cursor where it was.
#[must_use]
pub fn last_row(line: &str, rows: u16) -> String {
    Drawing::default()
        .add(SavePosition)
        .add(MoveTo(0, rows.saturating_sub(1)))
        .add(SetAttribute(Attribute::Reset))
        .add(SetAttribute(Attribute::Reverse))
        .text(line)
        .add(Clear(ClearType::UntilNewLine))
        .add(SetAttribute(Attribute::Reset))
        .add(RestorePosition)
        .0
}

/// The alternate screen with nothing but `lines` on it, the cursor below them.
#[must_use]
pub fn alternate_screen(lines: &[String]) -> String {
    Drawing::default()
        .add(EnterAlternateScreen)
        .empty()
        .lines(lines)
        .text("\r\n")
        .0
}

/// `lines` in place of those that [`alternate_screen`] drew, with the cursor where it was.
#[must_use]
pub fn redrawn(lines: &[String]) -> String {
    Drawing::default()
        .add(SavePosition)
        .lines(lines)
        .add(RestorePosition)
        .0
}

/// The main screen again, as it was.
#[must_use]
pub fn main_screen() -> String {
    Drawing::default().add(LeaveAlternateScreen).0
}

/// An empty screen.
#[must_use]
pub fn empty_screen() -> String {
    Drawing::default().empty().0
}

#[derive(Default)]
struct Drawing(String);

impl Drawing {
    fn add(mut self, command: impl Command) -> Self {
        let written = command.write_ansi(&mut self.0);
        written.expect("a text takes whatever is written to it");
        self
    }

    fn text(mut self, text: &str) -> Self {
        self.0.push_str(text);
        self
    }

    fn empty(self) -> Self {
        self.add(SetAttribute(Attribute::Reset))
            .add(MoveTo(0, 0))
            .add(Clear(ClearType::All))
    }

    /// `lines` below an empty first row, indented.
    fn lines(self, lines: &[String]) -> Self {
        lines
            .iter()
            .fold(self.add(MoveTo(0, 0)), |drawing, line| {
                drawing
                    .text("\r\n  ")
                    .text(line)
                    .add(Clear(ClearType::UntilNewLine))
            })
            .text("\r\n")
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    /// A terminal of 4 rows and 20 columns.
    fn terminal() -> vt100::Parser {
        let size = |count| NonZero::new(count).unwrap();
        vt100::Parser::new(size(4), size(20), 0)
    }

    /// The rows of the terminal once `text` was printed.
    fn rows(terminal: &mut vt100::Parser, text: &str) -> Vec<String> {
        terminal.process(text.as_bytes());
        terminal.screen().rows(0, 20).collect()
    }

    #[test]
    fn a_line_in_the_last_row_leaves_all_else_and_the_cursor() {
        let mut terminal = terminal();
        let shown = rows(&mut terminal, "one\r\ntwo\r\n\r\nlast and long\x1b[2;3H");
        assert_eq!(shown, ["one", "two", "", "last and long"]);
        let shown = rows(&mut terminal, &last_row("notice", 4));
        assert_eq!(shown, ["one", "two", "", "notice"]);
        assert_eq!(terminal.screen().cursor_position(), (1, 2));
        assert!(terminal.screen().cell(3, 0).unwrap().inverse());
        rows(&mut terminal, "\x1b[3;1Hplain");
        assert!(!terminal.screen().cell(2, 0).unwrap().inverse());
    }

    #[test]
    fn lines_on_the_alternate_screen_are_replaced_and_go_with_it() {
        let mut terminal = terminal();
        rows(&mut terminal, "before");
        let line = |text: &str| [text.to_owned()];
        let shown = rows(&mut terminal, &alternate_screen(&line("90 s left")));
        assert_eq!(shown, ["", "  90 s left", "", ""]);
        let shown = rows(&mut terminal, "resume?");
        assert_eq!(shown, ["", "  90 s left", "", "resume?"]);
        let shown = rows(&mut terminal, &redrawn(&line("5 s left")));
        assert_eq!(shown, ["", "  5 s left", "", "resume?"]);
        assert_eq!(terminal.screen().cursor_position(), (3, 7));
        assert_eq!(rows(&mut terminal, &main_screen()), ["before", "", "", ""]);
        assert_eq!(rows(&mut terminal, &empty_screen()), ["", "", "", ""]);
    }
}
