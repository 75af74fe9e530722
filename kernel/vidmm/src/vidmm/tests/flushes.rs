//! How often the hardware is told to forget translations: exactly once for each batch of changes of a space, and not at
//! all for what was invalid before where it does not remember that (memory §3.4 operation 12, §4.2).

use ddi::GpuMmuFlags;
use wddm_types::{GpuVa, PAGE_BYTES, Pages};

use super::world::*;
use crate::{
    AllocationId, EvictFlags, MapRequest, Operation, Protection, ReserveRequest, Reserved, SpaceId, SpaceKind, Target,
    UpdateOperation, VidMm, Work,
};

/// Flushes of a work, and changes behind its last one.
fn flushes(work: &Option<Work<u8>>) -> (usize, usize) {
    let operations: Vec<&Operation> = work.iter().flat_map(|work| &work.operations).collect();
    let flush = |operation: &&&Operation| matches!(operation, Operation::FlushTlb { .. });
    let last = operations.iter().rposition(|operation| matches!(operation, Operation::FlushTlb { .. }));
    let behind = operations[last.map_or(0, |at| at + 1)..].iter();
    let change = |operation: &&&Operation| {
        matches!(operation, Operation::UpdatePageTable { .. } | Operation::CopyEntries { .. })
    };
    (operations.iter().filter(flush).count(), behind.filter(change).count())
}

fn request(target: Target, base: GpuVa, pages: u64) -> MapRequest {
    MapRequest {
        target,
        size_pages: Pages(pages),
        base: Some(base),
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: Protection::READ_WRITE,
    }
}

#[test]
fn translations_are_forgotten_once_a_batch() {
    // spec: memory §3.4, memory §4.2
    for (flags, remembers) in [(GpuMmuFlags::empty(), 1), (GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED, 0)] {
        let flags = flags | GpuMmuFlags::ZERO_IN_PTE_SUPPORTED;
        let mut caps = mmu(&[5, 5, 6]);
        caps.flags = flags;
        let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
        let mut mm: Mm = VidMm::new(policy(), &descriptors, caps, &levels(&[5, 5, 6])).expect("rules are kept");
        let (space, _): (SpaceId, _) = mm.create_space(SpaceKind::Process).expect("tables");
        let device = mm.create_device(space);
        let [a, b]: [AllocationId; 2] = [(); 2].map(|()| create(&mut mm, device, 48, &[VRAM]));
        let reservation = ReserveRequest {
            size_bytes: 256 * PAGE_BYTES,
            base: None,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            reserved: Reserved::NoAccess,
            driver_protection: 0,
        };
        let (base, _) = mm.reserve_gpu_va(space, reservation).expect("room");
        let page = |page: u64| base.offset(page * PAGE_BYTES);
        let shown = |allocation| Target::Allocation { allocation, offset_pages: Pages::ZERO };
        let expect = |name: &str, work: Option<Work<u8>>, once: usize| {
            let (count, behind) = flushes(&work);
            assert_eq!(count, once, "{name}: {work:?}");
            assert!(remembers == 0 || once == 0 || behind == 0, "{name}: changes behind the flush: {work:?}");
        };
        let arrive = |mm: &mut Mm, id| mm.make_resident(device, &[id]).expect("room");
        let leave = |mm: &mut Mm, id, only_if_necessary| {
            mm.evict(device, &[id], EvictFlags { only_if_necessary, not_written_to: false }, &[]).expect("listed")
        };
        expect("mapped while away", mm.map_gpu_va(space, request(shown(a), page(0), 48)).unwrap().1, 0);
        expect("mapped while away, too", mm.map_gpu_va(space, request(shown(b), page(64), 48)).unwrap().1, 0);
        expect("comes", arrive(&mut mm, a), remembers);
        expect("mapped again", mm.map_gpu_va(space, request(shown(a), page(128), 40)).unwrap().1, remembers);
        expect("over itself", mm.map_gpu_va(space, request(shown(a), page(129), 39)).unwrap().1, remembers.max(1));
        let zero = request(Target::Reserved(Reserved::Zero), page(130), 3);
        expect("zeros over it", mm.map_gpu_va(space, zero).unwrap().1, 1);
        let none = request(Target::Reserved(Reserved::NoAccess), page(131), 3);
        expect("nothing over it", mm.map_gpu_va(space, none).unwrap().1, 1);
        // Many operations are one batch: tiles come, go and are copied.
        let tile = |at, pages| UpdateOperation::Map {
            base: page(at),
            size_bytes: pages * PAGE_BYTES,
            allocation: a,
            offset_bytes: 0,
            allocation_size_bytes: 0,
            protection: None,
        };
        let copy = UpdateOperation::Copy { source: page(0), size_bytes: 20 * PAGE_BYTES, destination: page(200) };
        let unmap =
            UpdateOperation::Unmap { base: page(128), size_bytes: 2 * PAGE_BYTES, reserved: Reserved::NoAccess };
        let operations = [tile(180, 4), tile(190, 2), copy, unmap, tile(140, 5)];
        let (update, made) = mm.prepare_update(space, &operations).expect("one reservation");
        expect("tables for an update", made, 0);
        expect("an update", mm.apply_update(update), 1);
        // A dropped update flushes the unused tables that it held.
        let (update, made) = mm.prepare_update(space, &[tile(240, 8)]).expect("one reservation");
        assert!(made.is_some());
        expect("an update that is given up", mm.drop_update(update), 1);
        // Room for the other: its entries come behind the content that comes behind the flush.
        expect("lazily", leave(&mut mm, a, true), 0);
        expect("one goes, one comes", arrive(&mut mm, b), 1 + remembers);
        expect("goes", leave(&mut mm, b, false), 1);
        expect("comes again", arrive(&mut mm, b), remembers);
        expect("its end", mm.destroy_allocation(b, &[]), 1);
        expect("freed", mm.free_gpu_va(space, page(200), 4 * PAGE_BYTES).unwrap(), 1);
    }
}
