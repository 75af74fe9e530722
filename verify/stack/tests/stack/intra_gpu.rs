//! INTRA_GPU fences: engine to engine, in local memory, out of the CPU's reach.

use std::sync::Arc;

use d3dkmt::{EvictFlags, Fence, FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, Refusal, SyncObjectAccess};
use ddi::{FenceType, FenceValueType, PowerState, SegmentPreference};
use dxgk_host::{Host, HostConfig, Profile};
use kmt_calls::{Call, DeviceState, QueueCall, SyncCall, WaitFlags};
use softgpu_spec::pattern;
use softgpu_spec::register::counter;
use softgpu_umd::{Commands, Stream, StreamConfig, SurfaceKind};
use wddm_types::{NodeId, NtStatus, SegmentId, SegmentSet};

use crate::stubborn::{Shared, Whims, wrapped};
use stack::world::{Client, MIB, VIRTUAL, client, unnamed};

fn host_of(profile: &str) -> Arc<Host> {
    let profile = Profile::named(profile).expect("a built-in profile");
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(profile, VIRTUAL)
    };
    Host::start(config).expect("the host starts")
}

const INTRA_GPU: NativeFenceRequest = NativeFenceRequest {
    initial_value: 0,
    fence_type: 1,
    flags: FenceFlags::empty(),
    engine_affinity: 0,
    private_data: d3dkmt::FencePrivateData([0; 64]),
};

fn intra_gpu(of: &Client) -> Fence {
    of.gpu.device().create_native_fence(INTRA_GPU).expect("an INTRA_GPU fence")
}

fn status<T>(result: Result<T, Refusal>) -> NtStatus {
    result.err().expect("a refusal").status
}

fn local_usage(of: &Client) -> u64 {
    of.gpu.adapter().video_memory_info(true).unwrap().current_usage_bytes
}

/// The word at an address, as an engine reads it.
fn read_by_gpu(of: &mut Client, va: wddm_types::GpuVa) -> u64 {
    let report = of.pinned(SurfaceKind::System, 4096);
    of.run(|commands| {
        commands.checksum(va, 8, report.va());
    });
    report.lock().expect("a lock").read_word(0)
}

#[test]
fn without_system_memory_for_its_storage_a_fence_is_refused_for_memory() {
    // spec: sync §1.5, sync §5
    let host = host_of("intra-gpu-fences");
    let (hoarder, late) = (client(&host), client(&host));
    let mut hoard = Vec::new();
    for bytes in [MIB, 64 << 10, 4 << 10] {
        while let Ok(surface) = hoarder.gpu.create_surface(SurfaceKind::System, bytes) {
            hoard.push(surface);
        }
    }
    assert_eq!(status(late.gpu.device().create_native_fence(INTRA_GPU)), NtStatus::NO_MEMORY, "a retry is meaningful");
    drop(hoard);
    while host.step() {}
    intra_gpu(&late);
    host.check_invariants().unwrap();
}

