//! Evictions that stand aside until queued work has used their content for the last time: the ring waits for none of them.

use ddi::{AllocationFlags as F, AllocationInfo, DriverModel};
use wddm_types::{FencePoint, PAGE_BYTES};

use super::world::*;
use crate::{
    AllocationId, Cause, DeviceId, EvictFlags, MakeResidentError, MemoryLayout, MoveKind, OfferFlags, OfferPriority,
    SegmentDescription, SpaceKind, VidMm, Work,
};

const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };
const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

fn listed(mm: &mut Mm, device: DeviceId, pages: u64) -> AllocationId {
    let id = create(mm, device, pages, &[VRAM]);
    mm.make_resident(device, &[id]).expect("room");
    id
}

/// What is carried out when the uses up to a value are over.
fn over(mm: &mut Mm, value: u64) -> Vec<Work<u8>> {
    let works = mm.evictions_over(&|point: &FencePoint<u8>| point.value <= value);
    works.into_iter().map(|(_, work)| work).collect()
}

fn moved(work: &Work<u8>) -> Vec<(AllocationId, MoveKind, Cause, u64)> {
    work.moves.iter().map(|step| (step.allocation, step.kind, step.cause, step.bytes / PAGE_BYTES)).collect()
}

#[test]
fn an_eviction_stands_aside_until_its_use_is_over() {
    // spec: memory §5.3, memory §10.1 row 9
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [early, late] = [10, 20].map(|pages| listed(&mut mm, a, pages));
    assert_eq!(mm.evict(a, &[early], NOW, &[point(1, 5)]), Ok(None), "its use is to come");
    assert_eq!(mm.evict(a, &[late], NOW, &[point(1, 7)]), Ok(None));
    assert_eq!(mm.count(a, early), 0, "for its process it is evicted");
    assert_eq!(
        mm.uses_awaited().map(|(of, points)| (of, points.to_vec())).collect::<Vec<_>>(),
        [(a, vec![point(1, 5)])]
    );
    assert!(over(&mut mm, 4).is_empty());
    // Another process finds free room meanwhile, and nothing waits.
    let theirs = create(&mut mm, b, 30, &[VRAM]);
    let work = mm.make_resident(b, &[theirs]).expect("room").expect("it comes");
    assert_eq!((work.after.clone(), mm.is_resident(early)), (vec![], true));
    let works = over(&mut mm, 5);
    assert_eq!(works.iter().map(moved).collect::<Vec<_>>(), [[(early, MoveKind::PageOut, Cause::Evict, 10)]]);
    assert_eq!(works[0].after, [], "nothing is left to wait for");
    assert_eq!(mm.asides().collect::<Vec<_>>(), [(a, late)]);
    assert_eq!(
        over(&mut mm, 7).iter().flat_map(moved).collect::<Vec<_>>(),
        [(late, MoveKind::PageOut, Cause::Evict, 20)]
    );
    assert!(!mm.any_aside());
    mm.check_invariants(&[]).expect("all rules hold");
}

#[test]
fn a_use_that_is_over_keeps_no_eviction() {
    // spec: memory §5.3
    let (mut mm, [(_, a)]) = with_processes::<1>(64);
    let id = listed(&mut mm, a, 10);
    mm.evict(a, &[id], LAZY, &[point(1, 5)]).expect("counted");
    mm.make_resident(a, &[id]).expect("it is there");
    let work = mm.evict_over(a, &[id], NOW, &[], &|point| point.value <= 5).expect("counted").expect("it leaves");
    assert_eq!((work.after.len(), work.moves.len(), mm.any_aside()), (0, 1, false));
}

#[test]
fn what_stands_aside_is_taken_last_and_behind_its_use() {
    // spec: memory §8.2
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [aside, lazy] = [30, 30].map(|pages| listed(&mut mm, a, pages));
    mm.evict(a, &[aside], NOW, &[point(1, 5)]).expect("counted");
    mm.evict(a, &[lazy], LAZY, &[]).expect("counted");
    mm.set_allocation_priority(&[(aside, 1)]).expect("not 0");
    let first = create(&mut mm, b, 34, &[VRAM]);
    let work = mm.make_resident(b, &[first]).expect("room").expect("it comes");
    assert_eq!((work.after.clone(), moved(&work)[0].0), (vec![], lazy), "unneeded content without a use goes first");
    let second = create(&mut mm, b, 10, &[VRAM]);
    let work = mm.make_resident(b, &[second]).expect("room").expect("it comes");
    assert_eq!(work.after, [point(1, 5)], "nothing else is left");
    assert_eq!(mm.allocations[aside].resident_pages(), 20, "and of that no more than is needed");
    // The rest leaves behind the work that waits for its use.
    assert_eq!(over(&mut mm, 0).iter().flat_map(moved).map(|step| step.3).collect::<Vec<_>>(), [20]);
    mm.check_invariants(&[]).expect("all rules hold");
}

