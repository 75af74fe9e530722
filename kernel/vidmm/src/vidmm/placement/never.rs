//! Lists that fit no memory however empty it is: no trim helps them, and a caller that trims and tries again would do so for ever.
//! Asked when MakeResident was refused; it plans nothing.

use std::collections::BTreeSet;

use wddm_types::{Pages, SegmentId};

use crate::allocation::Placement;
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

/// Why a list never fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverFits {
    /// Bytes of the list that can lie in certain segments only.
    pub wanted_bytes: u64,
    /// The bytes that these segments have together.
    pub most_bytes: u64,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Whether these allocations would not fit together if memory held nothing else. `None`: they would, or it takes their
    /// alignment to tell.
    // spec: memory §10.1 row 11
    pub fn never_fits(&self, list: &[AllocationId]) -> Option<NeverFits> {
        let distinct: BTreeSet<AllocationId> = list.iter().copied().collect();
        let places: Vec<(AllocationId, BTreeSet<SegmentId>)> =
            distinct.into_iter().map(|id| (id, self.places_of(id))).collect();
        let sets: BTreeSet<&BTreeSet<SegmentId>> = places.iter().map(|(_, of)| of).collect();
        sets.into_iter().find_map(|set| {
            let within = places.iter().filter(|(_, of)| of.is_subset(set));
            let pages: u64 = within.map(|(id, of)| self.least_pages(*id, of)).sum();
            let most_bytes = set.iter().map(|segment| self.capacity_bytes(*segment)).sum();
            let wanted_bytes = Pages(pages).bytes();
            (wanted_bytes > most_bytes).then_some(NeverFits { wanted_bytes, most_bytes })
        })
    }

    /// Where an allocation may lie: also where it lies already.
    fn places_of(&self, id: AllocationId) -> BTreeSet<SegmentId> {
        let allocation = &self.allocations[id];
        let present = match &allocation.placement {
            Placement::Memory(segment, _) => Some(*segment),
            _ => None,
        };
        allocation.candidates().chain(present).collect()
    }

    fn least_pages(&self, id: AllocationId, places: &BTreeSet<SegmentId>) -> u64 {
        let allocation = &self.allocations[id];
        places.iter().map(|segment| allocation.pages_in(self.segment(*segment))).min().unwrap_or(0)
    }
}
