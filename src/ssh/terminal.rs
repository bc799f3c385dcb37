//! A terminal on the host that outlives the connection it is shown through: the words that attach
//! to it, and what it answers. The other side is `shell/host/terminal.py`.
//!
//! The first line says how the terminal is; what follows is its command's output, byte for byte,
//! and the command's exit status is the channel's. Nothing may be typed before that line: the
//! channel's own terminal would show it a second time.

use bytes::{Bytes, BytesMut};

use crate::quote::quote;

/// What the first line begins with.
const SAYS: &[u8] = b"xdrive: terminal=";
/// A first line that is longer is none.
const LONGEST: usize = 200;

/// One terminal of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    program: String,
    name: String,
    command: String,
}

/// How a terminal is, to whoever has just attached to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// It was started.
    New,
    /// It was there already. What follows is its output from this byte on: a later one than was
    /// asked for if that is not kept any more.
    Same(u64),
    /// It is gone, and its command with it.
    Gone,
}

impl Terminal {
    /// The terminal `name` (of a host, for ever: a word without slashes), in which `command` (the
    /// words of a shell) runs. `program` is where `shell/host/terminal.py` is on that host.
    #[must_use]
    pub fn new(program: &str, name: &str, command: &str) -> Self {
        Self {
            program: program.to_owned(),
            name: name.to_owned(),
            command: command.to_owned(),
        }
    }

    /// The words that start it, and attach to it.
    pub(super) fn start(&self) -> String {
        format!("{} {}", self.attach(0), self.command)
    }

    /// The words that attach to the one that the host chooses for the session `name`, once that has
    /// arrived there.
    pub(super) fn arrive(&self) -> String {
        format!("{} {}", self.words("arrive"), self.command)
    }

    /// The words that attach to it again, after `seen` bytes of its output.
    pub(super) fn attach(&self, seen: u64) -> String {
        format!("{} {seen}", self.words("attach"))
    }

    fn words(&self, verb: &str) -> String {
        // Isolated: neither the environment nor a folder chooses what is imported.
        let Self { program, name, .. } = self;
        format!(
            "exec python3 -I -S {} {verb} {}",
            quote(program),
            quote(name)
        )
    }

    /// The words of its command.
    pub(super) fn command(&self) -> &str {
        &self.command
    }
}

/// Reads the first line as it arrives.
#[derive(Debug, Default)]
pub(super) struct FirstLine {
    said: BytesMut,
}

impl FirstLine {
    /// Takes more of what the host says: the answer once it is there, with what follows it; an
    /// error as soon as it cannot be one any more.
    pub(super) fn take(&mut self, data: &[u8]) -> Result<Option<(Attached, Bytes)>, String> {
        self.said.extend_from_slice(data);
        let Some(end) = self.said.iter().position(|byte| *byte == b'\n') else {
            let known = self.said.len().min(SAYS.len());
            return if self.said[..known] == SAYS[..known] && self.said.len() < LONGEST {
                Ok(None)
            } else {
                Err(self.words())
            };
        };
        let line = self.said.split_to(end + 1);
        match parse(&line) {
            Some(attached) => Ok(Some((attached, self.said.split().freeze()))),
            None => Err(String::from_utf8_lossy(&line).trim().to_owned()),
        }
    }

    /// What it said instead of its answer.
    pub(super) fn words(&self) -> String {
        String::from_utf8_lossy(&self.said).trim().to_owned()
    }
}

fn parse(line: &[u8]) -> Option<Attached> {
    let line = std::str::from_utf8(line.strip_prefix(SAYS)?).ok()?;
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
        let said = b"xdrive: terminal=same 17\nxdrive: terminal=none 0\n";
        for size in 1..said.len() {
            let mut line = FirstLine::default();
            let mut pieces = said.chunks(size);
            let (attached, mut rest) = loop {
                if let Some((attached, rest)) = line.take(pieces.next().unwrap()).unwrap() {
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
        let error = line.take(b"sh: 1: exec: python3: not found\r\n");
        assert_eq!(error.unwrap_err(), "sh: 1: exec: python3: not found");
        for nonsense in ["xdrive: terminal=same x\n", "xdrive: terminal=old 1\n"] {
            assert!(FirstLine::default().take(nonsense.as_bytes()).is_err());
        }
        let endless = format!("xdrive: terminal={}", "1".repeat(LONGEST));
        assert!(FirstLine::default().take(endless.as_bytes()).is_err());
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
