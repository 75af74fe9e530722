//! Large pages: where they are used, and that taking them apart changes no translation (memory §4.5).

use ddi::{AllocationFlags, GpuMmuFlags, PteFlags};
use proptest::prelude::*;
use wddm_types::{GpuVa, PAGE_BYTES, Pages};

use super::world::*;
use crate::{
    AllocationId, DeviceId, EvictFlags, MapRequest, Operation, Protection, ReserveRequest, Reserved, SpaceId,
    SpaceKind, Target, VidMm,
};

const BITS: [u32; 3] = [9, 3, 4];
const LARGE: u64 = 512;

fn world(pages: u64, flags: GpuMmuFlags) -> (Mm, Machine, SpaceId, DeviceId) {
    let descriptors = [vram_descriptor(pages, Default::default()), aperture_descriptor(64)];
    let mut caps = mmu(&BITS);
    caps.flags = flags;
    let mut mm: Mm = VidMm::new(policy(), &descriptors, caps, &levels(&BITS)).expect("rules are kept");
    let mut machine = Machine::default();
    let (space, made) = mm.create_space(SpaceKind::Process).expect("tables");
    machine.carry_out(&made);
    let device = mm.create_device(space);
    (mm, machine, space, device)
}

fn request(allocation: AllocationId, from: u64, pages: u64, base: Option<GpuVa>) -> MapRequest {
    MapRequest {
        target: Target::Allocation { allocation, offset_pages: Pages(from) },
        size_pages: Pages(pages),
        base,
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: Protection::READ_WRITE,
    }
}

fn large_entries(operations: &[Operation]) -> usize {
    let large = |operation: &&Operation| {
        matches!(operation, Operation::UpdatePageTable { level: 1, first, .. }
            if first.flags.contains(PteFlags::LARGE_PAGE))
    };
    operations.iter().filter(large).count()
}

#[test]
fn whole_aligned_tables_become_large_pages() {
    // spec: memory §4.2, memory §4.5
    let large = GpuMmuFlags::LARGE_PAGE_SUPPORTED;
    let any = large | GpuMmuFlags::ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS;
    // Pages of another allocation before it, caps, allocation flags, large entries.
    let rows = [
        ("aligned", 0, large, AllocationFlags::empty(), 2),
        ("the caps have none", 0, GpuMmuFlags::empty(), AllocationFlags::empty(), 0),
        ("not aligned in memory", 1, large, AllocationFlags::empty(), 0),
        ("alignment is not asked for", 1, any, AllocationFlags::empty(), 2),
        ("the driver does not want them", 0, large, AllocationFlags::DISABLE_LARGE_PAGE_MAPPING, 0),
    ];
    for (name, before, caps, flags, expected) in rows {
        let (mut mm, mut machine, space, device) = world(4096, caps);
        if before > 0 {
            let other = create(&mut mm, device, before, &[VRAM]);
            machine.queue(mm.make_resident(device, &[other]).expect("room"));
        }
        let mut described = info(2 * LARGE + 8, &[VRAM]);
        described.flags |= flags;
        let a = mm.create_allocation(device, described).expect("it fits");
        let (base, work) = mm.map_gpu_va(space, request(a, 0, 2 * LARGE + 8, None)).expect("room");
        machine.queue(work);
        let work = mm.make_resident(device, &[a]).expect("room").expect("a fill");
        assert_eq!(large_entries(&work.operations), expected, "{name}");
        machine.queue(Some(work));
        machine.run(&mut mm);
        compare(&mm, &machine, space, base, a);
        // A hole in the middle takes one of them apart and no translation away.
        machine.queue(mm.free_gpu_va(space, base.offset(100 * PAGE_BYTES), PAGE_BYTES).expect("mapped"));
        machine.run(&mut mm);
        let hole = |page| machine.walk(mm.root(space), &BITS, base.offset(page * PAGE_BYTES)).is_none();
        assert!(hole(100) && !hole(99) && !hole(101) && !hole(2 * LARGE - 1), "{name}");
        machine.queue(mm.destroy_allocation(a, &[]));
        machine.run(&mut mm);
        assert_eq!(mm.table_bytes(SpaceKind::Process), PAGE_BYTES, "{name}");
    }
}

fn compare(mm: &Mm, machine: &Machine, space: SpaceId, base: GpuVa, id: AllocationId) {
    for page in 0..mm.allocations[id].pages {
        let place = mm.allocations[id].resident_pieces(page, 1).first().map(|piece| (piece.2, piece.3));
        let walked = machine.walk(mm.root(space), &BITS, base.offset(page * PAGE_BYTES));
        let there = walked.map(|entry| (entry.address.segment, entry.address.offset / PAGE_BYTES));
        assert_eq!(there, place, "page {page}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    // spec: memory §4.5
    #[test]
    fn large_pages_come_and_go_without_a_trace(
        steps in prop::collection::vec((0u8..4, 0u64..2048, 1u64..1200, 0u64..1100), 1..24),
    ) {
        let (mut mm, mut machine, space, device) = world(1600, GpuMmuFlags::LARGE_PAGE_SUPPORTED);
        let allocations = [create(&mut mm, device, 1100, &[VRAM]), create(&mut mm, device, 1100, &[VRAM])];
        let reserve = ReserveRequest {
            size_bytes: 2048 * PAGE_BYTES,
            base: Some(GpuVa(4096 * PAGE_BYTES)),
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            reserved: Reserved::NoAccess,
            driver_protection: 0,
        };
        let (base, _) = mm.reserve_gpu_va(space, reserve).expect("room");
        let mut naive: Vec<Option<(AllocationId, u64)>> = vec![None; 2048];
        for (kind, at, pages, from) in steps {
            let id = allocations[(at % 2) as usize];
            // Multiples make whole tables likely.
            let (at, from) = (at / 128 * 128, from / 128 * 128);
            let pages = pages.min(2048 - at).min(1100 - from);
            match kind {
                0 | 1 => {
                    let place = Some(base.offset(at * PAGE_BYTES));
                    machine.queue(mm.map_gpu_va(space, request(id, from, pages, place)).expect("reserved").1);
                    (0..pages).for_each(|page| naive[(at + page) as usize] = Some((id, from + page)));
                }
                2 => {
                    let target = Target::Reserved(Reserved::NoAccess);
                    let nothing = MapRequest { target, ..request(id, 0, pages, Some(base.offset(at * PAGE_BYTES))) };
                    machine.queue(mm.map_gpu_va(space, nothing).expect("reserved").1);
                    (0..pages).for_each(|page| naive[(at + page) as usize] = None);
                }
                // The other one gives way, in part.
                _ if mm.allocations[id].count == 0 => {
                    let other = if id == allocations[0] { allocations[1] } else { allocations[0] };
                    if mm.allocations[other].count > 0 {
                        let how = EvictFlags { only_if_necessary: true, not_written_to: false };
                        machine.queue(mm.evict(device, &[other], how, &[]).expect("listed"));
                    }
                    machine.queue(mm.make_resident(device, &[id]).expect("room"));
                }
                _ => {}
            }
            machine.run(&mut mm);
            for (page, shown) in naive.iter().enumerate() {
                let walked = machine.walk(mm.root(space), &BITS, base.offset(page as u64 * PAGE_BYTES));
                let there = walked.map(|entry| (entry.address.segment, entry.address.offset / PAGE_BYTES));
                let place = shown.and_then(|(id, page)| {
                    mm.allocations[id].resident_pieces(page, 1).first().map(|piece| (piece.2, piece.3))
                });
                prop_assert_eq!(there, place, "page {}", page);
            }
        }
    }
}
