//! Updates of leaf tables with 64-KB entries.

use super::*;

#[test]
fn a_64_kb_table_has_every_sixteenth_entry() {
    // spec: memory §3.4, memory §4.5
    let (mut kmd, _, _) = started();
    let coarse = |first, start, count, repeat| {
        let mut operation = table_update(first, count, repeat);
        let PagingOp::UpdatePageTable { use_64kb_pages, start_index, .. } = &mut operation else { unreachable!() };
        (*use_64kb_pages, *start_index) = (true, start);
        operation
    };
    let page = |offset| pte(PteFlags::empty(), LOCAL, offset);
    for (first, entry, step) in [(page(0x6_0000), 0x6_0000 | page_table::VALID, 0x1_0000), (Pte::INVALID, 0, 0)] {
        let got = commands(&mut kmd, coarse(first, 32, 48, false));
        assert_eq!(got, [Command::WriteEntryRun { table: 0x3000, first: 2, count: 3, entry, step }]);
    }
    for wrong in [
        coarse(page(0x6_0000), 33, 48, false),
        coarse(page(0x6_0000), 32, 8, false),
        coarse(page(0x6_1000), 32, 48, false),
        coarse(page(0x6_0000), 512, 16, false),
    ] {
        assert!(matches!(build(&mut kmd, wrong, 4096), Err(PagingStatus::Fatal(_))), "{wrong:?}");
    }
    let mut link = table_update(pte(PteFlags::LEAF_64KB, LOCAL, 0x6000), 1, true);
    let PagingOp::UpdatePageTable { level, .. } = &mut link else { unreachable!() };
    *level = 1;
    let entry = 0x6000 | page_table::VALID | page_table::LEAF_64KB;
    assert_eq!(
        commands(&mut kmd, link),
        [Command::WriteEntryRun { table: 0x3000, first: 5, count: 1, entry, step: 0 }]
    );
}
