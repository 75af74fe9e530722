//! The rows of memory §9.2 and §9.3: the kernel answers each situation with exactly the status that its row names. `packets` has the
//! statuses of lists of buffers, `allocations` those of creations; the status of more locks than can be counted, which takes
//! four thousand million calls, is a row in the kernel's own tests.

mod calls;

use std::sync::Arc;

use dxgk_host::{Host, ProcessLink};
use kmt_calls::{
    AdapterCall, AllocationCall, AllocationRequest, AllocationTarget, Call, DeviceCall, DeviceState, EvictFlags,
    GpuVaCall, GpuVaProtection, LockCall, MakeResidentFlags, NotificationCall, OfferFlags, PropertyCall, PropertyFlags,
    PropertyMask, PropertyRequest, QueueCall, Reply, ResidencyCall, ResourceRequest, ShareCall, ShareName, SyncCall,
};
use kmt_link::Link;
use softgpu_spec::private_data::{AllocationRequest as PrivateData, Kind};
use wddm_types::{GpuVa, NodeId, NtStatus, PAGE_BYTES, RawHandle};

use stack::world::{MIB, VIRTUAL, client, host};

const INVALID: NtStatus = NtStatus::INVALID_PARAMETER;

/// A process that makes calls by hand.
struct Raw {
    link: Arc<ProcessLink>,
    adapter: RawHandle,
    device: RawHandle,
    paging: RawHandle,
}

impl Raw {
    fn new(host: &Arc<Host>) -> Raw {
        let link = ProcessLink::new(Arc::clone(host));
        let adapter = handle(&link, Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: host.luid() }));
        let device = handle(&link, Call::Device(DeviceCall::CreateDevice { adapter }));
        let paging = paging_queue(&link, device);
        Raw { link, adapter, device, paging }
    }

    fn status(&self, call: Call) -> NtStatus {
        self.link.call(call).map_or_else(|refusal| refusal.status, |_| NtStatus::SUCCESS)
    }

    fn create(&self, device: RawHandle, kind: Kind, pages: u64, cpu_visible: bool) -> RawHandle {
        let size_bytes = pages * PAGE_BYTES;
        let data = PrivateData { kind, cpu_visible, cached: false, accessed_physically: false, size_bytes };
        let request = AllocationRequest { private_data: data.encode().to_vec(), ..AllocationRequest::default() };
        let call = Call::Allocation(AllocationCall::CreateAllocation {
            device,
            allocations: vec![request],
            resource: ResourceRequest::default(),
        });
        match self.link.call(call) {
            Ok(Reply::Allocations(made)) => made.allocations[0].handle,
            other => panic!("{other:?}"),
        }
    }

    fn resident(&self, allocations: Vec<RawHandle>) {
        let flags = MakeResidentFlags::empty();
        self.link
            .call(Call::Residency(ResidencyCall::MakeResident { paging_queue: self.paging, allocations, flags }))
            .expect("room");
    }

    fn lock(&self, allocation: RawHandle) -> NtStatus {
        self.status(Call::Lock(LockCall::Lock2 { device: self.device, allocation, flags: 0 }))
    }

    fn state(&self) -> DeviceState {
        match self.link.call(Call::Device(DeviceCall::GetDeviceState { device: self.device })) {
            Ok(Reply::DeviceState(state)) => state,
            other => panic!("{other:?}"),
        }
    }
}

fn handle(link: &ProcessLink, call: Call) -> RawHandle {
    match link.call(call) {
        Ok(Reply::Handle(handle)) => handle,
        other => panic!("{other:?}"),
    }
}

fn paging_queue(link: &ProcessLink, device: RawHandle) -> RawHandle {
    match link.call(Call::Device(DeviceCall::CreatePagingQueue { device, priority: 0, physical_adapter: 0 })) {
        Ok(Reply::PagingQueue(made)) => made.queue,
        other => panic!("{other:?}"),
    }
}

