//! The requests of a client, and those who wait for their answers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::packet::Reply;

/// A request: all of it but the data at its end, and that.
pub(super) struct Request(pub(super) Bytes, pub(super) Option<Bytes>);

/// Those who wait for answers.
#[derive(Default)]
pub(super) struct Waiting {
    /// The number of the next request.
    pub(super) last: u32,
    pub(super) answers: HashMap<u32, oneshot::Sender<Reply>>,
    /// Why there will be no more answers.
    pub(super) ended: Option<String>,
}

pub(super) fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
