//! Escape sequences, as in ssh: `~` at the start of a line, and then a character.
//!
//! A pure function from typed bytes to their meaning. It runs before the queue to the host, so that
//! `~.` works when nothing can be sent any more.

use bytes::{Bytes, BytesMut};

use super::line::{Edit, Line};

/// A piece of typed input: bytes for the host, or an escape.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub enum Typed {
    /// For the host.
    Send(Bytes),
    /// `~.`: end the session.
    End,
    /// `~d`: leave the host running.
    Detach,
    /// `~f`: freeze what runs, and save.
    Freeze,
    /// `~^Z`: suspend xdrive.
    Suspend,
    /// `~#`, `~$`, or a whole line of `~C`: a question to the session.
    Ask(Question),
    /// `~C`: a line to the session begins. Until it is asked or abandoned nothing is for the host.
    Line,
    /// A piece of the line's echo, to be shown as it is typed.
    Echo(String),
    /// The line is given up.
    Abandoned,
    /// `~?`: list the escapes.
    Help,
}

/// A question of the user's to the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// `~#`: which local ports lead where.
    Forwards,
    /// `~$`: what the session costs so far.
    Cost,
    /// `~d`: why the session cannot be left running; nothing if it can.
    Detach,
    /// `~f`: why the session cannot be frozen; nothing if it can.
    Freeze,
    /// `~C` was typed: what stands above the line, if anything does.
    Prompt,
    /// `~C`: what a line asks for.
    Line(String),
}

impl Question {
    /// The escape to show before the answer; empty for a line, which was shown as it was typed.
    #[must_use]
    pub(super) fn escape(&self) -> &'static str {
        match self {
            Self::Forwards => "~#",
            Self::Cost => "~$",
            Self::Detach => "~d",
            Self::Freeze => "~f",
            Self::Prompt | Self::Line(_) => "",
        }
    }
}

/// Answers a [`Question`], in lines of text.
pub type Answers = Box<dyn Fn(Question) -> String + Send>;

/// The list that `~?` shows, for a terminal in raw mode.
pub const HELP: &str = "~?\r\n\
    Escapes, at the start of a line:\r\n \
    ~.   end the session and save\r\n \
    ~d   leave it running and go\r\n \
    ~f   freeze what runs, save and go (--freeze)\r\n \
    ~#   list the forwarded ports\r\n \
    ~C   forward more of them, or fewer: -L, -R, -KL, -KR\r\n \
    ~$   what the session costs so far\r\n \
    ~^Z  suspend xdrive\r\n \
    ~?   this list\r\n \
    ~~   the character ~\r\n";

/// Reads escapes out of a stream of typed bytes.
#[derive(Debug)]
pub struct Escapes {
    state: State,
    /// The line of `~C`, while it is typed.
    line: Option<Line>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    LineStart,
    Tilde,
    Inside,
}

impl Default for Escapes {
    fn default() -> Self {
        Self {
            state: State::LineStart,
            line: None,
        }
    }
}

