//! The memory manager's operations as the driver's (memory §3.4). The only file that knows both.

use std::collections::BTreeMap;

use ddi::{
    Adl, AllocNotice, CopyEntries, FenceResidency, KmdAllocation, KmdDevice, KmdProcess, Mdl, PageTableUpdateMode,
    PagingOp, Pte, TransferEnd, TransferFlags, VirtualDirection, VirtualTransferFlags,
};
use gpu_fence::FenceId;
use vidmm::{DeviceId, Direction, Form, Operation, Part, ScratchSlot, SpaceId, VidMm};
use wddm_types::{GpuVa, PAGE_BYTES};

use crate::owners::Owners;

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
    // PANIC: a space leaves the table only after the ring has got past every operation on it.
    let process = |space: &SpaceId| names.spaces[space];
    let table_va = |table| match mode {
        PageTableUpdateMode::GpuVirtual => names.vidmm.table_va(table),
        PageTableUpdateMode::CpuVirtual | PageTableUpdateMode::GpuPhysical => GpuVa::NULL,
    };
    match operation {
        Operation::Transfer { allocation, allocation_offset, direction, .. } => match asked.windows {
            None => transfer(operation, asked),
            Some(windows) => {
                let direction = match direction {
                    Direction::In => VirtualDirection::SystemToLocal,
                    Direction::Out => VirtualDirection::LocalToSystem,
                };
                virtual_transfer((*allocation, *allocation_offset), names, asked, windows, direction)
            }
        },
        Operation::Relocate { allocation, allocation_offset, .. } => match asked.windows {
            None => relocation(operation, asked),
            Some(windows) => virtual_transfer(
                (Some(*allocation), *allocation_offset),
                names,
                asked,
                windows,
                VirtualDirection::LocalToLocal,
            ),
        },
        Operation::Fill { allocation, allocation_offset, pattern, segment, address, .. } => match asked.windows {
            None => PagingOp::Fill {
                allocation: *allocation,
                size_bytes: asked.part.size_bytes,
                pattern: *pattern,
                segment: *segment,
                address: address + asked.part.offset_bytes,
            },
            Some(windows) => PagingOp::VirtualFill {
                allocation: *allocation,
                allocation_offset: allocation_offset + asked.part.offset_bytes,
                size_bytes: asked.part.size_bytes,
                pattern: *pattern,
                destination: windows.first,
            },
        },
        Operation::InitContext { allocation, segment, pages, cpu_visible } => PagingOp::InitContextResource {
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
        },
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
        Operation::UnmapAperture { device, allocation, segment, offset_in_pages, number_of_pages, dummy_page } => {
            PagingOp::UnmapApertureSegment {
                device: names.device(*device),
                allocation: *allocation,
                segment: *segment,
                offset_in_pages: *offset_in_pages,
                number_of_pages: *number_of_pages,
                dummy_page: *dummy_page,
            }
        }
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
            process: process(space),
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
            process: process(space),
            mode,
            first_va: *first_va,
        },
        Operation::SwitchRoot { .. } => unreachable!("the ring switches roots between buffers"),
        Operation::PlatformEntries { .. } => unreachable!("the platform's tables are no driver's"),
        Operation::CopyEntries { .. } => PagingOp::CopyPageTableEntries { ranges: asked.copies },
        Operation::FlushTlb { space, root, start, end } => {
            PagingOp::FlushTlb { root: *root, process: process(space), start: *start, end: *end }
        }
    }
}

