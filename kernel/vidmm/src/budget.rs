//! Budgets: how many bytes a process may keep on its lists, per group of segments (memory §5.5). The size formula is policy: no
//! document gives one (memory §10.3). Called by the kernel for the process's own calls, and by `plan`.
//!
//! The formula. A process's *need* is what the lists of its devices require, each allocation once. Its budget is what it
//! could have if it wanted everything and all others wanted what they need now: processes of a higher protection are
//! served first; among equals the room is divided evenly, and what one does not need goes to the others; those below do
//! not count. Every process gets at least its reservation. A process alone gets everything, and if all processes keep to their budgets, all
//! of their lists fit at once.

use std::collections::BTreeMap;

use wddm_types::PAGE_BYTES;

use self::division::{Division, Share, level};
use crate::allocation::Placement;
use crate::slab::{AllocationId, DeviceId, SpaceId};
use crate::usage::SegmentGroup;
use crate::vidmm::VidMm;

mod division;

/// Protection of a process's memory: while a lower one holds a byte, a higher one loses none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessPriority {
    /// Gives way to processes of any other priority.
    Background,
    /// The usual.
    #[default]
    Normal,
    /// In the foreground.
    Foreground,
}

/// A budget that is not what its process was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetChange {
    /// The process.
    pub space: SpaceId,
    /// The group of segments.
    pub group: SegmentGroup,
    /// The new budget in bytes.
    pub budget_bytes: u64,
}

/// A reservation above what is left to reserve (`STATUS_INVALID_PARAMETER`); nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{available_bytes} bytes are available for reservation")]
pub struct ReservationError {
    /// `AvailableForReservation`.
    pub available_bytes: u64,
}

/// One process on this adapter.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub priority: ProcessPriority,
    /// Devices that it has, by the order in which they were made.
    pub devices: BTreeMap<u64, DeviceId>,
    /// How many it has had.
    pub made: u64,
    pub groups: [Group; 2],
    /// When it was asked to trim last.
    pub asked_ns: Option<u64>,
}

/// One process in one group; bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    pub cap: Option<u64>,
    pub reservation: u64,
    pub need: u64,
    pub told: Option<u64>,
}

/// Whether some budget can have changed by more than a step since all were divided last. Dividing them looks at every process for every
/// process, and is done after each turn of the machine; most turns move less than any process is from its next step.
///
/// A budget is what a process gets beside the needs of the others, so it changes by no more than those change together, and by the rounding to
/// pages. Reservations, caps, protections and processes that come or go have everything looked at again.
#[derive(Debug, Default)]
pub(crate) struct BudgetWatch {
    /// Bytes by which needs have changed since.
    moved: u64,
    /// The least by which a budget had to change then to be told; `None`: everything is to be looked at.
    slack: Option<u64>,
}

impl BudgetWatch {
    /// Everything is looked at the next time.
    pub fn look_again(&mut self) {
        self.slack = None;
    }

    fn moved(&mut self, bytes: u64) {
        self.moved = self.moved.saturating_add(bytes);
    }

    /// Whether no budget can have changed by more than a step.
    pub fn is_still(&self) -> bool {
        self.slack.is_some_and(|slack| self.moved.saturating_add(2 * PAGE_BYTES) <= slack)
    }
}

impl<F: Copy + Eq> VidMm<F> {
    /// Says how well a process's memory is protected. Its content on and off lists changes rank at once.
    pub fn set_process_priority(&mut self, space: SpaceId, priority: ProcessPriority) {
        // Each new device says the terms of its process again, and nothing changes, however much that has.
        if std::mem::replace(&mut self.process_mut(space).priority, priority) == priority {
            return;
        }
        self.budget_watch.look_again();
        for device in self.processes[&space].devices.clone().into_values() {
            let touched: Vec<AllocationId> =
                self.devices[device].counts.keys().chain(&self.devices[device].owned).copied().collect();
            for id in touched {
                self.reband(id);
                self.rerank(id);
            }
        }
    }

    /// Caps a process's budget; `None` lifts the cap. Not even CantTrimFurther goes beyond it.
    pub fn set_budget(&mut self, space: SpaceId, group: SegmentGroup, cap: Option<u64>) {
        self.process_mut(space).groups[group as usize].cap = cap;
        self.budget_watch.look_again();
    }

    /// `D3DKMTChangeVideoMemoryReservation`: a hint for the minimum working set, in bytes.
    ///
    /// # Errors
    /// More than is available for reservation.
    // spec: memory §5.5
    pub fn change_reservation(
        &mut self,
        space: SpaceId,
        group: SegmentGroup,
        bytes: u64,
    ) -> Result<(), ReservationError> {
        let available_bytes = self.available_for_reservation(space, group);
        if bytes > available_bytes {
            return Err(ReservationError { available_bytes });
        }
        self.process_mut(space).groups[group as usize].reservation = bytes;
        self.budget_watch.look_again();
        self.note_claim(space, group);
        Ok(())
    }

