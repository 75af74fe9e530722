//! Permanent system copies under a lock (memory §2.2): which of its pages the CPU has written. The CPU does not report its writes; so the
//! kernel keeps the bytes as they were when it answered the lock, and compares when it has to know: at the last unlock, and when the
//! content leaves while it is locked. A page that holds the same bytes as before needs no copy.
//!
//! Where no bytes are stored, every page counts as written.

use vidmm::{AllocationId, Direction, Operation, cut_pages};
use wddm_types::{PAGE_BYTES, PageRun};

use crate::adapter::Adapter;
use crate::cpu_view::{Shown, WrittenPages};
use crate::effect::Cx;

impl Adapter {
    /// An allocation was locked for the first time.
    pub(super) fn copy_shown(&mut self, id: AllocationId) {
        if self.vidmm.keeps_copy(id) && self.vidmm.locks_of(id) == 1 {
            self.memory.cpu_view.await_copy(id);
        }
    }

    /// The copy is up to date, and the CPU is about to see it.
    // spec: memory §2.2
    pub fn note_copy(&mut self, cx: &Cx<'_>, id: AllocationId) {
        if !self.memory.cpu_view.awaits_copy(id) {
            return;
        }
        let bytes = self.config.clear_pages.then(|| {
            // The CPU sees what it wrote and its caches still hold.
            self.maintain_for_move(cx, id);
            self.bytes_of(cx, self.vidmm.backing(id))
        });
        self.memory.cpu_view.show_copy(id, bytes);
    }

    /// The pages of its copy that the CPU has written since it was shown.
    // spec: memory §2.2
    pub fn written_pages(&self, cx: &Cx<'_>, id: AllocationId) -> WrittenPages {
        let before = match self.memory.cpu_view.copy(id) {
            Shown::Nothing => return Vec::new(),
            Shown::Unknown => return vec![(0, self.vidmm.allocation_bytes(id) / PAGE_BYTES)],
            Shown::Bytes(before) => before,
        };
        self.maintain_for_move(cx, id);
        let mut written: WrittenPages = Vec::new();
        let mut page_now = [0; PAGE_BYTES as usize];
        let frames = self.vidmm.backing(id).iter().flat_map(|run| run.first..run.end());
        for (page, (frame, then)) in (0..).zip(frames.zip(before.chunks_exact(PAGE_BYTES as usize))) {
            cx.memory.read(frame * PAGE_BYTES, &mut page_now);
            match written.last_mut() {
                _ if page_now == then => {}
                Some((first, count)) if *first + *count == page => *count += 1,
                _ => written.push((page, 1)),
            }
        }
        written
    }

    /// The last lock of it has ended.
    pub fn forget_copy(&mut self, id: AllocationId) {
        self.memory.cpu_view.forget_copy(id);
    }

    /// Copies what the CPU wrote to where the content is. Says whether there is something to be waited for: an adapter that
    /// sleeps does it when it wakes, before anything runs.
    // spec: memory §2.2, memory §8.4
    pub(super) fn upload(&mut self, cx: &mut Cx<'_>, id: AllocationId, written: WrittenPages) -> bool {
        if self.life.has_stopped() || written.is_empty() {
            return false;
        }
        if !self.life.is_awake() {
            self.memory.cpu_view.upload_late(id, written);
            return false;
        }
        let work = self.vidmm.upload(id, &written);
        let uploads = work.is_some();
        if uploads {
            let process = self.memory.allocations.body_of(id).creator;
            self.queue_work(cx, process, None, work, Vec::new());
        }
        uploads
    }

    /// The adapter is awake: uploads the copies that were unlocked while it slept.
    pub fn upload_late(&mut self, cx: &mut Cx<'_>) {
        for (id, written) in self.memory.cpu_view.take_late() {
            // It may be dead, or locked again already.
            if self.memory.allocations.body(id).is_some() && !self.vidmm.is_locked(id) {
                self.upload(cx, id, written);
            }
        }
    }

    fn bytes_of(&self, cx: &Cx<'_>, runs: &[PageRun]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for run in runs {
            let from = bytes.len();
            // CAST: an allocation's bytes are in this computer's memory.
            bytes.resize(from + run.count.bytes() as usize, 0);
            cx.memory.read(run.first * PAGE_BYTES, &mut bytes[from..]);
        }
        bytes
    }

    /// The system pages behind pages of an allocation.
    pub fn frames_of(&self, id: AllocationId, pages: &WrittenPages) -> Vec<PageRun> {
        pages.iter().flat_map(|&(first, count)| cut_pages(self.vidmm.backing(id), first, count)).collect()
    }
}

