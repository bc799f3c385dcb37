//! A server at the other end of a pipe, as tests have it: one that is run beside them, or one of their
//! own that lies.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::mpsc;

use super::packet::kind;
use super::waiting::{Request, Waiting, lock, pass};
use super::{Sftp, SftpError};

/// The two ends of a server.
pub(crate) struct Peer<R, W> {
    pub(crate) answers: R,
    pub(crate) requests: W,
    /// How long it may be silent.
    pub(crate) silence: Duration,
}

impl Sftp {
    /// A server behind pipes.
    pub(crate) async fn piped<R, W>(peer: Peer<R, W>) -> Result<Self, SftpError>
    where
        R: Read + Send + 'static,
        W: Write + Send + 'static,
    {
        let (requests, queue) = mpsc::unbounded_channel();
        let waiting = Waiting::new(peer.silence);
        let sftp = Self {
            requests,
            waiting: Arc::clone(&waiting),
            frozen: None,
        };
        thread::spawn(move || send(queue, peer.requests));
        thread::spawn(move || receive(peer.answers, &waiting));
        sftp.begin(kind::INIT, |_| {}).reply().await?;
        Ok(sftp)
    }
}

fn send(mut queue: mpsc::UnboundedReceiver<Request>, mut requests: impl Write) {
    while let Some(Request(head, data)) = queue.blocking_recv() {
        let sent = requests
            .write_all(&head)
            .and_then(|()| requests.write_all(&data.unwrap_or_default()))
            .and_then(|()| requests.flush());
        if sent.is_err() {
            return;
        }
    }
}

fn receive(mut answers: impl Read, waiting: &Mutex<Waiting>) {
    let mut arrived = BytesMut::new();
    let mut piece = vec![0; 1 << 16];
    let why = loop {
        match answers.read(&mut piece) {
            Ok(0) | Err(_) => break "the host's file server ended",
            Ok(length) => arrived.extend_from_slice(&piece[..length]),
        }
        if pass(&mut arrived, waiting).is_err() {
            break "its answers make no sense";
        }
    };
    let mut waiting = lock(waiting);
    waiting.ended = Some(why.to_owned());
    waiting.answers.clear();
}
