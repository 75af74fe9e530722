//! All queues of one adapter by id: their packets come out here as they fall due. `queue` holds the rules of one queue; the crate's
//! documentation says when to call which method. Nodes that take turns of packets are none of its business (`turn`).
//!
//! # Invariants
//! - `holding` has exactly the queues that hold packets.
//! - `unfinished` is the sum over the queues of an owner, and has no owner with 0.
//! - Every queue's number is below `created`.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::{FencePoint, NodeId};

use crate::lifecycle::{Event, QueueState};
use crate::packet::{Packet, QueueKind, Step, SubmitError};
use crate::queue::Queue;
use crate::unstarted::Unstarted;

#[cfg(test)]
mod order;
#[cfg(test)]
mod tests;

/// How many packets a queue holds before it refuses more, unless [`Limits`] say otherwise. Policy, not specification: far
/// above what a client has ahead of its engine, far below what would let one client fill the kernel's memory.
pub const PACKETS_PER_QUEUE_MAX: usize = 4096;

/// The scheduler's named limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Packets held on one queue; what is in flight does not count.
    pub packets_per_queue: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { packets_per_queue: PACKETS_PER_QUEUE_MAX }
    }
}

/// A queue of one [`Queues`]: a serial number, in order of creation. It is never used again, so that an id which outlived
/// its queue names nothing rather than the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId(u64);

/// The queues of one adapter. `P`: a work, `F`: a fence, as the caller names them.
pub struct Queues<P, F> {
    limits: Limits,
    queues: BTreeMap<QueueId, Queue<P, F>>,
    /// Those that hold packets: a look for work costs what they are, and not what queues there are.
    holding: BTreeSet<QueueId>,
    created: u64,
    /// The packets that queues hold or have in flight, per owner that they count for; an owner with 0 has no entry.
    unfinished: BTreeMap<u32, u64>,
}

impl<P, F: Copy + Ord> Queues<P, F> {
    /// No queue.
    pub fn new(limits: Limits) -> Self {
        Queues { limits, queues: BTreeMap::new(), holding: BTreeSet::new(), created: 0, unfinished: BTreeMap::new() }
    }

    /// A queue on `node`, ready. At most `in_flight_max` works are started and not completed at any time; 0 means
    /// unlimited (`DXGK_NODEMETADATA_FLAGS.MaxInFlightHwQueueBuffers`).
    // spec: sync §2.9
    pub fn create_queue(&mut self, node: NodeId, kind: QueueKind, in_flight_max: u32) -> QueueId {
        let id = QueueId(self.created);
        self.created += 1;
        let before = self.queues.insert(id, Queue::new(node, kind, in_flight_max));
        debug_assert!(before.is_none(), "{id:?} was given out before");
        debug_assert!(!self.holding.contains(&id), "{id:?} is new, and stands among those that hold packets");
        id
    }

    /// Forgets the queue, whatever its state, and returns in order what never came out. A wait that was handed out is the
    /// caller's to cancel.
    ///
    /// # Panics
    /// Here and in every method that takes a queue: if the queue was destroyed.
    pub fn destroy_queue(&mut self, queue: QueueId) -> Unstarted<P, F> {
        let gone = self.queues.remove(&queue).unwrap_or_else(|| stale(queue));
        let held = self.holding.remove(&queue);
        debug_assert_eq!(held, gone.held() > 0, "{queue:?} holds {} packets, and is known otherwise", gone.held());
        count(&mut self.unfinished, gone.owner, gone.unfinished(), 0);
        Unstarted::new(gone.into_packets())
    }

    /// Counts the packets of the queue for this owner from now on; the number means nothing here.
    ///
    /// # Panics
    /// If the queue counts for an owner already, or is not empty.
    pub fn count_for(&mut self, queue: QueueId, owner: u32) {
        self.change(queue, |queue| {
            assert!(queue.owner.is_none() && queue.unfinished() == 0, "a fresh queue counts for no owner and is empty");
            queue.owner = Some(owner);
        });
    }

