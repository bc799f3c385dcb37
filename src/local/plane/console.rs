//! The instance's console: a terminal on its side, a bounded file on ours.
//!
//! The file never holds more than [`MOST`] bytes; what is cut off is the oldest.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::PipeFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// The length of a read: EC2 keeps the last 64 KiB (API reference, `GetConsoleOutput`).
const KEPT: u64 = 64 * 1024;
/// The length at which the file is cut back to [`KEPT`].
const MOST: u64 = 4 * KEPT;

/// A console that is being written.
#[derive(Debug)]
pub(super) struct Console {
    device: PathBuf,
    /// Closing it ends the recording.
    stop: OwnedFd,
    recording: JoinHandle<()>,
}

impl Console {
    /// Opens a terminal whose output goes to the end of the file at `path`, from a thread.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let terminal = Terminal::open().context("making a console")?;
        let tail = Tail::open(path)?;
        let (stopped, stop) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self {
            device: terminal.device.clone(),
            stop,
            recording: std::thread::spawn(move || terminal.record(tail, &stopped)),
        })
    }

    /// The instance's side, as a path on the host.
    pub(super) fn device(&self) -> &Path {
        &self.device
    }

    /// Records what was printed so far, and ends the recording.
    pub(super) fn close(self) {
        drop(self.stop);
        if self.recording.join().is_err() {
            tracing::error!("recording the console panicked");
        }
    }
}

/// A pseudo-terminal: the host's side and the machine's.
#[derive(Debug)]
struct Terminal {
    host: OwnedFd,
    /// Kept open: without any process on it, reading the host's side is an error.
    _instance: OwnedFd,
    device: PathBuf,
}

impl Terminal {
    /// Opens a terminal in raw mode, so that output is recorded unchanged.
    fn open() -> anyhow::Result<Self> {
        let host = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&host)?;
        unlockpt(&host)?;
        let device = PathBuf::from(ptsname(&host, Vec::new())?.into_string()?);
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let instance = rustix::fs::open(&device, flags, Mode::empty())?;
        let mut modes = tcgetattr(&instance)?;
        modes.make_raw();
        tcsetattr(&instance, OptionalActions::Now, &modes)?;
        fcntl_setfl(&host, fcntl_getfl(&host)? | OFlags::NONBLOCK)?;
        Ok(Self {
            host,
            _instance: instance,
            device,
        })
    }

    /// Copies to `tail` until the other end of `stopped` is closed. A console file that cannot be
    /// written (a full disk) must neither end the instance nor block its output.
    fn record(&self, mut tail: Tail, stopped: &OwnedFd) {
        let mut buffer = [0; 8192];
        loop {
            let mut waiting = [
                PollFd::new(&self.host, PollFlags::IN),
                PollFd::new(stopped, PollFlags::IN),
            ];
            // Interrupted or not: reading shows whether there is something.
            let _ = poll(&mut waiting, None);
            let last = !waiting[1].revents().is_empty();
            while let Ok(length @ 1..) = rustix::io::read(&self.host, &mut buffer) {
                if let Err(error) = tail.push(buffer.get(..length).unwrap_or_default()) {
                    tracing::warn!(%error, "the console is incomplete");
                }
            }
            if last {
                return;
            }
        }
    }
}

/// A bounded file, whose beginning is cut off.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Tail {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("opening {}", path.display()))?;
        let length = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            length,
        })
    }

    fn push(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file
            .write_all(bytes)
            .with_context(|| format!("writing {}", self.path.display()))?;
        self.length += u64::try_from(bytes.len())?;
        if self.length > MOST {
            let kept = last(&self.path)?;
            let new = self.path.with_extension("new");
            fs::write(&new, kept)?;
            fs::rename(&new, &self.path)?;
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }
}

/// Writes a line of the supervisor's own at the end of a console that is closed.
pub(super) fn append(path: &Path, line: &str) -> anyhow::Result<()> {
    Tail::open(path)?.push(format!("{line}\n").as_bytes())
}

/// The last 64 KiB of a console's file; empty where there is none.
pub(super) fn last(path: &Path) -> anyhow::Result<Vec<u8>> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(KEPT)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.with_context(|| format!("reading {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chatty_console_keeps_its_end_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("console");
        let mut tail = Tail::open(&path).unwrap();
        for line in 0..60_000 {
            tail.push(format!("{line:07}\n").as_bytes()).unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() <= MOST);
        let kept = last(&path).unwrap();
        assert_eq!(u64::try_from(kept.len()).unwrap(), KEPT);
        assert!(kept.ends_with(b"0059999\n"));
    }

    #[test]
    fn a_console_that_never_was_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last(&folder.path().join("console")).unwrap(), b"");
    }
}
