//! The lock of WDDM 1: ranges, the form of marked content, evictions for want of a range.

use ddi::{AllocationFlags, DriverModel, SegmentFlags};
use wddm_types::{CpuPlace, CpuRun, PAGE_BYTES, PageRun, Pages};

use super::world::*;
use crate::segment::{MemoryLayout, SegmentDescription};
use crate::{
    AllocationId, Cause, DeviceId, EvictFlags, Form, LegacyLock, LockError, MakeResidentError, MoveKind, OfferFlags,
    OfferPriority, Operation, PortionError, ReclaimResult, SpaceKind, VidMm, Work,
};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };
const PLAIN: LegacyLock = LegacyLock { acquire: None, donot_evict: false };

fn through(data: u32) -> LegacyLock {
    LegacyLock { acquire: Some(data), donot_evict: false }
}

/// 32 pages behind the BAR, an aperture, so many ranges.
fn first_generation(ranges: u32) -> (Mm, DeviceId) {
    let bits = [5, 5, 6];
    let segments = [vram_descriptor(32, SegmentFlags::CPU_VISIBLE), aperture_descriptor(64)];
    let layout = MemoryLayout::new(DriverModel::Wddm1, segments.iter().map(SegmentDescription::from).collect());
    let mut mm: Mm = VidMm::new(policy(), layout, mmu(&bits), &levels(&bits)).expect("the description keeps the rules");
    mm.set_swizzling_ranges(ranges);
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, device)
}

fn surface(mm: &mut Mm, device: DeviceId, pages: u64, marked: bool) -> AllocationId {
    let mut info = info(pages, &[VRAM, APERTURE]);
    info.read_segments = info.supported_segments;
    info.flags = AllocationFlags::CPU_VISIBLE | AllocationFlags::ACCESSED_PHYSICALLY;
    info.flags.set(AllocationFlags::SWIZZLED, marked);
    mm.create_allocation(device, info).expect("it fits")
}

/// In memory, on no list, written by the GPU.
fn left_behind(mm: &mut Mm, device: DeviceId, id: AllocationId) {
    mm.make_resident(device, &[id]).expect("it fits");
    mm.evict(device, &[id], LAZY, &[]).expect("counted");
}

fn forms(work: &Option<Work<u8>>) -> Vec<Form> {
    let operations = work.iter().flat_map(|work| &work.operations);
    let form = |operation: &Operation| match operation {
        Operation::Transfer { form, .. } => Some(*form),
        _ => None,
    };
    operations.filter_map(form).collect()
}

#[test]
fn a_range_shows_a_surface_where_it_lies_and_is_kept() {
    // spec: memory §6.5, memory §1.7
    // seed: M15, M32, M33, M34
    let (mut mm, device) = first_generation(2);
    let a = surface(&mut mm, device, 4, false);
    left_behind(&mut mm, device, a);
    let plan = mm.lock_legacy(a, through(3)).expect("there is a range");
    let run = PageRun { first: VRAM_BAR / PAGE_BYTES, count: Pages(4) };
    assert_eq!(
        plan.runs,
        [CpuRun { place: CpuPlace::Bar, run }],
        "its place in the segment is its place in the window"
    );
    assert_eq!(plan.work, None);
    let wish = plan.range.expect("to be acquired");
    assert_eq!((wish.release, wish.acquire.private_driver_data, wish.segment), (None, 3, VRAM));
    assert_eq!((wish.range_bytes, wish.cpu_translated_address), (4 * PAGE_BYTES, VRAM_BAR));
    assert_eq!(mm.lock_legacy(a, through(3)).expect("nested").range, None, "it is acquired");
    let level = mm.lock_legacy(a, through(4)).expect("nested").range.expect("another level, another range");
    assert_ne!(level.acquire.range, wish.acquire.range);
    for last in [false, false, true] {
        assert_eq!(mm.unlock(a), Ok(last));
    }
    assert_eq!(mm.lock_legacy(a, through(3)).expect("again").range, None, "it was kept");
    mm.unlock(a).expect("locked");
    let b = surface(&mut mm, device, 2, false);
    left_behind(&mut mm, device, b);
    let plan = mm.lock_legacy(b, through(0)).expect("a kept one goes");
    let (frame, pages) = frames(&mm, b)[0];
    let run = PageRun { first: VRAM_BAR / PAGE_BYTES + frame, count: Pages(pages) };
    assert_eq!((frame, pages, plan.runs), (4, 2, vec![CpuRun { place: CpuPlace::Bar, run }]), "behind the first");
    let wish = plan.range.expect("to be acquired");
    assert_eq!(wish.cpu_translated_address, VRAM_BAR + frame * PAGE_BYTES);
    assert_eq!(wish.release.map(|held| held.range), Some(wish.acquire.range), "released before it is acquired");
}

