//! A server on a host: requests and answers over a connection.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::mpsc;

use super::waiting::{Request, Waiting, lock, pass};
use crate::ssh::Ssh;
use crate::ssh::channel::{Output, Outputs, Sender};

/// How many bytes of small requests go together.
const TOGETHER: usize = 128 << 10;

/// How many bytes a request has that goes by itself.
const LARGE: usize = 16 << 10;

/// How much of the server's standard error is kept, in bytes.
const WORDS: usize = 4 << 10;

/// How long the end of the connection may come after that of the server.
const BEHIND: Duration = Duration::from_secs(1);

/// Carries requests and answers until either side ends.
pub(super) async fn carry(
    ssh: Ssh,
    (mut outputs, sender): (Outputs, Sender),
    mut queue: mpsc::UnboundedReceiver<Request>,
    waiting: Arc<Mutex<Waiting>>,
) {
    let mut words = Vec::new();
    {
        let mut sending = pin!(send(&mut queue, &sender));
        let mut arrived = BytesMut::new();
        loop {
            tokio::select! {
                // The last `Sftp` was dropped, or the connection has ended.
                () = &mut sending => break,
                output = outputs.next() => match output {
                    Some(Output::Stdout(data)) => {
                        arrived.extend_from_slice(&data);
                        if pass(&mut arrived, &waiting).is_err() {
                            words = b"its answers make no sense".to_vec();
                            break;
                        }
                    }
                    Some(Output::Stderr(data)) => {
                        let room = WORDS.saturating_sub(words.len());
                        words.extend_from_slice(&data[..data.len().min(room)]);
                    }
                    Some(Output::Status(_)) => {}
                    None => break,
                },
            }
        }
    }
    drop(sender);
    let ended = tokio::time::timeout(BEHIND, ssh.wait_for_end()).await;
    let ended = ended.unwrap_or_else(|_| {
        let words = String::from_utf8_lossy(&words);
        let last = words.trim().lines().next_back();
        last.unwrap_or("the host's file server ended").to_owned()
    });
    let mut waiting = lock(&waiting);
    waiting.ended = Some(ended);
    waiting.answers.clear();
}

/// Sends requests until there are no more, or the connection ends.
async fn send(queue: &mut mpsc::UnboundedReceiver<Request>, sender: &Sender) {
    while let Some(request) = queue.recv().await {
        let mut next = Some(request);
        let mut together = BytesMut::new();
        while let Some(Request(head, data)) = next {
            together.extend_from_slice(&head);
            let data = data.unwrap_or_default();
            if data.len() < LARGE {
                together.extend_from_slice(&data);
            } else if !sender.send(together.split().freeze()).await || !sender.send(data).await {
                return;
            }
            if together.len() >= TOGETHER && !sender.send(together.split().freeze()).await {
                return;
            }
            next = queue.try_recv().ok();
        }
        if !together.is_empty() && !sender.send(together.freeze()).await {
            return;
        }
    }
}
