//! The seam to the pages that client processes may map: pages that one process may look at or write, and later may not. The program that
//! runs clients in processes of their own implements it, and lends them these pages and no others. The kernel calls it under the
//! machine's lock.
//!
//! # The law of this boundary
//! - **Said before the first use.** The content of pages is gone when [`ClientMemory::begins`] returns, and they are zero: so it is
//!   called before anything of the new owner's is stored there, and when nothing that still counts is on its way there. It costs
//!   mappings and pages, and an allocation that is never moved out or locked uses none: so it is called with the first use, too.
//! - **Ended at the next use.** The kernel calls [`ClientMemory::ends`] when no mapping of the process shows the pages any more, and
//!   before it gives them to another owner. Pages that begin again for another need not have ended.
//! - **It never fails here.** The other side does not hand out what it cannot lend (no descriptors, no mappings): it refuses the process
//!   its mapping, and the kernel's work goes on in pages that no client sees.

use shared_words::ClientAccess;
use wddm_types::{CpuPlace, PageRun, ProcessId};

/// The processes that may map pages from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewers {
    /// This one and no other, for as long as the pages are lent: they may lie in one file with its other pages.
    One(ProcessId),
    /// Each process that the kernel names them to: they lie in a file with no other pages.
    Several,
}

/// The pages that clients of one adapter may map.
pub trait ClientMemory: Send + Sync + std::fmt::Debug {
    /// These pages, named as the CPU reaches them, are what these processes may see from now on, together: an allocation's, a
    /// page of words. False: they could not be lent, and may hold anything.
    fn begins(&self, viewers: Viewers, place: CpuPlace, runs: &[PageRun], access: ClientAccess) -> bool;

    /// They are no client's any more.
    fn ends(&self, place: CpuPlace, run: PageRun);

    /// Whether the adapter's own memory can be lent too, with what it holds: where a locked allocation shows it, from the
    /// [`MappingChange::Shown`](crate::MappingChange::Shown) that says so until it is said to show something else, or has
    /// [left](crate::MappingChange::Left).
    fn lends_local(&self) -> bool;
}
