//! The paging queues of an adapter's devices: the values that each has promised, and which code signals them. The ring carries works out
//! and knows a queue by its number; the fences are of `sync`. This part asks neither: the adapter has the fences signalled
//! (`adapter::paging_queue`).
//!
//! A value of a queue is reached in one of three ways:
//!
//! | the value stands behind | it is signalled by |
//! |---|---|
//! | its work alone | the hardware at the end of the work; the kernel, where the ring is of packets |
//! | its device's next turn | the work that comes with the turn, which completes the last of such values |
//! | the change of a mapping, too | the kernel, when the process sees what has come |
//!
//! *With a turn.* A call's effect on the list counts at once, and the device is quiesced until all of its list can be there. The paging
//! queue signals nothing from there on before the turn, so that its values keep their order. Three calls come to that:
//! - MakeResident of what may not enter a memory segment while it is locked (memory §6.3, memory §10.1 row 23). A client that
//!   never unlocks waits for itself; the event says so;
//! - UpdateAllocationProperty of content that may not stay where it is (memory §2.8);
//! - Reclaim of what does not fit beside others any more (memory §5.9).
//!
//! *Behind a mapping.* The process has locked the content, and sees it where it was before. From the value on the GPU may write where it
//! is now, and what the CPU reads then is what the GPU wrote; so the value stands behind the mapping's change, of which the process says
//! that it holds. The hardware, which would signal at the end of the move, does not know that: the kernel signals such a value, and the
//! queue's later ones until it is reached, for they would be past it. Only work behind such a value waits for the process's answer: the
//! ring goes on when no access reaches the places that were left.
//!
//! A queue stands in `kept` from when it keeps its first such value until [`PagingQueues::reached`] finds none left, or has gone.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, VecDeque};

use vidmm::{StateDigest, WithheldPlace};

use crate::number::{DeviceNumber, FenceNumber, PagingQueueNumber, PagingWorkNumber};
use crate::store::{ObjectNumber, Store};

/// A paging queue of a device.
#[derive(Debug)]
struct PagingQueue {
    device: DeviceNumber,
    /// Its fence.
    fence: FenceNumber,
    /// `D3DDDI_PAGINGQUEUE_PRIORITY`: -1 to 1.
    priority: i32,
    /// The last value promised.
    last_value: u64,
    /// Destroyed; it goes when the ring has passed.
    doomed: bool,
    /// Values that the kernel signals, when their process sees what has come, with their works: oldest first.
    pending_remap_signals: VecDeque<(u64, PagingWorkNumber)>,
    /// Values that come with the turn of the device that brings all content before a place, in the order of the values. Before that the queue
    /// signals nothing, so a value that is promised meanwhile stands here as well.
    with_turn: VecDeque<(u64, WithheldPlace)>,
    /// The value that the next work completes, if it is not a new one.
    due_value: Option<u64>,
    /// The last value that a decided turn completes, and its place.
    came: Option<(u64, WithheldPlace)>,
}

/// All paging queues of an adapter.
#[derive(Default)]
pub struct PagingQueues {
    known: Store<PagingQueueNumber, PagingQueue>,
    /// Those that the process of each device may name.
    of_devices: BTreeMap<DeviceNumber, BTreeSet<PagingQueueNumber>>,
    /// Those with values that the kernel signals.
    kept: BTreeSet<PagingQueueNumber>,
}

impl PagingQueues {
    /// A device gets a queue, which has promised nothing yet.
    pub fn create(&mut self, device: DeviceNumber, fence: FenceNumber, priority: i32) -> PagingQueueNumber {
        let number = self.known.insert(PagingQueue {
            device,
            fence,
            priority,
            last_value: 0,
            doomed: false,
            pending_remap_signals: VecDeque::new(),
            with_turn: VecDeque::new(),
            due_value: None,
            came: None,
        });
        let fresh = self.of_devices.entry(device).or_default().insert(number);
        debug_assert!(fresh && (-1..=1).contains(&priority), "queue {number:?} of priority {priority}");
        number
    }

    /// No process names a queue any more; works of the ring still do.
    pub fn doom(&mut self, number: PagingQueueNumber) {
        let queue = &mut self.known[number];
        debug_assert!(!queue.doomed, "a queue is destroyed once: {queue:?}");
        queue.doomed = true;
        if let Entry::Occupied(mut of) = self.of_devices.entry(queue.device) {
            of.get_mut().remove(&number);
            if of.get().is_empty() {
                of.remove();
            }
        }
    }

