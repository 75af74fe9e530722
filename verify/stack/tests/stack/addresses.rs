//! GPU virtual addresses through the whole stack: reservations, zeros, mappings over mappings, updates of tiles.

mod large_pages;

use std::sync::Arc;

use d3dkmt::{
    Allocation, Context, Device, GpuVaMapping, GpuVaProtection, GpuVaReservation, HwContext, Refusal, UpdateGpuVaFlags,
    UpdateGpuVaOperation, VirtualContext,
};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use kmt_calls::{Call, GpuVaCall};
use kmt_link::Link;
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{SurfaceKind, pattern};
use wddm_types::{GpuVa, NodeId, NtStatus, RawHandle};

use crate::stubborn::{Whims, wrapped};
use stack::world::{Client, MIB, VIRTUAL, client, host};

const TILE: u64 = 65536;

fn reserve(client: &Client, size_bytes: u64, zero: bool) -> GpuVa {
    let reservation = GpuVaReservation { size_bytes, zero, ..GpuVaReservation::default() };
    client.gpu.device().reserve_gpu_va(reservation).expect("room")
}

fn context(client: &Client) -> HwContext {
    client.gpu.device().create_context(NodeId(0)).expect("a context")
}

fn map_tile(allocation: &Arc<Allocation>, base: GpuVa, tile: u64) -> UpdateGpuVaOperation {
    UpdateGpuVaOperation::Map {
        base,
        size_bytes: TILE,
        allocation: allocation.handle(),
        offset_bytes: tile * TILE,
        allocation_size_bytes: 0,
        protection: None,
    }
}

/// The first word at an address, as the GPU reads it.
fn word_at(client: &mut Client, va: GpuVa) -> u64 {
    let out = client.pinned(SurfaceKind::System, 4096);
    let out_va = out.va();
    client.run(|commands| {
        commands.copy(va, out_va, 4096);
    });
    out.lock().expect("system memory").read_word(0)
}

fn status<T>(result: Result<T, Refusal>) -> Option<NtStatus> {
    result.err().map(|refusal| refusal.status)
}

#[test]
fn reserved_addresses_read_zero_until_something_is_mapped_there() {
    // spec: memory §4.8, memory §4.10
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let surface = client.pinned(SurfaceKind::Local, TILE);
        let va = surface.va();
        client.run(|commands| {
            commands.pattern(va, TILE, 5);
        });
        let base = reserve(&client, 2 * TILE, true);
        assert_eq!(word_at(&mut client, base), 0);
        // Writes are dropped.
        client.run(|commands| {
            commands.fill(base, 4096, 7);
        });
        assert_eq!(word_at(&mut client, base), 0);
        let mapping = GpuVaMapping {
            base: base.offset(TILE),
            size_in_pages: 16,
            protection: GpuVaProtection::WRITE,
            driver_protection: 3,
            ..GpuVaMapping::default()
        };
        let (mapped, value) = client.gpu.paging().map_gpu_va(Some(surface.allocation()), mapping).expect("inside");
        assert_eq!(mapped, base.offset(TILE));
        client.gpu.device().wait(&[(client.gpu.paging().fence(), value)]).expect("mapped");
        assert_eq!(word_at(&mut client, mapped), pattern::word(5, 0));
        let zero = GpuVaMapping { protection: GpuVaProtection::ZERO, driver_protection: 0, ..mapping };
        let (_, value) = client.gpu.paging().map_gpu_va(None, zero).expect("inside");
        client.gpu.device().wait(&[(client.gpu.paging().fence(), value)]).expect("mapped");
        assert_eq!(word_at(&mut client, mapped), 0);
        client.gpu.device().free_gpu_va(base, 2 * TILE).expect("reserved");
        assert_eq!(status(client.gpu.device().free_gpu_va(base, 2 * TILE)), Some(NtStatus::INVALID_PARAMETER));
    }
}

