//! Apertures, which have no lazy victims: content that a device withholds or has evicted frees its pages there, and a device alone has no
//! room where the kernel shows pages of its own.

use ddi::AllocationFlags;
use wddm_types::Pages;

use super::*;
use crate::vidmm::placement::plan::{Claim, Limit, Takes};

/// Content that an aperture shows in one run while it is resident.
fn shown(mm: &mut Mm, device: DeviceId, pages: u64) -> AllocationId {
    let mut info = info(pages, &[APERTURE]);
    info.flags |= AllocationFlags::ACCESSED_PHYSICALLY;
    mm.create_allocation(device, info).expect("it fits")
}

#[test]
fn content_that_a_device_withholds_frees_its_aperture() {
    // spec: memory §8.6, memory §10.1
    let (mut mm, [(_, device)]) = with_processes::<1>(64);
    let [now, next] = [40; 2].map(|pages| shown(&mut mm, device, pages));
    let came = mm.make_resident(device, &[now]).expect("room").expect("it comes");
    mm.completed(came.serial);
    mm.evict(device, &[now], NOW, &[point(2, 1)]).expect("counted");
    let work = mm.make_resident(device, &[next]).expect("room").expect("it comes");
    assert!(mm.give_way(device, of(2), &uses_of(&work)), "40 pages of 64 in each turn");
    assert!(mm.withholds(device));
    mm.completed(work.serial);
    mm.check_invariants(&[]).expect("all rules hold");
    let left: Vec<_> = mm.evictions_over(&|_| true).into_iter().map(|(_, work)| work.serial).collect();
    left.into_iter().for_each(|serial| mm.completed(serial));
    assert_eq!(mm.resident_bytes(APERTURE), 0, "no list names what is there");
    takes_turns(&mut mm, device, &[(1, now), (3, next)]);
    assert_eq!((mm.withholds(device), mm.count(device, now), mm.count(device, next)), (false, 0, 1));
}

fn fits_alone(mm: &Mm, device: DeviceId, id: AllocationId) -> bool {
    let claim = Claim { device, takes: Takes::Lower, limit: Limit::None, for_holders: false, moves: true };
    mm.plan_alone(claim, &[id]).is_ok()
}

#[test]
fn the_kernel_shows_its_own_pages_where_they_split_no_room() {
    // spec: memory §1.11, memory §7.1, memory §8.6
    let (mut mm, [(_, device), (_, other)]) = with_processes::<2>(64);
    let [low, hole, high] = [10, 10, 20].map(|pages| shown(&mut mm, other, pages));
    let large = shown(&mut mm, device, 61);
    let came = mm.make_resident(other, &[low, hole, high]).expect("room").expect("they come");
    mm.completed(came.serial);
    let left = mm.evict(other, &[hole], NOW, &[]).expect("counted").expect("it leaves");
    mm.completed(left.serial);
    let run = mm.allocate_system(3).expect("free");
    let (first, _, _) = mm.map_dma_buffer(APERTURE, &[run]).expect("the aperture has room");
    assert!(fits_alone(&mm, device, large), "61 of 64 pages in one piece beside 3 at {first}");
    drop(mm.unmap_dma_buffer(APERTURE, first, Pages(3)));
    mm.free_system(run);
    mm.check_invariants(&[]).expect("all rules hold");
}

#[test]
fn a_device_alone_has_no_room_where_the_kernel_shows_its_own_pages() {
    // spec: memory §1.11, memory §7.1, memory §8.6
    let (mut mm, _, device) = with_device(64);
    let [large, small] = [62, 61].map(|pages| shown(&mut mm, device, pages));
    let fits = |mm: &Mm, id| fits_alone(mm, device, id);
    assert!(fits(&mm, large));
    let run = mm.allocate_system(3).expect("free");
    let (at, _) = mm.aperture_map_system(APERTURE, run).expect("the aperture has room");
    assert_eq!([large, small].map(|id| fits(&mm, id)), [false, true], "paging buffers");
    drop(mm.aperture_unmap_system(at, Pages(3)));
    let (first, _, _) = mm.map_dma_buffer(APERTURE, &[run]).expect("the aperture has room");
    assert_eq!([large, small].map(|id| fits(&mm, id)), [false, true], "a DMA buffer");
    drop(mm.unmap_dma_buffer(APERTURE, first, Pages(3)));
    assert!(fits(&mm, large));
    mm.free_system(run);
    mm.check_invariants(&[]).expect("all rules hold");
}
