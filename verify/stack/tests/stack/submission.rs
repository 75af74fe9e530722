//! A client's work from its ring to its results, in both kinds of time.

use d3dkmt::{EvictFlags, MakeResidentFlags, NativeFenceRequest, Residency};
use dxgk_host::Mode;
use kmt_calls::SignalFlags;
use softgpu_umd::{
    Commands, FenceName, GpuSignal, GpuWait, KernelFedStream, StreamConfig, SurfaceKind, UmdError, pattern,
};
use stack::world::{MIB, VIRTUAL, client, host};
use wddm_types::{NodeId, NtStatus};

#[test]
fn what_the_gpu_writes_the_cpu_reads() {
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let local = client.pinned(SurfaceKind::Local, 64 << 10);
        let system = client.pinned(SurfaceKind::System, 64 << 10);
        let (local_va, system_va) = (local.va(), system.va());
        client.run(|commands| {
            commands.pattern(local_va, 64 << 10, 7).copy(local_va, system_va, 64 << 10);
        });
        let lock = system.lock().expect("system memory can be locked");
        for offset in [0, 8, 4096, 65528] {
            assert_eq!(lock.read_word(offset), pattern::word(7, offset), "{mode:?} at {offset}");
        }
    }
}

/// A value never exceeds itself: a waiter for a fence by such a signal would sleep for ever.
#[test]
fn a_signal_that_monitors_its_own_value_is_refused_before_it_is_submitted() {
    // spec: sync §3.7, sync §3.9
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    let wrong = FenceName { monitored: fence.current_va(), ..FenceName::from(&fence) };
    let mut fed = KernelFedStream::hardware(&client.gpu, NodeId(0), StreamConfig::default()).expect("a queue");
    let (mut commands, last) = (Commands::new(), client.stream.last_value());
    commands.signal(wrong, 1).signal(&fence, 2);
    let behind = [GpuSignal { fence: wrong, value: 1 }];
    let refusals = [
        client.stream.submit(&client.gpu, &[], &commands).unwrap_err(),
        client.stream.submit_signaling(&client.gpu, &[], &Commands::new(), &behind).unwrap_err(),
        fed.submit(&client.gpu, None, &commands).unwrap_err(),
    ];
    for refusal in refusals {
        let said = refusal.to_string();
        assert!(matches!(refusal, UmdError::MonitorsItself(va) if va == fence.current_va().0), "{said}");
        assert!(said.contains(&format!("{:#x}", fence.current_va().0)), "{said}");
    }
    assert_eq!(client.stream.last_value(), last, "nothing was submitted");
    // The buffer is used again, and the stream.
    commands.clear();
    commands.signal(&fence, 3);
    client.stream.submit(&client.gpu, &[], &commands).expect("it has two addresses");
    client.gpu.device().wait(&[(&fence, 3)]).expect("it comes");
}

/// Three surfaces in room for two: each comes back as it was, however often it leaves.
#[test]
fn content_survives_eviction() {
    // spec: memory §8.3, memory §5.2
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 2 * MIB);
        let mut client = client(&host);
        let report = client.pinned(SurfaceKind::System, 4096);
        let surfaces: Vec<_> = (0..3).map(|_| client.gpu.create_surface(SurfaceKind::Local, MIB).unwrap()).collect();
        let fence = FenceName::from(client.gpu.paging().fence());
        for round in 0..6u64 {
            for (index, surface) in surfaces.iter().enumerate() {
                let handle = vec![surface.allocation().handle()];
                let residency = client.gpu.paging().make_resident(handle.clone(), MakeResidentFlags::empty()).unwrap();
                let waits: Vec<GpuWait> = match residency {
                    Residency::Resident => vec![],
                    Residency::Pending { paging_fence_value, .. } => {
                        vec![GpuWait { fence, value: paging_fence_value }]
                    }
                };
                let mut commands = Commands::new();
                if round > 0 {
                    commands.check(
                        surface.va(),
                        MIB,
                        pattern::seed(index as u64, round - 1),
                        report.va(),
                        round << 8 | index as u64,
                    );
                }
                commands.pattern(surface.va(), MIB, pattern::seed(index as u64, round));
                client.stream.submit(&client.gpu, &waits, &commands).unwrap();
                client.gpu.device().evict(handle, EvictFlags::EVICT_ONLY_IF_NECESSARY).unwrap();
            }
        }
        let last = client.stream.last_value();
        client.stream.wait(&client.gpu, last).unwrap();
        assert_eq!(report.lock().unwrap().read_word(0), 0, "{mode:?}: a check failed");
    }
}