/// Takes system pages out of the copies of a work that would write them. `whole`: their allocation is copied whole or not at all.
// spec: memory §2.2
pub fn spare(operation: Operation, frames: &[PageRun], whole: bool) -> Vec<Operation> {
    let Operation::Transfer { backing, direction: Direction::Out, .. } = &operation else { return vec![operation] };
    let kept = unspared(backing, frames);
    let pages: u64 = backing.iter().map(|run| run.count.0).sum();
    match kept[..] {
        [(0, count)] if count == pages => vec![operation],
        _ if whole => Vec::new(),
        _ => kept.iter().map(|&(first, count)| part_of(&operation, first, count)).collect(),
    }
}

/// The ranges of a list of pages that are not among `frames`: first and how many.
fn unspared(backing: &[PageRun], frames: &[PageRun]) -> Vec<(u64, u64)> {
    let spared = |frame: u64| frames.iter().any(|run| (run.first..run.end()).contains(&frame));
    let mut kept: Vec<(u64, u64)> = Vec::new();
    for (page, frame) in (0..).zip(backing.iter().flat_map(|run| run.first..run.end())) {
        match kept.last_mut() {
            _ if spared(frame) => {}
            Some((first, count)) if *first + *count == page => *count += 1,
            _ => kept.push((page, 1)),
        }
    }
    kept
}

/// `count` pages of a copy, from its page `from` on.
fn part_of(operation: &Operation, from: u64, count: u64) -> Operation {
    let mut part = operation.clone();
    let Operation::Transfer { allocation_offset, size_bytes, address, backing, through, .. } = &mut part else {
        unreachable!("it is a transfer")
    };
    *allocation_offset += from * PAGE_BYTES;
    *address += from * PAGE_BYTES;
    *size_bytes = count * PAGE_BYTES;
    *backing = cut_pages(backing, from, count);
    if let Some((_, shown)) = through {
        *shown += from * PAGE_BYTES;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use vidmm::Form;
    use wddm_types::{Pages, SegmentId};

    fn run(first: u64, count: u64) -> PageRun {
        PageRun { first, count: Pages(count) }
    }

    fn out(direction: Direction) -> Operation {
        Operation::Transfer {
            allocation: Some(ddi::KmdAllocation(1)),
            allocation_offset: 8 * PAGE_BYTES,
            size_bytes: 6 * PAGE_BYTES,
            segment: SegmentId(1),
            address: 100 * PAGE_BYTES,
            contiguous: false,
            backing: vec![run(40, 2), run(10, 4)],
            through: Some((SegmentId(2), 500 * PAGE_BYTES)),
            direction,
            form: Form::Kept,
        }
    }

    /// Offset, size, address, through, in pages; and the backing store.
    fn shape(operation: &Operation) -> (u64, u64, u64, u64, Vec<PageRun>) {
        let Operation::Transfer { allocation_offset, size_bytes, address, backing, through, .. } = operation else {
            panic!("{operation:?}")
        };
        let through = through.map_or(0, |(_, at)| at / PAGE_BYTES);
        (allocation_offset / PAGE_BYTES, size_bytes / PAGE_BYTES, address / PAGE_BYTES, through, backing.clone())
    }

    #[test]
    fn a_copy_out_leaves_the_pages_alone_that_the_cpu_wrote() {
        // spec: memory §2.2
        let spared = |frames: &[PageRun]| spare(out(Direction::Out), frames, false);
        assert_eq!(spared(&[]), [out(Direction::Out)]);
        assert_eq!(spared(&[run(20, 5)]), [out(Direction::Out)], "pages of others");
        let parts: Vec<_> = spared(&[run(41, 1), run(11, 1)]).iter().map(shape).collect();
        let expected = [
            (8, 1, 100, 500, vec![run(40, 1)]),
            (10, 1, 102, 502, vec![run(10, 1)]),
            (12, 2, 104, 504, vec![run(12, 2)]),
        ];
        assert_eq!(parts, expected);
        assert_eq!(spared(&[run(0, 100)]), [], "nothing is left to be copied");
        assert_eq!(spare(out(Direction::Out), &[run(13, 1)], true), [], "whole or not at all");
        assert_eq!(spare(out(Direction::In), &[run(0, 100)], false), [out(Direction::In)], "what comes is not spared");
    }
}
