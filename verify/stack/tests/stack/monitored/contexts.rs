//! Contexts and monitored fences: waits that the kernel holds, software signals, broadcasts.

use d3dkmt::{FenceFlags, SignalFlags, VirtualContext, WaitFlags};
use dxgk_host::Mode;
use softgpu_umd::Commands;
use wddm_types::{NodeId, NtStatus};

use super::{ADDRESSED, Buffer, NODE, drain, event, monitored, open, traced, world};
use stack::world::VIRTUAL;

/// A word that a buffer writes when it runs.
struct Mark {
    surface: softgpu_umd::Surface,
    buffer: Buffer,
}

impl Mark {
    fn new(gpu: &softgpu_umd::Gpu) -> Mark {
        let surface = gpu.create_surface(softgpu_umd::SurfaceKind::System, 4096).unwrap();
        gpu.pin(&surface).unwrap();
        let mut commands = Commands::new();
        commands.store(surface.va(), 1);
        Mark { buffer: Buffer::new(gpu, &commands), surface }
    }

    fn is_set(&self) -> bool {
        self.surface.lock().unwrap().read_word(0) == 1
    }
}

/// The kernel records the dependency, the call returns, and more work queues behind; work before the wait runs.
#[test]
fn a_context_is_held_from_the_wait_on() {
    // spec: sync §3.8, sync §1.2
    // seed: C01, C18, C19, N05
    for profile in ADDRESSED {
        let (host, gpu) = world(profile, VIRTUAL);
        let device = gpu.device();
        let (gate, second, done) = (monitored(device), monitored(device), monitored(device));
        let context = VirtualContext::create(device, NODE, Vec::new()).unwrap();
        let (before, behind) = (Mark::new(&gpu), Mark::new(&gpu));
        before.buffer.run(&context);
        context.wait(&gate, 3).unwrap();
        context.wait(&second, 1).unwrap();
        behind.buffer.run(&context);
        context.signal(&done, 1).unwrap();
        drain(&host);
        assert!(before.is_set() && !behind.is_set(), "{profile}");
        device.signal(&gate, 2).unwrap();
        device.signal(&second, 1).unwrap();
        drain(&host);
        assert!(!behind.is_set(), "{profile}: 2 is not 3");
        device.signal(&gate, 4).unwrap();
        device.wait(&[(&done, 1)]).unwrap();
        assert!(behind.is_set(), "{profile}: the value or greater");
    }
}

/// One engine signals by its stream, another one's work is held until then: the CPU never waits.
#[test]
fn one_engine_waits_for_another() {
    // spec: sync §3.7, sync §3.8
    // seed: C01
    for profile in ADDRESSED {
        for mode in [VIRTUAL, Mode::Real] {
            let (_host, gpu) = world(profile, mode);
            let device = gpu.device();
            let fence = monitored(device);
            let contexts = [NodeId(0), NodeId(1)].map(|n| VirtualContext::create(device, n, Vec::new()).unwrap());
            let (mark, done) = (Mark::new(&gpu), monitored(device));
            contexts[1].wait(&fence, 1).unwrap();
            mark.buffer.run(&contexts[1]);
            contexts[1].signal(&done, 1).unwrap();
            let mut commands = Commands::new();
            if profile == "basic-engines" {
                commands.store(fence.current_va(), 1);
            } else {
                commands.signal_monitored(fence.current_va(), 1);
            }
            Buffer::new(&gpu, &commands).run(&contexts[0]);
            device.wait(&[(&done, 1)]).unwrap();
            assert!(mark.is_set(), "{profile} {mode:?}");
        }
    }
}

/// Engines that cannot write a fence: a software packet does, when the work before it has completed.
#[test]
fn a_software_packet_signals_when_its_turn_comes() {
    // spec: sync §3.7
    // seed: C13
    for profile in ["wddm2-packets", "noncoherent", "discrete-4k"] {
        let (host, gpu) = world(profile, VIRTUAL);
        let device = gpu.device();
        let gate = monitored(device);
        let fence = device.create_monitored_fence(FenceFlags::NO_GPU_ACCESS, 0).unwrap();
        let context = VirtualContext::create(device, NODE, Vec::new()).unwrap();
        let mark = Mark::new(&gpu);
        context.wait(&gate, 1).unwrap();
        mark.buffer.run(&context);
        context.signal(&fence, 6).unwrap();
        let done = event(&gpu);
        device.wait_async(&[(&fence, 6)], &done, WaitFlags::empty()).unwrap();
        drain(&host);
        assert_eq!(fence.current(), 0, "{profile}: its turn has not come");
        device.signal(&gate, 1).unwrap();
        done.wait().unwrap();
        assert!(mark.is_set() && fence.current() == 6, "{profile}");
    }
}