impl Escapes {
    /// The pieces of `typed`, in order. Nothing after an end, a detach or a freeze is read.
    pub fn read(&mut self, typed: &[u8]) -> Vec<Typed> {
        let mut asked = Vec::new();
        let mut plain = BytesMut::with_capacity(typed.len() + 1);
        for byte in typed {
            if let Some(line) = &mut self.line {
                let typed = match line.read(*byte) {
                    None => continue,
                    Some(Edit::Echo(text)) => Typed::Echo(text),
                    Some(Edit::Abandoned) => Typed::Abandoned,
                    Some(Edit::Entered(text)) => Typed::Ask(Question::Line(text)),
                };
                if !matches!(typed, Typed::Echo(_)) {
                    self.line = None;
                }
                asked.push(typed);
                continue;
            }
            let escape = match (self.state, byte) {
                (State::LineStart, b'~') => {
                    self.state = State::Tilde;
                    continue;
                }
                (State::Tilde, b'.') => Typed::End,
                (State::Tilde, b'd') => Typed::Detach,
                (State::Tilde, b'f') => Typed::Freeze,
                (State::Tilde, b'#') => Typed::Ask(Question::Forwards),
                (State::Tilde, b'$') => Typed::Ask(Question::Cost),
                (State::Tilde, b'C') => {
                    self.line = Some(Line::default());
                    Typed::Line
                }
                (State::Tilde, 0x1a) => Typed::Suspend,
                (State::Tilde, b'?') => Typed::Help,
                (state, byte) => {
                    if state == State::Tilde && *byte != b'~' {
                        plain.extend_from_slice(b"~");
                    }
                    plain.extend_from_slice(&[*byte]);
                    self.state = match byte {
                        b'\r' | b'\n' => State::LineStart,
                        _ => State::Inside,
                    };
                    continue;
                }
            };
            // As in ssh, another escape may follow at once.
            self.state = State::LineStart;
            let end = matches!(escape, Typed::End | Typed::Detach | Typed::Freeze);
            if !plain.is_empty() {
                asked.push(Typed::Send(plain.split().freeze()));
            }
            asked.push(escape);
            if end {
                return asked;
            }
        }
        if !plain.is_empty() {
            asked.push(Typed::Send(plain.freeze()));
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(bytes: &'static [u8]) -> Typed {
        Typed::Send(Bytes::from_static(bytes))
    }

    fn read(typed: &[u8]) -> Vec<Typed> {
        Escapes::default().read(typed)
    }

    #[test]
    fn escapes_are_read_only_at_the_start_of_a_line() {
        assert_eq!(read(b"~."), [Typed::End]);
        assert_eq!(read(b"ls\r~.ignored"), [send(b"ls\r"), Typed::End]);
        assert_eq!(read(b"ls ~.\r"), [send(b"ls ~.\r")]);
        assert_eq!(read(b"~?~\x1a"), [Typed::Help, Typed::Suspend]);
        let questions = [Question::Forwards, Question::Cost].map(Typed::Ask);
        assert_eq!(read(b"~#~$"), questions);
        assert_eq!(read(b"a\r~dignored"), [send(b"a\r"), Typed::Detach]);
        assert_eq!(read(b"~fignored"), [Typed::Freeze]);
    }

    #[test]
    fn a_tilde_that_is_no_escape_reaches_the_host() {
        assert_eq!(read(b"~/bin\r"), [send(b"~/bin\r")]);
        assert_eq!(read(b"~~.\r"), [send(b"~.\r")]);
        assert_eq!(read(b"~\r~."), [send(b"~\r"), Typed::End]);
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(read(&all), [Typed::Send(Bytes::from(all.clone()))]);
    }

    #[test]
    fn a_line_to_the_session_is_not_for_the_host() {
        let echo = |text: &str| Typed::Echo(text.to_owned());
        let line = |text: &str| Typed::Ask(Question::Line(text.to_owned()));
        assert_eq!(
            read(b"ls\r~C~.\rid\r"),
            [
                send(b"ls\r"),
                Typed::Line,
                echo("~"),
                echo("."),
                line("~."),
                send(b"id\r")
            ]
        );
        // Another escape may follow at once.
        let given_up = [Typed::Line, Typed::Abandoned, Typed::End];
        assert_eq!(read(b"~C\x03~."), given_up);
        assert_eq!(read(b"~C\r"), [Typed::Line, line("")]);
        assert_eq!(read(b"ls ~C\r"), [send(b"ls ~C\r")]);
    }

    #[test]
    fn an_escape_may_arrive_a_byte_at_a_time() {
        let mut escapes = Escapes::default();
        assert_eq!(escapes.read(b"\r"), [send(b"\r")]);
        assert_eq!(escapes.read(b"~"), []);
        assert_eq!(escapes.read(b"."), [Typed::End]);
    }
}
