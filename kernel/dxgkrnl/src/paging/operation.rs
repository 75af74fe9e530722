//! The memory manager's operations as the driver's (memory §3.4). Only this room knows both; `content` has what moves and
//! fills content.

mod content;

use std::collections::BTreeMap;

use ddi::{
    Adl, AllocNotice, CopyEntries, FenceResidency, KmdDevice, KmdProcess, Mdl, PageTableUpdateMode, PagingOp, Pte,
    TransferEnd,
};
use gpu_fence::FenceId;
use vidmm::{DeviceId, Operation, Part, ScratchSlot, SpaceId, VidMm};
use wddm_types::{GpuVa, PAGE_BYTES};

use crate::owners::Owners;
use content::{fill, relocation, transfer};

/// The driver's handles of what operations name.
pub struct Names<'a> {
    /// Of processes, by their space.
    pub spaces: &'a BTreeMap<SpaceId, KmdProcess>,
    /// Of devices.
    pub owners: &'a Owners,
    /// Addresses of tables.
    pub vidmm: &'a VidMm<FenceId>,
}

impl Names<'_> {
    /// A process.
    fn process(&self, space: SpaceId) -> KmdProcess {
        // PANIC: a space leaves the table only after the ring has got past every operation on it.
        self.spaces[&space]
    }

    /// A device; `None` when it is gone already and only its memory is still under way.
    fn device(&self, id: Option<DeviceId>) -> Option<KmdDevice> {
        let id = id?;
        self.owners.device_of(id).map(|number| self.owners.kmd_of(number))
    }
}

/// Which part of an operation the driver is asked for, and what it is told of the allocation.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub part: Part,
    /// The driver said that the allocation is busy, and it has been waited for.
    pub idle: bool,
    /// Where the scratch area shows the part, if it is reached by address.
    pub windows: Option<ScratchSlot>,
    /// The driver takes aperture maps as device pages; these are the pages of a map that is not one run.
    pub device_pages: Option<&'a [u64]>,
    /// The entries that a copy of entries copies, in those windows.
    pub copies: &'a [CopyEntries],
    /// Of storage of fences that moves: which they are, and where.
    pub fences: &'a [FenceResidency],
}

/// The memory manager's operation as the driver's.
pub(super) fn as_paging_op<'a>(
    operation: &'a Operation,
    names: &Names<'_>,
    mode: PageTableUpdateMode,
    asked: Asked<'a>,
) -> PagingOp<'a> {
    match operation {
        Operation::Transfer { .. } => transfer(operation, names, asked),
        Operation::Relocate { .. } => relocation(operation, names, asked),
        Operation::Fill { .. } => fill(operation, asked),
        Operation::InitContext { .. } => first_content(operation, names, asked),
        Operation::UpdateContext { pages, private_data, .. } => PagingOp::UpdateContextAllocation {
            va: asked.windows.map_or(GpuVa::NULL, |windows| windows.first),
            size_bytes: pages.iter().map(|run| run.count.bytes()).sum(),
            private_data,
        },
        Operation::NotifyEviction { allocation, .. } => PagingOp::NotifyAlloc {
            allocation: *allocation,
            process: None,
            notice: AllocNotice::Eviction,
            offset_bytes: asked.part.offset_bytes,
            size_bytes: asked.part.size_bytes,
            va: asked.windows.map_or(GpuVa::NULL, |windows| windows.first),
        },
        Operation::Discard { allocation, segment, address } => PagingOp::DiscardContent {
            allocation: *allocation,
            allocation_is_idle: asked.idle,
            segment: *segment,
            address: *address,
        },
        Operation::NotifyResidency { allocation, address, resident } => {
            PagingOp::NotifyResidency { allocation: *allocation, address: *address, resident: *resident }
        }
        Operation::NotifyFenceResidency { .. } => PagingOp::NotifyFenceResidency { fences: asked.fences },
        Operation::MapAperture { .. } => map_aperture(operation, names, asked),
        Operation::UnmapAperture { .. } => unmap_aperture(operation, names),
        Operation::UpdatePageTable { .. } | Operation::EvictTable { .. } => page_table(operation, names, mode),
        Operation::SwitchRoot { .. } => unreachable!("the ring switches roots between buffers"),
        Operation::PlatformEntries { .. } => unreachable!("the platform's tables are no driver's"),
        Operation::CopyEntries { .. } => PagingOp::CopyPageTableEntries { ranges: asked.copies },
        Operation::FlushTlb { space, root, start, end } => {
            PagingOp::FlushTlb { root: *root, process: names.process(*space), start: *start, end: *end }
        }
    }
}

/// The first content of a context allocation.
fn first_content<'a>(operation: &'a Operation, names: &Names<'_>, asked: Asked<'_>) -> PagingOp<'a> {
    let Operation::InitContext { allocation, segment, pages, cpu_visible } = operation else {
        unreachable!("asked for first content only")
    };
    PagingOp::InitContextResource {
        allocation: *allocation,
        destination: if segment.is_system() {
            TransferEnd::Mdl(Mdl { runs: pages })
        } else {
            // Of content in several runs only the address in the paging process names all.
            TransferEnd::Segment { segment: *segment, address: names.vidmm.address_of(*segment, pages[0].first) }
        },
        cpu_address: match pages.as_slice() {
            [run] if *cpu_visible => Some(run.first * PAGE_BYTES),
            _ => None,
        },
        va: asked.windows.map_or(GpuVa::NULL, |windows| windows.first),
    }
}

