//! Turns by forecast: processes whose lists fit together, while the content that they use in a turn does not (policy,
//! [`Eviction::Planner`](crate::Eviction)).
//!
//! A list names what one operation needs. Where two processes' operations alternate and only one of the processes fits, each operation takes what the
//! other process needs next, and copies are all that happens. So one process has its *turn*, and a list of another one suspends its device
//! (memory §8.6): it stands in the line, first in, first out, and the machinery of turns brings it back when the turn is over, when
//! the holder has nothing left to run, or when both fit.
//!
//! What holds: only a process that fits alone takes turns, and only with one that fits alone; a holder that is idle, suspended or gone holds up
//! no process; the planner never says who is next, the line does. A turn lasts some times as long as bringing all of the process's
//! content, so most of the time goes into work.

use foresight::{Event, Turn};

use crate::paging::Batch;
use crate::slab::{DeviceId, Key as _, SpaceId};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Whether a running device's list has to wait for its process's turn. If no other process has one, this one has it from now on.
    pub(crate) fn stands_back(&mut self, device: DeviceId) -> bool {
        if !self.foreseen.is_on() || !self.policy.suspend_others {
            return false;
        }
        let space = self.devices[device].space();
        if self.holder_beside(space).is_some() {
            return true;
        }
        let then = self.busy_since_ns();
        if self.devices.holder().is_none_or(|holder| self.devices.busy_of(holder, then).next().is_none()) {
            self.devices.hold(space);
        }
        false
    }

    /// When the turn ends that a suspended device has to wait for; `None`: it waits for none.
    pub(crate) fn turn_before(&self, device: DeviceId) -> Option<u64> {
        if !self.foreseen.is_on() {
            return None;
        }
        let holder = self.holder_beside(self.devices[device].space())?;
        let since =
            self.devices.busy_of(holder, self.busy_since_ns()).map(|(_, known)| known.active_since_ns()).max()?;
        let end = since.saturating_add(self.policy.residency_quantum_ns);
        (end > self.clock.now_ns()).then_some(end)
    }

    /// A device has its turn: the process that had it before, and does not fit beside it, stands in line.
    pub(crate) fn end_turn_for(&mut self, device: DeviceId, batch: &mut Batch<F>) {
        if !self.foreseen.is_on() {
            return;
        }
        let listed = self.devices[device].list().map(|id| self.allocations[id].pages).sum();
        self.devices.count_turn_pages(device, listed);
        let space = self.devices[device].space();
        let before = self.holder_beside(space);
        if let Some(before) = before {
            let busy: Vec<DeviceId> =
                self.devices.busy_of(before, self.busy_since_ns()).map(|(device, _)| device).collect();
            for device in busy {
                self.suspend_now(device, batch);
            }
        }
        if self.devices.holder() == Some(space) {
            return;
        }
        self.devices.hold(space);
        let process = self.process_number(device);
        for segment in self.foreseen.planned().iter() {
            self.foreseen.hear(segment, Event::Order { next: &[Turn { process, from_ns: 0, for_ns: 0 }] });
            self.rank_changed(segment);
        }
    }

    /// How long bringing all of a process's content takes, where bringing a device's list took so long.
    pub(crate) fn whole_switch_ns(&self, device: DeviceId, switch_ns: u64) -> u64 {
        let listed = self.devices[device].turn_pages();
        let footprint = self.foreseen.footprint(self.process_number(device));
        if !self.foreseen.is_on() || listed == 0 || footprint <= listed {
            return switch_ns;
        }
        // CAST: at most the factor times 64 bits, and cut there.
        let whole = u128::from(switch_ns) * u128::from(footprint) / u128::from(listed.max(footprint / WHOLE_MAX));
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    /// A process that had something to run at this time or later keeps its turn: between two steps it has nothing for a moment.
    fn busy_since_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.policy.residency_quantum_ns)
    }

    /// The process that has its turn, if it is another one that has something to run, and the two fit one at a time.
    fn holder_beside(&self, space: SpaceId) -> Option<SpaceId> {
        let holder = self.devices.holder().filter(|holder| *holder != space)?;
        self.devices.busy_of(holder, self.busy_since_ns()).next()?;
        let fit_one_at_a_time = self.foreseen.fit_one_at_a_time(space.parts().0, holder.parts().0);
        fit_one_at_a_time.then_some(holder)
    }
}

/// All content takes at most so many times as long as a list: a list may name next to nothing.
const WHOLE_MAX: u64 = 64;
