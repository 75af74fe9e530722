//! What is due on an adapter: the news that one of its parts, or a call, leaves behind and that another owner carries out later.
//!
//! The value of a fence changes deep inside a call, and the wait that ends by it may belong to a queue, to a lock or to the paging ring.
//! The code that sees the value does not let them go on there and then, because it is in the middle of a change of its own. It puts the
//! ended wait here, and [`crate::adapter::Adapter::settle`] carries it out when it comes to it; `order` says when that is.
//!
//! | queue | who puts in | who takes out, and when |
//! |---|---|---|
//! | ended waits, oldest first | fences, and what found its points reached at once | the loop; those of packet contexts the scheduler takes out before, from wherever they stand |
//! | events to set | waits and signals that name an event | the machine, when all adapters have settled |
//! | global handles that have gone with what they named | legacy objects, resources | the machine, behind each call |
//! | sections that allocations have left, one item for each use | the paging ring, when the last access is over | the machine, behind each call |
//! | refusals of the driver that are not judged (`refusal`) | the parts that hand work to the driver | the machine, behind each call |
//!
//! It is not the paging ring's queue of ends that wait for its works, and it decides nothing but the order of ended waits.
//! It asks no other part.
//!
//! Beside them it keeps whether the machine has acted on the adapter since it settled last (`machine::adapters`).
//!
//! What holds between calls of the machine: all five queues are empty, and the adapter has settled. `Machine::check_invariants` checks it.

mod order;
mod refusal;
mod waiter;

pub use order::{SettleStep, Settles, settle_in_order};
pub use refusal::{DriverRefusal, RefusedWork, Verdict};
pub use waiter::{RingWait, Waiter};

use std::collections::VecDeque;

use wddm_types::RawHandle;

use crate::number::{EventName, PacketContextNumber, SectionNumber};

/// The news of an adapter.
#[derive(Default)]
pub struct Due {
    ended: VecDeque<Waiter>,
    events: Vec<EventName>,
    gone_globals: Vec<RawHandle>,
    left_sections: Vec<SectionNumber>,
    refusals: Vec<DriverRefusal>,
    /// The machine has acted on the adapter since it settled last.
    touched: bool,
}

impl Due {
    /// A wait is over, or its points were reached before it began.
    pub fn wait_ended(&mut self, waiter: Waiter) {
        self.ended.push_back(waiter);
    }

    /// Several waits are over, in this order.
    pub fn waits_ended(&mut self, waiters: impl IntoIterator<Item = Waiter>) {
        self.ended.extend(waiters);
    }

    /// The wait that has been over for longest, to be carried out.
    #[must_use]
    pub fn next_waiter(&mut self) -> Option<Waiter> {
        self.ended.pop_front()
    }

    /// The packet contexts whose waits are over, in this order, wherever they stand: one of them may be the context that should have
    /// the node next.
    #[must_use]
    pub fn take_contexts(&mut self) -> Vec<PacketContextNumber> {
        let mut over = Vec::new();
        self.ended.retain(|waiter| match waiter {
            Waiter::Packets { context } => {
                over.push(*context);
                false
            }
            _ => true,
        });
        over
    }

    /// The paging ring is lost: its ended waits let nothing go on.
    pub fn forget_ring(&mut self) {
        self.ended.retain(|waiter| !matches!(waiter, Waiter::Ring(_)));
    }

    /// The machine is to set an event, if there is one.
    pub fn set_event(&mut self, event: impl Into<Option<EventName>>) {
        self.events.extend(event.into());
    }

    /// The events to set, in the order in which they fell due.
    #[must_use]
    pub fn take_events(&mut self) -> Vec<EventName> {
        std::mem::take(&mut self.events)
    }

    /// An object has gone that had this global handle.
    pub fn global_gone(&mut self, global: RawHandle) {
        debug_assert_ne!(global, RawHandle::NONE, "an object without a global handle has none that goes");
        self.gone_globals.push(global);
    }

