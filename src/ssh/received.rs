//! The bytes that have come from a host.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A count of bytes. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Received(Arc<AtomicU64>);

impl Received {
    /// All that has come so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Has what `stream` reads counted.
    pub(super) fn count<S>(self, stream: S) -> Counted<S> {
        Counted {
            stream,
            count: self,
        }
    }
}

/// A stream whose bytes are counted as they come.
pub(super) struct Counted<S> {
    stream: S,
    count: Received,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let bytes = buffer.filled().len() - before;
        self.count.0.fetch_add(bytes as u64, Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn bytes_that_come_are_counted_over_all_streams_and_others_are_not() {
        let received = Received::default();
        for _ in 0..2 {
            let (near, mut far) = duplex(64);
            let mut counted = received.clone().count(near);
            counted.write_all(b"there").await.unwrap();
            far.write_all(b"back").await.unwrap();
            let mut read = [0; 4];
            counted.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"back");
        }
        assert_eq!(received.bytes(), 8);
    }
}
