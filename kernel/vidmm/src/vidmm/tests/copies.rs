//! Permanent system copies: what a lock shows, what is copied when, what is not written over (memory §2.2).

use ddi::{AllocationFlags as F, AllocationInfo, DriverModel, SegmentFlags};
use wddm_types::{CpuRun, PAGE_BYTES};

use super::world::*;
use crate::allocation::{AllocationError, Origin, Placement};
use crate::{
    AllocationId, Cause, DeviceId, Direction, EvictFlags, LegacyLock, MemoryLayout, MoveKind, OfferFlags,
    OfferPriority, Operation, SegmentDescription, SpaceKind, VidMm, Work,
};

const COPY: F = F::PERMANENT_SYS_MEM.union(F::CPU_VISIBLE);
const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const UNWRITTEN: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: true };

fn moved(work: &Work<u8>) -> Vec<(MoveKind, Cause, u64)> {
    work.moves.iter().map(|what| (what.kind, what.cause, what.bytes / PAGE_BYTES)).collect()
}

/// Copies of a work: which way, first page of the allocation, pages.
fn copies(work: &Work<u8>) -> Vec<(Direction, u64, u64)> {
    let copy = |operation: &Operation| match operation {
        Operation::Transfer { allocation_offset, size_bytes, direction, .. } => {
            Some((*direction, allocation_offset / PAGE_BYTES, size_bytes / PAGE_BYTES))
        }
        _ => None,
    };
    work.operations.iter().filter_map(copy).collect()
}

fn system(mm: &Mm, id: AllocationId) -> Vec<CpuRun> {
    mm.backing(id).iter().copied().map(CpuRun::system).collect()
}

fn over(flags: SegmentFlags) -> (Mm, DeviceId) {
    let mut mm = adapter(64, flags);
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, device)
}

fn copied(mm: &mut Mm, device: DeviceId, pages: u64) -> AllocationId {
    let described = AllocationInfo { flags: COPY, ..info(pages, &[VRAM, APERTURE]) };
    mm.create_allocation(device, described).expect("it fits")
}

fn in_memory(mm: &Mm, id: AllocationId) -> bool {
    matches!(mm.allocations[id].placement, Placement::Memory(VRAM, _))
}

#[test]
fn a_lock_shows_the_copy_and_the_content_stays_where_it_is() {
    // spec: memory §2.2, memory §6.3
    for flags in [SegmentFlags::CPU_VISIBLE, SegmentFlags::SUPPORTS_CPU_HOST_APERTURE, SegmentFlags::empty()] {
        let (mut mm, device) = over(flags);
        let id = copied(&mut mm, device, 4);
        mm.make_resident(device, &[id]).expect("room");
        assert_eq!(mm.lock_moves(id), Ok(false));
        let plan = mm.lock(id).expect("always");
        assert_eq!((&plan.runs, plan.window), (&system(&mm, id), None), "{flags:?}: never the segment");
        let work = plan.work.expect("the lock copies out the GPU's writes");
        assert_eq!(moved(&work), [(MoveKind::PageOut, Cause::SystemCopy, 4)]);
        assert_eq!((copies(&work), plan.wait_for), (vec![(Direction::Out, 0, 4)], Some(work.serial)));
        assert!(work.quiesced.is_empty() && work.rotations.is_empty(), "no device quiesces and no CPU mapping changes");
        assert!(in_memory(&mm, id));
        let nested = mm.lock(id).expect("locks nest");
        assert_eq!((nested.work, nested.runs), (None, plan.runs), "who writes there is not written over");
        mm.unlock(id).expect("locked");
        mm.unlock(id).expect("locked");
        // Pages 1 and 3 were written.
        let work = mm.upload(id, &[(1, 1), (3, 1)]).expect("an ordinary transfer");
        assert_eq!(moved(&work), [(MoveKind::PageIn, Cause::SystemCopy, 2)], "the pages written, no others");
        assert_eq!(copies(&work), [(Direction::In, 1, 1), (Direction::In, 3, 1)]);
        assert!(in_memory(&mm, id));
        mm.lock(id).expect("again");
        mm.unlock(id).expect("locked");
        assert_eq!(mm.upload(id, &[]), None, "nothing was written");
    }
}

