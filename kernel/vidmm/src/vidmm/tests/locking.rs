//! Lock2: what is shown, what moves, what stays where it is.

use ddi::{AllocationFlags, AllocationInfo, SegmentFlags};
use wddm_types::{CpuPlace, CpuRun, PAGE_BYTES, PageRun, Pages};

use super::world::*;
use crate::{
    AllocationId, Cause, DeviceId, EvictFlags, LockError, MakeResidentError, MoveKind, Origin, SpaceKind, VidMm,
};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const BAR: SegmentFlags = SegmentFlags::CPU_VISIBLE;
const WINDOW: SegmentFlags = SegmentFlags::SUPPORTS_CPU_HOST_APERTURE;

fn device_over(flags: SegmentFlags) -> (Mm, DeviceId) {
    let mut mm = adapter(64, flags);
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, device)
}

fn visible(mm: &mut Mm, device: DeviceId, pages: u64, cached: bool) -> AllocationId {
    let mut info = info(pages, &[VRAM, APERTURE]);
    info.flags = AllocationFlags::CPU_VISIBLE;
    info.flags.set(AllocationFlags::CACHED, cached);
    mm.create_allocation(device, info).expect("it fits")
}

fn system(runs: &[PageRun]) -> Vec<CpuRun> {
    runs.iter().copied().map(CpuRun::system).collect()
}

fn bar(frame: u64, count: u64) -> Vec<CpuRun> {
    let run = PageRun { first: VRAM_BAR / PAGE_BYTES + frame, count: Pages(count) };
    vec![CpuRun { place: CpuPlace::Bar, run }]
}

#[test]
fn a_lock_of_what_is_not_resident_shows_the_backing_store() {
    // spec: memory §6.3
    // seed: M36
    // seed: U17
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 4, &[VRAM, APERTURE]);
    let plan = mm.lock(a).expect("not resident");
    assert_eq!((plan.work, plan.wait_for, plan.window), (None, None, None));
    assert_eq!(plan.clear, mm.backing(a), "it was never written");
    assert_eq!(plan.runs, system(mm.backing(a)));
    let nested = mm.lock(a).expect("locks nest");
    assert!(nested.clear.is_empty(), "the CPU may have written it");
    assert_eq!(nested.runs, plan.runs, "the same address");
    assert_eq!((mm.unlock(a), mm.unlock(a), mm.unlock(a)), (Ok(false), Ok(true), Err(LockError::NotLocked)));
}

#[test]
fn leftovers_are_written_out_first() {
    // spec: memory §6.3 row 8, §10.4 item 10
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 4, &[VRAM, APERTURE]);
    mm.make_resident(device, &[a]).expect("it fits");
    mm.evict(device, &[a], LAZY, &[point(1, 1)]).expect("counted");
    let plan = mm.lock(a).expect("on no list");
    let work = plan.work.expect("a copy out");
    assert_eq!(work.quiesced, []);
    assert_eq!((work.moves[0].cause, work.moves[0].bytes), (Cause::Lock, 4 * PAGE_BYTES));
    assert_eq!((work.after, plan.wait_for), (vec![point(1, 1)], Some(work.serial)));
    assert_eq!(mm.resident_bytes(VRAM), 0);
    mm.unlock(a).expect("locked");
    mm.completed(work.serial);
    assert_eq!(mm.lock(a).expect("not resident").wait_for, None);
}

#[test]
fn what_a_list_holds_goes_to_system_memory_and_stays_within_the_gpus_reach() {
    // spec: memory §6.3, memory §10.1
    // seed: U13
    // seed: U18
    for (flags, cached) in [(BAR, true), (SegmentFlags::empty(), false)] {
        let (mut mm, device) = device_over(flags);
        let a = visible(&mut mm, device, 4, cached);
        mm.make_resident(device, &[a]).expect("it fits");
        let plan = mm.lock(a).expect("it supports an aperture");
        let work = plan.work.expect("a copy out");
        assert_eq!((work.quiesced, work.after), (vec![device], vec![]), "its device quiesces meanwhile");
        let copied = (work.moves[0].kind, work.moves[0].cause, work.moves[0].bytes);
        assert_eq!(copied, (MoveKind::PageOut, Cause::Lock, 4 * PAGE_BYTES), "the GPU may have written");
        assert_eq!(plan.runs, system(mm.backing(a)));
        assert!(mm.is_resident(a), "S4");
        assert_eq!(mm.resident_bytes(VRAM), 0);
        assert_eq!(mm.make_resident(device, &[a]), Ok(None), "it stays there until the unlock");
        mm.unlock(a).expect("locked");
    }
}

