//! Allocations of the kernel's own: fence words in video memory (sync §1.5).

use ddi::{AllocationInfo, GpuMmuCaps, GpuMmuFlags, LegacyBehaviors, PteFlags, SegmentFlags, SegmentPreference};
use wddm_types::{GpuVa, PAGE_BYTES, Pages, SegmentId};

use super::world::*;
use crate::{
    AllocationError, EvictFlags, MapError, MapRequest, MoveKind, Operation, Promotion, Protection, SegmentError, Sleep,
    SpaceKind, Target, VidMm,
};

fn whole(target: Target) -> MapRequest {
    MapRequest {
        target,
        size_pages: Pages(1),
        base: None,
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: Protection::READ_WRITE,
    }
}

#[test]
fn words_begin_with_their_pattern_stay_in_place_and_are_shown_to_the_paging_process() {
    // spec: sync §1.5, memory §4.7
    // seed: N25
    let bits = [5, 5, 6];
    let descriptors = [vram_descriptor(64, SegmentFlags::empty()), aperture_descriptor(64)];
    let mut mm: Mm = VidMm::new(policy(), &descriptors, mmu(&bits), &levels(&bits)).expect("rules are kept");
    let (paging, _) = mm.create_space(SpaceKind::Paging).expect("tables");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let error = mm.create_fence_storage(device, info(1, &[APERTURE]), 7).expect_err("an aperture holds nothing");
    assert_eq!(error, AllocationError::NoSegment);
    let id = mm.create_fence_storage(device, info(1, &[VRAM]), u32::MAX).expect("the rules are kept");
    let came = mm.make_resident(device, &[id]).expect("room").expect("it moves").operations;
    let filled = |operation: &Operation| matches!(operation, Operation::Fill { pattern: u32::MAX, .. });
    assert_eq!(came.iter().filter(|operation| filled(operation)).count(), 1, "{came:?}");
    mm.pin(id).expect("it is resident");
    let (in_paging, work) = mm.map_gpu_va(paging, whole(Target::FenceStorage(id))).expect("room");
    assert!(work.is_none_or(|work| work.immediate), "the paging process's tables are written at once");
    let (in_process, _) = mm.map_gpu_va(space, whole(Target::FenceStorage(id))).expect("room");
    assert_eq!(mm.free_gpu_va(space, in_process, PAGE_BYTES), Err(MapError::Kernels), "not the process's to free");
    // All of the segment is wanted by another, whose list may displace everything but this.
    let (other, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let other = mm.create_device(other);
    let greedy = create(&mut mm, other, 64, &[VRAM]);
    assert!(mm.make_resident(other, &[greedy]).is_err(), "one page less than all");
    let modest = create(&mut mm, other, 48, &[VRAM]);
    mm.make_resident(other, &[modest]).expect("beside it");
    assert!(mm.is_resident(id));
    for (space, va) in [(paging, in_paging), (space, in_process)] {
        let _ = mm.free_system_va(space, va, Pages(1));
    }
    mm.unpin(id);
    let _ = mm.destroy_allocation(id, &[]);
    mm.check_invariants(&[]).expect("nothing is left of it");
}

/// Words that are evicted for room change their place in the paging process before the new content enters the room.
#[test]
fn nothing_takes_the_place_of_words_before_they_are_seen_in_their_new_one() {
    // spec: sync §1.4, sync §1.5, memory §8.3
    let bits = [5, 5, 6];
    for flags in [GpuMmuFlags::empty(), GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED] {
        let descriptors = [vram_descriptor(64, SegmentFlags::empty()), aperture_descriptor(64)];
        let caps = GpuMmuCaps { flags, ..mmu(&bits) };
        let mut mm: Mm = VidMm::new(policy(), &descriptors, caps, &levels(&bits)).expect("rules are kept");
        let (paging, _) = mm.create_space(SpaceKind::Paging).expect("tables");
        let [low, high] = [(), ()].map(|()| mm.create_space(SpaceKind::Process).expect("tables").0);
        let [device, other] = [low, high].map(|space| mm.create_device(space));
        let words = mm.create_fence_storage(device, info(1, &[VRAM, APERTURE]), 7).expect("the rules are kept");
        let _ = mm.make_resident(device, &[words]).expect("room");
        let _ = mm.map_gpu_va(paging, whole(Target::FenceStorage(words))).expect("room");
        let later = EvictFlags { only_if_necessary: true, not_written_to: false };
        let _ = mm.evict(device, &[words], later, &[]).expect("it is listed");
        let greedy = create(&mut mm, other, 64, &[VRAM]);
        let work = mm.make_resident(other, &[greedy]).expect("the words leave for it").expect("it moves");
        let at = |wanted: &dyn Fn(&Operation) -> bool| work.operations.iter().position(wanted).expect("it is there");
        let seen = at(&|what| matches!(what, Operation::UpdatePageTable { space, .. } if *space == paging));
        let flushed = at(&|what| matches!(what, Operation::FlushTlb { space, .. } if *space == paging));
        let filled = at(&|what| matches!(what, Operation::Fill { .. }));
        assert!(seen < flushed && flushed < filled, "{flags:?}: {:?}", work.operations);
    }
}

/// Words that move up from one memory segment to another go by their backing store, and the paging process sees them at each place.
#[test]
fn words_move_up_between_memory_segments_by_their_backing_store() {
    // spec: sync §1.5, memory §8.1
    let mut mm = adapter_of_two(64, SegmentFlags::empty());
    mm.policy.suspend_others = true;
    let (mut machine, bits) = (Machine::default(), [5, 5, 6]);
    let (paging, tables) = mm.create_space(SpaceKind::Paging).expect("tables");
    machine.carry_out(&tables);
    let [device, other] = [(), ()].map(|()| {
        let (space, tables) = mm.create_space(SpaceKind::Process).expect("tables");
        machine.carry_out(&tables);
        mm.create_device(space)
    });
    let all = create(&mut mm, other, 64, &[VRAM]);
    machine.queue(mm.make_resident(other, &[all]).expect("room"));
    let wish = AllocationInfo {
        preferred_segment: SegmentPreference::of(&[VRAM, EXTRA]),
        ..info(1, &[VRAM, EXTRA, APERTURE])
    };
    let words = mm.create_fence_storage(device, wish, 7).expect("the rules are kept");
    machine.queue(mm.make_resident(device, &[words]).expect("room"));
    let (va, shown) = mm.map_gpu_va(paging, whole(Target::FenceStorage(words))).expect("room");
    machine.queue(shown);
    assert_eq!(mm.storage_address(words).segment, EXTRA, "the first choice is full");
    machine.run(&mut mm);
    let here = mm.storage_address(words).offset / PAGE_BYTES;
    machine.memory.insert((EXTRA, here), 9);
    let now = EvictFlags { only_if_necessary: false, not_written_to: false };
    machine.queue(mm.evict(other, &[all], now, &[]).expect("it is listed"));
    mm.set_device_idle(device, true);
    let Promotion::Work(work) = mm.promote(1000) else { panic!("there is room") };
    let moves: Vec<_> = work.moves.iter().map(|moved| (moved.kind, moved.segment)).collect();
    let system = [MoveKind::Map, MoveKind::Unmap].map(|kind| (kind, SegmentId::SYSTEM));
    let path = [&[(MoveKind::PageOut, EXTRA)], &system[..], &[(MoveKind::PageIn, VRAM)]].concat();
    assert_eq!(moves, path);
    assert_eq!(work.quiesced, [device]);
    machine.queue(Some(*work));
    machine.run(&mut mm);
    let there = mm.storage_address(words);
    assert_eq!((there.segment, machine.read(VRAM, there.offset / PAGE_BYTES)), (VRAM, 9), "with their values");
    let (root, _) = mm.root_table(paging);
    assert_eq!(machine.walk(root, &bits, va).map(|entry| entry.address), Some(there), "where they are seen");
    mm.check_invariants(&[]).expect("each page has one owner");
}

/// The kernel keeps an allocation that a present names mapped as long as the process has it.
#[test]
fn whole_allocations_are_shown_until_they_go() {
    // spec: memory §5.7, memory §4.8
    let (mut mm, space, device) = with_device(64);
    let id = create(&mut mm, device, 3, &[VRAM]);
    assert_eq!(mm.whole_view(space, id, false), None);
    let (read, _) = mm.map_gpu_va(space, mm.whole_request(id, false)).expect("room");
    assert_eq!(mm.whole_view(space, id, false), Some(read));
    assert_eq!(mm.whole_view(space, id, true), None, "no writable view exists");
    let (write, _) = mm.map_gpu_va(space, mm.whole_request(id, true)).expect("room");
    assert_eq!(mm.whole_view(space, id, true), Some(write));
    assert_eq!(mm.free_gpu_va(space, read, 3 * PAGE_BYTES), Err(MapError::Kernels), "not the process's to free");
    let over = MapRequest { base: Some(write), ..mm.whole_request(id, true) };
    assert_eq!(mm.map_gpu_va(space, over), Err(MapError::ConflictingAddresses));
    let clients = Target::Allocation { allocation: id, offset_pages: Pages::ZERO };
    assert_eq!(mm.whole_mapping(space, id), None, "the process has none of its own");
    let part = MapRequest { target: clients, size_pages: Pages(2), ..mm.whole_request(id, true) };
    let (some, _) = mm.map_gpu_va(space, part).expect("room");
    assert_eq!(mm.whole_mapping(space, id), None, "and not of a part");
    mm.free_gpu_va(space, some, 2 * PAGE_BYTES).expect("its own");
    let (theirs, _) = mm.map_gpu_va(space, MapRequest { target: clients, ..mm.whole_request(id, true) }).expect("room");
    assert_eq!(mm.whole_mapping(space, id), Some(theirs));
    assert_ne!(mm.whole_view(space, id, true), Some(theirs), "the client may take it away");
    let _ = mm.destroy_allocation(id, &[]);
    for va in [read, write, theirs] {
        assert_eq!(mm.free_gpu_va(space, va, PAGE_BYTES), Err(MapError::NotMapped), "they went with it");
    }
    mm.check_invariants(&[]).expect("nothing is left of it");
}

/// A driver of the legacy behaviour is told where the tables stand that translate the two ends of a copy.
#[test]
fn the_tables_behind_the_scratch_area_are_seen_by_the_paging_process() {
    // spec: memory §3.4 operation 8, memory §4.2
    for bits in [[5, 5, 6], [10, 5, 5]] {
        let descriptors = [vram_descriptor(64, SegmentFlags::empty()), aperture_descriptor(64)];
        let legacy = LegacyBehaviors::SOURCE_PAGE_TABLE_VA_IN_TRANSFER;
        let caps = ddi::GpuMmuCaps { legacy, ..mmu(&bits) };
        let policy = crate::Policy { paging_table_reserve: Pages(256), page_table_reserve: Pages(512), ..policy() };
        let mut mm: Mm = VidMm::new(policy, &descriptors, caps, &levels(&bits)).expect("rules are kept");
        let mut machine = Machine::default();
        let (paging, tables) = mm.create_space(SpaceKind::Paging).expect("tables");
        machine.carry_out(&tables);
        let (slots, tables) = mm.create_scratch(paging).expect("room");
        machine.carry_out(&tables);
        let (root, _) = mm.root_table(paging);
        for asleep in [false, true] {
            if asleep {
                machine.queue(mm.power_down(Sleep::Hibernate));
                machine.run(&mut mm);
                machine.entries.clear();
                machine.queue(mm.power_up().paging_process);
            }
            for window in slots.iter().flat_map(|slot| [slot.first, slot.second]) {
                let pages = [(APERTURE, wddm_types::PageRun { first: 0, count: mm.scratch_window() })];
                let entries = mm.scratch_entries(paging, window, &pages);
                let [Operation::UpdatePageTable { table, .. }] = entries[..] else {
                    panic!("one table for a window: {entries:?}")
                };
                let seen = machine.walk(root, &bits, mm.scratch_table_va(window)).expect("it is shown");
                assert_eq!(seen.address, table, "{bits:?} {asleep}");
                assert!(seen.flags.contains(PteFlags::READ_ONLY), "the CPU writes it");
            }
        }
        mm.check_invariants(&[]).expect("each table has one owner");
    }
    let mut mm = adapter(64, SegmentFlags::empty());
    let (paging, _) = mm.create_space(SpaceKind::Paging).expect("tables");
    let slots = mm.create_scratch(paging).map(|(slots, _)| slots);
    assert!(
        slots.is_err() || slots.is_ok_and(|slots| mm.scratch_table_va(slots[0].first).is_null()),
        "the adapter needs no scratch tables"
    );
}

#[test]
fn legacy_behaviours_that_there_are_not_fail_the_start() {
    // spec: memory §4.2, memory §1.13
    let descriptors = [vram_descriptor(64, SegmentFlags::empty()), aperture_descriptor(64)];
    for bit in 1..32 {
        let legacy = LegacyBehaviors::from_bits_retain(1 << bit);
        let caps = ddi::GpuMmuCaps { legacy, ..mmu(&[5, 5, 6]) };
        let refused = Mm::new(policy(), &descriptors, caps, &levels(&[5, 5, 6])).err();
        assert_eq!(refused, Some(SegmentError::ReservedLegacyBehaviors(1 << bit)));
    }
}
