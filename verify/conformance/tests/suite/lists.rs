//! Lists as long as those that a caching allocator hands over in one call have the same answers over every link.

use conformance::{MIB, World, over_every_link};
use d3dkmt::{EvictFlags, MakeResidentFlags, ResidencyStatus};
use kmt_calls::{AllocationTarget, Call, PropertyCall, Reply};
use softgpu_umd::{Gpu, SurfaceKind};
use wddm_types::{NtStatus, RawHandle};

over_every_link!(
    the_longest_question_about_allocations_is_answered,
    a_list_of_a_million_is_refused_by_the_kernel,
    a_long_residency_list_counts_each_entry
);

/// Entries of the longest list of allocations that the kernel takes.
const ENTRIES: usize = 1 << 16;

// spec: memory §9.3
fn the_longest_question_about_allocations_is_answered(world: &World) {
    let client = world.client();
    let surface = client.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    let call = question(&client.gpu, surface.allocation().handle(), ENTRIES);
    match client.gpu.device().link().call(call) {
        Ok(Reply::ResidencyStatuses(statuses)) => {
            assert_eq!(statuses.len(), ENTRIES);
            assert!(statuses.iter().all(|status| *status == ResidencyStatus::NotResident));
        }
        other => panic!("{:?}", other.err()),
    }
}

/// The kernel's own refusal, not the end of a connection.
// spec: memory §9.3
fn a_list_of_a_million_is_refused_by_the_kernel(world: &World) {
    let client = world.client();
    let surface = client.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    let call = question(&client.gpu, surface.allocation().handle(), 1 << 20);
    let refused = client.gpu.device().link().call(call).map(drop);
    assert_eq!(refused.map_err(|refusal| refusal.status), Err(NtStatus::INVALID_PARAMETER));
    surface.allocation().residency().expect("the connection goes on");
}

fn question(gpu: &Gpu, allocation: RawHandle, count: usize) -> Call {
    let target = AllocationTarget { resource: RawHandle::NONE, allocations: vec![allocation; count] };
    Call::Property(PropertyCall::QueryAllocationResidency { device: gpu.device().handle(), target })
}

// spec: memory §5.2
fn a_long_residency_list_counts_each_entry(world: &World) {
    let client = world.client();
    let surface = client.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    let handles = || vec![surface.allocation().handle(); ENTRIES];
    client.gpu.paging().make_resident(handles(), MakeResidentFlags::empty()).expect("it is there once");
    client.gpu.device().evict(handles(), EvictFlags::empty()).expect("it was counted so often");
    let one = vec![surface.allocation().handle()];
    assert!(client.gpu.device().evict(one, EvictFlags::empty()).is_err(), "and not once more");
}
