//! Errors and their price: wrong arguments change nothing, and a device's fault costs that device alone.

use conformance::{MIB, World, over_every_link};
use d3dkmt::{DeviceState, EvictFlags, MakeResidentFlags};
use kmt_calls::{AdapterCall, Call, DeviceCall, LockCall, ResidencyCall};
use softgpu_umd::{Commands, KernelFedStream, Stage, StreamConfig, SurfaceKind, UmdError};
use wddm_types::{Blame, GpuVa, Luid, NodeId, NtStatus, RawHandle};

over_every_link!(
    a_wrong_argument_is_the_callers_fault,
    a_wrong_address_costs_its_device_alone,
    who_dies_takes_what_was_his
);

fn a_wrong_argument_is_the_callers_fault(world: &World) {
    let client = world.client();
    let device = client.gpu.device().handle();
    let wrong = [
        Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: Luid(0xdead) }),
        Call::Device(DeviceCall::CreateDevice { adapter: RawHandle::NONE }),
        Call::Device(DeviceCall::CreatePagingQueue { device, priority: 7, physical_adapter: 0 }),
        Call::Residency(ResidencyCall::Evict {
            device,
            allocations: vec![RawHandle(0x40)],
            flags: EvictFlags::empty(),
        }),
        Call::Residency(ResidencyCall::MakeResident {
            paging_queue: device,
            allocations: Vec::new(),
            flags: MakeResidentFlags::empty(),
        }),
        Call::Lock(LockCall::Lock2 { device, allocation: device, flags: 0 }),
    ];
    for call in wrong {
        let refusal = client.link.call(call.clone()).expect_err("it is refused");
        assert_eq!((refusal.status, refusal.blame), (NtStatus::INVALID_PARAMETER, Blame::Caller), "{call:?}");
        assert!(!refusal.reason.is_empty(), "{call:?}: people are told why");
    }
    assert_eq!(client.gpu.device().state(), Ok(DeviceState::Active));
}

// spec: memory §5.8, memory §8.6
fn a_wrong_address_costs_its_device_alone(world: &World) {
    let (guilty, innocent) = (world.client(), world.client());
    let surface = innocent.pinned(SurfaceKind::Local, MIB);
    let mut wild = Commands::new();
    wild.fill(GpuVa(0x7fff_0000_0000), 4096, 1);
    let mut stream = KernelFedStream::hardware(&guilty.gpu, NodeId(0), StreamConfig::default()).expect("a queue");
    let value = stream.submit(&guilty.gpu, None, &wild).expect("the kernel has not found the fault yet");
    match stream.wait(&guilty.gpu, value) {
        // Either the wait is refused, or the fence says already that its device is gone.
        Err(UmdError::Refused(refusal)) => assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED),
        Err(UmdError::Lost(state)) => assert_eq!(state, DeviceState::ErrorDmaPageFault),
        other => panic!("{other:?}"),
    }
    assert_eq!(guilty.gpu.device().state(), Ok(DeviceState::ErrorDmaPageFault));
    let refused = guilty.gpu.create_surface(SurfaceKind::Local, 4096).err();
    assert!(matches!(refused, Some(UmdError::Refused(refusal)) if refusal.status == NtStatus::DEVICE_REMOVED));
    let mut lane = innocent.lane(Stage::Hardware);
    lane.pattern(&surface, 3);
    innocent.run(&mut lane);
    assert_eq!(innocent.gpu.device().state(), Ok(DeviceState::Active));
}

fn who_dies_takes_what_was_his(world: &World) {
    let survivor = world.client();
    let free =
        |client: &conformance::Client| client.gpu.adapter().video_memory_info(true).expect("an adapter").budget_bytes;
    let before = free(&survivor);
    for _ in 0..4 {
        let dying = world.client();
        let lock = dying.lockable(MIB);
        std::mem::forget(lock.lock().expect("always"));
        let mut lane = dying.lane(Stage::Hardware);
        lane.pattern(&lock, 1);
        lane.submit(&dying.gpu, None).expect("it is queued");
    }
    let began = std::time::Instant::now();
    while free(&survivor) != before {
        assert!(began.elapsed() < std::time::Duration::from_secs(120), "{} of {before}", free(&survivor));
        std::thread::yield_now();
    }
    let all = survivor.pinned(SurfaceKind::Local, 6 * MIB);
    drop(all);
}
