//! Ordinary acts of a process, each of which has the kernel call one function of the driver.

use d3dkmt::{Context, DeviceState, MakeResidentFlags, NativeFenceRequest};
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{
    Commands, DmaBuffers, Gpu, ListedCommands, Stream, StreamConfig, Surface, SurfaceKind, context_data,
};

use super::world::{COMPUTE, COPY, World, buffer, packets, queue};
use crate::fence_interrupts::begin_wait;
use stack::world::{Client, MIB};

/// Work for which the kernel calls a function of the driver.
pub(super) type Act = fn(&World, &Client);

pub(super) fn submits_packet(world: &World, client: &Client) {
    let target = client.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(client, target.va(), 7);
    let context = packets(client, COMPUTE);
    context.submit(tame.va(), bytes, vec![]).expect("a submission");
    ends(world, client, &target);
}

/// Runs until a surface has its content, or the work is lost.
fn ends(world: &World, client: &Client, target: &Surface) {
    let goes_on = || client.gpu.device().state().is_ok_and(|state| state == DeviceState::Active);
    while goes_on() && target.lock().expect("system memory").read_word(0) == 0 {
        assert!(world.host.step(), "the work ends");
    }
    assert!(!goes_on() || target.lock().expect("system memory").read_word(0) == 7 << 32 | 7);
}

pub(super) fn renders(_: &World, client: &Client) {
    let (kind, accessed_physically) = (SurfaceKind::System, true);
    let request = AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically, size_bytes: 4096 };
    let target = client.gpu.device().create_allocation(request.encode().to_vec()).expect("memory");
    client.gpu.paging().make_resident(vec![target.handle()], MakeResidentFlags::empty()).expect("room");
    let data = context_data(DmaBuffers::Contiguous).to_vec();
    let context = Context::create(client.gpu.device(), COPY, data).expect("a context");
    let mut commands = ListedCommands::new();
    commands.fill((&target, 0), 4096, 7);
    commands.render(&context).expect("it renders");
}

pub(super) fn feeds_queue(world: &World, client: &Client) {
    // Paging buffers go to hardware queues as well: the driver refuses none of those.
    let refused = world.late.0.lock().unwrap().refuses.take();
    let target = client.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(client, target.va(), 7);
    let (queue, _context) = queue(client, COMPUTE);
    world.late.0.lock().unwrap().refuses = refused;
    queue.submit(tame.va(), bytes, 1).expect("a submission");
    ends(world, client, &target);
}

/// One signal releases two queues: the driver is asked for the first one's work, and for the second one's when the refusal is judged.
pub(super) fn feeds_queues(world: &World, client: &Client) {
    let refused = world.late.0.lock().unwrap().refuses.take();
    let go = client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let waiting = [(); 2].map(|()| {
        let target = client.pinned(SurfaceKind::System, 4096);
        let tame = buffer(client, target.va(), 7);
        let (queue, context) = queue(client, COMPUTE);
        queue.submit_wait(&go, 1).expect("a wait");
        queue.submit(tame.0.va(), tame.1, 1).expect("a submission");
        (target, tame, queue, context)
    });
    world.late.0.lock().unwrap().refuses = refused;
    client.gpu.device().signal(&go, 1).expect("a signal");
    world.host.check_invariants().expect("both are handed over, or wait");
    waiting.iter().for_each(|(target, ..)| ends(world, client, target));
}

/// One signal releases two packet contexts.
pub(super) fn submits_packets(world: &World, client: &Client) {
    let go = client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let waiting = [(); 2].map(|()| {
        let target = client.pinned(SurfaceKind::System, 4096);
        let tame = buffer(client, target.va(), 7);
        let context = packets(client, COMPUTE);
        context.wait(&go, 1).expect("a wait");
        context.submit(tame.0.va(), tame.1, vec![]).expect("a submission");
        (target, tame, context)
    });
    client.gpu.device().signal(&go, 1).expect("a signal");
    world.host.check_invariants().expect("both are handed over, or wait");
    waiting.iter().for_each(|(target, ..)| ends(world, client, target));
}

