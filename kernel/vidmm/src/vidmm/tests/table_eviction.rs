//! Page tables leave a process that has nothing to run, and are back before it runs again (memory §4.6).

use wddm_types::{GpuVa, PAGE_BYTES, Pages, SegmentId};

use super::leaves::*;
use super::world::*;
use crate::{
    DeviceId, MapError, NextResume, OutOfTables, ProcessPriority, ReserveRequest, Reserved, SpaceId, SpaceKind,
    TableMove, VidMm,
};

/// Room for the tables of processes: so many pages, roots included.
fn adapter_with_tables(pages: u64) -> Mm {
    let policy = crate::Policy {
        page_table_reserve: Pages(RESERVE),
        paging_table_reserve: Pages(RESERVE - pages),
        suspend_others: true,
        ..policy()
    };
    let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
    VidMm::new(policy, &descriptors, mmu(&LEAF_BITS), &levels(&LEAF_BITS)).expect("the description keeps the rules")
}

#[test]
fn tables_of_the_idle_leave_uncopied_and_are_back_before_their_device_runs() {
    // spec: memory §4.6, memory §5.1
    // Two roots and eight others: four leaves and a level above them for one process.
    let (mut mm, mut machine) = (adapter_with_tables(10), Machine::default());
    let (one, a) = process(&mut mm, &mut machine);
    let (two, b) = process(&mut mm, &mut machine);
    for leaf in 0..4 {
        machine.queue(map(&mut mm, one, leaf).expect("room"));
    }
    for leaf in 0..2 {
        machine.queue(map(&mut mm, two, leaf).expect("room"));
    }
    assert_eq!(mm.table_bytes(SpaceKind::Process), 10 * PAGE_BYTES, "2 roots, 2 middles, 6 leaves");
    assert_eq!(map(&mut mm, two, 2), Err(MapError::OutOfTables), "the other runs");
    assert!(mm.tables_resident(one) && !mm.is_suspended(a), "a refusal changes nothing");
    mm.set_device_idle(a, true);
    let work = map(&mut mm, two, 2).expect("the tables of the idle leave").expect("it writes");
    let left = TableMove { space: one, bytes: 5 * PAGE_BYTES, came: false, for_space: Some(two) };
    assert_eq!((&work.tables[..], &work.suspends[..], work.moves.len()), (&[left][..], &[a][..], 0));
    machine.queue(Some(work));
    machine.run(&mut mm);
    assert!(!mm.tables_resident(one) && mm.tables_resident(two));
    assert_eq!(mm.table_bytes(SpaceKind::Process), 6 * PAGE_BYTES);
    let walked: Vec<_> = (0..4).map(|leaf| seen(&machine, &mm, one, leaf)).collect();
    assert_eq!(walked, [None; 4], "its root leads nowhere");
    // Its addresses change while they are away, and nothing is written for it.
    assert_eq!(map(&mut mm, one, 4), Ok(None));
    assert_eq!(mm.free_system_va(one, GpuVa(1024 * PAGE_BYTES), Pages(32)), None);
    let quantum = mm.policy.residency_quantum_ns;
    assert_eq!(mm.next_to_resume(0), NextResume::NoDevice, "it has nothing to run");
    mm.set_device_idle(a, false);
    assert_eq!(mm.next_to_resume(1), NextResume::At(quantum), "what left does not come back within a quantum");
    assert_eq!(mm.next_to_resume(quantum), NextResume::Resume(a), "who has run for a quantum makes room");
    let work = mm.resume(a).expect("it was said so").expect("tables are written");
    let left = TableMove { space: two, bytes: 4 * PAGE_BYTES, came: false, for_space: Some(one) };
    let came = TableMove { space: one, bytes: 5 * PAGE_BYTES, came: true, for_space: None };
    assert_eq!((&work.tables[..], &work.suspends[..]), (&[left, came][..], &[b][..]));
    machine.queue(Some(work));
    machine.run(&mut mm);
    let walked: Vec<_> = (0..5).map(|leaf| seen(&machine, &mm, one, leaf)).collect();
    let page = |leaf: u64| Some(50_000 + leaf * 32 + 31);
    assert_eq!(walked, [None, page(1), page(2), page(3), page(4)], "as its addresses are now");
    assert!(!mm.is_suspended(a) && mm.is_suspended(b));
}

