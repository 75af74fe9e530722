//! Lists as long as those that a caching allocator hands over in one call have the same answers over every link.

use conformance::{MIB, World, over_every_link};
use d3dkmt::{EvictFlags, MakeResidentFlags, ResidencyStatus};
use kmt_calls::{AllocationTarget, Call, PropertyCall, Reply};
use softgpu_umd::SurfaceKind;
use wddm_types::RawHandle;

over_every_link!(
    a_question_about_a_million_allocations_is_answered,
    a_wait_for_a_million_fences_ends,
    a_long_residency_list_counts_each_entry
);

/// Entries of the longest lists.
const ENTRIES: usize = 1 << 20;

// spec: memory §9.3
fn a_question_about_a_million_allocations_is_answered(world: &World) {
    let client = world.client();
    let surface = client.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    let allocations = vec![surface.allocation().handle(); ENTRIES];
    let target = AllocationTarget { resource: RawHandle::NONE, allocations };
    let device = client.gpu.device().handle();
    let call = Call::Property(PropertyCall::QueryAllocationResidency { device, target });
    match client.gpu.device().link().call(call) {
        Ok(Reply::ResidencyStatuses(statuses)) => {
            assert_eq!(statuses.len(), ENTRIES);
            assert!(statuses.iter().all(|status| *status == ResidencyStatus::NotResident));
        }
        other => panic!("{:?}", other.err()),
    }
    surface.allocation().residency().expect("the connection goes on");
}

// spec: sync §2.4
fn a_wait_for_a_million_fences_ends(world: &World) {
    let client = world.client();
    let device = client.gpu.device();
    let fence = device.create_native_fence(Default::default()).expect("a fence");
    let value = 1;
    device.signal(&fence, value).expect("its own fence");
    device.wait(&vec![(&fence, value); ENTRIES]).expect("each value is reached");
    device.wait(&[(&fence, value)]).expect("the connection goes on");
}

// spec: memory §5.2
fn a_long_residency_list_counts_each_entry(world: &World) {
    const COUNT: usize = 1 << 17;
    let client = world.client();
    let surface = client.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    let handles = || vec![surface.allocation().handle(); COUNT];
    client.gpu.paging().make_resident(handles(), MakeResidentFlags::empty()).expect("it is there once");
    client.gpu.device().evict(handles(), EvictFlags::empty()).expect("it was counted so often");
    let one = vec![surface.allocation().handle()];
    assert!(client.gpu.device().evict(one, EvictFlags::empty()).is_err(), "and not once more");
}
