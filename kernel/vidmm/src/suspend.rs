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
//! Only the unlock helps it, so devices behind it in the line take their turns before it.

use wddm_types::FencePoint;

use crate::paging::{Batch, Cause, Work, merge_points};
use crate::plan::{Claim, Limit, Takes};
use crate::residency::{EvictFlags, MakeResidentError};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;

/// A suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suspension {
    /// Place in the line.
    pub tick: u64,
    /// Not to be resumed before, because content was taken lately.
    pub not_before_ns: Option<u64>,
}

/// A step that a suspended device asked for and that waits for its queued work.
#[derive(Clone, Debug)]
pub(crate) enum Postponed<F> {
    /// Evict from the device's list.
    Evict { id: AllocationId, flags: EvictFlags, last_use: Vec<FencePoint<F>> },
    /// Destruction of the allocation.
    Doom { id: AllocationId, after: Vec<FencePoint<F>> },
    /// An offer: for its process it is offered.
    Offer { id: AllocationId, last_use: Vec<FencePoint<F>> },
}

impl<F> Postponed<F> {
    /// The allocation that it concerns.
    pub fn allocation(&self) -> AllocationId {
        match self {
            Postponed::Evict { id, .. } | Postponed::Doom { id, .. } | Postponed::Offer { id, .. } => *id,
        }
    }

    /// The last uses that it waits for.
    fn points(&self) -> &[FencePoint<F>] {
        match self {
            Postponed::Evict { last_use, .. } | Postponed::Offer { last_use, .. } => last_use,
            Postponed::Doom { after, .. } => after,
        }
    }
}

/// The device to be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextResume {
    /// This one, now: call [`VidMm::resume`].
    Resume(DeviceId),
    /// This one's own content lies in its own way: call [`VidMm::withdraw_suspended`], then ask again.
    Withdraw(DeviceId),
    /// No device yet; ask again at this time, and whenever memory comes free.
    At(u64),
    /// No device waits, or each that waits needs memory that only its holders can give up, or an unlock. Ask again after those.
    NoDevice,
}

/// The last answer about the next turn, and the stamp of the state that it holds for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownTurn {
    turn: NextResume,
    stamp: [u64; 3],
}

impl<F: Copy + Eq> VidMm<F> {
    /// Whether the contexts of a device are stopped because its list is not resident.
    pub fn is_suspended(&self, device: DeviceId) -> bool {
        self.devices[device].suspended.is_some()
    }

