//! Frames and spots by name: out of an entry, and in a complaint.

use super::*;

/// The frame that an entry names.
pub(super) fn named(entry: Pte) -> Option<Frame> {
    let names = entry.flags.contains(PteFlags::VALID) && !entry.flags.contains(PteFlags::ZERO);
    names.then(|| frame(entry.address))
}

pub(super) fn frame(address: PhysicalAddress) -> Frame {
    (address.segment.0, address.offset / PAGE_BYTES)
}

pub(super) fn from(process: KmdProcess) -> Spot {
    (process, 0)
}

pub(super) fn lead_together(spot: Spot, other: Spot, frame: Frame) -> Broken {
    format!("{} names {} while {} leads there too", name(spot), at(frame), name(other))
}

pub(super) fn name((process, page): Spot) -> String {
    format!("process {} at {:#x}", process.0, page * PAGE_BYTES)
}

pub(super) fn at((segment, page): Frame) -> String {
    if segment == 0 { format!("system page {page}") } else { format!("frame {page} of segment {segment}") }
}
