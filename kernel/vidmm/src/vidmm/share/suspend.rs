//! Devices whose lists cannot all be resident at once take turns (memory §8.2, §8.6). This machine decides which devices run; the kernel
//! stops and starts the contexts.
//!
//! A device is suspended by a work that needs its room ([`Work::suspends`]): the kernel stops its contexts, waits until
//! they are idle, then starts the work. From then on its content is a victim, taken page by page as others need it. It
//! comes back when there is room for all of its list beside the others; if there never is, it has its turn: the longest
//! waiting first, at the cost of those that have run for a quantum. Taken content comes back no earlier than a quantum later, so switching
//! costs a bounded part of the time; and the line is first in, first out, so no device waits for ever.
//!
//! A suspended device has queued work that does not run. The ring may not wait for that: it would hang. So a device is suspended only after
//! the last uses that it has named ([`Work::after`] comes before [`Work::suspends`]), and what it evicts or destroys while suspended keeps
//! its place in the list until its next turn, because the queued work still needs it.
//!
//! A device may also stand in line because a lock keeps content of its list out of memory segments (memory §10.1 row 23).
//! Only the unlock helps it, so devices behind it in the line take their turns before it. So do devices behind one whose room only processes of
//! higher protection have: time does not help that one.

use wddm_types::FencePoint;

use crate::device::{NextResume, Postponed};
use crate::paging::{Batch, Cause, Work, merge_points};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::{Claim, Limit, Takes};
use crate::vidmm::placement::residency::MakeResidentError;

impl<F: Copy + Eq> VidMm<F> {
    /// Whether the contexts of a device are stopped because its list is not resident.
    pub fn is_suspended(&self, device: DeviceId) -> bool {
        self.devices[device].is_suspended()
    }

    /// Whether any device is suspended.
    pub fn any_suspended(&self) -> bool {
        self.devices.any_waits()
    }

    /// The suspended devices, the longest waiting first.
    pub fn line(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.devices.line()
    }

    /// Whether a device has nothing to run. Content of idle devices goes before that of busy ones, and an idle
    /// suspended device does not stand in line. Devices start busy.
    pub fn set_device_idle(&mut self, device: DeviceId, idle: bool) {
        if idle == self.devices[device].is_idle() {
            return;
        }
        let tick = self.clock.next_tick();
        self.devices.set_idle(device, idle.then_some(tick), self.clock.now_ns());
    }

    /// The time, for quanta. It only rises; calls that take a time set it too.
    pub fn set_time(&mut self, now_ns: u64) {
        self.clock.pass_to(now_ns);
    }

    /// The device whose turn it is, planned anew only if the last answer may be out of date: an event has happened since
    /// ([`VidMm::forget_turn`] says so), or a time has come.
    // spec: memory §8.6
    pub fn next_to_resume_if_new(&mut self, now_ns: u64) -> NextResume {
        self.set_time(now_ns);
        if let Some(turn) = self.devices.known_turn(self.turn_stamp(), self.clock.now_ns()) {
            return turn;
        }
        let turn = self.next_to_resume(now_ns);
        self.devices.know_turn(turn, self.turn_stamp());
        turn
    }

    /// Drops the known answer, because an event may have given the next turn to another device.
    pub fn forget_turn(&mut self) {
        self.devices.forget_turn();
    }

    /// Numbers of which one changes whenever a work is made or completed, or a device falls idle or wakes.
    fn turn_stamp(&self) -> [u64; 3] {
        [self.clock.last_tick(), self.works.returned(), self.works.completed()]
    }

    /// The device whose turn it is.
    // spec: memory §8.6
    pub fn next_to_resume(&mut self, now_ns: u64) -> NextResume {
        self.set_time(now_ns);
        let mut again: Option<u64> = None;
        let mut sooner = |at: u64| again = Some(again.map_or(at, |known| known.min(at)));
        let mut first = true;
        for device in self.devices.line() {
            let known = &self.devices[device];
            if known.is_idle() {
                continue;
            }
            let not_before = known.not_before_ns();
            if not_before > self.clock.now_ns() {
                sooner(not_before);
                first = false;
                continue;
            }
            if self.kept_out_of(device).is_some() {
                continue;
            }
            debug_assert!(known.is_suspended(), "{device:?} stands in line, and runs");
            if let Some(end) = self.turn_before(device) {
                sooner(end);
                first = false;
                continue;
            }
            if self.plan_of_return(device, Takes::Lower).is_ok() {
                return NextResume::Resume(device);
            }
            // Only the first in line may cost others their place; a later one would take it from the first.
            if first {
                match self.plan_of_return(device, Takes::Turn) {
                    Ok(_) => return NextResume::Resume(device),
                    // It is full where locked content could go as well.
                    Err(MakeResidentError::Locked { .. }) => continue,
                    Err(_) => {}
                }
                match self.next_quantum_end(device) {
                    Some(at) => sooner(at),
                    None if self.is_in_its_own_way(device) => {}
                    // Only processes of higher protection have the room, and devices behind it in the line may have a turn.
                    None => continue,
                }
            }
            first = false;
        }
        match (again, self.in_its_own_way()) {
            (None, Some(device)) => NextResume::Withdraw(device),
            (again, _) => again.map_or(NextResume::NoDevice, NextResume::At),
        }
    }

