//! What the CPU sees of an adapter's allocations: the mappings through which processes see those that they have locked, by number, and the
//! changes of them that the kernel tells the outside (memory §6.3); the permanent system copies as they were when the CPU was shown them
//! (memory §2.2); the system pages that no access has used yet; the lines that the CPU's caches may hold of listed allocations (memory §6.7).
//!
//! It maps nothing itself: the owner of the process's address space does. It reads no memory, maintains no cache and asks no other part: the
//! adapter does, and tells it.
//!
//! An allocation's first lock makes its mapping, and the mapping goes with the last lock. What is `unshown` is `lent` too; what is `leaving`
//! is of no allocation any more.
//!
//! # Pages of the adapter's own that are lent
//! A client in a process of its own sees the adapter's memory only by being lent its pages ([`crate::ClientMemory`]), and decisions run
//! ahead of the hardware: when an allocation gets frames, another one's content may still be on its way out of them. So they are lent and
//! given back at the turn of a work of the ring, which stands until that is done:
//! ```text
//! lock ─▶ Made, of nothing ─▶ ring ─▶ Shown ─▶ … ─▶ unlock: Unmapped ─▶ ring ─▶ Left
//! ```
//! The kernel builds nothing behind such a work before it is over, so a client's pages never hold another owner's content.

mod copy;

use std::collections::{BTreeMap, BTreeSet};

use kmt_calls::MappingId;
use vidmm::{AllocationId, CoherencyTracker, Maintenance};
use wddm_types::{AdapterIndex, CpuRun, ProcessId};

use crate::effect::{Cx, Effect, MappingChange};
use crate::number::{MappingChangeNumber, PagingWorkNumber};
use crate::quota::Commitments;
use crate::store::ObjectNumber;
use copy::Baseline;

pub use copy::{Shown, WrittenPages};

/// Bits of a mapping's name below the adapter's index.
const NUMBER_BITS: u32 = 40;

/// What the CPU sees of one adapter.
#[derive(Default)]
pub struct CpuView {
    /// Mappings that were named.
    named: u64,
    /// Changes that the outside was told.
    told: u64,
    by_allocation: BTreeMap<AllocationId, MappingId>,
    /// Of these, those that may lie in video memory: whose they are, and how many bytes.
    counted: BTreeMap<AllocationId, (ProcessId, u64)>,
    /// The same, by process.
    locked: Commitments,
    /// For these, pages of the adapter's own are lent, or will be.
    lent: BTreeSet<MappingId>,
    /// Of these, those that show nothing yet.
    unshown: BTreeSet<MappingId>,
    /// Unmapped; the ring has not got to where they leave.
    leaving: BTreeSet<MappingId>,
    /// Their content has moved and moves on: no write gets through since the first of both was begun.
    passed: BTreeSet<MappingId>,
    /// Those that were told to show something else, which their process does not see yet.
    unseen: BTreeMap<MappingId, Unseen>,
    /// Locked permanent system copies.
    copies: BTreeMap<AllocationId, Baseline>,
    /// Pages of such copies that the CPU wrote and that were unlocked while the adapter slept.
    late: Vec<(AllocationId, WrittenPages)>,
    /// Allocations whose system pages are still unused, with the process that the kernel lends them to at the first use.
    unused: BTreeMap<AllocationId, ProcessId>,
    /// Lines of listed allocations that the CPU's caches may hold.
    lines: CoherencyTracker<AllocationId>,
}

/// The last change of that kind.
#[derive(Debug)]
struct Unseen {
    process: ProcessId,
    number: MappingChangeNumber,
    /// The first work behind which its process sees something else than what it is.
    work: PagingWorkNumber,
}

impl CpuView {
    /// A name for a mapping.
    fn name(&mut self, on: AdapterIndex) -> MappingId {
        self.named += 1;
        debug_assert_eq!(self.named >> NUMBER_BITS, 0, "a name has no bits of the adapter's index");
        MappingId(u64::from(on.0) << NUMBER_BITS | self.named)
    }