#[test]
fn engines_wait_for_each_other_in_local_memory_without_an_interrupt() {
    // spec: sync §1.4, sync §1.5, sync §6 A6
    // seed: N08, N22, N25
    let host = host_of("intra-gpu-fences");
    let mut compute = client(&host);
    let before = local_usage(&compute);
    let fences: Vec<_> = (0..3).map(|_| intra_gpu(&compute)).collect();
    let page = 65536;
    assert_eq!(local_usage(&compute) - before, 2 * page, "one page of each kind of word, in video memory");
    let places: std::collections::BTreeSet<_> =
        fences.iter().flat_map(|fence| [fence.current_va(), fence.monitored_va()]).collect();
    assert_eq!(places.len(), 6, "each word has its place");
    assert!(fences.iter().all(|fence| !fence.is_mapped()), "no address for the CPU");
    let fence = &fences[1];
    // The initial value is a GPU write; MonitoredValue lets no signal interrupt.
    assert_eq!(read_by_gpu(&mut compute, fence.monitored_va()), u64::MAX);
    compute.run(|commands| {
        commands.signal(fence, 40);
    });
    assert_eq!(read_by_gpu(&mut compute, fence.current_va()), 40);
    let mut copy = Stream::create(&compute.gpu, NodeId(1), StreamConfig::default()).expect("a stream");
    let raised = host.device_register(counter::INTERRUPTS_RAISED);
    let dispatched = host.counters().interrupt_dispatches;
    let mut wait = Commands::new();
    wait.wait(fence, 42).signal(fence, 43);
    copy.submit(&compute.gpu, &[], &wait).expect("a submission");
    while host.step() {}
    let mut signal = Commands::new();
    signal.signal(fence, 42).wait(fence, 43);
    compute.stream.submit(&compute.gpu, &[], &signal).expect("a submission");
    while host.step() {}
    assert_eq!(host.device_register(counter::INTERRUPTS_RAISED), raised, "the CPU slept");
    assert_eq!(host.counters().interrupt_dispatches, dispatched);
    assert_eq!(read_by_gpu(&mut compute, fence.current_va()), 43);
    assert!([&fences[0], &fences[2]].iter().all(|other| read_by_gpu(&mut compute, other.current_va()) == 0));
    host.check_invariants().unwrap();
}

/// The kernel asks the driver for each kind of word, and each lies in the driver's segment: of two memories one has the current values and the
/// other the monitored ones, either way round.
#[test]
fn each_kind_of_word_lies_in_the_segment_that_the_driver_names_for_it() {
    // spec: sync §1.5, sync §2.6
    // seed: N25
    let (values, monitored) = (FenceValueType::Current, FenceValueType::Monitored);
    for homes in [[1, 3], [3, 1]] {
        let asked: Shared<(FenceType, FenceValueType)> = Shared::default();
        let notes = Arc::clone(&asked);
        let whims = Whims {
            fence_storage: Box::new(move |surface| {
                notes.lock().unwrap().push((surface.fence_type, surface.value_type));
                let home = SegmentId(homes[usize::from(surface.value_type == monitored)]);
                surface.info.preferred_segment = SegmentPreference::of(&[home]);
                surface.info.supported_segments = SegmentSet::only(home);
                surface.info.read_segments = SegmentSet::only(home);
            }),
            ..Whims::default()
        };
        let mut config = HostConfig {
            vram_bytes: 32 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            wrap_miniport: Some(wrapped(whims)),
            ..HostConfig::new(Profile::named("two-memories").expect("a built-in profile"), VIRTUAL)
        };
        config.features.native_fence.intra_gpu_fence_type = true;
        let host = Host::start(config).expect("the host starts");
        let mut one = client(&host);
        let link = Arc::clone(&one.link);
        let committed = |segment: u8| {
            let statistics = d3dkmt::query_statistics(&*link, host.adapter(0).luid()).expect("figures");
            let found = statistics.segments.iter().find(|of| of.segment == SegmentId(segment));
            found.expect("two memories").committed_bytes
        };
        while host.step() {}
        let (before, asked_before) = ([1, 3].map(&committed), std::mem::take(&mut *asked.lock().unwrap()));
        assert_eq!(asked_before, [], "the fences of queues lie in system memory");
        let request = |kind| NativeFenceRequest { fence_type: kind, ..INTRA_GPU };
        let fence = one.gpu.device().create_native_fence(request(1)).expect("an INTRA_GPU fence");
        while host.step() {}
        let mut kinds = std::mem::take(&mut *asked.lock().unwrap());
        kinds.sort_by_key(|(_, kind)| *kind == monitored);
        assert_eq!(kinds, [(FenceType::IntraGpu, values), (FenceType::IntraGpu, monitored)]);
        let after = [1, 3].map(&committed);
        assert!(
            after.iter().zip(before).all(|(after, before)| *after > before),
            "one page in each: {before:?} {after:?}"
        );
        one.run(|commands| {
            commands.signal(&fence, 5);
        });
        assert_eq!(read_by_gpu(&mut one, fence.current_va()), 5);
        assert_eq!(read_by_gpu(&mut one, fence.monitored_va()), u64::MAX);
        assert_eq!(host.stopped(), None);
    }
}

