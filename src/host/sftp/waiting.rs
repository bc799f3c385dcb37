//! The requests of a client, and those who wait for their answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::packet::{Garbled, Reply, split_packet};

/// A request: all of it but the data at its end, and that.
pub(super) struct Request(pub(super) Bytes, pub(super) Option<Bytes>);

/// The requests that wait for answers.
pub(super) struct Waiting {
    /// The number of the next request.
    pub(super) last: u32,
    pub(super) answers: HashMap<u32, oneshot::Sender<Reply>>,
    /// Why there will be no more answers.
    pub(super) ended: Option<String>,
    /// When the last answer came.
    pub(super) heard: Option<Instant>,
    /// How long none may come while one is waited for.
    pub(super) silence: Duration,
}

impl Waiting {
    pub(super) fn new(silence: Duration) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            last: 0,
            answers: HashMap::new(),
            ended: None,
            heard: None,
            silence,
        }))
    }
}

/// Passes the whole answers that have arrived to those who wait for them.
pub(super) fn pass(arrived: &mut BytesMut, waiting: &Mutex<Waiting>) -> Result<(), Garbled> {
    while let Some((id, reply)) = split_packet(arrived)? {
        let answer = {
            let mut waiting = lock(waiting);
            let answer = waiting.answers.remove(&id);
            if answer.is_some() {
                waiting.heard = Some(Instant::now());
            }
            answer
        };
        if let Some(answer) = answer {
            // Fails only if the `Pending` was dropped.
            let _ = answer.send(reply);
        }
    }
    Ok(())
}

pub(super) fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