#[test]
fn a_lock_behind_the_bar_moves_nothing_and_never_fails() {
    // spec: memory §6.3, memory §1.7
    // seed: M15, M27, M31, M32
    // seed: U12
    // seed: U14
    let (mut mm, device) = device_over(BAR);
    let a = visible(&mut mm, device, 4, false);
    let commit = mm.make_resident(device, &[a]).expect("it fits").expect("it moves").serial;
    let plan = mm.lock(a).expect("always");
    assert_eq!((plan.work, plan.runs, plan.wait_for), (None, bar(0, 4), Some(commit)));
    assert!(plan.clear.is_empty());
    // The CPU's writes are kept, even if the GPU wrote nothing.
    let clean = EvictFlags { not_written_to: true, ..EvictFlags::default() };
    let work = mm.evict(device, &[a], clean, &[]).expect("counted").expect("a copy out");
    assert_eq!(work.moves[0].kind, MoveKind::PageOut);
    assert_eq!((work.rotations.len(), &work.rotations[0].runs), (1, &system(mm.backing(a))));
    let work = mm.make_resident(device, &[a]).expect("room").expect("it moves");
    assert_eq!((work.moves[0].kind, &work.rotations[0].runs), (MoveKind::PageIn, &bar(0, 4)));
    assert_eq!(mm.lock(a).expect("nested").runs, bar(0, 4));
}

/// Each segment has an origin on the bus, each extent its offset from there; an origin without CpuVisible means nothing.
#[test]
fn every_extent_is_seen_at_its_offset_from_the_origin_of_its_own_segment() {
    // spec: memory §1.7, memory §6.3
    // seed: M15, M32
    let mut mm = adapter_of_two(64, BAR);
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    for (segment, origin, blocks) in [(EXTRA, EXTRA_BAR, 4), (VRAM, VRAM_BAR, 8)] {
        let mut seen_by_cpu = info(8, &[segment, APERTURE]);
        seen_by_cpu.flags = AllocationFlags::CPU_VISIBLE;
        let made: Vec<_> = (0..blocks).map(|_| mm.create_allocation(device, seen_by_cpu).expect("it fits")).collect();
        for &id in &made {
            mm.make_resident(device, &[id]).expect("room");
        }
        for id in [made[1], made[3]] {
            let work = mm.evict(device, &[id], EvictFlags::default(), &[]).expect("counted").expect("it leaves");
            mm.completed(work.serial);
        }
        let parted = mm.create_allocation(device, AllocationInfo { size_bytes: 12 * PAGE_BYTES, ..seen_by_cpu });
        let parted = parted.expect("it fits");
        mm.make_resident(device, &[parted]).expect("room in two places");
        assert_eq!(frames(&mm, parted).len(), 2, "{segment:?}");
        for id in [made[0], made[2], parted] {
            let run = |(frame, pages)| PageRun { first: origin / PAGE_BYTES + frame, count: Pages(pages) };
            let expected: Vec<_> =
                frames(&mm, id).into_iter().map(|place| CpuRun { place: CpuPlace::Bar, run: run(place) }).collect();
            assert_eq!(mm.lock(id).expect("always").runs, expected, "{segment:?}");
        }
    }
    let hidden = [vram_descriptor(64, BAR), aperture_descriptor(64), vram_descriptor(32, SegmentFlags::empty())];
    let [seen, aperture, mut unseen] = hidden;
    unseen.base_address = EXTRA_BASE;
    let bits = [5, 5, 6];
    let mut mm: Mm = VidMm::new(policy(), &[seen, aperture, unseen], mmu(&bits), &levels(&bits)).expect("the rules");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let places = [VRAM, EXTRA].map(|segment| {
        let mut seen_by_cpu = info(8, &[segment, APERTURE]);
        seen_by_cpu.flags = AllocationFlags::CPU_VISIBLE;
        let id = mm.create_allocation(device, seen_by_cpu).expect("it fits");
        mm.make_resident(device, &[id]).expect("room");
        mm.lock(id).expect("it may leave").runs[0].place
    });
    assert_eq!(places, [CpuPlace::Bar, CpuPlace::System]);
}