pub(super) fn ranks(world: &World, client: &Client) {
    world.host.set_process_priority(client.link.process(), 4);
}

/// The work of the client makes no progress: the client is suspended for that.
pub(super) fn stands(world: &World, client: &Client) {
    while client.gpu.device().state().is_ok_and(|state| state == DeviceState::Active) {
        assert!(world.host.step(), "the client is suspended");
    }
}

/// A third process takes the memory of the client, which has work: the client is suspended until its next turn.
pub(super) fn suspends(world: &World, client: &Client) {
    let third = stack::world::client(&world.host);
    let (queue, _context) = queue(client, COMPUTE);
    let go = client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let target = client.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(client, target.va(), 7);
    queue.submit_wait(&go, 1).expect("a wait");
    queue.submit(tame.va(), bytes, 1).expect("a submission");
    let held = [lists(world, &client.gpu), lists(world, &third.gpu)];
    let waits = || world.late.0.lock().unwrap().refuses.is_some();
    while waits() {
        assert!(world.host.step(), "the client is suspended");
    }
    if client.gpu.device().signal(&go, 1).is_ok() {
        ends(world, client, &target);
    }
    drop(held);
}

/// Most of the video memory comes onto the list of a device.
fn lists(world: &World, gpu: &Gpu) -> Surface {
    let surface = gpu.create_surface(SurfaceKind::Local, 3 * MIB).expect("a surface");
    let list = vec![surface.allocation().handle()];
    let listed = gpu.paging().make_resident(list, MakeResidentFlags::CANT_TRIM_FURTHER);
    assert!(listed.is_ok() || world.host.stopped().is_some(), "each fits by itself");
    surface
}

/// A context comes to the client's device, which has work and is suspended until its next turn.
pub(super) fn comes(world: &World, client: &Client) {
    let refused = world.late.0.lock().unwrap().refuses.take();
    let third = stack::world::client(&world.host);
    let (busy, _context) = queue(client, COMPUTE);
    let go = client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    busy.submit_wait(&go, 1).expect("a wait");
    let held = [lists(world, &client.gpu), lists(world, &third.gpu)];
    (0..10).for_each(|_| _ = world.host.step());
    world.late.0.lock().unwrap().refuses = refused;
    let came = client.gpu.device().create_context(COMPUTE).expect("the fault is another's");
    assert!(world.late.0.lock().unwrap().refuses.is_none(), "the device is suspended");
    client.gpu.device().signal(&go, 1).expect("a signal");
    let target = client.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(client, target.va(), 7);
    let queue = came.create_kernel_queue().expect("a queue");
    queue.submit(tame.va(), bytes, 1).expect("a submission");
    ends(world, client, &target);
    drop(held);
}

/// The kernel reads the logs of a queue that a process feeds.
pub(super) fn signals(world: &World, client: &Client) {
    let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let mut stream = Stream::create(&client.gpu, COMPUTE, StreamConfig::default()).expect("a stream");
    let wait = begin_wait(&world.host, client, &fence, 1);
    let mut commands = Commands::new();
    commands.signal(&fence, 1);
    stream.submit(&client.gpu, &[], &commands).expect("a submission");
    // The waiter may be answered before the interrupt, for which the kernel reads the log.
    while world.late.0.lock().unwrap().refuses.is_some() {
        assert!(world.host.step(), "the kernel reads the log");
    }
    world.host.take_answer(wait).expect("the waiter is answered").expect("and well");
}

/// A node's packets are asked back for a process of higher rank.
pub(super) fn preempts(world: &World, client: &Client) {
    let target = client.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(client, target.va(), 7);
    world.host.set_process_priority(client.link.process(), 4);
    let context = packets(client, COPY);
    context.submit(tame.va(), bytes, vec![]).expect("a submission");
    ends(world, client, &target);
}
