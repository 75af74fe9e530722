//! Content that moves, and content that is filled, as the driver is asked for it (memory §3.2, §3.4): in segments, or by address where the
//! scratch area shows the part.

use ddi::{KmdAllocation, Mdl, PagingOp, TransferEnd, TransferFlags, VirtualDirection, VirtualTransferFlags};
use vidmm::{Direction, Form, Operation, ScratchSlot};
use wddm_types::PAGE_BYTES;

use super::{Asked, Names};

/// One sub-transfer, by address where the scratch area shows it.
pub(super) fn transfer<'a>(operation: &'a Operation, names: &Names<'_>, asked: Asked<'_>) -> PagingOp<'a> {
    let Operation::Transfer { allocation, allocation_offset, direction, .. } = operation else {
        unreachable!("asked for transfers only")
    };
    let Some(windows) = asked.windows else { return segment_transfer(operation, asked) };
    let direction = match direction {
        Direction::In => VirtualDirection::SystemToLocal,
        Direction::Out => VirtualDirection::LocalToSystem,
    };
    virtual_transfer((*allocation, *allocation_offset), names, asked, windows, direction)
}

/// One sub-transfer of a segment. SegmentAddress is the origin of the allocation where it has one, and the driver adds TransferOffset
/// (memory §10.2); a run of a scattered allocation has no origin but its own, and TransferOffset counts from there.
// spec: memory §3.2, memory §3.4
fn segment_transfer<'a>(operation: &'a Operation, asked: Asked<'_>) -> PagingOp<'a> {
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

/// One sub-transfer from place to place of a segment, by address where the scratch area shows it. Otherwise both ends are in the segment, so both get TransferOffset: relocated content has no
/// origin but its own.
// spec: memory §3.2, memory §3.4
pub(super) fn relocation<'a>(operation: &'a Operation, names: &Names<'_>, asked: Asked<'_>) -> PagingOp<'a> {
    let Operation::Relocate { allocation, allocation_offset, segment, from, to, .. } = operation else {
        unreachable!("asked for moves only")
    };
    if let Some(windows) = asked.windows {
        let from = (Some(*allocation), *allocation_offset);
        return virtual_transfer(from, names, asked, windows, VirtualDirection::LocalToLocal);
    }
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

/// The pattern, by address where the scratch area shows the place.
pub(super) fn fill<'a>(operation: &'a Operation, asked: Asked<'_>) -> PagingOp<'a> {
    let Operation::Fill { allocation, allocation_offset, pattern, segment, address, .. } = operation else {
        unreachable!("asked for fills only")
    };
    let part = asked.part;
    match asked.windows {
        None => PagingOp::Fill {
            allocation: *allocation,
            size_bytes: part.size_bytes,
            pattern: *pattern,
            segment: *segment,
            address: address + part.offset_bytes,
        },
        Some(windows) => PagingOp::VirtualFill {
            allocation: *allocation,
            allocation_offset: allocation_offset + part.offset_bytes,
            size_bytes: part.size_bytes,
            pattern: *pattern,
            destination: windows.first,
        },
    }
}
