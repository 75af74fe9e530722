//! The page-table facet (memory §4): the format of the device's tables and entries, and the place of a context's root. `paging`
//! writes the tables.

use ddi::{
    DdiVersion, GpuMmuCaps, GpuMmuFlags, GpuVirtualAddressing, KmdContext, LegacyBehaviors, PageTableLevelDesc, Pte,
    PteFlags, RootPageTableSize,
};
use softgpu_spec::bus::PAGE_BYTES;
use softgpu_spec::page_table::{self, Shape};
use wddm_types::PhysicalAddress;

use crate::driver::SoftGpuKmd;
use crate::packet::PacketTable;
use crate::segments::Geometry;

impl GpuVirtualAddressing for SoftGpuKmd {
    // spec: memory §4.2
    fn gpu_mmu_caps(&self) -> GpuMmuCaps {
        let shape = self.shape();
        let mut chosen = GpuMmuFlags::empty();
        chosen.set(GpuMmuFlags::LARGE_PAGE_SUPPORTED, self.config.large_pages && shape.has_large_pages());
        chosen.set(GpuMmuFlags::PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE, self.config.idle_spaces);
        // Dual entries have a table of 64-KB entries to name.
        chosen.set(GpuMmuFlags::DUAL_PTE_SUPPORTED, shape.has_dual_entries());
        // spec: memory §4.2: a driver of an older version does not know the bit, and the kernel flushes more often
        let says_not_cached = self.config.ddi_version() >= DdiVersion::WDDM_2_6;
        chosen.set(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED, says_not_cached);
        let coarse = shape.has_dual_entries() || self.config.leaf_64kb && shape.has_64kb_leaves();
        GpuMmuCaps {
            flags: chosen
                | GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED
                | GpuMmuFlags::ZERO_IN_PTE_SUPPORTED
                | GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED,
            update_mode: self.config.update_mode,
            virtual_address_bits: shape.va_bits(),
            page_table_levels: shape.levels(),
            // CAST: a few pages.
            leaf_table_64kb_bytes: if coarse { shape.leaf_64kb_bytes() as u32 } else { 0 },
            legacy: if self.config.source_page_table_va {
                LegacyBehaviors::SOURCE_PAGE_TABLE_VA_IN_TRANSFER
            } else {
                LegacyBehaviors::empty()
            },
        }
    }

    // spec: memory §4.3
    fn page_table_level(&self, level: u32) -> PageTableLevelDesc {
        let shape = self.shape();
        assert!(level < shape.levels(), "the kernel asks for the levels that there are");
        let geometry = self.geometry.expect("the device is started before it is asked");
        let [segment, paging_process_segment] = geometry.tables(&self.config, level);
        if shape.levels() == page_table::LEVELS_MIN && level == shape.root_level() {
            // The kernel asks for the length of each root separately.
            let alignment_bytes = PAGE_BYTES as u32; // CAST: a page.
            let segments = PageTableLevelDesc { segment, paging_process_segment, ..Default::default() };
            return PageTableLevelDesc { alignment_bytes, ..segments };
        }
        PageTableLevelDesc {
            index_bits: shape.index_bits(level),
            segment,
            paging_process_segment,
            // CAST: at most 2^20 entries of 8 bytes.
            size_bytes: shape.table_bytes(level) as u32,
            alignment_bytes: PAGE_BYTES as u32,
        }
    }

    // spec: memory §4.6
    fn root_page_table_size(&mut self, entries: u32) -> Option<RootPageTableSize> {
        let shape = self.shape();
        let segments = self.geometry?.tables(&self.config, shape.root_level());
        let local = segments.iter().any(|segment| !segment.is_system());
        let page = if local { self.config.segment_page_bytes } else { PAGE_BYTES };
        // The device counts the pages of a root, and memory is handed out in pages of its segment.
        let bytes = (u64::from(entries) * page_table::ENTRY_BYTES).next_multiple_of(page);
        let full = shape.entries(shape.root_level());
        let fits = u32::try_from(bytes / page_table::ENTRY_BYTES).map_or(full, |entries| entries.min(full));
        (shape.levels() == page_table::LEVELS_MIN).then_some(RootPageTableSize { entries: fits, bytes })
    }

    fn set_root_page_table(&mut self, context: KmdContext, root: PhysicalAddress, entries: u32) {
        let geometry = self.geometry.expect("contexts exist while the device runs");
        let shape = geometry.shape;
        let root = geometry.table_address(root).expect("the root lies in the segment that its level names");
        let root = match shape.levels() {
            page_table::LEVELS_MIN => page_table::root::short(root, u64::from(entries)),
            _ => {
                assert_eq!(entries, shape.entries(shape.root_level()), "the root has a fixed size");
                root
            }
        };
        if PacketTable::owns(context) {
            self.set_packet_root(context, root);
        } else {
            self.set_root(context, root);
        }
    }
}

impl SoftGpuKmd {
    /// How the device cuts addresses.
    fn shape(&self) -> Shape {
        self.geometry.expect("the device is started before it is asked").shape
    }
}

/// The device's form of an entry, or the reason why it has none.
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
    if pte.flags.contains(PteFlags::LEAF_64KB) {
        entry |= page_table::LEAF_64KB;
    }
    Ok(entry)
}
