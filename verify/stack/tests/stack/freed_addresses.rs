//! FreeGpuVirtualAddress beside the destruction of the allocation, and beside work that still uses the addresses (memory §4.8, §6.2).

use std::sync::Arc;

use d3dkmt::{DestroyFlags, DeviceState, Fence, HwContext, KernelQueue};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, Surface, SurfaceKind};
use wddm_types::{GpuVa, NodeId, NtStatus};

use stack::world::{Client, MIB, VIRTUAL, client, host};

const BYTES: u64 = 64 << 10;

/// Work of a device that waits for a fence and fills a surface by its address.
struct Waiting {
    queue: KernelQueue,
    _context: HwContext,
    _buffer: Surface,
}

fn waiting(gpu: &Gpu, go: &Fence, va: GpuVa) -> Waiting {
    let buffer = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
    let list = vec![buffer.allocation().handle()];
    let comes = gpu.paging().make_resident(list, Default::default()).expect("room");
    if let d3dkmt::Residency::Pending { paging_fence_value, .. } = comes {
        gpu.device().wait(&[(gpu.paging().fence(), paging_fence_value)]).expect("it comes");
    }
    let mut commands = Commands::new();
    commands.fill(va, BYTES, 7);
    buffer.lock().expect("system memory").write_words(0, commands.words());
    let context = gpu.device().create_context(NodeId(0)).expect("a context");
    let queue = context.create_kernel_queue().expect("a queue");
    queue.submit_wait(go, 1).expect("a wait");
    // CAST: a few words.
    queue.submit(buffer.va(), commands.words().len() as u32 * 8, 1).expect("a submission");
    Waiting { queue, _context: context, _buffer: buffer }
}

/// A process with two devices, of which the first has a surface, and work of one of them that uses it.
fn two_devices(user: usize) -> (Arc<dxgk_host::Host>, Client, Gpu, Surface, Fence, Waiting) {
    let host = host(VIRTUAL, 4 * MIB);
    let one = client(&host);
    let second = Gpu::open(Arc::clone(&one.link) as Arc<dyn Link>).expect("a device of the same process");
    let surface = one.pinned(SurfaceKind::Local, BYTES);
    let go = one.gpu.device().create_native_fence(Default::default()).expect("a fence");
    let work = waiting([&one.gpu, &second][user], &go, surface.va());
    (host, one, second, surface, go, work)
}

fn states(one: &Client, second: &Gpu) -> [DeviceState; 2] {
    [one.gpu.device(), second.device()].map(|device| device.state().expect("a device"))
}

/// Everything that is under way ends, and the kernel looks at it.
fn settle(host: &dxgk_host::Host, one: &Client) {
    while host.step() {}
    one.gpu.device().create_native_fence(Default::default()).expect("a fence");
    while host.step() {}
}

#[test]
fn queued_work_of_its_device_keeps_the_addresses_of_a_destroyed_allocation() {
    // spec: memory §4.8, memory §6.2
    let (host, one, second, surface, go, work) = two_devices(0);
    let va = surface.va();
    surface.allocation().destroy(DestroyFlags::empty()).expect("a destruction");
    settle(&host, &one);
    one.gpu.device().signal(&go, 1).expect("a signal");
    settle(&host, &one);
    assert_eq!(work.queue.progress().current(), 1, "its work is done");
    assert_eq!(states(&one, &second), [DeviceState::Active; 2]);
    let freed = one.gpu.device().free_gpu_va(va, BYTES).expect_err("they went with the allocation");
    assert_eq!(freed.status, NtStatus::INVALID_PARAMETER, "{freed}");
    host.check_invariants().expect("nothing is left of it");
}

/// Addresses are of the process. A destruction waits for work of the devices that have the allocation, a Free for none.
#[test]
fn addresses_that_are_gone_fault_in_the_work_that_uses_them_and_cost_its_device_alone() {
    // spec: memory §4.8, memory §5.8, memory §6.2
    for (user, destroys) in [(0, true), (0, false), (1, true), (1, false)] {
        let (host, one, second, surface, go, work) = two_devices(user);
        let bystander = client(&host);
        let va = surface.va();
        if destroys {
            surface.allocation().destroy(DestroyFlags::empty()).expect("a destruction");
        }
        let freed = one.gpu.device().free_gpu_va(va, BYTES).map_err(|refusal| refusal.status);
        // No work of the allocation's own device is queued in this case: it is destroyed at once, and its addresses with it.
        let gone = user == 1 && destroys;
        assert_eq!(freed, if gone { Err(NtStatus::INVALID_PARAMETER) } else { Ok(()) }, "device {user}");
        let again = one.gpu.device().free_gpu_va(va, BYTES).expect_err("they are free");
        assert_eq!(again.status, NtStatus::INVALID_PARAMETER, "{again}");
        settle(&host, &one);
        second.device().signal(&go, 1).expect("a signal");
        while host.step() {}
        let mut expected = [DeviceState::Active; 2];
        expected[user] = DeviceState::ErrorDmaPageFault;
        assert_eq!(states(&one, &second), expected, "device {user}, destroyed: {destroys}");
        assert_eq!(bystander.gpu.device().state().expect("a device"), DeviceState::Active);
        assert_eq!(host.stopped(), None);
        drop(work);
        host.check_invariants().expect("the kernel's invariants hold");
    }
}