#[test]
fn a_window_shows_what_the_bus_does_not() {
    // spec: memory §6.6, memory §6.3
    // seed: U15
    // seed: U21
    // seed: U22
    // seed: U24
    let (mut mm, device) = device_over(WINDOW);
    let [a, b] = [20, 8].map(|pages| visible(&mut mm, device, pages, false));
    mm.make_resident(device, &[a, b]).expect("they fit");
    let plan = mm.lock(a).expect("a window");
    let map = plan.window.expect("new");
    assert_eq!((plan.work, map.window_pages.len(), map.memory_pages.len()), (None, 20, 20));
    assert!(plan.runs.iter().all(|run| run.place == CpuPlace::HostAperture));
    assert_eq!(mm.lock(a).expect("nested").window, None);
    // The window has 24 pages: the second lock falls back to system memory.
    let fallback = mm.lock(b).expect("it supports an aperture");
    assert_eq!((fallback.window, fallback.work.expect("a copy out").moves[0].cause), (None, Cause::Lock));
    // A locked one that is evicted leaves its window only when the CPU is shown another medium.
    let work = mm.evict(device, &[a], EvictFlags::default(), &[]).expect("counted").expect("a copy out");
    let left = work.rotations[0].unmap.clone().expect("its window");
    assert_eq!((left.pages.len(), &work.rotations[0].runs), (20, &system(mm.backing(a))));
    mm.window_unmapped(&left);
}

#[test]
fn a_kept_window_goes_with_the_content() {
    // spec: memory §6.6
    let (mut mm, device) = device_over(WINDOW);
    let a = visible(&mut mm, device, 4, false);
    mm.make_resident(device, &[a]).expect("it fits");
    mm.lock(a).expect("a window");
    mm.unlock(a).expect("locked");
    assert_eq!(mm.lock(a).expect("kept").window, None, "the driver is not called again");
    mm.unlock(a).expect("locked");
    let work = mm.evict(device, &[a], EvictFlags::default(), &[]).expect("counted").expect("a copy out");
    assert_eq!((work.unmap.len(), work.unmap[0].pages.len(), work.rotations.len()), (1, 4, 0));
}

#[test]
fn a_driver_that_maps_no_window_is_no_address() {
    // spec: memory §6.6, memory §6.3
    let (mut mm, device) = device_over(WINDOW);
    let a = visible(&mut mm, device, 4, false);
    mm.make_resident(device, &[a]).expect("it fits");
    let map = mm.lock(a).expect("a window").window.expect("new");
    let plan = mm.window_failed(a, &map).expect("an aperture is supported");
    assert_eq!((plan.runs, mm.is_locked(a)), (system(mm.backing(a)), true));
    let work = plan.work.expect("a copy out");
    assert!(work.rotations.is_empty() && work.unmap.is_empty());
}

#[test]
fn what_is_visible_on_demand_and_every_primary_are_locked_where_they_lie() {
    // spec: memory §2.2 bit 18, memory §2.7
    for (flags, primary) in [(AllocationFlags::CPU_VISIBLE_ON_DEMAND, false), (AllocationFlags::empty(), true)] {
        let (mut mm, device) = device_over(BAR);
        let described = AllocationInfo { flags, ..info(4, &[VRAM, APERTURE]) };
        let a = mm.create_allocation_from(device, described, Origin { primary, existing: None }).expect("it is small");
        mm.make_resident(device, &[a]).expect("it fits");
        let plan = mm.lock(a).expect("always");
        assert_eq!((plan.work, plan.runs), (None, bar(0, 4)), "primary: {primary}");
        // And what is locked comes to where the CPU sees it.
        mm.unlock(a).expect("locked");
        mm.evict(device, &[a], EvictFlags::default(), &[]).expect("counted");
        mm.lock(a).expect("not resident");
        mm.make_resident(device, &[a]).expect("it fits");
        assert_eq!(mm.resident_bytes(VRAM), 4 * PAGE_BYTES, "primary: {primary}");
    }
}

#[test]
fn the_locked_stay_out_of_memory_segments() {
    // spec: memory §6.3 requirements, §10.1 row 22, §10.4 item 12
    // seed: U19
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 4, &[VRAM]);
    let b = create(&mut mm, device, 4, &[VRAM, APERTURE]);
    mm.lock(a).expect("not resident");
    mm.lock(b).expect("not resident");
    assert_eq!(mm.make_resident(device, &[b, a]), Err(MakeResidentError::Locked { allocation: a }));
    assert_eq!(mm.count(device, b), 0);
    mm.make_resident(device, &[b]).expect("system memory");
    assert_eq!(mm.resident_bytes(VRAM), 0);
    mm.unlock(a).expect("locked");
    let work = mm.make_resident(device, &[a]).expect("room").expect("it moves");
    assert_eq!(work.moves[0].kind, MoveKind::PageIn, "what the CPU wrote comes along");
    // Locked while not resident without an aperture: not even behind the BAR.
    let (mut mm, device) = device_over(BAR);
    let mut only = info(4, &[VRAM]);
    only.flags = AllocationFlags::CPU_VISIBLE;
    let [c, other] = [0; 2].map(|_| mm.create_allocation(device, only).expect("it fits"));
    for id in [c, c, c, other] {
        mm.lock(id).expect("not resident");
    }
    // Of nested locks only the last unlock lets it in, and that of another allocation does not.
    for (unlocked, last) in [(c, false), (other, true), (c, false), (c, true)] {
        assert_eq!(mm.make_resident(device, &[c]), Err(MakeResidentError::Locked { allocation: c }), "{unlocked:?}");
        assert_eq!(mm.unlock(unlocked), Ok(last));
    }
    assert!(mm.make_resident(device, &[c]).expect("behind the BAR").is_some(), "it comes now");
    mm.lock(other).expect("not resident");
    mm.lock(c).expect("where it lies");
    assert_eq!(mm.make_resident(device, &[other]), Err(MakeResidentError::Locked { allocation: other }), "anew");
}