#[test]
fn wrong_calls_have_their_statuses() {
    // spec: memory §4.8, memory §9.2, memory §9.3
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let surface = client.pinned(SurfaceKind::Local, TILE);
    let (device, paging) = (client.gpu.device(), client.gpu.paging());
    let base = reserve(&client, 2 * TILE, false);
    let invalid = Some(NtStatus::INVALID_PARAMETER);
    let whole = GpuVaMapping { base, size_in_pages: 16, ..GpuVaMapping::default() };
    let with = |protection| GpuVaMapping { protection, ..whole };
    let both = GpuVaProtection::ZERO | GpuVaProtection::NO_ACCESS;
    assert_eq!(status(paging.map_gpu_va(None, whole)), invalid, "no allocation");
    assert_eq!(status(paging.map_gpu_va(Some(surface.allocation()), with(GpuVaProtection::ZERO))), invalid);
    assert_eq!(status(paging.map_gpu_va(None, with(both))), invalid);
    assert_eq!(status(paging.map_gpu_va(None, with(GpuVaProtection::SYSTEM_USE_ONLY))), invalid);
    assert_eq!(status(paging.map_gpu_va(None, with(GpuVaProtection::from_bits_retain(1 << 40)))), invalid);
    let outside = GpuVaMapping { base: surface.va(), ..with(GpuVaProtection::NO_ACCESS) };
    assert_eq!(status(paging.map_gpu_va(None, outside)), invalid, "Map took these addresses");
    let across = GpuVaMapping { base: base.offset(TILE + 4096), ..whole };
    let conflict = status(paging.map_gpu_va(Some(surface.allocation()), across));
    assert_eq!(conflict, Some(NtStatus::CONFLICTING_ADDRESSES));
    let taken = GpuVaReservation { base, size_bytes: TILE, ..GpuVaReservation::default() };
    assert_eq!(status(device.reserve_gpu_va(taken)), Some(NtStatus::CONFLICTING_ADDRESSES));
    let small = GpuVaReservation { size_bytes: 4096, ..GpuVaReservation::default() };
    assert_eq!(status(device.reserve_gpu_va(small)), invalid);
    let context = context(&client);
    let fence = device.create_native_fence(Default::default()).expect("a fence");
    let tile = |base, offset_bytes, allocation_size_bytes| UpdateGpuVaOperation::Map {
        base,
        size_bytes: TILE,
        allocation: surface.allocation().handle(),
        offset_bytes,
        allocation_size_bytes,
        protection: None,
    };
    let stranger = |allocation| UpdateGpuVaOperation::Map {
        base,
        size_bytes: TILE,
        allocation,
        offset_bytes: 0,
        allocation_size_bytes: 0,
        protection: None,
    };
    let beside = Device::create(client.gpu.adapter()).expect("a second device of the process");
    let request = AllocationRequest {
        kind: SurfaceKind::Local,
        cpu_visible: false,
        cached: false,
        accessed_physically: false,
        size_bytes: TILE,
    };
    let theirs = beside.create_allocation(request.encode().to_vec()).expect("memory of that device");
    let other = reserve(&client, TILE, false);
    let copy = |source, destination| UpdateGpuVaOperation::Copy { source, size_bytes: TILE, destination };
    let unmap = |protection| UpdateGpuVaOperation::Unmap { base, size_bytes: TILE, protection };
    let rows = [
        ("nothing", vec![]),
        ("unaligned", vec![tile(base.offset(1), 0, 0)]),
        ("an unaligned part", vec![tile(base, 1, 0)]),
        ("beyond the allocation", vec![tile(base, 4096, 0)]),
        ("does not divide", vec![tile(base, 0, 3 * 4096)]),
        ("larger than the range", vec![tile(base, 0, 2 * TILE)]),
        ("not reserved", vec![tile(surface.va(), 0, 0)]),
        ("two reservations", vec![tile(base, 0, 0), tile(other, 0, 0)]),
        ("sources in two reservations", vec![copy(other, base), copy(base, base.offset(TILE))]),
        ("no such allocation", vec![stranger(RawHandle(0xdead))]),
        ("an allocation of another device", vec![stranger(theirs.handle())]),
        ("unmapped to what", vec![unmap(GpuVaProtection::WRITE)]),
        ("unmapped to both", vec![unmap(both)]),
    ];
    for (name, operations) in rows {
        let refused = device.update_gpu_va(&context, (&fence, 0), operations, UpdateGpuVaFlags::empty());
        assert_eq!(status(refused), invalid, "{name}");
    }
    let good = || vec![tile(base, 0, 0)];
    let flags = UpdateGpuVaFlags::from_bits_retain(2);
    assert_eq!(status(device.update_gpu_va(&context, (&fence, 0), good(), flags)), invalid);
    let last = device.update_gpu_va(&context, (&fence, u64::MAX), good(), UpdateGpuVaFlags::empty());
    assert_eq!(status(last), invalid);
    assert_eq!(fence.current(), 0, "nothing happened");
}

