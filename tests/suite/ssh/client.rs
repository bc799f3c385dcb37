//! A minimal session in its own process: connect, attach, pass signals on.
//!
//! A shell on standard input and output cannot be tested inside the test's own process. So this
//! test binary runs itself anew, with the one test [`attached_to_standard_streams`] selected and a
//! task in the environment, between pipes or in a pseudo-terminal.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use portable_pty::CommandBuilder;
use serde::{Deserialize, Serialize};
use xdrive::signals::{End, Job, Signal, Signals};
use xdrive::ssh::escape::Question;
use xdrive::ssh::shell::{Again, Progress, ShellExit};
use xdrive::ssh::{DedicatedConnection, Received, RemoteCommand, Shell, Ssh, Target, Terminal};

use harness::Pty;
use harness::sshd::Sshd;

const TASK: &str = "XDRIVE_TEST_TASK";
/// The scripts that attach to a terminal, and to a command, on the host.
pub(super) const TERMINALS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/shell/host/terminal.py");
const COMMANDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/shell/host/command.py");

/// The task of a client.
#[derive(Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) address: std::net::SocketAddr,
    pub(super) user: String,
    host_key: String,
    user_key: String,
    pub(super) command: String,
    /// In a terminal, or between pipes.
    pub(super) terminal: bool,
    /// How many bytes of each output of a command are kept.
    pub(super) kept: u64,
    /// Whether an interrupt is a panic.
    pub(super) fragile: bool,
    /// The address of the next connection after a lost one.
    pub(super) second: Option<std::net::SocketAddr>,
    /// The file for its exit: standard output is the command's.
    report: PathBuf,
}

impl Task {
    pub(super) fn new(sshd: &Sshd, command: &str) -> Self {
        // Terminals and commands of a host are root's.
        let target = sshd.target("root");
        Self {
            address: target.address,
            user: target.user,
            host_key: target.host_key,
            user_key: sshd.user_key.private().to_owned(),
            command: command.to_owned(),
            terminal: false,
            kept: 64 << 20,
            fragile: false,
            second: None,
            report: sshd.path("report"),
        }
    }

    /// The program, its arguments and its environment.
    pub(super) fn call(&self) -> (PathBuf, [&'static str; 5], (&'static str, String)) {
        let name = test_name!(attached_to_standard_streams);
        let arguments = ["--exact", name, "--ignored", "--nocapture", "--quiet"];
        let task = serde_json::to_string(self).unwrap();
        (std::env::current_exe().unwrap(), arguments, (TASK, task))
    }

    /// A terminal with this task in it.
    pub(super) fn in_terminal(&self) -> Pty {
        let (program, arguments, (name, value)) = self.call();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env(name, value);
        Pty::start(command)
    }

    /// A command between pipes that runs this task.
    pub(super) fn piped(&self) -> Command {
        let (program, arguments, (name, value)) = self.call();
        let mut command = Command::new(program);
        command.args(arguments).env(name, value);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// A client's report of its exit.
pub(super) fn report(sshd: &Sshd) -> String {
    std::fs::read_to_string(sshd.path("report")).unwrap_or_default()
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn attached_to_standard_streams() {
    if let Ok(task) = std::env::var(TASK) {
        return attach(serde_json::from_str(&task).unwrap()).await;
    }
    // Selected as a test of its own.
    let sshd = Sshd::start();
    let mut client = Task::new(&sshd, "exit 3").piped();
    let output = client.stdin(Stdio::null()).output().unwrap();
    assert_eq!(report(&sshd), "Status(3) 3", "{output:?}");
}

async fn attach(task: Task) {
    let mut signals = Signals::install().unwrap();
    let target = Target {
        address: task.address,
        user: task.user,
        host_key: task.host_key,
        proxy: None,
        received: Received::default(),
    };
    let ssh = Ssh::connect(&target, &task.user_key).await.unwrap();
    let line = DedicatedConnection::open(&ssh).await.unwrap();
    // Both run a program with arguments.
    let command = format!("sh -c {}", xdrive::quote::quote(&task.command));
    let answers = Box::new(|question| match question {
        // It can be left running.
        Question::Detach => String::new(),
        question => format!("the answer to {question:?}"),
    });
    let mut shell = if task.terminal {
        let terminal = Terminal::new(TERMINALS, "here", &command);
        Shell::terminal(line, terminal, answers).await.unwrap()
    } else {
        let command = RemoteCommand::new(
            COMMANDS,
            "here",
            task.kept,
            ["here", "", "", "", ""],
            &command,
        );
        Shell::piped(line, command, answers, Progress::default())
            .await
            .unwrap()
    };
    let end = loop {
        tokio::select! {
            exit = shell.wait_for_exit() => match (exit, task.second) {
                (ShellExit::Lost(_), Some(second)) => {
                    shell.notice(&["a notice".to_owned()]);
                    let way = Target { address: second, ..target.clone() };
                    if let Some(end) = come_back(&mut shell, &way, &task.user_key).await {
                        break end;
                    }
                }
                (exit, _) => break format!("{exit:?} {}", exit.code()),
            },
            signal = signals.next() => match signal {
                Signal::Resize => shell.resize(),
                Signal::Job(Job::Suspend) => shell.suspend().unwrap(),
                Signal::Job(Job::Continue) => shell.resume().unwrap(),
                Signal::End(End::Interrupt { .. }) => {
                    assert!(!task.fragile, "as asked");
                }
                Signal::End(end) => break format!("{end:?}"),
            },
        }
    };
    drop(shell);
    std::fs::write(&task.report, end).unwrap();
}

/// Tries to reattach until it succeeds, or an escape is typed.
async fn come_back(shell: &mut Shell, way: &Target, key: &str) -> Option<String> {
    loop {
        let again = async {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            Ssh::connect(way, key).await
        };
        let ssh = tokio::select! {
            exit = shell.escaped() => return Some(format!("{exit:?} while away")),
            ssh = again => match ssh {
                Ok(ssh) => ssh,
                Err(_) => continue,
            },
        };
        // This connection may be lost already.
        let Ok(again) = shell.attach(&ssh).await else {
            continue;
        };
        match again {
            Again::Gone => return Some("gone".to_owned()),
            Again::Attached([0, 0]) => return None,
            Again::Attached(lost) => {
                eprintln!("lost: {lost:?}");
                return None;
            }
        }
    }
}
