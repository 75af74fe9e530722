//! Adapters without GPU virtual addresses (memory §5.6, first row): their engines name memory by physical address only. So
//! each allocation lies in one piece, and has a place in the aperture when it is in system memory; spaces exist, because
//! processes do, and have no addresses in them. Lists, residency, eviction are those of every adapter.

use ddi::{AllocationFlags, AllocationInfo, GpuMmuCaps};
use wddm_types::Pages;

use crate::page_table::Geometry;
use crate::policy::Policy;
use crate::segment::{self, MemoryLayout, SegmentDescription, SegmentError};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Takes over the memory of an adapter that translates no addresses.
    ///
    /// # Errors
    /// The rule that the description breaks (memory §1.13); adapter start fails.
    // spec: memory §5.6, memory §1.6
    pub fn without_addresses(policy: Policy, layout: impl Into<MemoryLayout>) -> Result<Self, SegmentError> {
        let layout: MemoryLayout = layout.into();
        segment::check_segments(&layout)?;
        if !layout.segments.iter().any(SegmentDescription::is_aperture) {
            return Err(SegmentError::NoAperture);
        }
        let none = Pages::ZERO;
        let policy = Policy { page_table_reserve: none, paging_table_reserve: none, paging_by_gpu_va: false, ..policy };
        let mmu = GpuMmuCaps::default();
        VidMm::open(policy, &layout, mmu, &[], Geometry::new(&[], &mmu, &[]))
    }

    /// An allocation's description by a driver or a client, completed by the flags that this adapter implies.
    pub(crate) fn by_physical_address(&self, mut info: AllocationInfo) -> AllocationInfo {
        if !self.spaces.translates() {
            info.flags |= AllocationFlags::ACCESSED_PHYSICALLY;
        }
        info
    }
}
