//! What the builder of paging buffers asks of the paging process's addresses (memory §3.4, §4.7): its scratch area, its window onto page
//! tables. `space` has both.

use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use crate::operation::Operation;
use crate::page_table::OutOfTables;
use crate::slab::SpaceId;
use crate::space::ScratchSlot;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Makes the scratch area in the paging process's space. The operations make its tables, by the CPU at once; its
    /// entries are invalid.
    ///
    /// # Errors
    /// Scarcity: no room for its tables.
    // spec: memory §4.7
    pub fn create_scratch(&mut self, space: SpaceId) -> Result<(Vec<ScratchSlot>, Vec<Operation>), OutOfTables> {
        self.spaces.create_scratch(space)
    }

    /// Whether content is moved by address ([`Policy::paging_by_gpu_va`](crate::Policy::paging_by_gpu_va)).
    pub fn pages_by_gpu_va(&self) -> bool {
        self.policy.paging_by_gpu_va
    }

    /// The most that a window shows.
    pub fn scratch_window(&self) -> Pages {
        self.spaces.scratch_window()
    }

    /// Entries that show these pages, one behind the other, from the start of a window on; by the CPU at once.
    // spec: memory §3.4
    pub fn scratch_entries(&self, space: SpaceId, window: GpuVa, pages: &[(SegmentId, PageRun)]) -> Vec<Operation> {
        self.spaces.scratch_entries(space, window, pages)
    }

    /// Entries that show nothing any more.
    pub fn scratch_clear(&self, space: SpaceId, window: GpuVa, pages: Pages) -> Vec<Operation> {
        self.spaces.scratch_clear(space, window, pages)
    }

    /// Forgets the translations of a slot.
    pub fn scratch_flush(&self, space: SpaceId, slot: ScratchSlot) -> Operation {
        self.spaces.scratch_flush(space, slot)
    }

    /// Where the paging process sees the leaf table that translates an address of the scratch area; NULL where the driver did not
    /// ask for that.
    // spec: memory §3.4
    pub fn scratch_table_va(&self, window: GpuVa) -> GpuVa {
        self.spaces.scratch_table_va(window)
    }

    /// The address of a process's page table in the paging process; NULL where tables are not written by address.
    // spec: memory §4.2
    pub fn table_va(&self, table: PhysicalAddress) -> GpuVa {
        self.spaces.table_va(table)
    }

    /// The GPU address of a page of a segment.
    pub fn address_of(&self, segment: SegmentId, page: u64) -> u64 {
        self.segment(segment).descriptor.base_address + page * PAGE_BYTES
    }

    /// The page of a segment at a GPU address.
    pub fn page_at(&self, segment: SegmentId, address: u64) -> u64 {
        (address - self.segment(segment).descriptor.base_address) / PAGE_BYTES
    }
}
