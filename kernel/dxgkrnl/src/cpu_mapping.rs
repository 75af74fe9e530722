//! The mappings through which processes see their locked allocations, by number, and the changes of them that the kernel tells the
//! outside (memory §6.3). An allocation's first lock makes its mapping, and the mapping goes with the last lock. This module maps nothing
//! itself: the owner of the process's address space does. `lock` and the paging ring call it.
//!
//! # Pages of the adapter's own that are lent
//! A client in a process of its own sees the adapter's memory only by being lent its pages ([`crate::ClientMemory`]), and decisions run
//! ahead of the hardware: when an allocation gets frames, another one's content may still be on its way out of them. So they are lent and
//! given back at the turn of a work of the ring, which stands until that is done:
//! ```text
//! lock ─▶ Made, of nothing ─▶ ring ─▶ Shown ─▶ … ─▶ unlock: Unmapped ─▶ ring ─▶ Left
//! ```
//! The kernel builds nothing behind such a work before it is over, so a client's pages never hold another owner's content.

use std::collections::{BTreeMap, BTreeSet};

use ddi::{MapCpuHostAperture, UnmapCpuHostAperture};
use kmt_calls::MappingId;
use vidmm::{AllocationId, WindowMap, WindowPages};
use wddm_types::{AdapterIndex, CpuRun, ProcessId};

use crate::adapter::Adapter;
use crate::machine::{Cx, Effect};

/// Bits of a mapping's name below the adapter's index.
const NUMBER_BITS: u32 = 40;

/// A change of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingChange {
    /// It is there.
    Made {
        /// The process that has it.
        process: ProcessId,
        /// Its size.
        size_bytes: u64,
        /// The places that it shows.
        runs: Vec<CpuRun>,
    },
    /// No write gets through any more: a thread that writes waits; one that reads, reads on. The outside answers by
    /// [`Machine::mapping_changed`](crate::Machine::mapping_changed) with this change's number when that holds.
    Protected,
    /// It shows other places, and writes get through. The outside answers in the same way: [`Heard::Done`] when no access reaches the
    /// places that it showed before, [`Heard::Seen`] when its process sees the new ones, or both at once by the second.
    Shown(Vec<CpuRun>),
    /// Its content is at these places and moves on at once, so its process need not be told: the places that it showed before keep their
    /// content, and no write gets through. The next change is a [`MappingChange::Shown`], or it goes. The outside answers it as it
    /// answers that.
    Passed(Vec<CpuRun>),
    /// It is gone; a thread that waits in it goes on. Its pages are lent no more, and their content is lost.
    Gone,
    /// Its process has it no more; a thread that waits in it goes on. The outside goes on lending its pages and hears of changes of what
    /// it shows, without a process that answers: the outside answers this change by itself, and later ones when it has carried them out.
    Unmapped,
    /// Unmapped before, it is gone, and its pages are the adapter's own again, with their content. The outside answers when that is so.
    Left,
}

/// The outside's answer to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The outside has done its part: no access reaches the places that a mapping has left. Its process may still see what they held, and
    /// none of its stores gets through before it sees the new places.
    Done,
    /// Its process sees it.
    Seen,
}

/// The mappings of one adapter.
#[derive(Default)]
pub struct CpuMappings {
    next: u64,
    /// Changes that the outside was told.
    told: u64,
    by_allocation: BTreeMap<AllocationId, MappingId>,
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
}

/// The last change of that kind.
#[derive(Debug)]
struct Unseen {
    process: ProcessId,
    number: u64,
    /// The first work behind which its process sees something else than what it is.
    work: u64,
}

impl CpuMappings {
    /// Tells the outside. Returns the change's number: an answer holds for all changes up to its number.
    pub fn tell(&mut self, cx: &mut Cx<'_>, mapping: MappingId, change: MappingChange) -> u64 {
        self.told += 1;
        match change {
            MappingChange::Passed(_) => _ = self.passed.insert(mapping),
            MappingChange::Made { .. } | MappingChange::Protected | MappingChange::Left => {}
            MappingChange::Shown(_) | MappingChange::Gone | MappingChange::Unmapped => _ = self.passed.remove(&mapping),
        }
        cx.effects.push(Effect::Mapping { mapping, number: self.told, change });
        self.told
    }

    /// The same of where a mapping's content is from a work on.
    pub fn show(
        &mut self,
        cx: &mut Cx<'_>,
        mapping: MappingId,
        process: ProcessId,
        shown: MappingChange,
        work: u64,
    ) -> u64 {
        let number = self.tell(cx, mapping, shown);
        // Nor has the process seen a change that was passed.
        self.unseen.entry(mapping).or_insert(Unseen { process, number, work }).number = number;
        number
    }

