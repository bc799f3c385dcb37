//! xdrive while it runs, and how it ended.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use super::SESSION;
use crate::folded::unfolded;
use harness::eventually_within;

/// A running xdrive; killed when dropped.
pub(crate) struct Running {
    child: Child,
    readers: Option<[JoinHandle<Vec<u8>>; 2]>,
    pub(super) errors_file: Option<PathBuf>,
    printed: Arc<Mutex<Vec<u8>>>,
}

/// How xdrive ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    /// Starts `command`, reading its standard output and error unless they go elsewhere.
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let stderr = child.stderr.take();
        let printed = Arc::<Mutex<Vec<u8>>>::default();
        let prints = Arc::clone(&printed);
        let readers = Some([
            std::thread::spawn(move || read(stdout, &prints)),
            std::thread::spawn(move || {
                stderr.map_or_else(Vec::new, |stderr| read(stderr, &Mutex::default()))
            }),
        ]);
        Self {
            child,
            readers,
            errors_file: None,
            printed,
        }
    }

    /// Waits until standard output has `text`.
    pub(crate) fn prints(&mut self, text: &str) {
        let printed = || String::from_utf8_lossy(&self.printed.lock().unwrap()).into_owned();
        eventually_within(
            SESSION,
            || format!("{text:?} in\n{}", printed()),
            || printed().contains(text),
        );
    }

    /// Waits until standard error has `text`.
    pub(crate) fn reports(&mut self, text: &str) {
        let file = self.errors_file.clone().unwrap();
        let report = || fs::read_to_string(&file).unwrap();
        let child = &mut self.child;
        eventually_within(
            SESSION,
            || format!("{text:?} in\n{}", report()),
            || {
                let found = report().contains(text);
                let ended = child.try_wait().unwrap().is_some();
                assert!(found || !ended || report().contains(text), "{}", report());
                found || report().contains(text)
            },
        );
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends `signal` until two count as insisting, not as the command's, which prints "caught" for
    /// each: on a busy machine more than two seconds may pass in between.
    pub(crate) fn insists(&mut self, signal: Signal) {
        let file = self.errors_file.clone().unwrap();
        let caught = |printed: &[u8]| String::from_utf8_lossy(printed).matches("caught").count();
        let mut seen = 0;
        eventually_within(
            SESSION,
            || fs::read_to_string(&file).unwrap(),
            || {
                let now = caught(&self.printed.lock().unwrap());
                if now > seen {
                    seen = now;
                    self.signal(signal);
                }
                fs::read_to_string(&file)
                    .unwrap()
                    .contains("container stopped")
            },
        );
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        let mut status = None;
        let file = self.errors_file.take();
        let report = || file.as_ref().map(|file| fs::read_to_string(file).unwrap());
        let child = &mut self.child;
        eventually_within(
            SESSION,
            || format!("the end of xdrive: {:?}", report()),
            || {
                status = child.try_wait().unwrap();
                status.is_some()
            },
        );
        let [stdout, stderr] = self.readers.take().unwrap();
        let text = |reader: JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&reader.join().unwrap()).into_owned()
        };
        let stderr = text(stderr);
        Ended {
            status: status.unwrap(),
            stdout: text(stdout),
            stderr: report().unwrap_or(stderr),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The end of a process whose output is all text.
    pub(crate) fn from_output(output: Output) -> Self {
        Self {
            status: output.status,
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The output with each finding of `xdrive doctor` in one line.
    pub(crate) fn unfolded(mut self) -> Self {
        self.stdout = unfolded(&self.stdout);
        self
    }

    /// The exit code, as a shell would have it.
    pub(crate) fn code(&self) -> i32 {
        let signal = || 128 + self.status.signal().unwrap();
        self.status.code().unwrap_or_else(signal)
    }

    /// Checks its exit code; a failure shows its output.
    pub(crate) fn is(&self, code: i32) -> &Self {
        assert_eq!(self.code(), code, "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Checks that its standard output has this text.
    pub(crate) fn prints(&self, text: &str) -> &Self {
        assert!(
            self.stdout.contains(text),
            "no {text:?} in:\n{}",
            self.stdout
        );
        self
    }

    /// Checks that its standard error has this text.
    pub(crate) fn reports(&self, text: &str) -> &Self {
        assert!(
            self.stderr.contains(text),
            "no {text:?} in:\n{}",
            self.stderr
        );
        self
    }
}

fn read(mut from: impl Read, into: &Mutex<Vec<u8>>) -> Vec<u8> {
    let mut buffer = [0; 4096];
    while let length @ 1.. = from.read(&mut buffer).unwrap() {
        into.lock().unwrap().extend_from_slice(&buffer[..length]);
    }
    into.lock().unwrap().clone()
}