#[test]
fn a_lock_copies_out_only_what_may_be_newer() {
    // spec: memory §2.2, memory §8.3
    let (mut mm, device) = over(SegmentFlags::CPU_VISIBLE);
    let id = copied(&mut mm, device, 4);
    mm.make_resident(device, &[id]).expect("room");
    mm.evict(device, &[id], EvictFlags { only_if_necessary: true, ..UNWRITTEN }, &[]).expect("listed");
    assert!(in_memory(&mm, id), "lazily");
    let plan = mm.lock(id).expect("on no list");
    assert_eq!(plan.work, None, "it was never written");
    assert_eq!(plan.clear, mm.backing(id), "not even the CPU: it reads the clear pattern");
    mm.unlock(id).expect("locked");
    assert_eq!(copies(&mm.upload(id, &[(2, 2)]).expect("written")), [(Direction::In, 2, 2)]);
    let again = mm.lock(id).expect("on no list");
    assert_eq!((again.work, again.clear), (None, Vec::new()), "the copy is what the CPU left");
    mm.unlock(id).expect("locked");
    // Written by what was queued before the evict: the copy waits for that, and so would an upload.
    mm.make_resident(device, &[id]).expect("there");
    mm.evict(device, &[id], LAZY, &[point(1, 7)]).expect("listed");
    let work = mm.lock(id).expect("on no list").work.expect("written");
    assert_eq!((copies(&work), work.after), (vec![(Direction::Out, 0, 4)], vec![point(1, 7)]));
    mm.unlock(id).expect("locked");
    // Clean and with a good copy: thrown away.
    let large = create(&mut mm, device, 64, &[VRAM]);
    let work = mm.make_resident(device, &[large]).expect("it gives way").expect("work");
    assert_eq!(work.moves[0].kind, MoveKind::Discard);
}

#[test]
fn what_leaves_while_it_is_locked_spares_what_the_cpu_writes() {
    // spec: memory §2.2, memory §6.3
    let (mut mm, device) = over(SegmentFlags::CPU_VISIBLE);
    let id = copied(&mut mm, device, 4);
    mm.make_resident(device, &[id]).expect("room");
    let seen = mm.lock(id).expect("always").runs;
    let work = mm.evict(device, &[id], EvictFlags::default(), &[]).expect("listed").expect("out");
    assert_eq!(copies(&work), [(Direction::Out, 0, 4)], "the GPU may have written since");
    let [turn] = &work.rotations[..] else { panic!("{:?}", work.rotations) };
    assert_eq!((turn.allocation, &turn.runs, turn.writes_backing), (id, &seen, true), "the CPU is held meanwhile");
    mm.make_resident(device, &[id]).expect("room");
    assert!(matches!(mm.allocations[id].placement, Placement::System(_)), "not in memory while it is locked");
    mm.unlock(id).expect("locked");
    assert_eq!(mm.upload(id, &[(0, 4)]), None, "it is where the CPU wrote");
    // Not written by the GPU: nothing to spare it from.
    let id = copied(&mut mm, device, 4);
    mm.make_resident(device, &[id]).expect("room");
    mm.lock(id).expect("always");
    let work = mm.evict(device, &[id], UNWRITTEN, &[]).expect("listed").expect("out");
    assert_eq!((work.moves[0].kind, work.rotations.len()), (MoveKind::Discard, 0));
}

/// Part of it would leave the rest to be uploaded, and the CPU to write both.
#[test]
fn under_pressure_a_locked_copy_goes_whole() {
    // spec: memory §2.2
    let (mut mm, device) = over(SegmentFlags::CPU_VISIBLE);
    let id = copied(&mut mm, device, 40);
    mm.make_resident(device, &[id]).expect("room");
    mm.lock(id).expect("always");
    mm.evict(device, &[id], LAZY, &[]).expect("listed");
    let other = create(&mut mm, device, 30, &[VRAM]);
    let work = mm.make_resident(device, &[other]).expect("it gives way").expect("work");
    assert_eq!((copies(&work), work.rotations.len()), (vec![(Direction::Out, 0, 40)], 1));
    assert_eq!(mm.resident_bytes(VRAM), 30 * PAGE_BYTES);
}

