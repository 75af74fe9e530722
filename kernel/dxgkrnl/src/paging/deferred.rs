//! Actions that need the hardware past all paging work queued so far: giving pages back, ending objects that queued work still names,
//! answering calls that need their mappings. Here they stand in their order; `adapter::deferred` carries out the one that is due. This part
//! asks no other.
//!
//! The kernel asks to be told that the hardware is there only when a call or a device waits for an action. It carries the rest out with
//! the next turn of any process, for an interrupt costs more than a page that is free a little later. A process that has gone makes no
//! turn any more, and a name that ends may have been the last that kept memory of such a process: the kernel watches the ring until it is
//! past everything that these have left, works and actions ([`PagingRing::clear_behind`]).
//!
//! The numbers in `all` rise. `awaited` has the numbers of those in `all` that are awaited, in their order, and `turns` counts the turns of
//! devices among them.

use std::collections::VecDeque;

use kmt_calls::Reply;
use vidmm::SpaceId;
use wddm_types::{GpuVa, PageRun, Pages};

use super::{PagingRing, Submitted};
use crate::number::{
    CrossFenceNumber, DeviceNumber, FenceNumber, PagingQueueNumber, PagingWorkNumber, SectionNumber, Token,
};
use crate::store::ObjectNumber;

/// One thing that waits for the ring.
pub enum Deferred {
    Pages(PageRun),
    SystemMapping(GpuVa, Pages),
    /// The word of a cross-adapter fence is not reached any more.
    CommonUse(CrossFenceNumber),
    Space(SpaceId),
    Process(ddi::KmdProcess),
    Fence(FenceNumber),
    /// A process does not reach a fence any more that others have.
    UnreachedFence(FenceNumber),
    PagingQueue(PagingQueueNumber),
    /// A device whose turn begins, and when that was decided, in the time that works take ([`PagingRing::working_ns`](super::PagingRing::working_ns)).
    Resume(DeviceNumber, u64),
    Section(SectionNumber),
    /// The system copy of an allocation is up to date.
    Copy(vidmm::AllocationId),
    /// Lines of an allocation whose backing store the hardware writes.
    Lines(vidmm::AllocationId),
    Signal {
        fence: FenceNumber,
        value: u64,
    },
    PowerDown(Token, ddi::PowerState),
    /// Stop the adapter and answer.
    Stop(Token),
    Answer(Token, Box<Reply>),
    /// An unlocked allocation is where it was: the kernel answers whatever has become of the adapter (memory §8.6).
    Unlocked(Token),
    /// Nothing: calls wait for pages that come free here.
    Returns,
    /// Storage of fences that is somewhere else.
    WordsMoved(vidmm::AllocationId),
    /// Devices that were quiesced while content moved.
    Relocated(Vec<DeviceNumber>),
    /// Processes that were quiesced for the work of this number.
    StillnessOver(PagingWorkNumber),
}

impl Deferred {
    /// The devices that wait until it is carried out.
    fn devices(&self) -> &[DeviceNumber] {
        match self {
            Deferred::Resume(device, _) => std::slice::from_ref(device),
            Deferred::Relocated(devices) => devices,
            _ => &[],
        }
    }

    /// Whether a process waits until it is carried out, which the action does not name: for an answer, for a fence, or to go on.
    fn has_waiter(&self) -> bool {
        use Deferred::{Answer, PowerDown, Returns, Signal, StillnessOver, Stop, Unlocked};
        matches!(self, Answer(..) | Unlocked(_) | Returns | PowerDown(..) | Stop(_) | Signal { .. } | StillnessOver(_))
    }

    /// Whether a call or a device waits until it is carried out. The rest is done with the next turn that comes along.
    pub(super) fn is_awaited(&self) -> bool {
        let of_fence = matches!(self, Deferred::UnreachedFence(_) | Deferred::CommonUse(_));
        of_fence || self.has_waiter() || !self.devices().is_empty()
    }
}

