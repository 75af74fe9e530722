//! The capability bits of a GPU's page tables (memory §4.2): which are honoured, which are refused at adapter start. A bit
//! that nobody looks at would be a promise broken in silence. It knows nothing of levels and segments: that is `levels`.

use ddi::GpuMmuFlags;

use super::error::SegmentError;

/// Bits that ask the memory manager for something that it does not do.
const NOT_BUILT: [(GpuMmuFlags, &str); 3] = [
    (GpuMmuFlags::PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE, "PageTableUpdateRequireAddressSpaceIdle"),
    (GpuMmuFlags::DUAL_PTE_SUPPORTED, "DualPteSupported"),
    // Nobody says what caching a table asks of whoever writes it (memory §10.3).
    (GpuMmuFlags::CACHED_PAGE_TABLES, "CachedPageTables"),
];

/// Every bit is one that there is, and one that is honoured. 64-KB and large pages of system memory are offers, which nobody
/// has to take: system memory is mapped by 4 KB always (memory §4.5).
// spec: memory §4.2
pub(crate) fn check_mmu_caps(flags: GpuMmuFlags) -> Result<(), SegmentError> {
    let reserved = flags.difference(GpuMmuFlags::all()).bits();
    if reserved != 0 {
        return Err(SegmentError::ReservedMmuCaps(reserved));
    }
    match NOT_BUILT.iter().find(|(flag, _)| flags.contains(*flag)) {
        Some((_, name)) => Err(SegmentError::MmuCapNotBuilt(name)),
        None => Ok(()),
    }
}
