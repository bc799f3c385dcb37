//! The calls of scripts as text, and the scripts without a host: what they do where that needs
//! none.

mod archive;
mod closing;
mod enter;
mod idle;
mod logs;
mod shares;
mod tmpfs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{DIRECTORY, call};
use crate::host::ports::JUPYTER_PORT;

/// The folder of the scripts.
const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/shell/host");

/// The command that runs the scripts in Python.
const PYTHON: [&str; 4] = ["python3", "-I", "-S", "-B"];

/// The text of a script.
fn text(name: &str) -> String {
    fs::read_to_string(Path::new(HOST).join(name)).unwrap()
}

/// Folders of this computer's in place of a host's, and the scripts that use them.
struct Folders(tempfile::TempDir);

impl Folders {
    fn new() -> Self {
        let new = Self(tempfile::tempdir().unwrap());
        for folder in ["scripts", "run", "lib", "drive/xdrive"] {
            fs::create_dir_all(new.path(folder)).unwrap();
        }
        for script in fs::read_dir(HOST).unwrap() {
            let name = script.unwrap().file_name().into_string().unwrap();
            // Python keeps what it compiled there, unless it is told not to.
            if name != "__pycache__" {
                new.write(&name, &text(&name));
            }
        }
        new
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a script that uses them.
    fn write(&self, name: &str, text: &str) {
        let own = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let text = text
            .replace("/run/xdrive", &own("run"))
            .replace("/var/lib/xdrive", &own("lib"))
            .replace("/v1/xdrive", &own("drive/xdrive"));
        fs::write(self.path("scripts").join(name), text).unwrap();
    }

    /// Runs a script to its end, without standard input.
    fn run(&self, program: &[&str], name: &str, words: &[&str]) -> Output {
        let mut command = self.command(program, name, words);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a script to its end; its standard input is open until then.
    fn run_with_input(&self, program: &[&str], name: &str, words: &[&str]) -> Output {
        let mut command = self.command(program, name, words);
        let (input, _open) = std::io::pipe().unwrap();
        command.stdin(input).output().unwrap()
    }

    fn command(&self, program: &[&str], name: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program[0]);
        command
            .args(&program[1..])
            .arg(self.path("scripts").join(name))
            .args(words);
        command
    }
}

#[test]
fn inputs_are_quoted() {
    assert_eq!(
        call("close", &[("XDRIVE_REASON", "it's over"), ("XDRIVE_X", "")]),
        format!(
            r#"XDRIVE_REASON="it's over" XDRIVE_X='' sh {}/close"#,
            *DIRECTORY
        )
    );
}

#[test]
fn jupyter_has_one_port() {
    let line = format!("\nPORT={JUPYTER_PORT}\n");
    assert!(text("container").contains(&line), "{line}");
    let line = format!("\nc.ServerApp.port = {JUPYTER_PORT}\n");
    assert!(text("jupyter_config.py").contains(&line), "{line}");
}

#[test]
fn a_shell_waits_for_its_session_as_long_as_that_waits_to_be_attached() {
    assert!(text("terminal.py").contains("\nTIMEOUT = 20 "));
    assert!(text("session").contains("\n    flock -w 20 6 || fail "));
}

/// The output of a script about the keeper at the other end of a socket.
fn printed_of_a_keeper(script: &str) -> String {
    let script = format!(
        "import signal, socket, keeper\n\
         caller, kept = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
         {script}"
    );
    let output = Command::new("timeout")
        .args(["20", "python3", "-B", "-c", &script])
        .env("PYTHONPATH", HOST)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_exit_status_outlives_a_message_that_its_keeper_never_read() {
    let script = "caller.send(b'w'); kept.send(b'5'); kept.close()\n\
                  print(keeper.status(caller), keeper.status(caller))";
    assert_eq!(printed_of_a_keeper(script), "5 255\n");
}

/// The keeper has ended by the time that the new size is sent to it.
#[test]
fn an_exit_status_outlives_a_size_that_comes_with_it() {
    let script = "resized = keeper.announce_sizes()\n\
                  kept.send(b'5'); kept.close()\n\
                  signal.raise_signal(signal.SIGWINCH)\n\
                  print(keeper.status(caller, resized))";
    assert_eq!(printed_of_a_keeper(script), "5\n");
}
