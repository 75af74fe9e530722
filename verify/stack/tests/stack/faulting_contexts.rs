//! The driver knows of a fault, and the kernel does not yet: what the driver refuses meanwhile costs the device that has faulted, and no
//! other device nor the adapter. Without a fault the refusal has its own consequence.

mod acts;
mod late;
mod world;

use d3dkmt::{
    DeviceState, FenceFlags, HwContext, KernelQueue, NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess,
};
use miniport_filter::Function;
use softgpu_umd::{Commands, SurfaceKind};
use wddm_types::{GpuVa, NodeId};

use crate::fence_interrupts::begin_wait;
use acts::{
    Act, comes, feeds_queue, feeds_queues, preempts, ranks, renders, signals, stands, submits_packet, submits_packets,
    suspends,
};
use late::Tells;
use stack::world::MIB;
use world::{COMPUTE, COPY, WILD, World, buffer, packets, queue, world, world_of};

/// The answer to a bystander's wait for a fence that the guilty process was to signal behind its buffers.
fn outcome_of_further_buffers(tells: Tells) -> Result<(), String> {
    let mut world = world(tells);
    let (wild, bytes) = buffer(&world.guilty, GpuVa(WILD), 1);
    let target = world.guilty.pinned(SurfaceKind::System, 4096);
    let (tame, tame_bytes) = buffer(&world.guilty, target.va(), 2);
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
    let fence = world.guilty.gpu.device().create_native_fence(request).expect("a fence");
    let name = fence.share(SyncObjectAccess::ALL_ACCESS).expect("a name");
    let by_name = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
    let opened = world.bystander.gpu.device().open_native_fence(by_name).expect("it opens");
    let wait = begin_wait(&world.host, &world.bystander, &opened, 1);
    let context = packets(&world.guilty, COPY);
    context.submit(wild.va(), bytes, vec![]).expect("a submission");
    if tells == Tells::BehindARefusal {
        world.run_to_fault();
        // The kernel accepts it; the driver, which has stopped the context, does not.
        context.submit(tame.va(), tame_bytes, vec![]).expect("a submission");
    }
    while world.guilty.gpu.device().state().is_ok_and(|state| state == DeviceState::Active) {
        assert!(world.host.step(), "the device is lost");
    }
    context.submit(tame.va(), tame_bytes, vec![]).expect_err("the device is lost");
    context.signal(&fence, 1).expect_err("the device is lost");
    world.only_the_guilty_is_lost("further buffers");
    assert_eq!(target.lock().map_or(0, |target| target.read_word(0)), 0, "nothing behind the fault has run");
    while world.host.step() {}
    world
        .host
        .take_answer(wait)
        .expect("the waiter is not left")
        .map(drop)
        .map_err(|refusal| refusal.reason.into_owned())
}

#[test]
fn further_buffers_of_a_context_that_has_faulted_cost_its_device_only() {
    // spec: memory §5.8, memory §8.6, sync §3.16
    let told_at_once = outcome_of_further_buffers(Tells::AtOnce);
    assert_eq!(outcome_of_further_buffers(Tells::BehindARefusal), told_at_once);
}
/// The guilty process's queue faults; the driver knows it.
fn faulted(node: NodeId) -> (World, (KernelQueue, HwContext)) {
    faulted_on("discrete-4k", node)
}

fn faulted_on(profile: &str, node: NodeId) -> (World, (KernelQueue, HwContext)) {
    let world = world_of(profile, Tells::BehindARefusal);
    let (wild, bytes) = buffer(&world.guilty, GpuVa(WILD), 1);
    let faulting = queue(&world.guilty, node);
    faulting.0.submit(wild.va(), bytes, 1).expect("a submission");
    world.run_to_fault();
    (world, faulting)
}

#[test]
fn a_refusal_for_a_device_that_has_faulted_is_moot() {
    // spec: memory §5.8, memory §8.6
    let cases: [(Function, Act); 5] = [
        (Function::SubmitCommandVirtual, submits_packet),
        (Function::SubmitCommand, renders),
        (Function::SubmitCommandToHwQueue, feeds_queue),
        (Function::SetContextSchedulingProperties, ranks),
        (Function::SuspendContext, stands),
    ];
    for (function, act) in cases {
        let (mut world, _faulting) = faulted(COMPUTE);
        world.refuse(function, false);
        act(&world, &world.guilty);
        world.only_the_guilty_is_lost(&format!("{function:?}"));
    }
}

/// A driver whose node stands until the fault is handled refuses the work of others, too. They are not to blame.
#[test]
fn a_refusal_that_anothers_fault_explains_costs_nobody_else() {
    // spec: memory §5.8, memory §8.6
    let cases: [(Function, Act); 6] = [
        (Function::SubmitCommandVirtual, submits_packet),
        (Function::SubmitCommandVirtual, submits_packets),
        (Function::SubmitCommandToHwQueue, feeds_queue),
        (Function::SubmitCommandToHwQueue, feeds_queues),
        (Function::SetContextSchedulingProperties, ranks),
        (Function::SuspendContext, suspends),
    ];
    for (function, act) in cases {
        let (mut world, _faulting) = faulted(COMPUTE);
        world.refuse(function, false);
        act(&world, &world.bystander);
        assert!(world.asked_again(function) > 0, "{function:?}: the driver is asked again");
        world.only_the_guilty_is_lost(&format!("{function:?}"));
    }
}

