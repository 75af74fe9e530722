//! The CPU's view of a locked allocation, which changes when content moves: runs of pages, rotations, windows that are left. It decides
//! nothing. `lock` and the modules that move content call it.

use std::collections::BTreeSet;

use ddi::{AllocationFlags, SegmentFlags, VidMmCaps};
use wddm_types::{CpuPlace, CpuRun, PAGE_BYTES, PageRun, Pages};

use crate::allocation::{Allocation, Placement};
use crate::paging::{Batch, Rotation};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Puts all that a batch holds behind what is settled, as [`Batch::settle`] does, and notes what the CPU is to be shown before content
    /// comes.
    pub(crate) fn settle(&mut self, batch: &mut Batch<F>) {
        self.note_departure(batch);
        batch.settle(self.spaces.flushes_fresh());
    }

    /// Content that was noted may come to where locked content is now.
    // spec: memory §6.3
    pub(crate) fn note_departure(&mut self, batch: &mut Batch<F>) {
        let left = batch.take_left();
        let rotations = self.rotations_of(left, batch);
        batch.departs(rotations);
    }

    /// The changes of medium that a batch means for the CPU, and has not told.
    pub(crate) fn rotations(&mut self, batch: &mut Batch<F>) -> Vec<Rotation> {
        let locked = std::mem::take(&mut batch.locked);
        self.rotations_of(locked, batch)
    }

    fn rotations_of(&mut self, locked: BTreeSet<AllocationId>, batch: &mut Batch<F>) -> Vec<Rotation> {
        let mut rotations = Vec::new();
        for id in locked {
            let runs = self.cpu_runs(id);
            let unmap = batch.unmap_locked.remove(&id);
            let ranges = batch.ranges_locked.remove(&id).unwrap_or_default();
            let writes_backing = batch.copied_locked.remove(&id);
            if writes_backing {
                assert!(runs == self.allocations[id].locks.runs, "a system copy is seen wherever the content is");
                rotations.push(Rotation { allocation: id, runs, unmap, ranges, writes_backing });
            } else if runs != self.allocations[id].locks.runs {
                self.allocations[id].locks.runs.clone_from(&runs);
                rotations.push(Rotation { allocation: id, runs, unmap, ranges, writes_backing });
            } else {
                assert!(
                    unmap.is_none() && ranges.is_empty(),
                    "content that leaves its window or range is seen elsewhere"
                );
            }
        }
        rotations
    }

    /// Ends the window of content that moves: at once when the content is unlocked, with the rotation otherwise.
    // spec: memory §6.6, the unmap precedes the reuse of the memory pages
    pub(crate) fn leave_window(&mut self, id: AllocationId, batch: &mut Batch<F>) {
        if self.allocations[id].locks.count > 0 {
            batch.locked_leaves(id);
            if let Some(pages) = self.end_window(id) {
                batch.unmap_locked.insert(id, pages);
            }
        } else if let Some(pages) = self.end_window(id) {
            // The kernel unmaps these pages before the first operation of the work.
            self.window_unmapped(&pages);
            batch.unmap.push(pages);
        }
    }

    /// The system pages without content that the CPU is about to see; they count as written from now on.
    pub(super) fn make_whole(&mut self, id: AllocationId) -> Vec<PageRun> {
        let copy = self.keeps_copy(id);
        let allocation = &mut self.allocations[id];
        let in_system = match &allocation.placement {
            Placement::Memory(_, extents) if !copy => extents.missing(),
            Placement::Memory(..) | Placement::None | Placement::System(_) => vec![(0, allocation.pages)],
        };
        let mut clear = Vec::new();
        for (first, count) in in_system {
            for (first, count, valid) in allocation.valid.split(first, count) {
                if !valid {
                    clear.extend(allocation.backing_of(first, count));
                }
            }
            allocation.valid.insert(first, count);
        }
        clear
    }

    /// Whether the CPU sees a primary that is about to be locked where an aperture shows it, and the aperture does so now: not where the
    /// driver wants an alternate address for it, or backs primaries by sections, which the CPU sees by themselves.
    // spec: memory §1.5 bit 2, memory §1.7
    pub(super) fn shows_primary(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        allocation.primary
            && self.policy.cpu_reaches_local
            && !self.caps.contains(VidMmCaps::SECTION_BACKED_PRIMARY)
            && !allocation.info.flags.contains(AllocationFlags::USE_ALTERNATE_VA)
            && self.works.is_past(allocation.last_work)
            && self.in_aperture(id).is_some()
    }

    /// Content that leaves the aperture, or enters it, while it is locked: the CPU sees its pages themselves from then on.
    pub(crate) fn leave_aperture_view(&mut self, id: AllocationId, batch: &mut Batch<F>) {
        let locks = &mut self.allocations[id].locks;
        if locks.through_aperture {
            locks.through_aperture = false;
            if locks.count > 0 {
                batch.locked_leaves(id);
            }
        }
    }

    /// The run of an allocation in an aperture that the CPU reaches.
    fn in_aperture(&self, id: AllocationId) -> Option<CpuRun> {
        let Placement::System(Some((segment, run))) = self.allocations[id].placement else { return None };
        let first = self.segment(segment).primary_address(run.first)? / PAGE_BYTES;
        Some(CpuRun { place: CpuPlace::Bar, run: PageRun { first, count: run.count } })
    }

    /// Where the CPU sees an allocation that is locked, or is about to be.
    // spec: memory §1.7, memory §6.6
    pub(crate) fn cpu_runs(&self, id: AllocationId) -> Vec<CpuRun> {
        let allocation = &self.allocations[id];
        let Placement::Memory(segment, extents) = &allocation.placement else {
            let shown = if allocation.locks.through_aperture { self.in_aperture(id) } else { None };
            return match shown {
                Some(run) => vec![run],
                None => merged(system_runs(allocation, 0, allocation.pages)),
            };
        };
        // spec: memory §2.2, always the system copy
        if self.keeps_copy(id) {
            return merged(system_runs(allocation, 0, allocation.pages));
        }
        // spec: memory §6.5, UseAlternateVA: where the driver shows it
        if let Some(address) = self.ranges.placed(id).filter(|_| allocation.locks.acquired) {
            let run = PageRun { first: address / PAGE_BYTES, count: Pages(allocation.pages) };
            return vec![CpuRun { place: CpuPlace::Bar, run }];
        }
        let descriptor = &self.segment(*segment).descriptor;
        let base = descriptor.cpu.translated().unwrap_or(0) / PAGE_BYTES;
        let window = self.windows.showing(*segment, id);
        let mut runs = Vec::new();
        let mut next = 0;
        for extent in extents.iter() {
            runs.extend(system_runs(allocation, next, extent.page - next));
            match window {
                Some(window) => runs.extend(window.runs(id, extent)),
                None => {
                    assert!(descriptor.flags.contains(SegmentFlags::CPU_VISIBLE), "the locked are within reach");
                    let run = PageRun { first: base + extent.frame, count: Pages(extent.count) };
                    runs.push(CpuRun { place: CpuPlace::Bar, run });
                }
            }
            next = extent.page + extent.count;
        }
        runs.extend(system_runs(allocation, next, allocation.pages - next));
        merged(runs)
    }
}

fn system_runs<F>(allocation: &Allocation<F>, first: u64, count: u64) -> Vec<CpuRun> {
    if count == 0 { Vec::new() } else { allocation.backing_of(first, count).into_iter().map(CpuRun::system).collect() }
}

/// Neighbours become one.
fn merged(runs: Vec<CpuRun>) -> Vec<CpuRun> {
    let mut merged: Vec<CpuRun> = Vec::with_capacity(runs.len());
    for run in runs {
        match merged.last_mut() {
            Some(last) if last.place == run.place && last.run.end() == run.run.first => last.run.count += run.run.count,
            _ => merged.push(run),
        }
    }
    merged
}
