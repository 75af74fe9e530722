//! The ring of a doorbell that lives stays where its engine finds it, whatever its owner asks.

use d3dkmt::{EvictFlags, MakeResidentFlags};
use kmt_calls::{AllocationCall, GpuVaCall, ResidencyCall};
use kmt_calls::{
    AllocationTarget, DestroyFlags, GpuVaProtection, OfferFlags, Refusal, UpdateGpuVaFlags, UpdateGpuVaOperation,
};
use softgpu_spec::Command;

use super::*;

/// One page of an allocation at an address.
fn map_at(client: &Client, allocation: RawHandle, base: GpuVa) -> Call {
    Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
        paging_queue: client.gpu.paging().handle(),
        allocation,
        base,
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        offset_in_pages: 0,
        size_in_pages: 1,
        protection: GpuVaProtection::WRITE,
        driver_protection: 0,
    })
}

/// The calls by which an owner takes memory away, of the ring behind another allocation.
fn takes_away(client: &Client, ring: &Surface, other: &Surface) -> [(&'static str, Call); 5] {
    let device = client.gpu.device().handle();
    let both = vec![other.allocation().handle(), ring.allocation().handle()];
    let (flags, priority) = (OfferFlags::empty(), 1);
    let target = AllocationTarget { allocations: both.clone(), ..AllocationTarget::default() };
    [
        (
            "Evict",
            Call::Residency(ResidencyCall::Evict { device, allocations: both.clone(), flags: EvictFlags::empty() }),
        ),
        ("Offer", Call::Residency(ResidencyCall::OfferAllocations { device, list: both.into(), priority, flags })),
        ("Map", map_at(client, other.allocation().handle(), ring.va())),
        ("Free", Call::GpuVa(GpuVaCall::FreeGpuVirtualAddress { device, base: ring.va(), size_bytes: 4096 })),
        (
            "Destroy",
            Call::Allocation(AllocationCall::DestroyAllocation { device, target, flags: DestroyFlags::empty() }),
        ),
    ]
}

#[test]
fn the_ring_of_a_doorbell_that_lives_is_not_taken_away() {
    // spec: sync §3.17, memory §5.3
    let host = stack::world::host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let [ring, other, target] = [(); 3].map(|()| client.pinned(SurfaceKind::System, 4096));
    let made = made_by_hand(&client, &ring);
    drain(&host);
    // Connected or not: it will be.
    for connected in [false, true] {
        if connected {
            let connect = QueueCall::ConnectDoorbell { doorbell: made.doorbell };
            client.link.call(Call::Queue(connect)).expect("it connects");
        }
        let before = host.state_digest();
        for (name, call) in takes_away(&client, &ring, &other) {
            let refusal = client.link.call(call).expect_err(name);
            assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER, "{name}");
            assert!(refusal.reason.contains("destroy the doorbell first"), "{name}: {}", refusal.reason);
        }
        assert!(before.differences(&host.state_digest()).is_empty(), "and nothing is changed");
    }
    // An allocation that was counted twice stays on the list by the other count.
    let handle = vec![ring.allocation().handle()];
    client.gpu.paging().make_resident(handle.clone(), MakeResidentFlags::empty()).expect("it is resident");
    let evict = || client.gpu.device().evict(handle.clone(), EvictFlags::empty());
    evict().expect("one of two");
    evict().expect_err("the last");
    let mut words = Vec::new();
    Command::Fill { va: target.va().0, bytes: 4096, pattern: 7 }.encode(&mut words);
    ring.lock().expect("a lock").write_words(0, &words);
    client.link.doorbell(made.address).expect("its own").ring(words.len() as u64 * 8);
    drain(&host);
    assert_eq!(client.gpu.device().state().expect("a state"), DeviceState::Active);
    assert_eq!(target.lock().expect("a lock").read_word(0), 7 | 7 << 32, "the engine has found what stands there");
    client.link.call(Call::Queue(QueueCall::DestroyDoorbell { doorbell: made.doorbell })).expect("it goes");
    for (name, call) in takes_away(&client, &ring, &other) {
        client.link.call(call).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    }
    drain(&host);
    assert_eq!(client.gpu.device().state().expect("a state"), DeviceState::Active);
    host.check_invariants().unwrap();
    std::mem::forget((ring, other));
}

#[test]
fn a_doorbell_that_is_lost_with_its_device_keeps_no_ring() {
    // spec: sync §3.17, sync §3.16
    let host = stack::world::host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let [ring, other] = [(); 2].map(|()| client.pinned(SurfaceKind::System, 4096));
    made_by_hand(&client, &ring);
    let mut wild = Commands::new();
    wild.fill(GpuVa(0x7fff_0000_0000), 4096, 1);
    let value = client.stream.submit(&client.gpu, &[], &wild).expect("a submission");
    client.stream.wait(&client.gpu, value).expect_err("the device is lost");
    let [.., (_, destroy)] = takes_away(&client, &ring, &other);
    client.link.call(destroy).expect("the remaining objects can be destroyed");
    std::mem::forget((ring, other));
    host.check_invariants().unwrap();
}