#[test]
fn a_later_call_takes_the_evictions_place() {
    // spec: memory §5.2, memory §5.9, memory §6.2
    let (mut mm, [(_, a)]) = with_processes::<1>(64);
    let [again, given, gone, pinned] = [10; 4].map(|pages| listed(&mut mm, a, pages));
    let list = [again, given, gone, pinned];
    mm.pin(pinned).expect("it is there");
    mm.unpin(pinned);
    mm.evict(a, &list, NOW, &[point(1, 5)]).expect("counted");
    assert_eq!(mm.asides().count(), 4);
    assert_eq!(mm.make_resident(a, &[again]), Ok(None), "it has not moved");
    mm.offer(a, &[given], OfferPriority::Low, OfferFlags::default(), &[]).expect("not offered");
    mm.doom_allocation(gone, &[point(1, 5)], &[]);
    mm.pin(pinned).expect("it is there still");
    assert_eq!(mm.asides().map(|(_, id)| id).collect::<Vec<_>>(), [pinned]);
    assert!(over(&mut mm, 5).is_empty(), "pinned content stays");
    assert_eq!(list.map(|id| mm.is_resident(id)), [true; 4]);
    mm.unpin(pinned);
    mm.check_invariants(&[]).expect("all rules hold");
    let work = mm.destroy_allocation(gone, &[]).expect("it leaves");
    assert_eq!(moved(&work)[0].1, MoveKind::Discard);
}

/// Two apertures of 64 pages, and a limit of 60 over both.
#[test]
fn pages_of_an_aperture_go_to_any_claimant() {
    // spec: memory §1.6, memory §1.12, memory §5.3
    let bits = [5, 5, 6];
    let other = ddi::SegmentDescriptor4 { base_address: APERTURE_BASE * 2, ..aperture_descriptor(64) };
    let descriptors = [vram_descriptor(64, ddi::SegmentFlags::empty()), aperture_descriptor(64), other];
    let segments = descriptors.iter().map(SegmentDescription::from).collect();
    let mut layout = MemoryLayout::new(DriverModel::Wddm1, segments);
    layout.aperture_commit_limit_bytes = 60 * PAGE_BYTES;
    let mut mm = VidMm::new(policy(), layout, mmu(&bits), &levels(&bits)).expect("any number of apertures");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let make = |mm: &mut Mm, pages, segment| {
        let info = AllocationInfo { flags: F::ACCESSED_PHYSICALLY | F::CPU_VISIBLE, ..info(pages, &[segment]) };
        mm.create_allocation(device, info).expect("it fits")
    };
    let [used, beside, far] = [(40, APERTURE), (40, APERTURE), (20, EXTRA)].map(|(n, id)| make(&mut mm, n, id));
    mm.make_resident(device, &[used]).expect("room");
    mm.evict(device, &[used], NOW, &[point(1, 5)]).expect("counted");
    assert!(mm.is_resident(used), "queued work finds it there");
    mm.make_resident(device, &[far]).expect("the limit has room for both");
    assert!(mm.is_resident(used), "nothing needs its pages");
    let more = make(&mut mm, 1, EXTRA);
    let work = mm.make_resident(device, &[more]).expect("the limit counts with what goes").expect("it is mapped");
    assert_eq!((work.after.clone(), mm.is_resident(used)), (vec![point(1, 5)], false));
    mm.evict(device, &[far, more], NOW, &[]).expect("counted");
    mm.make_resident(device, &[used]).expect("room");
    mm.evict(device, &[used], NOW, &[point(1, 6)]).expect("counted");
    let work = mm.make_resident(device, &[beside]).expect("40 pages of 64 go").expect("it is mapped");
    assert_eq!((work.after.clone(), mm.is_resident(used)), (vec![point(1, 6)], false));
    let refused = mm.make_resident(device, &[used]);
    assert!(matches!(refused, Err(MakeResidentError::OutOfMemory { .. })), "{refused:?}");
    mm.check_invariants(&[]).expect("all rules hold");
}

#[test]
fn writing_back_ahead_waits_for_no_use() {
    // spec: memory §8.3
    let (mut mm, [(_, a)]) = with_processes::<1>(64);
    mm.policy.write_back_ahead = true;
    let id = listed(&mut mm, a, 10);
    mm.evict(a, &[id], LAZY, &[point(1, 5)]).expect("counted");
    assert_eq!(mm.idle_work(100, &|_| false), None, "the ring would wait for its use");
    let work = mm.idle_work(100, &|point| point.value <= 5).expect("10 pages are dirty");
    assert_eq!(moved(&work), [(id, MoveKind::PageOut, Cause::Ahead, 10)]);
}
