//! The seam to the pages that client processes may map: pages that one process may look at or write, and later may not. The program that
//! runs clients in processes of their own implements it, and lends them these pages and no others. The kernel calls it under the
//! machine's lock.
//!
//! # The law of this boundary
//! - **Said before the first use.** The content of pages is gone when [`ClientMemory::begins`] returns, and they are zero: so it is
//!   called before anything of the new owner's is stored there, and when nothing that still counts is on its way there. It costs a
//!   file and its pages, and an allocation that is never moved out or locked uses none: so it is called with the first use, too.
//! - **Ended at the next use.** The kernel calls [`ClientMemory::ends`] when no mapping of the process shows the pages any more, and
//!   before it gives them to another owner. Pages that begin again for another need not have ended.
//! - **It never fails here.** The other side does not hand out what it cannot lend (no descriptors, no mappings): it refuses the process
//!   its mapping, and the kernel's work goes on in pages that no client sees.

use shared_words::ClientAccess;
use vidmm::{AllocationId, Move, MoveKind};
use wddm_types::{CpuPlace, CpuRun, PageRun};

use crate::adapter::Adapter;

/// The pages that clients of one adapter may map.
pub trait ClientMemory: Send + Sync + std::fmt::Debug {
    /// These pages, named as the CPU reaches them, are what the clients of one owner see from now on, together: an allocation's, a
    /// page of words. False: they could not be lent, and may hold anything.
    fn begins(&self, place: CpuPlace, runs: &[PageRun], access: ClientAccess) -> bool;

    /// They are no client's any more.
    fn ends(&self, place: CpuPlace, run: PageRun);

    /// Whether the adapter's own memory can be lent too, with what it holds: where a locked allocation shows it, from the
    /// [`MappingChange::Shown`](crate::MappingChange::Shown) that says so until it is said to show something else, or has
    /// [left](crate::MappingChange::Left).
    fn lends_local(&self) -> bool;
}

impl Adapter {
    /// An allocation of a process has fresh system pages: a process that may lock it sees them while they are its. Nearly every
    /// allocation can be locked there, visible to the CPU or not (memory §6.3, row 8). The pages hold nothing before their first use: the
    /// kernel lends them then. Whether they are lent from now on, and zero.
    pub fn lend_backing(&mut self, allocation: AllocationId) -> bool {
        if self.config.clients.is_none() {
            return false;
        }
        if self.vidmm.uses_backing(allocation) {
            return self.lend_system(self.vidmm.backing(allocation));
        }
        self.unexported_pages.insert(allocation);
        false
    }

    /// Provides the system pages of a new allocation: lends them if the allocation uses them from the begin, or else clears them of
    /// another owner's bytes. Freshly lent pages are zero already, and cost nothing until they are touched.
    pub fn provide_backing(&mut self, allocation: AllocationId) {
        if !self.lend_backing(allocation) {
            self.clear_pages(self.vidmm.pages_to_clear(allocation));
        }
    }

    /// The system pages of an allocation are about to be used: copied to, reached by the GPU, shown to the CPU. Whether they are zero,
    /// because they are lent from now on.
    pub fn backing_used(&mut self, allocation: AllocationId) -> bool {
        self.unexported_pages.remove(&allocation) && self.lend_system(self.vidmm.backing(allocation))
    }

    /// The same of what has moved out of the adapter's memory, or is reached where it is. Answers which of it is zero for that.
    pub fn backings_used(&mut self, moves: &[Move]) -> Vec<PageRun> {
        let mut zero = Vec::new();
        if self.unexported_pages.is_empty() {
            return zero;
        }
        for moved in moves.iter().filter(|moved| matches!(moved.kind, MoveKind::PageOut | MoveKind::Map)) {
            if self.backing_used(moved.allocation) {
                zero.extend_from_slice(self.vidmm.backing(moved.allocation));
            }
        }
        zero
    }

    /// Lends system pages that have just been taken for a process. They cease to be its when they return to VidMm's pool. Whether they
    /// are, and zero.
    pub fn lend_system(&self, runs: &[PageRun]) -> bool {
        let clients = self.config.clients.as_ref().filter(|_| !runs.is_empty());
        clients.is_some_and(|clients| clients.begins(CpuPlace::System, runs, ClientAccess::ReadWrite))
    }

    /// Whether these are shown to a client by lending it the adapter's own memory.
    pub fn lends(&self, runs: &[CpuRun]) -> bool {
        let own = |run: &CpuRun| matches!(run.place, CpuPlace::Bar | CpuPlace::HostAperture);
        self.config.clients.is_some() && runs.iter().any(own)
    }

    /// How many files an allocation may need: its backing store's, and another one while it is locked in the adapter's own memory.
    pub fn files_of_one(&self) -> u64 {
        1 + u64::from(self.config.clients.as_ref().is_some_and(|clients| clients.lends_local()))
    }

    /// Which of these have given their backing stores up: Reclaim gives them others, with nothing in them.
    pub fn without_backing(&self, allocations: &[AllocationId]) -> Vec<AllocationId> {
        let bare = |id: &AllocationId| self.vidmm.backing(*id).is_empty();
        allocations.iter().copied().filter(bare).collect()
    }
}
