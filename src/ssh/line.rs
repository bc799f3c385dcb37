//! A line that is typed to the session, in a terminal in raw mode: its editing, and its echo.
//!
//! A pure function from typed bytes to what becomes of them. It knows as much of editing as a
//! terminal's own line does: Backspace, Ctrl-U, Ctrl-C. The keys that send sequences do nothing.

/// The longest line, in characters: a forward between two hosts with long names.
const LONGEST: usize = 255;

/// The effect of a typed byte on the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// Text to show.
    Echo(String),
    /// The line is whole.
    Entered(String),
    /// The line is given up.
    Abandoned,
}

/// The line so far.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: String,
    key: Key,
}

/// Where in a key's sequence the typed bytes are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Key {
    #[default]
    Plain,
    Escape,
    Sequence,
}

impl Line {
    /// The next typed byte; none if it changes nothing.
    pub(super) fn read(&mut self, byte: u8) -> Option<Edit> {
        match (self.key, byte) {
            (_, 0x03) => return Some(Edit::Abandoned),
            (_, b'\r' | b'\n') => return Some(Edit::Entered(std::mem::take(&mut self.text))),
            (Key::Plain, 0x1b) => self.key = Key::Escape,
            (Key::Plain, _) => return self.edit(byte),
            (Key::Escape, b'[' | b'O') => self.key = Key::Sequence,
            (Key::Sequence, 0x20..=0x3f) => {}
            (Key::Escape | Key::Sequence, _) => self.key = Key::Plain,
        }
        None
    }

    fn edit(&mut self, byte: u8) -> Option<Edit> {
        match byte {
            0x04 if self.text.is_empty() => Some(Edit::Abandoned),
            0x08 | 0x7f => {
                self.text.pop()?;
                Some(Edit::Echo(RUBOUT.to_owned()))
            }
            0x15 => {
                let length = std::mem::take(&mut self.text).len();
                (length > 0).then(|| Edit::Echo(RUBOUT.repeat(length)))
            }
            b' '..=b'~' if self.text.len() < LONGEST => {
                self.text.push(char::from(byte));
                Some(Edit::Echo(char::from(byte).to_string()))
            }
            _ => None,
        }
    }
}

/// Removes the character before the cursor from the screen.
const RUBOUT: &str = "\x08 \x08";

#[cfg(test)]
mod tests {
    use super::*;

    /// The echo of what is typed, and how the line ended, if it did.
    fn typed(bytes: &[u8]) -> (String, Option<Edit>) {
        let mut line = Line::default();
        let mut shown = String::new();
        for byte in bytes {
            match line.read(*byte) {
                Some(Edit::Echo(text)) => shown.push_str(&text),
                None => {}
                end => return (shown, end),
            }
        }
        (shown, None)
    }

    fn entered(bytes: &[u8]) -> String {
        match typed(bytes) {
            (_, Some(Edit::Entered(line))) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_is_edited_as_a_terminal_does() {
        let whole = Some(Edit::Entered("-L 80".to_owned()));
        assert_eq!(typed(b"-L 80\rrest"), ("-L 80".to_owned(), whole));
        assert_eq!(entered(b"-L 81\x7f0\x08\x080\n"), "-L 0");
        assert_eq!(entered(b"\x7fnonsense\x15-L 1\r"), "-L 1");
        assert_eq!(typed(b"ab\x15").0, format!("ab{0}{0}", "\x08 \x08"));
        assert_eq!(
            entered(&[[b'x'; 300].as_slice(), b"\r"].concat()).len(),
            LONGEST
        );
    }

    #[test]
    fn it_can_be_given_up() {
        for bytes in [&b"-L 80\x03"[..], b"\x04", b"\x1b\x03", b"\x1b[1\x03"] {
            assert_eq!(typed(bytes).1, Some(Edit::Abandoned), "{bytes:?}");
        }
        assert_eq!(typed(b"-L\x04").1, None, "no end of the input");
    }

    #[test]
    fn keys_that_send_sequences_and_what_is_no_ascii_do_nothing() {
        assert_eq!(
            entered(b"a\x1b[A\x1bOPb\x1b[200~c\x1b[201~\x1bxd\t\xc3\xa4\r"),
            "abcd"
        );
    }
}