    /// An allocation is locked that was not, of which this process may see so many bytes in video memory.
    pub fn enter(
        &mut self,
        on: AdapterIndex,
        allocation: AllocationId,
        (process, video_bytes): (ProcessId, u64),
    ) -> MappingId {
        let mapping = self.name(on);
        let before = self.by_allocation.insert(allocation, mapping);
        debug_assert!(before.is_none(), "an allocation has one mapping: {allocation:?} had {before:?}");
        self.recount(allocation, (process, video_bytes));
        mapping
    }

    /// Makes a mapping of memory that is no allocation.
    pub fn map_section(
        &mut self,
        cx: &mut Cx<'_>,
        on: AdapterIndex,
        process: ProcessId,
        (runs, size_bytes): (Vec<CpuRun>, u64),
    ) -> MappingId {
        let mapping = self.name(on);
        self.tell(cx, mapping, MappingChange::Made { process, size_bytes, runs });
        mapping
    }

    /// The adapter's own pages will be lent for a mapping that was just made: it shows nothing before. False: they are lent already.
    pub fn lend(&mut self, mapping: MappingId) -> bool {
        let news = self.lent.insert(mapping);
        if news {
            self.unshown.insert(mapping);
        }
        debug_assert!(self.unshown.len() <= self.lent.len(), "what shows nothing yet is lent: {:?}", self.unshown);
        news
    }

    /// An allocation is not locked any more: its mapping, and whether pages of the adapter's own are lent for it.
    pub fn unlock(&mut self, allocation: AllocationId) -> Option<(MappingId, bool)> {
        let mapping = self.by_allocation.remove(&allocation)?;
        if let Some((process, bytes)) = self.counted.remove(&allocation) {
            self.locked.release(process, bytes);
        }
        self.unshown.remove(&mapping);
        Some((mapping, self.lent.remove(&mapping)))
    }

    /// An allocation has other segments: if this process has it locked, so many bytes of it may lie in video memory now.
    pub fn recount(&mut self, allocation: AllocationId, (process, video_bytes): (ProcessId, u64)) {
        if let Some((counted, bytes)) = self.counted.remove(&allocation) {
            self.locked.release(counted, bytes);
        }
        if video_bytes > 0 && self.by_allocation.contains_key(&allocation) {
            self.counted.insert(allocation, (process, video_bytes));
            self.locked.charge(process, video_bytes);
        }
    }

    /// What processes have locked that may lie in video memory.
    pub fn locked(&self) -> &Commitments {
        &self.locked
    }

    /// A mapping that is unlocked leaves at a turn of the ring.
    pub fn begin_leaving(&mut self, mapping: MappingId) {
        debug_assert!(!self.lent.contains(&mapping), "what leaves is unlocked: {mapping:?}");
        let fresh = self.leaving.insert(mapping);
        debug_assert!(fresh, "a mapping leaves once: {mapping:?}");
    }

    /// Tells the outside. Returns the change's number: an answer holds for all changes up to its number.
    pub fn tell(&mut self, cx: &mut Cx<'_>, mapping: MappingId, change: MappingChange) -> MappingChangeNumber {
        self.told += 1;
        match change {
            MappingChange::Passed(_) => _ = self.passed.insert(mapping),
            MappingChange::Made { .. } | MappingChange::Protected | MappingChange::Left => {}
            MappingChange::Shown(_) | MappingChange::Gone | MappingChange::Unmapped => _ = self.passed.remove(&mapping),
        }
        let number = MappingChangeNumber::from_raw(self.told);
        cx.effects.push(Effect::Mapping { mapping, number, change });
        number
    }

    /// The same of where a mapping's content is from a work on.
    pub fn show(
        &mut self,
        cx: &mut Cx<'_>,
        mapping: MappingId,
        process: ProcessId,
        shown: MappingChange,
        work: PagingWorkNumber,
    ) -> MappingChangeNumber {
        let number = self.tell(cx, mapping, shown);
        // Nor has the process seen a change that was passed.
        self.unseen.entry(mapping).or_insert(Unseen { process, number, work }).number = number;
        number
    }