    /// Packets that the queues of an owner hold, and works that were started and have not completed.
    pub fn unfinished_of(&self, owner: u32) -> u64 {
        let known = self.unfinished.get(&owner).copied();
        debug_assert!(known != Some(0), "owner {owner} has an entry for no packet");
        known.unwrap_or(0)
    }

    /// Puts a packet at the queue's end. A suspended queue takes it, too.
    ///
    /// # Errors
    /// See [`SubmitError`]; the packet is dropped, the queue unchanged.
    // spec: sync §2.5, §5
    pub fn submit(&mut self, queue: QueueId, packet: Packet<P, F>) -> Result<(), SubmitError> {
        let packets_max = self.limits.packets_per_queue;
        self.change(queue, |queue| queue.submit(packet, packets_max))
    }

    /// Whether so many packets more would be taken: for what goes to several queues, or to none.
    ///
    /// # Errors
    /// The error that [`submit`](Self::submit) would return.
    pub fn may_submit(&self, queue: QueueId, packets: usize) -> Result<(), SubmitError> {
        self.queue(queue).may_submit(packets, self.limits.packets_per_queue)
    }

    /// The step that is due now on this queue. Call until `None`, after each call here that can have made something due:
    /// `submit`, `waited`, `completed`, `resume`.
    // spec: sync §3.7, §3.8, §4.1
    pub fn next(&mut self, queue: QueueId) -> Option<Step<P, F>> {
        // The caller asks in every turn, and nothing is due on a queue that holds no packet.
        if self.queue(queue).held() == 0 {
            return None;
        }
        self.change(queue, Queue::next)
    }

    /// The wait that [`next`](Self::next) returned is over. Ignored on a failed queue.
    ///
    /// # Panics
    /// If the queue does not wait.
    pub fn waited(&mut self, queue: QueueId) {
        self.change(queue, |queue| queue.happens(Event::Waited));
    }

    /// The waits that stand in this queue wait no more for these points. The wait that [`next`](Self::next) has handed out is the caller's.
    pub fn wait_no_more(&mut self, queue: QueueId, over: impl Fn(&FencePoint<F>) -> bool) {
        self.change(queue, |queue| queue.wait_no_more(over));
    }

    /// The oldest `works` works in flight have finished on the engine.
    ///
    /// # Panics
    /// If fewer were in flight and the queue has not failed.
    pub fn completed(&mut self, queue: QueueId, works: u32) {
        self.change(queue, |queue| queue.completed(works));
    }

    /// The engine gave this work back, the youngest in flight of the queue. It comes out again before everything else of the
    /// queue, also before what a wait that was handed out holds: it stands in front of that wait. A caller that gives several back begins
    /// with the youngest.
    ///
    /// # Panics
    /// If nothing of the queue was in flight.
    // spec: sync §4.3
    pub fn preempted(&mut self, queue: QueueId, work: P) {
        self.change(queue, |queue| queue.preempted(work));
    }

    /// Nothing more comes out until [`resume`](Self::resume). No change if suspended already.
    // spec: sync §4.1
    pub fn suspend(&mut self, queue: QueueId) {
        self.change(queue, |queue| queue.happens(Event::Suspend));
    }

    /// Ends a suspension. No change if there is none.
    pub fn resume(&mut self, queue: QueueId) {
        self.change(queue, |queue| queue.happens(Event::Resume));
    }

    /// The queue's device is in error: nothing more comes out or goes in. Returns in order what was held; what is in
    /// flight stays so until it completes or is [lost](Self::lose_in_flight).
    pub fn fail(&mut self, queue: QueueId) -> Unstarted<P, F> {
        Unstarted::new(self.change(queue, Queue::fail))
    }

    /// The engine was reset under a failed queue: its work in flight will never complete. Returns how much it was.
    ///
    /// # Panics
    /// If the queue has not failed: an innocent queue loses nothing.
    pub fn lose_in_flight(&mut self, queue: QueueId) -> u32 {
        self.change(queue, Queue::lose_in_flight)
    }

