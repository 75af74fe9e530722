//! Which processes need an allocation, and what each of them may keep: the lists of `device`, the needs of `budget` and where content lies
//! come together here. Called by whatever changes a list, a place or an offer, and by the kernel for processes' own calls.

use std::collections::BTreeSet;

use crate::allocation::Placement;
use crate::budget::{BudgetChange, ProcessPriority, ReservationError, SegmentGroup, VideoMemoryInfo};
use crate::slab::{AllocationId, DeviceId, SpaceId};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Says how well a process's memory is protected. Its content on and off lists changes rank at once.
    pub fn set_process_priority(&mut self, space: SpaceId, priority: ProcessPriority) {
        // Each new device says the terms of its process again, and nothing changes, however much that has.
        if !self.processes.set_priority(space, priority) {
            return;
        }
        for device in self.processes.devices(space).collect::<Vec<_>>() {
            for id in self.devices[device].touched().collect::<Vec<_>>() {
                self.reband(id);
                self.rerank(id);
            }
        }
    }

    /// Caps a process's budget; `None` lifts the cap. Not even CantTrimFurther goes beyond it.
    pub fn set_budget(&mut self, space: SpaceId, group: SegmentGroup, cap: Option<u64>) {
        self.processes.set_cap(space, group, cap);
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
        self.processes.reserve(space, group, bytes, &self.policy)
    }

    /// The budgets that changed since the last call, by more than the policy's step.
    pub fn budget_changes(&mut self) -> Vec<BudgetChange> {
        self.processes.budget_changes(&self.policy)
    }

    /// Bytes by which a process's lists exceed its budgets, without the content that the process has evicted and that its queued work still
    /// uses: `NumBytesToTrim` of Evict and of the trim callback.
    // spec: memory §5.3, memory §5.4
    pub fn bytes_over_budget(&self, space: SpaceId) -> u64 {
        self.processes.bytes_over_budget(space, |group| self.leaving_bytes(space, group))
    }

    /// Bytes of a process's need in a group that evicts take off, once the queued work that they wait for is over.
    pub(crate) fn leaving_bytes(&self, space: SpaceId, group: SegmentGroup) -> u64 {
        let evicted: BTreeSet<AllocationId> =
            self.processes.devices(space).flat_map(|device| self.devices.evicted_behind_work(device)).collect();
        let stays = |id: AllocationId| {
            let mut holders = self.allocations[id].holders.iter().copied();
            holders.any(|device| self.devices[device].space() == space && self.devices.stays_listed(device, id) > 0)
        };
        let leaving = evicted.into_iter().filter(|id| self.allocations[*id].charged == Some(group) && !stays(*id));
        leaving.map(|id| self.allocations[id].bytes()).sum()
    }

    /// Usage and budget of the process whose space this is.
    // spec: memory §5.5
    pub fn video_memory_info(&self, space: SpaceId, group: SegmentGroup) -> VideoMemoryInfo {
        self.processes.info(space, group, &self.policy)
    }

    /// Bytes that a group can hold. Content in system memory needs no room of the aperture that names it, so there the
    /// measure is the system memory itself.
    pub fn group_bytes(&self, group: SegmentGroup) -> u64 {
        self.processes.group_bytes(group)
    }

    /// The space of a device's process.
    pub fn space_of(&self, device: DeviceId) -> SpaceId {
        self.devices[device].space()
    }

    /// Puts a device on an allocation's list of holders.
    pub(crate) fn add_holder(&mut self, id: AllocationId, device: DeviceId) {
        let space = self.devices[device].space();
        if !self.process_holds(space, id) {
            self.count_need(id, space, true);
        }
        assert!(self.allocations[id].holders.insert(device), "a device holds once");
        self.reband(id);
    }

    /// Takes a device off it.
    pub(crate) fn remove_holder(&mut self, id: AllocationId, device: DeviceId) {
        let space = self.devices[device].space();
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
        let offer = self.allocations[id].offer();
        debug_assert!(group.is_none() || offer.is_none(), "{id:?} is charged {group:?}, and offered as {offer:?}");
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
            Placement::Memory(segment, _) => self.segments.charged_group(*segment),
            Placement::System(_) => self.segments.system_group(),
        }
    }

    /// Whether a device of this process lists the allocation.
    pub(crate) fn process_holds(&self, space: SpaceId, id: AllocationId) -> bool {
        self.allocations[id].holders.iter().any(|device| self.devices[*device].space() == space)
    }

    fn holding_spaces(&self, id: AllocationId) -> Vec<SpaceId> {
        let mut spaces: Vec<SpaceId> =
            self.allocations[id].holders.iter().map(|device| self.devices[*device].space()).collect();
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    // spec: memory §10.1 row 7
    fn count_need(&mut self, id: AllocationId, space: SpaceId, add: bool) {
        let allocation = &self.allocations[id];
        if let Some(group) = allocation.charged {
            self.processes.count_need(space, group, allocation.bytes(), add);
        }
    }
}