    /// The budgets that changed since the last call, by more than the policy's step.
    pub fn budget_changes(&mut self) -> Vec<BudgetChange> {
        if self.budget_watch.is_still() {
            return Vec::new();
        }
        let mut slack = u64::MAX;
        let spaces: Vec<SpaceId> = self.processes.keys().copied().collect();
        let groups = [SegmentGroup::Local, SegmentGroup::NonLocal].map(|group| (group, self.division(group)));
        let mut changes = Vec::new();
        for space in spaces {
            for (group, division) in &groups {
                let group = *group;
                let budget_bytes = self.budget_in(division, space, group);
                let step = self.group_bytes(group) >> self.policy.budget_step_shift;
                let told = &mut self.process_mut(space).groups[group as usize].told;
                // The process asks for its first budget itself; only a later change is reported.
                let before = told.unwrap_or(budget_bytes);
                if before.abs_diff(budget_bytes) > step {
                    changes.push(BudgetChange { space, group, budget_bytes });
                    *told = Some(budget_bytes);
                    slack = slack.min(step);
                } else {
                    *told = Some(before);
                    slack = slack.min(step - before.abs_diff(budget_bytes));
                }
            }
        }
        self.budget_watch = BudgetWatch { moved: 0, slack: Some(slack) };
        changes
    }

    /// Bytes by which a process's lists exceed its budgets: `NumBytesToTrim` of Evict and of the trim callback.
    // spec: memory §5.3, memory §5.4
    pub fn bytes_over_budget(&self, space: SpaceId) -> u64 {
        let over = |group| self.need(space, group).saturating_sub(self.budget_bytes(space, group));
        over(SegmentGroup::Local) + over(SegmentGroup::NonLocal)
    }

    /// The space of a device's process.
    pub fn space_of(&self, device: DeviceId) -> SpaceId {
        self.devices[device].space
    }

    /// The bytes that a process may keep on its lists now.
    pub(crate) fn budget_bytes(&self, space: SpaceId, group: SegmentGroup) -> u64 {
        self.budget_beside(space, group, None)
    }

    /// The same, if another process needed so many bytes more.
    // spec: memory §5.5
    pub(crate) fn budget_beside(&self, space: SpaceId, group: SegmentGroup, more: Option<(SpaceId, u64)>) -> u64 {
        let me = &self.processes[&space];
        let mine = me.groups[group as usize];
        let mut left = self.group_bytes(group);
        let mut equals = Vec::new();
        // A process that asks for more has a claim by that; one without a claim takes nothing from the others.
        let asking = more.map(|(asking, _)| asking).filter(|asking| !self.claims[group as usize].contains(asking));
        let claims = self.claims[group as usize].iter().copied().chain(asking);
        for (other, process) in claims.filter(|other| *other != space).map(|other| (other, &self.processes[&other])) {
            let theirs = process.groups[group as usize];
            let extra = more.filter(|(asking, _)| *asking == other).map_or(0, |(_, bytes)| bytes);
            let need = (theirs.need + extra).min(theirs.cap.unwrap_or(u64::MAX));
            match process.priority.cmp(&me.priority) {
                std::cmp::Ordering::Greater => left = left.saturating_sub(need),
                std::cmp::Ordering::Equal => equals.push(Share { need, sure: need.min(theirs.reservation) }),
                std::cmp::Ordering::Less => {}
            }
        }
        let share = level(left, equals) / PAGE_BYTES * PAGE_BYTES;
        share.max(mine.reservation).min(self.budget_max_bytes(space, group))
    }

    /// The needs of all processes in a group, from which the group is divided for one process after the other.
    fn division(&self, group: SegmentGroup) -> Division {
        let claims = self.claims[group as usize].iter().map(|space| {
            let process = &self.processes[space];
            let theirs = process.groups[group as usize];
            let need = theirs.need.min(theirs.cap.unwrap_or(u64::MAX));
            (Share { need, sure: need.min(theirs.reservation) }, process.priority, *space)
        });
        Division::of(self.group_bytes(group), claims.collect())
    }

    /// A process's budget, as [`budget_beside`](Self::budget_beside) has it.
    fn budget_in(&self, division: &Division, space: SpaceId, group: SegmentGroup) -> u64 {
        let me = &self.processes[&space];
        let share = division.beside(space, me.priority) / PAGE_BYTES * PAGE_BYTES;
        share.max(me.groups[group as usize].reservation).min(self.budget_max_bytes(space, group))
    }

