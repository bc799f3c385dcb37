//! The bytes of one forwarded connection, between a local program and a channel.
//!
//! A channel is never left undrained: a browser that stops reading would freeze every other one, and
//! what keeps the connection alive. What a local program has not read waits in memory, up to the
//! limits of [`super::unread`].

use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use russh::ChannelMsg;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::channel::{CHUNK, Sender, Session};
use super::traffic::{Open, Traffic};
use super::unread::UnreadQueue;

/// The most that is read at once of a local program that sends faster than it is read: each reading
/// wakes it.
const MOST: usize = 4 * CHUNK;

/// The most pieces that are written at once to one that reads slower than they come.
const PIECES: usize = 8;

/// As [`relay`], for a TCP connection.
pub(super) async fn relay_tcp(
    stream: TcpStream,
    session: Session,
    (unread, traffic): (UnreadQueue, &Traffic),
) {
    // If it fails only latency suffers.
    let _slower = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    relay(reader, writer, session, (unread, traffic)).await;
}

/// Relays until the host has closed its side and all is delivered, or either side breaks off; counts
/// as one of the connections of `traffic`. What is not read of it yet is in `unread`.
pub(super) async fn relay(
    reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    session: Session,
    (unread, traffic): (UnreadQueue, &Traffic),
) {
    let open = traffic.begin();
    let Session {
        mut messages,
        sender,
    } = session;
    let (queue, mut queued) = mpsc::unbounded_channel::<Bytes>();

    let down = async {
        let draining = async {
            let mut queue = Some(queue);
            loop {
                match messages.wait().await {
                    Some(ChannelMsg::Data { data }) => {
                        if let Some(queue) = &queue {
                            unread.add(data.len());
                            queue.send(data).map_err(drop)?;
                        }
                    }
                    Some(ChannelMsg::Eof) => queue = None,
                    Some(ChannelMsg::Close) | None => return Ok(()),
                    Some(_) => {}
                }
            }
        };
        tokio::try_join!(
            draining,
            deliver(&mut writer, &mut queued, (&unread, &open))
        )
    };
    let up = send(reader, &sender, &open);
    tokio::pin!(down, up);
    let mut sent = false;
    loop {
        tokio::select! {
            _ = &mut down => return,
            () = unread.wait_until_stopped() => return,
            result = &mut up, if !sent => match result {
                Ok(()) => sent = true,
                Err(()) => return,
            },
        }
    }
}

/// Writes what is queued, and shuts the local connection's receiving side down after the host's.
async fn deliver(
    writer: &mut (impl AsyncWrite + Unpin),
    queued: &mut mpsc::UnboundedReceiver<Bytes>,
    (unread, open): (&UnreadQueue, &Open),
) -> Result<(), ()> {
    let mut pieces = Vec::with_capacity(PIECES);
    while queued.recv_many(&mut pieces, PIECES).await > 0 {
        write_all(writer, &pieces, (unread, open)).await?;
        for piece in pieces.drain(..) {
            unread.remove(piece.len());
        }
    }
    writer.shutdown().await.map_err(drop)
}

async fn write_all(
    writer: &mut (impl AsyncWrite + Unpin),
    pieces: &[Bytes],
    (unread, open): (&UnreadQueue, &Open),
) -> Result<(), ()> {
    let mut slices: Vec<IoSlice> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut rest = &mut slices[..];
    // Passes over those that are empty.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let written = writer.write_vectored(rest).await.map_err(drop)?;
        if written == 0 {
            return Err(());
        }
        unread.note_read();
        open.count(written);
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

async fn send(mut reader: impl AsyncRead + Unpin, sender: &Sender, open: &Open) -> Result<(), ()> {
    let mut most = CHUNK;
    loop {
        let mut chunk = BytesMut::with_capacity(most);
        let length = reader.read_buf(&mut chunk).await.map_err(drop)?;
        if length == 0 {
            break;
        }
        most = if length < most { CHUNK } else { MOST };
        let mut rest = chunk.freeze();
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(CHUNK));
            let length = piece.len();
            if !sender.send(piece).await {
                return Err(());
            }
            open.count(length);
        }
    }
    if sender.eof().await { Ok(()) } else { Err(()) }
}
