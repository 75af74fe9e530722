//! Entries of two halves, on a device that has them.

use ddi::GpuMmuFlags;
use softgpu_spec::page_table::Shape;

use super::*;
use crate::config::KmdConfig;
use crate::fake_port::{FakeHost, stopped};

fn dual() -> SoftGpuKmd {
    let (mut kmd, port) = stopped(KmdConfig::default());
    port.set(register::MMU_LEVELS, Shape::FOUR_LEVELS.with_dual_entries().to_register());
    kmd.start_device(&mut FakeHost::default()).unwrap();
    kmd
}

fn update(first: Pte, second: Option<Pte>, count: u32, repeat: bool) -> PagingOp<'static> {
    let mut update = table_update(first, count, repeat);
    if let PagingOp::UpdatePageTable { level, first_64kb, .. } = &mut update {
        (*level, *first_64kb) = (1, second);
    }
    update
}

fn half(first: u32, count: u32, entry: u64) -> Command<'static> {
    Command::WriteEntryRun { table: 0x3000, first, count, entry, step: 0 }
}

#[test]
fn a_device_with_dual_entries_says_so_and_its_tables_of_level_1_are_twice_as_long() {
    // spec: memory §4.2, memory §4.5
    let mut kmd = dual();
    let addresses = kmd.gpu_va().unwrap();
    let caps = addresses.gpu_mmu_caps();
    assert!(caps.flags.contains(GpuMmuFlags::DUAL_PTE_SUPPORTED) && caps.leaf_table_64kb_bytes == 4096);
    assert_eq!([0, 1, 2, 3].map(|level| addresses.page_table_level(level).size_bytes), [4096, 8192, 4096, 4096]);
}

#[test]
fn the_second_half_is_written_first_and_a_full_buffer_resumes_between_them() {
    // spec: memory §3.2, memory §3.4, memory §4.5
    let mut kmd = dual();
    let (small, coarse) = (pte(PteFlags::empty(), LOCAL, 0x6000), pte(PteFlags::empty(), LOCAL, 0x9000));
    let linked = [half(11, 1, 0x9001), half(10, 1, 0x6001)];
    assert_eq!(commands(&mut kmd, update(small, Some(coarse), 1, false)), linked);
    let all = build(&mut kmd, update(small, Some(coarse), 3, true), 64).unwrap();
    let least = all.len() / 6;
    assert_eq!(build(&mut kmd, update(small, Some(coarse), 3, true), least).unwrap(), all, "resumed half by half");
    let large = pte(PteFlags::LARGE_PAGE, LOCAL, 0x20_0000);
    let memory = [half(11, 1, 0), half(10, 1, 0x20_0000 | page_table::VALID | page_table::LARGE)];
    assert_eq!(commands(&mut kmd, update(large, Some(Pte::INVALID), 1, false)), memory);
    assert_eq!(commands(&mut kmd, update(Pte::INVALID, Some(Pte::INVALID), 7, true)), [half(10, 14, 0)]);
}

#[test]
fn halves_that_are_not_what_they_stand_for_are_refused() {
    // spec: memory §4.5
    let mut kmd = dual();
    let table = pte(PteFlags::empty(), LOCAL, 0x6000);
    let told = pte(PteFlags::LEAF_64KB, LOCAL, 0x6000);
    let large = pte(PteFlags::LARGE_PAGE, LOCAL, 0x20_0000);
    for (first, second, count) in [(told, table, 1), (table, told, 1), (table, large, 1), (table, table, 508)] {
        assert!(matches!(build(&mut kmd, update(first, Some(second), count, true), 64), Err(PagingStatus::Fatal(_))));
    }
    let alone = build(&mut kmd, update(table, None, 1, true), 64);
    assert!(matches!(alone, Err(PagingStatus::Fatal(_))), "its entries have two halves");
    let (mut other, _, _) = started();
    let refused = build(&mut other, update(table, Some(table), 1, true), 64);
    assert!(matches!(refused, Err(PagingStatus::Fatal(_))), "its entries have one half");
}
