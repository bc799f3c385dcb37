//! Commands that run in a container of the drive: the user's shell, and `-- CMD`.
//!
//! Nothing is run here: these are the strings for an SSH channel, which call `shell/host/enter.py`.
//! A signal that is sent over SSH does not reach a process in a container, so a command first
//! writes its process id to a file, where [`super::scripts::Host::signal`] finds it.

use std::net::IpAddr;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::bundle::python;
use crate::ids::{ContainerName, DriveName, random_id};
use crate::quote::{join, quote};

/// A container of the drive, running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The container's name on the drive; none for the main one.
    pub named: Option<ContainerName>,
    /// Docker's name of it, `xdrive-DRIVE` or `xdrive-DRIVE..NAME`.
    pub name: String,
    /// The container's address on the host's bridge, for forwards; no port is published.
    pub address: IpAddr,
    /// Whether it was running, started or made.
    pub came: Came,
    /// Whether its image has `JupyterLab`, if known, from the last session that asked.
    pub lab: Option<bool>,
    /// Whether it has Docker's socket.
    pub docker: bool,
    /// The file in it with the variables that this session brought along, if it did.
    pub variables: Option<String>,
    /// The configuration for Git that this session brings along, if it does.
    pub git: Option<String>,
    /// The file on its host with the words of this session's command, if they were sent ahead.
    pub words: Option<String>,
    /// The steps and how long they took, in order.
    pub timings: Vec<(String, Duration)>,
}

/// The bytes of a command that are sent as they are: sshd has a shell read all of it as one argument,
/// which Linux limits to 128 KiB, and quoting may lengthen it fourfold.
const SHORT: usize = 16 << 10;

/// The bytes that are sent ahead of a command with these words: each word with a NUL behind it.
/// None for a short command.
pub(super) fn ahead(argv: &[String]) -> Option<Vec<u8>> {
    let bytes: usize = argv.iter().map(|word| word.len() + 1).sum();
    if bytes <= SHORT {
        return None;
    }
    let words = argv.iter().map(|word| [word.as_bytes(), b"\0"].concat());
    Some(words.collect::<Vec<_>>().concat())
}

/// How a container came to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// The container was running.
    Running,
    /// The container existed, stopped.
    Started,
    /// The container is the first of its name.
    Created,
    /// The container is the first from another image. The former one is an image of this name.
    Replaced(String),
    /// The container was made again from its own committed image, for this reason.
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

    /// The id's digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Runs bash if the image has it, else sh, as a login shell; by the words before it, if there are some.
const LOGIN_SHELL: &str =
    r#"if command -v bash >/dev/null 2>&1; then exec "$@" bash -l; else exec "$@" sh -l; fi"#;

/// The command for the user's shell without a terminal, which runs what it reads.
#[must_use]
pub fn shell_without_terminal() -> Vec<String> {
    ["sh", "-c", LOGIN_SHELL].map(str::to_owned).into()
}

/// Where nothing names a locale, what is typed and drawn is UTF-8: glibc has this one since 2.35
/// and Debian before that, and musl has no other. That of this computer may be missing in the image.
const LOCALE: &str = r#"[ -n "${LC_ALL-}${LC_CTYPE-}${LANG-}" ] || export LANG=C.UTF-8; "#;

/// `$0` is the file for the process id; the rest is the command. `exec` keeps the id and lets the
/// command's exit code through, 127 and 126 included.
const RECORDED: &str = r#"echo $$ >"$0"; exec "$@""#;

/// As [`RECORDED`], but `$1` is the file with the session's variables, which may put words before
/// the command.
const RECORDED_WITH_VARIABLES: &str = r#"echo $$ >"$0"; . "$1"; shift; exec "$@""#;

/// As [`Container::terminal`], for a shell in the main container of `drive` on a host that has not answered
/// yet.
#[must_use]
pub fn shell_of(drive: &DriveName, terminal: &[String], git: Option<&str>) -> String {
    let name = format!("xdrive-{drive}");
    in_terminal(&name, terminal, &[], (None, git, None))
}