    /// A mapping's process sees what it was told up to this change. Whether that is news.
    pub fn note_seen(&mut self, mapping: MappingId, number: MappingChangeNumber) -> bool {
        let news = self.unseen.get(&mapping).is_some_and(|unseen| unseen.number <= number);
        if news {
            self.unseen.remove(&mapping);
        }
        news
    }

    /// Whether a process sees all that works up to this one have moved.
    pub fn sees_up_to(&self, process: ProcessId, work: PagingWorkNumber) -> bool {
        !self.unseen.values().any(|unseen| unseen.process == process && unseen.work <= work)
    }

    /// The mapping of a locked allocation.
    pub fn of(&self, allocation: AllocationId) -> Option<MappingId> {
        self.by_allocation.get(&allocation).copied()
    }

    /// Whether the outside still hears of changes of a mapping.
    pub fn is_alive(&self, mapping: MappingId) -> bool {
        self.leaving.contains(&mapping) || self.by_allocation.values().any(|known| *known == mapping)
    }

    /// Whether a process may store into it.
    pub fn is_written(&self, mapping: MappingId) -> bool {
        self.is_alive(mapping)
            && ![&self.leaving, &self.unshown, &self.passed].iter().any(|those| those.contains(&mapping))
    }

    /// Whether an allocation is locked whose process sees nothing yet.
    pub fn is_unshown(&self, allocation: AllocationId) -> bool {
        self.of(allocation).is_some_and(|mapping| self.unshown.contains(&mapping))
    }

    /// The adapter's own pages are lent for it.
    pub fn note_lent(&mut self, mapping: MappingId) {
        self.lent.insert(mapping);
    }

    /// The outside has answered: the mapping is as it was told.
    pub fn note_answer(&mut self, mapping: MappingId) {
        self.unshown.remove(&mapping);
    }

    /// It leaves now. False: it has left already.
    pub fn leave(&mut self, mapping: MappingId) -> bool {
        self.leaving.remove(&mapping)
    }

    /// Those that have not left, and now never do so at a turn of the ring.
    pub fn take_leaving(&mut self) -> BTreeSet<MappingId> {
        std::mem::take(&mut self.leaving)
    }

    /// Those whose content moves on no more.
    pub fn take_passed(&mut self) -> BTreeSet<MappingId> {
        std::mem::take(&mut self.passed)
    }

    /// The system pages of an allocation, which this process may lock, are unused.
    pub fn note_unused(&mut self, allocation: AllocationId, process: ProcessId) {
        self.unused.insert(allocation, process);
    }

    /// The system pages of an allocation are about to be used. At the first use: the process that may lock it.
    pub fn note_used(&mut self, allocation: AllocationId) -> Option<ProcessId> {
        self.unused.remove(&allocation)
    }

    /// The allocations whose system pages are unused.
    pub fn unused(&self) -> impl ExactSizeIterator<Item = AllocationId> {
        self.unused.keys().copied()
    }

    /// A buffer is about to run whose list reads an allocation, or writes it.
    pub fn list_uses(&mut self, allocation: AllocationId, write: bool) -> Maintenance {
        self.lines.gpu_uses(allocation, write)
    }

    /// A buffer whose list wrote an allocation is done.
    pub fn list_wrote(&mut self, allocation: AllocationId) -> Maintenance {
        self.lines.gpu_wrote(allocation)
    }

    /// The CPU is about to see a cached allocation, to write or to read only.
    pub fn lines_come(&mut self, allocation: AllocationId, writes: bool) -> Maintenance {
        self.lines.cpu_maps(allocation, writes)
    }

    /// The CPU sees an allocation no more; its writes stand in the cache.
    pub fn lines_stay(&mut self, allocation: AllocationId) {
        self.lines.cpu_unmaps(allocation);
    }

    /// An allocation, or an instance of one, has gone.
    pub fn forget(&mut self, allocation: AllocationId) {
        self.unused.remove(&allocation);
        self.lines.forget(&allocation);
    }
}

/// The adapter that a mapping belongs to.
pub fn adapter_of_mapping(mapping: MappingId) -> AdapterIndex {
    // CAST: the index was put there.
    AdapterIndex((mapping.0 >> NUMBER_BITS) as u32)
}
