//! The residence of all allocations for event tracing: all of it at once, and the moves made without any work. Such moves happen in system
//! memory only: content without a GPU address comes within the GPU's reach, and leaves it, without an operation.

use wddm_types::{PageRun, Pages, SegmentId};

use crate::allocation::Placement;
use crate::paging::Move;
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

/// One allocation's pages within the GPU's reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residence {
    /// The allocation.
    pub allocation: AllocationId,
    /// Where: [`SegmentId::SYSTEM`] for its own pages of system memory.
    pub segment: SegmentId,
    /// Which pages of it, in the order of the allocation.
    pub runs: Vec<PageRun>,
}

impl<F> VidMm<F> {
    /// Everything that is resident.
    // spec: memory §8.5
    pub fn residences(&self) -> impl Iterator<Item = Residence> + '_ {
        self.allocations.iter().filter_map(|(allocation, known)| {
            let (segment, runs) = match &known.placement {
                Placement::None => return None,
                Placement::Memory(segment, extents) => {
                    (*segment, extents.iter().map(|e| PageRun { first: e.frame, count: Pages(e.count) }).collect())
                }
                Placement::System(Some((segment, run))) => (*segment, vec![*run]),
                Placement::System(None) => (SegmentId::SYSTEM, known.backing.clone()),
            };
            Some(Residence { allocation, segment, runs })
        })
    }

    /// Takes the moves without work that were decided before the work of this serial and not yet taken.
    pub fn take_untold(&mut self, before: u64) -> Vec<Move> {
        self.works.take_untold(before)
    }
}