/// A COPY reads its source's mapping at its turn, not at the call.
#[test]
fn updates_wait_for_their_turn_and_bind_late() {
    // spec: memory §4.8
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let pool = client.pinned(SurfaceKind::Local, 4 * TILE);
        let va = pool.va();
        client.run(|commands| {
            for tile in 0..4 {
                commands.pattern(va.offset(tile * TILE), TILE, 10 + tile);
            }
        });
        let base = reserve(&client, 4 * TILE, true);
        let at = |tile: u64| base.offset(tile * TILE);
        let context = context(&client);
        let fence = client.gpu.device().create_native_fence(Default::default()).expect("a fence");
        let update = |value, operations| {
            let flags = UpdateGpuVaFlags::empty();
            client.gpu.device().update_gpu_va(&context, (&fence, value), operations, flags).expect("an update");
        };
        // Waits for 5, signals 6; the second one waits for 6, signals 7.
        let copy = |from, to| UpdateGpuVaOperation::Copy { source: at(from), size_bytes: TILE, destination: at(to) };
        update(5, vec![map_tile(pool.allocation(), at(0), 2)]);
        update(6, vec![copy(0, 1), copy(1, 2), map_tile(pool.allocation(), at(0), 3)]);
        assert_eq!(fence.current(), 0);
        client.gpu.device().signal(&fence, 4).expect("a signal");
        let first = word_at(&mut client, base);
        assert_eq!(first, 0, "4 is not 5");
        let words = |client: &mut Client| -> Vec<u64> { (0..4).map(|tile| word_at(client, at(tile))).collect() };
        client.gpu.device().signal(&fence, 5).expect("a signal");
        client.gpu.device().wait(&[(&fence, 7)]).expect("FenceValue + 1");
        let word = |seed| pattern::word(seed, 0);
        assert_eq!(words(&mut client), [word(13), word(12), word(12), 0], "{mode:?}");
        // Overlapping ranges move as if read at once.
        let shift = UpdateGpuVaOperation::Copy { source: at(0), size_bytes: 3 * TILE, destination: at(1) };
        let flags = UpdateGpuVaFlags::DO_NOT_WAIT;
        client.gpu.device().update_gpu_va(&context, (&fence, 100), vec![shift], flags).expect("an update");
        client.gpu.device().wait(&[(&fence, 101)]).expect("it did not wait for 100");
        assert_eq!(words(&mut client), [word(13), word(13), word(12), word(12)], "{mode:?}");
    }
}

/// A packet context with addresses has a queue of updates like one with hardware queues; each has its own.
#[test]
fn packet_contexts_with_addresses_update_tiles() {
    // spec: memory §4.8
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let pool = client.pinned(SurfaceKind::Local, 2 * TILE);
        let va = pool.va();
        client.run(|commands| {
            commands.pattern(va, TILE, 10).pattern(va.offset(TILE), TILE, 11);
        });
        let base = reserve(&client, 2 * TILE, true);
        let at = |tile: u64| base.offset(tile * TILE);
        let device = client.gpu.device();
        let packets = VirtualContext::create(device, NodeId(0), Vec::new()).expect("a packet context");
        let queues = context(&client);
        let fence = || device.create_native_fence(Default::default()).expect("a fence");
        let (one, other, never) = (fence(), fence(), fence());
        let none = UpdateGpuVaFlags::empty();
        // An update that waits on one context does not hold up the other context.
        device
            .update_gpu_va(&packets, (&one, 3), vec![map_tile(pool.allocation(), at(0), 1)], none)
            .expect("an update");
        device
            .update_gpu_va(&queues, (&other, 0), vec![map_tile(pool.allocation(), at(1), 0)], none)
            .expect("an update");
        device.wait(&[(&other, 1)]).expect("FenceValue + 1");
        let words = |client: &mut Client| [0, 1].map(|tile| word_at(client, at(tile)));
        assert_eq!(words(&mut client), [0, pattern::word(10, 0)], "{mode:?}: 3 has not come");
        let device = client.gpu.device();
        device.signal(&one, 3).expect("a signal");
        device.wait(&[(&one, 4)]).expect("FenceValue + 1");
        assert_eq!(words(&mut client), [pattern::word(11, 0), pattern::word(10, 0)], "{mode:?}");
        // An update that waits on a context goes with the context.
        let device = client.gpu.device();
        device
            .update_gpu_va(&packets, (&never, 1), vec![map_tile(pool.allocation(), at(0), 0)], none)
            .expect("an update");
        drop(packets);
        device.signal(&never, 1).expect("a signal");
        assert_eq!(words(&mut client), [pattern::word(11, 0), pattern::word(10, 0)], "{mode:?}");
        assert_eq!(never.current(), 1, "{mode:?}: the kernel does not signal for it");
    }
}