#[test]
fn a_permanent_copy_needs_an_aperture_and_clean_content_falls_back_to_it() {
    // spec: memory §2.2, memory §6.3, memory §8.3
    let (mut mm, device) = over(SegmentFlags::CPU_VISIBLE);
    let alone = mm.create_allocation(device, AllocationInfo { flags: COPY, ..info(4, &[VRAM]) });
    assert_eq!(alone, Err(AllocationError::LockNeedsAperture), "what leaves while it is locked has to be somewhere");
    let id = copied(&mut mm, device, 4);
    mm.make_resident(device, &[id]).expect("room");
    let work = mm.evict(device, &[id], UNWRITTEN, &[]).expect("it is on the list").expect("it leaves");
    assert_eq!(work.moves[0].kind, MoveKind::Discard, "the GPU did not write it: the copy is there");
}

#[test]
fn the_old_lock_shows_the_copy_too() {
    // spec: memory §2.2, memory §6.5
    let descriptors = [vram_descriptor(64, SegmentFlags::CPU_VISIBLE), aperture_descriptor(64)];
    let layout = MemoryLayout::new(DriverModel::Wddm1, descriptors.iter().map(SegmentDescription::from).collect());
    let bits = [5, 5, 6];
    let mut mm: Mm = VidMm::new(policy(), layout, mmu(&bits), &levels(&bits)).expect("the rules");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    for (physically, uploaded) in [(false, (1, 1)), (true, (0, 4))] {
        let mut flags = COPY;
        flags.set(F::ACCESSED_PHYSICALLY, physically);
        let described = AllocationInfo { flags, ..info(4, &[VRAM, APERTURE]) };
        let read_segments = described.supported_segments;
        let id = mm.create_allocation(device, AllocationInfo { read_segments, ..described }).expect("it fits");
        mm.make_resident(device, &[id]).expect("room");
        assert!(in_memory(&mm, id));
        let plan = mm.lock_legacy(id, LegacyLock { donot_evict: true, ..LegacyLock::default() }).expect("it stays");
        assert_eq!((plan.runs, plan.range), (system(&mm, id), None));
        assert_eq!(copies(&plan.work.expect("the GPU wrote")), [(Direction::Out, 0, 4)]);
        mm.unlock(id).expect("locked");
        // In one piece it may lie in tiles: then a page of it is no page of its content.
        let (first, count) = uploaded;
        assert_eq!(copies(&mm.upload(id, &[(1, 1)]).expect("written")), [(Direction::In, first, count)]);
    }
}

#[test]
fn memory_that_exists_has_a_copy_in_a_segment_and_gets_it_back() {
    // spec: memory §2.2, memory §5.9
    let (mut mm, device) = over(SegmentFlags::CPU_VISIBLE);
    let pages = mm.allocate_scattered(4).expect("they are free");
    let flags = F::EXISTING_SYS_MEM;
    let origin = Origin { primary: false, existing: Some(pages.clone()) };
    let described = AllocationInfo { flags, ..info(4, &[VRAM, APERTURE]) };
    let id = mm.create_allocation_from(device, described, origin).expect("it fits");
    let work = mm.make_resident(device, &[id]).expect("room").expect("work");
    assert_eq!(moved(&work), [(MoveKind::PageIn, Cause::MakeResident, 4)], "what the caller had, not a fill");
    let work = mm.evict(device, &[id], EvictFlags::default(), &[]).expect("it is on the list").expect("work");
    assert_eq!(moved(&work), [(MoveKind::PageOut, Cause::Evict, 4)], "into the caller's memory");
    mm.make_resident(device, &[id]).expect("room");
    let plan = mm.lock(id).expect("it shows them, CPU-visible or not");
    assert!(in_memory(&mm, id));
    assert_eq!(plan.runs.iter().map(|seen| seen.run).collect::<Vec<_>>(), pages);
    mm.unlock(id).expect("it was locked");
    // Thrown away: the caller's memory is not cleared for it.
    mm.evict(device, &[id], EvictFlags::default(), &[]).expect("it is on the list");
    mm.make_resident(device, &[id]).expect("room");
    assert!(matches!(mm.allocations[id].placement, Placement::Memory(..)));
    mm.offer(device, &[id], OfferPriority::Low, OfferFlags::default(), &[]).expect("it may be");
    let large = create(&mut mm, device, 64, &[VRAM]);
    mm.make_resident(device, &[large]).expect("the offered one gives way");
    assert!(mm.allocations[id].offer().is_some_and(|offer| offer.discarded));
    assert_eq!(mm.allocations[id].valid.split(0, 4), [(0, 4, true)]);
}
