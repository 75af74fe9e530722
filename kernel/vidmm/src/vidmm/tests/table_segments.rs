//! Page tables whose levels live in different segments (memory §4.3): where they lie, what of each segment is left for
//! allocations, whose leave when one of the segments is full, and that all come back.

use std::collections::BTreeMap;

use ddi::{PageTableUpdateMode, PteFlags, SegmentFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use super::leaves::*;
use super::world::*;
use crate::{MapError, MapRequest, Operation, Policy, Protection, Sleep, SpaceKind, Target, VidMm};

/// Where the tables of processes live, leaf first: what `adapter_of_levels_apart` names.
const HOMES: [SegmentId; 3] = [EXTRA, SegmentId::SYSTEM, VRAM];

fn adapter() -> Mm {
    let mut mm = adapter_of_levels_apart(64, SegmentFlags::empty());
    mm.policy.suspend_others = true;
    mm
}

/// The tables that operations name, by level.
fn tables_of(operations: &[Operation]) -> BTreeMap<u32, Vec<PhysicalAddress>> {
    let mut tables: BTreeMap<u32, Vec<PhysicalAddress>> = BTreeMap::new();
    for operation in operations {
        if let Operation::UpdatePageTable { level, table, .. } | Operation::EvictTable { level, table, .. } = operation
        {
            tables.entry(*level).or_default().push(*table);
        }
    }
    tables
}

fn check_homes(operations: &[Operation]) {
    for (level, tables) in tables_of(operations) {
        assert!(tables.iter().all(|table| table.segment == HOMES[level as usize]), "level {level}: {tables:?}");
    }
}

#[test]
fn tables_of_each_level_live_where_it_says_and_entries_name_the_segment() {
    // spec: memory §4.3, memory §4.4
    let (mut mm, mut machine) = (adapter(), Machine::default());
    assert_eq!(mm.capacity_bytes(VRAM), 64 * PAGE_BYTES, "without the roots' and the paging process's reserve");
    assert_eq!(mm.capacity_bytes(EXTRA), 32 * PAGE_BYTES, "without the leaves'");
    assert_eq!(mm.free_system_pages(), Pages(100_000 - 1 - 64), "without that between");
    let (paging, made) = mm.create_space(SpaceKind::Paging).expect("tables");
    machine.carry_out(&made);
    let (space, _) = process(&mut mm, &mut machine);
    assert_eq!((mm.root(space).segment, mm.root(paging).segment), (VRAM, VRAM));
    let work = map(&mut mm, space, 0).expect("room").expect("it writes");
    check_homes(&work.operations);
    let linked = work.operations.iter().filter_map(|operation| match operation {
        Operation::UpdatePageTable { level, first, .. } if *level > 0 && first.flags.contains(PteFlags::VALID) => {
            Some((*level, first.address.segment))
        }
        _ => None,
    });
    assert_eq!(linked.collect::<Vec<_>>(), [(2, SegmentId::SYSTEM), (1, EXTRA)]);
    machine.queue(Some(work));
    machine.run(&mut mm);
    assert_eq!(seen(&machine, &mm, space, 0), Some(50_031));
    assert_eq!(mm.table_bytes(SpaceKind::Process), 3 * PAGE_BYTES);
    mm.check_invariants(&[]).expect("every table is in its reserve");
}

#[test]
fn one_full_segment_makes_the_tables_of_the_idle_leave_all_of_them() {
    // spec: memory §4.3, memory §4.6
    let (mut mm, mut machine) = (adapter(), Machine::default());
    let (one, a) = process(&mut mm, &mut machine);
    let (two, _) = process(&mut mm, &mut machine);
    // All leaf tables that there are; the other segments have room left.
    for leaf in 0..20 {
        machine.queue(map(&mut mm, one, leaf).expect("room"));
    }
    for leaf in 0..12 {
        machine.queue(map(&mut mm, two, leaf).expect("room"));
    }
    assert_eq!(map(&mut mm, two, 12), Err(MapError::OutOfTables), "the other runs");
    mm.set_device_idle(a, true);
    let work = map(&mut mm, two, 12).expect("the tables of the idle leave").expect("it writes");
    assert_eq!(work.tables.iter().map(|left| (left.space, left.bytes)).collect::<Vec<_>>(), [(one, 21 * PAGE_BYTES)]);
    check_homes(&work.operations);
    machine.queue(Some(work));
    machine.run(&mut mm);
    assert_eq!(seen(&machine, &mm, one, 0), None, "its root leads nowhere");
    assert_eq!(mm.table_bytes(SpaceKind::Process), (2 + 1 + 13) * PAGE_BYTES, "each page went to its own segment");
    mm.check_invariants(&[]).expect("frames and tables agree");
    mm.set_device_idle(a, false);
    let work = mm.resume(a);
    assert!(work.is_err(), "not before a quantum");
    mm.set_time(mm.policy.residency_quantum_ns);
    let work = mm.resume(a).expect("the device that has run gives way").expect("tables are written");
    check_homes(&work.operations);
    machine.queue(Some(work));
    machine.run(&mut mm);
    assert!((0..20).all(|leaf| seen(&machine, &mm, one, leaf) == Some(50_000 + leaf * 32 + 31)));
    // No process grows beyond the tables that it could have alone, in whichever segment the room ends.
    assert_eq!(map(&mut mm, two, 40), Ok(None), "its tables are away and would fit beside the roots");
    assert!((41..64).any(|leaf| map(&mut mm, two, leaf) == Err(MapError::OutOfTables)));
}

#[test]
fn a_sleep_writes_the_tables_of_every_segment_anew() {
    // spec: memory §4.7, memory §8.4
    let (mut mm, mut machine) = (adapter(), Machine::default());
    let (_, made) = mm.create_space(SpaceKind::Paging).expect("tables");
    machine.carry_out(&made);
    let (space, _) = process(&mut mm, &mut machine);
    for leaf in [0, 7, 33] {
        machine.queue(map(&mut mm, space, leaf).expect("room"));
    }
    machine.run(&mut mm);
    machine.queue(mm.power_down(Sleep::Hibernate));
    machine.run(&mut mm);
    // Tables in memory segments are lost, those in system memory are not.
    machine.entries.retain(|(table, _), _| table.segment.is_system());
    let up = mm.power_up();
    machine.queue(up.paging_process);
    let work = up.processes.expect("tables are written");
    check_homes(&work.operations);
    let written: BTreeMap<u32, usize> =
        tables_of(&work.operations).into_iter().map(|(level, tables)| (level, tables.len())).collect();
    assert!((0..3).all(|level| written[&level] > 0), "{written:?}");
    machine.queue(Some(work));
    machine.run(&mut mm);
    assert!([0, 7, 33].iter().all(|&leaf| seen(&machine, &mm, space, leaf) == Some(50_000 + leaf * 32 + 31)));
}

#[test]
fn tables_written_by_address_have_a_window_for_each_segment() {
    // spec: memory §4.2, memory §4.3
    let bits = [9, 9, 9];
    let mut levels = levels(&bits);
    (levels[0].segment, levels[1].segment) = (SegmentId::SYSTEM, SegmentId::SYSTEM);
    let caps = ddi::GpuMmuCaps { update_mode: PageTableUpdateMode::GpuVirtual, ..mmu(&bits) };
    let policy = Policy { directory_reserve: Pages(64), ..policy() };
    let descriptors = [vram_descriptor(64, SegmentFlags::empty()), aperture_descriptor(64)];
    let mut mm: Mm = VidMm::new(policy, &descriptors, caps, &levels).expect("the description keeps the rules");
    let mut machine = Machine::default();
    let (paging, made) = mm.create_space(SpaceKind::Paging).expect("tables");
    machine.carry_out(&made);
    let (space, _) = process(&mut mm, &mut machine);
    let request = MapRequest {
        target: Target::SystemPages(PageRun { first: 50_000, count: Pages(1) }),
        size_pages: Pages(1),
        base: Some(GpuVa(1 << 32)),
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: Protection::READ_WRITE,
    };
    let work = mm.map_gpu_va(space, request).expect("room").1.expect("it writes");
    let tables = tables_of(&work.operations);
    assert_eq!(tables[&2][0].segment, VRAM);
    for table in tables.values().flatten() {
        let shown = machine.walk(mm.root(paging), &bits, mm.table_va(*table)).expect("the window shows it");
        assert_eq!(shown.address, *table);
    }
}