#[test]
fn without_a_range_it_is_evicted_unless_the_caller_forbids_it() {
    // spec: memory §6.5
    // seed: M35
    let (mut mm, device) = first_generation(1);
    let (a, b) = (surface(&mut mm, device, 4, false), surface(&mut mm, device, 4, false));
    left_behind(&mut mm, device, a);
    left_behind(&mut mm, device, b);
    mm.lock_legacy(a, through(0)).expect("the only range");
    let forbidden = LegacyLock { donot_evict: true, ..through(0) };
    assert_eq!(mm.lock_legacy(b, forbidden), Err(LockError::NeedsEviction));
    assert!(!mm.is_locked(b) && mm.is_resident(b), "nothing has changed");
    let plan = mm.lock_legacy(b, through(0)).expect("in system memory");
    let work = plan.work.expect("a copy out");
    assert_eq!((work.moves[0].kind, work.moves[0].cause), (MoveKind::PageOut, Cause::Lock));
    assert!(plan.range.is_none() && plan.runs.iter().all(|run| run.place == CpuPlace::System));
    // seed: M36
    mm.unlock(b).expect("locked");
    let again = mm.lock_legacy(b, through(0)).expect("it lies in system memory");
    assert_eq!((again.work, again.range), (None, None), "the lock asks for no range");
    // A driver that says no leads to the same.
    let (mut mm, device) = first_generation(1);
    let a = surface(&mut mm, device, 4, false);
    left_behind(&mut mm, device, a);
    let wish = mm.lock_legacy(a, through(0)).expect("planned").range.expect("to be acquired");
    assert_eq!(mm.range_failed(a, &wish, forbidden), Err(LockError::NeedsEviction));
    assert!(!mm.is_locked(a));
    let wish = mm.lock_legacy(a, through(0)).expect("planned").range.expect("the range is free again");
    let plan = mm.range_failed(a, &wish, through(0)).expect("out");
    assert!(plan.work.is_some() && mm.is_locked(a));
}

#[test]
fn a_lock_that_finds_no_range_and_may_not_evict_has_changed_nothing() {
    // spec: memory §6.5, memory §9.3
    let (mut mm, device) = first_generation(1);
    let a = surface(&mut mm, device, 4, false);
    mm.make_resident(device, &[a]).expect("it fits");
    let before = mm.state_digest();
    let forbidden = LegacyLock { donot_evict: true, ..through(0) };
    let wish = mm.lock_legacy(a, forbidden).expect("planned").range.expect("to be acquired");
    assert_eq!(mm.range_failed(a, &wish, forbidden), Err(LockError::NeedsEviction));
    assert_eq!(before.differences(&mm.state_digest()), [""; 0], "clean content among it: no CPU write happened");
}

#[test]
fn what_is_evicted_while_locked_gives_its_range_up_and_stays_out() {
    // spec: memory §6.5, memory §6.3
    // seed: M38
    let (mut mm, device) = first_generation(1);
    let a = surface(&mut mm, device, 20, false);
    left_behind(&mut mm, device, a);
    let wish = mm.lock_legacy(a, through(0)).expect("a range").range.expect("to be acquired");
    let b = surface(&mut mm, device, 20, false);
    let work = mm.make_resident(device, &[b]).expect("its room is taken").expect("moves");
    let rotation = &work.rotations[0];
    assert_eq!(rotation.ranges, [wish.acquire], "released when the CPU sees system memory");
    assert!(rotation.runs.iter().all(|run| run.place == CpuPlace::System) && work.ranges.is_empty());
    mm.evict(device, &[b], NOW, &[]).expect("counted");
    let work = mm.make_resident(device, &[a]).expect("in the aperture").expect("mapped there");
    assert!(work.rotations.is_empty() && mm.resident_bytes(VRAM) == 0, "in memory the CPU would see tiles");
    let c = surface(&mut mm, device, 2, false);
    left_behind(&mut mm, device, c);
    assert_eq!(mm.lock_legacy(c, LegacyLock { donot_evict: true, ..through(0) }), Err(LockError::NeedsEviction));
    mm.ranges_released(&rotation.ranges.clone());
    assert!(mm.lock_legacy(c, through(0)).expect("free again").range.is_some());
}

