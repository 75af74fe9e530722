//! The rules of a driver's capability bits at adapter start: they agree with its version, with each other and with its
//! facets (memory §1.13, §1.14). A lie fails the start.

use ddi::{AdapterCaps, DdiVersion, DriverModel, GpuMmuFlags, PageTableUpdateMode, SegmentFlags, VidMmCaps};
use vidmm::{Policy, SegmentDescription};
use wddm_types::{PAGE_BYTES, PageRun, Pages};

use super::StartError;
use crate::driver::{EntryPoints, Reported};

/// The memory manager's capabilities as far as the driver says them, with those that its facets tell.
pub fn memory_caps(miniport: &EntryPoints<'_>, caps: &AdapterCaps) -> VidMmCaps {
    let mut memory = caps.memory;
    if miniport.facets().gpu_va {
        memory |= VidMmCaps::VIRTUAL_ADDRESSING_SUPPORTED | VidMmCaps::GPU_MMU_SUPPORTED;
    }
    memory
}

/// Addresses of the paging process: as many as the driver says, else as many as a quarter of the largest memory segment has
/// pages, and not too few for the kernel's own.
// spec: memory §4.7
pub fn paging_space(miniport: &EntryPoints<'_>, caps: &AdapterCaps, segments: &[SegmentDescription]) -> Pages {
    if miniport.facets().gpu_va
        && let Ok(megabytes @ 1..) = miniport.paging_process_gpu_va_mb()
    {
        return Pages::holding(u64::from(megabytes) << 20);
    }
    let memory = segments.iter().filter(|segment| !segment.is_aperture());
    let largest = memory.map(|segment| segment.size_bytes).max().unwrap_or(0);
    // Its fence words, paging buffers and scratch area are far less.
    let least = Policy::new(PageRun { first: 0, count: Pages::ZERO }).paging_space;
    // A driver may want those words from some address on.
    let fences = miniport.facets().native_fences.filter(|_| caps.native_gpu_fence);
    let before = Pages::holding(fences.map_or(0, |fences| fences.minimum_address.0));
    Pages::holding(largest / 4).max(Pages(least.0.saturating_add(before.0)))
}

/// Frames for the paging process's own tables: enough that all its addresses can have leaf tables, where that is no more than an eighth
/// of the reserve; at least some, what the scratch area takes beside where leaf tables are small, and what a window onto all others takes
/// where they are written by address (an entry of 8 bytes for each page).
// spec: memory §4.7
pub fn paging_tables(reported: &Reported, paging_space: Pages, reserve: Pages) -> Pages {
    let (mmu, leaf) = (&reported.mmu, reported.levels.first());
    let policy = Policy::new(PageRun { first: 0, count: Pages::ZERO });
    let (usual, scratch) =
        (policy.paging_table_reserve.0, u64::from(policy.scratch_slots) * 2 * policy.scratch_window.0);
    let tables_for = |pages: u64| leaf.map_or(0, |leaf| pages >> leaf.index_bits.min(63));
    // Fence words of all processes stand there, a page or two of a shareable fence: their limit is memory, not the room for tables.
    let leaf_pages = leaf.map_or(0, |leaf| u64::from(leaf.size_bytes).div_ceil(PAGE_BYTES));
    let whole = tables_for(paging_space.0).saturating_mul(leaf_pages).min(reserve.0 / 8);
    // Leaf tables of 512 entries are the usual ones. A root that grows takes up to a quarter of all.
    let small = tables_for(scratch).saturating_sub(scratch / 512) * 3 / 2;
    let window = if mmu.update_mode == PageTableUpdateMode::GpuVirtual { reserve.0 / 128 } else { 0 };
    let more = usual.max(whole) - usual + small + window;
    if more == 0 { Pages(usual) } else { Pages(usual + more).min(Pages(reserve.0.saturating_sub(1))) }
}

