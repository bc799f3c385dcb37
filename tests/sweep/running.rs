//! A running client, and its end.

use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// How long a session may take on a busy machine.
const SESSION: Duration = Duration::from_mins(3);

/// A client; killed when dropped.
pub(crate) struct Running {
    child: Child,
    began: Instant,
    printed: Arc<Mutex<Vec<u8>>>,
    readers: Option<[JoinHandle<std::io::Result<()>>; 2]>,
    reported: Arc<Mutex<Vec<u8>>>,
}

/// The end of a client.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code, as a shell has it: 137 for a kill.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let began = Instant::now();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("no standard output")?;
        let stderr = child.stderr.take().context("no standard error")?;
        let (printed, reported) = (Arc::default(), Arc::default());
        Ok(Self {
            child,
            began,
            readers: Some([gather(stdout, &printed), gather(stderr, &reported)]),
            printed,
            reported,
        })
    }

    /// The standard output until now.
    pub(crate) fn printed(&self) -> String {
        text(&self.printed)
    }

    /// The standard error until now.
    pub(crate) fn reported(&self) -> String {
        text(&self.reported)
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        Ok(self.child.kill()?)
    }

    /// Waits until `holds`; an error if that is not within [`SESSION`], or it has ended before.
    pub(crate) fn until(&mut self, holds: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let began = Instant::now();
        while !holds(self) {
            let in_time = began.elapsed() < SESSION && !self.is_over()?;
            ensure!(in_time || holds(self), "never:\n{}", self.reported());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits for its end; an error if it does not come within [`SESSION`].
    pub(crate) fn end(mut self) -> anyhow::Result<Ended> {
        let waited = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if waited.elapsed() > SESSION {
                bail!("a session did not end:\n{}", text(&self.reported));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = self.began.elapsed();
        for reader in self.readers.take().into_iter().flatten() {
            reader.join().ok().context("a reader panicked")??;
        }
        Ok(Ended {
            code: status
                .code()
                .or_else(|| status.signal().map(|signal| 128 + signal))
                .context("ended, but how?")?,
            stdout: text(&self.printed),
            stderr: text(&self.reported),
            took,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gather(
    mut from: impl Read + Send + 'static,
    into: &Arc<Mutex<Vec<u8>>>,
) -> JoinHandle<std::io::Result<()>> {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let length @ 1.. = from.read(&mut buffer)? {
            into.lock().unwrap().extend_from_slice(&buffer[..length]);
        }
        Ok(())
    })
}

fn text(bytes: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.lock().unwrap()).into_owned()
}
