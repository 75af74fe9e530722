//! Adapters of the IoMmu model (memory §4.1): the GPU uses the CPU's addresses of a process, and the platform's IOMMU
//! translates them. There are no page tables to be written, only pages of system memory that a process's addresses show
//! while they are resident; a request for an address of an allocation gets the one that it has. Lists, residency, eviction, sharing are
//! those of every adapter.

use ddi::{GpuMmuCaps, GpuMmuFlags};
use wddm_types::{CpuVa, GpuVa, PAGE_BYTES, Pages, SegmentId};

use crate::page_table::Geometry;
use crate::paging::Work;
use crate::policy::Policy;
use crate::segment::{self, MemoryLayout, SegmentError};
use crate::slab::{AllocationId, SpaceId};
use crate::space::{Protection, Shown};
use crate::vidmm::VidMm;
use crate::vidmm::address::mapping::{MapError, MapRequest, Target};

/// Bits of a process's CPU addresses: the half of the usual 48 that is the processes' own.
const ADDRESS_BITS: u32 = 47;

impl<F: Copy + Eq> VidMm<F> {
    /// Takes over the memory of an adapter of the IoMmu model.
    ///
    /// # Errors
    /// The rule that the description breaks (memory §1.13), one of them being that there is no memory but the system's;
    /// adapter start fails.
    // spec: memory §4.1, memory §1.6
    pub fn with_cpu_addresses(policy: Policy, layout: impl Into<MemoryLayout>) -> Result<Self, SegmentError> {
        let layout: MemoryLayout = layout.into();
        segment::check_segments(&layout)?;
        let numbered = (1u8..).zip(&layout.segments);
        if let Some((number, _)) = numbered.into_iter().find(|(_, segment)| !segment.is_aperture()) {
            return Err(SegmentError::MemoryBehindIoMmu(SegmentId(number)));
        }
        let none = Pages::ZERO;
        let policy = Policy { page_table_reserve: none, paging_table_reserve: none, paging_by_gpu_va: false, ..policy };
        // The abilities of the IOMMU's entries, expressed as those of a GPU's MMU.
        let mmu = GpuMmuCaps {
            flags: GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED | GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED,
            virtual_address_bits: ADDRESS_BITS,
            ..GpuMmuCaps::default()
        };
        VidMm::open(policy, &layout, mmu, &[], Geometry::of_platform(ADDRESS_BITS))
    }

    /// Gives an allocation its address in a process, if it has none there yet: all of it, for as long as the process has it.
    /// The work shows what is resident of it.
    ///
    /// # Errors
    /// `NoRoom`, which no process's memory comes to.
    // spec: memory §4.1
    pub fn give_cpu_address(
        &mut self,
        space: SpaceId,
        allocation: AllocationId,
        write: bool,
    ) -> Result<Option<Work<F>>, MapError> {
        assert!(self.spaces.is_platforms(), "only here a process's addresses are the GPU's");
        if self.cpu_address(space, allocation).is_some() {
            return Ok(None);
        }
        let pages = Pages(self.allocations[allocation].pages);
        let request = MapRequest {
            target: Target::Allocation { allocation, offset_pages: Pages::ZERO },
            size_pages: pages,
            base: None,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            protection: Protection { write, ..Protection::default() },
        };
        self.map_gpu_va(space, request).map(|(_, work)| work)
    }

    /// Where a process has an allocation, if it has it.
    pub fn cpu_address(&self, space: SpaceId, allocation: AllocationId) -> Option<CpuVa> {
        let mappings = &self.allocations[allocation].mappings;
        let of_space = mappings.range((space, 0)..=(space, u64::MAX));
        let whole = |first: &u64| {
            self.spaces[space].mapping_at(*first).is_some_and(|at| matches!(at.shown, Shown::Allocation(_, 0)))
        };
        let mut firsts = of_space.map(|(_, first)| *first).filter(whole);
        firsts.next().filter(|_| self.spaces.is_platforms()).map(|first| CpuVa(first * PAGE_BYTES))
    }

    /// Takes an address back that was given for a call that failed later.
    pub fn take_cpu_address(&mut self, space: SpaceId, allocation: AllocationId) -> Option<Work<F>> {
        let CpuVa(base) = self.cpu_address(space, allocation)?;
        let bytes = self.allocations[allocation].pages * PAGE_BYTES;
        self.free_gpu_va(space, GpuVa(base), bytes).expect("it was given whole")
    }
}
