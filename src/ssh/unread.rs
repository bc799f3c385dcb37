//! What local programs have not read yet of their forwarded connections: counted, and capped.
//!
//! A channel is never left undrained, so that what a stopped reader leaves waits in memory. One
//! connection that leaves too much is dropped; when all together do, the one that leaves most is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The most bytes that one connection may leave unread: half a second of a fast line.
const EACH: usize = 64 << 20;
/// The most that all connections beside one another may: two stopped readers are served as long as
/// one alone would be, and ten stopped tabs of a browser cost a laptop no more than one more tab.
const ALL: usize = 128 << 20;
/// What a queued piece takes beside its bytes (its place in the queue, its head, the allocator's):
/// a host that sends single bytes fills memory no faster than another.
const PIECE: usize = 128;

/// The unread bytes of all connections beside one another. Clones are the same ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(Arc<Mutex<Queues>>);

#[derive(Debug, Default)]
struct Queues {
    /// The sum over `each`.
    all: usize,
    /// The number of the next queue.
    next: u64,
    each: HashMap<u64, Length>,
}

#[derive(Debug)]
struct Length {
    bytes: usize,
    dropped: Arc<Notify>,
}

/// What one connection has not read. It counts until this is dropped.
#[derive(Debug)]
pub(super) struct UnreadQueue {
    all: Unread,
    number: u64,
    dropped: Arc<Notify>,
}

impl Unread {
    /// A connection's queue, which is empty.
    pub(super) fn queue(&self) -> UnreadQueue {
        let dropped = Arc::<Notify>::default();
        let length = Length {
            bytes: 0,
            dropped: Arc::clone(&dropped),
        };
        let mut queues = self.queues();
        let number = queues.next;
        queues.next += 1;
        queues.each.insert(number, length);
        UnreadQueue {
            all: self.clone(),
            number,
            dropped,
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        // Nothing in here panics half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    /// Counts a queue no more, and has its connection dropped.
    fn drop_queue(&mut self, number: u64) {
        if let Some(length) = self.each.remove(&number) {
            self.all -= length.bytes;
            length.dropped.notify_one();
        }
    }

    fn longest(&self) -> Option<u64> {
        let longest = self.each.iter().max_by_key(|(_, length)| length.bytes)?;
        Some(*longest.0)
    }
}

impl UnreadQueue {
    /// Counts a piece that has arrived. What is too much then is dropped: this connection, or the
    /// one that has left most.
    pub(super) fn add(&self, piece: usize) {
        let mut queues = self.all.queues();
        let Some(length) = queues.each.get_mut(&self.number) else {
            return;
        };
        length.bytes += piece + PIECE;
        let is_too_long = length.bytes > EACH;
        queues.all += piece + PIECE;
        if is_too_long {
            queues.drop_queue(self.number);
        } else if queues.all > ALL
            && let Some(longest) = queues.longest()
        {
            queues.drop_queue(longest);
        }
    }

    /// Counts a piece no more, because it was read.
    pub(super) fn remove(&self, piece: usize) {
        let mut queues = self.all.queues();
        if let Some(length) = queues.each.get_mut(&self.number) {
            length.bytes -= piece + PIECE;
            queues.all -= piece + PIECE;
        }
    }

    /// Waits until the connection is to be dropped.
    pub(super) async fn dropped(&self) {
        self.dropped.notified().await;
    }
}

impl Drop for UnreadQueue {
    fn drop(&mut self) {
        self.all.queues().drop_queue(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many queues are dropped by now.
    fn dropped(queues: &[UnreadQueue]) -> Vec<usize> {
        let all = queues[0].all.queues();
        (0..queues.len())
            .filter(|at| !all.each.contains_key(&queues[*at].number))
            .collect()
    }

    #[test]
    fn one_that_leaves_too_much_is_dropped() {
        let unread = Unread::default();
        let queues = [unread.queue(), unread.queue()];
        for _ in 0..EACH / (PIECE + 1000) {
            queues[0].add(1000);
            queues[1].add(1000);
            queues[1].remove(1000);
        }
        assert!(dropped(&queues).is_empty());
        queues[0].add(1000);
        assert_eq!(dropped(&queues), [0]);
        assert_eq!(unread.queues().all, 0);
    }

    #[test]
    fn of_all_together_the_one_that_leaves_most_is_dropped() {
        let unread = Unread::default();
        let queues: Vec<_> = (0..10).map(|_| unread.queue()).collect();
        for turn in 0..ALL / (10 * PIECE) {
            for (at, queue) in queues.iter().enumerate() {
                // The fifth leaves twice as much.
                queue.add(0);
                if at == 5 {
                    queue.add(0);
                }
            }
            let gone = dropped(&queues);
            assert!(unread.queues().all <= ALL, "turn {turn}");
            if !gone.is_empty() {
                assert_eq!(gone, [5]);
                // Its bytes count no more, and those of the others do until they are dropped too.
                drop(queues);
                assert_eq!(unread.queues().all, 0);
                return;
            }
        }
        panic!("none was dropped");
    }

    #[tokio::test]
    async fn the_dropped_one_is_woken() {
        let unread = Unread::default();
        let queue = unread.queue();
        queue.add(EACH);
        queue.dropped().await;
        // What is under way counts for nobody.
        queue.add(1);
        queue.remove(1);
        assert_eq!(unread.queues().all, 0);
    }
}
