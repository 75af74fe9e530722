//! How many bytes lie in which segment, per process: one pass over every allocation. The kernel calls it for a query of statistics; budgets
//! have sums of their own (`budget`).
//!
//! Content in system memory that needs no pages of an aperture counts in the aperture that names it, as in budgets (memory §5.5).

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::Pages;

use crate::allocation::{Allocation, Placement};
use crate::slab::SpaceId;
use crate::vidmm::VidMm;

/// Bytes of content in one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentTally {
    /// All of it, also what no list requires any more.
    pub committed_bytes: u64,
    /// Bytes that lists require.
    pub resident_bytes: u64,
}

/// The memory of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceTally {
    /// Allocations that its devices own.
    pub allocations: u32,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Of these, of those that lie elsewhere than they would rather.
    pub demoted_bytes: u64,
    /// Of these, of those that are offered.
    pub offered_bytes: u64,
    /// The driver's segments, number 1 first: committed counts the bytes there that it owns, resident those that its lists require there,
    /// owned by it or not.
    pub segments: Vec<SegmentTally>,
}

/// Why the sums of all processes are not those of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// Committed bytes that no process owns: a name alone keeps the allocation. The processes' sum lacks them.
    pub unowned_bytes: u64,
    /// Resident bytes for each process beyond the first whose lists require the same allocation. The processes' sum has them more than once.
    pub repeated_bytes: u64,
}

/// The tally of all allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The driver's segments, number 1 first.
    pub segments: Vec<SegmentTally>,
    /// In the same order, the difference between the sums of all processes and the segments.
    pub apart: Vec<Apart>,
    /// By process; those that have nothing are not here.
    pub spaces: BTreeMap<SpaceId, SpaceTally>,
}

impl Tally {
    fn of(&mut self, space: SpaceId) -> &mut SpaceTally {
        let segments = self.segments.len();
        self.spaces.entry(space).or_insert_with(|| SpaceTally {
            segments: vec![SegmentTally::default(); segments],
            ..SpaceTally::default()
        })
    }
}

impl<F: Copy + Eq> VidMm<F> {
    /// The tally as of now.
    pub fn tally(&self) -> Tally {
        let segments = vec![SegmentTally::default(); self.segments.drivers().len()];
        let apart = vec![Apart::default(); segments.len()];
        let mut tally = Tally { segments, apart, spaces: BTreeMap::new() };
        for (id, allocation) in self.allocations.iter() {
            let (at, here) = self.lies_in(allocation);
            // An allocation that only a name keeps alive counts for no process.
            if let Some(owner) = allocation.owner {
                let theirs = tally.of(self.devices[owner].space());
                let bytes = allocation.bytes();
                theirs.allocations += 1;
                theirs.allocated_bytes += bytes;
                theirs.demoted_bytes += if self.allocations.is_demoted(id) { bytes } else { 0 };
                theirs.offered_bytes += if allocation.offer().is_some() { bytes } else { 0 };
                let (all, demoted, offered) = (theirs.allocated_bytes, theirs.demoted_bytes, theirs.offered_bytes);
                debug_assert!(demoted <= all && offered <= all, "{demoted} and {offered} of {all} bytes");
                if let Some(at) = at {
                    theirs.segments[at].committed_bytes += here;
                }
            }
            let Some(at) = at else { continue };
            tally.segments[at].committed_bytes += here;
            if allocation.owner.is_none() {
                tally.apart[at].unowned_bytes += here;
            }
            // Offered content counts against no budget, even if lists name it.
            if allocation.holders.is_empty() || allocation.offer().is_some() {
                continue;
            }
            tally.segments[at].resident_bytes += here;
            let SegmentTally { committed_bytes, resident_bytes } = tally.segments[at];
            debug_assert!(
                resident_bytes <= committed_bytes,
                "{resident_bytes} of {committed_bytes} bytes are required"
            );
            let holders = allocation.holders.iter().map(|device| self.devices[*device].space());
            let spaces: BTreeSet<SpaceId> = holders.collect();
            // CAST: there are far fewer processes.
            tally.apart[at].repeated_bytes += (spaces.len() as u64 - 1) * here;
            for space in spaces {
                tally.of(space).segments[at].resident_bytes += here;
            }
        }
        tally
    }

    /// In which of the driver's segments content lies, by its place among them, and how many bytes.
    pub(crate) fn lies_in(&self, allocation: &Allocation<F>) -> (Option<usize>, u64) {
        let (segment, pages) = match &allocation.placement {
            Placement::None => (None, 0),
            Placement::Memory(segment, extents) => (Some(usize::from(segment.0) - 1), extents.pages()),
            Placement::System(Some((segment, run))) => (Some(usize::from(segment.0) - 1), run.count.0),
            Placement::System(None) => {
                (self.segments.drivers().iter().position(|segment| segment.is_aperture()), allocation.pages)
            }
        };
        (segment.filter(|at| *at < self.segments.drivers().len()), Pages(pages).bytes())
    }
}