/// One sub-transfer. SegmentAddress is the origin of the allocation where it has one, and the driver adds TransferOffset
/// (memory §10.2); a run of a scattered allocation has no origin but its own, and TransferOffset counts from there.
// spec: memory §3.2, memory §3.4
fn transfer<'a>(operation: &'a Operation, asked: Asked<'_>) -> PagingOp<'a> {
    let Operation::Transfer {
        allocation,
        allocation_offset,
        segment,
        address,
        contiguous,
        backing,
        through,
        direction,
        form,
        ..
    } = operation
    else {
        unreachable!("asked for transfers only")
    };
    let part = asked.part;
    // Through an aperture both ends get TransferOffset, and the window has no room before the range.
    let before = if *contiguous && through.is_none() { *allocation_offset } else { 0 };
    let here = TransferEnd::Segment { segment: *segment, address: address - before };
    let there = match through {
        None => TransferEnd::Mdl(Mdl { runs: backing }),
        Some((aperture, shown_at)) => TransferEnd::Segment { segment: *aperture, address: *shown_at },
    };
    let (source, destination) = match direction {
        Direction::In => (there, here),
        Direction::Out => (here, there),
    };
    let mut flags = TransferFlags::empty();
    flags.set(TransferFlags::TRANSFER_START, part.first);
    flags.set(TransferFlags::TRANSFER_END, part.last);
    flags.set(TransferFlags::ALLOCATION_IS_IDLE, asked.idle);
    flags.set(TransferFlags::SWIZZLE, *form == Form::Swizzle);
    flags.set(TransferFlags::UNSWIZZLE, *form == Form::Unswizzle);
    let (transfer_offset, size_bytes) = (before + part.offset_bytes, part.size_bytes);
    // The page list begins at the operation's first byte.
    let mdl_offset = part.offset_bytes / PAGE_BYTES;
    let allocation = *allocation;
    match form {
        // spec: memory §3.4, operation 7
        Form::Special(range) => PagingOp::SpecialLockTransfer {
            allocation: allocation.expect("what the CPU has locked is a client's"),
            transfer_offset,
            size_bytes,
            source,
            destination,
            flags,
            mdl_offset,
            swizzling_range: range.range,
            swizzling_range_data: range.private_driver_data,
        },
        Form::Kept | Form::Swizzle | Form::Unswizzle => {
            PagingOp::Transfer { allocation, transfer_offset, size_bytes, source, destination, flags, mdl_offset }
        }
    }
}

/// One sub-transfer from place to place of a segment. Both ends are in the segment, so both get TransferOffset: relocated content has no
/// origin but its own.
// spec: memory §3.2, memory §3.4
fn relocation<'a>(operation: &'a Operation, asked: Asked<'_>) -> PagingOp<'a> {
    let Operation::Relocate { allocation, segment, from, to, .. } = operation else {
        unreachable!("asked for moves only")
    };
    let part = asked.part;
    let mut flags = TransferFlags::empty();
    flags.set(TransferFlags::TRANSFER_START, part.first);
    flags.set(TransferFlags::TRANSFER_END, part.last);
    flags.set(TransferFlags::ALLOCATION_IS_IDLE, asked.idle);
    PagingOp::Transfer {
        allocation: Some(*allocation),
        transfer_offset: part.offset_bytes,
        size_bytes: part.size_bytes,
        source: TransferEnd::Segment { segment: *segment, address: *from },
        destination: TransferEnd::Segment { segment: *segment, address: *to },
        flags,
        mdl_offset: 0,
    }
}

/// Part of a transfer of `(allocation, offset)` between two windows of the scratch area, which is mapped by 4-KB pages.
fn virtual_transfer<'a>(
    (allocation, allocation_offset): (Option<KmdAllocation>, u64),
    names: &Names<'_>,
    asked: Asked<'_>,
    windows: ScratchSlot,
    direction: VirtualDirection,
) -> PagingOp<'a> {
    PagingOp::VirtualTransfer {
        allocation,
        allocation_offset: allocation_offset + asked.part.offset_bytes,
        size_bytes: asked.part.size_bytes,
        source: windows.first,
        destination: windows.second,
        // spec: memory §3.4, NULL without SourcePageTableVaInTransfer
        source_page_table: names.vidmm.scratch_table_va(windows.first),
        destination_page_table: names.vidmm.scratch_table_va(windows.second),
        direction,
        flags: VirtualTransferFlags::empty(),
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
