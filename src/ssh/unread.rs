//! The bytes of forwarded connections that local programs have not read yet: counted, and capped.
//!
//! A channel is never left undrained, so that what a slow reader leaves waits in memory. Where that
//! is too much of one SSH connection, its reading is held until the readers have caught up: each gets
//! every byte, as fast as it reads. One that has stopped is dropped, unless it is alone there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::gate::Gate;

/// The most bytes that may be unread of one SSH connection: half a second of a fast line.
const PER_CARRIER: usize = 64 << 20;
/// The most that may be of all beside one another: ten stopped tabs of a browser cost a laptop no
/// more than two.
const ALL: usize = 128 << 20;
/// The bytes that each forwarded connection may leave unread even when the others have filled the
/// rest: a reader that goes on needs it to keep up with its line. A connection with more is held
/// meanwhile.
const LEAST: usize = 8 << 20;
/// How far below its limit a held connection has to be before it is read again.
const SLACK: usize = 1 << 20;
/// The bytes that a queued piece takes beside its own (its place in the queue, its head, the
/// allocator's): a host that sends single bytes fills memory no faster than another.
const PIECE: usize = 128;
/// For how long a reader that is behind may take nothing while others wait: it may be a disk that
/// writes back what it has.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The unread bytes of all SSH connections beside one another. Clones are the same ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(Arc<AtomicUsize>);

/// An SSH connection that carries forwarded ones, and holds their readers' place.
#[derive(Debug)]
pub(super) struct Carrier {
    all: Unread,
    gate: Arc<Gate>,
    /// Whether this holds the gate.
    is_held: watch::Sender<bool>,
    queues: Mutex<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    /// The sum over `each`.
    bytes: usize,
    /// The number of the next queue.
    next: u64,
    each: HashMap<u64, Queue>,
}

#[derive(Debug)]
struct Queue {
    bytes: usize,
    /// When its reader took something last, or had taken all.
    taken: Instant,
}

/// The unread bytes of one forwarded connection. They count until this is dropped.
#[derive(Debug)]
pub(super) struct UnreadQueue {
    carrier: Arc<Carrier>,
    number: u64,
}

impl Carrier {
    /// Creates the carrier of one SSH connection. Its unread bytes also count in `all`.
    pub(super) fn new(all: &Unread) -> Self {
        Self {
            all: all.clone(),
            gate: Arc::default(),
            is_held: watch::Sender::new(false),
            queues: Mutex::default(),
        }
    }

