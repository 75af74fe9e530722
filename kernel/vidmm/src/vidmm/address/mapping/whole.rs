//! Allocations where only the kernel has them mapped (memory §5.7): what a driver is told of the source and the destination of a
//! present lies at addresses that no client frees or maps anew. Such a mapping is made when it is first needed and stays as long as
//! the process has the allocation.

use wddm_types::{GpuVa, PAGE_BYTES, Pages};

use super::{MapError, MapRequest, Target};
use crate::slab::{AllocationId, SpaceId};
use crate::space::{Origin, Protection, Shown};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Where the kernel has all of an allocation mapped in a space, written through if `write` says so; on adapters of the IoMmu model
    /// where the process has it.
    // spec: memory §5.7
    pub fn whole_view(&self, space: SpaceId, allocation: AllocationId, write: bool) -> Option<GpuVa> {
        let known = &self.spaces[space];
        let fits = |first: &u64| {
            let mapping = known.mapping_at(*first).expect("an allocation knows its mappings");
            let range = known.range_of(wddm_types::PageRun { first: *first, count: Pages(mapping.pages) });
            let kernels = range.is_some_and(|(_, range)| range.origin == Origin::Kernel);
            let whole = mapping.shown == Shown::Allocation(allocation, 0)
                && mapping.pages == self.allocations[allocation].pages;
            whole && (kernels || self.spaces.is_platforms()) && (mapping.protection.write || !write)
        };
        let of_space = self.allocations[allocation].mappings.range((space, 0)..=(space, u64::MAX));
        of_space.map(|(_, first)| *first).find(fits).map(|first| GpuVa(first * PAGE_BYTES))
    }

    /// Whether the kernel has all of an allocation in a space, or may map it there as far as the allocation decides that.
    ///
    /// # Errors
    /// `UniqueProtection`, `PitchAligned`.
    // spec: memory §2.6, memory §4.11
    pub fn check_whole_view(&self, space: SpaceId, allocation: AllocationId, write: bool) -> Result<(), MapError> {
        match self.whole_view(space, allocation, write) {
            Some(_) => Ok(()),
            None => self.check_target(space, &self.whole_request(allocation, write)).map(drop),
        }
    }

    /// Where the process of a space has all of an allocation mapped: the lowest such address.
    // spec: sync §2.9
    pub fn whole_mapping(&self, space: SpaceId, allocation: AllocationId) -> Option<GpuVa> {
        let known = &self.spaces[space];
        let whole = |first: &u64| {
            let mapping = known.mapping_at(*first).expect("an allocation knows its mappings");
            let range = known.range_of(wddm_types::PageRun { first: *first, count: Pages(mapping.pages) });
            range.is_some_and(|(_, range)| range.origin != Origin::Kernel)
                && mapping.shown == Shown::Allocation(allocation, 0)
                && mapping.pages == self.allocations[allocation].pages
        };
        let of_space = self.allocations[allocation].mappings.range((space, 0)..=(space, u64::MAX));
        of_space.map(|(_, first)| *first).find(whole).map(|first| GpuVa(first * PAGE_BYTES))
    }

    /// The request that maps such a view.
    pub fn whole_request(&self, allocation: AllocationId, write: bool) -> MapRequest {
        MapRequest {
            target: Target::Whole(allocation),
            size_pages: Pages(self.allocations[allocation].pages),
            base: None,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            protection: Protection { write, ..Protection::default() },
        }
    }
}