#[test]
fn a_context_that_comes_while_anothers_fault_is_not_handled_is_suspended() {
    // spec: memory §5.8, sync §4.1
    for function in [Function::SuspendContext, Function::SetContextSchedulingProperties] {
        let (mut world, _faulting) = faulted(COMPUTE);
        world.refuse(function, false);
        comes(&world, &world.bystander);
        assert!(world.asked_again(function) > 0, "{function:?}: the driver is asked again");
        world.only_the_guilty_is_lost(&format!("{function:?}"));
    }
}

/// The interrupt names a queue, and only the entries of its log would name the fence: the kernel looks at the fences themselves.
#[test]
fn a_waiter_is_answered_though_the_driver_refuses_the_log_of_a_queue_for_a_fault() {
    // spec: memory §5.8, sync §3.15
    let (mut world, _faulting) = faulted_on("optimized-fences", COMPUTE);
    world.refuse(Function::UpdateNativeFenceLogs, false);
    signals(&world, &world.bystander);
    world.only_the_guilty_is_lost("UpdateNativeFenceLogs");
}

/// The node has the packet that has faulted, and is asked for it.
#[test]
fn a_node_that_refuses_a_preemption_for_a_fault_is_not_asked_for_ever() {
    // spec: memory §5.8, sync §4.3
    let mut world = world(Tells::BehindARefusal);
    let (wild, bytes) = buffer(&world.guilty, GpuVa(WILD), 1);
    let faulting = packets(&world.guilty, COPY);
    faulting.submit(wild.va(), bytes, vec![]).expect("a submission");
    world.run_to_fault();
    world.refuse(Function::PreemptCommand, false);
    preempts(&world, &world.bystander);
    world.only_the_guilty_is_lost("PreemptCommand");
}

/// The reason for which an adapter has stopped, or for which the bystander was lost.
fn verdict(world: &World) -> String {
    let lost = || world.bystander.gpu.device().create_paging_queue().err().expect("it is lost").reason.into_owned();
    world.host.stopped().unwrap_or_else(lost)
}

#[test]
fn a_refusal_without_a_fault_has_its_own_consequence() {
    // spec: sync §4.4, memory §8.6
    let cases: [(Function, Act, &str); 6] = [
        (Function::SubmitCommandVirtual, submits_packet, "SubmitCommand failed: the driver says: failed (a whim)"),
        (Function::SubmitCommand, renders, "SubmitCommand failed: the driver says: failed (a whim)"),
        (Function::SubmitCommandToHwQueue, feeds_queue, "the driver refused a command buffer: the driver says"),
        (Function::SetContextSchedulingProperties, ranks, "SetContextSchedulingProperties failed: the driver says"),
        (Function::SuspendContext, suspends, "SuspendContext failed: the driver says"),
        (Function::UpdateNativeFenceLogs, signals, "UpdateNativeFenceLogs failed: the driver says"),
    ];
    for (function, act, reason) in cases {
        let world = world(Tells::AtOnce);
        world.refuse(function, true);
        act(&world, &world.bystander);
        let verdict = verdict(&world);
        assert!(verdict.contains(reason), "{function:?}: {verdict}");
        assert_eq!(world.host.stopped().is_none(), function == Function::SubmitCommandToHwQueue, "{function:?}");
    }
    let world = world(Tells::AtOnce);
    let (target, long) = (world.guilty.pinned(SurfaceKind::Local, MIB), world.guilty.pinned(SurfaceKind::System, 4096));
    let mut commands = Commands::new();
    (0..100).for_each(|_| _ = commands.fill(target.va(), MIB, 1));
    long.lock().unwrap().write_words(0, commands.words());
    let context = packets(&world.guilty, COPY);
    let bytes = commands.words().len() as u32 * 8;
    (0..3).for_each(|_| _ = context.submit(long.va(), bytes, vec![]).expect("a submission"));
    world.refuse(Function::PreemptCommand, true);
    preempts(&world, &world.bystander);
    assert!(verdict(&world).contains("PreemptCommand failed"), "{}", verdict(&world));
}

#[test]
fn a_fault_on_another_node_explains_nothing() {
    // spec: sync §4.4
    let (world, _faulting) = faulted(COPY);
    world.refuse(Function::SubmitCommandVirtual, false);
    submits_packet(&world, &world.bystander);
    let stopped = world.host.stopped().expect("the driver has no reason to refuse this");
    assert!(stopped.contains("SubmitCommand failed"), "{stopped}");
}

/// The driver tells of the fault in the interrupt that tells of a packet which the node was handed behind it.
#[test]
fn a_fault_of_a_context_that_has_gone_comes_before_what_ran_behind_it() {
    // spec: memory §5.8, memory §7.4
    let world = world(Tells::BehindAPacket);
    let (wild, bytes) = buffer(&world.guilty, GpuVa(WILD), 1);
    let faulting = packets(&world.guilty, COPY);
    faulting.submit(wild.va(), bytes, vec![]).expect("a submission");
    world.run_to_fault();
    drop(faulting);
    let target = world.bystander.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(&world.bystander, target.va(), 7);
    let (context, device) = (packets(&world.bystander, COPY), world.bystander.gpu.device());
    let done = device.create_native_fence(NativeFenceRequest::default()).expect("a fence");
    context.submit(tame.va(), bytes, vec![]).expect("a submission");
    context.signal(&done, 1).expect("a signal");
    device.wait(&[(&done, 1)]).expect("it completes");
    assert!(world.late.0.lock().unwrap().kept.is_empty(), "the driver has told of the fault");
    assert_eq!(world.host.stopped(), None);
    assert_eq!(target.lock().unwrap().read_word(0), 7 << 32 | 7);
    assert_eq!(world.guilty.gpu.device().state().unwrap(), DeviceState::Active, "its context had gone");
}
