//! Refusals: their errors, the state that they leave, and content that a refused call must not take although it could.

use ddi::{AllocationFlags, SegmentFlags};
use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{
    AllocationId, DeviceId, EvictFlags, MakeResidentError, MakeResidentFlags, MoveKind, OfferFlags, OfferPriority,
    ReclaimResult, SegmentGroup, SpaceKind, TrimFlags,
};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };
const PLAIN: MakeResidentFlags = MakeResidentFlags { cant_trim_further: false, must_succeed: false };
const MUST: MakeResidentFlags = MakeResidentFlags { cant_trim_further: true, must_succeed: true };

fn short_of(pages: u64) -> MakeResidentError {
    MakeResidentError::OutOfMemory { bytes_to_trim: pages * PAGE_BYTES }
}

#[test]
fn who_is_refused_makes_the_others_be_asked() {
    // spec: memory §5.4
    let (mut mm, _, device) = with_device(64);
    let [a, b] = [40, 30].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(device, &[a]).expect("it fits");
    assert!(!mm.trim_pending());
    assert_eq!(mm.make_resident(device, &[b]), Err(short_of(6)));
    assert!(mm.trim_pending(), "nothing has moved, and room is wanted");
    let asked = mm.trim_requests(10 * mm.policy.trim_period_ns);
    let periodic = TrimFlags { periodic: true, ..TrimFlags::default() };
    assert_eq!(asked.iter().map(|asked| (asked.device, asked.flags)).collect::<Vec<_>>(), [(device, periodic)]);
    assert!(!mm.trim_pending(), "once");
    // The same of what a lock would have held up.
    mm.lock(b).expect("not resident");
    let refused = mm.make_resident_held(device, &[b], PLAIN);
    assert!(matches!(refused, Err(MakeResidentError::OutOfMemory { .. })), "{refused:?}");
    assert!(mm.trim_pending());
}

#[test]
fn what_is_missing_counts_the_rest_of_the_list() {
    // spec: memory §10.1 row 11
    let (mut mm, _, device) = with_device(64);
    let [a, b, c] = [40, 30, 10].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(device, &[a]).expect("it fits");
    assert_eq!(mm.make_resident(device, &[b, c]), Err(short_of(16)));
}

#[test]
fn an_offer_that_leaves_its_list_waits_for_the_next_claim_on_the_room() {
    // spec: memory §5.9, memory §5.3
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 16, &[VRAM]);
    mm.make_resident(device, &[a]).expect("room");
    mm.offer(device, &[a], OfferPriority::Low, OfferFlags::default(), &[]).expect("not offered");
    assert_eq!(mm.evict(device, &[a], NOW, &[]), Ok(None), "what may be thrown away is not thrown away for nothing");
    assert_eq!(mm.reclaim(device, &[a]).expect("it was offered").results, [ReclaimResult::Ok]);
}

/// Two processes; the first is suspended for the second, which takes `pages`.
fn one_quiesces(mm: &mut Mm, devices: [DeviceId; 2], pages: u64) {
    let y = create(mm, devices[1], pages, &[VRAM]);
    let work = mm.make_resident_with(devices[1], &[y], MUST).expect("at the other's cost").expect("it moves");
    assert_eq!(work.suspends, [devices[0]]);
}

#[test]
fn a_list_that_waits_for_its_turn_grows_within_the_budget() {
    // spec: memory §5.2, memory §5.5
    let (mut mm, [(space, a), (_, b)]) = with_processes::<2>(64);
    let [x, more, rest] = [20, 20, 10].map(|pages| create(&mut mm, a, pages, &[VRAM]));
    mm.make_resident(a, &[x]).expect("alone");
    one_quiesces(&mut mm, [a, b], 60);
    mm.set_budget(space, SegmentGroup::Local, Some(30 * PAGE_BYTES));
    assert_eq!(mm.make_resident(a, &[more]), Err(short_of(10)));
    assert_eq!(mm.count(a, more), 0);
    assert_eq!(mm.make_resident(a, &[rest]), Ok(None), "it comes with the turn");
}

