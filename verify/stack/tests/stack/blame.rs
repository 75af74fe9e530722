//! Only the process at fault pays: wrong arguments, foreign handles, faults of the GPU, dead processes.

use std::sync::Arc;

use d3dkmt::{DeviceState, EvictFlags, MakeResidentFlags};
use dxgk_host::Mode;
use kmt_calls::{AllocationCall, Call, LockCall, ResidencyCall};
use kmt_link::Link;
use softgpu_umd::{Commands, SurfaceKind, UmdError};
use stack::world::{MIB, VIRTUAL, client, host};
use wddm_types::{GpuVa, NtStatus, RawHandle};

#[test]
fn a_wrong_address_faults_its_own_device_only() {
    // spec: memory §5.8, memory §8.6
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let (mut guilty, mut innocent) = (client(&host), client(&host));
        let surface = innocent.pinned(SurfaceKind::Local, MIB);
        let mut wild = Commands::new();
        wild.fill(GpuVa(0x7fff_0000_0000), 4096, 1);
        let value = guilty.stream.submit(&guilty.gpu, &[], &wild).unwrap();
        let lost = guilty.stream.wait(&guilty.gpu, value);
        // Either the wait is refused, or the fence says already that its device is gone.
        match lost {
            Err(UmdError::Refused(refusal)) => assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED, "{mode:?}"),
            Err(UmdError::Lost(state)) => assert_eq!(state, DeviceState::ErrorDmaPageFault, "{mode:?}"),
            other => panic!("{mode:?}: {other:?}"),
        }
        assert_eq!(guilty.gpu.device().state().unwrap(), DeviceState::ErrorDmaPageFault);
        let refused = guilty.gpu.create_surface(SurfaceKind::Local, 4096).err();
        assert!(matches!(refused, Some(UmdError::Refused(refusal)) if refusal.status == NtStatus::DEVICE_REMOVED));
        let va = surface.va();
        innocent.run(|commands| {
            commands.pattern(va, MIB, 3);
        });
        assert_eq!(innocent.gpu.device().state().unwrap(), DeviceState::Active, "{mode:?}");
    }
}

/// Memory that is mapped but not resident has no entries: using it is a fault.
#[test]
fn memory_that_is_not_resident_faults() {
    // spec: memory §5.8
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let surface = client.gpu.create_surface(SurfaceKind::Local, MIB).unwrap();
    let mut commands = Commands::new();
    commands.touch(surface.va(), MIB, false);
    let value = client.stream.submit(&client.gpu, &[], &commands).unwrap();
    assert!(client.stream.wait(&client.gpu, value).is_err());
    assert_eq!(client.gpu.device().state().unwrap(), DeviceState::ErrorDmaPageFault);
}

#[test]
fn an_invalid_command_is_a_fault() {
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let context = client.gpu.device().create_context(wddm_types::NodeId(0)).unwrap();
    let queue = context.create_kernel_queue().unwrap();
    let buffer = client.pinned(SurfaceKind::System, 4096);
    buffer.lock().unwrap().write_words(0, &[0x7f | 1 << 8]);
    queue.submit(buffer.va(), 8, 1).unwrap();
    assert!(client.gpu.device().wait(&[(queue.progress(), 1)]).is_err());
    assert_eq!(client.gpu.device().state().unwrap(), DeviceState::ErrorDmaPageFault);
}

#[test]
fn too_much_is_refused_and_nothing_changes() {
    // spec: memory §5.2, memory §10.4
    let host = host(VIRTUAL, 2 * MIB);
    let client = client(&host);
    let (a, b, c) = (
        client.gpu.create_surface(SurfaceKind::Local, MIB).unwrap(),
        client.gpu.create_surface(SurfaceKind::Local, MIB).unwrap(),
        client.gpu.create_surface(SurfaceKind::Local, MIB).unwrap(),
    );
    let handles =
        |surfaces: &[&softgpu_umd::Surface]| surfaces.iter().map(|s| s.allocation().handle()).collect::<Vec<_>>();
    let flags = MakeResidentFlags::empty();
    client.gpu.paging().make_resident(handles(&[&a]), flags).unwrap();
    let refused = client.gpu.paging().make_resident(handles(&[&b, &c]), flags).expect_err("three in room for two");
    assert_eq!((refused.status, refused.bytes_to_trim), (NtStatus::NO_MEMORY, MIB));
    // Neither count was raised: an evict of either is below zero.
    for surface in [&b, &c] {
        let below = client.gpu.device().evict(handles(&[surface]), EvictFlags::empty()).expect_err("not on the list");
        assert_eq!(below.status, NtStatus::INVALID_PARAMETER);
    }
    client.gpu.device().evict(handles(&[&a]), EvictFlags::empty()).unwrap();
    client.gpu.paging().make_resident(handles(&[&b, &c]), flags).expect("now there is room");
}

