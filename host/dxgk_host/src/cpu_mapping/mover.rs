//! Carries out the orders that move pages between a device and a process ([`Order`]): a thread does so, one order after the other; or a
//! thread that holds the machine's lock and needs the orders done carries out the rest itself.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::remote_view::{Moved, Order};

/// The thread that carries orders out.
pub(super) enum Mover {
    /// The giving thread, at once.
    AtOnce,
    /// A thread of their own, in their order; or a thread that waits for them ([`Mover::finish`]).
    Thread(Given),
}

/// An item of that thread's queue.
enum Item {
    CarryOut(Order),
    /// A waiting thread has carried the order out; the queue's thread reports the outcome.
    Tell(Moved),
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    items: VecDeque<Item>,
    /// The thread is in the middle of an order.
    under_way: bool,
    /// There will be no more.
    over: bool,
    /// There is no thread.
    abandoned: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, condition: impl Fn(&QueueState) -> bool) -> MutexGuard<'_, QueueState> {
        self.changed.wait_while(self.state(), |state| condition(state)).unwrap_or_else(PoisonError::into_inner)
    }
}

/// The giving end of a host's orders. Dropping it ends the thread.
pub(super) struct Given(Arc<Queue>);

impl Drop for Given {
    fn drop(&mut self) {
        self.0.state().over = true;
        self.0.changed.notify_all();
    }
}

/// The thread's end of a host's orders. Dropping it means that the thread carries out no more.
pub(crate) struct Orders(Arc<Queue>);

impl Drop for Orders {
    fn drop(&mut self) {
        self.0.state().abandoned = true;
        self.0.changed.notify_all();
    }
}

impl Orders {
    /// Carries out the next order, unless [`Mover::finish`] has, and returns its outcome for the kernel. `None`: there will be no more.
    pub fn next(&self) -> Option<Moved> {
        let mut state = self.0.wait_while(|state| state.items.is_empty() && !state.over);
        match state.items.pop_front()? {
            Item::Tell(moved) => Some(moved),
            Item::CarryOut(order) => {
                state.under_way = true;
                drop(state);
                let moved = order.carry_out();
                self.0.state().under_way = false;
                self.0.changed.notify_all();
                Some(moved)
            }
        }
    }
}

impl Mover {
    /// A mover whose orders a thread has to carry out.
    pub fn thread() -> (Mover, Orders) {
        let queue = Arc::new(Queue::default());
        (Mover::Thread(Given(Arc::clone(&queue))), Orders(queue))
    }

    /// Gives an order. Returns its outcome if this call has carried it out.
    pub fn give(&mut self, order: Order) -> Option<Moved> {
        match self {
            Mover::AtOnce => Some(order.carry_out()),
            Mover::Thread(Given(queue)) => {
                // The thread is missing only when the host is going or the kernel is about to fail: then no outcome is reported any more.
                queue.state().items.push_back(Item::CarryOut(order));
                queue.changed.notify_all();
                None
            }
        }
    }

    /// Returns when every order is carried out: this call waits for the order that the thread has begun and carries out the rest; the thread
    /// reports all outcomes. So the thread may wait for the kernel's lock while a thread that holds the lock waits here.
    ///
    /// # Panics
    /// When the thread has died of a defect: a process still sees pages that the thread was to take back, and would see the content of the
    /// pages' next owner.
    pub fn finish(&self) {
        let Mover::Thread(Given(queue)) = self else { return };
        let mut state = queue.wait_while(|state| state.under_way && !state.abandoned);
        let left = state.items.iter().filter(|item| matches!(item, Item::CarryOut(_))).count();
        let died = state.abandoned && (state.under_way || left > 0);
        assert!(!died, "the thread that lends memory has died, and {left} orders are not begun");
        for item in std::mem::take(&mut state.items) {
            let moved = match item {
                Item::CarryOut(order) => order.carry_out(),
                Item::Tell(moved) => moved,
            };
            state.items.push_back(Item::Tell(moved));
        }
    }
}

#[cfg(test)]
impl Mover {
    pub fn has_begun(&self) -> bool {
        !matches!(self, Mover::Thread(Given(queue)) if !queue.state().items.is_empty())
    }
}
