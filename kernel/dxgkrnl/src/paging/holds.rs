//! What the paging ring holds, and what ends each hold (`crate::hold`): buffers, windows, works, values, deferred actions, quiesced processes.
//! Called by the check of invariants alone.

use vidsch::QueueState;

use super::deferred::{Deferred, RingNeeds};
use super::rotation::Stage;
use super::{PagingRing, QueuedWork};
use crate::due::{RingWait, Waiter};
use crate::hold::{Hold, Until};
use crate::number::{DeviceNumber, PagingWorkNumber};
use crate::store::ObjectNumber;

impl PagingRing {
    /// Everything that the ring holds. `queue`: the state of its queue at the scheduler; `needs`: what others wait for at the ring.
    pub fn all_holds(&self, queue: QueueState, needs: &RingNeeds) -> Vec<Hold> {
        let mut holds = Vec::new();
        if let Some(next) = self.next_build() {
            holds.push(Hold::new("the next paging buffer", self.next_buffer as u64, Until::Progress(next)));
        }
        holds.extend(self.window_holds());
        holds.extend(self.works_first().into_iter().filter_map(|work| self.hold_of_head(work, queue)));
        if let Some(until) = self.stage_end() {
            holds.push(Hold::new("the paging ring around locked content, behind work", self.last_done, until));
        }
        // The kernel carries actions that nothing waits for out with the next turn that comes along, whenever that is.
        if let Some(&number) = self.deferred.awaited.front() {
            let until = match number {
                number if number <= self.shown() => Until::Nothing,
                number if number <= self.last_done => self.stage_end().unwrap_or(Until::Nothing),
                number => Until::Work(number),
            };
            holds.push(Hold::new("an action that is deferred behind work", number, until));
        }
        if let Some(value) = self.progress_to_watch(needs) {
            holds.push(Hold::new("what waits for the ring's progress", value, self.watch()));
        }
        holds.extend(self.stillnesses().map(|work| {
            let deferred = |what: &Deferred| matches!(what, Deferred::StillnessOver(number) if *number == work);
            let place = self.deferred.all.iter().find(|(_, what)| deferred(what));
            let until = place.map_or(Until::Nothing, |(number, _)| Until::Work(*number));
            Hold::new("processes that are quiesced for work", work.raw(), until)
        }));
        holds
    }

    /// The windows of the scratch area, each until its last chunk is over.
    fn window_holds(&self) -> impl Iterator<Item = Hold> + '_ {
        let borrowed = self.building.front().and_then(|work| work.progress.borrowed);
        self.busy_slots().map(move |(slot, busy_until)| {
            let under_construction = match busy_until {
                u64::MAX => borrowed.is_some_and(|borrowed| borrowed.slot == slot),
                value => value == self.progress_value + 1 && !self.building.is_empty(),
            };
            let until = if under_construction { Until::Buffer } else { Until::Progress(busy_until) };
            Hold::new("slot of the scratch area", slot as u64, until)
        })
    }

    /// The work that is to be built next, and the one that is to start next. The others stand behind these.
    fn works_first(&self) -> [Option<&QueuedWork>; 2] {
        [self.building.front(), self.held.front()]
    }

    /// What ends the hold of a work at the head of those to be built, or of those that have not started.
    fn hold_of_head(&self, work: Option<&QueuedWork>, queue: QueueState) -> Option<Hold> {
        let work = work?;
        let starts = self.held.front().is_some_and(|held| held.number == work.number);
        let wait = |wait| Until::Wait(Waiter::Ring(wait));
        let until = match queue {
            _ if !starts => self.stage_end().unwrap_or_else(|| self.watch()),
            QueueState::Waiting | QueueState::SuspendedWaiting => wait(RingWait::Packet),
            QueueState::Suspended => wait(RingWait::Suspension),
            QueueState::Ready | QueueState::Failed => Until::Nothing,
        };
        Some(Hold::new("paging work", work.number.raw(), until))
    }

    /// What ends the stage in which the ring stands around locked content; `None`: it does not stand.
    fn stage_end(&self) -> Option<Until> {
        match &self.stage {
            Stage::None | Stage::Building => None,
            Stage::Protecting(unanswered) | Stage::Showing(unanswered, ..) => {
                Some(if unanswered.is_empty() { Until::Nothing } else { Until::Answer })
            }
            Stage::Moving(work, _) => Some(Until::Work(work.raw())),
        }
    }

    /// The wait for the ring's own progress.
    fn watch(&self) -> Until {
        match self.waiting_progress {
            true => Until::Wait(Waiter::Ring(RingWait::Progress)),
            false => Until::Nothing,
        }
    }

    /// Whether the hardware was given a buffer that completes this value.
    pub fn will_reach(&self, value: u64) -> bool {
        value <= self.progress_value
    }

    /// Whether a work is under way that the ring is past, and that processes see, later than now.
    pub fn will_pass(&self, work: PagingWorkNumber) -> bool {
        (self.shown() + 1..=self.last_queued).contains(&work.raw())
    }

    /// The same of the memory manager's works.
    pub fn will_pass_serial(&self, serial: u64) -> bool {
        let unbuilt = self.building.iter().chain(&self.held).map(|work| work.serial);
        self.submitted.iter().map(|work| work.serial).chain(unbuilt).any(|queued| queued >= serial)
    }

    /// The work behind which a device goes on that is quiesced because content of its list moves.
    pub fn relocation_of(&self, device: DeviceNumber) -> Option<u64> {
        self.place_of(|what| matches!(what, Deferred::Relocated(devices) if devices.contains(&device)))
    }

    /// The work behind which a device has its turn.
    pub fn turn_of(&self, device: DeviceNumber) -> Option<u64> {
        self.place_of(|what| matches!(what, Deferred::Resume(of, _) if *of == device))
    }

    /// The work behind which a device goes on whose page tables change.
    pub fn stillness_of(&self, device: DeviceNumber) -> Option<u64> {
        self.stillness_works(device).map(PagingWorkNumber::raw).max()
    }

    fn place_of(&self, is: impl Fn(&Deferred) -> bool) -> Option<u64> {
        self.deferred.all.iter().rev().find(|(_, what)| is(what)).map(|(number, _)| *number)
    }
}