    /// Where the queue is in its life.
    pub fn state(&self, queue: QueueId) -> QueueState {
        self.queue(queue).state
    }

    /// Whether nothing is held, in flight or waited for. Of a [`QueueKind::User`] queue the scheduler sees nothing: its
    /// progress fence tells (sync §3.11).
    pub fn is_idle(&self, queue: QueueId) -> bool {
        self.queue(queue).is_idle()
    }

    /// The node that the queue was created on.
    pub fn node(&self, queue: QueueId) -> NodeId {
        self.queue(queue).node
    }

    /// How work reaches the queue.
    pub fn kind(&self, queue: QueueId) -> QueueKind {
        self.queue(queue).kind
    }

    /// How many works were started and have not completed.
    pub fn in_flight(&self, queue: QueueId) -> u32 {
        self.queue(queue).in_flight
    }

    /// Whether the next step of this queue is a work that is due. A caller that shares an engine among queues asks before it takes the
    /// step.
    pub fn next_is_work(&self, queue: QueueId) -> bool {
        self.queue(queue).next_is_work()
    }

    /// How many packets have not come out.
    pub fn held(&self, queue: QueueId) -> usize {
        self.queue(queue).held()
    }

    /// The queues of a node, oldest first.
    pub fn queues_on(&self, node: NodeId) -> impl Iterator<Item = QueueId> {
        self.queues.iter().filter(move |(_, queue)| queue.node == node).map(|(id, _)| *id)
    }

    /// The queues that hold packets, oldest first: of the others nothing is due.
    pub fn holding(&self) -> impl Iterator<Item = QueueId> {
        self.holding.iter().copied()
    }

    fn queue(&self, id: QueueId) -> &Queue<P, F> {
        self.queues.get(&id).unwrap_or_else(|| stale(id))
    }

    /// Does something to a queue, and counts what is on it then.
    fn change<T>(&mut self, id: QueueId, act: impl FnOnce(&mut Queue<P, F>) -> T) -> T {
        let queue = self.queues.get_mut(&id).unwrap_or_else(|| stale(id));
        let (before, held) = (queue.unfinished(), queue.held());
        let result = act(queue);
        count(&mut self.unfinished, queue.owner, before, queue.unfinished());
        match (held, queue.held()) {
            (0, 1..) => drop(self.holding.insert(id)),
            (1.., 0) => drop(self.holding.remove(&id)),
            _ => {}
        }
        // Without the assertions nothing is looked up for them.
        if cfg!(debug_assertions) {
            self.assert_known(id);
        }
        result
    }

    fn assert_known(&self, id: QueueId) {
        let queue = self.queue(id);
        queue.assert_sound();
        let (held, known) = (queue.held(), self.holding.contains(&id));
        debug_assert_eq!(held > 0, known, "{id:?} holds {held} packets, and is known otherwise");
        let owned = queue.owner.map(|owner| self.unfinished.get(&owner).copied().unwrap_or(0));
        let unfinished = queue.unfinished();
        debug_assert!(
            owned.is_none_or(|all| unfinished <= all),
            "{unfinished} packets on {id:?}, and {owned:?} of all queues of its owner"
        );
    }
}

/// An owner has `now` of what was `before`.
fn count(unfinished: &mut BTreeMap<u32, u64>, owner: Option<u32>, before: u64, now: u64) {
    let Some(owner) = owner.filter(|_| before != now) else { return };
    let total = unfinished.entry(owner).or_default();
    debug_assert!(before <= *total, "one queue had {before} packets, and all of owner {owner} had {total}");
    *total = *total - before + now;
    if *total == 0 {
        unfinished.remove(&owner);
    }
}

fn stale(id: QueueId) -> ! {
    panic!("{id:?} names a queue that was destroyed: the kernel kept an id longer than its object")
}