#[test]
fn a_context_that_is_patched_has_no_tiles_to_update() {
    // spec: memory §4.8, memory §9.3
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let pool = client.pinned(SurfaceKind::Local, TILE);
    let base = reserve(&client, TILE, true);
    let device = client.gpu.device();
    let fence = device.create_native_fence(Default::default()).expect("a fence");
    let patched = Context::create(device, NodeId(0), Vec::new()).expect("a patched context");
    let beside = Device::create(client.gpu.adapter()).expect("a second device of the process");
    let theirs = VirtualContext::create(&beside, NodeId(0), Vec::new()).expect("a packet context of that device");
    for context in [patched.handle(), theirs.handle(), RawHandle(0xdead)] {
        let (device, fence, flags) = (device.handle(), fence.handle(), UpdateGpuVaFlags::empty());
        let operations = vec![map_tile(pool.allocation(), base, 0)];
        let call = Call::GpuVa(GpuVaCall::UpdateGpuVirtualAddress {
            device,
            context,
            fence,
            fence_value: 0,
            operations,
            flags,
        });
        assert_eq!(status(client.link.call(call)), Some(NtStatus::INVALID_PARAMETER));
    }
    assert_eq!(fence.current(), 0, "nothing happened");
}

#[test]
fn what_is_freed_or_destroyed_falls_out_of_waiting_updates() {
    // spec: memory §4.8
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let (kept, lost) = (client.pinned(SurfaceKind::Local, TILE), client.pinned(SurfaceKind::Local, TILE));
    let va = kept.va();
    client.run(|commands| {
        commands.pattern(va, TILE, 5);
    });
    let base = reserve(&client, 3 * TILE, true);
    let at = |tile: u64| base.offset(tile * TILE);
    let context = context(&client);
    let fence = client.gpu.device().create_native_fence(Default::default()).expect("a fence");
    let operations = vec![
        map_tile(kept.allocation(), at(0), 0),
        map_tile(kept.allocation(), at(1), 0),
        map_tile(lost.allocation(), at(2), 0),
    ];
    client.gpu.device().update_gpu_va(&context, (&fence, 1), operations, UpdateGpuVaFlags::empty()).expect("an update");
    drop(lost);
    client.gpu.device().free_gpu_va(at(1), TILE).expect("reserved");
    // Another reservation gets the addresses before the update's turn.
    let reservation = GpuVaReservation { base: at(1), size_bytes: TILE, zero: true, ..GpuVaReservation::default() };
    client.gpu.device().reserve_gpu_va(reservation).expect("free");
    client.gpu.device().signal(&fence, 1).expect("a signal");
    client.gpu.device().wait(&[(&fence, 2)]).expect("applied");
    let words: Vec<u64> = (0..3).map(|tile| word_at(&mut client, at(tile))).collect();
    assert_eq!(words, [pattern::word(5, 0), 0, 0]);
}

#[test]
fn more_than_128_updates_block_their_caller() {
    // spec: memory §0, memory §4.8, memory §10.4
    let host = host(Mode::Real, 4 * MIB);
    let client = client(&host);
    let pool = client.pinned(SurfaceKind::Local, TILE);
    let base = reserve(&client, TILE, false);
    let context = context(&client);
    let fence = client.gpu.device().create_native_fence(Default::default()).expect("a fence");
    let update = |value| {
        let operations = vec![map_tile(pool.allocation(), base, 0)];
        client.gpu.device().update_gpu_va(&context, (&fence, value), operations, UpdateGpuVaFlags::empty())
    };
    for value in 1..=128 {
        update(value).expect("it is queued");
    }
    let returned = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            update(129).expect("it is queued in the end");
            returned.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!returned.load(std::sync::atomic::Ordering::SeqCst), "the caller is blocked");
        client.gpu.device().signal(&fence, 1).expect("a signal");
    });
    client.gpu.device().wait(&[(&fence, 130)]).expect("each signals for the next");
}