// spec: memory §9.3
#[test]
fn a_handle_that_names_nothing_or_something_else() {
    let host = host(VIRTUAL, 4 * MIB);
    let raw = Raw::new(&host);
    let stale = raw.create(raw.device, Kind::Local, 1, false);
    let target = AllocationTarget { allocations: vec![stale], ..AllocationTarget::default() };
    let flags = kmt_calls::DestroyFlags::empty();
    raw.link
        .call(Call::Allocation(AllocationCall::DestroyAllocation { device: raw.device, target, flags }))
        .expect("it is there");
    let fence =
        raw.link.call(Call::Sync(SyncCall::CreateNativeFence { device: raw.device, request: Default::default() }));
    let Ok(Reply::Fence(fence)) = fence else { panic!("{fence:?}") };
    let stranger = Raw::new(&host);
    let foreign = (0..9).map(|_| stranger.create(stranger.device, Kind::Local, 1, false)).next_back().expect("nine");
    for wrong in [RawHandle::NONE, RawHandle(0x1234_5678), RawHandle(u32::MAX), stale, foreign] {
        for call in calls::with(wrong) {
            let before = host.state_digest();
            assert_eq!(raw.status(call.clone()), INVALID, "{wrong:?} in {call:?}");
            assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new(), "{call:?}");
        }
    }
    // Of the wrong kind: a fence where anything else is wanted, the adapter where a fence is.
    for call in calls::with(fence.fence).into_iter().filter(|call| !calls::is_about_fences(call)) {
        assert_eq!(raw.status(call.clone()), INVALID, "a fence in {call:?}");
    }
    for call in calls::with(raw.adapter).into_iter().filter(calls::is_about_fences) {
        assert_eq!(raw.status(call.clone()), INVALID, "an adapter in {call:?}");
    }
    // Handles of the operating system.
    let share = ShareName::NtHandle(0x77);
    let device = raw.device;
    for call in [
        Call::Allocation(AllocationCall::OpenResource { device, share, keyed_mutex_data: Vec::new() }),
        Call::Allocation(AllocationCall::QueryResourceInfo { device, share }),
    ] {
        assert_eq!(raw.status(call), NtStatus::INVALID_HANDLE);
    }
    assert_eq!(raw.status(Call::Share(ShareCall::CloseNtHandle { handle: 0x77 })), NtStatus::INVALID_HANDLE);
}

// spec: memory §9.3
#[test]
fn an_allocation_of_another_device_of_the_process() {
    let host = host(VIRTUAL, 4 * MIB);
    let raw = Raw::new(&host);
    let other = handle(&raw.link, Call::Device(DeviceCall::CreateDevice { adapter: raw.adapter }));
    let theirs = raw.create(other, Kind::Local, 1, true);
    for call in calls::with_allocation(raw.device, raw.paging, theirs) {
        let before = host.state_digest();
        assert_eq!(raw.status(call.clone()), INVALID, "{call:?}");
        assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new(), "{call:?}");
    }
}

// spec: memory §9.2, memory §9.3
#[test]
fn any_call_on_a_lost_device() {
    let host = host(VIRTUAL, MIB);
    let raw = Raw::new(&host);
    let mine = raw.create(raw.device, Kind::Local, 1, true);
    let huge = raw.create(raw.device, Kind::Local, 240, false);
    let more = raw.create(raw.device, Kind::Local, 240, false);
    let flags = MakeResidentFlags::CANT_TRIM_FURTHER | MakeResidentFlags::MUST_SUCCEED;
    let call =
        Call::Residency(ResidencyCall::MakeResident { paging_queue: raw.paging, allocations: vec![huge, more], flags });
    // The row of MustSucceed: the status, and the device in state 5.
    assert_eq!((raw.status(call), raw.state()), (NtStatus::NO_MEMORY, DeviceState::ErrorOutOfMemory));
    let on_it = calls::with_allocation(raw.device, raw.paging, mine);
    for call in on_it.into_iter().chain(calls::on_device(raw.device)) {
        // Calls that give memory back are allowed, so that a process can clean up.
        let gives_back = matches!(
            call,
            Call::Allocation(AllocationCall::DestroyAllocation { .. })
                | Call::Lock(LockCall::Unlock2 { .. })
                | Call::Lock(LockCall::Unlock { .. })
        );
        if !gives_back {
            assert_eq!(raw.status(call.clone()), NtStatus::DEVICE_REMOVED, "{call:?}");
        }
    }
    assert_eq!(
        raw.status(Call::Device(DeviceCall::CreateDevice { adapter: raw.adapter })),
        NtStatus::SUCCESS,
        "others go on"
    );
}