    /// Whether any device is suspended.
    pub fn any_suspended(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a device has nothing to run. Content of idle devices goes before that of busy ones, and an idle
    /// suspended device does not stand in line. Devices start busy.
    pub fn set_device_idle(&mut self, device: DeviceId, idle: bool) {
        if idle == self.devices[device].idle_since.is_some() {
            return;
        }
        self.tick += 1;
        self.devices[device].idle_since = idle.then_some(self.tick);
    }

    /// The time, for quanta. It only rises; calls that take a time set it too.
    pub fn set_time(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// The device whose turn it is, planned anew only if the last answer may be out of date: an event has happened since
    /// ([`VidMm::forget_turn`] says so), or a time has come.
    // spec: memory §8.6
    pub fn next_to_resume_if_new(&mut self, now_ns: u64) -> NextResume {
        self.set_time(now_ns);
        let holds = |turn: &NextResume| match turn {
            NextResume::NoDevice => true,
            NextResume::At(then) => self.now_ns < *then,
            NextResume::Resume(_) | NextResume::Withdraw(_) => false,
        };
        let known = self.known_turn.filter(|known| known.stamp == self.turn_stamp()).map(|known| known.turn);
        if let Some(turn) = known.filter(holds) {
            return turn;
        }
        let turn = self.next_to_resume(now_ns);
        self.known_turn = Some(KnownTurn { turn, stamp: self.turn_stamp() });
        turn
    }

    /// Drops the known answer, because an event may have given the next turn to another device.
    pub fn forget_turn(&mut self) {
        self.known_turn = None;
    }

    /// Numbers of which one changes whenever a work is made or completed, or a device falls idle or wakes.
    fn turn_stamp(&self) -> [u64; 3] {
        [self.tick, self.works.returned(), self.works.completed()]
    }

    /// The device whose turn it is.
    // spec: memory §8.6
    pub fn next_to_resume(&mut self, now_ns: u64) -> NextResume {
        self.set_time(now_ns);
        let mut again: Option<u64> = None;
        let mut sooner = |at: u64| again = Some(again.map_or(at, |known| known.min(at)));
        let mut first = true;
        for &device in self.waiting.values() {
            let known = &self.devices[device];
            if known.idle_since.is_some() {
                continue;
            }
            let not_before = known.suspended.and_then(|s| s.not_before_ns).unwrap_or(0);
            if not_before > self.now_ns {
                sooner(not_before);
                first = false;
                continue;
            }
            if self.kept_out_of(device).is_some() {
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
                if let Some(at) = self.next_quantum_end(device) {
                    sooner(at);
                }
            }
            first = false;
        }
        match (again, self.in_its_own_way()) {
            (None, Some(device)) => NextResume::Withdraw(device),
            (again, _) => again.map_or(NextResume::NoDevice, NextResume::At),
        }
    }

    /// The first in line that has content in memory segments, although its list would fit if it were placed anew.
    fn in_its_own_way(&self) -> Option<DeviceId> {
        let claim = |device| Claim { device, takes: Takes::Lower, limit: Limit::None, for_holders: false };
        let waits =
            |device: &DeviceId| self.devices[*device].idle_since.is_none() && self.kept_out_of(*device).is_none();
        let first = self.waiting.values().copied().find(waits)?;
        if self.lacks_table_room(first, Takes::Lower).is_some() {
            return None;
        }
        let blocked = self.list_of(first).iter().any(|id| self.may_be_withdrawn(*id))
            && self.plan_alone(claim(first), &[]).is_ok();
        blocked.then_some(first)
    }

    /// An allocation of a device's list that a lock keeps out: the device has no turn before the unlock.
    // spec: memory §10.1 row 23
    pub fn kept_out_of(&self, device: DeviceId) -> Option<AllocationId> {
        self.all_kept_out_of(device).next()
    }

    /// Everything that locks keep out of a device's list.
    pub fn all_kept_out_of(&self, device: DeviceId) -> impl Iterator<Item = AllocationId> {
        let listed = self.devices[device].counts.keys().copied();
        listed.filter(|id| self.allocations[*id].offer.is_none() && self.is_kept_out(*id))
    }

    /// Whether content lies in a memory segment and no running device needs it there: all of its holders are suspended.
    fn may_be_withdrawn(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        let all_quiesced = allocation.holders.iter().all(|device| self.devices[*device].suspended.is_some());
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
        let suspension = self.devices[device].suspended.take().expect("just seen");
        self.waiting.remove(&suspension.tick);
        self.devices[device].active_since_ns = self.now_ns;
        self.devices[device].restart_trim = true;
        let mut batch = self.works.begin();
        for id in self.list_of(device) {
            self.rerank(id);
        }
        self.begin(&mut plan, device, &mut batch);
        self.clear_way_for_tables(device, takes, &mut batch);
        self.carry_out(plan, Cause::Resume, &mut batch);
        self.restore_tables(self.devices[device].space, &mut batch);
        let work = self.finish(batch, false);
        self.do_postponed(device, self.devices[device].postponed.len());
        Ok(work)
    }

    /// A device that was resumed runs from now on; it took `switch_ns` to bring it back. It keeps its place at least so long
    /// that most of the time goes into its work.
    pub fn turn_began(&mut self, device: DeviceId, now_ns: u64, switch_ns: u64) {
        self.set_time(now_ns);
        let worth_ns = switch_ns.saturating_mul(self.policy.turn_worth);
        let longer_ns = worth_ns.saturating_sub(self.policy.residency_quantum_ns);
        self.devices[device].active_since_ns = self.now_ns.saturating_add(longer_ns);
    }

    /// Whether these last uses may belong to queued work of a suspended device.
    pub(crate) fn must_postpone(&self, device: DeviceId, last_use: &[FencePoint<F>]) -> bool {
        self.is_suspended(device) && !last_use.is_empty()
    }

    /// Does what a suspended device asked for and whose last uses are over (`reached` says so of a point). Its work may have ended just
    /// before it was suspended: then it is idle, gets no turn, and its evicted allocations would stay on its list for ever.
    // spec: memory §5.3
    pub fn settle_postponed(&mut self, device: DeviceId, reached: impl Fn(&FencePoint<F>) -> bool) {
        let postponed = &self.devices[device].postponed;
        let over = postponed.iter().take_while(|step| step.points().iter().all(&reached)).count();
        self.do_postponed(device, over);
    }

    /// Does the first `count` steps of what had to wait. Nothing leaves its place by it: a removal would wait for work that
    /// runs only after the turn's own paging work.
    fn do_postponed(&mut self, device: DeviceId, count: usize) {
        // The list may be shorter behind it, though nothing moves.
        self.tick += u64::from(count > 0);
        let later = self.devices[device].postponed.split_off(count);
        for step in std::mem::replace(&mut self.devices[device].postponed, later) {
            match step {
                Postponed::Evict { id, flags, last_use } => {
                    merge_points(&mut self.devices[device].last_uses, &last_use);
                    self.count_down(device, &[id], flags, &last_use, None);
                }
                Postponed::Doom { id, after } => {
                    merge_points(&mut self.devices[device].last_uses, &after);
                    self.doom(id, &after);
                }
                Postponed::Offer { id, last_use } => {
                    merge_points(&mut self.devices[device].last_uses, &last_use);
                    self.begin_due_offer(id, &last_use);
                }
            }
        }
    }

    /// Suspends the devices of a plan, so that their content can be taken.
    pub(crate) fn begin(&mut self, plan: &mut crate::plan::Plan, for_device: DeviceId, batch: &mut Batch<F>) {
        for device in std::mem::take(&mut plan.suspends) {
            self.suspend_now(device, batch);
            // The device that displaced another begins a new run now.
            self.devices[for_device].active_since_ns = self.now_ns;
        }
    }

    /// The running devices that list an allocation; no device needs one that is offered.
    pub(crate) fn running_holders(&self, id: AllocationId) -> Vec<DeviceId> {
        let allocation = &self.allocations[id];
        let runs = |device: &DeviceId| allocation.offer.is_none() && self.devices[*device].suspended.is_none();
        allocation.holders.iter().copied().filter(runs).collect()
    }

    /// Puts a device into the line of those that wait for their turn.
    pub(crate) fn suspend_now(&mut self, device: DeviceId, batch: &mut Batch<F>) {
        self.stand_in_line(device);
        for id in self.list_of(device) {
            self.rerank(id);
        }
        batch.suspends.push(device);
        let known = &mut self.devices[device];
        merge_points(&mut batch.after, &std::mem::take(&mut known.last_uses));
    }

    pub(crate) fn stand_in_line(&mut self, device: DeviceId) {
        self.tick += 1;
        assert!(self.devices[device].suspended.is_none(), "a device is suspended once");
        self.devices[device].suspended = Some(Suspension { tick: self.tick, not_before_ns: None });
        self.waiting.insert(self.tick, device);
    }

    /// Every waiting device may come back at once.
    pub(crate) fn forgive_losses(&mut self) {
        for device in self.waiting.values().copied().collect::<Vec<_>>() {
            if let Some(suspension) = &mut self.devices[device].suspended {
                suspension.not_before_ns = None;
            }
        }
    }

    /// Content of an allocation was taken: the suspended devices that list it do not come back within a quantum.
    pub(crate) fn note_loss(&mut self, id: AllocationId) {
        let not_before = self.now_ns.saturating_add(self.policy.residency_quantum_ns);
        for device in &self.allocations[id].holders {
            if let Some(suspension) = &mut self.devices[*device].suspended {
                suspension.not_before_ns = Some(not_before);
            }
        }
    }

    /// An allocation ends: whatever was postponed for it is void.
    pub(crate) fn forget_postponed(&mut self, id: AllocationId) {
        for device in self.waiting.values() {
            self.devices[*device].postponed.retain(|step| step.allocation() != id);
        }
        self.allocations[id].offer_due = None;
    }

    /// Forgets a device that ends.
    pub(crate) fn leave_line(&mut self, device: DeviceId) {
        if let Some(suspension) = self.devices[device].suspended.take() {
            self.waiting.remove(&suspension.tick);
        }
    }

    pub(crate) fn list_of(&self, device: DeviceId) -> Vec<AllocationId> {
        self.devices[device].counts.keys().copied().collect()
    }

    fn plan_of_return(&self, device: DeviceId, takes: Takes) -> Result<crate::plan::Plan, MakeResidentError> {
        if let Some(bytes_to_trim) = self.lacks_table_room(device, takes) {
            return Err(MakeResidentError::OutOfMemory { bytes_to_trim });
        }
        let offered = |id: &AllocationId| self.allocations[*id].offer.is_some();
        let list: Vec<AllocationId> = self.devices[device].counts.keys().copied().filter(|id| !offered(id)).collect();
        self.plan(Claim { device, takes, limit: Limit::None, for_holders: false }, &list)
    }

    /// When the next of those that a turn could displace has run for a quantum.
    fn next_quantum_end(&self, device: DeviceId) -> Option<u64> {
        let band = self.band_of(device);
        // A device with an empty list still has tables.
        let for_tables = !self.tables_resident(self.devices[device].space);
        let ends = self.devices.iter().filter(|(other, known)| {
            let has_room = for_tables || !known.counts.is_empty();
            *other != device && known.suspended.is_none() && has_room && self.band_of(*other) <= band
        });
        let ends = ends.map(|(_, known)| known.active_since_ns.saturating_add(self.policy.residency_quantum_ns));
        ends.filter(|&end| end > self.now_ns).min()
    }
}