    /// The first in line whose own content keeps its turn away.
    fn in_its_own_way(&self) -> Option<DeviceId> {
        let waits = |device: &DeviceId| !self.devices[*device].is_idle() && self.kept_out_of(*device).is_none();
        self.devices.line().find(|device| waits(device) && self.is_in_its_own_way(*device))
    }

    /// Whether a device has content in memory segments, although its list would fit if it were placed anew.
    fn is_in_its_own_way(&self, device: DeviceId) -> bool {
        let claim = Claim { device, takes: Takes::Lower, limit: Limit::None, for_holders: false, moves: true };
        self.lacks_table_room(device, Takes::Lower).is_none()
            && self.list_of(device).iter().any(|id| self.may_be_withdrawn(*id))
            && self.plan_alone(claim, &[]).is_ok()
    }

    /// An allocation of a device's list that a lock keeps out: the device has no turn before the unlock.
    // spec: memory §10.1 row 23
    pub fn kept_out_of(&self, device: DeviceId) -> Option<AllocationId> {
        self.all_kept_out_of(device).next()
    }

    /// Everything that locks keep out of a device's list.
    pub fn all_kept_out_of(&self, device: DeviceId) -> impl Iterator<Item = AllocationId> {
        let listed = self.devices[device].list();
        listed.filter(|id| self.allocations[*id].offer().is_none() && self.is_kept_out(*id))
    }

    /// Whether content lies in a memory segment and no running device needs it there: all of its holders are suspended.
    fn may_be_withdrawn(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        let all_quiesced = allocation.holders.iter().all(|device| self.devices[*device].is_suspended());
        allocation.pins == 0 && allocation.resident_pages() > 0 && all_quiesced
    }

    /// Takes a suspended device's content out of memory segments, so that all of its list can be placed anew: what could be
    /// elsewhere may stand where something lies that could not.
    pub fn withdraw_suspended(&mut self, device: DeviceId) -> Option<Work<F>> {
        assert!(self.is_suspended(device), "only what does not run loses its place");
        let mut batch = self.works.begin();
        for id in self.list_of(device) {
            if self.may_be_withdrawn(id) {
                self.withdraw(id, Cause::Resume, &mut batch);
            }
        }
        let stays = self.devices[device].list().find(|id| self.may_be_withdrawn(*id));
        debug_assert!(stays.is_none(), "{stays:?} stays in the way of {device:?}");
        self.finish(batch, false)
    }

    /// Brings a suspended device's whole list back. When the work is done (at once if `None`), its contexts may run.
    ///
    /// # Errors
    /// It does not fit now. Nothing changed.
    // spec: memory §5.1
    pub fn resume(&mut self, device: DeviceId) -> Result<Option<Work<F>>, MakeResidentError> {
        assert!(self.is_suspended(device), "only a suspended device is resumed");
        let lower = self.plan_of_return(device, Takes::Lower).map(|plan| (plan, Takes::Lower));
        let (mut plan, takes) =
            lower.or_else(|_| self.plan_of_return(device, Takes::Turn).map(|plan| (plan, Takes::Turn)))?;
        self.devices.take_turn(device, self.clock.now_ns());
        let mut batch = self.works.begin();
        for id in self.list_of(device) {
            self.rerank(id);
        }
        self.begin(&mut plan, device, &mut batch);
        self.end_turn_for(device, &mut batch);
        self.clear_way_for_tables(device, takes, &mut batch);
        self.carry_out(plan, Cause::Resume, &mut batch);
        self.restore_tables(self.devices[device].space(), &mut batch);
        let work = self.finish(batch, false);
        debug_assert!(!self.is_suspended(device), "{device:?} has its turn, and is suspended by it");
        let there = |id: &AllocationId| self.is_resident(*id) || self.offered(*id).is_some();
        let missing = self.devices[device].list().find(|id| !there(id));
        debug_assert!(missing.is_none(), "{device:?} has its turn without {missing:?} of its list");
        let steps = self.devices.take_postponed(device);
        self.do_postponed(device, steps);
        Ok(work)
    }

    /// A device that was resumed runs from now on; it took `switch_ns` to bring it back. It keeps its place at least so long
    /// that most of the time goes into its work.
    pub fn turn_began(&mut self, device: DeviceId, now_ns: u64, switch_ns: u64) {
        self.set_time(now_ns);
        let quantum_ns = self.policy.residency_quantum_ns;
        let longer_ns = self.worth_ns(device, switch_ns).saturating_sub(quantum_ns);
        let from_ns = self.clock.now_ns().saturating_add(longer_ns);
        self.devices.count_turn_from(device, from_ns);
        self.devices.count_turn_until(self.devices[device].space(), from_ns.saturating_add(quantum_ns));
    }

    /// Whether these last uses may belong to queued work of a suspended device, or to work that uses what the device withholds.
    pub(crate) fn must_postpone(&self, device: DeviceId, last_use: &[FencePoint<F>]) -> bool {
        (self.is_suspended(device) || self.devices.withholds(device)) && !last_use.is_empty()
    }