/// All rules. `system_bytes`: the system memory of this computer.
// spec: memory §1.13, memory §1.14, memory §4.1, memory §10.2
pub fn check(miniport: &EntryPoints<'_>, caps: &AdapterCaps, system_bytes: u64) -> Result<(), StartError> {
    use VidMmCaps as C;
    let told = caps.memory;
    let memory = memory_caps(miniport, caps);
    let addresses = miniport.facets().gpu_va;
    let ranges = miniport.facets().swizzling;
    let needs = |bit: C, needed: C| !told.contains(bit) || memory.contains(needed);
    let rules = [
        (caps.ddi_version.model() == caps.driver_model, "the driver's version belongs to its generation"),
        (
            caps.driver_model == DriverModel::Wddm2 || !memory.contains(C::VIRTUAL_ADDRESSING_SUPPORTED),
            "GPU virtual addresses are WDDM 2",
        ),
        (caps.driver_model == DriverModel::Wddm1 || !ranges, "swizzling ranges are WDDM 1"),
        (!told.contains(C::GPU_MMU_SUPPORTED) || addresses, "GpuMmuSupported needs the entry points of GPU addresses"),
        (!caps.paging_by_gpu_va || addresses, "paging by GPU virtual address needs the entry points of GPU addresses"),
        (
            !memory.contains(C::VIRTUAL_ADDRESSING_SUPPORTED)
                || memory.intersects(C::GPU_MMU_SUPPORTED | C::IO_MMU_SUPPORTED),
            "VirtualAddressingSupported needs GpuMmuSupported or IoMmuSupported",
        ),
        (
            !memory.contains(C::GPU_MMU_SUPPORTED | C::IO_MMU_SUPPORTED),
            "GpuMmuSupported and IoMmuSupported exclude each other",
        ),
        (
            needs(C::IO_MMU_SUPPORTED, C::VIRTUAL_ADDRESSING_SUPPORTED),
            "IoMmuSupported needs VirtualAddressingSupported",
        ),
        (
            !memory.intersects(C::DEDICATED_PAGING_ENGINE | C::PAGING_ENGINE_CAN_SWIZZLE),
            "DedicatedPagingEngine and PagingEngineCanSwizzle are 0",
        ),
        (
            needs(C::CROSS_ADAPTER_RESOURCE_TEXTURE, C::CROSS_ADAPTER_RESOURCE),
            "CrossAdapterResourceTexture needs CrossAdapterResource",
        ),
        (
            needs(C::CROSS_ADAPTER_RESOURCE_SCANOUT, C::CROSS_ADAPTER_RESOURCE | C::CROSS_ADAPTER_RESOURCE_TEXTURE),
            "CrossAdapterResourceScanout needs CrossAdapterResource and CrossAdapterResourceTexture",
        ),
        (
            !told.contains(C::MAP_APERTURE2_SUPPORTED) || caps.ddi_version >= DdiVersion::WDDM_2_9,
            "MapAperture2Supported exists from WDDM 2.9 on",
        ),
        (VidMmCaps::all().contains(told), "reserved bits of the memory capabilities are 0"),
        (
            caps.highest_acceptable_address >= system_bytes.saturating_sub(1),
            "HighestAcceptableAddress is not below the computer's memory",
        ),
    ];
    if let Some((_, rule)) = rules.iter().find(|(kept, _)| !kept) {
        return Err(StartError::Rule(rule));
    }
    if told.contains(C::IO_MMU_SECURE_MODE_REQUIRED) {
        return Err(StartError::NotSupported("IoMmuSecureModeRequired: nothing here isolates this GPU"));
    }
    Ok(())
}

/// On a coherent platform (x86) every GPU is coherent with the CPU's caches, through page tables (`mmu`, if it has them) and through
/// apertures: programs there maintain nothing.
// spec: memory §6.7
pub(super) fn check_coherency(segments: &[SegmentDescription], mmu: Option<GpuMmuFlags>) -> Result<(), StartError> {
    let snoops = GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED;
    if mmu.is_some_and(|flags| !flags.contains(snoops)) {
        return Err(StartError::Rule(
            "page tables on a coherent platform need CacheCoherentMemorySupported: every GPU there snoops the CPU's caches",
        ));
    }
    let mut apertures = segments.iter().filter(|segment| segment.is_aperture());
    match apertures.any(|segment| !segment.flags.contains(SegmentFlags::CACHE_COHERENT)) {
        true => Err(StartError::Rule(
            "an aperture on a coherent platform needs CacheCoherent: every GPU there snoops the CPU's caches",
        )),
        false => Ok(()),
    }
}

/// Capability bits of page tables that came with later versions.
const MMU_SINCE: [(GpuMmuFlags, DdiVersion, &str); 4] = [
    (
        GpuMmuFlags::ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS,
        DdiVersion::WDDM_2_1,
        "AllowNonAlignedLargePageAddress exists from WDDM 2.1 on",
    ),
    (GpuMmuFlags::SYS_MEM_64KB_PAGE_SUPPORTED, DdiVersion::WDDM_2_1, "SysMem64KBPageSupported exists from WDDM 2.1 on"),
    (
        GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED,
        DdiVersion::WDDM_2_6,
        "InvalidTlbEntriesNotCached exists from WDDM 2.6 on",
    ),
    (
        GpuMmuFlags::SYS_MEM_LARGE_PAGE_SUPPORTED,
        DdiVersion::WDDM_2_9,
        "SysMemLargePageSupported exists from WDDM 2.9 on",
    ),
];

/// The driver's version decides which bits of page tables there are; the memory manager gives them their meaning.
// spec: memory §4.2
pub fn check_mmu(flags: GpuMmuFlags, version: DdiVersion) -> Result<(), StartError> {
    match MMU_SINCE.iter().find(|(flag, since, _)| flags.contains(*flag) && version < *since) {
        Some((_, _, rule)) => Err(StartError::Rule(rule)),
        None => Ok(()),
    }
}
