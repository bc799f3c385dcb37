//! Commands that run in the drive's container: the user's shell, and `-- CMD`.
//!
//! Nothing is run here: these are the strings for an SSH channel. A signal that is sent over SSH
//! does not reach a process behind `docker exec`, so a command first writes its process id to a
//! file, where [`super::scripts::Host::signal`] finds it.

use std::net::IpAddr;
use std::time::Duration;

use crate::ids::{DriveName, random_id};
use crate::quote::{join, quote};

/// The drive's container, running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its name, `xdrive-NAME`.
    pub name: String,
    /// Its address on the host's bridge, for forwards; no port is published.
    pub address: IpAddr,
    /// Whether it was running, started or made.
    pub came: Came,
    /// Whether its image has `JupyterLab`, if known, from the last session that asked.
    pub lab: Option<bool>,
    /// The file in it with the variables that this session brought along, if it did.
    pub variables: Option<String>,
    /// The steps and how long they took, in order.
    pub timings: Vec<(String, Duration)>,
}

/// How a container came to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// It was running.
    Running,
    /// It existed, stopped.
    Started,
    /// It is the drive's first, or the first from another image.
    Created,
    /// It was made again from its own committed image, for this reason.
    Recreated(String),
}

/// A signal for a command in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerSignal {
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-\.
    Quit,
    /// The terminal closed.
    Hangup,
    /// A request to end.
    Terminate,
}

impl ContainerSignal {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "INT",
            Self::Quit => "QUIT",
            Self::Hangup => "HUP",
            Self::Terminate => "TERM",
        }
    }
}

/// The id of one `-- CMD`, for signals to it: unique within a host's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandId(String);

impl CommandId {
    /// A new one. Fails only where the system has no randomness.
    pub fn new() -> Result<Self, getrandom::Error> {
        random_id().map(Self)
    }

    /// The id of a command that is on a host: hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_id = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self(text.to_owned()))
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The working directory of shells, commands and Jupyter: on the drive itself, not in the
/// container's layer.
pub const WORK: &str = "/work";

/// docker's detach keys. Docker's default, Ctrl-P Ctrl-Q, holds back Ctrl-P until the next key, and
/// no setting disables detaching. Ctrl-@ shows no effect before the next key in any program (Emacs
/// sets its mark), and four in a row are never typed.
const DETACH_KEYS: &str = "--detach-keys=ctrl-@,ctrl-^,ctrl-@,ctrl-_";

/// Runs bash if the image has it, else sh, as a login shell.
const LOGIN_SHELL: &str =
    "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi";

/// `$0` is the file for the process id; the rest is the command. `exec` keeps the id and lets the
/// command's exit code through, 127 and 126 included.
const RECORDED: &str = r#"echo $$ >"$0"; exec "$@""#;

/// The same; `$1` is the file with the session's variables.
const RECORDED_WITH_VARIABLES: &str = r#"echo $$ >"$0"; . "$1"; shift; exec "$@""#;

/// As [`Container::shell`], for the container of `drive` on a host that has not answered yet.
#[must_use]
pub fn shell_of(drive: &DriveName, term: &str) -> String {
    shell(&format!("xdrive-{drive}"), term, None)
}

/// `variables` is the file with the session's variables.
fn shell(container: &str, term: &str, variables: Option<&str>) -> String {
    let term = format!("TERM={term}");
    let words = ["docker", "exec", "-it", DETACH_KEYS, "-e", &term];
    let rest = ["-w", WORK, container, "sh", "-c"];
    let words = words.into_iter().chain(rest);
    match variables {
        None => join(words.chain([LOGIN_SHELL])),
        Some(file) => {
            let script = format!(r#". "$0"; {LOGIN_SHELL}"#);
            join(words.chain([script.as_str(), file]))
        }
    }
}

impl Container {
    /// The command for a [`crate::ssh::Terminal`]: the user's shell. `term` is the value of the
    /// laptop's `TERM`.
    #[must_use]
    pub fn shell(&self, term: &str) -> String {
        shell(&self.name, term, self.variables.as_deref())
    }

    /// The command for a [`crate::ssh::RemoteCommand`]: `argv`, word for word, with its own stdin,
    /// stdout, stderr and exit code.
    #[must_use]
    pub fn command(&self, id: &CommandId, argv: &[String]) -> String {
        let file = pid_file(id);
        let words = ["docker", "exec", "-i", "-w", WORK, &self.name];
        let words = words.into_iter();
        let mut command = match &self.variables {
            None => join(words.chain(["sh", "-c", RECORDED, &file])),
            Some(variables) => {
                join(words.chain(["sh", "-c", RECORDED_WITH_VARIABLES, &file, variables]))
            }
        };
        for word in argv {
            command.push(' ');
            command.push_str(&quote(word));
        }
        command
    }
}

/// The file for a command's process id, on the container's tmpfs: never part of a commit.
fn pid_file(id: &CommandId) -> String {
    format!("/run/xdrive/command.{}", id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container() -> Container {
        Container {
            name: "xdrive-demo".into(),
            address: [172, 17, 0, 2].into(),
            came: Came::Running,
            lab: None,
            variables: None,
            timings: Vec::new(),
        }
    }

    #[test]
    fn the_shell_gets_a_terminal_and_its_kind() {
        let command = container().shell("xterm-256color");
        assert!(command.starts_with("docker exec -it "), "{command}");
        assert!(command.contains(" -e 'TERM=xterm-256color' "), "{command}");
        assert!(
            container()
                .shell("x'; reboot")
                .contains(r#" "TERM=x'; reboot" "#)
        );
    }

    /// `docker` here is a program that drops docker's own words and runs the rest.
    #[test]
    fn a_command_reaches_its_program_word_for_word() {
        let argv: Vec<String> = [
            "printf",
            "%s|",
            "",
            "a b",
            "it's",
            "line\nbreak",
            "$HOME",
            "\\",
            "-x",
        ]
        .map(str::to_owned)
        .into();
        let dir = tempfile::tempdir().unwrap();
        let id = CommandId::new().unwrap();
        let file = dir.path().join("pid");
        let command = container()
            .command(&id, &argv)
            .replace(&pid_file(&id), file.to_str().unwrap());
        let docker = dir.path().join("docker");
        std::fs::write(&docker, "#!/bin/sh\nshift 5\nexec \"$@\"\n").unwrap();
        std::fs::set_permissions(&docker, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let path = format!(
            "{}:{}",
            dir.path().display(),
            std::env::var("PATH").unwrap()
        );
        let output = std::process::Command::new("sh")
            .args(["-c", &command])
            .env("PATH", path)
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "|a b|it's|line\nbreak|$HOME|\\|-x|",
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let pid = std::fs::read_to_string(file).unwrap();
        assert!(pid.trim().parse::<u32>().is_ok(), "{pid:?}");
    }
}