/// An address range of the upper half, and the same with its sign.
const HIGH: GpuVa = GpuVa(1 << 47);
const SIGNED: GpuVa = GpuVa(u64::MAX << 47);

#[test]
fn no_update_maps_something_else_over_the_ring_of_a_doorbell_that_lives() {
    // spec: sync §3.17, memory §4.8, memory §4.3
    let host = stack::world::host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let [ring, other] = [(); 2].map(|()| client.pinned(SurfaceKind::System, 4096));
    let (device, handle) = (client.gpu.device(), ring.allocation().handle());
    let call = |call| client.link.call(call);
    let (base, size_bytes, reservation_type) = (HIGH, 0x10_0000, 0);
    let (minimum, maximum, driver_protection) = (GpuVa::NULL, GpuVa::NULL, 0);
    let of = device.handle();
    let reserve = Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress {
        device: of,
        base,
        minimum,
        maximum,
        size_bytes,
        reservation_type,
        driver_protection,
    });
    call(reserve).expect("the upper half is free");
    call(map_at(&client, handle, HIGH)).expect("within what was reserved");
    drain(&host);
    let new = |queue: QueueCall| match call(Call::Queue(queue)) {
        Ok(Reply::Handle(context)) => context,
        Ok(Reply::HwQueue(made)) => made.queue,
        other => panic!("{other:?}"),
    };
    let (private_data, flags) = (Vec::new(), QueueFlags::USER_MODE_SUBMISSION);
    let context = new(QueueCall::CreateHwContext { device: of, node: NodeId(0), private_data: Vec::new() });
    let queue = new(QueueCall::CreateHwQueue { context, flags, private_data });
    let doorbell = |ring_va| {
        let create = QueueCall::CreateDoorbell { queue, ring: handle, ring_va, private_data: Vec::new() };
        call(Call::Queue(create))
    };
    let fence = device.create_native_fence(Default::default()).expect("a fence");
    let update = |fence_value, operation| {
        let (operations, flags) = (vec![operation], UpdateGpuVaFlags::empty());
        call(Call::GpuVa(GpuVaCall::UpdateGpuVirtualAddress {
            device: of,
            context,
            fence: fence.handle(),
            fence_value,
            operations,
            flags,
        }))
    };
    let map = |base, size_bytes| {
        let allocation = other.allocation().handle();
        let (offset_bytes, allocation_size_bytes, protection) = (0, 4096, None);
        UpdateGpuVaOperation::Map { base, size_bytes, allocation, offset_bytes, allocation_size_bytes, protection }
    };
    let refused = |answer: Result<Reply, Refusal>, needle: &str, what: &str| {
        let refusal = answer.expect_err(what);
        assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER, "{what}: {refusal}");
        assert!(refusal.reason.contains(needle), "{what}: {refusal}");
    };
    // One that was asked for before there was a doorbell.
    update(5, map(HIGH, 8192)).expect("it waits for its fence");
    refused(doorbell(HIGH), "come to its turn first", "a ring that an update will change");
    device.signal(&fence, 5).expect("a signal");
    drain(&host);
    call(map_at(&client, handle, HIGH)).expect("the ring again");
    drain(&host);
    let Ok(Reply::Doorbell(made)) = doorbell(SIGNED) else { panic!("no doorbell") };
    let before = host.state_digest();
    let unmap = |base| {
        let protection = GpuVaProtection::NO_ACCESS;
        UpdateGpuVaOperation::Unmap { base, size_bytes: 4096, protection }
    };
    let beside = HIGH.offset(8192);
    let copy = UpdateGpuVaOperation::Copy { source: beside, size_bytes: 4096, destination: SIGNED };
    for (what, operation) in
        [("MAP", map(SIGNED, 4096)), ("MAP, larger", map(HIGH, 8192)), ("UNMAP", unmap(HIGH)), ("COPY", copy)]
    {
        refused(update(0, operation), "destroy the doorbell first", what);
    }
    for base in [HIGH, SIGNED] {
        refused(call(map_at(&client, other.allocation().handle(), base)), "destroy the doorbell first", "Map");
        let free = Call::GpuVa(GpuVaCall::FreeGpuVirtualAddress { device: of, base, size_bytes: 0x10_0000 });
        refused(call(free), "destroy the doorbell first", "Free");
    }
    assert!(before.differences(&host.state_digest()).is_empty(), "and nothing is changed");
    update(6, map(beside, 4096)).expect("beside it");
    let from_ring = UpdateGpuVaOperation::Copy { source: HIGH, size_bytes: 4096, destination: beside };
    update(7, from_ring).expect("the ring's memory may be mapped elsewhere, too");
    call(Call::Queue(QueueCall::DestroyDoorbell { doorbell: made.doorbell })).expect("it goes");
    update(8, unmap(HIGH)).expect("it is no ring any more");
    drain(&host);
    assert_eq!(client.gpu.device().state().expect("a state"), DeviceState::Active);
    host.check_invariants().unwrap();
}
