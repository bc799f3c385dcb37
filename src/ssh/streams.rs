//! The local ends of a shell: standard input, output and error.
//!
//! Each has a thread of its own on a raw descriptor, because a terminal or a pipe may block for
//! ever and the runtime must not wait for it, neither while the session runs nor when the process
//! ends. Input is read only on demand. Output is queued without ever blocking; a full queue holds
//! the [`Gate`] until it has been written.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::{Notify, mpsc};

use super::channel::CHUNK;
use super::gate::Gate;

/// The most bytes read at a time: with the head of a frame they fit into one packet.
const READ: usize = CHUNK - 16;
/// The length in bytes at which a queue holds the gate: enough to keep a pipe busy, little to wait
/// for after Ctrl-C.
const FULL: usize = 256 << 10;
/// The length in bytes at which a full queue releases the gate.
const DRAINED: usize = 64 << 10;

/// Local input. Dropping it ends the reading; unread input stays for the next program.
pub(super) struct Source {
    chunks: mpsc::Receiver<Bytes>,
    stop: Stop,
}

/// A handle that ends a [`Source`]'s reading when it is dropped.
#[derive(Debug)]
pub(super) struct Stop(UnixStream);

impl Drop for Stop {
    fn drop(&mut self) {
        // Fails only where the thread has ended.
        let _ended = self.0.shutdown(Shutdown::Both);
    }
}

impl Source {
    pub(super) fn open(input: OwnedFd) -> io::Result<Self> {
        let (near, stop) = UnixStream::pair()?;
        let (sender, chunks) = mpsc::channel(1);
        std::thread::Builder::new()
            .name("input".to_owned())
            .spawn(move || read(&input, &stop, &sender))?;
        let stop = Stop(near);
        Ok(Self { chunks, stop })
    }

    /// A second handle that ends the reading.
    pub(super) fn stop(&self) -> io::Result<Stop> {
        Ok(Stop(self.stop.0.try_clone()?))
    }

    /// The next chunk; `None` at the end of the input. Loses nothing if it is dropped before it is
    /// ready.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        self.chunks.recv().await
    }
}

/// Reads the next line that a person types at the terminal on standard input, without its line end;
/// none at the end of the input. What was typed before this call answers nothing and is discarded:
/// call it before the question is printed. Dropped, it reads no more.
pub fn answer() -> impl Future<Output = io::Result<Option<String>>> {
    let opened = open_terminal();
    async {
        // In canonical mode a terminal gives a line at a time (termios(3)).
        let line = opened?.next().await;
        Ok(line.map(|line| String::from_utf8_lossy(&line).trim_end().to_owned()))
    }
}

fn open_terminal() -> io::Result<Source> {
    let stdin = rustix::stdio::stdin();
    tcflush(stdin, QueueSelector::IFlush)?;
    Source::open(stdin.try_clone_to_owned()?)
}

/// Reads until the end of `input`, an error on it (a closed terminal), or a hang-up of `stop`.
fn read(input: &OwnedFd, stop: &UnixStream, sender: &mpsc::Sender<Bytes>) {
    let mut buffer = vec![0; READ];
    loop {
        let mut ready = [
            PollFd::new(stop, PollFlags::IN),
            PollFd::new(input, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        let [stop, input_ready] = ready.map(|end| !end.revents().is_empty());
        if stop {
            return;
        }
        if !input_ready {
            continue;
        }
        match rustix::io::read(input, &mut buffer[..]) {
            Ok(0) => return,
            Ok(length) => {
                let chunk = Bytes::copy_from_slice(&buffer[..length]);
                if sender.blocking_send(chunk).is_err() {
                    return;
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}

/// Local output. Dropping it discards what is not written yet.
#[derive(Debug)]
pub(super) struct Sink {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// For the thread: there is something to write, or there will be nothing more.
    more: Condvar,
    /// For the runtime: something was written, or nothing more can be.
    progress: Notify,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Queue {
    chunks: VecDeque<Bytes>,
    /// Output that waits while something else is shown.
    parked: Option<VecDeque<Bytes>>,
    /// Bytes that are queued or being written.
    length: usize,
    holds_gate: bool,
    /// The reader is gone: everything more is discarded.
    failed: bool,
    /// The sink is gone.
    closed: bool,
}

/// With its length.
impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({} bytes)", self.length)
    }
}

impl Sink {
    pub(super) fn open(output: OwnedFd, gate: Arc<Gate>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            more: Condvar::new(),
            progress: Notify::new(),
            gate,
        });
        let writer = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || writer.write(&output))?;
        Ok(Self { shared })
    }

    /// Queues `chunk`; never waits.
    pub(super) fn push(&self, chunk: Bytes) {
        self.queue(chunk, false);
    }

    /// As [`Sink::push`], before what is parked.
    pub(super) fn push_first(&self, chunk: Bytes) {
        self.queue(chunk, true);
    }

    /// Parks what is pushed from here on, until [`Sink::go_on`].
    pub(super) fn park(&self) {
        self.shared.lock().parked.get_or_insert_default();
    }

    /// Writes what is parked, and parks no more.
    pub(super) fn go_on(&self) {
        let mut queue = self.shared.lock();
        let parked = queue.parked.take().unwrap_or_default();
        queue.chunks.extend(parked);
        self.shared.more.notify_one();
    }

    fn queue(&self, chunk: Bytes, is_first: bool) {
        let mut queue = self.shared.lock();
        if queue.failed || chunk.is_empty() {
            return;
        }
        queue.length += chunk.len();
        match &mut queue.parked {
            Some(parked) if !is_first => parked.push_back(chunk),
            _ => queue.chunks.push_back(chunk),
        }
        if queue.length >= FULL && !queue.holds_gate {
            queue.holds_gate = true;
            self.shared.gate.hold();
        }
        self.shared.more.notify_one();
    }

    /// Waits until all is written, or cannot be.
    pub(super) async fn drained(&self) {
        self.until(|queue| queue.length == 0).await;
    }

    /// Waits until the reader is gone.
    pub(super) async fn failed(&self) {
        self.until(|queue| queue.failed).await;
    }

    async fn until(&self, reached: impl Fn(&Queue) -> bool) {
        loop {
            let progress = self.shared.progress.notified();
            tokio::pin!(progress);
            // Before the look, so that nothing is missed between the look and the wait.
            progress.as_mut().enable();
            if reached(&self.shared.lock()) {
                return;
            }
            progress.await;
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        self.shared.give_up(&mut queue);
        self.shared.more.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: writes what is queued, until the sink is gone.
    fn write(&self, output: &OwnedFd) {
        let mut queue = self.lock();
        while !queue.closed {
            let Some(chunk) = queue.chunks.pop_front() else {
                queue = self
                    .more
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            let written = write_all(output, &chunk);
            queue = self.lock();
            if written.is_err() {
                queue.failed = true;
                self.give_up(&mut queue);
            } else {
                queue.length = queue.length.saturating_sub(chunk.len());
            }
            if queue.length <= DRAINED {
                self.release(&mut queue);
            }
            self.progress.notify_waiters();
        }
    }

    fn give_up(&self, queue: &mut Queue) {
        queue.chunks.clear();
        queue.parked = None;
        queue.length = 0;
        self.release(queue);
    }

    fn release(&self, queue: &mut Queue) {
        if std::mem::take(&mut queue.holds_gate) {
            self.gate.release();
        }
    }
}

fn write_all(output: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(output, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            // Another program made the descriptor non-blocking, for all that share it.
            Err(Errno::AGAIN) => {
                let mut ready = [PollFd::new(output, PollFlags::OUT)];
                match poll(&mut ready, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
