//! The bytes of one forwarded connection, between a local program and a channel.
//!
//! A channel is never left undrained: a browser that stops reading would freeze every other one.
//! What a local program has not read waits in memory, up to the limits of [`super::unread`].

use bytes::{Bytes, BytesMut};
use russh::ChannelMsg;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::channel::{CHUNK, Sender, Session};
use super::traffic::{Open, Traffic};
use super::unread::UnreadQueue;

/// As [`relay`], for a TCP connection.
pub(super) async fn relay_tcp(stream: TcpStream, session: Session, traffic: &Traffic) {
    // If it fails only latency suffers.
    let _slower = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    relay(reader, writer, session, traffic).await;
}

/// Relays until the host has closed its side and all is delivered, or either side breaks off; counts
/// as one of the connections of `traffic`.
pub(super) async fn relay(
    reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    session: Session,
    traffic: &Traffic,
) {
    let open = traffic.begin();
    let Session {
        mut messages,
        sender,
    } = session;
    let (queue, mut queued) = mpsc::unbounded_channel::<Bytes>();
    let unread = traffic.unread();

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
            () = unread.dropped() => return,
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
    while let Some(data) = queued.recv().await {
        writer.write_all(&data).await.map_err(drop)?;
        unread.remove(data.len());
        open.moved(data.len());
    }
    writer.shutdown().await.map_err(drop)
}

async fn send(mut reader: impl AsyncRead + Unpin, sender: &Sender, open: &Open) -> Result<(), ()> {
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        match reader.read_buf(&mut chunk).await {
            Ok(0) => break,
            Ok(length) if sender.send(chunk.freeze()).await => open.moved(length),
            _ => return Err(()),
        }
    }
    if sender.eof().await { Ok(()) } else { Err(()) }
}