/// The actions that wait for the ring.
#[derive(Default)]
pub(super) struct DeferredActions {
    /// Each with the number of the work that was queued last before it.
    pub(super) all: VecDeque<(u64, Deferred)>,
    /// The numbers of those that a call or a device waits for: the kernel watches the ring for them.
    pub(super) awaited: VecDeque<u64>,
    /// Turns of devices among them.
    pub(super) turns: usize,
    /// The kernel watches the ring up to the work of this number, and carries out the actions that are deferred until then as soon as the
    /// hardware is there: their process has gone, and makes no call any more that would find them due.
    leaving: u64,
    /// One of these is being carried out; the last work that was queued before it.
    clears: Option<u64>,
    /// Calls that wait for memory hear when the hardware has got past this work.
    returns_watched: u64,
}

impl DeferredActions {
    fn push(&mut self, queued: u64, what: Deferred) {
        debug_assert!(
            self.all.back().is_none_or(|(before, _)| *before <= queued),
            "actions stand in the order of works: one behind {queued}"
        );
        self.turns += usize::from(matches!(what, Deferred::Resume(..)));
        self.awaited.extend(what.is_awaited().then_some(queued));
        self.all.push_back((queued, what));
        if self.clears.is_some() {
            self.leaving = queued;
        }
        debug_assert!(self.awaited.len().max(self.turns) <= self.all.len(), "what is counted is among the actions");
    }

    /// The oldest, if the hardware has got that far. `queued`: the last work queued.
    fn pop(&mut self, up_to: u64, queued: u64) -> Option<Deferred> {
        if self.clears.take().is_some_and(|before| before < queued) {
            // The action before has queued works, which no later turn is counted on for, either.
            self.leaving = queued;
        }
        let (number, what) = self.all.pop_front_if(|(number, _)| *number <= up_to)?;
        self.turns -= usize::from(matches!(what, Deferred::Resume(..)));
        if what.is_awaited() {
            let awaited = self.awaited.pop_front();
            debug_assert_eq!(awaited, Some(number), "the first action that is awaited is counted first");
        }
        debug_assert!(self.awaited.len().max(self.turns) <= self.all.len(), "what is counted is among the actions");
        self.clears = (number <= self.leaving).then_some(queued);
        Some(what)
    }
}

/// A point that the paging ring must get past before a packet may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingNeed {
    /// Work of the memory manager, by its serial.
    Serial(u64),
    /// Any work, by its number in the ring.
    Number(u64),
}

/// What others wait for at the ring, besides those that have deferred an action.
#[derive(Default)]
pub struct RingNeeds {
    /// Values of paging queues, behind the work of this number.
    pub kept: Option<PagingWorkNumber>,
    /// Packets of contexts, behind this point.
    pub packets: Option<RingNeed>,
    /// Displays, behind the work with this serial.
    pub displays: Option<u64>,
    /// The kernel builds buffers now, and needs free ones.
    pub builds: bool,
}

impl PagingRing {
    /// Carries an action out when the ring has got past everything queued so far.
    pub fn defer(&mut self, what: Deferred) {
        self.deferred.push(self.last_queued, what);
    }

    /// Whether a process waits for an action that does not name it.
    pub fn has_waiters(&self) -> bool {
        self.deferred.all.iter().any(|(_, what)| what.has_waiter())
    }

