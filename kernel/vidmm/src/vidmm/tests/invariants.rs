//! The checks of what always holds can fail: each rule is broken by hand and named; and a digest tells states apart.

use wddm_types::{GpuVa, PageRun, Pages};

use super::world::*;
use crate::{
    AllocationId, DeviceId, EvictFlags, MakeResidentFlags, MapRequest, OfferFlags, OfferPriority, SpaceId, Target,
};

/// Two devices with content on lists, in memory, mapped, locked and offered.
fn busy() -> (Mm, SpaceId, DeviceId, AllocationId) {
    let (mut mm, [(space, device), (_, other)]) = with_processes::<2>(64);
    let [a, b, c] = [8, 20, 4].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let d = create(&mut mm, other, 6, &[VRAM, APERTURE]);
    let request = MapRequest {
        target: Target::Allocation { allocation: a, offset_pages: Pages(0) },
        size_pages: Pages(8),
        base: None,
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: crate::Protection::READ_WRITE,
    };
    mm.map_gpu_va(space, request).expect("room");
    mm.make_resident(device, &[a, b, c]).expect("room");
    mm.make_resident(other, &[d]).expect("room");
    mm.offer(device, &[c], OfferPriority::Low, OfferFlags { allow_decommit: true }, &[]).expect("not offered");
    mm.evict(device, &[b], EvictFlags { only_if_necessary: true, not_written_to: false }, &[]).expect("listed");
    mm.lock(d).expect("the CPU reaches it");
    (mm, space, device, a)
}

#[test]
fn every_rule_can_be_broken() {
    // spec: memory §9.3
    type Break = fn(&mut Mm, SpaceId, DeviceId, AllocationId);
    let table: &[(&str, Break)] = &[
        ("frames", |mm, _, _, _| {
            _ = mm.segment_mut(VRAM).take_run(1, 1);
        }),
        ("frames", |mm, _, _, _| mm.segment_mut(VRAM).give(PageRun { first: 0, count: Pages(1) })),
        ("frames", |mm, _, _, _| {
            _ = mm.system.take_scattered(1);
        }),
        ("frames", |mm, _, _, a| mm.system.give(mm.allocations[a].backing[0])),
        ("frames", |mm, _, _, _| {
            mm.spaces.lose_frame();
        }),
        ("lists", |mm, _, _, a| mm.allocations[a].count += 1),
        ("lists", |mm, _, device, a| {
            _ = mm.devices.unlist(device, a);
        }),
        ("lists", |mm, _, device, _a| {
            mm.devices.forget_owned(device);
        }),
        ("lists", |mm, _, device, _| {
            mm.devices.misplace(device);
        }),
        ("lists", |mm, _, _, _| mm.allocations.forget_decommittable()),
        ("victims", |mm, _, _, a| mm.allocations[a].standing = None),
        ("victims", |mm, _, _, _| mm.segment_mut(VRAM).forget_victims()),
        ("budgets", |mm, space, _, _| mm.processes.miscount(space)),
        ("addresses", |mm, _, _, a| mm.allocations[a].mappings.clear()),
        ("addresses", |mm, space, _, _| mm.spaces.forget_mappings(space)),
        ("tables", |mm, space, _, a| {
            let &(_, at) = mm.allocations[a].mappings.first().expect("mapped");
            mm.spaces.table_and_frames(space).0.miscount(at);
        }),
        ("locks", |mm, _, _, _| {
            let locked = mm.allocations.iter().find(|(_, known)| known.locks.count > 0).expect("one is").0;
            mm.allocations[locked].locks.runs.clear();
        }),
    ];
    for (nth, (rule, break_it)) in table.iter().enumerate() {
        let (mut mm, space, device, a) = busy();
        assert_eq!(mm.check_invariants(&[]), Ok(()), "before");
        break_it(&mut mm, space, device, a);
        let broken = mm.check_invariants(&[]).expect_err("it was broken by hand");
        assert_eq!(broken.rule, *rule, "row {nth}: {broken}");
    }
}

#[test]
fn an_adapter_without_addresses_keeps_what_always_holds() {
    // spec: memory §5.6, memory §9.3
    let layout = [vram_descriptor(64, ddi::SegmentFlags::empty()), aperture_descriptor(64)];
    let mut mm = Mm::without_addresses(policy(), &layout[..]).expect("the description keeps the rules");
    assert_eq!(mm.check_invariants(&[]), Ok(()), "nothing is there");
    let (space, _) = mm.create_space(crate::SpaceKind::Process).expect("no tables are needed");
    let device = mm.create_device(space);
    let a = create(&mut mm, device, 8, &[VRAM, APERTURE]);
    mm.make_resident(device, &[a]).expect("room");
    assert_eq!(mm.check_invariants(&[]), Ok(()));
    mm.allocations[a].count += 1;
    assert_eq!(mm.check_invariants(&[]).expect_err("broken by hand").rule, "lists");
}

#[test]
fn a_digest_tells_states_apart() {
    // spec: memory §10.4 item 5
    let (mut mm, _, device, a) = busy();
    let before = mm.state_digest();
    let huge = create(&mut mm, device, 64, &[VRAM]);
    let created = mm.state_digest();
    assert_ne!(before, created);
    let flags = MakeResidentFlags { cant_trim_further: false, must_succeed: false };
    mm.make_resident_with(device, &[a, huge], flags).expect_err("it does not fit");
    assert_eq!(mm.state_digest(), created, "a refusal changes nothing");
    mm.make_resident(device, &[a]).expect("it is there");
    assert_ne!(mm.state_digest(), created, "a count is a state");
}
