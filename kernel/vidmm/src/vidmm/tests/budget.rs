//! Usage numbers, devices that end, and the size of a large step.

use ddi::{SegmentDescriptor4, SegmentFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use super::world::*;
use crate::{
    AllocationId, EvictFlags, MapRequest, Policy, ProcessPriority, Protection, SegmentGroup, SpaceKind, Target, VidMm,
};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

#[test]
fn usage_is_per_process_and_group() {
    // spec: memory §5.5, §10.1 row 7
    let (mut mm, space, one) = with_device(64);
    let two = mm.create_device(space);
    let a = create(&mut mm, one, 10, &[VRAM]);
    let b = create(&mut mm, one, 7, &[APERTURE]);
    mm.make_resident(one, &[a, b]).expect("they fit");
    mm.make_resident(two, &[a]).expect("there already");
    let usage = |mm: &Mm, group| mm.video_memory_info(space, group).current_usage_bytes / PAGE_BYTES;
    assert_eq!((usage(&mm, SegmentGroup::Local), usage(&mm, SegmentGroup::NonLocal)), (10, 7));
    assert_eq!(mm.video_memory_info(space, SegmentGroup::Local).budget_bytes, 64 * PAGE_BYTES);
    mm.evict(one, &[a], LAZY, &[]).expect("counted");
    assert_eq!(usage(&mm, SegmentGroup::Local), 10, "the other device still holds it");
}

/// The first of two memory segments is marked for applications, or none is, or all are.
#[test]
fn only_what_is_meant_for_applications_counts() {
    // spec: memory §1.5 bit 15, memory §5.5
    let marked = SegmentFlags::APPLICATION_TARGET;
    for (flags, local, non_local, used) in [
        ([SegmentFlags::empty(); 3], 64 + 32, 100_000, 20 + 7),
        ([marked, SegmentFlags::empty(), SegmentFlags::empty()], 64, 0, 20),
        ([SegmentFlags::empty(), marked, marked], 32, 100_000, 7),
    ] {
        let bits = [5, 5, 6];
        let size_bytes = 32 * PAGE_BYTES;
        let plain = SegmentFlags::empty();
        let extra = SegmentDescriptor4 {
            base_address: EXTRA_BASE,
            size_bytes,
            commit_limit_bytes: size_bytes,
            ..vram_descriptor(32, plain)
        };
        let mut descriptors = [vram_descriptor(64, plain), aperture_descriptor(64), extra];
        descriptors.iter_mut().zip(flags).for_each(|(descriptor, flags)| descriptor.flags |= flags);
        let mut mm: Mm = VidMm::new(policy(), &descriptors, mmu(&bits), &levels(&bits)).expect("rules");
        let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
        let device = mm.create_device(space);
        let [a, b] = [(20, VRAM), (7, EXTRA)].map(|(pages, segment)| create(&mut mm, device, pages, &[segment]));
        mm.make_resident(device, &[a, b]).expect("they fit");
        let [here, there] =
            [SegmentGroup::Local, SegmentGroup::NonLocal].map(|group| mm.video_memory_info(space, group));
        let pages = [here.budget_bytes, there.budget_bytes, here.current_usage_bytes].map(|bytes| bytes / PAGE_BYTES);
        assert_eq!(pages, [local, non_local, used], "{flags:?}");
        // No budget keeps content out of a segment that counts in none.
        let rest = [(44, VRAM), (25, EXTRA)].map(|(pages, segment)| create(&mut mm, device, pages, &[segment]));
        mm.make_resident(device, &rest).expect("both segments to the last page");
        assert_eq!(mm.bytes_over_budget(space), 0, "{flags:?}");
        mm.check_invariants(&[]).expect("figures of what counts in no budget agree");
    }
}

/// Most turns divide nothing; what is told is what dividing everything each time would tell.
#[test]
fn what_is_told_of_budgets_is_what_dividing_them_each_time_would_tell() {
    // spec: memory §5.5
    let groups = [SegmentGroup::Local, SegmentGroup::NonLocal];
    let (mut told_at_all, mut still) = (0, 0);
    for seed in 1..=40u64 {
        let mut random = seed;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        let (mut mm, space, one) = with_device(2048);
        let mut processes = vec![(space, one)];
        let mut told = std::collections::BTreeMap::new();
        let mut listed: Vec<(usize, AllocationId)> = Vec::new();
        for _ in 0..200 {
            match next(12) {
                0 if processes.len() < 6 => {
                    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
                    processes.push((space, mm.create_device(space)));
                }
                1 => {
                    let (space, _) = processes[next(processes.len() as u64) as usize];
                    let class = [ProcessPriority::Background, ProcessPriority::Normal, ProcessPriority::Foreground];
                    mm.set_process_priority(space, class[next(3) as usize]);
                }
                2 => {
                    let (space, _) = processes[next(processes.len() as u64) as usize];
                    mm.set_budget(space, SegmentGroup::Local, (next(2) == 0).then(|| next(2048) * PAGE_BYTES));
                }
                3 => {
                    let (space, _) = processes[next(processes.len() as u64) as usize];
                    let _ = mm.change_reservation(space, SegmentGroup::Local, next(512) * PAGE_BYTES);
                }
                4 | 5 if !listed.is_empty() => {
                    let (process, id) = listed.swap_remove(next(listed.len() as u64) as usize);
                    mm.evict(processes[process].1, &[id], LAZY, &[]).expect("counted");
                }
                _ => {
                    let process = next(processes.len() as u64) as usize;
                    let device = processes[process].1;
                    let segment = if next(4) == 0 { APERTURE } else { VRAM };
                    let most = if next(5) == 0 { 400 } else { 12 };
                    let id = create(&mut mm, device, 1 + next(most), &[segment]);
                    match mm.make_resident(device, &[id]) {
                        Ok(work) => {
                            work.into_iter().for_each(|work| mm.completed(work.serial));
                            listed.push((process, id));
                        }
                        Err(_) => drop(mm.destroy_allocation(id, &[])),
                    }
                }
            }
            let mut expected = Vec::new();
            for (space, group) in processes.iter().flat_map(|(space, _)| groups.map(|group| (*space, group))) {
                let budget_bytes = mm.processes.budget_bytes(space, group);
                let before = told.entry((space, group as usize)).or_insert(budget_bytes);
                if before.abs_diff(budget_bytes) > mm.group_bytes(group) >> mm.policy.budget_step_shift {
                    *before = budget_bytes;
                    expected.push(crate::BudgetChange { space, group, budget_bytes });
                }
            }
            expected.sort_by_key(|change| (change.space, change.group as usize));
            still += u32::from(mm.processes.is_still());
            let mut changes = mm.budget_changes();
            changes.sort_by_key(|change| (change.space, change.group as usize));
            told_at_all += changes.len();
            assert_eq!(changes, expected, "seed {seed}");
        }
    }
    assert!(told_at_all > 100 && still > 1000, "{told_at_all} told, {still} turns divided nothing");
}

#[test]
fn the_list_of_a_dead_device_is_evicted_lazily() {
    let (mut mm, space, one) = with_device(64);
    let two = mm.create_device(space);
    let a = create(&mut mm, one, 64, &[VRAM]);
    let b = create(&mut mm, one, 10, &[VRAM]);
    mm.make_resident(two, &[a]).expect("it fits");
    assert!(mm.make_resident(one, &[b]).is_err());
    mm.destroy_device(two, &[point(4, 2)]);
    let work = mm.make_resident(one, &[b]).expect("a is a victim").expect("it moves");
    assert_eq!(work.after, [point(4, 2)]);
    assert_eq!(work.moves[0].kind, crate::MoveKind::PageOut);
}

/// A step of 3,500 operations over 900 tensors of together four times the memory, in 4-KB pages: operations stay few
/// because content stays in long runs.
#[test]
fn a_large_step_stays_in_long_runs() {
    const GB: u64 = 1 << 18; // pages
    const TABLES: u64 = 1 << 17;
    let bits = [9, 9, 9, 9];
    let policy =
        Policy { page_table_reserve: Pages(TABLES), ..Policy::new(PageRun { first: 0, count: Pages(512 * GB) }) };
    let mut vram = vram_descriptor(0, SegmentFlags::empty());
    vram.size_bytes = (48 * GB + TABLES) * PAGE_BYTES;
    let mut mm: Mm = VidMm::new(policy, &[vram, aperture_descriptor(64)], mmu(&bits), &levels(&bits)).expect("rules");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let mut random = 12345u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    let tensors: Vec<(AllocationId, u64)> = (0..900)
        .map(|_| {
            let pages = 1 + next(GB / 2);
            let allocation = create(&mut mm, device, pages, &[VRAM]);
            let request = MapRequest {
                target: Target::Allocation { allocation, offset_pages: Pages(0) },
                size_pages: Pages(pages),
                base: None,
                minimum: GpuVa::NULL,
                maximum: GpuVa::NULL,
                protection: Protection::READ_WRITE,
            };
            mm.map_gpu_va(space, request).expect("room");
            (allocation, pages)
        })
        .collect();
    let (mut operations, mut copies, mut moved, mut touched) = (0, 0, 0u64, 0u64);
    for step in 0..3500u64 {
        // Forward and back again with some disorder, as a training step goes.
        let at = if step % 1800 < 900 { step % 900 } else { 899 - step % 900 };
        let list: Vec<AllocationId> = [at, (at + 1) % 900, next(900)].map(|i| tensors[i as usize].0).into();
        touched += list.iter().map(|&id| mm.allocation_bytes(id)).sum::<u64>();
        if let Some(work) = mm.make_resident(device, &list).expect("victims suffice") {
            operations += work.operations.len();
            copies += work.operations.iter().filter(|o| matches!(o, crate::Operation::Transfer { .. })).count() as u64;
            let moves = work.moves.iter().filter(|m| m.kind != crate::MoveKind::Discard);
            moved += moves.map(|m| m.bytes).sum::<u64>();
            mm.completed(work.serial);
        }
        let flags = EvictFlags { not_written_to: step % 3 != 0, ..LAZY };
        mm.evict(device, &list, flags, &[point(0, step)]).expect("counted");
    }
    println!("touched {} GB, moved {} GB, {operations} operations, {copies} copies", touched >> 30, moved >> 30);
    assert!(moved > 100 << 30, "the step does not fit and must move content");
    assert!(copies * (1 << 20) < moved, "a copy moves a megabyte on average at least");
}
