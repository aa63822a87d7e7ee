//! QUEUE: what is asked of a loop, until the thread of the loop takes it.
//!
//! A flush of the disk costs about as much for one ask as for fifty. So the thread that takes from the queue may wait a little
//! for others who are likely to come, and is woken once for all of them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A queue from which one thread takes.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    woken: Condvar,
}

#[derive(Debug)]
struct Waiting<T> {
    /// What waits, each with its weight.
    items: VecDeque<(T, usize)>,
    weight: usize,
    /// While the thread that takes sleeps: the number of items and the weight that wake it.
    wakes: Option<(usize, usize)>,
    closed: bool,
}

/// When to take what is in a queue, and how much of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct When {
    /// How long to wait for a first item.
    pub(crate) first: Duration,
    /// The number of items to wait for after it.
    pub(crate) enough: usize,
    /// How long to wait for these.
    pub(crate) others: Duration,
    /// The weight that ends the wait, and that is taken together. The last item may exceed it.
    pub(crate) weight: usize,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        let waiting = Waiting { items: VecDeque::new(), weight: 0, wakes: None, closed: false };
        Queue { waiting: Mutex::new(waiting), woken: Condvar::new() }
    }

    /// Adds an item. One of weight 0 ends every wait. False if nobody will take it.
    pub(crate) fn push(&self, item: T, weight: usize) -> bool {
        let mut waiting = self.lock();
        if waiting.closed {
            return false;
        }
        waiting.items.push_back((item, weight));
        waiting.weight += weight;
        let now = (waiting.items.len(), waiting.weight);
        if waiting.wakes.is_some_and(|(items, all)| weight == 0 || now.0 >= items || now.1 >= all) {
            waiting.wakes = None;
            drop(waiting);
            self.woken.notify_one();
        }
        true
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Takes items in their order; none if none came in time.
    pub(crate) fn take(&self, when: When) -> Vec<T> {
        let mut waiting = self.wait(self.lock(), (1, when.weight), when.first);
        if !waiting.items.is_empty() {
            waiting = self.wait(waiting, (when.enough, when.weight), when.others);
        }
        let (mut taken, mut weight) = (Vec::new(), 0);
        while weight < when.weight
            && let Some((item, one)) = waiting.items.pop_front()
        {
            weight += one;
            taken.push(item);
        }
        waiting.weight -= weight;
        taken
    }

    /// Takes nothing any more, and drops what waits.
    pub(crate) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.weight = 0;
        let dropped = std::mem::take(&mut waiting.items);
        drop(waiting);
        drop(dropped);
    }

    /// Sleeps until so many items or so much weight is there, but no longer than this.
    fn wait<'a>(
        &'a self,
        mut waiting: MutexGuard<'a, Waiting<T>>,
        enough: (usize, usize),
        most: Duration,
    ) -> MutexGuard<'a, Waiting<T>> {
        let urgent = waiting.items.iter().any(|(_, weight)| *weight == 0);
        if urgent || waiting.items.len() >= enough.0 || waiting.weight >= enough.1 {
            return waiting;
        }
        let until = Instant::now() + most;
        waiting.wakes = Some(enough);
        while waiting.wakes.is_some() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                waiting.wakes = None;
            } else {
                waiting = self.woken.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        waiting
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// So long that a test which waits for it never ends.
    const EVER: Duration = Duration::from_secs(1 << 30);
    const NOW: Duration = Duration::ZERO;

    fn when(first: Duration, enough: usize, others: Duration) -> When {
        When { first, enough, others, weight: 10 }
    }

    #[test]
    fn items_come_in_their_order_and_together_up_to_a_weight() {
        let queue = Queue::new();
        assert_eq!(queue.take(when(NOW, 1, NOW)), [0; 0]);
        (1..=4).for_each(|item| assert!(queue.push(item, 4)));
        assert_eq!(queue.len(), 4);
        // The third exceeds the weight.
        assert_eq!(queue.take(when(EVER, 9, EVER)), [1, 2, 3]);
        assert_eq!(queue.take(when(EVER, 1, NOW)), [4]);
        // One alone may be heavier than everything that is taken together.
        assert!(queue.push(5, 99) && queue.push(6, 1));
        assert_eq!(queue.take(when(EVER, 9, EVER)), [5]);
        assert_eq!(queue.take(when(EVER, 2, Duration::from_millis(1))), [6]);
    }

    #[test]
    fn a_wait_ends_with_enough_items_or_enough_weight_or_an_urgent_item() {
        for (weights, enough) in [(vec![1, 1, 1], 3), (vec![1, 9], 99), (vec![1, 1, 0], 99), (vec![0], 99)] {
            let queue = Arc::new(Queue::new());
            let taker = {
                let (queue, expected) = (Arc::clone(&queue), weights.len());
                std::thread::spawn(move || assert_eq!(queue.take(when(EVER, enough, EVER)).len(), expected))
            };
            for weight in weights {
                std::thread::sleep(Duration::from_millis(2));
                assert!(queue.push((), weight));
            }
            taker.join().unwrap();
        }
    }

    #[test]
    fn a_closed_queue_drops_what_waits_and_takes_nothing() {
        let (queue, item) = (Queue::new(), Arc::new(()));
        assert!(queue.push(Arc::clone(&item), 1));
        queue.close();
        assert_eq!(Arc::strong_count(&item), 1);
        assert!(!queue.push(Arc::clone(&item), 1));
        assert_eq!((queue.len(), Arc::strong_count(&item)), (0, 1));
    }
}
