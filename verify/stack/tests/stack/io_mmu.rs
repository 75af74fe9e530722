//! An adapter of the IoMmu model: the GPU uses the CPU's addresses of a process, the platform translates them, and nothing
//! has a page table.

mod refusals;

use std::sync::Arc;

use d3dkmt::{
    AllocationRequest as Requested, CreateAllocationFlags, DeviceState, EvictFlags, FenceFlags, GpuVaReservation,
    MakeResidentFlags, OfferFlags, ReclaimResult, Refusal, Resource, ResourceRequest, UpdateGpuVaFlags, VirtualContext,
};
use ddi::{ContextCaps, VidMmCaps};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_calls::{Call, NativeFenceRequest, Reply, SyncCall, SyncObjectKind, SyncObjectRequest};
use kmt_link::Link;
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_umd::{Commands, Gpu, Lane, Stage, Surface, SurfaceKind, UmdError, pattern};
use wddm_types::{GpuVa, NodeId, NtStatus};

use crate::stubborn::{Whims, wrapped};
use stack::world::{Client, MIB, VIRTUAL, client, unnamed};

fn config(profile: &str, mode: Mode) -> HostConfig {
    HostConfig {
        vram_bytes: 16 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), mode)
    }
}

fn host(mode: Mode) -> Arc<Host> {
    Host::start(config("iommu", mode)).expect("the host starts")
}

/// Whether the CPU finds this content.
fn holds(surface: &Surface, seed: u64) -> bool {
    let lock = surface.lock().expect("system memory");
    (0..surface.bytes()).step_by(8).all(|at| lock.read_word(at) == pattern::word(seed, at))
}

/// Lets a client run commands that fault; returns the state of its device.
fn lost(client: &mut Client, build: impl FnOnce(&mut Commands)) -> DeviceState {
    let mut commands = Commands::new();
    build(&mut commands);
    let value = client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
    match client.stream.wait(&client.gpu, value) {
        Err(UmdError::Refused(refusal)) => assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED),
        Err(UmdError::Lost(_)) => {}
        other => panic!("it faults: {other:?}"),
    }
    client.gpu.device().state().unwrap()
}

#[test]
fn the_engine_copies_at_the_cpu_s_addresses() {
    // spec: memory §4.1
    for mode in [Mode::Real, VIRTUAL] {
        let host = host(mode);
        let mut client = client(&host);
        let info = client.gpu.adapter().info().unwrap();
        assert!(info.cpu_addresses && !info.gpu_virtual_addresses, "no GPU virtual addresses: the CPU's");
        for (bytes, seed) in [(3 * 4096 + 512, 7), (2 * MIB, 8)] {
            let source = client.pinned(SurfaceKind::System, bytes);
            let target = client.pinned(SurfaceKind::LocalThenSystem, bytes);
            assert_eq!(source.va(), source.allocation().address().for_gpu());
            client.run(|commands| {
                commands.pattern(source.va(), bytes, seed);
                commands.copy(source.va(), target.va(), bytes);
            });
            assert!(holds(&target, seed), "{mode:?}");
        }
        host.check_invariants().expect("all rules hold");
    }
}

#[test]
fn an_adapter_of_the_model_has_its_capabilities_and_no_page_tables() {
    // spec: memory §4.1, memory §1.14
    let described = host(VIRTUAL).describe();
    let caps = described.reported.memory_caps;
    assert!(caps.contains(VidMmCaps::VIRTUAL_ADDRESSING_SUPPORTED | VidMmCaps::IO_MMU_SUPPORTED));
    assert!(!caps.contains(VidMmCaps::GPU_MMU_SUPPORTED));
    assert!(described.reported.levels.is_empty() && !described.facets.contains(&"GPU virtual addresses"));
    assert!(described.segments.iter().all(|segment| segment.aperture), "system memory only");
}