// spec: memory §9.3
#[test]
fn locks() {
    let host = host(VIRTUAL, 4 * MIB);
    let raw = Raw::new(&host);
    let device = raw.device;
    let [visible, hidden] = [true, false].map(|cpu_visible| raw.create(device, Kind::Local, 4, cpu_visible));
    let movable = raw.create(device, Kind::LocalThenSystem, 4, false);
    raw.resident(vec![visible, hidden, movable]);
    let pin = PropertyRequest {
        flags: PropertyFlags::UNMOVEABLE,
        mask: PropertyMask::UNMOVEABLE,
        ..PropertyRequest::default()
    };
    let pinning = Call::Property(PropertyCall::UpdateAllocationProperty {
        paging_queue: raw.paging,
        allocation: movable,
        request: pin,
    });
    assert_eq!(raw.status(pinning), NtStatus::SUCCESS);
    let offer = |allocation| {
        Call::Residency(ResidencyCall::OfferAllocations {
            device,
            list: vec![allocation].into(),
            priority: 1,
            flags: OfferFlags::empty(),
        })
    };
    let range = |offset_bytes, length_bytes| {
        Call::Property(PropertyCall::InvalidateCache { device, allocation: visible, offset_bytes, length_bytes })
    };
    let rows = [
        ("flags", Call::Lock(LockCall::Lock2 { device, allocation: visible, flags: 1 }), INVALID),
        ("no lock", Call::Lock(LockCall::Unlock2 { device, allocation: visible }), INVALID),
        ("beyond the end", range(4 * PAGE_BYTES, 1), INVALID),
        ("over the end", range(0, 4 * PAGE_BYTES + 1), INVALID),
        ("an overflow", range(u64::MAX, 2), INVALID),
        (
            "impossible",
            Call::Lock(LockCall::Lock2 { device, allocation: hidden, flags: 0 }),
            NtStatus::GRAPHICS_CANT_LOCK_MEMORY,
        ),
        (
            "pinned",
            Call::Lock(LockCall::Lock2 { device, allocation: movable, flags: 0 }),
            NtStatus::GRAPHICS_CANT_EVICT_PINNED_ALLOCATION,
        ),
        ("an offer", offer(visible), NtStatus::SUCCESS),
        (
            "offered",
            Call::Lock(LockCall::Lock2 { device, allocation: visible, flags: 0 }),
            NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE,
        ),
    ];
    for (what, call, status) in rows {
        assert_eq!(raw.status(call), status, "{what}");
    }
    // Pressure takes the offered content: the process's other allocations have 8 of 1024 pages.
    let big = raw.create(device, Kind::Local, 1014, false);
    raw.resident(vec![big]);
    assert_eq!(raw.lock(visible), NtStatus::GRAPHICS_ALLOCATION_CONTENT_LOST);
}

// spec: memory §9.2, memory §9.3
#[test]
fn an_evict_below_zero_changes_nothing_for_the_whole_call() {
    let host = host(VIRTUAL, 4 * MIB);
    let raw = Raw::new(&host);
    let [a, b] = [(); 2].map(|()| raw.create(raw.device, Kind::Local, 4, false));
    raw.resident(vec![a, b]);
    let evict = |allocations: &[RawHandle]| {
        Call::Residency(ResidencyCall::Evict {
            device: raw.device,
            allocations: allocations.to_vec(),
            flags: EvictFlags::empty(),
        })
    };
    for list in [&[a, a][..], &[a, b, b], &[b, a, b]] {
        assert_eq!(raw.status(evict(list)), INVALID, "{list:?}");
    }
    assert_eq!(raw.status(evict(&[a, b])), NtStatus::SUCCESS, "both counts are as they were");
    assert_eq!(raw.status(evict(&[a])), INVALID);
}

