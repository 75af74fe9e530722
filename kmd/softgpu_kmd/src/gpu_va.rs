//! The page-table facet (memory §4): what the device's tables are like, where a context's root lies, and how an entry
//! looks. The tables themselves are written in `paging`.

use ddi::{
    GpuMmuCaps, GpuMmuFlags, GpuVirtualAddressing, KmdContext, PageTableLevelDesc, PageTableUpdateMode, Pte, PteFlags,
};
use softgpu_spec::page_table;
use wddm_types::{PhysicalAddress, SegmentId};

use crate::driver::SoftGpuKmd;
use crate::packet::PacketTable;
use crate::segments::Geometry;

impl GpuVirtualAddressing for SoftGpuKmd {
    // spec: memory §4.2
    fn gpu_mmu_caps(&self) -> GpuMmuCaps {
        let mut large = GpuMmuFlags::empty();
        large.set(GpuMmuFlags::LARGE_PAGE_SUPPORTED, self.config.large_pages);
        GpuMmuCaps {
            flags: large
                | GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED
                | GpuMmuFlags::ZERO_IN_PTE_SUPPORTED
                | GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED
                | GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED,
            update_mode: PageTableUpdateMode::GpuPhysical,
            virtual_address_bits: page_table::VA_BITS,
            page_table_levels: page_table::LEVELS,
        }
    }

    // spec: memory §4.3
    fn page_table_level(&self, level: u32) -> PageTableLevelDesc {
        assert!(level < page_table::LEVELS, "the kernel asks for the levels that there are");
        // 0 where the device has no memory segment: tables in system memory
        let tables = self.geometry.map_or(SegmentId::SYSTEM, |geometry| geometry.tables());
        PageTableLevelDesc {
            index_bits: page_table::INDEX_BITS,
            segment: tables,
            paging_process_segment: tables,
            // CAST: a page.
            size_bytes: page_table::TABLE_BYTES as u32,
            alignment_bytes: page_table::TABLE_BYTES as u32,
        }
    }

    fn set_root_page_table(&mut self, context: KmdContext, root: PhysicalAddress, entries: u32) {
        assert_eq!(entries, page_table::ENTRIES, "the root has a fixed size");
        let geometry = self.geometry.expect("contexts exist while the device runs");
        let root = geometry.table_address(root).expect("the root lies in the segment that its level names");
        if PacketTable::owns(context) {
            self.set_packet_root(context, root);
        } else {
            self.set_root(context, root);
        }
    }
}

/// The device's form of an entry, or why it has none.
// spec: memory §4.4
pub(crate) fn encode(geometry: &Geometry, pte: Pte) -> Result<u64, &'static str> {
    if !pte.flags.contains(PteFlags::VALID) {
        return Ok(0);
    }
    if pte.flags.contains(PteFlags::NO_EXECUTE) {
        return Err("an entry forbids execution, which the caps do not offer");
    }
    if pte.flags.contains(PteFlags::ZERO) {
        return Ok(page_table::VALID | page_table::ZERO);
    }
    let bus = geometry.bus_of_page(pte.address).ok_or("an entry names a page outside every segment")?;
    if bus & !page_table::ADDRESS != 0 {
        return Err("an entry's address has more bits than the device's entries");
    }
    let mut entry = bus | page_table::VALID;
    if pte.flags.contains(PteFlags::READ_ONLY) {
        entry |= page_table::READ_ONLY;
    }
    if pte.flags.contains(PteFlags::CACHE_COHERENT) {
        entry |= page_table::COHERENT;
    }
    if pte.flags.contains(PteFlags::LARGE_PAGE) {
        entry |= page_table::LARGE;
    }
    Ok(entry)
}