/// The folder in the container for configurations of Git.
const GIT: &str = "/run/xdrive/git";

/// The path in the container of this configuration of Git. Depends only on its content, so that a
/// shell that was left finds it again.
#[must_use]
pub fn git_file(config: &str) -> String {
    let digest = Sha256::digest(config);
    format!("{GIT}/{}", hex::encode(&digest[..8]))
}

/// The beginning of a script: writes [`git_file`], and makes it Git's system configuration, which
/// all others outrank. Does nothing if the container sets `GIT_CONFIG_SYSTEM`, or if another user
/// owns the folder. The lock makes `git config --system` fail: its change would end with the
/// session.
fn with_git(config: Option<&str>) -> String {
    let Some(config) = config else {
        return String::new();
    };
    let (file, config) = (git_file(config), quote(config));
    format!(
        "[ -n \"${{GIT_CONFIG_SYSTEM-}}\" ] || {{ (umask 022; mkdir -p {GIT} && [ -O {GIT} ] && \
         {{ [ -e {file} ] || printf %s {config} >{file}; }} && : >{file}.lock) 2>/dev/null && \
         export GIT_CONFIG_SYSTEM={file}; }}; "
    )
}

/// `argv` in a terminal with these variables, or the user's shell if it is empty. `variables` is the
/// file with the session's own, `git` its configuration for Git.
fn in_terminal(
    container: &str,
    terminal: &[String],
    argv: &[String],
    (variables, git, file): (Option<&str>, Option<&str>, Option<&str>),
) -> String {
    let git = with_git(git);
    let reads = variables.map_or("", |_| r#". "$1"; shift; "#);
    let argv = if file.is_some() { &[] } else { argv };
    let program = if argv.is_empty() && file.is_none() {
        LOGIN_SHELL
    } else {
        r#"exec "$@""#
    };
    let script = format!("{git}{reads}{LOCALE}{program}");
    let terminal = terminal.iter().flat_map(|variable| ["-e", variable]);
    let words = ["-t"].into_iter().chain(terminal);
    let words = words.chain(file.into_iter().flat_map(|file| ["-w", file]));
    let words = words.chain([container, "sh", "-c", &script, "sh"]);
    let words = words.chain(variables);
    entered(&join(words.chain(argv.iter().map(String::as_str))))
}

/// The command that runs in a container; `words` are those of `enter.py`, quoted.
fn entered(words: &str) -> String {
    format!("{} {words}", python("enter.py"))
}

impl Container {
    /// The command for a [`crate::ssh::Terminal`]: `argv`, word for word, or the user's shell if it is
    /// empty. `terminal` are the variables of the terminal here, as `NAME=VALUE`.
    #[must_use]
    pub fn terminal(&self, terminal: &[String], argv: &[String]) -> String {
        let file = self.words.as_deref();
        let own = (self.variables.as_deref(), self.git.as_deref(), file);
        in_terminal(&self.name, terminal, argv, own)
    }

    /// The command for a [`crate::ssh::RemoteCommand`]: `argv`, word for word, with its own stdin,
    /// stdout, stderr and exit code. `variables` are `NAME=VALUE`, in its environment.
    #[must_use]
    pub fn command(&self, id: &CommandId, variables: &[String], argv: &[String]) -> String {
        let file = pid_file(id);
        let ahead = self.words.as_deref();
        let words = variables.iter().flat_map(|variable| ["-e", variable]);
        let words = words.chain(ahead.into_iter().flat_map(|file| ["-w", file]));
        let words = words.chain([self.name.as_str(), "sh", "-c"]);
        let git = with_git(self.git.as_deref());
        let mut command = entered(&match &self.variables {
            None => join(words.chain([format!("{git}{RECORDED}").as_str(), &file])),
            Some(variables) => {
                let script = format!("{git}{RECORDED_WITH_VARIABLES}");
                join(words.chain([script.as_str(), &file, variables]))
            }
        });
        for word in argv.iter().filter(|_| ahead.is_none()) {
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
            named: None,
            name: "xdrive-demo".into(),
            address: [172, 17, 0, 2].into(),
            came: Came::Running,
            lab: None,
            docker: false,
            variables: None,
            git: None,
            words: None,
            timings: Vec::new(),
        }
    }

    /// Runs `script` in `sh -c`, with a folder in place of the container's tmpfs; returns the
    /// output.
    fn ran(script: &str, folder: &std::path::Path, system: &str) -> String {
        let script = script.replace("/run/xdrive", folder.to_str().unwrap());
        let mut sh = std::process::Command::new("sh");
        sh.args(["-c", &script]).env("GIT_CONFIG_SYSTEM", system);
        String::from_utf8(sh.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn git_has_what_is_brought_unless_the_container_says_where_to_look() {
        let folder = tempfile::tempdir().unwrap();
        let config = "[user]\n\tname = \"it's me\"\n";
        let script = format!("{}git config user.name", with_git(Some(config)));
        let no_other = "export HOME=/nowhere XDG_CONFIG_HOME=/nowhere; cd /; ";
        let script = format!("{no_other}{script}");
        for _ in 0..2 {
            assert_eq!(ran(&script, folder.path(), ""), "it's me\n");
        }
        assert_eq!(ran(&script, folder.path(), "/dev/null"), "");
        let writing = format!("{script}; git config --system a.b c || echo refused");
        assert_eq!(ran(&writing, folder.path(), ""), "it's me\nrefused\n");
        // A process may outlive the file: Git then has no configuration of its system, and no more.
        let file = git_file(config).replace("/run/xdrive", folder.path().to_str().unwrap());
        std::fs::remove_file(&file).unwrap();
        let ident = "GIT_AUTHOR_NAME=own GIT_AUTHOR_EMAIL=o git var GIT_AUTHOR_IDENT";
        let without =
            format!("{no_other}git config user.name || echo $?; {ident} | cut -d ' ' -f 1");
        assert_eq!(ran(&without, folder.path(), &file), "1\nown\n");
        // Where nothing can be written the shell opens all the same.
        let nowhere = std::path::Path::new("/proc/nowhere");
        let opens = format!("{no_other}{}echo open", with_git(Some(config)));
        assert_eq!(ran(&opens, nowhere, ""), "open\n");
    }

    #[test]
    fn the_shell_gets_a_terminal_and_its_kind() {
        let terminal = ["TERM=xterm-256color", "COLORTERM=truecolor"].map(str::to_owned);
        let command = container().terminal(&terminal, &[]);
        assert!(command.contains("/enter.py -t -e "), "{command}");
        let variables = " -e 'TERM=xterm-256color' -e 'COLORTERM=truecolor' ";
        assert!(command.contains(variables), "{command}");
        let odd = container().terminal(&["TERM=x'; reboot".to_owned()], &[]);
        assert!(odd.contains(r#" "TERM=x'; reboot" "#), "{odd}");
    }

    /// `python3` here is a program that drops the words up to the container's and runs the rest.
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
            .command(&id, &["A=1".to_owned()], &argv)
            .replace(&pid_file(&id), file.to_str().unwrap());
        let python = dir.path().join("python3");
        harness::write_script(&python, "#!/bin/sh\nshift 6\nexec \"$@\"\n");
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

    /// The fault: sshd's shell refused 100 KB, and 300 KB ended the connection.
    #[test]
    fn long_words_are_sent_ahead() {
        let argv = ["echo".to_owned(), "it's ".repeat(20_000)];
        let text = ahead(&argv).unwrap();
        assert_eq!(text, format!("{}\0{}\0", argv[0], argv[1]).as_bytes());
        let container = Container {
            words: Some("/run/xdrive/words/1a".into()),
            ..container()
        };
        let id = CommandId::new().unwrap();
        for command in [
            container.command(&id, &["A=1".to_owned()], &argv),
            container.terminal(&[], &argv),
        ] {
            assert!(command.len() < 1000, "{command}");
            let command = command.replace('\'', "");
            let words = "-w /run/xdrive/words/1a xdrive-demo sh -c ";
            assert!(command.contains(words), "{command}");
        }
        assert_eq!(ahead(&argv[..1]), None);
    }
}