#[test]
fn resident_without_aperture_cannot_be_locked() {
    // spec: memory §6.3 row 9
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 4, &[VRAM]);
    mm.make_resident(device, &[a]).expect("it fits");
    assert_eq!(mm.lock(a), Err(LockError::CantLock));
    assert!(mm.is_resident(a) && !mm.is_locked(a));
    // spec: memory §10.1 row 27, destroying the locked is no error
    let b = create(&mut mm, device, 4, &[VRAM]);
    mm.lock(b).expect("not resident");
    assert!(mm.destroy_allocation(b, &[]).is_none());
}

#[test]
fn locks_are_counted_up_to_a_limit() {
    // spec: memory §9.3, memory §6.3, memory §10.3
    let (mut mm, _, device) = with_device(64);
    mm.policy.lock_count_max = 2;
    let a = create(&mut mm, device, 4, &[VRAM, APERTURE]);
    mm.lock(a).expect("the first");
    mm.lock(a).expect("the second");
    assert_eq!(mm.lock(a), Err(LockError::TooManyReferences));
    assert_eq!((mm.unlock(a), mm.unlock(a)), (Ok(false), Ok(true)));
}

#[test]
fn devices_quiesce_only_for_a_move_that_takes_place() {
    // spec: memory §6.3 rows 5 and 6, §6.6
    let (mut mm, device) = device_over(WINDOW);
    let [a, b] = [visible(&mut mm, device, 20, false), visible(&mut mm, device, 20, false)];
    mm.make_resident(device, &[a, b]).expect("they fit");
    assert_eq!(mm.lock(a).expect("a window: it has 24 pages").work, None);
    let work = mm.lock(b).expect("the window is full: it moves").work.expect("a copy out");
    assert_eq!(work.quiesced, [device], "its device must not run meanwhile");
    // A refused lock stops no device.
    let (mut mm, _, device) = with_device(64);
    let mut physical = info(40, &[VRAM, APERTURE]);
    physical.flags = AllocationFlags::ACCESSED_PHYSICALLY;
    let c = mm.create_allocation(device, physical).expect("it fits");
    mm.make_resident(device, &[c]).expect("it fits");
    mm.aperture_map_system(APERTURE, PageRun { first: 5, count: Pages(30) }).expect("room");
    assert_eq!(mm.lock(c), Err(LockError::CantLock), "the aperture has no room for it");
    assert!(mm.is_resident(c) && !mm.is_locked(c));
}

#[test]
fn where_clients_see_system_pages_alone_what_is_locked_leaves_its_segment() {
    // spec: memory §6.3 row 5
    let (mut mm, device) = device_over(BAR);
    mm.policy.cpu_reaches_local = false;
    let [a, b] = [visible(&mut mm, device, 4, false), create(&mut mm, device, 4, &[VRAM])];
    mm.make_resident(device, &[a, b]).expect("room");
    let plan = mm.lock(a).expect("it may be in system memory");
    assert!(plan.work.is_some(), "it goes there");
    assert_eq!(plan.runs, system(mm.backing(a)));
    assert_eq!(mm.lock(b), Err(LockError::CantLock), "it may be nowhere else");
}

/// VidMm lists returned pages, so that the kernel can revoke client mappings before the next owner uses them.
#[test]
fn system_pages_are_told_of_when_they_return() {
    let (mut mm, _, device) = with_device(64);
    let [a, b] = [4, 8].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let [of_a, of_b] = [a, b].map(|id| mm.backing(id).to_vec());
    assert!(mm.destroy_allocation(a, &[]).is_none(), "nothing reaches it");
    assert_eq!(mm.take_returned(), of_a);
    mm.make_resident(device, &[b]).expect("room");
    let work = mm.destroy_allocation(b, &[]).expect("it leaves the segment");
    assert!(mm.take_returned().is_empty(), "the ring may still reach them");
    mm.completed(work.serial);
    assert_eq!(mm.take_returned(), of_b);
    assert!(mm.take_returned().is_empty(), "each is told once");
}
