//! The margin: the places in a remote's output at which xdrive may print.
//!
//! Text printed inside an escape sequence or a character would become part of it; inside a line it
//! needs a new line first. Where output is cut off inside one, it can go on only from that one's
//! first byte. Sequences are parsed by ECMA-48, section 5.4, and xterm's *Control Sequences*: those
//! that end with a letter, and strings (titles, say) that end with BEL or ST.
//! Changes and keeps no byte.

/// The longest sequence, in bytes, that counts as unfinished: enough for a clipboard or an image.
/// Some terminals end a string where this does not (Linux's console: `ESC ] R`), and what is text
/// there is shown twice when output goes on from the first byte.
const LONGEST: usize = 64 << 10;

/// Follows one stream of output.
#[derive(Debug, Default)]
pub struct Margin {
    state: State,
    is_inside_line: bool,
    /// The length of the sequence or character that the output ends in; 0 between two.
    unfinished: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// Inside a UTF-8 character, of which this many bytes are missing.
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

    /// How many bytes there are of the sequence or character that the output ends in, while it is
    /// not whole; 0 between two, and of a sequence that is too long to be one.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        match self.unfinished {
            length @ ..=LONGEST => length,
            _ => 0,
        }
    }

    /// As [`Margin::unfinished`], of a character alone: 3 at most.
    #[must_use]
    pub fn unfinished_character(&self) -> usize {
        match self.state {
            State::Character(_) => self.unfinished,
            _ => 0,
        }
    }

    /// Leaves the sequence or character that the output ends in: its rest does not follow.
    pub fn leave(&mut self) {
        self.state = State::Text;
        self.unfinished = 0;
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
        self.unfinished = match (self.state, byte) {
            (State::Text, _) => 0,
            // A first byte, which also breaks off what is before it.
            (State::Escape, _) | (State::Character(_), 0xc0..) => 1,
            _ => self.unfinished + 1,
        };
    }

    fn text(&mut self, byte: u8) -> State {
        match byte {
            b'\r' | b'\n' => self.is_inside_line = false,
            0x20..=0x7e | 0x80.. => self.is_inside_line = true,
            _ => {}
        }
        match byte {
            // RFC 3629, section 3: no character begins with another byte.
            0xc2..=0xdf => State::Character(1),
            0xe0..=0xef => State::Character(2),
            0xf0..=0xf4 => State::Character(3),
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

    /// Of a sequence or character, and of a character alone.
    fn unfinished(output: &[u8]) -> (usize, usize) {
        let mut margin = Margin::default();
        margin.watch(output);
        (margin.unfinished(), margin.unfinished_character())
    }

    #[test]
    fn an_unfinished_sequence_or_character_begins_at_its_first_byte() {
        for whole in [&b""[..], b"text", b"\x1b[1m", "é🙂".as_bytes(), b"\xff"] {
            assert_eq!(unfinished(whole), (0, 0), "{whole:?}");
        }
        assert_eq!(unfinished(b"text\x1b"), (1, 0));
        assert_eq!(unfinished(b"text\x1b[38;2;1"), (8, 0));
        assert_eq!(unfinished(b"\x1b]2;title\x1b"), (10, 0));
        assert_eq!(unfinished("\x1b]2;é".as_bytes()), (6, 0), "in a string");
        assert_eq!(unfinished(&"text🙂".as_bytes()[..7]), (3, 3));
        assert_eq!(unfinished(b"\xe6\x1b["), (2, 0), "a broken character");
        assert_eq!(unfinished(b"\x1b[3\x1b[4"), (3, 0), "a broken sequence");
        for byte in 0xc2..=0xf4 {
            assert_eq!(unfinished(&[byte; 100]), (1, 1), "Latin 1: {byte:#x}");
        }
        for byte in [0x80, 0xbf, 0xc0, 0xc1, 0xf5, 0xf7, 0xff] {
            assert_eq!(unfinished(&[byte]), (0, 0), "in no character: {byte:#x}");
        }
    }

    #[test]
    fn a_sequence_that_does_not_end_is_unfinished_up_to_a_limit() {
        let mut margin = Margin::default();
        margin.watch(b"text\x1b]2;");
        margin.watch(&vec![b'x'; LONGEST - 4]);
        assert_eq!(margin.unfinished(), LONGEST);
        margin.watch(b"x");
        assert_eq!((margin.unfinished(), margin.is_between()), (0, false));
        margin.watch(b"\x07\x1b[");
        assert_eq!(margin.unfinished(), 2, "another");
    }

    #[test]
    fn a_sequence_that_is_left_does_not_go_on() {
        for cut in [&b"\x1b[3"[..], b"\x1b]2;ti", b"\xe6\xbc"] {
            let mut margin = Margin::default();
            margin.watch(cut);
            margin.leave();
            assert!(margin.is_between(), "{cut:?}");
            assert_eq!(margin.unfinished(), 0, "{cut:?}");
        }
    }
}
