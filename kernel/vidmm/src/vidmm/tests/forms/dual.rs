//! Dual entries: both forms of a leaf table stand beside each other.

use super::*;

/// A shape of dual entries.
fn dual_shape() -> Shape {
    coarse_shape(GpuMmuFlags::DUAL_PTE_SUPPORTED | GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED)
}

#[test]
fn with_dual_entries_content_goes_to_4_kb_and_back_and_no_process_quiesces() {
    // spec: memory §4.5
    let mut bench = Bench::new(dual_shape(), 64, 128, &[64, 32]);
    let [first, second] = [bench.allocations[0], bench.allocations[1]];
    bench.map(0, 64, Target::Allocation { allocation: first, offset_pages: Pages(0) }, true);
    bench.map(64, 32, Target::Allocation { allocation: second, offset_pages: Pages(0) }, false);
    let held = bench.mm.table_bytes(SpaceKind::Process);
    assert_eq!(held, 4 * PAGE_BYTES, "root, level 1, and both leaf tables");
    bench.resident(first);
    bench.check().expect("64-KB entries");
    for _ in 0..3 {
        // The first one keeps the room: 4-KB pages of system memory in the same table, then 64-KB ones at the same place.
        let work = bench.mm.make_resident(bench.device, &[second]).expect("the aperture has room");
        assert_eq!(forms(&work), (0, 1), "one of 4-KB entries");
        assert!(work.iter().all(|work| work.idle_spaces.is_empty()), "no process quiesces");
        bench.queue(work);
        bench.check().expect("both forms in one table");
        let how = EvictFlags { only_if_necessary: false, not_written_to: false };
        for id in [first, second] {
            let work = bench.mm.evict(bench.device, &[id], how, &[]).expect("listed");
            bench.queue(work);
        }
        bench.check().expect("nothing is there");
        let work = bench.mm.make_resident(bench.device, &[second]).expect("room");
        assert_eq!(forms(&work), (1, 0), "back to 64-KB entries");
        assert!(work.iter().all(|work| work.idle_spaces.is_empty() && work.conversions.is_empty()));
        bench.queue(work);
        bench.check().expect("64-KB entries again");
        let work = bench.mm.evict(bench.device, &[second], how, &[]).expect("listed");
        bench.queue(work);
        bench.resident(first);
    }
    assert_eq!(bench.mm.table_bytes(SpaceKind::Process), held, "both tables stand all the time");
}

#[test]
fn a_part_of_a_64_kb_page_in_use_takes_it_apart_while_its_contexts_are_quiesced() {
    // spec: memory §4.5
    let mut bench = Bench::new(dual_shape(), 128, 64, &[64]);
    let allocation = bench.allocations[0];
    bench.map(0, 48, Target::Allocation { allocation, offset_pages: Pages(0) }, true);
    bench.resident(allocation);
    bench.check().expect("64-KB entries");
    let request = |at: u64, target| MapRequest {
        target,
        size_pages: Pages(1),
        base: Some(bench.va(at)),
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: Protection::READ_WRITE,
    };
    let hole = request(20, Target::Reserved(Reserved::NoAccess));
    let work = bench.mm.map_gpu_va(bench.space, hole).expect("reserved").1.expect("it writes");
    let leaves = work.operations.iter().filter_map(|operation| match operation {
        Operation::UpdatePageTable { level: 0, start_index, count, first, use_64kb, .. } => {
            Some((*start_index, *count, first.flags.contains(PteFlags::VALID), *use_64kb))
        }
        _ => None,
    });
    // The one page of 64 KB, and no other.
    assert_eq!(leaves.collect::<Vec<_>>(), [(16, 16, false, true), (16, 16, true, false), (20, 1, false, false)]);
    assert_eq!((&work.idle_spaces[..], work.conversions.len()), (&[bench.space][..], 1), "it is said, and why");
    assert!(matches!(work.operations.last(), Some(Operation::FlushTlb { .. })), "the hardware forgets the 64-KB entry");
    bench.naive[20] = Seen::Nothing;
    bench.queue(Some(work));
    bench.check().expect("fifteen pages are left");
    // Whole again after all of it was invalid.
    bench.map(16, 16, Target::Reserved(Reserved::NoAccess), true);
    bench.map(16, 16, Target::Allocation { allocation, offset_pages: Pages(16) }, true);
    bench.check().expect("64 KB");
    let shape = bench.shape.clone();
    let coarse =
        bench.machine.second_halves.values().find(|half| half.flags.contains(PteFlags::VALID)).expect("linked");
    let index = (bench.va(16).0 >> 12) as u32 % (1 << shape.bits[0]) / 16;
    assert!(bench.machine.entries[&(coarse.address, index)].flags.contains(PteFlags::VALID), "back to a 64-KB entry");
}