    /// The devices that wait for actions.
    pub fn waiting_devices(&self) -> impl Iterator<Item = DeviceNumber> + '_ {
        self.deferred.all.iter().flat_map(|(_, what)| what.devices()).copied()
    }

    /// The oldest action, if the hardware has got past its place and the process sees what the work there has moved: before that nothing
    /// goes on behind the work. A ring that `is_over` gets no further.
    #[must_use = "the adapter carries the action out"]
    pub fn next_due(&mut self, shown: u64, is_over: bool) -> Option<Deferred> {
        self.deferred.pop(if is_over { u64::MAX } else { shown }, self.last_queued)
    }

    /// Whether the ring has nothing to be built, carried out, cleared or waited for, whatever the hardware does.
    pub fn is_at_rest(&self) -> bool {
        let defers = !self.deferred.all.is_empty() || self.deferred.clears.is_some();
        self.owes_no_progress() && !defers && !self.scratch_shows_any()
    }

    /// Whether no work is queued, with the hardware or about to be over: no operation names anything.
    pub fn has_nothing(&self) -> bool {
        self.is_idle() && self.is_at_rest()
    }

    /// How far the hardware has got, and what it has moved is shown.
    pub fn shown(&self) -> u64 {
        self.last_done.saturating_sub(u64::from(self.shows()))
    }

    /// Cancels the turns of a device that are to begin before the work of this number. Answers how many there were.
    pub fn cancel_turns(&mut self, device: DeviceNumber, before: PagingWorkNumber) -> usize {
        if self.deferred.turns == 0 {
            return 0;
        }
        let cancelled = |what: &Deferred| matches!(what, Deferred::Resume(resumed, _) if *resumed == device);
        let actions = &mut self.deferred;
        let known = actions.all.len();
        actions.all.retain(|(number, what)| *number >= before.raw() || !cancelled(what));
        let gone = known - actions.all.len();
        debug_assert!(gone <= actions.turns, "a turn is counted: {gone} of {} are cancelled", actions.turns);
        actions.turns -= gone;
        let awaited = actions.all.iter().filter(|(_, what)| what.is_awaited());
        actions.awaited = awaited.map(|(number, _)| *number).collect();
        gone
    }

    /// Whether a device's turn has been decided and has not begun.
    pub fn turn_outstanding(&self) -> bool {
        self.deferred.turns > 0
    }

    /// The sections that allocations are to leave when the ring has got so far.
    pub fn leaving_sections(&self) -> impl Iterator<Item = SectionNumber> {
        let section = |(_, what): &(u64, Deferred)| match what {
            Deferred::Section(section) => Some(*section),
            _ => None,
        };
        self.deferred.all.iter().filter_map(section)
    }

    /// Has the kernel hear when the ring has got past everything queued so far: calls wait for pages that it frees.
    pub fn watch_returns(&mut self) {
        debug_assert!(self.deferred.returns_watched <= self.last_queued, "a work that was queued is watched");
        if !self.is_idle() && self.deferred.returns_watched < self.last_queued {
            self.deferred.returns_watched = self.last_queued;
            self.defer(Deferred::Returns);
        }
    }

    /// A process, or the last name of an object, has gone: the kernel hears when the hardware has got past all that is queued until now,
    /// carries out the actions that are deferred until now, and likewise treats all that comes of these. It does not wait for a call. A work
    /// alone counts, too: its memory returns when the kernel notes that the hardware has finished it.
    pub fn clear_behind(&mut self) {
        self.deferred.leaving = self.last_queued;
    }

    /// The progress that ends the last work of those with the hardware that processes or names which have gone have left. A later one of
    /// these may wait for a client; the kernel watches it when the hardware has it.
    fn last_left(&self) -> Option<u64> {
        let mut with_hardware = self.submitted.iter().rev();
        with_hardware.find(|work| work.number.raw() <= self.deferred.leaving).map(|work| work.progress_value)
    }

    /// The first progress of the ring that the kernel needs to be told of: for a buffer to be reused, a deferred action, the works that a
    /// process which has gone has left, or the needs of others.
    pub fn progress_to_watch(&self, needs: &RingNeeds) -> Option<u64> {
        let behind = |past: &dyn Fn(&Submitted) -> bool| {
            self.submitted.iter().find(|work| past(work)).map(|work| work.progress_value)
        };
        let behind_number = |wanted: u64| behind(&|work| work.number.raw() >= wanted);
        let behind_serial = |wanted: u64| behind(&|work| work.serial >= wanted);
        // Half of the buffers at once: the hardware has the other half to go on with, and the CPU is woken seldom.
        let count = self.buffers.len();
        let middle = (self.next_buffer + (count - 1) / 2) % count;
        // A ring that stands around locked content waits for that, not for buffers.
        let builds = needs.builds && !self.building.is_empty() && !self.stands();
        let buffer = builds.then(|| self.buffers[middle].busy_until.max(self.hold_until));
        // The kernel goes on with these itself.
        let noted = self.moving().into_iter().chain(needs.kept).min().map(ObjectNumber::raw);
        let packets = needs.packets.and_then(|need| match need {
            RingNeed::Number(number) => behind_number(number),
            RingNeed::Serial(serial) => behind_serial(serial),
        });
        let awaited = self.deferred.awaited.front().copied();
        let numbers = [awaited, noted].map(|wanted| wanted.and_then(behind_number));
        let displays = needs.displays.and_then(behind_serial);
        numbers.into_iter().chain([buffer, packets, displays, self.last_left()]).flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(number: u64) -> Deferred {
        Deferred::Fence(FenceNumber::from_raw(number))
    }

    /// A death leaves an action behind work 5; another process queues works 6 and 7 meanwhile.
    fn left_behind_5() -> DeferredActions {
        let mut actions = DeferredActions::default();
        actions.push(5, fence(1));
        actions.leaving = 5;
        actions.push(6, fence(2));
        actions
    }

    #[test]
    fn what_an_action_of_a_death_defers_is_watched_too() {
        // spec: sync §3.4 (process exit)
        let mut actions = left_behind_5();
        assert!(matches!(actions.pop(5, 7), Some(Deferred::Fence(_))));
        actions.push(7, fence(3));
        assert_eq!((actions.leaving, actions.pop(5, 7).is_none()), (7, true), "behind works of others");
        // The action of the other process is one of those now.
        assert!(actions.pop(7, 7).is_some() && actions.pop(7, 7).is_some() && actions.pop(7, 7).is_none());
        actions.push(8, fence(4));
        assert_eq!(actions.leaving, 7, "no death has left the last one");
    }

    #[test]
    fn works_that_an_action_of_a_death_queues_are_watched_and_others_are_not() {
        // spec: sync §3.4 (process exit)
        let mut actions = left_behind_5();
        assert!(actions.pop(5, 7).is_some());
        assert!(actions.pop(5, 8).is_none(), "work 6 is not over");
        assert_eq!(actions.leaving, 8, "the action queued work 8");
        let mut actions = left_behind_5();
        actions.leaving = 4;
        assert!(actions.pop(5, 7).is_some() && actions.pop(5, 8).is_none());
        assert_eq!(actions.leaving, 4, "the action is of no death");
    }

    /// The kernel watches the ring for what a process waits for, and a device gives way to that process: to a device that the action names, else
    /// to any process.
    #[test]
    fn actions_say_who_waits_for_them() {
        // spec: memory §8.6, memory §10.1
        let device = DeviceNumber::from_raw(3);
        let fence_number = FenceNumber::from_raw(1);
        let waited: [(Deferred, bool, &[DeviceNumber]); 10] = [
            (Deferred::Answer(Token(1), Box::new(Reply::Done)), true, &[]),
            (Deferred::Unlocked(Token(1)), true, &[]),
            (Deferred::PowerDown(Token(1), ddi::PowerState::Standby), true, &[]),
            (Deferred::Stop(Token(1)), true, &[]),
            (Deferred::Returns, true, &[]),
            (Deferred::Signal { fence: fence_number, value: 1 }, true, &[]),
            (Deferred::StillnessOver(PagingWorkNumber::from_raw(1)), true, &[]),
            (Deferred::Resume(device, 0), false, &[device]),
            (Deferred::Relocated(vec![device]), false, &[device]),
            (fence(1), false, &[]),
        ];
        for (nth, (action, has_waiter, devices)) in waited.iter().enumerate() {
            assert_eq!((action.has_waiter(), action.devices()), (*has_waiter, *devices), "{nth}");
            assert_eq!(action.is_awaited(), *has_waiter || !devices.is_empty(), "{nth}");
        }
    }
}