    /// The ring has got past the last work of a queue.
    pub fn forget(&mut self, number: PagingQueueNumber) {
        let gone = self.known.remove(number);
        debug_assert!(gone.as_ref().is_some_and(|queue| queue.doomed), "a queue that goes was destroyed: {gone:?}");
    }

    /// The queues of a device that its process may name.
    pub fn of_device(&self, device: DeviceNumber) -> impl Iterator<Item = PagingQueueNumber> + '_ {
        self.of_devices.get(&device).into_iter().flatten().copied()
    }

    /// The device of a queue.
    pub fn device_of(&self, number: PagingQueueNumber) -> DeviceNumber {
        self.known[number].device
    }

    /// Whether a process may name a queue.
    pub fn is_named(&self, number: PagingQueueNumber) -> bool {
        self.known.get(number).is_some_and(|queue| !queue.doomed)
    }

    /// The fence of a queue.
    pub fn fence_of(&self, number: PagingQueueNumber) -> FenceNumber {
        self.known[number].fence
    }

    /// The same for a number that may be stale.
    pub fn fence_if_there(&self, number: PagingQueueNumber) -> Option<FenceNumber> {
        self.known.get(number).map(|queue| queue.fence)
    }

    /// All, by number, with their fences.
    pub fn fences(&self) -> impl Iterator<Item = (PagingQueueNumber, FenceNumber)> {
        self.known.iter().map(|(number, queue)| (number, queue.fence))
    }

    /// A queue promises its next value for the work that is being queued. Also whether that is to be signalled behind this work: it is not
    /// while the queue waits for a turn. `place`: behind everything that is decided.
    pub fn promise(&mut self, number: PagingQueueNumber, place: WithheldPlace) -> (u64, bool) {
        let queue = &mut self.known[number];
        if let Some(due) = queue.due_value.take() {
            return (due, true);
        }
        match queue.with_turn.is_empty() {
            true => {
                queue.last_value += 1;
                (queue.last_value, true)
            }
            false => (self.promise_with_turn(number, place), false),
        }
    }

    /// The last value promised.
    pub fn last_value(&self, number: PagingQueueNumber) -> u64 {
        self.known[number].last_value
    }

    /// Promises the next value of a queue for the turn of its device that brings all content before this place.
    // spec: memory §10.1 row 23
    pub fn promise_with_turn(&mut self, number: PagingQueueNumber, place: WithheldPlace) -> u64 {
        let queue = &mut self.known[number];
        queue.last_value += 1;
        queue.with_turn.push_back((queue.last_value, place));
        queue.last_value
    }

    /// The kernel signals no values behind works from this one on. Answers with the values.
    #[must_use = "the values come with a later turn"]
    pub fn take_kept(&mut self, number: PagingQueueNumber, from: PagingWorkNumber) -> BTreeMap<PagingWorkNumber, u64> {
        let pending = &mut self.known[number].pending_remap_signals;
        let at = pending.partition_point(|(_, work)| *work < from);
        pending.split_off(at).into_iter().map(|(value, work)| (work, value)).collect()
    }

    /// Values that a queue has promised for works, rising, come with the turns of its device that bring all content before these places. A value
    /// whose turn has not begun keeps its own place.
    // spec: memory §4.9, memory §8.6
    pub fn withhold(&mut self, number: PagingQueueNumber, values: &[(u64, WithheldPlace)]) {
        let PagingQueue { with_turn, came, .. } = &mut self.known[number];
        for &(value, place) in values.iter().rev() {
            let next = with_turn.front();
            debug_assert!(next.is_none_or(|next| value < next.0), "works complete values before {next:?}: {values:?}");
            let own = came.filter(|(last, _)| value <= *last).map_or(place, |(_, own)| own.min(place));
            with_turn.push_front((value, own));
        }
    }

    /// Whether a queue waits for a turn of its device.
    pub fn awaits_turn(&self, number: PagingQueueNumber) -> bool {
        !self.known[number].with_turn.is_empty()
    }

    /// The queues of a device by their priorities, the highest first.
    pub fn by_priority(&self, device: DeviceNumber) -> Vec<PagingQueueNumber> {
        let mut queues: Vec<_> = self.of_device(device).collect();
        queues.sort_by_key(|queue| std::cmp::Reverse(self.known[*queue].priority));
        queues
    }

    /// The turn of a queue's device is decided; `first`: the first place of what the device withholds even so. True: the queue has waited for
    /// the turn, and the next work that completes a value of it completes the last one promised before that place, which says that everything
    /// before it is there.
    #[must_use = "a work is queued that completes the value"]
    pub fn turn_decided(&mut self, number: PagingQueueNumber, first: Option<WithheldPlace>) -> bool {
        let queue = &mut self.known[number];
        let is_before = |place| first.is_none_or(|first| place < first);
        let mut due = None;
        while let Some(value) = queue.with_turn.pop_front_if(|(_, place)| is_before(*place)) {
            due = Some(value);
        }
        queue.due_value = due.map(|(value, _)| value);
        queue.came = due.or(queue.came);
        due.is_some()
    }

    /// Whether the hardware may signal a work's value itself. If not, it is noted for the kernel to do so. `shows`: behind the work the
    /// process sees locked content elsewhere.
    // spec: memory §4.9, memory §6.3
    pub fn hardware_keeps(
        &mut self,
        (number, value): (PagingQueueNumber, u64),
        work: PagingWorkNumber,
        shows: bool,
    ) -> bool {
        let queue = &mut self.known[number];
        debug_assert!(value <= queue.last_value, "a value that is signalled was promised: {value} of {queue:?}");
        let pending = &mut queue.pending_remap_signals;
        debug_assert!(
            pending.back().is_none_or(|(last, before)| *last < value && *before < work),
            "the values that are kept rise with their works: {value} behind {pending:?}"
        );
        if pending.is_empty() && !shows {
            return true;
        }
        pending.push_back((value, work));
        self.kept.insert(number);
        false
    }

    /// The queues with values that the kernel signals.
    pub fn kept(&self) -> Vec<PagingQueueNumber> {
        self.kept.iter().copied().collect()
    }

    /// The last value of a queue that the kernel may signal now, and need not keep any more. `sees`: whether the process of this device
    /// sees what the work of this number has moved, which is done.
    #[must_use = "the kernel signals the value"]
    pub fn reached(
        &mut self,
        number: PagingQueueNumber,
        sees: impl Fn(DeviceNumber, PagingWorkNumber) -> bool,
    ) -> Option<u64> {
        let mut reached = None;
        if let Some(queue) = self.known.get_mut(number) {
            while let Some((value, work)) = queue.pending_remap_signals.front().copied()
                && sees(queue.device, work)
            {
                queue.pending_remap_signals.pop_front();
                reached = Some(value);
            }
        }
        if self.known.get(number).is_none_or(|queue| queue.pending_remap_signals.is_empty()) {
            self.kept.remove(&number);
        }
        reached
    }

    /// The first work behind this one that the hardware is to get past for a value that the kernel signals.
    pub fn first_kept(&self, done: u64) -> Option<PagingWorkNumber> {
        let queues = self.kept.iter().filter_map(|queue| self.known.get(*queue));
        let fronts = queues.filter_map(|queue| queue.pending_remap_signals.front().map(|(_, work)| *work));
        fronts.filter(|work| work.raw() > done).min()
    }

    /// The first value of each queue that the kernel signals: the queue's device, and the work before the value.
    pub fn first_kept_of_each(&self) -> impl Iterator<Item = (DeviceNumber, PagingWorkNumber)> + '_ {
        let queues = self.kept.iter().filter_map(|queue| self.known.get(*queue));
        queues.filter_map(|queue| queue.pending_remap_signals.front().map(|(_, work)| (queue.device, *work)))
    }

    /// The devices with a queue that waits for their turn, once for each queue.
    pub fn devices_that_await_turns(&self) -> impl Iterator<Item = DeviceNumber> + '_ {
        let waiting = self.known.iter().filter(|(_, queue)| !queue.with_turn.is_empty() && !queue.doomed);
        waiting.map(|(_, queue)| queue.device)
    }

    /// The hardware is not waited for any more, nor a turn: nothing that a queue has promised could still come. The last value of each
    /// fence.
    #[must_use = "the kernel signals the values"]
    pub fn promise_nothing(&mut self) -> Vec<(FenceNumber, u64)> {
        for number in std::mem::take(&mut self.kept) {
            if let Some(queue) = self.known.get_mut(number) {
                queue.pending_remap_signals.clear();
            }
        }
        let numbers: Vec<_> = self.known.iter().map(|(number, _)| number).collect();
        let satisfy = |number| {
            let queue = &mut self.known[number];
            queue.with_turn.clear();
            (queue.fence, queue.last_value)
        };
        numbers.into_iter().map(satisfy).collect()
    }

    /// Finds a queue that a process may name and that is not listed for its device, or a listed one that is not such, or
    /// whose device is not there; and a queue that keeps values and does not stand in `kept`, or stands there without.
    ///
    /// # Errors
    /// It.
    pub fn check(&self, is_there: impl Fn(DeviceNumber) -> bool) -> Result<(), String> {
        if let Some(device) = self.of_devices.keys().find(|device| !is_there(**device)) {
            return Err(format!("{device:?} has gone, and paging queues are listed for it"));
        }
        let is_of =
            |device, number| self.known.get(number).is_some_and(|queue| queue.device == device && !queue.doomed);
        let mut listed =
            self.of_devices.iter().flat_map(|(device, of)| of.iter().map(move |number| (*device, *number)));
        let named = self.known.iter().filter(|(_, queue)| !queue.doomed).count();
        let lost = |(number, queue): &(PagingQueueNumber, &PagingQueue)| {
            let values = &queue.pending_remap_signals;
            values.is_empty() == self.kept.contains(number)
                || values.back().is_some_and(|(value, _)| *value > queue.last_value)
        };
        if let Some((number, queue)) = self.known.iter().find(lost) {
            return Err(format!("{number:?} keeps what it has not promised, or is not found: {queue:?}"));
        }
        match listed.find(|(device, number)| !is_of(*device, *number)) {
            Some(wrong) => Err(format!("{wrong:?} is listed")),
            None if self.of_devices.values().map(BTreeSet::len).sum::<usize>() == named => Ok(()),
            None => Err("a paging queue is of no device".into()),
        }
    }

    /// For the digest of the adapter's state.
    pub fn add_to(&self, digest: &mut StateDigest) {
        self.known.iter().for_each(|(number, queue)| digest.add("paging queue", &number, queue));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> (PagingQueues, PagingQueueNumber) {
        let mut queues = PagingQueues::default();
        let number = queues.create(DeviceNumber::from_raw(1), FenceNumber::from_raw(1), 0);
        (queues, number)
    }

    /// A queue waits for its device's turn when the device comes to withhold content that was promised meanwhile.
    #[test]
    fn a_turn_completes_the_values_before_what_the_device_withholds() {
        // spec: memory §4.9, memory §8.6
        let (mut queues, queue) = queue();
        assert_eq!(queues.promise(queue, WithheldPlace::behind(1)), (1, true));
        assert_eq!(queues.promise_with_turn(queue, WithheldPlace::behind(2)), 2);
        assert_eq!(queues.promise(queue, WithheldPlace::behind(3)), (3, false));
        assert_eq!(queues.promise(queue, WithheldPlace::behind(4)), (4, false));
        queues.withhold(queue, &[(1, WithheldPlace::behind(1))]);
        assert!(
            queues.turn_decided(queue, Some(WithheldPlace::of(3))),
            "what the work with the serial 3 brings is withheld"
        );
        assert_eq!(queues.promise(queue, WithheldPlace::behind(5)), (2, true));
        assert!(!queues.turn_decided(queue, Some(WithheldPlace::of(3))), "it brings nothing more");
        assert!(queues.turn_decided(queue, Some(WithheldPlace::of(4))));
        assert_eq!(queues.promise(queue, WithheldPlace::behind(5)), (3, true));
        assert!(queues.awaits_turn(queue));
        assert!(queues.turn_decided(queue, None));
        assert_eq!(queues.promise(queue, WithheldPlace::behind(5)), (4, true));
        assert_eq!(queues.promise(queue, WithheldPlace::behind(5)), (5, true), "it waits for no turn any more");
    }

    /// A turn was decided, and its work is taken back before it has begun.
    #[test]
    fn values_that_are_withheld_again_keep_their_places() {
        // spec: memory §4.9, memory §8.6
        let (mut queues, queue) = queue();
        for serial in 1..4 {
            queues.promise_with_turn(queue, WithheldPlace::behind(serial));
        }
        assert!(queues.turn_decided(queue, Some(WithheldPlace::of(2))));
        assert_eq!(queues.promise(queue, WithheldPlace::behind(3)), (1, true));
        queues.withhold(queue, &[(1, WithheldPlace::behind(3))]);
        assert!(
            queues.turn_decided(queue, Some(WithheldPlace::of(2))),
            "a work that waits for it stands before the second"
        );
        assert_eq!(queues.promise(queue, WithheldPlace::behind(3)), (1, true));
        assert!(queues.turn_decided(queue, None));
        assert_eq!(queues.promise(queue, WithheldPlace::behind(3)), (3, true));
    }
}
