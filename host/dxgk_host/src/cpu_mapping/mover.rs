//! Who carries out what moves pages between a device and a process ([`Order`]): a thread, one order after the other and in their order; or
//! whoever holds the machine's lock and needs them done.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::there::{Moved, Order};

/// Who carries orders out.
pub(super) enum Mover {
    /// Whoever gives them, at once.
    AtOnce,
    /// A thread, in their order; or who waits for them.
    Thread(Given),
}

/// What that thread has to do.
enum Item {
    CarryOut(Order),
    /// Who has waited for it has carried it out, and told nobody.
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

/// The orders of a host, for whoever gives them. Dropped, there will be no more.
pub(super) struct Given(Arc<Queue>);

impl Drop for Given {
    fn drop(&mut self) {
        self.0.state().over = true;
        self.0.changed.notify_all();
    }
}

/// The same for the thread that carries them out. Dropped, it carries none out any more.
pub(crate) struct Orders(Arc<Queue>);

impl Drop for Orders {
    fn drop(&mut self) {
        self.0.state().abandoned = true;
        self.0.changed.notify_all();
    }
}

impl Orders {
    /// Carries out the next, if nobody has, and answers what the kernel is to be told. `None`: there will be no more.
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
    /// One that a thread has to serve.
    pub fn thread() -> (Mover, Orders) {
        let queue = Arc::new(Queue::default());
        (Mover::Thread(Given(Arc::clone(&queue))), Orders(queue))
    }

    /// Gives an order; what came of it, if that is known already.
    pub fn give(&mut self, order: Order) -> Option<Moved> {
        match self {
            Mover::AtOnce => Some(order.carry_out()),
            Mover::Thread(Given(queue)) => {
                // Without the thread the host is going, or the kernel is about to fail, and nobody is told of anything any more.
                queue.state().items.push_back(Item::CarryOut(order));
                queue.changed.notify_all();
                None
            }
        }
    }

    /// Sees to it that every order is carried out: what the thread has not begun is carried out here, and it tells the kernel of it as of
    /// what it has done itself. So the thread may wait for the kernel's lock, and whoever holds that for the thread's order.
    ///
    /// # Panics
    /// When the thread has died of a defect: what it was to take back is still shown, and whoever is given the pages next would be seen.
    pub fn finish(&self) {
        let Mover::Thread(Given(queue)) = self else { return };
        let mut state = queue.wait_while(|state| state.under_way && !state.abandoned);
        let left = state.items.iter().filter(|item| matches!(item, Item::CarryOut(_))).count();
        let died = state.abandoned && (state.under_way || left > 0);
        assert!(!died, "who lends memory has died, and {left} orders are not begun");
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
