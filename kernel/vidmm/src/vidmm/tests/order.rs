//! The order inside one work, and what it leaves out.

use ddi::GpuMmuFlags;
use wddm_types::{GpuVa, Pages};

use super::world::*;
use crate::{Direction, EvictFlags, MapRequest, Operation, Protection, SpaceKind, Target, VidMm};

fn tag(operation: &Operation) -> &'static str {
    match operation {
        Operation::Transfer { direction: Direction::Out, .. } => "out",
        Operation::Transfer { direction: Direction::In, .. } => "in",
        Operation::Relocate { .. } => "relocate",
        Operation::Discard { .. } => "discard",
        Operation::InitContext { .. } => "init",
        Operation::UpdateContext { .. } => "update",
        Operation::NotifyEviction { .. } => "leaves",
        Operation::NotifyResidency { resident: true, .. } => "came",
        Operation::NotifyResidency { resident: false, .. } => "goes",
        Operation::NotifyFenceResidency { .. } => "words",
        Operation::Fill { .. } => "fill",
        Operation::UpdatePageTable { first, .. } if first.flags.is_empty() => "invalid",
        Operation::UpdatePageTable { .. } => "valid",
        Operation::FlushTlb { .. } => "flush",
        Operation::EvictTable { .. } => "table leaves",
        Operation::SwitchRoot { .. } => "root",
        Operation::CopyEntries { .. } => "entries copied",
        Operation::MapAperture { .. } => "map",
        Operation::PlatformEntries { .. } => "platform",
        Operation::UnmapAperture { .. } => "unmap",
    }
}

/// Tags of a work that makes room for b by taking pages of a, both mapped.
fn exchange(flags: GpuMmuFlags) -> Vec<&'static str> {
    let bits = [5, 5, 6];
    let mut caps = mmu(&bits);
    caps.flags |= flags;
    let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
    let mut mm: Mm = VidMm::new(policy(), &descriptors, caps, &levels(&bits)).expect("rules are kept");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let [a, b] = [64, 32].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    for (allocation, pages) in [(a, 64), (b, 32)] {
        let request = MapRequest {
            target: Target::Allocation { allocation, offset_pages: Pages(0) },
            size_pages: Pages(pages),
            base: None,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            protection: Protection::READ_WRITE,
        };
        mm.map_gpu_va(space, request).expect("room");
    }
    mm.make_resident(device, &[b]).expect("it fits");
    mm.evict(device, &[b], EvictFlags::default(), &[]).expect("counted");
    mm.make_resident(device, &[a]).expect("it fits");
    mm.evict(device, &[a], EvictFlags { only_if_necessary: true, not_written_to: false }, &[]).expect("counted");
    let work = mm.make_resident(device, &[b]).expect("victims suffice").expect("it moves");
    work.operations.iter().map(tag).collect()
}

#[test]
fn out_then_invalid_then_flush_then_in_then_valid() {
    // spec: memory §8.3. Leaf tables of 32 pages: one run of entries for each.
    assert_eq!(exchange(GpuMmuFlags::empty()), ["out", "invalid", "flush", "in", "valid", "flush"]);
    // spec: memory §4.2 bit 10
    let not_cached = exchange(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED);
    assert_eq!(not_cached, ["out", "invalid", "flush", "in", "valid"]);
}