#[test]
fn what_is_evicted_faults_and_what_is_made_resident_again_is_as_it_was() {
    // spec: memory §4.1, memory §5.1, memory §5.8
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode);
        let (mut guilty, mut innocent) = (client(&host), client(&host));
        for client in [&mut guilty, &mut innocent] {
            let surface = client.pinned(SurfaceKind::System, MIB);
            let (va, handle) = (surface.va(), vec![surface.allocation().handle()]);
            client.run(|commands| {
                commands.pattern(va, MIB, 5);
            });
            client.gpu.device().evict(handle.clone(), EvictFlags::empty()).unwrap();
            assert!(holds(&surface, 5), "its pages stay its own");
            client.gpu.pin(&surface).unwrap();
            let copy = client.pinned(SurfaceKind::System, MIB);
            client.run(|commands| {
                commands.copy(va, copy.va(), MIB);
            });
            assert!(holds(&copy, 5), "{mode:?}: at the same address");
        }
        let surface = guilty.pinned(SurfaceKind::System, MIB);
        guilty.gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty()).unwrap();
        // The unmapping stands in the paging ring: a later work of the same queue marks its end.
        let other = guilty.pinned(SurfaceKind::System, 4096);
        let va = surface.va();
        let state = lost(&mut guilty, |commands| {
            commands.fill(va, 4096, 1);
        });
        assert_eq!(state, DeviceState::ErrorDmaPageFault, "{mode:?}");
        drop(other);
        let surface = innocent.pinned(SurfaceKind::System, 4096);
        innocent.run(|commands| {
            commands.pattern(surface.va(), 4096, 3);
        });
        assert_eq!(innocent.gpu.device().state().unwrap(), DeviceState::Active, "others go on");
        host.check_invariants().expect("all rules hold");
    }
}

#[test]
fn a_process_reaches_its_own_addresses_only() {
    // spec: memory §4.1
    let host = host(VIRTUAL);
    let (mut ours, mut theirs) = (client(&host), client(&host));
    // So many that no address of theirs is one of ours.
    let many: Vec<Surface> = (0..8).map(|_| ours.pinned(SurfaceKind::System, MIB)).collect();
    let last = many.last().expect("eight").va();
    for (client, wrong) in [(&mut theirs, last), (&mut ours, GpuVa(0))] {
        let state = lost(client, |commands| {
            commands.fill(wrong, 8, 1);
        });
        assert_eq!(state, DeviceState::ErrorDmaPageFault, "{wrong}");
    }
}

#[test]
fn fences_are_used_by_their_cpu_address() {
    // spec: sync §1.5
    // seed: C08
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode);
        let mut client = client(&host);
        let device = client.gpu.device().handle();
        let request = NativeFenceRequest::default();
        let Ok(Reply::Fence(raw)) = client.link.call(Call::Sync(SyncCall::CreateNativeFence { device, request }))
        else {
            panic!("a fence")
        };
        assert!(raw.current_va.is_null(), "there is no GPU address to use");
        assert!(!raw.current_cpu_va.is_null() && !raw.monitored_va.is_null());
        let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
        let (current, monitored) = (fence.current_va(), fence.monitored_va());
        // The GPU signals it there, and the CPU sees that.
        client.run(|commands| {
            commands.signal(unnamed(current, monitored), 4);
        });
        client.gpu.device().wait(&[(&fence, 4)]).unwrap();
        assert_eq!(fence.current(), 4);
        // The CPU signals, and the GPU waits there.
        let surface = client.pinned(SurfaceKind::System, 4096);
        let mut commands = Commands::new();
        commands.wait(unnamed(current, monitored), 9);
        commands.pattern(surface.va(), 4096, 6);
        let value = client.stream.submit(&client.gpu, &[], &commands).unwrap();
        assert!(!holds(&surface, 6));
        client.gpu.device().signal(&fence, 9).unwrap();
        client.stream.wait(&client.gpu, value).unwrap();
        assert!(holds(&surface, 6), "{mode:?}");
        // MonitoredValue is the kernel's to write.
        let state = lost(&mut client, |commands| {
            commands.fill(monitored, 8, 0);
        });
        assert_eq!(state, DeviceState::ErrorDmaPageFault, "{mode:?}");
    }
}

/// A monitored fence has no address of the GPU's either: engines store and wait by the CPU's.
#[test]
fn monitored_fences_are_used_by_their_cpu_address_too() {
    // spec: sync §1.5, sync §2.2
    // seed: C08
    for mode in [VIRTUAL, Mode::Real] {
        let host = Host::start(config("iommu-packets", mode)).expect("the host starts");
        let link = ProcessLink::new(Arc::clone(&host));
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
        let device = gpu.device();
        let kind = SyncObjectKind::MonitoredFence { initial_value: 0, engine_affinity: 0 };
        let request = SyncObjectRequest { kind, flags: Default::default() };
        let create = SyncCall::CreateSynchronizationObject2 { device: device.handle(), request };
        let Ok(Reply::MonitoredFence(raw)) = link.call(Call::Sync(create)) else { panic!("a monitored fence") };
        assert!(raw.value_va.is_null() && !raw.value_cpu_va.is_null(), "there is no GPU address to use");
        let fence = device.create_monitored_fence(FenceFlags::empty(), 0).unwrap();
        let mut lane = Lane::create_at(&gpu, NodeId(0), Stage::Packet).unwrap();
        let surface = gpu.create_surface(SurfaceKind::System, 4096).unwrap();
        gpu.pin(&surface).unwrap();
        // The GPU signals it there, and the CPU sees that.
        lane.commands().expect("it has addresses").signal_monitored(fence.current_va(), 4);
        lane.submit(&gpu, None).unwrap();
        device.wait(&[(&fence, 4)]).unwrap();
        assert_eq!(fence.current(), 4, "{mode:?}");
        // The CPU signals, and the GPU waits for that.
        lane.wait_on_gpu(&gpu, None, &fence, 9).unwrap();
        lane.pattern(&surface, 6);
        let value = lane.submit(&gpu, None).unwrap();
        assert!(!holds(&surface, 6), "{mode:?}: 4 is not 9");
        device.signal(&fence, 9).unwrap();
        lane.wait(&gpu, value).unwrap();
        assert!(holds(&surface, 6), "{mode:?}");
        assert_eq!(device.state().unwrap(), DeviceState::Active, "{mode:?}");
        host.check_invariants().expect("all rules hold");
    }
}

