//! The end of waits that a queue or a context has on a fence of another process, which lives on.

use d3dkmt::{GpuVaReservation, UpdateGpuVaFlags, UpdateGpuVaOperation, VirtualContext};
use softgpu_umd::SurfaceKind;
use wddm_types::NodeId;

use super::*;

const TILE: u64 = 64 << 10;

/// The kernel ends the waits with the queue or context: they would stand on the fence for as long as that lives, one more for each client.
#[test]
fn waits_of_a_queue_or_context_end_with_it_and_not_with_the_fence() {
    // spec: sync §2.4, memory §4.8
    let host = host(VIRTUAL, 4 * MIB);
    let owner = gpu(&host);
    let fence = shared(owner.device(), FenceFlags::empty());
    let name = fence.share(SyncObjectAccess::ALL_ACCESS).expect("a name");
    let drained = || while host.step() {};
    let waits = |before: &StateDigest| {
        let changed = before.differences(&host.state_digest());
        changed.into_iter().filter(|part| part.starts_with("waits for a fence ")).count()
    };
    drained();
    let before = host.state_digest();
    let other = gpu(&host);
    let device = other.device();
    let opened = device.open_native_fence(by(&name)).expect("it opens");
    let surface = other.create_surface(SurfaceKind::Local, TILE).expect("room");
    let reservation = GpuVaReservation { size_bytes: TILE, zero: true, ..GpuVaReservation::default() };
    let base = device.reserve_gpu_va(reservation).expect("addresses");
    let tile = || {
        let (allocation, protection) = (surface.allocation().handle(), None);
        vec![UpdateGpuVaOperation::Map {
            base,
            size_bytes: TILE,
            allocation,
            offset_bytes: 0,
            allocation_size_bytes: 0,
            protection,
        }]
    };
    let none = UpdateGpuVaFlags::empty();

    let context = device.create_context(NodeId(0)).expect("a context");
    let queue = context.create_kernel_queue().expect("a queue");
    queue.submit_wait(&opened, 1).expect("a wait");
    assert_eq!(waits(&before), 1, "of the queue");
    drop(queue);
    drained();
    assert_eq!(waits(&before), 0, "the queue has gone");
    device.update_gpu_va(&context, (&opened, 1), tile(), none).expect("an update");
    assert_eq!(waits(&before), 1, "of an update");
    drop(context);
    drained();
    assert_eq!(waits(&before), 0, "the update has gone with its context");
    let context = VirtualContext::create(device, NodeId(0), Vec::new()).expect("a context");
    context.wait(&opened, 1).expect("a wait");
    assert_eq!(waits(&before), 1, "of a packet context");
    let with_one = host.state_digest();
    device.update_gpu_va(&context, (&opened, 2), tile(), none).expect("an update");
    assert_eq!(waits(&with_one), 1, "of an update behind packets");
    drop(context);
    drained();
    assert_eq!(waits(&before), 0, "the packet context has gone with its update");
    owner.device().signal(&fence, 3).expect("a signal that nothing waits for");
    host.check_invariants().expect("the kernel's invariants hold");
}
