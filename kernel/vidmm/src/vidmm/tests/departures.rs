//! Locked content that leaves its place within a work: nothing comes there before the CPU is to be shown where it is now.

use ddi::{AllocationFlags, AllocationInfo, GpuMmuFlags, SegmentFlags};
use wddm_types::{CpuPlace, CpuRun, GpuVa, PAGE_BYTES, PageRun, Pages};

use super::world::*;
use crate::{
    AllocationId, DeviceId, Direction, EvictFlags, MapRequest, Operation, Protection, SpaceKind, Target, VidMm, Work,
};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

fn allocation(mm: &mut Mm, device: DeviceId, pages: u64, flags: AllocationFlags) -> AllocationId {
    mm.create_allocation(device, AllocationInfo { flags, ..info(pages, &[VRAM]) }).expect("rules are kept")
}

/// The pages of video memory to which an operation brings content.
fn comes_to(operation: &Operation) -> Option<PageRun> {
    let (address, size_bytes) = match operation {
        Operation::Fill { address, size_bytes, .. } => (*address, *size_bytes),
        Operation::Transfer { address, size_bytes, direction: Direction::In, .. } => (*address, *size_bytes),
        Operation::Relocate { to, size_bytes, .. } => (*to, *size_bytes),
        _ => return None,
    };
    Some(PageRun { first: (address - VRAM_BASE) / PAGE_BYTES, count: Pages(size_bytes / PAGE_BYTES) })
}

/// Whether the CPU reads some of these pages.
fn reads(runs: &[CpuRun], pages: PageRun) -> bool {
    let first = VRAM_BAR / PAGE_BYTES + pages.first;
    let of_bar = runs.iter().filter(|run| run.place == CpuPlace::Bar);
    of_bar.map(|run| run.run).any(|run| run.first < first + pages.count.0 && first < run.end())
}

/// Follows a work, which takes the content away of an allocation that the CPU sees at these runs. Answers what came to its old pages.
fn follow(work: &Work<u8>, id: AllocationId, before: &[CpuRun]) -> usize {
    let mut seen = before.to_vec();
    let mut departures = work.departures.iter().peekable();
    let mut shown = work.rotations.iter().enumerate().peekable();
    let mut came = 0;
    for (at, operation) in work.operations.iter().enumerate() {
        while let Some(departure) = departures.next_if(|departure| departure.operations <= at) {
            while let Some((_, rotation)) = shown.next_if(|(nth, _)| *nth < departure.rotations) {
                assert_eq!(rotation.allocation, id, "the only one that is locked");
                seen.clone_from(&rotation.runs);
            }
        }
        let Some(pages) = comes_to(operation) else { continue };
        assert!(!reads(&seen, pages), "{operation:?} comes to where the CPU reads {id:?}: {seen:?}");
        came += usize::from(reads(before, pages));
    }
    came
}

#[test]
fn words_that_are_demoted_between_do_not_let_content_come_before_the_cpu_has_left() {
    // spec: memory §6.3, sync §1.5
    for flags in [GpuMmuFlags::empty(), GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED] {
        let descriptors = [vram_descriptor(64, SegmentFlags::CPU_VISIBLE), aperture_descriptor(64)];
        let caps = ddi::GpuMmuCaps { flags, ..mmu(&[5, 5, 6]) };
        let mut mm: Mm = VidMm::new(policy(), &descriptors, caps, &levels(&[5, 5, 6])).expect("rules");
        let (paging, _) = mm.create_space(SpaceKind::Paging).expect("tables");
        let [device, other] = [(), ()].map(|()| {
            let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
            mm.create_device(space)
        });
        let locked = allocation(&mut mm, device, 63, AllocationFlags::CPU_VISIBLE);
        let words = mm.create_fence_storage(device, info(1, &[VRAM, APERTURE]), 7).expect("rules are kept");
        mm.make_resident(device, &[locked, words]).expect("they fill the memory");
        let shown = MapRequest {
            target: Target::FenceStorage(words),
            size_pages: Pages(1),
            base: None,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            protection: Protection::READ_WRITE,
        };
        let _ = mm.map_gpu_va(paging, shown).expect("room");
        mm.evict(device, &[locked, words], LAZY, &[]).expect("counted");
        let before = mm.lock(locked).expect("by the bus").runs;
        // The first takes the locked content's place, the second that of the words, which settles what was decided for the first.
        let new = [63, 1].map(|pages| create(&mut mm, other, pages, &[VRAM]));
        let work = mm.make_resident(other, &new).expect("both leave for them").expect("it moves");
        assert!(work.operations.iter().any(|what| matches!(what, Operation::NotifyFenceResidency { .. })));
        assert!(follow(&work, locked, &before) > 0, "{flags:?}: something comes to where the locked content was");
        mm.check_invariants(&[]).expect("each page has one owner");
    }
}
