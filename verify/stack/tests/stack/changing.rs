//! A driver changes its answers later: its answers at start hold, and the kernel keeps nothing of a creation that failed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::{Context, CreateAllocationFlags, LockFlags, Resource, ResourceRequest};
use ddi::{AllocationFlags, DriverModel, KmdResource};
use kmt_calls::{AllocationCall, AllocationRequest, Call};
use kmt_link::Link;
use softgpu_spec::private_data::{AllocationRequest as Request, Details};
use softgpu_umd::SurfaceKind;
use wddm_types::{NodeId, NtStatus};

use crate::stubborn::{Whims, host_with};
use stack::world::{MIB, client};

/// The driver adds this to a resource's handle each time.
const WHIM: u64 = 1 << 32;

#[test]
fn capabilities_are_those_of_the_start() {
    // spec: memory §1.14, memory §6.5, memory §2.2
    let later = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&later);
    let caps = Box::new(move |caps: &mut ddi::AdapterCaps| {
        if now.load(Ordering::Relaxed) {
            caps.driver_model = DriverModel::Wddm1;
            caps.memory |= ddi::VidMmCaps::MAP_APERTURE2_SUPPORTED;
        }
    });
    let host = host_with(4 * MIB, Whims { caps, ..Whims::default() });
    let client = client(&host);
    let surface = client.pinned(SurfaceKind::System, 4096);
    later.store(true, Ordering::Relaxed);
    let refused = surface.allocation().lock_legacy(Vec::new(), LockFlags::LOCK_ENTIRE | LockFlags::DISCARD);
    let refused = refused.map(drop).expect_err("it started as a driver of WDDM 2");
    assert!(refused.reason.contains("WDDM 2"), "{refused}");
    let flags = AllocationFlags::MAP_APERTURE_CPU_VISIBLE.bits();
    let refused = client.gpu.device().create_allocation(private_data(flags)).map(drop);
    let refused = refused.expect_err("it started without the second form of aperture maps");
    assert!(refused.reason.contains("MapAperture2Supported"), "{refused}");
}

/// The kernel never uses a facet that turns up later. A call of a facet that the driver takes away fails, as any driver's call may, and no
/// other call with it.
#[test]
fn facets_are_those_of_the_start() {
    // spec: memory §1.13, sync §3.1
    let turned = Arc::new(AtomicBool::new(false));
    let host = host_with(4 * MIB, Whims { turned: Arc::clone(&turned), ..Whims::default() });
    let client = client(&host);
    let facets = host.describe().facets;
    let device = client.gpu.device();
    let context = device.create_context(NodeId(0)).expect("hardware queues");
    let surface = client.pinned(SurfaceKind::System, 4096);
    turned.store(true, Ordering::SeqCst);
    assert_eq!(host.describe().facets, facets);
    let packets = Context::create(device, NodeId(0), Vec::new()).map(drop).expect_err("it schedules no packets");
    assert_eq!(packets.status, NtStatus::NOT_SUPPORTED, "{packets}");
    let lock = surface.allocation().lock_legacy(Vec::new(), LockFlags::LOCK_ENTIRE | LockFlags::ACQUIRE_APERTURE);
    assert_eq!(lock.map(drop).expect_err("it has no ranges").status, NtStatus::INVALID_PARAMETER);
    let another = device.create_context(NodeId(0)).map(drop).expect_err("its entry point is gone");
    assert!([NtStatus::UNSUCCESSFUL, NtStatus::DEVICE_REMOVED].contains(&another.status), "{another}");
    drop(device.create_native_fence(Default::default()).map(drop).expect_err("its entry point is gone"));
    turned.store(false, Ordering::SeqCst);
    drop((context, surface, client));
    assert_eq!(host.describe().facets, facets);
}

#[test]
fn an_addition_that_fails_leaves_the_resource_its_handle() {
    // spec: memory §2.7, memory §9.3
    let seen: Arc<Mutex<Vec<KmdResource>>> = Arc::default();
    let told = Arc::clone(&seen);
    let resource = Box::new(move |handle: &mut KmdResource| {
        told.lock().unwrap().push(*handle);
        handle.0 += WHIM;
    });
    let host = host_with(4 * MIB, Whims { resource, ..Whims::default() });
    let client = client(&host);
    let device = client.gpu.device();
    seen.lock().unwrap().clear();
    let of = |data: Vec<u8>| AllocationRequest { private_data: data, ..AllocationRequest::default() };
    let made = ResourceRequest { flags: CreateAllocationFlags::CREATE_RESOURCE, ..ResourceRequest::default() };
    let made = Resource::create(device, vec![of(private_data(0))], made).expect("a resource");
    let add = |flags: u32| {
        let resource = ResourceRequest { resource: made.handle(), ..ResourceRequest::default() };
        let call = Call::Allocation(AllocationCall::CreateAllocation {
            device: device.handle(),
            allocations: vec![of(private_data(flags))],
            resource,
        });
        client.link.call(call).map(drop)
    };
    add(AllocationFlags::MAP_APERTURE_CPU_VISIBLE.bits()).expect_err("the kernel refuses it behind the driver");
    add(0).expect("an addition");
    add(0).expect("another");
    let handles: Vec<u64> = seen.lock().unwrap().iter().map(|handle| handle.0).collect();
    let first = handles[0] + WHIM;
    assert_eq!(handles[1..], [first, first, first + WHIM], "the one that failed has changed nothing");
}

fn private_data(flags: u32) -> Vec<u8> {
    let request = Request {
        kind: SurfaceKind::LocalThenSystem,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: 4096,
    };
    request.encode_with(&Details { flags, ..Details::default() }).to_vec()
}