#[test]
fn calls_about_gpu_addresses_are_refused_by_name() {
    // spec: memory §4.1, memory §4.8
    let host = host(VIRTUAL);
    let client = client(&host);
    let (device, surface) = (client.gpu.device(), client.pinned(SurfaceKind::System, 65536));
    let refused = |what: &str, result: Result<(), Refusal>| {
        let refusal = result.expect_err(what);
        assert_eq!(refusal.status, NtStatus::NOT_SUPPORTED, "{what}: {refusal}");
        assert!(refusal.reason.contains("IoMmu"), "{what}: {refusal}");
    };
    refused("map", client.gpu.paging().map(surface.allocation(), 16, true).map(drop));
    refused("map there", client.gpu.paging().map_at(surface.allocation(), surface.va(), 0, 16, true).map(drop));
    let reservation = GpuVaReservation { size_bytes: 65536, ..GpuVaReservation::default() };
    refused("reserve", device.reserve_gpu_va(reservation).map(drop));
    refused("free", device.free_gpu_va(surface.va(), 65536));
    let context = device.create_context(NodeId(0)).unwrap();
    let fence = device.create_native_fence(NativeFenceRequest::default()).unwrap();
    refused("update", device.update_gpu_va(&context, (&fence, 0), Vec::new(), UpdateGpuVaFlags::empty()));
    assert_eq!(device.state().unwrap(), DeviceState::Active);
    host.check_invariants().expect("all rules hold");
}

#[test]
fn what_is_shared_has_an_address_in_each_process() {
    // spec: memory §4.1, memory §2.7
    let host = host(VIRTUAL);
    let (mut ours, mut theirs) = (client(&host), client(&host));
    let data = AllocationRequest {
        kind: Kind::System,
        cpu_visible: true,
        cached: false,
        accessed_physically: false,
        size_bytes: 65536,
    };
    let create = |client: &Client, flags| {
        let request = Requested { private_data: data.encode().to_vec(), ..Requested::default() };
        let shared = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED;
        let call = ResourceRequest { flags: shared | flags, ..ResourceRequest::default() };
        let made = Resource::create(client.gpu.device(), vec![request], call).unwrap();
        make_resident(client, made.allocations()[0].handle());
        made
    };
    let made = create(&ours, CreateAllocationFlags::empty());
    let at = made.allocations()[0].address();
    ours.run(|commands| {
        commands.pattern(at.for_gpu(), 65536, 11);
    });
    let opened = Resource::open(theirs.gpu.device(), made.global_share()).unwrap();
    let again = Resource::open(theirs.gpu.device(), made.global_share()).unwrap();
    let there = opened.allocations()[0].address();
    assert_eq!(again.allocations()[0].address(), there, "one address a process");
    make_resident(&theirs, opened.allocations()[0].handle());
    let copy = theirs.pinned(SurfaceKind::System, 65536);
    theirs.run(|commands| {
        commands.copy(there.for_gpu(), copy.va(), 65536);
    });
    assert!(holds(&copy, 11));
    drop(again);
    theirs.run(|commands| {
        commands.fill(there.for_gpu(), 8, 1);
    });
    // Shared for reading: the platform's table says so.
    let flags = CreateAllocationFlags::NT_SECURITY_SHARING | CreateAllocationFlags::READ_ONLY;
    let read_only = create(&ours, flags);
    let opened = Resource::open(theirs.gpu.device(), read_only.share().unwrap()).unwrap();
    let there = opened.allocations()[0].address();
    make_resident(&theirs, opened.allocations()[0].handle());
    theirs.run(|commands| {
        commands.copy(there.for_gpu(), copy.va(), 65536);
    });
    let state = lost(&mut theirs, |commands| {
        commands.fill(there.for_gpu(), 8, 1);
    });
    assert_eq!(state, DeviceState::ErrorDmaPageFault);
    ours.run(|commands| {
        commands.fill(read_only.allocations()[0].address().for_gpu(), 8, 1);
    });
    host.check_invariants().expect("all rules hold");
}

