//! Leaf tables of one form at a time: what converts them, and copies between tables of one form.

use super::*;

#[test]
fn content_that_goes_to_system_memory_converts_its_table() {
    // spec: memory §4.5, memory §10.4 item 19
    let mut bench = Bench::new(coarse_shape(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED), 64, 128, &[64, 32]);
    let [first, second] = [bench.allocations[0], bench.allocations[1]];
    bench.map(0, 64, Target::Allocation { allocation: first, offset_pages: Pages(0) }, true);
    bench.map(64, 32, Target::Allocation { allocation: second, offset_pages: Pages(0) }, false);
    bench.resident(first);
    bench.check().expect("64-KB entries");
    assert_eq!((bench.links.coarse.len(), bench.links.conversions), (1, 0));
    let held = bench.mm.table_bytes(SpaceKind::Process);
    // The first one keeps the room: what comes now is placed in the aperture, 4-KB pages of system memory.
    let work = bench.mm.make_resident(bench.device, &[second]).expect("the aperture has room");
    assert_eq!(forms(&work).0, 0, "no 64-KB entry is written any more");
    bench.queue(work);
    bench.check().expect("4-KB entries");
    assert_eq!((bench.links.coarse.len(), bench.links.conversions), (0, 1));
    // Its table is given back, and it never has another.
    bench.map(112, 16, Target::Allocation { allocation: first, offset_pages: Pages(16) }, true);
    assert_eq!(bench.mm.table_bytes(SpaceKind::Process), held - PAGE_BYTES);
    bench.check().expect("4-KB entries");
    assert_eq!(bench.links.conversions, 1);
}

#[test]
fn a_conversion_shows_nothing_before_its_time() {
    // spec: memory §4.5, memory §8.3
    let mut bench = Bench::new(coarse_shape(GpuMmuFlags::empty()), 64, 64, &[64]);
    let allocation = bench.allocations[0];
    bench.resident(allocation);
    // One work shows a whole page by a 64-KB entry, then a small one, which converts the table.
    let work = bench.update(allocation, &[(0, 16, 16), (40, 1, 3)]).expect("entries");
    let written = |operation: &Operation| match operation {
        Operation::UpdatePageTable { level, count, first, use_64kb, .. } => {
            Some((*level, *count, first.flags.contains(PteFlags::VALID), *use_64kb))
        }
        Operation::FlushTlb { .. } => None,
        other => panic!("{other:?}"),
    };
    let expected = [
        Some((0, 512, false, false)),
        Some((1, 1, true, false)),
        Some((0, 16, true, false)),
        Some((0, 1, true, false)),
        // The hardware forgets the old table too.
        None,
    ];
    assert_eq!(work.operations.iter().map(written).collect::<Vec<_>>(), expected);
    bench.check().expect("both are there");
}

#[test]
fn copies_of_tiles_copy_entries_where_tables_have_the_same_form() {
    // spec: memory §3.4 operation 14, memory §4.8
    // An adapter, pages mapped, and the copy: from, to, pages; entries copied.
    let fine = Shape { bits: vec![5, 5, 6], flags: GpuMmuFlags::empty(), leaf_64kb: false, pages_64kb: false };
    let coarse = Shape { bits: vec![5, 5, 6], leaf_64kb: true, pages_64kb: true, ..fine.clone() };
    let rows = [
        ("into another table", fine.clone(), 16, (0, 64, 16), 16),
        ("over the ends of tables", fine.clone(), 48, (3, 70, 40), 40),
        ("within a table", fine.clone(), 16, (0, 16, 16), 16),
        ("onto what is read", fine.clone(), 48, (0, 8, 40), 0),
        ("64-KB entries", coarse, 16, (0, 64, 16), 0),
        ("nothing is there", fine, 16, (32, 64, 16), 0),
    ];
    for (name, shape, mapped, (from, to, pages), expected) in rows {
        let mut bench = Bench::new(shape, 128, 160, &[64]);
        let allocation = bench.allocations[0];
        bench.map(0, mapped, Target::Allocation { allocation, offset_pages: Pages(0) }, false);
        bench.resident(allocation);
        bench.copy(from, to, pages);
        assert_eq!(bench.links.copied, expected, "{name}");
        bench.check().expect(name);
        // Copied entries become invalid with their content, as written ones do.
        let how = EvictFlags { only_if_necessary: false, not_written_to: false };
        let work = bench.mm.evict(bench.device, &[allocation], how, &[]).expect("listed");
        bench.queue(work);
        bench.check().expect(name);
    }
}