// spec: memory §9.2, memory §9.3
#[test]
fn addresses_that_are_taken_and_windows_that_are_too_small() {
    let host = host(VIRTUAL, 4 * MIB);
    let raw = Raw::new(&host);
    let (device, allocation) = (raw.device, raw.create(raw.device, Kind::Local, 16, false));
    let reserve = |base: u64, minimum: u64, maximum: u64| {
        Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress {
            device,
            base: GpuVa(base),
            minimum: GpuVa(minimum),
            maximum: GpuVa(maximum),
            size_bytes: 65536,
            reservation_type: 0,
            driver_protection: 0,
        })
    };
    let map = |base: u64, minimum: u64, maximum: u64, size_in_pages: u64| {
        Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
            paging_queue: raw.paging,
            allocation,
            base: GpuVa(base),
            minimum: GpuVa(minimum),
            maximum: GpuVa(maximum),
            offset_in_pages: 0,
            size_in_pages,
            protection: GpuVaProtection::WRITE,
            driver_protection: 0,
        })
    };
    let at = 1u64 << 40;
    let update =
        Call::GpuVa(GpuVaCall::FreeGpuVirtualAddress { device, base: GpuVa(at + (1 << 30)), size_bytes: 65536 });
    let rows = [
        ("free", reserve(at, 0, 0), NtStatus::SUCCESS),
        ("taken", reserve(at, 0, 0), NtStatus::CONFLICTING_ADDRESSES),
        ("half inside what is taken", map(at + 15 * PAGE_BYTES, 0, 0, 2), NtStatus::CONFLICTING_ADDRESSES),
        ("a window that is full", reserve(0, at, at + 65536), NtStatus::NO_MEMORY),
        ("a window for less", map(0, at, at + 65536, 16), NtStatus::NO_MEMORY),
        ("not aligned", map(at + 1, 0, 0, 1), INVALID),
        ("outside the space", map(1 << 62, 0, 0, 1), INVALID),
        ("more than the allocation has", map(0, 0, 0, 17), INVALID),
        ("nothing", map(0, 0, 0, 0), INVALID),
        ("an overflow", map(at, 0, 0, u64::MAX), INVALID),
        ("nothing taken there", update, INVALID),
    ];
    for (what, call, status) in rows {
        let before = host.state_digest();
        assert_eq!(raw.status(call), status, "{what}");
        assert_eq!(status == NtStatus::SUCCESS, before != host.state_digest(), "{what}");
    }
}

// spec: memory §9.3
#[test]
fn what_the_gpu_does_wrong() {
    let host = host(VIRTUAL, 4 * MIB);
    let mut faulty = client(&host);
    let mut wild = softgpu_umd::Commands::new();
    wild.fill(GpuVa(0x7fff_0000_0000), 4096, 1);
    let value = faulty.stream.submit(&faulty.gpu, &[], &wild).expect("a submission");
    assert!(faulty.stream.wait(&faulty.gpu, value).is_err());
    assert_eq!(faulty.gpu.device().state(), Ok(DeviceState::ErrorDmaPageFault), "state 7");
}

// spec: memory §9.2, memory §9.3
#[test]
fn a_full_handle_table_makes_nothing() {
    let host = host(VIRTUAL, 4 * MIB);
    let raw = Raw::new(&host);
    let context = handle(
        &raw.link,
        Call::Queue(QueueCall::CreateHwContext { device: raw.device, node: NodeId(0), private_data: vec![] }),
    );
    let open = Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: host.luid() });
    while raw.status(open.clone()) == NtStatus::SUCCESS {}
    assert_eq!(raw.status(open), NtStatus::NO_MEMORY);
    let device = raw.device;
    let calls = [
        Call::Device(DeviceCall::CreatePagingQueue { device, priority: 0, physical_adapter: 0 }),
        Call::Sync(SyncCall::CreateNativeFence { device, request: Default::default() }),
        Call::Queue(QueueCall::CreateHwContext { device, node: NodeId(0), private_data: Vec::new() }),
        Call::Queue(QueueCall::CreateHwQueue {
            context,
            flags: kmt_calls::QueueFlags::empty(),
            private_data: Vec::new(),
        }),
        Call::Notification(NotificationCall::RegisterTrim { adapter: None, device }),
        Call::Device(DeviceCall::CreateDevice { adapter: raw.adapter }),
    ];
    let before = host.state_digest();
    for call in calls {
        assert_eq!(raw.status(call.clone()), NtStatus::NO_MEMORY, "{call:?}");
    }
    let changed = before.differences(&host.state_digest());
    // A device that was made and taken back has used the ring.
    let left: Vec<&String> =
        changed.iter().filter(|part| !["adapter", "works"].iter().any(|p| part.starts_with(p))).collect();
    assert!(left.is_empty(), "{left:?}");
}