#[test]
fn memory_that_was_never_written_reads_zero() {
    let host = host(VIRTUAL, 4 * MIB);
    let mut first = client(&host);
    for round in 0..3 {
        let surface = first.pinned(SurfaceKind::Local, 2 * MIB);
        let copy = first.pinned(SurfaceKind::System, 2 * MIB);
        let (va, copy_va) = (surface.va(), copy.va());
        first.run(|commands| {
            commands.copy(va, copy_va, 2 * MIB).pattern(va, 2 * MIB, 99);
        });
        let lock = copy.lock().unwrap();
        for offset in (0..2 * MIB).step_by(4096) {
            assert_eq!(lock.read_word(offset), 0, "round {round}: another owner's bytes at {offset}");
        }
    }
}

#[test]
fn a_kernel_mode_queue_holds_work_until_its_fence_is_reached() {
    // spec: sync §3.8, sync §4.1
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let client = client(&host);
        let device = client.gpu.device();
        let context = device.create_context(wddm_types::NodeId(0)).unwrap();
        let queue = context.create_kernel_queue().unwrap();
        let (go, done) = (
            device.create_native_fence(Default::default()).unwrap(),
            device.create_native_fence(Default::default()).unwrap(),
        );
        let buffer = client.pinned(SurfaceKind::System, 4096);
        let target = client.pinned(SurfaceKind::System, 4096);
        let mut commands = Commands::new();
        commands.fill(target.va(), 4096, 0x1234_5678);
        buffer.lock().unwrap().write_words(0, commands.words());
        queue.submit_wait(&go, 3).unwrap();
        queue.submit(buffer.va(), commands.words().len() as u32 * 8, 1).unwrap();
        queue.submit_signal(&done, 9).unwrap();
        device.signal(&go, 2).unwrap();
        assert_eq!((queue.progress().current(), done.current()), (0, 0), "2 is not 3");
        device.signal(&go, 3).unwrap();
        device.wait(&[(&done, 9)]).unwrap();
        assert_eq!(queue.progress().current(), 1);
        assert_eq!(target.lock().unwrap().read_word(0), 0x1234_5678_1234_5678);
    }
}

/// More buffers than the driver lets be in flight: all run, in order.
#[test]
fn a_long_kernel_mode_queue_drains() {
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let context = client.gpu.device().create_context(wddm_types::NodeId(1)).unwrap();
    let queue = context.create_kernel_queue().unwrap();
    let buffer = client.pinned(SurfaceKind::System, 4096);
    let target = client.pinned(SurfaceKind::System, 4096);
    let mut commands = Commands::new();
    commands.fill(target.va(), 4096, 1);
    buffer.lock().unwrap().write_words(0, commands.words());
    for value in 1..=2000 {
        queue.submit(buffer.va(), commands.words().len() as u32 * 8, value).unwrap();
    }
    client.gpu.device().wait(&[(queue.progress(), 2000)]).unwrap();
}

/// Two queues that signal together: their buffers stand behind gates of their own.
struct Pair {
    client: stack::world::Client,
    queues: [d3dkmt::KernelQueue; 2],
    gates: [d3dkmt::Fence; 2],
    done: d3dkmt::Fence,
    buffer: softgpu_umd::Surface,
    bytes: u32,
    _target: softgpu_umd::Surface,
    _contexts: [d3dkmt::HwContext; 2],
    host: std::sync::Arc<dxgk_host::Host>,
}

impl Pair {
    fn new() -> Pair {
        let host = host(VIRTUAL, 4 * MIB);
        let client = client(&host);
        let device = client.gpu.device();
        let contexts = [0, 1].map(|node| device.create_context(wddm_types::NodeId(node)).unwrap());
        let queues = contexts.each_ref().map(|context| context.create_kernel_queue().unwrap());
        let fence = || device.create_native_fence(Default::default()).unwrap();
        let (gates, done) = ([fence(), fence()], fence());
        let (buffer, target) = (client.pinned(SurfaceKind::System, 4096), client.pinned(SurfaceKind::System, 4096));
        let mut commands = Commands::new();
        commands.fill(target.va(), 4096, 1);
        buffer.lock().unwrap().write_words(0, commands.words());
        let bytes = commands.words().len() as u32 * 8;
        for (queue, gate) in queues.iter().zip(&gates) {
            queue.submit_wait(gate, 1).unwrap();
            queue.submit(buffer.va(), bytes, 1).unwrap();
        }
        Pair { client, queues, gates, done, buffer, bytes, _target: target, _contexts: contexts, host }
    }

    fn signal(&self, points: &[(&d3dkmt::Fence, u64)], flags: SignalFlags) -> Result<(), d3dkmt::Refusal> {
        self.queues[0].submit_signals(&[&self.queues[1]], points, flags)
    }