#[test]
fn what_is_locked_is_rendered_from_outside_local_memory() {
    // spec: memory §6.5
    let (mut mm, device) = first_generation(1);
    let [a, marked] = [false, true].map(|marked| surface(&mut mm, device, 4, marked));
    let mut described = *mm.info(a);
    (described.supported_segments, described.read_segments) = (set(&[VRAM]), set(&[VRAM]));
    let only = mm.create_allocation(device, described).expect("it fits");
    for id in [a, marked, only] {
        left_behind(&mut mm, device, id);
        assert_eq!(mm.render_from_locked(id), Ok(None), "it is not locked");
    }
    mm.lock_legacy(marked, through(0)).expect("a range");
    assert_eq!(mm.render_from_locked(marked), Err(PortionError::Locked), "not for an aperture");
    mm.lock_legacy(only, PLAIN).expect("behind the BAR");
    assert_eq!(mm.render_from_locked(only), Err(PortionError::Locked), "it has no other place");
    mm.lock_legacy(a, PLAIN).expect("behind the BAR");
    let work = mm.render_from_locked(a).expect("an aperture is supported").expect("it leaves");
    assert_eq!((work.moves[0].kind, work.moves[0].cause), (MoveKind::PageOut, Cause::Lock));
    assert_eq!(work.rotations.len(), 1, "the CPU goes on seeing it");
    assert_eq!(mm.render_from_locked(a), Ok(None), "it is out");
    mm.make_resident(device, &[a]).expect("in an aperture");
    assert_eq!(mm.resident_bytes(VRAM), 8 * PAGE_BYTES, "not back while it is locked");
    mm.unlock(a).expect("locked");
    // With a list that holds it, it stays within the GPU's reach all along.
    mm.evict(device, &[a], NOW, &[]).expect("counted");
    mm.make_resident(device, &[a]).expect("room");
    assert_eq!(mm.resident_bytes(VRAM), 12 * PAGE_BYTES);
    mm.lock_legacy(a, PLAIN).expect("behind the BAR");
    let work = mm.render_from_locked(a).expect("an aperture is supported").expect("it leaves");
    assert_eq!(work.quiesced, [device]);
    assert!(mm.is_resident(a));
}

#[test]
fn marked_content_is_followed_through_its_forms() {
    // spec: memory §6.5
    // seed: M37
    let (mut mm, device) = first_generation(1);
    let a = surface(&mut mm, device, 4, true);
    left_behind(&mut mm, device, a);
    mm.make_resident(device, &[a]).expect("there already");
    assert_eq!(
        forms(&mm.evict(device, &[a], NOW, &[]).expect("counted")),
        [Form::Kept],
        "evicted for no lock: swizzled as it is"
    );
    let back = mm.page_in_for_lock(a, PLAIN).expect("room");
    assert_eq!(forms(&back), [Form::Kept], "and back");
    let plan = mm.lock_legacy(a, PLAIN).expect("without a range it goes out");
    assert_eq!(forms(&plan.work), [Form::Unswizzle]);
    assert_eq!(mm.make_resident(device, &[a]), Err(MakeResidentError::Locked { allocation: a }), "not while locked");
    mm.unlock(a).expect("locked");
    assert_eq!(mm.page_in_for_lock(a, PLAIN), Ok(None), "it is linear");
    assert_eq!(mm.lock_legacy(a, through(0)).expect("as it is").work, None);
    mm.unlock(a).expect("locked");
    assert_eq!(forms(&mm.make_resident(device, &[a]).expect("room")), [Form::Swizzle]);
    assert_eq!(mm.lock_legacy(a, PLAIN), Err(LockError::CantLock), "a list needs it swizzled");
    mm.evict(device, &[a], LAZY, &[]).expect("counted");
    assert!(mm.lock_legacy(a, through(0)).expect("a range").range.is_some());
    // Taken while it is locked: the CPU goes on reading it in order.
    let b = surface(&mut mm, device, 30, false);
    let work = mm.make_resident(device, &[b]).expect("its room is taken");
    assert_eq!(forms(&work), [Form::Unswizzle]);
}

#[test]
fn content_that_is_lost_needs_no_room_to_be_locked() {
    // spec: memory §6.5, memory §5.9
    let low = OfferPriority::Low;
    for (how, wanted, expected) in [
        ("given up with its backing store", true, ReclaimResult::Discarded),
        ("discarded in its segment", true, ReclaimResult::Discarded),
        ("not asked for", false, ReclaimResult::Ok),
    ] {
        let (mut mm, device) = first_generation(1);
        let a = surface(&mut mm, device, 20, true);
        mm.make_resident(device, &[a]).expect("it fits");
        let work = mm.evict(device, &[a], NOW, &[]).expect("counted").expect("a copy out");
        mm.completed(work.serial);
        if how.starts_with("discarded") {
            left_behind(&mut mm, device, a);
        }
        mm.offer(device, &[a], low, OfferFlags { allow_decommit: true }, &[]).expect("not offered");
        if how.starts_with("given up") {
            mm.decommit_for(mm.free_system_pages().0 + 1);
        }
        let b = surface(&mut mm, device, 32, false);
        mm.make_resident(device, &[b]).expect("its room is taken");
        let back = mm.reclaim_with(device, &[a], wanted).expect("it was offered");
        assert_eq!((back.results, back.work), (vec![expected], None), "{how}");
        assert_eq!(mm.page_in_for_lock(a, PLAIN), Ok(None), "{how}: there is nothing in tiles");
        let plan = mm.lock_legacy(a, PLAIN).expect("as it is");
        assert_eq!((plan.work, plan.clear), (None, mm.backing(a).to_vec()), "{how}: and no old bytes");
        mm.check_invariants(&[]).expect("all rules hold");
    }
}