#[test]
fn a_reservation_of_zeros_comes_back_and_a_device_made_meanwhile_waits() {
    // spec: memory §4.6, memory §4.10
    let (mut mm, mut machine) = (adapter_with_tables(6), Machine::default());
    let (one, a) = process(&mut mm, &mut machine);
    let (two, _) = process(&mut mm, &mut machine);
    let zeros = ReserveRequest {
        size_bytes: 65536,
        base: Some(GpuVa(1024 * PAGE_BYTES)),
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        reserved: Reserved::Zero,
        driver_protection: 0,
    };
    machine.queue(mm.reserve_gpu_va(one, zeros).expect("room").1);
    machine.queue(map(&mut mm, two, 0).expect("room"));
    assert_eq!(map(&mut mm, two, 1), Err(MapError::OutOfTables));
    mm.set_device_idle(a, true);
    machine.queue(map(&mut mm, two, 1).expect("the idle give way"));
    let late = mm.create_device(one);
    assert!(mm.is_suspended(late), "there is nothing to walk for it");
    let quantum = mm.policy.residency_quantum_ns;
    assert_eq!(mm.next_to_resume(quantum), NextResume::Resume(late));
    machine.queue(mm.resume(late).expect("it was said so"));
    machine.run(&mut mm);
    let entry = machine.walk(mm.root(one), &LEAF_BITS, GpuVa(1024 * PAGE_BYTES)).expect("zeros");
    assert_eq!(machine.read(SegmentId::SYSTEM, entry.address.offset / PAGE_BYTES), 0);
    assert!(mm.is_suspended(a), "idle: it has its turn when it has work");
}

#[test]
fn a_new_process_gets_its_root_and_no_other_loses_its_way_back() {
    // spec: memory §4.6
    let (mut mm, mut machine) = (adapter_with_tables(5), Machine::default());
    let (one, a) = process(&mut mm, &mut machine);
    for leaf in 0..3 {
        machine.queue(map(&mut mm, one, leaf).expect("room"));
    }
    assert_eq!(mm.create_space(SpaceKind::Process).err(), Some(OutOfTables), "full, and its device runs");
    assert_eq!(mm.make_room_for_root(ProcessPriority::Normal), None);
    mm.set_device_idle(a, true);
    assert_eq!(mm.make_room_for_root(ProcessPriority::Background), None, "a lower one takes nothing");
    machine.queue(mm.make_room_for_root(ProcessPriority::Normal));
    assert!(!mm.tables_resident(one));
    let refused = mm.create_space(SpaceKind::Process).err();
    assert_eq!(refused, Some(OutOfTables), "one root more and the first would never run again");
    assert_eq!(map(&mut mm, one, 3), Err(MapError::OutOfTables), "and it may not outgrow what there is");
    machine.queue(mm.free_system_va(one, GpuVa(1024 * PAGE_BYTES), Pages(32)));
    process(&mut mm, &mut machine);
}

/// The order in which processes lose their tables: without a device, suspended, idle longest; never those of a higher
/// protection, never against the policy.
#[test]
fn the_order_in_which_processes_lose_their_tables() {
    // spec: memory §8.2
    let (mut mm, mut machine) = (adapter_with_tables(14), Machine::default());
    let players: [(SpaceId, DeviceId); 5] = [(); 5].map(|()| process(&mut mm, &mut machine));
    let [(one, a), (two, b), (three, c), (four, d), (five, _)] = players;
    for space in [one, two, three, four] {
        machine.queue(map(&mut mm, space, 0).expect("room"));
    }
    mm.destroy_device(d, &[]);
    for device in [b, a, c] {
        mm.set_device_idle(device, true);
    }
    mm.set_process_priority(three, ProcessPriority::Foreground);
    mm.policy.evict_page_tables = false;
    assert_eq!(map(&mut mm, five, 0), Err(MapError::OutOfTables), "the policy says no");
    mm.policy.evict_page_tables = true;
    let mut losers = Vec::new();
    for leaf in 0..10 {
        match map(&mut mm, five, leaf) {
            Ok(work) => {
                losers.extend(work.iter().flat_map(|work| &work.tables).map(|left| left.space));
                machine.queue(work);
            }
            Err(error) => assert_eq!(error, MapError::OutOfTables),
        }
    }
    assert_eq!(losers, [four, two, one], "and the foreground's stay");
    assert!(mm.tables_resident(three));
    machine.run(&mut mm);
}
