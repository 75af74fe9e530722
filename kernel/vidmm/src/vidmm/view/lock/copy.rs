//! Permanent system copies (memory §2.2 bits 1 and 4): a lock shows the backing store, wherever the content is, and the
//! content stays there. It is copied out before the CPU looks; what the CPU has written is copied in after the last unlock.
//!
//! ```text
//! in a memory segment ── lock: copy out ──▶ both, the CPU writes the copy ── unlock: written pages in ──▶ as before
//!                                            │ it has to leave: copied out, but for what the CPU has written
//!                                            ▼
//!                                          in system memory, until the unlock at least
//! ```
//! The kernel, which keeps the CPU's mapping, knows the written pages: it tells VidMm ([`VidMm::upload`]), or a rotation asks it to look
//! ([`Rotation::writes_backing`](crate::Rotation)).
//!
//! Content that is no page of its backing store, page by page (pitches that a segment aligns, marked content), moves out for a lock like
//! any other.

use ddi::DriverModel;
use wddm_types::{PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::allocation::{Allocation, Placement, SYSTEM_COPY};
use crate::extent::Extent;
use crate::operation::Form;
use crate::paging::{Batch, Cause, Direction, MoveKind, MoveStep, Operation, UsedContent, Work};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;
use crate::vidmm::placement::commit::copy_in;

impl<F: Copy + Eq> VidMm<F> {
    /// Whether a lock shows the backing store while the content is in a memory segment.
    // spec: memory §2.2
    pub fn keeps_copy(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        let apart =
            matches!(&allocation.placement, Placement::Memory(segment, _) if self.segment(*segment).aligns_pitches());
        allocation.info.flags.intersects(SYSTEM_COPY) && !apart && !self.is_marked(id)
    }

    /// Whether the CPU sees the backing store of content that is in a memory segment.
    pub(crate) fn shows_copy(&self, id: AllocationId) -> bool {
        self.allocations[id].locks.count > 0 && self.keeps_copy(id)
    }

    /// Whether what lies in a segment of this allocation can only be copied as a whole: part of it is no part of its pages.
    pub fn is_copied_whole(&self, id: AllocationId) -> bool {
        self.model == DriverModel::Wddm1 && self.allocations[id].contiguous()
    }

    /// Brings a permanent copy up to date: what the GPU may have written is copied out, and stays where it is.
    // spec: memory §2.2, memory §8.3
    pub(crate) fn refresh_copy(&mut self, id: AllocationId, batch: &mut Batch<F>) {
        let whole = self.is_copied_whole(id);
        let allocation = &mut self.allocations[id];
        let listed = allocation.count > 0;
        let Placement::Memory(segment, extents) = &mut allocation.placement else {
            unreachable!("it lies in a memory segment")
        };
        let segment = *segment;
        // Work may be writing content on a list.
        if listed || whole && extents.iter().any(|extent| extent.dirty) {
            extents.make_dirty();
        }
        let stale = extents.clean_first(u64::MAX);
        if stale.is_empty() {
            return;
        }
        let until = std::mem::take(&mut allocation.last_use);
        batch.takes_used(UsedContent::copied(id, until));
        allocation.last_work = batch.serial;
        for extent in stale {
            let operation = self.copy(id, segment, &extent, Direction::Out);
            batch.out.push(operation);
            let allocation = &mut self.allocations[id];
            allocation.valid.insert(extent.page, extent.count);
            batch.moved(step(allocation, id, MoveKind::PageOut, segment, &extent));
        }
        self.note_paging(id, batch.serial);
    }

    /// The last lock of an allocation has ended, and the CPU has written these of its pages `(first, count)`, ascending. If
    /// it keeps a copy and lies in a memory segment, they are copied there; it is there when the work is done.
    ///
    /// # Panics
    /// When it is locked.
    // spec: memory §2.2
    pub fn upload(&mut self, id: AllocationId, written: &[(u64, u64)]) -> Option<Work<F>> {
        assert!(!self.is_locked(id), "who still has it locked may write on");
        if !self.keeps_copy(id) || written.is_empty() {
            return None;
        }
        let Placement::Memory(segment, extents) = &self.allocations[id].placement else { return None };
        let (segment, present) = (*segment, extents.iter());
        let pieces: Vec<Extent> = match self.is_copied_whole(id) {
            true => present.collect(),
            false => present.flat_map(|extent| parts(extent, written)).collect(),
        };
        if pieces.is_empty() {
            return None;
        }
        let mut batch = self.works.begin();
        let allocation = &mut self.allocations[id];
        // Work queued before the evict reads the old content, unless its device gives way meanwhile: the CPU has written while it was queued.
        let until = std::mem::take(&mut allocation.last_use);
        batch.takes_used(UsedContent::moved(id, until));
        allocation.last_work = batch.serial;
        for extent in pieces {
            let operation = self.copy(id, segment, &extent, Direction::In);
            batch.content.push(operation);
            batch.moved(step(&self.allocations[id], id, MoveKind::PageIn, segment, &extent));
        }
        self.note_paging(id, batch.serial);
        self.finish(batch, false)
    }

    /// One copy between a place in a segment and the backing store.
    fn copy(&self, id: AllocationId, segment: SegmentId, extent: &Extent, direction: Direction) -> Operation {
        let allocation = &self.allocations[id];
        let address = self.segment(segment).descriptor.base_address + extent.frame * PAGE_BYTES;
        let (offset, bytes) = (extent.page * PAGE_BYTES, extent.count * PAGE_BYTES);
        let what = (allocation.named(), offset, bytes, segment, address);
        let backing = allocation.backing_of(extent.page, extent.count);
        let mut operation = copy_in(what, allocation.contiguous(), backing, Form::Kept);
        if let Operation::Transfer { direction: way, .. } = &mut operation {
            *way = direction;
        }
        operation
    }
}

/// The parts of an extent that were written.
fn parts(extent: Extent, written: &[(u64, u64)]) -> Vec<Extent> {
    let part = |&(first, count): &(u64, u64)| {
        let (low, high) = (first.max(extent.page), (first + count).min(extent.page + extent.count));
        let frame = extent.frame + low.saturating_sub(extent.page);
        (low < high).then(|| Extent { page: low, frame, count: high - low, ..extent })
    };
    written.iter().filter_map(part).collect()
}

fn step<F>(
    allocation: &Allocation<F>,
    id: AllocationId,
    kind: MoveKind,
    segment: SegmentId,
    extent: &Extent,
) -> MoveStep {
    MoveStep {
        allocation: id,
        kmd_allocation: allocation.info.allocation,
        kind,
        cause: Cause::SystemCopy,
        segment,
        run: PageRun { first: extent.frame, count: Pages(extent.count) },
    }
}