fn make_resident(client: &Client, handle: wddm_types::RawHandle) {
    let paging = client.gpu.paging();
    let made = paging.make_resident(vec![handle], MakeResidentFlags::empty()).unwrap();
    if let d3dkmt::Residency::Pending { paging_fence_value, .. } = made {
        client.gpu.device().wait(&[(paging.fence(), paging_fence_value)]).unwrap();
    }
}

#[test]
fn offers_budgets_and_the_end_of_a_process_work_as_on_every_adapter() {
    // spec: memory §4.1, memory §5.5, memory §5.9
    let host = host(VIRTUAL);
    let mut client = client(&host);
    let surface = client.pinned(SurfaceKind::System, MIB);
    let handle = vec![surface.allocation().handle()];
    let used = |client: &Client, local| client.gpu.adapter().video_memory_info(local).unwrap().current_usage_bytes;
    let before = used(&client, true) + used(&client, false);
    let more = client.pinned(SurfaceKind::System, MIB);
    assert_eq!(used(&client, true) + used(&client, false), before + MIB);
    client.run(|commands| {
        commands.pattern(surface.va(), MIB, 9);
    });
    client.gpu.device().evict(handle.clone(), EvictFlags::empty()).unwrap();
    client.gpu.device().offer(handle.clone(), 1, OfferFlags::empty()).unwrap();
    let (results, _) = client.gpu.paging().reclaim(handle).unwrap();
    assert_eq!(results, [ReclaimResult::Ok], "the kernel needed no room");
    client.gpu.pin(&surface).unwrap();
    assert!(holds(&surface, 9));
    drop(more);
    // Processes come and go, and PASIDs with them: each new process sees its own content.
    for seed in 20..30 {
        let mut guest = stack::world::client(&host);
        let surface = guest.pinned(SurfaceKind::System, MIB);
        guest.run(|commands| {
            commands.pattern(surface.va(), MIB, seed);
        });
        assert!(holds(&surface, seed));
        host.process_died(guest.link.process());
        host.check_invariants().expect("all rules hold");
    }
    client.run(|commands| {
        commands.touch(surface.va(), MIB, false);
    });
}

#[test]
fn contexts_with_addresses_run_in_the_adapter_s_model_and_in_no_other() {
    // spec: memory §4.1, memory §7.1
    let client_of = |profile, caps: fn(ContextCaps) -> ContextCaps| {
        let mut config = config(profile, VIRTUAL);
        let context = Box::new(move |info: &mut ddi::ContextInfo| info.caps = caps(info.caps));
        config.wrap_miniport = Some(wrapped(Whims { context, packets: true, ..Whims::default() }));
        let host = Host::start(config).expect("the host starts");
        (client(&host), host)
    };
    let create = |client: &Client| VirtualContext::create(client.gpu.device(), NodeId(1), Vec::new());
    let (client, host) = client_of("iommu", |caps| caps);
    let context = create(&client).expect("its driver says UseIoMmu");
    let (source, target) = (client.pinned(SurfaceKind::System, 4096), client.pinned(SurfaceKind::System, 4096));
    let buffer = client.pinned(SurfaceKind::System, 4096);
    let mut commands = Commands::new();
    commands.pattern(source.va(), 4096, 2);
    commands.copy(source.va(), target.va(), 4096);
    buffer.lock().unwrap().write_words(0, commands.words());
    context.submit(buffer.va(), commands.words().len() as u32 * 8, Vec::new()).unwrap();
    let done = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    context.signal(&done, 1).unwrap();
    client.gpu.device().wait(&[(&done, 1)]).unwrap();
    assert!(holds(&target, 2));
    host.check_invariants().expect("all rules hold");

    for (profile, caps) in [
        ("iommu", (|caps| caps - ContextCaps::USE_IO_MMU) as fn(ContextCaps) -> ContextCaps),
        ("discrete-4k", |caps| caps | ContextCaps::USE_IO_MMU),
        ("integrated", |caps| caps | ContextCaps::USE_IO_MMU),
    ] {
        let (client, host) = client_of(profile, caps);
        let refusal = create(&client).err().expect("the other model");
        assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER, "{profile}: {refusal}");
        assert_eq!(refusal.blame, wddm_types::Blame::Driver, "{profile}: {refusal}");
        assert!(refusal.reason.contains("UseIoMmu"), "{profile}: {refusal}");
        host.check_invariants().expect("nothing of it is left");
    }
}