#[test]
fn must_succeed_that_fails_loses_the_device() {
    // spec: memory §5.2, memory §9.3
    let host = host(VIRTUAL, 2 * MIB);
    let client = client(&host);
    let surface = client.gpu.create_surface(SurfaceKind::Local, 2 * MIB).unwrap();
    let other = client.gpu.create_surface(SurfaceKind::Local, 4096).unwrap();
    client.gpu.pin(&other).unwrap();
    let handle = vec![surface.allocation().handle()];
    let alone = client
        .gpu
        .paging()
        .make_resident(handle.clone(), MakeResidentFlags::MUST_SUCCEED)
        .expect_err("needs the other flag");
    assert_eq!(alone.status, NtStatus::INVALID_PARAMETER);
    let flags = MakeResidentFlags::MUST_SUCCEED | MakeResidentFlags::CANT_TRIM_FURTHER;
    let refused = client.gpu.paging().make_resident(handle, flags).expect_err("no room");
    assert_eq!(refused.status, NtStatus::NO_MEMORY);
    assert_eq!(client.gpu.device().state().unwrap(), DeviceState::ErrorOutOfMemory);
}

#[test]
fn handles_of_others_are_none_of_ours() {
    // spec: memory §9.3
    let host = host(VIRTUAL, 4 * MIB);
    let (ours, theirs) = (client(&host), client(&host));
    let surface = theirs.gpu.create_surface(SurfaceKind::Local, 4096).unwrap();
    let stale = {
        let gone = ours.gpu.create_surface(SurfaceKind::Local, 4096).unwrap();
        gone.allocation().handle()
    };
    let device = ours.gpu.device().handle();
    for handle in [stale, RawHandle::NONE, RawHandle(u32::MAX), device] {
        let refused = ours
            .link
            .call(Call::Lock(LockCall::Lock2 { device, allocation: handle, flags: 0 }))
            .expect_err("no allocation");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{handle}");
    }
    // The same number may name an allocation of ours, but never theirs.
    let foreign = surface.allocation().handle();
    let _ = ours.link.call(destroy(device, foreign));
    theirs.gpu.pin(&surface).expect("it is still theirs");
}

#[test]
fn reserved_bits_are_refused() {
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let surface = client.gpu.create_surface(SurfaceKind::Local, 4096).unwrap();
    let handle = surface.allocation().handle();
    let device = client.gpu.device().handle();
    let calls = [
        Call::Lock(LockCall::Lock2 { device, allocation: handle, flags: 1 }),
        Call::Residency(ResidencyCall::Evict {
            device,
            allocations: vec![handle],
            flags: EvictFlags::from_bits_retain(1 << 9),
        }),
        Call::Residency(ResidencyCall::MakeResident {
            paging_queue: client.gpu.paging().handle(),
            allocations: vec![handle],
            flags: MakeResidentFlags::from_bits_retain(1 << 9),
        }),
        create(device, vec![]),
        create(device, vec![vec![1, 2, 3]]),
        create(device, vec![vec![0; 1 << 20]]),
    ];
    for call in calls {
        let name = call.name();
        assert_eq!(client.link.call(call).expect_err(name).status, NtStatus::INVALID_PARAMETER, "{name}");
    }
}

/// A process that dies in the middle of its work takes nothing from others and leaves nothing behind.
#[test]
fn a_process_dies_in_the_middle() {
    // spec: sync §3.4
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut survivor = client(&host);
        let usage_before = survivor.gpu.adapter().video_memory_info(true).unwrap().current_usage_bytes;
        for round in 0..20 {
            let mut victim = client(&host);
            let surface = victim.pinned(SurfaceKind::Local, MIB);
            let mut commands = Commands::new();
            for _ in 0..round {
                commands.pattern(surface.va(), MIB, round);
            }
            // A wait that no signal will ever satisfy must not hold the kernel back either.
            commands.wait(victim.stream.progress(), u64::MAX);
            victim.stream.submit(&victim.gpu, &[], &commands).unwrap();
            let link = Arc::clone(&victim.link);
            host.process_died(link.process());
            drop(victim);
            let own = survivor.pinned(SurfaceKind::Local, 3 * MIB);
            let va = own.va();
            survivor.run(|commands| {
                commands.pattern(va, 3 * MIB, round);
            });
        }
        let usage = survivor.gpu.adapter().video_memory_info(true).unwrap().current_usage_bytes;
        assert_eq!(usage, usage_before, "{mode:?}");
    }
}

fn create(device: RawHandle, private_data: Vec<Vec<u8>>) -> Call {
    let request = |private_data| kmt_calls::AllocationRequest { private_data, ..Default::default() };
    let allocations = private_data.into_iter().map(request).collect();
    Call::Allocation(AllocationCall::CreateAllocation { device, allocations, resource: Default::default() })
}

fn destroy(device: RawHandle, allocation: RawHandle) -> Call {
    let target = kmt_calls::AllocationTarget { allocations: vec![allocation], ..Default::default() };
    Call::Allocation(AllocationCall::DestroyAllocation { device, target, flags: kmt_calls::DestroyFlags::empty() })
}