#[test]
fn a_broadcast_signals_when_the_last_context_has_come() {
    // spec: sync §2.4
    let (host, gpu) = world("wddm2-packets", VIRTUAL);
    let device = gpu.device();
    let (fence, gates) = (monitored(device), [monitored(device), monitored(device), monitored(device)]);
    let contexts = [0, 0, 1].map(|node| VirtualContext::create(device, NodeId(node), Vec::new()).unwrap());
    let handles: Vec<_> = contexts.iter().map(VirtualContext::handle).collect();
    for (context, gate) in contexts.iter().zip(&gates) {
        context.wait(gate, 1).unwrap();
    }
    device.signal_from_gpu(&handles, &[(&fence, 1)], SignalFlags::empty()).unwrap();
    let all = event(&gpu);
    device.enqueue_cpu_event(&handles, &all).unwrap();
    for gate in &gates {
        drain(&host);
        assert_eq!((fence.current(), all.take().unwrap()), (0, false));
        device.signal(gate, 1).unwrap();
    }
    all.wait().unwrap();
    assert_eq!(fence.current(), 1);
}

/// A context that goes takes its part with it: the signal never comes, and is told to be dropped.
#[test]
fn a_broadcast_whose_context_goes_is_dropped() {
    // spec: sync §2.4
    let (host, heard) = traced("wddm2-packets", VIRTUAL);
    let (gpu, _link) = open(&host);
    let device = gpu.device();
    let (fence, gate) = (monitored(device), monitored(device));
    let contexts = [0, 1].map(|node| VirtualContext::create(device, NodeId(node), Vec::new()).unwrap());
    contexts[0].wait(&gate, 1).unwrap();
    let handles = contexts.each_ref().map(VirtualContext::handle);
    device.signal_from_gpu(&handles, &[(&fence, 1)], SignalFlags::empty()).unwrap();
    drain(&host);
    let [held, _other] = contexts;
    drop(held);
    device.signal(&gate, 1).unwrap();
    drain(&host);
    assert_eq!(fence.current(), 0);
    assert_eq!(heard.count(|e| matches!(e, events::Event::SignalDropped { fences: 1, objects: 0 })), 1);
    host.check_invariants().unwrap();
}

/// At submission and TopOfPipeline: not when the buffer before has completed, but when it has been handed over.
#[test]
fn a_signal_at_submission_does_not_wait_for_completion() {
    // spec: sync §2.4, sync §2.3
    // seed: C03
    for top in [false, true] {
        let (host, gpu) = world("wddm2-packets", VIRTUAL);
        let device = gpu.device();
        let flags = if top { FenceFlags::TOP_OF_PIPELINE } else { FenceFlags::empty() };
        let early = device.create_monitored_fence(flags, 0).unwrap();
        let (late, gate) = (monitored(device), monitored(device));
        let context = VirtualContext::create(device, NODE, Vec::new()).unwrap();
        let surface = gpu.create_surface(softgpu_umd::SurfaceKind::System, 1 << 20).unwrap();
        gpu.pin(&surface).unwrap();
        let mut slow = Commands::new();
        for _ in 0..8 {
            slow.fill(surface.va(), 1 << 20, 1);
        }
        let slow = Buffer::new(&gpu, &slow);
        slow.run(&context);
        context.wait(&gate, 1).unwrap();
        slow.run(&context);
        let flags = if top { SignalFlags::empty() } else { SignalFlags::SIGNAL_AT_SUBMISSION };
        device.signal_from_gpu(&[context.handle()], &[(&early, 1)], flags).unwrap();
        context.signal(&late, 1).unwrap();
        drain(&host);
        assert_eq!((early.current(), late.current()), (0, 0), "behind the wait");
        device.signal(&gate, 1).unwrap();
        assert_eq!((early.current(), late.current()), (1, 0), "submitted, not completed");
        drain(&host);
        assert_eq!(late.current(), 1);
    }
}

#[test]
fn a_rewind_by_a_packet() {
    // spec: sync §2.4, sync §6 B4
    let (host, gpu) = world("wddm2-packets", VIRTUAL);
    let device = gpu.device();
    let fence = device.create_monitored_fence(FenceFlags::empty(), 9).unwrap();
    let context = VirtualContext::create(device, NODE, Vec::new()).unwrap();
    context.signal(&fence, 3).unwrap();
    drain(&host);
    assert_eq!(fence.current(), 9, "not without the flag");
    device.signal_from_gpu(&[context.handle()], &[(&fence, 3)], SignalFlags::ALLOW_FENCE_REWIND).unwrap();
    drain(&host);
    assert_eq!(fence.current(), 3);
}

/// A whole queue, or none: one context of the list has no room.
#[test]
fn a_broadcast_that_one_context_has_no_room_for_changes_none() {
    // spec: sync §5
    let (host, gpu) = world("wddm2-packets", VIRTUAL);
    let device = gpu.device();
    let (fence, gate) = (monitored(device), monitored(device));
    let contexts = [0, 1].map(|node| VirtualContext::create(device, NodeId(node), Vec::new()).unwrap());
    contexts[1].wait(&gate, 1).unwrap();
    while contexts[1].signal(&gate, 0).is_ok() {}
    let handles = contexts.each_ref().map(VirtualContext::handle);
    let refused = device.signal_from_gpu(&handles, &[(&fence, 1)], SignalFlags::empty()).unwrap_err();
    assert_eq!(refused.status, NtStatus::NO_MEMORY, "{refused}");
    device.signal_from_gpu(&handles[..1], &[(&fence, 2)], SignalFlags::empty()).unwrap();
    drain(&host);
    assert_eq!(fence.current(), 2, "nothing of the refused one stands before");
}