#[test]
fn ranges_go_with_their_content() {
    // spec: memory §6.5
    let (mut mm, device) = first_generation(2);
    let a = surface(&mut mm, device, 4, false);
    left_behind(&mut mm, device, a);
    let wish = mm.lock_legacy(a, through(0)).expect("a range").range.expect("to be acquired");
    mm.unlock(a).expect("locked");
    mm.make_resident(device, &[a]).expect("there already");
    let work = mm.evict(device, &[a], NOW, &[]).expect("counted").expect("a copy out");
    assert_eq!(work.ranges, [wish.acquire], "it is not locked: at once");
    left_behind(&mut mm, device, a);
    let wish = mm.lock_legacy(a, through(0)).expect("a range").range.expect("to be acquired");
    let work = mm.destroy_allocation(a, &[]).expect("it leaves");
    assert_eq!(work.ranges, [wish.acquire], "the lock ends with it");
    assert_eq!(mm.release_kept_range(), None);
}

#[test]
fn a_lock_without_a_range_is_not_followed_by_one_with() {
    // spec: memory §6.5
    let (mut mm, device) = first_generation(1);
    let a = surface(&mut mm, device, 4, false);
    left_behind(&mut mm, device, a);
    mm.lock_legacy(a, PLAIN).expect("as it lies");
    assert_eq!(mm.lock_legacy(a, through(0)), Err(LockError::NotAcquired));
    let invisible = {
        let mut info = info(2, &[VRAM, APERTURE]);
        info.read_segments = info.supported_segments;
        info.flags = AllocationFlags::ACCESSED_PHYSICALLY;
        mm.create_allocation(device, info).expect("it fits")
    };
    assert_eq!(mm.lock_legacy(invisible, PLAIN), Err(LockError::CantLock), "not CPU-visible");
}

#[test]
fn lock2_holds_the_ranges_of_what_it_locks() {
    // spec: memory §6.3, memory §6.5
    let (mut mm, device) = first_generation(1);
    let [a, b] = [4; 2].map(|pages| surface(&mut mm, device, pages, false));
    for id in [a, b] {
        left_behind(&mut mm, device, id);
    }
    mm.lock_legacy(a, through(0)).expect("the only range");
    mm.unlock(a).expect("locked");
    mm.lock(a).expect("behind the BAR");
    mm.check_invariants(&[]).expect("the kept range is in use again");
    let forbidden = LegacyLock { donot_evict: true, ..through(0) };
    assert_eq!(mm.lock_legacy(b, forbidden), Err(LockError::NeedsEviction), "it shows what is locked");
    mm.unlock(a).expect("locked");
    let wish = mm.lock_legacy(b, forbidden).expect("a range").range.expect("to be acquired");
    assert_eq!(wish.release.map(|held| held.range), Some(wish.acquire.range), "the range is kept again, and goes");
}

#[test]
fn a_reset_releases_every_range() {
    // spec: memory §3.5, memory §6.5
    let (mut mm, device) = first_generation(2);
    let (seen, kept) = (surface(&mut mm, device, 4, false), surface(&mut mm, device, 4, true));
    let mut ranges = Vec::new();
    for id in [seen, kept] {
        left_behind(&mut mm, device, id);
        ranges.push(mm.lock_legacy(id, through(0)).expect("a range").range.expect("to be acquired").acquire);
    }
    mm.unlock(kept).expect("locked");
    let mut released = mm.lost_memory().ranges;
    released.sort_unstable_by_key(|held| held.range);
    assert_eq!(released, ranges, "whether the CPU looks or not");
}

#[test]
fn a_lock_keeps_out_marked_content_only_and_only_from_where_it_is_not() {
    // spec: memory §6.3, memory §6.5, memory §10.1 row 23
    for marked in [false, true] {
        let (mut mm, device) = first_generation(2);
        let [there, outside] = [4; 2].map(|pages| surface(&mut mm, device, pages, marked));
        mm.make_resident(device, &[there]).expect("it fits");
        for id in [there, outside] {
            mm.lock_legacy(id, through(0)).expect("behind a range, or in system memory");
        }
        assert!(!mm.is_kept_out(there), "it is there already");
        assert_eq!(mm.is_kept_out(outside), marked, "other content goes behind the aperture");
        mm.unlock(outside).expect("locked");
        assert!(!mm.is_kept_out(outside));
    }
}