    /// The limit that holds even with CantTrimFurther.
    pub(crate) fn budget_max_bytes(&self, space: SpaceId, group: SegmentGroup) -> u64 {
        let cap = self.processes[&space].groups[group as usize].cap;
        self.group_bytes(group).min(cap.unwrap_or(u64::MAX))
    }

    /// Bytes of a process's lists in a group.
    pub(crate) fn need(&self, space: SpaceId, group: SegmentGroup) -> u64 {
        self.processes[&space].groups[group as usize].need
    }

    /// The bytes that a process may reserve: the policy's part of the group, less the other processes' reservations.
    pub(crate) fn available_for_reservation(&self, space: SpaceId, group: SegmentGroup) -> u64 {
        let others = self.claims[group as usize].iter().filter(|other| **other != space);
        let taken: u64 = others.map(|other| self.processes[other].groups[group as usize].reservation).sum();
        // Divided first: a capacity in bytes times 100 could leave 64 bits.
        let part = self.group_bytes(group) / 100 * self.policy.reservable_percent;
        (part / PAGE_BYTES * PAGE_BYTES).saturating_sub(taken)
    }

    /// Whether a process's lists exceed a budget, if another process needed so many bytes more.
    pub(crate) fn is_over_budget(&self, space: SpaceId, group: SegmentGroup, more: Option<(SpaceId, u64)>) -> bool {
        self.need(space, group) > self.budget_beside(space, group, more)
    }

    pub(crate) fn process_mut(&mut self, space: SpaceId) -> &mut Process {
        self.processes.get_mut(&space).expect("a space of a process")
    }

    /// Puts a device on an allocation's list of holders.
    pub(crate) fn add_holder(&mut self, id: AllocationId, device: DeviceId) {
        let space = self.devices[device].space;
        if !self.process_holds(space, id) {
            self.count_need(id, space, true);
        }
        assert!(self.allocations[id].holders.insert(device), "a device holds once");
        self.reband(id);
    }

    /// Takes a device off it.
    pub(crate) fn remove_holder(&mut self, id: AllocationId, device: DeviceId) {
        let space = self.devices[device].space;
        assert!(self.allocations[id].holders.remove(&device), "it was a holder");
        if !self.process_holds(space, id) {
            self.count_need(id, space, false);
        }
        self.reband(id);
    }

    /// Charges an allocation's bytes to the processes that list it, in the group where it now is; `None`: to no process.
    pub(crate) fn charge(&mut self, id: AllocationId, group: Option<SegmentGroup>) {
        if self.allocations[id].charged == group {
            return;
        }
        let spaces = self.holding_spaces(id);
        for &space in &spaces {
            self.count_need(id, space, false);
        }
        self.allocations[id].charged = group;
        for &space in &spaces {
            self.count_need(id, space, true);
        }
    }

    /// The group in which an allocation lies now.
    pub(crate) fn group_of_placement(&self, id: AllocationId) -> Option<SegmentGroup> {
        match &self.allocations[id].placement {
            Placement::None => None,
            Placement::Memory(segment, _) => self.charged_group(*segment),
            Placement::System(_) => self.system_group(),
        }
    }

    /// Whether a device of this process lists the allocation.
    pub(crate) fn process_holds(&self, space: SpaceId, id: AllocationId) -> bool {
        self.allocations[id].holders.iter().any(|device| self.devices[*device].space == space)
    }

    fn holding_spaces(&self, id: AllocationId) -> Vec<SpaceId> {
        let mut spaces: Vec<SpaceId> =
            self.allocations[id].holders.iter().map(|device| self.devices[*device].space).collect();
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    // spec: memory §10.1 row 7
    fn count_need(&mut self, id: AllocationId, space: SpaceId, add: bool) {
        let allocation = &self.allocations[id];
        let (bytes, charged) = (allocation.bytes(), allocation.charged);
        let Some(group) = charged else { return };
        let need = &mut self.process_mut(space).groups[group as usize].need;
        let before = *need;
        let now = if add { before + bytes } else { before - bytes };
        *need = now;
        self.budget_watch.moved(bytes);
        if before == 0 || now == 0 {
            self.note_claim(space, group);
        }
    }

    /// Whether a process takes anything of a group from the others: those alone are looked at when it is divided.
    fn note_claim(&mut self, space: SpaceId, group: SegmentGroup) {
        let theirs = self.processes[&space].groups[group as usize];
        match theirs.need > 0 || theirs.reservation > 0 {
            true => self.claims[group as usize].insert(space),
            false => self.claims[group as usize].remove(&space),
        };
    }

    /// A process has gone, and takes nothing any more.
    pub(crate) fn forget_claims(&mut self, space: SpaceId) {
        for claims in &mut self.claims {
            claims.remove(&space);
        }
        self.budget_watch.look_again();
    }
}

/// The processes by their spaces.
pub(crate) type Processes = BTreeMap<SpaceId, Process>;
