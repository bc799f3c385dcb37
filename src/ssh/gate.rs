//! The gate in front of a connection's reading.
//!
//! russh grants window as soon as data arrives, whether or not anything has read it, and stops the
//! whole connection while a channel is not drained. So a slow reader is held back one layer below:
//! while a [`Gate`] is shut, no byte is read from the socket, TCP holds the host back, and the
//! other direction (keys, signals, input) goes on, as far as the host's window reaches. Nothing is
//! lost and memory stays bounded. What else the connection carries waits meanwhile.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::received::Received;

/// The longest that an open gate waits for a byte. A keepalive goes out after 5 s without one, and
/// its answer takes a round trip: a link of 300 ms that loses packets has time for many.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest that a connection within another one waits for a byte while the outer gate is open. Its
/// answer may lie behind what the host has sent of another channel: a full window of that takes a line
/// of 1 Mbit/s a minute.
const WITHIN_TIMEOUT: Duration = Duration::from_mins(2);
/// The longest that the socket may take no byte. A slow link (0.5 Mbit/s) may need some 15 s until
/// a full buffer has room again.
const WRITE_TIMEOUT: Duration = Duration::from_secs(25);

/// A gate, shut while it has holders.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
}

#[derive(Debug, Default)]
struct GateState {
    /// How many full queues hold the gate.
    holders: usize,
    /// The streams that wait for it.
    waiting: Vec<Waker>,
}

impl Gate {
    /// Adds a holder.
    pub(super) fn hold(&self) {
        self.state().holders += 1;
    }

    /// Removes a holder; reading goes on when none is left.
    pub(super) fn release(&self) {
        let mut state = self.state();
        state.holders = state.holders.saturating_sub(1);
        if state.holders == 0 {
            state.waiting.drain(..).for_each(Waker::wake);
        }
    }