#[test]
fn the_cpu_neither_waits_for_them_nor_signals_them() {
    // spec: sync §1.4, sync §5
    let host = host_of("intra-gpu-fences");
    let client = client(&host);
    let fence = intra_gpu(&client);
    let (device, points) = (client.gpu.device().handle(), vec![(fence.handle(), 1)]);
    let context = client.gpu.device().create_context(NodeId(0)).expect("a context");
    let queue = context.create_kernel_queue().expect("a queue").handle();
    while host.step() {}
    for call in [
        Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
            device,
            points: points.clone(),
            async_event: wddm_types::RawHandle::NONE,
            flags: WaitFlags::empty(),
        }),
        Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu {
            device,
            points: points.clone(),
            flags: kmt_calls::SignalFlags::empty(),
        }),
        Call::Queue(QueueCall::SubmitWaitForSyncObjectsToHwQueue { queue, points: points.clone() }),
        Call::Queue(QueueCall::SubmitSignalSyncObjectsToHwQueue {
            queues: vec![queue],
            points,
            flags: Default::default(),
        }),
    ] {
        let before = host.state_digest();
        assert_eq!(
            status(kmt_link::Link::call(client.link.as_ref(), call.clone())),
            NtStatus::INVALID_PARAMETER,
            "{call:?}"
        );
        assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new(), "{call:?}");
    }
}

