//! A terminal on the host that outlives the connection it is shown through: the commands that
//! attach to it, and its answer. The other side is `shell/host/terminal.py`.
//!
//! The first line is the answer; what follows is the output of the terminal's command, byte for
//! byte, and the command's exit status is the channel's. Nothing may be typed before that line: the
//! channel's own terminal would show it a second time.

use xdrive_ground::quote::quote;

/// The beginning of the first line.
pub(super) const PREFIX: &str = "xdrive: terminal=";

/// A terminal that the host keeps for its callers, known by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    program: String,
    name: String,
    command: String,
}

/// A terminal's answer to an attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// The terminal was started.
    New,
    /// The terminal was there already. Its output follows from this byte on: a later one than
    /// requested if the host does not keep that any more.
    Same(u64),
    /// The terminal has ended, and its command with it.
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

impl Attached {
    /// Parses the answer behind [`PREFIX`].
    pub(super) fn parse(answer: &str) -> Option<Self> {
        let (how, from) = answer.split_once(' ')?;
        let from = from.parse().ok()?;
        match how {
            "new" => Some(Self::New),
            "same" => Some(Self::Same(from)),
            "none" => Some(Self::Gone),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_are_understood() {
        assert_eq!(Attached::parse("same 17"), Some(Attached::Same(17)));
        for nonsense in ["same x", "old 1", "new", ""] {
            assert_eq!(Attached::parse(nonsense), None, "{nonsense}");
        }
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
