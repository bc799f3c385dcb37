//! The margin: the places in a remote's output at which xdrive may print.
//!
//! Text printed inside an escape sequence or a character would become part of it; inside a line it
//! needs a new line first. Sequences are parsed by ECMA-48, section 5.4, and xterm's *Control
//! Sequences*: those that end with a letter, and strings (titles, say) that end with BEL or ST.
//! Changes and keeps no byte.

/// Follows one stream of output.
#[derive(Debug, Default)]
pub struct Margin {
    state: State,
    is_inside_line: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// This many bytes of a UTF-8 character are missing.
    Character(u8),
    Escape,
    /// `ESC` and intermediate bytes: the next other byte is its last.
    Short,
    Control,
    String,
    /// A string, in which an ESC was seen: `\` ends it.
    StringEscape,
}

impl Margin {
    /// Parses `output`, which may be split anywhere.
    pub fn watch(&mut self, output: &[u8]) {
        for byte in output {
            self.step(*byte);
        }
    }

    /// Whether other text may be printed here.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.state == State::Text
    }

    /// Whether the line has text already.
    #[must_use]
    pub fn is_inside_line(&self) -> bool {
        self.is_inside_line
    }

    fn step(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            // Cancels a sequence.
            (_, 0x18 | 0x1a)
            | (State::String, 0x07)
            | (State::StringEscape, b'\\')
            // Ends a sequence or character.
            | (State::Control, 0x40..=0x7e)
            | (State::Character(1), 0x80..=0xbf) => State::Text,
            (State::String, 0x1b) => State::StringEscape,
            (State::String, _)
            | (State::Escape | State::StringEscape, b']' | b'P' | b'X' | b'^' | b'_') => {
                State::String
            }
            (_, 0x1b) => State::Escape,
            (State::Escape | State::StringEscape, b'[') | (State::Control, _) => State::Control,
            (State::Escape | State::StringEscape | State::Short, 0x20..=0x2f) => State::Short,
            (State::Escape | State::StringEscape | State::Short, _) => State::Text,
            (State::Character(left), 0x80..=0xbf) => State::Character(left - 1),
            (State::Text | State::Character(_), _) => self.text(byte),
        };
    }

    fn text(&mut self, byte: u8) -> State {
        match byte {
            b'\r' | b'\n' => self.is_inside_line = false,
            0x20..=0x7e | 0x80.. => self.is_inside_line = true,
            _ => {}
        }
        match byte {
            0xc0..=0xdf => State::Character(1),
            0xe0..=0xef => State::Character(2),
            0xf0..=0xf7 => State::Character(3),
            _ => State::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(output: &[u8]) -> (bool, bool) {
        let mut margin = Margin::default();
        margin.watch(output);
        (margin.is_between(), margin.is_inside_line())
    }

    #[test]
    fn a_line_has_begun_when_something_stands_in_it() {
        assert_eq!(after(b""), (true, false));
        assert_eq!(after(b"text"), (true, true));
        assert_eq!(after(b"text\r\n"), (true, false));
        assert_eq!(after(b"progress 10 %\r"), (true, false));
        assert_eq!(after(b"\x1b[1m\x1b[0m\x07"), (true, false));
        assert_eq!(after("é".as_bytes()), (true, true));
    }

    #[test]
    fn nothing_is_put_into_a_sequence_or_a_character() {
        let whole: [&[u8]; 7] = [
            b"\x1b[38;5;1m",
            b"\x1b[?1049h",
            b"\x1b]2;a title\x07",
            b"\x1b]2;a title\x1b\\",
            b"\x1bP1$r0m\x1b\\",
            b"\x1b(B",
            "🙂".as_bytes(),
        ];
        for sequence in whole {
            for end in 1..sequence.len() {
                assert!(!after(&sequence[..end]).0, "{:?}", &sequence[..end]);
            }
            assert!(after(sequence).0, "{sequence:?}");
        }
        assert!(after(b"\x1b]2;cut off\x18").0, "cancelled");
        assert!(after(b"\x1bM").0);
        assert!(after(b"\xc3text").0, "not UTF-8");
    }
}