    fn poll_open(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.holders == 0 {
            return Poll::Ready(());
        }
        let waker = context.waker();
        if !state.waiting.iter().any(|it| it.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        Poll::Pending
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        // Nothing in here panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time for which one direction of a stream has been pending.
#[derive(Debug)]
struct Stall {
    limit: Duration,
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    fn new(limit: Duration) -> Self {
        Self {
            limit,
            since: None,
            timer: None,
        }
    }

    /// `polled`, or an error once it has been pending for longer than the limit.
    fn limit<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.since = None;
            return polled;
        }
        let end = *self.since.get_or_insert_with(Instant::now) + self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        ready!(timer.as_mut().poll(context));
        // The timer may still be set for an earlier wait, which has ended.
        if Instant::now() < end {
            timer.as_mut().reset(end);
            ready!(timer.as_mut().poll(context));
        }
        let seconds = self.limit.as_secs();
        let why = format!("no answer for {seconds} seconds");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

/// A connection's stream, with or without a gate. With one, the stream itself times out when its
/// other end is gone: russh's own timeouts know no gate.
pub(super) struct GatedStream<S> {
    stream: S,
    gate: Option<Arc<Gate>>,
    /// Whether the stream is a channel of the connection that the gate holds: a shut gate keeps its
    /// bytes away, in both directions, and here it only stops the clocks.
    is_within: bool,
    /// The count of what it reads.
    received: Received,
    reading: Stall,
    writing: Stall,
}

impl<S> GatedStream<S> {
    pub(super) fn new(stream: S, gate: Option<Arc<Gate>>) -> Self {
        Self {
            stream,
            gate,
            is_within: false,
            received: Received::default(),
            reading: Stall::new(READ_TIMEOUT),
            writing: Stall::new(WRITE_TIMEOUT),
        }
    }

    /// Has what it reads counted.
    pub(super) fn counted(self, received: Received) -> Self {
        Self { received, ..self }
    }

    /// Wraps a channel of the connection that `gate` holds: a shut gate stops the stream's clocks.
    pub(super) fn within(stream: S, gate: Arc<Gate>) -> Self {
        Self {
            is_within: true,
            reading: Stall::new(WITHIN_TIMEOUT),
            writing: Stall::new(WITHIN_TIMEOUT),
            ..Self::new(stream, Some(gate))
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GatedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let is_shut = |gate: &Arc<Gate>| gate.poll_open(context).is_pending();
        if !this.is_within && this.gate.as_ref().is_some_and(is_shut) {
            this.reading.since = None;
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.received.add(buffer.filled().len() - before);
        let Some(gate) = &this.gate else {
            return polled;
        };
        if this.is_within && polled.is_pending() && gate.poll_open(context).is_pending() {
            this.reading.since = None;
            return Poll::Pending;
        }
        this.reading.limit(polled, context)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GatedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.stream).poll_write(context, buffer);
        let Some(gate) = &this.gate else {
            return polled;
        };
        if this.is_within && polled.is_pending() && gate.poll_open(context).is_pending() {
            this.writing.since = None;
            return Poll::Pending;
        }
        this.writing.limit(polled, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::{sleep, timeout};

    use super::*;

    const HOURS: Duration = Duration::from_hours(9);

    #[tokio::test(start_paused = true)]
    async fn silence_ends_what_is_read_through_an_open_gate_and_nothing_else() {
        let gate = Arc::<Gate>::default();
        let (near, mut far) = duplex(64);
        let mut gated = GatedStream::new(near, Some(Arc::clone(&gate)));
        let mut byte = [0];
        // Bytes that come in time keep it open for ever.
        for _ in 0..10 {
            let late = async {
                sleep(READ_TIMEOUT * 9 / 10).await;
                far.write_all(b"x").await.unwrap();
            };
            let (read, ()) = tokio::join!(gated.read_exact(&mut byte), late);
            read.unwrap();
        }
        gate.hold();
        assert!(timeout(HOURS, gated.read(&mut byte)).await.is_err(), "shut");
        gate.release();
        let began = Instant::now();
        let error = gated.read(&mut byte).await.unwrap_err();
        assert_eq!(error.to_string(), "no answer for 15 seconds");
        assert_eq!(began.elapsed().as_secs(), READ_TIMEOUT.as_secs());

        let (near, _far) = duplex(64);
        let mut without = GatedStream::new(near, None);
        assert!(timeout(HOURS, without.read(&mut byte)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_inside_a_connection_times_out_only_while_its_gate_is_open() {
        let gate = Arc::<Gate>::default();
        let (near, mut far) = duplex(64);
        let mut within = GatedStream::within(near, Arc::clone(&gate));
        let mut byte = [0];
        gate.hold();
        far.write_all(b"x").await.unwrap();
        within.read_exact(&mut byte).await.unwrap();
        assert!(timeout(HOURS, within.read(&mut byte)).await.is_err());
        assert!(timeout(HOURS, within.write_all(&[0; 65])).await.is_err());
        // Held in the middle of a wait, which begins anew.
        gate.release();
        let wait = timeout(WITHIN_TIMEOUT * 9 / 10, within.read(&mut byte));
        assert!(wait.await.is_err());
        gate.hold();
        assert!(timeout(HOURS, within.read(&mut byte)).await.is_err());
        let began = Instant::now();
        let late = async {
            sleep(WITHIN_TIMEOUT).await;
            gate.release();
        };
        let (read, ()) = tokio::join!(within.read(&mut byte), late);
        assert_eq!(read.unwrap_err().to_string(), "no answer for 120 seconds");
        assert_eq!(began.elapsed().as_secs(), 2 * WITHIN_TIMEOUT.as_secs());
        let error = within.write_all(&[0; 65]).await.unwrap_err();
        assert_eq!(error.to_string(), "no answer for 120 seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_takes_no_byte_is_given_up() {
        let (near, _far) = duplex(64);
        let mut gated = GatedStream::new(near, Some(Arc::default()));
        let error = gated.write_all(&[0; 65]).await.unwrap_err();
        assert_eq!(error.to_string(), "no answer for 25 seconds");
    }

    #[tokio::test]
    async fn bytes_that_come_are_counted_over_all_streams_and_others_are_not() {
        let received = Received::default();
        for gate in [None, Some(Arc::default())] {
            let (near, mut far) = duplex(64);
            let mut counted = GatedStream::new(near, gate).counted(received.clone());
            counted.write_all(b"there").await.unwrap();
            far.write_all(b"back").await.unwrap();
            let mut read = [0; 4];
            counted.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"back");
        }
        assert_eq!(received.bytes(), 8);
    }
}
