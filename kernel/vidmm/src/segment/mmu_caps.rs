//! The capability bits of a GPU's page tables (memory §4.2): which are honoured, which are refused at adapter start. An ignored bit would
//! break a promise without a word. `levels` checks levels and segments.

use ddi::{GpuMmuCaps, GpuMmuFlags, LegacyBehaviors, PageTableLevelDesc};
use wddm_types::PAGE_BYTES;

use super::error::SegmentError;
use crate::page_table::COARSE_PAGES;

/// Bits that ask the memory manager for something that it does not do.
const NOT_BUILT: [(GpuMmuFlags, &str); 1] = [
    // No document says what a cached table demands of its writer (memory §10.3).
    (GpuMmuFlags::CACHED_PAGE_TABLES, "CachedPageTables"),
];

/// Refuses reserved bits and bits that the kernel does not honour. 64-KB and large pages of system memory are offers, which VidMm need not
/// take: system memory is mapped by 4 KB always (memory §4.5). A leaf table of 64-KB entries lives where the other leaf tables do.
// spec: memory §4.2, memory §4.3
pub(crate) fn check_mmu_caps(mmu: &GpuMmuCaps, levels: &[PageTableLevelDesc]) -> Result<(), SegmentError> {
    let reserved = mmu.flags.difference(GpuMmuFlags::all()).bits();
    if reserved != 0 {
        return Err(SegmentError::ReservedMmuCaps(reserved));
    }
    let reserved = mmu.legacy.difference(LegacyBehaviors::all()).bits();
    if reserved != 0 {
        return Err(SegmentError::ReservedLegacyBehaviors(reserved));
    }
    if let Some((_, name)) = NOT_BUILT.iter().find(|(flag, _)| mmu.flags.contains(*flag)) {
        return Err(SegmentError::MmuCapNotBuilt(name));
    }
    let size = u64::from(mmu.leaf_table_64kb_bytes);
    let in_system = levels.first().is_some_and(|leaf| leaf.segment.is_system());
    if !size.is_multiple_of(PAGE_BYTES) || in_system && size > PAGE_BYTES {
        return Err(SegmentError::LeafTableSize);
    }
    // spec: memory §4.5, an entry of level 1 that holds both leaf tables needs one of 64-KB entries to hold
    let slots = levels.first().is_some_and(|leaf| leaf.index_bits >= COARSE_PAGES.trailing_zeros());
    if mmu.flags.contains(GpuMmuFlags::DUAL_PTE_SUPPORTED) && (size == 0 || !slots) {
        return Err(SegmentError::DualWithoutTables);
    }
    Ok(())
}