#[test]
fn what_a_list_that_waits_has_offered_needs_no_room() {
    // spec: memory §5.9, memory §8.6
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [offered, kept, more] = [40, 10, 30].map(|pages| create(&mut mm, a, pages, &[VRAM]));
    mm.make_resident(a, &[offered, kept]).expect("alone");
    mm.offer(a, &[offered], OfferPriority::High, OfferFlags::default(), &[]).expect("not offered");
    one_quiesces(&mut mm, [a, b], 60);
    assert_eq!(mm.make_resident_with(a, &[more], MUST), Ok(None), "40 of 64 pages when its turn comes");
}

#[test]
fn a_device_to_quiesce_that_frees_too_little_is_spared() {
    // spec: memory §8.2
    let (mut mm, [(_, a), (_, b), (_, c)]) = with_processes::<3>(64);
    let [x, y, z] = [(a, 4), (b, 60), (c, 50)].map(|(device, pages)| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(a, &[x]).expect("room");
    mm.make_resident(b, &[y]).expect("room");
    // It would be the first to go.
    mm.set_device_idle(a, true);
    let work = mm.make_resident_with(c, &[z], MUST).expect("it insists").expect("it moves");
    assert_eq!(work.suspends, [b], "without the other it does not go, and with it the first need not");
    assert!(mm.is_resident(x));
}

#[test]
fn nothing_moves_into_what_the_cpu_still_sees() {
    // spec: memory §6.3, memory §8.1
    for locked in [false, true] {
        let mut mm = adapter(64, SegmentFlags::CPU_VISIBLE);
        let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
        let device = mm.create_device(space);
        let mut physical = info(20, &[VRAM]);
        physical.flags = AllocationFlags::ACCESSED_PHYSICALLY;
        let wanted = mm.create_allocation(device, physical).expect("rules are kept");
        let parts: [AllocationId; 6] = [10; 6].map(|pages| {
            let mut visible = info(pages, &[VRAM, APERTURE]);
            visible.flags = AllocationFlags::CPU_VISIBLE;
            mm.create_allocation(device, visible).expect("rules are kept")
        });
        mm.make_resident(device, &parts).expect("they fit");
        if locked {
            mm.lock(parts[1]).expect("behind the BAR");
        }
        mm.evict(device, &[parts[1], parts[3]], LAZY, &[]).expect("counted");
        // Both would do, if what lies between them moved into one of them.
        match mm.make_resident(device, &[wanted]) {
            Ok(work) => {
                let work = work.expect("it moves");
                assert!(!locked && work.moves.iter().any(|step| step.kind == MoveKind::Relocate), "{:?}", work.moves);
            }
            Err(refused) => assert!(locked, "{refused}"),
        }
    }
}

#[test]
fn what_has_few_places_is_held_against_what_these_have() {
    // spec: memory §10.1 row 11
    let (mut mm, _, device) = with_device(64);
    let [most, small] = [64, 10].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let both = create(&mut mm, device, 60, &[VRAM, APERTURE]);
    let never = |wanted: u64| Some(crate::NeverFits { wanted_bytes: wanted * PAGE_BYTES, most_bytes: 64 * PAGE_BYTES });
    assert_eq!(mm.never_fits(&[]), None);
    assert_eq!(mm.never_fits(&[most]), None);
    assert_eq!(mm.never_fits(&[most, most]), None, "named twice it is there once");
    assert_eq!(mm.never_fits(&[most, small]), never(74));
    assert_eq!(mm.never_fits(&[most, both]), None, "the aperture has room for it");
    // Content of others does not count.
    mm.make_resident(device, &[most]).expect("it fits");
    assert_eq!(mm.never_fits(&[small]), None);
}