    /// The gate that holds the SSH connection's reading.
    pub(super) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate)
    }

    /// The queue of a forwarded connection, which is empty: its place among those that wait for one
    /// another.
    pub(super) fn queue(self: &Arc<Self>) -> UnreadQueue {
        let mut queues = self.queues();
        let number = queues.next;
        queues.next += 1;
        let queue = Queue {
            bytes: 0,
            taken: Instant::now(),
        };
        queues.each.insert(number, queue);
        drop(queues);
        UnreadQueue {
            carrier: Arc::clone(self),
            number,
        }
    }

    /// Holds the gate if too much is unread, and releases it once it is not.
    fn weigh(&self, queues: &Queues) {
        let others = self.all.0.load(Relaxed).saturating_sub(queues.bytes);
        let most = ALL.saturating_sub(others).clamp(LEAST, PER_CARRIER);
        let is_held = *self.is_held.borrow();
        if !is_held && queues.bytes > most {
            self.gate.hold();
            self.is_held.send_replace(true);
        } else if is_held && queues.bytes + SLACK <= most {
            self.gate.release();
            self.is_held.send_replace(false);
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        // Nothing in here panics half way.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnreadQueue {
    /// Counts a piece that has arrived.
    pub(super) fn add(&self, piece: usize) {
        let mut queues = self.carrier.queues();
        if let Some(own) = queues.each.get_mut(&self.number) {
            if own.bytes == 0 {
                own.taken = Instant::now();
            }
            own.bytes += piece + PIECE;
            queues.bytes += piece + PIECE;
            self.carrier.all.0.fetch_add(piece + PIECE, Relaxed);
        }
        self.carrier.weigh(&queues);
    }

    /// Notes that the connection's reader has just taken something.
    pub(super) fn note_read(&self) {
        if let Some(own) = self.carrier.queues().each.get_mut(&self.number) {
            own.taken = Instant::now();
        }
    }

    /// Counts a piece no more, because it was read.
    pub(super) fn remove(&self, piece: usize) {
        let mut queues = self.carrier.queues();
        if let Some(own) = queues.each.get_mut(&self.number) {
            own.bytes -= piece + PIECE;
            queues.bytes -= piece + PIECE;
            self.carrier.all.0.fetch_sub(piece + PIECE, Relaxed);
        }
        self.carrier.weigh(&queues);
    }

    /// Waits until this one's reader has stopped on a held connection that is not its alone. What the
    /// host has for the others is not seen, so that one that is idle counts like one that waits.
    pub(super) async fn wait_until_stopped(&self) {
        let mut is_held = self.carrier.is_held.subscribe();
        loop {
            // Fails only without the carrier, which this has.
            let _ = is_held.wait_for(|it| *it).await;
            if self.is_in_the_way() {
                return;
            }
            sleep(LOOK).await;
        }
    }

    fn is_in_the_way(&self) -> bool {
        let queues = self.carrier.queues();
        let longest = queues.each.values().map(|queue| queue.bytes).max();
        let own = queues.each.get(&self.number);
        own.is_some_and(|own| Some(own.bytes) == longest && own.taken.elapsed() >= PATIENCE)
            && queues.each.len() > 1
    }
}

impl Drop for UnreadQueue {
    fn drop(&mut self) {
        let mut queues = self.carrier.queues();
        if let Some(own) = queues.each.remove(&self.number) {
            queues.bytes -= own.bytes;
            self.carrier.all.0.fetch_sub(own.bytes, Relaxed);
        }
        self.carrier.weigh(&queues);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_held(carrier: &Carrier) -> bool {
        *carrier.is_held.borrow()
    }

    fn carriers<const COUNT: usize>() -> [Arc<Carrier>; COUNT] {
        let all = Unread::default();
        [(); COUNT].map(|()| Arc::new(Carrier::new(&all)))
    }

    #[test]
    fn one_that_reads_slower_than_it_gets_is_waited_for() {
        let [carrier] = carriers();
        let queue = carrier.queue();
        queue.add(PER_CARRIER - PIECE);
        assert!(!is_held(&carrier));
        queue.add(SLACK);
        assert!(is_held(&carrier));
        queue.remove(SLACK / 2);
        assert!(is_held(&carrier), "not for less than what is worth it");
        queue.remove(PER_CARRIER - PIECE);
        assert!(!is_held(&carrier));
        queue.add(2 * PER_CARRIER);
        assert!(is_held(&carrier));
        drop(queue);
        assert!(!is_held(&carrier), "one that is gone keeps nobody waiting");
        assert_eq!(carrier.all.0.load(Relaxed), 0);
    }

    #[test]
    fn all_together_leave_no_more_than_two_and_a_little_each() {
        let carriers: [_; 4] = carriers();
        let queues = carriers.each_ref().map(Carrier::queue);
        for queue in &queues[..2] {
            queue.add(PER_CARRIER - PIECE);
        }
        for (carrier, queue) in carriers.iter().zip(&queues).skip(2) {
            queue.add(LEAST - PIECE);
            assert!(!is_held(carrier));
            queue.add(1);
            assert!(is_held(carrier));
        }
        drop(queues);
        assert_eq!(carriers[0].all.0.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_has_stopped_is_in_the_way_of_others_and_alone_it_is_not() {
        let [carrier] = carriers();
        let [stopped, slow] = [(); 2].map(|()| carrier.queue());
        slow.add(PER_CARRIER / 2);
        stopped.add(PER_CARRIER);
        assert!(is_held(&carrier));
        let begun = Instant::now();
        let waiting = async {
            loop {
                sleep(LOOK).await;
                slow.note_read();
            }
        };
        tokio::select! {
            () = stopped.wait_until_stopped() => {}
            () = slow.wait_until_stopped() => panic!("it reads"),
            () = waiting => {}
        }
        assert!(begun.elapsed() >= PATIENCE && begun.elapsed() < PATIENCE + 2 * LOOK);
        drop(slow);
        let alone = tokio::time::timeout(100 * PATIENCE, stopped.wait_until_stopped()).await;
        assert!(alone.is_err(), "it is in nobody's way");
    }
}