    /// A mapping's process sees what it was told up to this change. Whether that is news.
    pub fn note_seen(&mut self, mapping: MappingId, number: u64) -> bool {
        let news = self.unseen.get(&mapping).is_some_and(|unseen| unseen.number <= number);
        if news {
            self.unseen.remove(&mapping);
        }
        news
    }

    /// Whether a process sees all that works up to this one have moved.
    pub fn sees_up_to(&self, process: ProcessId, work: u64) -> bool {
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
}

/// The adapter that a mapping belongs to.
pub fn adapter_of_mapping(mapping: MappingId) -> AdapterIndex {
    // CAST: the index was put there.
    AdapterIndex((mapping.0 >> NUMBER_BITS) as u32)
}

impl Adapter {
    /// The mapping of an allocation, made if this is its first lock. Pages that must be lent first it shows
    /// later: by [`Adapter::show_in_turn`].
    pub fn map_for_cpu(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        allocation: AllocationId,
        runs: &[CpuRun],
    ) -> MappingId {
        if let Some(mapping) = self.cpu_mappings.of(allocation) {
            return mapping;
        }
        let runs = if self.lends(cx, runs) { &[] } else { runs };
        self.cpu_mappings.next += 1;
        let mapping = MappingId(u64::from(self.index.0) << NUMBER_BITS | self.cpu_mappings.next);
        self.cpu_mappings.by_allocation.insert(allocation, mapping);
        let size_bytes = self.vidmm.allocation_bytes(allocation);
        let runs = self.through_caches(cx, allocation, runs.to_vec());
        self.cpu_mappings.tell(cx, mapping, MappingChange::Made { process, size_bytes, runs });
        mapping
    }

    /// A mapping of memory that is no allocation.
    pub fn map_section(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        runs: Vec<CpuRun>,
        size_bytes: u64,
    ) -> MappingId {
        self.cpu_mappings.next += 1;
        let mapping = MappingId(u64::from(self.index.0) << NUMBER_BITS | self.cpu_mappings.next);
        self.cpu_mappings.tell(cx, mapping, MappingChange::Made { process, size_bytes, runs });
        mapping
    }

    /// A mapping that was just made shows these from the turn of a work on, if they have to be lent.
    pub fn show_in_turn(&mut self, cx: &mut Cx<'_>, process: ProcessId, mapping: MappingId, runs: &[CpuRun]) {
        if self.lends(cx, runs) && self.cpu_mappings.lent.insert(mapping) {
            self.cpu_mappings.unshown.insert(mapping);
            self.queue_turn(cx, process, mapping, runs.to_vec());
        }
    }

    /// The allocation is not locked any more.
    pub fn unmap_for_cpu(&mut self, cx: &mut Cx<'_>, process: ProcessId, allocation: AllocationId) {
        let Some(mapping) = self.cpu_mappings.by_allocation.remove(&allocation) else { return };
        self.cpu_mappings.unshown.remove(&mapping);
        if self.cpu_mappings.lent.remove(&mapping) && !self.life.has_stopped() {
            self.cpu_mappings.leaving.insert(mapping);
            self.cpu_mappings.tell(cx, mapping, MappingChange::Unmapped);
            self.queue_turn(cx, process, mapping, Vec::new());
            return;
        }
        let number = self.cpu_mappings.tell(cx, mapping, MappingChange::Gone);
        self.mapping_changed(cx, mapping, number, Heard::Seen);
    }

    /// Lets the driver point window pages at memory pages.
    // spec: memory §6.6
    pub fn map_window(&mut self, cx: &Cx<'_>, allocation: AllocationId, map: &WindowMap) -> bool {
        self.unmap_window(cx, &WindowPages { segment: map.segment, pages: map.unmap.clone() });
        let allocation = Some(self.vidmm.kmd_handle(allocation));
        let Some(facet) = self.driver.call(cx).cpu_host_aperture() else { return false };
        let map = MapCpuHostAperture {
            allocation,
            segment: map.segment,
            physical_adapter: 0,
            window_pages: &map.window_pages,
            memory_pages: &map.memory_pages,
        };
        facet.map_cpu_host_aperture(map).is_ok()
    }

    /// Lets the driver take window pages out.
    // spec: memory §6.6
    pub fn unmap_window(&mut self, cx: &Cx<'_>, pages: &WindowPages) {
        if let Some(facet) = self.driver.call(cx).cpu_host_aperture().filter(|_| !pages.pages.is_empty()) {
            facet.unmap_cpu_host_aperture(UnmapCpuHostAperture {
                window_pages: &pages.pages,
                segment: pages.segment,
                physical_adapter: 0,
            });
        }
    }
}
