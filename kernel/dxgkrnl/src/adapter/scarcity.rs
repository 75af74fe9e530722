//! What the machine asks of an adapter for the limits that it holds processes to: what pending destructions give back, for the calls that
//! wait for it (`crate::scarcity`), and what is used.

use std::collections::{BTreeMap, BTreeSet};

use gpu_fence::{FenceId, WaitMode};
use vidmm::AllocationId;
use wddm_types::{FencePoint, PAGE_BYTES, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::allocations::DestructionNumber;
use crate::due::Waiter;
use crate::effect::Cx;
use crate::number::SectionNumber;
use crate::quota::{Commitments, QuotaLeft};
use crate::scarcity::Stamp;

impl Adapter {
    /// How the adapter's memory stands.
    pub fn memory_stamp(&self) -> Stamp {
        Stamp {
            returned: self.vidmm.returned_pages(),
            free: self.vidmm.free_system_pages(),
            dying: self.memory.allocations.destructions(),
            stopped: self.life.has_stopped(),
            // Nothing runs without power, so the kernel looks at no use then.
            awake: self.life.is_awake(),
        }
    }

    /// Has the hardware tell when pending destructions are over: else the kernel finds them so with some later turn.
    pub fn watch_destructions(&mut self, cx: &mut Cx<'_>) {
        self.watch_dying(cx);
        self.memory.ring.watch_returns();
    }

    /// Has the hardware tell when the last uses of destroyed allocations are over.
    pub(super) fn watch_dying(&mut self, cx: &mut Cx<'_>) {
        for after in self.memory.allocations.watch() {
            // The fence of a use may have gone since the destruction began.
            let after = self.sync.live_points(after);
            if after.is_empty() || self.begin_wait(cx, &after, WaitMode::All, Waiter::Burial) {
                self.due.wait_ended(Waiter::Burial);
            }
        }
    }

    /// The pending destructions of other processes than this, each with the time that the hardware has run the work of its uses, in ns. None
    /// while the hardware has no power.
    pub fn destructions_of_others(&mut self, cx: &Cx<'_>, than: ProcessId) -> Vec<(DestructionNumber, u64)> {
        if !self.life.is_awake() {
            return Vec::new();
        }
        let of_others = self.memory.allocations.waiting().filter(|(_, dying)| dying.process != than);
        let uses: Vec<_> = of_others.map(|(number, dying)| (number, dying.after.clone())).collect();
        let mut ran: BTreeMap<FenceId, u64> = BTreeMap::new();
        let mut ran_ns = |point: &FencePoint<FenceId>| {
            *ran.entry(point.fence).or_insert_with(|| self.running_ns_of(cx, std::slice::from_ref(point)))
        };
        uses.into_iter().map(|(number, after)| (number, after.iter().map(&mut ran_ns).sum())).collect()
    }

    /// Calls `each` with the creator and the bytes of what it has committed and pending destructions give back. Those that `stands` names give
    /// nothing back.
    pub fn each_ending(&self, stands: impl Fn(DestructionNumber) -> bool, mut each: impl FnMut(ProcessId, u64)) {
        for binding in self.memory.allocations.ending(stands) {
            let body = self.memory.allocations.body_of(binding.vidmm);
            if body.rare.section.is_none() {
                each(body.creator, self.vidmm.allocation_bytes(binding.vidmm));
            }
            for instance in binding.renaming.former() {
                each(body.creator, self.vidmm.allocation_bytes(instance.vidmm));
            }
        }
    }

    /// Pages that pending destructions give back to the adapter's share, without those that `stands` names. The memory manager does not know
    /// yet that former instances of destroyed allocations go.
    pub fn returning_pages(&self, stands: impl Fn(DestructionNumber) -> bool + Copy) -> u64 {
        let allocations = &self.memory.allocations;
        let pages = |id| self.vidmm.allocation_bytes(id) / PAGE_BYTES;
        let former = allocations.ending(stands).flat_map(|binding| binding.renaming.former());
        let of_instances = former.map(|instance| pages(instance.vidmm));
        let stay: BTreeSet<AllocationId> = allocations.ids_of(stands).filter(|id| self.vidmm.returns(*id)).collect();
        let stay = stay.into_iter().map(pages);
        (self.vidmm.returning_pages().0 + of_instances.sum::<u64>()).saturating_sub(stay.sum::<u64>())
    }

    /// Whether there is memory for so many pages of backing stores now.
    pub fn can_back(&self, wanted: Pages) -> bool {
        self.vidmm.can_back(wanted)
    }

    /// A creation waits for pending destructions beyond its turn.
    pub fn creation_waits(&mut self) {
        self.tally.creation_waits();
    }

    /// The sections of destroyed allocations, one item for each allocation that is on its way out of it; none for the destructions that
    /// `stands` names.
    pub fn ending_uses_of_sections(
        &self,
        stands: impl Fn(DestructionNumber) -> bool,
    ) -> impl Iterator<Item = SectionNumber> {
        let destroyed = self
            .memory
            .allocations
            .ending(stands)
            .filter_map(|binding| self.memory.allocations.body_of(binding.vidmm).rare.section);
        destroyed.chain(self.memory.ring.leaving_sections()).chain(self.due.left_sections())
    }
}

/// What a process has here, what a call may commit, and how much paging work is outstanding (`crate::quota`).
impl Adapter {
    /// Memory that processes have committed here.
    pub fn committed(&self) -> &Commitments {
        self.memory.committing.committed()
    }

    /// Bytes of allocations that a process has locked, or waits to lock, and that may lie in video memory. Each waiting lock counts from its
    /// call on: else several would each be within the limit, and all of them beyond it.
    // spec: memory §6.3, memory §6.5
    pub fn locked_bytes_of(&self, process: ProcessId) -> u64 {
        let waiting: BTreeSet<AllocationId> = self.awaited_locks(process).collect();
        let awaited: u64 = waiting.into_iter().map(|id| self.video_bytes(id)).sum();
        self.memory.cpu_view.locked().of(process).bytes + awaited
    }

    /// The allocations that nothing has locked and that locks of a process wait for.
    pub fn awaited_locks(&self, process: ProcessId) -> impl Iterator<Item = AllocationId> + '_ {
        let of_process = self.memory.waiting_locks.iter().filter(move |request| request.process == process);
        let ids = of_process.filter_map(|request| Some(self.memory.allocations.get(request.number)?.vidmm));
        ids.filter(|id| self.memory.cpu_view.of(*id).is_none())
    }

    /// Packets of a process that hardware queues hold back.
    pub fn unfinished_of(&self, process: ProcessId) -> u64 {
        self.vidsch.queues.unfinished_of(process.0)
    }

    /// A call begins that may commit this here.
    pub fn limit_commitments(&mut self, left: QuotaLeft) {
        self.memory.committing.call_begins(left);
    }

    /// It is over: deferred work belongs to no call, so no quota limits it.
    pub fn lift_limit(&mut self) {
        self.memory.committing.call_ends();
    }

    /// Paging works that it has not carried out; none where it was stopped.
    pub fn outstanding_works(&self) -> u64 {
        if self.life.has_stopped() { 0 } else { self.memory.ring.outstanding() }
    }
}