    fn open(&self, gate: usize) {
        self.client.gpu.device().signal(&self.gates[gate], 1).unwrap();
        while self.host.step() {}
    }
}

#[test]
fn queues_that_signal_together_signal_when_the_last_has_come() {
    // spec: sync §2.4, sync §3.7
    for first in [0, 1] {
        let pair = Pair::new();
        let second = pair.client.gpu.device().create_native_fence(Default::default()).unwrap();
        pair.signal(&[(&pair.done, 5), (&second, 7)], SignalFlags::empty()).unwrap();
        pair.open(first);
        assert_eq!(pair.queues[first].progress().current(), 1, "its buffer is done");
        assert_eq!((pair.done.current(), second.current()), (0, 0), "the other's is not");
        pair.open(1 - first);
        assert_eq!((pair.done.current(), second.current()), (5, 7));
    }
}

#[test]
fn a_signal_of_queues_may_come_at_submission_and_may_go_back() {
    // spec: sync §2.4, sync §1.6
    let pair = Pair::new();
    pair.signal(&[(&pair.done, 9)], SignalFlags::SIGNAL_AT_SUBMISSION).unwrap();
    pair.open(0);
    assert_eq!(pair.done.current(), 0, "the second queue's buffer is not handed over");
    pair.open(1);
    assert_eq!(pair.done.current(), 9);
    // A queue alone that has nothing in front signals at once; a value below needs leave.
    pair.queues[0].submit_signals(&[], &[(&pair.done, 4)], SignalFlags::empty()).unwrap();
    while pair.host.step() {}
    assert_eq!(pair.done.current(), 9, "it does not fall");
    pair.queues[0].submit_signals(&[], &[(&pair.done, 4)], SignalFlags::ALLOW_FENCE_REWIND).unwrap();
    while pair.host.step() {}
    assert_eq!(pair.done.current(), 4);
}

#[test]
fn a_signal_at_submission_does_not_wait_for_the_buffer_before_it() {
    // spec: sync §2.4
    let pair = Pair::new();
    let device = pair.client.gpu.device();
    let started = device.create_native_fence(Default::default()).unwrap();
    device.signal(&pair.gates[0], 1).unwrap();
    // The buffer waits on the GPU for the value of the signal at submission: a signal behind the buffer would never come.
    let mut commands = Commands::new();
    commands.wait(&started, 1);
    let own = pair.client.pinned(SurfaceKind::System, 4096);
    own.lock().unwrap().write_words(0, commands.words());
    pair.queues[0].submit(own.va(), commands.words().len() as u32 * 8, 2).unwrap();
    pair.queues[0].submit_signals(&[], &[(&started, 1)], SignalFlags::SIGNAL_AT_SUBMISSION).unwrap();
    while pair.host.step() {}
    assert_eq!(pair.queues[0].progress().current(), 2);
}

#[test]
fn a_signal_of_queues_that_is_refused_or_lost_changes_nothing() {
    // spec: sync §2.4, sync §5
    let pair = Pair::new();
    let status = |result: Result<(), d3dkmt::Refusal>| result.expect_err("a refusal").status;
    let points = [(&pair.done, 5)];
    let twice = pair.queues[0].submit_signals(&[&pair.queues[0]], &points, SignalFlags::empty());
    assert_eq!(status(twice), NtStatus::INVALID_PARAMETER);
    for flags in [SignalFlags::ENQUEUE_CPU_EVENT, SignalFlags::from_bits_retain(8)] {
        assert_eq!(status(pair.signal(&points, flags)), NtStatus::INVALID_PARAMETER);
    }
    assert_eq!(status(pair.signal(&[], SignalFlags::empty())), NtStatus::INVALID_PARAMETER);
    // One queue has no room for it: the other is not given its half.
    let mut value = 1;
    let full = loop {
        value += 1;
        if let Err(refusal) = pair.queues[1].submit(pair.buffer.va(), pair.bytes, value) {
            break refusal.status;
        }
    };
    assert_eq!((full, status(pair.signal(&points, SignalFlags::empty()))), (NtStatus::NO_MEMORY, NtStatus::NO_MEMORY));
    pair.open(0);
    pair.open(1);
    assert_eq!((pair.queues[1].progress().current(), pair.done.current()), (value - 1, 0), "all ran, none signalled");
    // A queue that goes takes its half with it, and the other goes on.
    let pair = Pair::new();
    pair.signal(&[(&pair.done, 5)], SignalFlags::empty()).unwrap();
    let Pair { client, queues: [first, second], gates, done, host, .. } = pair;
    drop(second);
    client.gpu.device().signal(&gates[0], 1).unwrap();
    while host.step() {}
    assert_eq!((first.progress().current(), done.current()), (1, 0));
    host.check_invariants().expect("nothing is left of it");
}