    /// Does what a suspended device asked for and whose last uses are over (`reached` says so of a point). Its work may have ended just
    /// before it was suspended: then it is idle, gets no turn, and its evicted allocations would stay on its list for ever.
    // spec: memory §5.3
    pub fn settle_postponed(&mut self, device: DeviceId, reached: impl Fn(&FencePoint<F>) -> bool) {
        let over = self.devices.take_postponed_over(device, reached);
        self.do_postponed(device, over);
    }

    /// Does steps that had to wait. Nothing leaves its place by it: a removal would wait for work that
    /// runs only after the turn's own paging work.
    fn do_postponed(&mut self, device: DeviceId, steps: Vec<Postponed<F>>) {
        // The list may be shorter behind it, though nothing moves.
        if !steps.is_empty() {
            self.clock.next_tick();
        }
        for step in steps {
            match step {
                Postponed::Evict { id, flags, last_use } => {
                    self.devices.note_uses(device, &last_use);
                    if !self.devices[device].lists(id) && self.devices.withhold_less(device, id) {
                        continue;
                    }
                    self.count_down(device, &[id], flags, &last_use, None);
                }
                Postponed::Doom { id, after } => {
                    self.devices.note_uses(device, &after);
                    self.doom(id, &after, None);
                }
                Postponed::Offer { id, last_use } => {
                    self.devices.note_uses(device, &last_use);
                    self.begin_due_offer(id, &last_use);
                }
            }
        }
    }

    /// Suspends the devices of a plan, so that their content can be taken.
    pub(crate) fn begin(
        &mut self,
        plan: &mut crate::vidmm::placement::plan::Plan,
        for_device: DeviceId,
        batch: &mut Batch<F>,
    ) {
        for device in std::mem::take(&mut plan.suspends) {
            self.suspend_now(device, batch);
            // The device that displaced another begins a new run now.
            self.devices.count_turn_from(for_device, self.clock.now_ns());
        }
    }

    /// The running devices that list an allocation; no device needs one that is offered.
    pub(crate) fn running_holders(&self, id: AllocationId) -> Vec<DeviceId> {
        let allocation = &self.allocations[id];
        let needed = allocation.holders.iter().filter(|_| allocation.offer().is_none());
        self.devices.running(needed).collect()
    }

    /// Puts a device into the line of those that wait for their turn.
    pub(crate) fn suspend_now(&mut self, device: DeviceId, batch: &mut Batch<F>) {
        self.stand_in_line(device);
        for id in self.list_of(device) {
            self.rerank(id);
        }
        debug_assert!(!batch.suspends.contains(&device), "{device:?} is suspended twice by one work");
        batch.suspends.push(device);
        merge_points(&mut batch.after, &self.devices.take_uses(device));
    }

    pub(crate) fn stand_in_line(&mut self, device: DeviceId) {
        let tick = self.clock.next_tick();
        self.devices.stand_in_line(device, tick);
    }

    /// Content of an allocation was taken: the suspended devices that list it do not come back within a quantum.
    pub(crate) fn note_loss(&mut self, id: AllocationId) {
        let not_before = self.clock.now_ns().saturating_add(self.policy.residency_quantum_ns);
        for &device in &self.allocations[id].holders {
            self.devices.keep_away(device, not_before);
        }
    }

    /// An allocation ends: whatever was postponed for it is void.
    pub(crate) fn forget_postponed(&mut self, id: AllocationId) {
        self.devices.forget_postponed(id);
        self.allocations.forget_waiting_offer(id);
    }

    pub(crate) fn list_of(&self, device: DeviceId) -> Vec<AllocationId> {
        self.devices[device].list().collect()
    }

    fn plan_of_return(
        &self,
        device: DeviceId,
        takes: Takes,
    ) -> Result<crate::vidmm::placement::plan::Plan, MakeResidentError> {
        if let Some(bytes_to_trim) = self.lacks_table_room(device, takes) {
            return Err(MakeResidentError::OutOfMemory { bytes_to_trim });
        }
        let offered = |id: &AllocationId| self.allocations[*id].offer().is_some();
        let list: Vec<AllocationId> = self.devices[device].list().filter(|id| !offered(id)).collect();
        self.plan(Claim { device, takes, limit: Limit::None, for_holders: false, moves: true }, &list)
    }

    /// When the next of those that a turn could displace has run for a quantum.
    fn next_quantum_end(&self, device: DeviceId) -> Option<u64> {
        let band = self.band_of(device);
        // A device with an empty list still has tables.
        let for_tables = !self.tables_resident(self.devices[device].space());
        let ends = self.devices.iter().filter(|(other, known)| {
            let has_room = for_tables || known.lists_any();
            *other != device && !known.is_suspended() && has_room && self.band_of(*other) <= band
        });
        let ends = ends.map(|(_, known)| known.active_since_ns().saturating_add(self.policy.residency_quantum_ns));
        ends.filter(|&end| end > self.clock.now_ns()).min()
    }
}
