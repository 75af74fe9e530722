//! Permanent system copies under a lock (memory §2.2): which of its pages the CPU has written. The CPU does not report its writes; so the
//! kernel keeps the bytes as they were when it answered the lock, and compares when it has to know: at the last unlock, and when the
//! content leaves while it is locked. A page that holds the same bytes as before needs no copy.
//!
//! Where no bytes are stored, every page counts as written.

use vidmm::{AllocationId, cut_pages};
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
    pub(in crate::adapter) fn note_copy(&mut self, cx: &Cx<'_>, id: AllocationId) {
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
    pub(in crate::adapter) fn written_pages(&self, cx: &Cx<'_>, id: AllocationId) -> WrittenPages {
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
    pub(in crate::adapter) fn upload_late(&mut self, cx: &mut Cx<'_>) {
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
    pub(in crate::adapter) fn frames_of(&self, id: AllocationId, pages: &WrittenPages) -> Vec<PageRun> {
        pages.iter().flat_map(|&(first, count)| cut_pages(self.vidmm.backing(id), first, count)).collect()
    }
}
