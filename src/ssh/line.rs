//! A connection of its own for one command, whose reading can be held.
//!
//! russh grants window as soon as data arrives, whether or not anybody has taken it, and stops the
//! whole connection while a channel is not drained. So a slow reader is held back one layer below:
//! while a [`Gate`] is shut, no byte is read from the socket, TCP holds the host back, and the
//! other direction (keys, signals, input) goes on. Nothing is lost and memory stays bounded. This
//! needs a connection that carries nothing else.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{Ssh, SshError};
use super::shell::Begun;

/// A connection for one [`super::Shell`].
#[derive(Debug)]
pub struct Line {
    pub(crate) ssh: Ssh,
    /// The connection it was opened beside. Its end is also the line's: the line itself cannot
    /// tell a host that is silent from one that it holds back.
    pub(crate) beside: Ssh,
    pub(crate) gate: Arc<Gate>,
    /// A shell that has begun on it.
    pub(crate) begun: Option<Begun>,
}

impl Line {
    /// Opens a line beside `ssh`. It can be opened early, while the host still works on other things.
    pub async fn open(ssh: &Ssh) -> Result<Self, SshError> {
        Self::behind(ssh, Arc::default()).await
    }

    /// The same, held by the holders that `gate` has already: those of a line that was lost.
    pub(super) async fn behind(ssh: &Ssh, gate: Arc<Gate>) -> Result<Self, SshError> {
        let line = ssh.gated_sibling(Arc::clone(&gate)).await?;
        Ok(Self {
            ssh: line,
            beside: ssh.clone(),
            gate,
            begun: None,
        })
    }
}

/// Holds a connection's reading while anyone holds it.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
}

#[derive(Debug, Default)]
struct GateState {
    /// How many full queues hold the gate.
    holders: usize,
    reader: Option<Waker>,
}

impl Gate {
    /// Adds a holder.
    pub(super) fn hold(&self) {
        self.state().holders += 1;
    }

    /// Takes one away; reading goes on when none is left.
    pub(super) fn release(&self) {
        let mut state = self.state();
        state.holders = state.holders.saturating_sub(1);
        if state.holders == 0
            && let Some(reader) = state.reader.take()
        {
            reader.wake();
        }
    }

    fn poll_open(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.holders == 0 {
            return Poll::Ready(());
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn state(&self) -> std::sync::MutexGuard<'_, GateState> {
        // Nothing in here panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a connection goes over, behind its gate, if it has one.
pub(super) struct Gated<S> {
    stream: S,
    gate: Option<Arc<Gate>>,
}

impl<S> Gated<S> {
    pub(super) fn new(stream: S, gate: Option<Arc<Gate>>) -> Self {
        Self { stream, gate }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gated<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(gate) = &self.gate
            && gate.poll_open(context).is_pending()
        {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gated<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