#[test]
fn only_a_kernel_that_announces_them_makes_them_and_only_on_local_memory() {
    // spec: sync §3.2 step 1, sync §5
    for profile in ["discrete-64k", "integrated"] {
        let mut profile = *Profile::named(profile).expect("a built-in profile");
        profile.fence_caps.intra_gpu_fence_type = profile.name == "integrated";
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            ..HostConfig::new(&profile, VIRTUAL)
        };
        let host = Host::start(config).expect("the host starts");
        let client = client(&host);
        let refused = client.gpu.device().create_native_fence(INTRA_GPU);
        assert_eq!(status(refused), NtStatus::NOT_SUPPORTED, "{}", profile.name);
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_shared_one_lies_in_system_memory_and_still_has_no_cpu() {
    // spec: sync §1.5, sync §6 A5
    let host = host_of("intra-gpu-fences");
    let (mut ours, mut theirs) = (client(&host), client(&host));
    let before = local_usage(&ours);
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let mine = ours.gpu.device().create_native_fence(NativeFenceRequest { flags, ..INTRA_GPU }).unwrap();
    assert_eq!(local_usage(&ours), before, "no video memory");
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let request = OpenSyncObjectRequest { handle: name.token(), ..Default::default() };
    let opened = theirs.gpu.device().open_native_fence(request).unwrap();
    assert!(!mine.is_mapped() && !opened.is_mapped());
    let mut wait = Commands::new();
    wait.wait(&opened, 5);
    let waited = theirs.stream.submit(&theirs.gpu, &[], &wait).unwrap();
    ours.run(|commands| {
        commands.signal(&mine, 5);
    });
    theirs.stream.wait(&theirs.gpu, waited).unwrap();
    assert_eq!(status(theirs.gpu.device().wait(&[(&opened, 5)])), NtStatus::INVALID_PARAMETER);
}

#[test]
fn the_words_stay_where_they_are_under_pressure_and_go_with_the_device() {
    // spec: sync §1.5
    let host = host_of("intra-gpu-fences");
    let mut one = client(&host);
    let empty = local_usage(&one);
    let fence = intra_gpu(&one);
    one.run(|commands| {
        commands.signal(&fence, 7);
    });
    // Another fills all of video memory, again and again.
    let mut other = client(&host);
    for round in 0..3 {
        let surfaces: Vec<_> =
            (0..6).map(|_| other.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface")).collect();
        for surface in &surfaces {
            if other.gpu.pin(surface).is_ok() {
                other.run(|commands| {
                    commands.pattern(surface.va(), MIB, round);
                });
            }
        }
    }
    assert_eq!(read_by_gpu(&mut one, fence.current_va()), 7);
    one.run(|commands| {
        commands.signal(&fence, 8).wait(&fence, 8);
    });
    assert_eq!(read_by_gpu(&mut one, fence.current_va()), 8);
    drop(fence);
    // The page stays for the next fence, and goes with the device.
    assert!(local_usage(&one) > empty);
    let next = intra_gpu(&one);
    drop((next, one));
    while host.step() {}
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

#[test]
fn the_words_outlive_sleep() {
    // spec: memory §1.10, sync §1.5
    let host = host_of("intra-gpu-fences");
    let mut one = client(&host);
    let fence = intra_gpu(&one);
    one.run(|commands| {
        commands.signal(&fence, 11);
    });
    host.power_transition(PowerState::Standby).expect("it falls asleep");
    host.power_transition(PowerState::On).expect("it wakes");
    assert_eq!(read_by_gpu(&mut one, fence.current_va()), 11);
    assert_eq!(read_by_gpu(&mut one, fence.monitored_va()), u64::MAX);
    one.run(|commands| {
        commands.signal(&fence, 12).wait(&fence, 12);
    });
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

/// A lost device leaves no queue parked, also where the CPU cannot write the word.
#[test]
fn a_lost_device_satisfies_them_by_the_hardware() {
    // spec: sync §3.16
    let host = host_of("intra-gpu-fences");
    let mut one = client(&host);
    let fence = intra_gpu(&one);
    let wild = wddm_types::GpuVa(0x7fff_0000_0000);
    let mut commands = Commands::new();
    commands.signal(unnamed(wild, wild.offset(8)), 1);
    one.stream.submit(&one.gpu, &[], &commands).unwrap();
    while host.step() {}
    assert_eq!(host.stopped(), None, "the driver was told, and could");
    drop(fence);
    host.check_invariants().unwrap();
}

/// A device is lost while the storage of its new fence still holds another process's content: the kernel seals the word only when it is in
/// place.
#[test]
fn a_device_lost_before_its_words_are_there_writes_into_no_other_content() {
    // spec: sync §1.5, sync §3.16
    const SEED: u64 = 29;
    for steps in 0..12 {
        let host = host_of("intra-gpu-fences");
        let (mut one, mut other) = (client(&host), client(&host));
        let mut all = Vec::new();
        for bytes in [MIB, 64 << 10] {
            while let Ok(surface) = other.gpu.create_surface(SurfaceKind::Local, bytes) {
                if other.gpu.pin(&surface).is_err() {
                    break;
                }
                other.run(|commands| {
                    commands.pattern(surface.va(), bytes, SEED);
                });
                all.push(surface);
            }
        }
        // The surfaces leave their list, and stay where they are until another allocation needs the room.
        let handles = all.iter().map(|surface| surface.allocation().handle()).collect();
        other.gpu.device().evict(handles, EvictFlags::empty()).expect("an eviction");
        let call = SyncCall::CreateNativeFence { device: one.gpu.device().handle(), request: INTRA_GPU };
        let pending = host.begin_call(one.link.process(), Call::Sync(call)).expect_err("its words must come");
        let wild = wddm_types::GpuVa(0x7fff_0000_0000);
        let mut commands = Commands::new();
        commands.signal(unnamed(wild, wild.offset(8)), 1);
        one.stream.submit(&one.gpu, &[], &commands).unwrap();
        let mut taken = 0;
        while taken < steps && host.step() {
            taken += 1;
        }
        while host.step() {}
        assert!(one.gpu.device().state().unwrap() != DeviceState::Active, "it is lost");
        host.take_answer(pending).expect("it is over").expect("a fence of a lost device is a fence");
        for surface in &all {
            let lock = surface.lock().expect("a lock");
            let good = |word: u64| lock.read_word(word * 8) == pattern::word(SEED, word * 8);
            assert!((0..surface.bytes() / 8).all(good), "a word of another process's content after {steps} steps");
        }
        assert_eq!(host.stopped(), None);
        host.check_invariants().unwrap();
    }
}