    /// The global handles that the machine is to forget.
    #[must_use]
    pub fn take_gone_globals(&mut self) -> Vec<RawHandle> {
        std::mem::take(&mut self.gone_globals)
    }

    /// An allocation has left a section.
    pub fn section_left(&mut self, section: SectionNumber) {
        self.left_sections.push(section);
    }

    /// The sections that the machine is to hear of, one item for each use that is over.
    pub fn left_sections(&self) -> impl Iterator<Item = SectionNumber> + '_ {
        self.left_sections.iter().copied()
    }

    /// The same, which the machine hears of now.
    #[must_use]
    pub fn take_left_sections(&mut self) -> Vec<SectionNumber> {
        std::mem::take(&mut self.left_sections)
    }

    /// The machine acts on the adapter, which is to settle before the turn ends.
    pub fn touch(&mut self) {
        self.touched = true;
    }

    /// Whether the machine has acted on the adapter since it settled last.
    pub fn is_touched(&self) -> bool {
        self.touched
    }

    /// The adapter settles.
    pub fn settles(&mut self) {
        self.touched = false;
    }

    /// The first queue that still has news, if any, for the check between calls.
    pub fn left_over(&self) -> Option<&'static str> {
        let queues = [
            (self.ended.is_empty(), "ended waits"),
            (self.events.is_empty(), "events to set"),
            (self.gone_globals.is_empty(), "global handles that have gone"),
            (self.left_sections.is_empty(), "sections that were left"),
            (self.refusals.is_empty(), "refusals to judge"),
            (!self.touched, "acts of the machine that it has not settled behind"),
        ];
        queues.into_iter().find(|(is_empty, _)| !is_empty).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::EventNumber;
    use crate::store::ObjectNumber;

    fn packets(context: u64) -> Waiter {
        Waiter::Packets { context: PacketContextNumber::from_raw(context) }
    }

    #[test]
    fn contexts_leave_the_queue_from_wherever_they_stand_and_the_others_keep_their_order() {
        let mut due = Due::default();
        due.waits_ended([packets(1), Waiter::Ring(RingWait::Packet), packets(2), Waiter::Burial]);
        assert_eq!(due.take_contexts().into_iter().map(ObjectNumber::raw).collect::<Vec<_>>(), [1, 2]);
        assert!(matches!(due.next_waiter(), Some(Waiter::Ring(RingWait::Packet))));
        assert!(matches!(due.next_waiter(), Some(Waiter::Burial)));
        assert_eq!(due.left_over(), None);
    }

    #[test]
    fn a_lost_ring_takes_its_own_waits_along() {
        let mut due = Due::default();
        due.waits_ended([Waiter::Ring(RingWait::Progress), packets(1), Waiter::Ring(RingWait::Suspension)]);
        due.forget_ring();
        assert!(matches!(due.next_waiter(), Some(Waiter::Packets { .. })));
        assert!(due.next_waiter().is_none());
    }

    #[test]
    fn each_queue_is_named_while_it_has_news() {
        let mut due = Due::default();
        due.section_left(SectionNumber::from_raw(7));
        assert_eq!(
            (due.left_sections().collect::<Vec<_>>(), due.left_over()),
            (vec![SectionNumber::from_raw(7)], Some("sections that were left"))
        );
        due.global_gone(RawHandle(0x42));
        assert_eq!(due.left_over(), Some("global handles that have gone"));
        let event = EventName { process: wddm_types::ProcessId(1), number: EventNumber::from_raw(3) };
        due.set_event(None);
        due.set_event(event);
        assert_eq!(due.left_over(), Some("events to set"));
        due.wait_ended(Waiter::Burial);
        assert_eq!(due.left_over(), Some("ended waits"));
        assert!(due.next_waiter().is_some());
        assert_eq!((due.take_events().len(), due.take_gone_globals().len(), due.take_left_sections().len()), (1, 1, 1));
        assert_eq!(due.left_over(), None);
        due.touch();
        assert_eq!(due.left_over(), Some("acts of the machine that it has not settled behind"));
        due.settles();
        assert_eq!(due.left_over(), None);
    }
}
