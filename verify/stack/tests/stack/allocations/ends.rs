//! When the driver hears that an allocation ends: behind every operation that may name it, and in the call itself where there is none.

use d3dkmt::{MakeResidentFlags, Residency};
use ddi::PowerState;
use events::Event;
use stack::heard::heard_on;

use super::*;

const BYTES: u64 = 64 << 10;

fn plain(gpu: &Gpu) -> Arc<d3dkmt::Allocation> {
    gpu.device().create_allocation(data(Kind::System, BYTES).encode().to_vec()).expect("system memory")
}

/// Has the ring copy for a while; answers the value behind it.
fn begins_paging(gpu: &Gpu, surface: &softgpu_umd::Surface) -> u64 {
    let handles = vec![surface.allocation().handle()];
    match gpu.paging().make_resident(handles, MakeResidentFlags::empty()).expect("there is room") {
        Residency::Pending { paging_fence_value, .. } => paging_fence_value,
        other => panic!("it takes the ring a while: {other:?}"),
    }
}

fn passes(gpu: &Gpu, value: u64) {
    gpu.device().wait(&[(gpu.paging().fence(), value)]).expect("the ring gets there");
    gpu.device().state().expect("and it is heard of");
}

// spec: memory §2.7, memory §6.2
#[test]
fn the_driver_hears_of_an_end_in_its_call_and_without_power_when_it_wakes() {
    let (host, steps) = recorded();
    let gpu = gpu(&host);
    let ended = || {
        let steps = std::mem::take(&mut *steps.lock().expect("a test"));
        steps.iter().filter(|step| matches!(step, Step::Destroy(..))).count()
    };
    drop(plain(&gpu));
    assert_eq!(ended(), 1, "no operation is queued");

    let sleeper = plain(&gpu);
    host.power_transition(PowerState::Standby).expect("it falls asleep");
    drop(sleeper);
    assert_eq!(ended(), 0, "a driver without power hears of no end");
    host.power_transition(PowerState::On).expect("it wakes");
    gpu.device().state().expect("it is awake");
    assert_eq!(ended(), 1, "it has power");
    host.check_invariants().expect("the kernel's invariants hold");
}

// spec: memory §3.1
#[test]
fn an_end_that_needs_no_operation_wakes_no_engine() {
    let (host, works) = heard_on("discrete-4k", VIRTUAL, 8 * MIB, |event| matches!(event, Event::PagingQueued { .. }));
    let gpu = gpu(&host);
    let surface = gpu.create_surface(SurfaceKind::Local, 4 * MIB).expect("a surface");
    let value = begins_paging(&gpu, &surface);
    passes(&gpu, value);
    let unused = plain(&gpu);
    works.take();
    drop(unused);
    assert_eq!(works.count(|_| true), 0, "nothing of it is to be carried out");
    drop(surface);
    assert_eq!(works.count(|_| true), 1, "its addresses are unmapped, and its frames leave");

    let late = plain(&gpu);
    let surface = gpu.create_surface(SurfaceKind::Local, 4 * MIB).expect("a surface");
    let value = begins_paging(&gpu, &surface);
    works.take();
    drop(late);
    assert_eq!(works.count(|_| true), 1, "it stands behind what is queued");
    passes(&gpu, value);
    host.check_invariants().expect("the kernel's invariants hold");
}

/// Another process opens a shared resource of which its creator has destroyed an allocation: it finds the other one.
// spec: memory §2.7
#[test]
fn a_shared_resource_is_opened_with_the_allocations_that_are_left() {
    for by_nt_handle in [false, true] {
        let host = host(VIRTUAL, 8 * MIB);
        let (mine, theirs) = (gpu(&host), gpu(&host));
        let nt = if by_nt_handle { CreateAllocationFlags::NT_SECURITY_SHARING } else { CreateAllocationFlags::empty() };
        let sizes = [BYTES, 2 * BYTES].map(|bytes| request(Kind::Local, bytes));
        let made = Resource::create(mine.device(), sizes.to_vec(), resource(SHARED | nt)).expect("room");
        let members: Vec<RawHandle> = made.allocations().iter().map(|allocation| allocation.handle()).collect();
        let destroy = |allocation| {
            let target = AllocationTarget { resource: RawHandle::NONE, allocations: vec![allocation] };
            let (device, flags) = (mine.device().handle(), DestroyFlags::empty());
            let call = AllocationCall::DestroyAllocation { device, target, flags };
            mine.device().link().call(Call::Allocation(call)).expect("a member alone");
        };
        assert_ne!(made.private_data(0), made.private_data(1), "their sizes differ");
        destroy(members[0]);
        let name = if by_nt_handle { made.share().expect("a name") } else { made.global_share() };
        let info = theirs.device().query_resource_info(name).expect("it is there");
        assert_eq!((info.allocations, info.total_private_data_bytes), (1, 24), "by NT handle: {by_nt_handle}");
        let opened = Resource::open(theirs.device(), name).expect("it opens");
        assert_eq!((opened.allocations().len(), opened.private_data(0)), (1, made.private_data(1)));
        drop(opened);
        destroy(members[1]);
        let again = Resource::open(theirs.device(), name).map(|opened| opened.allocations().len());
        match by_nt_handle {
            false => assert_eq!(again.expect_err("none is left").status, NtStatus::INVALID_PARAMETER),
            true => assert_eq!(again.expect("the name keeps it"), 1),
        }
        host.check_invariants().expect("the kernel's invariants hold");
    }
}