/// Entries of a page table, or the whole of one that goes.
fn page_table<'a>(operation: &'a Operation, names: &Names<'_>, mode: PageTableUpdateMode) -> PagingOp<'a> {
    let table_va = |table| match mode {
        PageTableUpdateMode::GpuVirtual => names.vidmm.table_va(table),
        PageTableUpdateMode::CpuVirtual | PageTableUpdateMode::GpuPhysical => GpuVa::NULL,
    };
    match operation {
        Operation::UpdatePageTable {
            space,
            level,
            table,
            start_index,
            count,
            first,
            first_64kb,
            repeat,
            initial,
            use_64kb,
            first_va,
            behind,
            driver_protection,
            native_fence,
        } => PagingOp::UpdatePageTable {
            allocation: behind.map(|(allocation, _)| allocation),
            allocation_offset: behind.map_or(0, |(_, offset)| offset),
            driver_protection: *driver_protection,
            notify_eviction: false,
            use_64kb_pages: *use_64kb,
            native_fence: *native_fence,
            first_64kb: *first_64kb,
            table_va: table_va(*table),
            level: *level,
            table: *table,
            start_index: *start_index,
            count: *count,
            first: *first,
            repeat: *repeat,
            initial: *initial,
            process: names.process(*space),
            mode,
            first_va: *first_va,
        },
        // spec: memory §4.6
        Operation::EvictTable { space, level, table, count, use_64kb, halves, first_va } => PagingOp::UpdatePageTable {
            allocation: None,
            allocation_offset: 0,
            driver_protection: 0,
            notify_eviction: true,
            use_64kb_pages: *use_64kb,
            native_fence: false,
            first_64kb: halves.then_some(Pte::INVALID),
            table_va: table_va(*table),
            level: *level,
            table: *table,
            start_index: 0,
            count: *count,
            first: Pte::INVALID,
            repeat: true,
            initial: false,
            process: names.process(*space),
            mode,
            first_va: *first_va,
        },
        _ => unreachable!("asked for page tables only"),
    }
}

/// Operation 5, or 17 for a driver that understands it: the same pages as a list of device pages.
// spec: memory §3.3, memory §3.4
fn map_aperture<'a>(operation: &'a Operation, names: &Names<'_>, asked: Asked<'a>) -> PagingOp<'a> {
    let Operation::MapAperture { device, allocation, segment, offset_in_pages, backing, cache_coherent, cpu_visible } =
        operation
    else {
        unreachable!("asked for maps only")
    };
    let number_of_pages = backing.iter().map(|run| run.count.0).sum();
    let (device, allocation, segment) = (names.device(*device), *allocation, *segment);
    let (offset_in_pages, cache_coherent) = (*offset_in_pages, *cache_coherent);
    let adl = match (asked.device_pages, backing.as_slice()) {
        (None, _) => {
            return PagingOp::MapApertureSegment {
                device,
                allocation,
                segment,
                offset_in_pages,
                number_of_pages,
                mdl: Mdl { runs: backing },
                mdl_offset: 0,
                cache_coherent,
            };
        }
        (Some(_), [run]) => Adl::Contiguous(*run),
        (Some(pages), _) => Adl::Pages(pages),
    };
    PagingOp::MapApertureSegment2 {
        device,
        allocation,
        segment,
        offset_in_pages,
        number_of_pages,
        adl,
        adl_offset: 0,
        cache_coherent,
        cpu_visible_address: cpu_visible.then(|| backing[0].first * PAGE_BYTES),
    }
}

fn unmap_aperture<'a>(operation: &'a Operation, names: &Names<'_>) -> PagingOp<'a> {
    let Operation::UnmapAperture { device, allocation, segment, offset_in_pages, number_of_pages, dummy_page } =
        operation
    else {
        unreachable!("asked for unmaps only")
    };
    PagingOp::UnmapApertureSegment {
        device: names.device(*device),
        allocation: *allocation,
        segment: *segment,
        offset_in_pages: *offset_in_pages,
        number_of_pages: *number_of_pages,
        dummy_page: *dummy_page,
    }
}

/// The pages of a map as single numbers, for operation 17.
pub(super) fn device_pages(operation: &Operation) -> Vec<u64> {
    match operation {
        Operation::MapAperture { backing, .. } if backing.len() > 1 => {
            backing.iter().flat_map(|run| run.first..run.end()).collect()
        }
        _ => Vec::new(),
    }
}

/// The entries that a copy of entries copies, when the scratch area shows its tables.
// spec: memory §3.4, operation 14
pub(super) fn copied_entries(operation: &Operation, windows: ScratchSlot) -> Option<CopyEntries> {
    match operation {
        Operation::CopyEntries { source_start, target_start, count, .. } => Some(CopyEntries {
            count: *count,
            source_table: windows.first,
            target_table: windows.second,
            source_start: *source_start,
            target_start: *target_start,
        }),
        _ => None,
    }
}
