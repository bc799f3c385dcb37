//! The terminal modes that a remote program has switched on and not off again.
//!
//! A program that ends switches its modes off itself; one whose connection was lost cannot. This
//! parses the output for the few private modes that would leave a prompt unusable (xterm's
//! *Control Sequences*: CSI ? Pm h and l), and changes no byte of it.

use std::sync::atomic::{AtomicU16, Ordering};

/// The modes that are on, by their bits. A static, because the panic hook has no other access.
static ON: AtomicU16 = AtomicU16::new(0);

/// The modes: number, final byte that switches it on, sequence that switches it off.
const MODES: [(u16, u8, &str); 11] = [
    // The alternate screens: first, so that the rest is done on the main one.
    (1049, b'h', "\x1b[?1049l"),
    (1047, b'h', "\x1b[?1047l"),
    (47, b'h', "\x1b[?47l"),
    // Mouse clicks, drags, moves; focus.
    (1000, b'h', "\x1b[?1000l"),
    (1002, b'h', "\x1b[?1002l"),
    (1003, b'h', "\x1b[?1003l"),
    (1004, b'h', "\x1b[?1004l"),
    (1006, b'h', "\x1b[?1006l"),
    // Bracketed paste, application cursor keys, and the cursor itself, which is on when visible.
    (2004, b'h', "\x1b[?2004l"),
    (1, b'h', "\x1b[?1l"),
    (25, b'l', "\x1b[?25h"),
];

/// The bits of the alternate screens: the first three modes.
const ALTERNATE: u16 = 0b111;

/// The bit of a title of xdrive's own.
const TITLE: u16 = 1 << 15;

/// The sequence that sets the terminal's title to `title`, which is plain text. The first one saves
/// the title before, which [`undo`] restores (xterm's *Control Sequences*: CSI 22 t and 23 t).
#[must_use]
pub fn title(title: &str) -> String {
    let is_first = ON.fetch_or(TITLE, Ordering::Relaxed) & TITLE == 0;
    let keep = if is_first { "\x1b[22;2t" } else { "" };
    format!("{keep}\x1b]2;{title}\x07")
}

/// Watches one stream of output.
#[derive(Default)]
pub struct Screen {
    state: State,
    /// The parameters so far, 64 bytes at most: longer lists switch no modes.
    parameters: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    Control,
    Private,
}

impl Screen {
    /// Parses what `output` switches on and off; it may be split anywhere.
    pub fn watch(&mut self, output: &[u8]) {
        let mut rest = output;
        loop {
            if self.state == State::Ground {
                let Some(escape) = rest.iter().position(|byte| *byte == 0x1b) else {
                    return;
                };
                rest = &rest[escape..];
            }
            let Some((byte, after)) = rest.split_first() else {
                return;
            };
            rest = after;
            self.step(*byte);
        }
    }

    /// Whether the terminal shows an alternate screen now, as full-screen programs use it.
    #[must_use]
    pub fn is_alternate() -> bool {
        ON.load(Ordering::Relaxed) & ALTERNATE != 0
    }

    fn step(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (_, 0x1b) => State::Escape,
            (State::Escape, b'[') => State::Control,
            (State::Escape, b'c') => {
                // Full reset.
                ON.fetch_and(TITLE, Ordering::Relaxed);
                State::Ground
            }
            (State::Control, b'?') => {
                self.parameters.clear();
                State::Private
            }
            (State::Private, b'0'..=b'9' | b';') if self.parameters.len() < 64 => {
                self.parameters.push(byte);
                State::Private
            }
            (State::Private, b'h' | b'l') => {
                self.switch(byte);
                State::Ground
            }
            _ => State::Ground,
        };
    }

    fn switch(&self, end: u8) {
        for number in self.parameters.split(|byte| *byte == b';') {
            let number = std::str::from_utf8(number)
                .ok()
                .and_then(|n| n.parse().ok());
            let Some(index) = MODES.iter().position(|mode| Some(mode.0) == number) else {
                continue;
            };
            let bit = 1 << index;
            if MODES[index].1 == end {
                ON.fetch_or(bit, Ordering::Relaxed);
            } else {
                ON.fetch_and(!bit, Ordering::Relaxed);
            }
        }
    }
}

/// The sequences that switch off what is still on, which then counts as off.
pub(super) fn undo() -> String {
    let on = ON.swap(0, Ordering::Relaxed);
    let still_on = MODES.iter().enumerate();
    let undone = still_on
        .filter(|(index, _)| on & (1 << index) != 0)
        .map(|(_, mode)| mode.2);
    let title = (on & TITLE != 0).then_some("\x1b[23;2t");
    undone.chain(title).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of what is undone: a single test, because there is one terminal in a process.
    #[test]
    fn only_what_was_left_on_is_undone_however_the_output_is_split() {
        let vim = b"text\x1b[?1049h\x1b[22;0t\x1b[?2004h\x1b[?1000;1006h\x1b[?25lbody\x1b[31m";
        for size in 1..vim.len() {
            let mut screen = Screen::default();
            for part in vim.chunks(size) {
                screen.watch(part);
            }
            screen.watch(b"\x1b[?1000l");
            let expected = "\x1b[?1049l\x1b[?1006l\x1b[?2004l\x1b[?25h";
            assert_eq!(undo(), expected, "in pieces of {size}");
            assert_eq!(undo(), "", "once only");
        }

        let mut screen = Screen::default();
        screen.watch(vim);
        assert!(Screen::is_alternate());
        screen.watch(b"\x1b[?25h\x1b[?1000;1006;2004l\x1b[?1049l");
        assert!(!Screen::is_alternate());
        assert_eq!(undo(), "", "a program that cleans up leaves nothing to do");

        screen.watch(vim);
        screen.watch(b"\x1bc");
        assert_eq!(undo(), "", "a full reset cleans up");

        assert_eq!(title("one"), "\x1b[22;2t\x1b]2;one\x07");
        assert_eq!(
            title("two"),
            "\x1b]2;two\x07",
            "the old one is put aside once"
        );
        screen.watch(b"\x1bc");
        assert_eq!(undo(), "\x1b[23;2t", "a title outlives a reset");

        screen.watch(b"\x1b[?");
        screen.watch(&[b'1'; 1000]);
        screen.watch(b"h\x1b[?h\x1b[?;h\x1b[?99999999h");
        assert_eq!(undo(), "", "nonsense is no mode");
    }
}
