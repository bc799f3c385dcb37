//! A terminal on the host that outlives the connection it is shown through: the commands that
//! attach to it, and its answer. The other side is `shell/host/terminal.py`.
//!
//! The first line is the answer; what follows is the output of the terminal's command, byte for
//! byte, and the command's exit status is the channel's. Nothing may be typed before that line: the
//! channel's own terminal would show it a second time.

use bytes::{Bytes, BytesMut};

use crate::quote::quote;

/// The beginning of the first line.
const PREFIX: &[u8] = b"xdrive: terminal=";
/// The longest that a first line may be, in bytes.
const LONGEST: usize = 200;

/// One terminal of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    program: String,
    name: String,
    command: String,
}

/// A terminal's answer to an attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// It was started.
    New,
    /// It existed. Its output follows from this byte on: a later one than requested if the host
    /// does not keep that any more.
    Same(u64),
    /// It has ended, and its command with it.
    Gone,
}

impl Terminal {
    /// The terminal `name` of a host, in which `command`, a string for a shell, runs. The name has
    /// no slashes and is never used again. `program` is the path of `shell/host/terminal.py` on
    /// that host.
    #[must_use]
    pub fn new(program: &str, name: &str, command: &str) -> Self {
        Self {
            program: program.to_owned(),
            name: name.to_owned(),
            command: command.to_owned(),
        }
    }

    /// The command that starts it, and attaches to it.
    pub(super) fn start(&self) -> String {
        format!("{} {}", self.attach(0), self.command)
    }

    /// The command that attaches to the one that the host chooses for the session `name`, once the
    /// session has arrived there.
    pub(super) fn arrive(&self) -> String {
        format!("{} {}", self.call("arrive"), self.command)
    }

    /// The command that attaches to it again, after `seen` bytes of its output.
    pub(super) fn attach(&self, seen: u64) -> String {
        format!("{} {seen}", self.call("attach"))
    }

    fn call(&self, verb: &str) -> String {
        // Isolated: neither the environment nor a folder decides what is imported.
        let Self { program, name, .. } = self;
        format!(
            "exec python3 -I -S {} {verb} {}",
            quote(program),
            quote(name)
        )
    }

    /// The command that runs in it.
    pub(super) fn command(&self) -> &str {
        &self.command
    }
}

/// The first line, as it arrives.
#[derive(Debug, Default)]
pub(super) struct FirstLine {
    read: BytesMut,
}

impl FirstLine {
    /// Reads more of the host's output: the answer once the line is whole, with what follows it; an
    /// error as soon as it cannot become one.
    pub(super) fn read(&mut self, data: &[u8]) -> Result<Option<(Attached, Bytes)>, String> {
        self.read.extend_from_slice(data);
        let Some(end) = self.read.iter().position(|byte| *byte == b'\n') else {
            let known = self.read.len().min(PREFIX.len());
            return if self.read[..known] == PREFIX[..known] && self.read.len() < LONGEST {
                Ok(None)
            } else {
                Err(self.text())
            };
        };
        let line = self.read.split_to(end + 1);
        match parse(&line) {
            Some(attached) => Ok(Some((attached, self.read.split().freeze()))),
            None => Err(String::from_utf8_lossy(&line).trim().to_owned()),
        }
    }

    /// What was read so far, as text for an error.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.read).trim().to_owned()
    }
}

fn parse(line: &[u8]) -> Option<Attached> {
    let line = std::str::from_utf8(line.strip_prefix(PREFIX)?).ok()?;
    let (how, from) = line.trim_end().split_once(' ')?;
    let from = from.parse().ok()?;
    match how {
        "new" => Some(Attached::New),
        "same" => Some(Attached::Same(from)),
        "none" => Some(Attached::Gone),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read_however_it_is_split_and_the_rest_kept() {
        let output = b"xdrive: terminal=same 17\nxdrive: terminal=none 0\n";
        for size in 1..output.len() {
            let mut line = FirstLine::default();
            let mut pieces = output.chunks(size);
            let (attached, mut rest) = loop {
                if let Some((attached, rest)) = line.read(pieces.next().unwrap()).unwrap() {
                    break (attached, rest.to_vec());
                }
            };
            pieces.for_each(|piece| rest.extend_from_slice(piece));
            assert_eq!(attached, Attached::Same(17));
            assert_eq!(rest, b"xdrive: terminal=none 0\n");
        }
    }

    #[test]
    fn a_host_that_cannot_have_terminals_is_quoted() {
        let mut line = FirstLine::default();
        let error = line.read(b"sh: 1: exec: python3: not found\r\n");
        assert_eq!(error.unwrap_err(), "sh: 1: exec: python3: not found");
        for nonsense in ["xdrive: terminal=same x\n", "xdrive: terminal=old 1\n"] {
            assert!(FirstLine::default().read(nonsense.as_bytes()).is_err());
        }
        let endless = format!("xdrive: terminal={}", "1".repeat(LONGEST));
        assert!(FirstLine::default().read(endless.as_bytes()).is_err());
    }

    #[test]
    fn starting_names_the_command_and_attaching_again_never_does() {
        let terminal = Terminal::new("/x/terminal.py", "session-1", "sh -c 'echo it'");
        assert_eq!(
            terminal.start(),
            "exec python3 -I -S /x/terminal.py attach session-1 0 sh -c 'echo it'"
        );
        assert_eq!(
            terminal.attach(5),
            "exec python3 -I -S /x/terminal.py attach session-1 5"
        );
    }
}
