//! The GPU signals a monitored fence: by an engine that interrupts, by one that does not, by 32 bits.

use d3dkmt::{FenceFlags, MonitoredFenceSignal, SignalFlags, VirtualContext, WaitFlags};
use dxgk_host::Mode;
use events::Event;
use softgpu_spec::register::counter;
use softgpu_umd::{Commands, KernelFedStream, StreamConfig};
use wddm_types::NtStatus;

use super::{ADAPTERS, ADDRESSED, Buffer, NODE, drain, event, monitored, open, traced, world};
use stack::world::{VIRTUAL, client};

/// The commands by which a user-mode driver of the node signals.
fn signal(gpu: &softgpu_umd::Gpu, fence: &d3dkmt::Fence, value: u64) -> Commands {
    let mut commands = Commands::new();
    match gpu.monitored_fence_signal(NODE) {
        MonitoredFenceSignal::Advanced => commands.signal_monitored(fence.current_va(), value),
        MonitoredFenceSignal::Basic => commands.store(fence.current_va(), value),
        MonitoredFenceSignal::Packet => unreachable!("these engines write fences"),
    };
    commands
}

#[test]
fn each_adapter_says_how_its_engines_signal() {
    // spec: sync §3.7
    // seed: C15
    let expected = [
        MonitoredFenceSignal::Advanced,
        MonitoredFenceSignal::Advanced,
        MonitoredFenceSignal::Basic,
        MonitoredFenceSignal::Advanced,
        MonitoredFenceSignal::Packet,
        MonitoredFenceSignal::Packet,
    ];
    for (profile, expected) in ADAPTERS.into_iter().zip(expected) {
        let (_host, gpu) = world(profile, VIRTUAL);
        assert_eq!(gpu.monitored_fence_signal(NODE), expected, "{profile}");
    }
}

/// The engine signals by the address, the CPU waits; the other way round is `contexts`. No call of the process is needed.
#[test]
fn an_engine_signals_and_the_cpu_waits() {
    // spec: sync §3.7, sync §1.5, sync §2.8
    // seed: C01, C09, C14, C15, C16
    for profile in ADDRESSED {
        for mode in [VIRTUAL, Mode::Real] {
            let (host, heard) = traced(profile, mode);
            let (gpu, _link) = open(&host);
            let device = gpu.device();
            let fence = monitored(device);
            let context = VirtualContext::create(device, NODE, Vec::new()).unwrap();
            // This creates the tables of the buffers' mappings.
            let _kept = Buffer::new(&gpu, &signal(&gpu, &fence, 1));
            let raised = host.device_register(counter::INTERRUPTS_RAISED);
            for value in 1..=20 {
                let buffer = Buffer::new(&gpu, &signal(&gpu, &fence, value));
                let done = event(&gpu);
                device.wait_async(&[(&fence, value)], &done, WaitFlags::empty()).unwrap();
                buffer.run(&context);
                done.wait().unwrap();
                device.wait(&[(&fence, value)]).unwrap();
                assert_eq!(fence.current(), value, "{profile} {mode:?}");
            }
            let raised = host.device_register(counter::INTERRUPTS_RAISED) - raised;
            let dispatched = heard.count(|e| matches!(e, Event::MonitoredFenceInterrupt { .. }));
            let looked = heard.count(|e| matches!(e, Event::MonitoredFencesLookedAt { released: 1, .. }));
            if profile == "basic-engines" {
                assert_eq!((raised, dispatched, looked), (0, 0, 20), "{mode:?}: at each completed buffer");
            } else {
                // In real time the CPU also waits for paging, by a native fence where there are such.
                assert!(raised == 20 || mode == Mode::Real && raised > 20, "{profile} {mode:?}: always an interrupt");
                assert_eq!(looked, 0, "{profile} {mode:?}");
                assert_eq!(dispatched, 20, "{profile} {mode:?}");
            }
        }
    }
}

/// Unlike a native fence, whose signals interrupt only for a waiter; and also for a value that the fence has already.
#[test]
fn an_advanced_engine_interrupts_also_without_a_waiter() {
    // spec: sync §1.2, sync §3.7
    // seed: C15, N04 (two)
    let (host, heard) = traced("discrete-4k", VIRTUAL);
    let client = client(&host);
    let fence = monitored(client.gpu.device());
    let native = client.gpu.device().create_native_fence(Default::default()).unwrap();
    drain(&host);
    // A queue that the kernel feeds: its buffers have both kinds.
    let mut stream = KernelFedStream::hardware(&client.gpu, NODE, StreamConfig::default()).unwrap();
    let mut commands = Commands::new();
    for value in 1..=10 {
        commands.signal(&native, value);
        commands.signal_monitored(fence.current_va(), value).signal_monitored(fence.current_va(), value);
    }
    drain(&host);
    let raised = host.device_register(counter::INTERRUPTS_RAISED);
    let value = stream.submit(&client.gpu, None, &commands).unwrap();
    stream.wait(&client.gpu, value).unwrap();
    drain(&host);
    assert_eq!((fence.current(), native.current()), (10, 10));
    // The last one is the client's own wait for the stream.
    assert_eq!(host.device_register(counter::INTERRUPTS_RAISED) - raised, 21);
    assert!(heard.count(|e| matches!(e, Event::MonitoredFenceInterrupt { released: 0, .. })) > 0);
}

/// An interrupt 11 names no fence: the kernel finds the waiter's among many.
#[test]
fn the_kernel_finds_the_fence_that_was_signalled() {
    // spec: sync §3.7, sync §3.10
    // seed: C15
    let (host, _) = traced("discrete-4k", VIRTUAL);
    let client = client(&host);
    let mut stream = KernelFedStream::hardware(&client.gpu, NODE, StreamConfig::default()).unwrap();
    let fences: Vec<_> = (0..100).map(|_| monitored(client.gpu.device())).collect();
    let events: Vec<_> = fences.iter().map(|_| event(&client.gpu)).collect();
    for (fence, event) in fences.iter().zip(&events) {
        client.gpu.device().wait_async(&[(fence, 1)], event, WaitFlags::empty()).unwrap();
    }
    let mut commands = Commands::new();
    commands.signal_monitored(fences[61].current_va(), 1);
    let value = stream.submit(&client.gpu, None, &commands).unwrap();
    stream.wait(&client.gpu, value).unwrap();
    let set: Vec<usize> = (0..100).filter(|nth| events[*nth].take().unwrap()).collect();
    assert_eq!(set, [61]);
}

/// A basic engine's signals are found in the fences of the process whose buffer has completed, and in no other's.
#[test]
fn basic_engines_are_looked_after_process_by_process() {
    // spec: sync §3.7
    // seed: C16
    let (host, heard) = traced("basic-engines", VIRTUAL);
    let ((gpu, _link), (other, _other_link)) = (open(&host), open(&host));
    let (fence, theirs) = (monitored(gpu.device()), monitored(other.device()));
    let (done, never) = (event(&gpu), event(&other));
    gpu.device().wait_async(&[(&fence, 1)], &done, WaitFlags::empty()).unwrap();
    other.device().wait_async(&[(&theirs, 1)], &never, WaitFlags::empty()).unwrap();
    let context = VirtualContext::create(gpu.device(), NODE, Vec::new()).unwrap();
    Buffer::new(&gpu, &signal(&gpu, &fence, 1)).run(&context);
    drain(&host);
    assert!(done.take().unwrap() && !never.take().unwrap());
    let looked = heard.count(|e| matches!(e, Event::MonitoredFencesLookedAt { looked_at: 1, released: 1, .. }));
    assert_eq!(looked, 1);
}

/// A lost interrupt record makes the driver report "any": the kernel then looks at monitored fences, too.
#[test]
fn signals_whose_records_are_lost_release_their_waiters_all_the_same() {
    // spec: sync §3.10
    for profile in ["discrete-4k", "wddm2-packets"] {
        let (host, _) = traced(profile, Mode::Real);
        let (gpu, _link) = open(&host);
        let (noise, fence) = (monitored(gpu.device()), monitored(gpu.device()));
        let context = VirtualContext::create(gpu.device(), NODE, Vec::new()).unwrap();
        let mut commands = Commands::new();
        for value in 1..=150 {
            commands.signal_monitored(noise.current_va(), value);
        }
        commands.signal_monitored(fence.current_va(), 1);
        let buffer = Buffer::new(&gpu, &commands);
        for _ in 0..20 {
            buffer.run(&context);
        }
        gpu.device().wait(&[(&fence, 1)]).unwrap();
        gpu.device().wait(&[(&noise, 150)]).unwrap();
    }
}

/// Thirty-two bits: the engine wraps around, the kernel counts on; the kernel refuses a value that lies too far ahead.
#[test]
fn thirty_two_bits_are_read_as_sixty_four() {
    // spec: sync §1.6, sync §3.19
    // seed: C11, C12
    const REACH: u64 = 0x7FFF_FFFF;
    for mode in [VIRTUAL, Mode::Real] {
        let (host, gpu) = world("atomics-32", mode);
        let device = gpu.device();
        let start = 0xFFFF_FFF0;
        let fence = device.create_monitored_fence(FenceFlags::empty(), start).unwrap();
        let context = VirtualContext::create(device, NODE, Vec::new()).unwrap();
        for value in (start + 1..start + 40).step_by(3) {
            let done = event(&gpu);
            device.wait_async(&[(&fence, value)], &done, WaitFlags::empty()).unwrap();
            Buffer::new(&gpu, &signal(&gpu, &fence, value)).run(&context);
            done.wait().unwrap();
            assert_eq!(fence.current(), value & 0xFFFF_FFFF, "{mode:?}: the word has 32 bits");
        }
        let last = start + 37;
        device.wait(&[(&fence, last)]).unwrap();
        let event = event(&gpu);
        for value in [last + REACH + 1, last.wrapping_sub(REACH + 1), 1 << 60] {
            let refused = [
                device.wait_async(&[(&fence, value)], &event, WaitFlags::empty()),
                device.signal_with(&[(&fence, value)], SignalFlags::ALLOW_FENCE_REWIND),
                context.wait(&fence, value),
                context.signal(&fence, value),
            ];
            for refused in refused {
                let refused = refused.expect_err("it would be read in another epoch");
                assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{value:#x}: {refused}");
            }
        }
        device.signal(&fence, last + REACH).unwrap();
        device.wait(&[(&fence, last + REACH)]).unwrap();
        drain(&host);
    }
}

/// No waiter is registered, and the engine goes further than 32 bits can tell apart: the kernel looks on the way.
#[test]
fn a_fence_without_a_waiter_is_followed_too() {
    // spec: sync §1.6
    // seed: C11
    let (host, gpu) = world("atomics-32", VIRTUAL);
    let device = gpu.device();
    let fence = monitored(device);
    let context = VirtualContext::create(device, NODE, Vec::new()).unwrap();
    for step in 1..=5u64 {
        Buffer::new(&gpu, &signal(&gpu, &fence, step * 0x7000_0000)).run(&context);
        drain(&host);
    }
    let refused = device.signal(&fence, 0x7000_0000).expect_err("it is far behind");
    assert_eq!(refused.status, NtStatus::INVALID_PARAMETER);
    device.signal(&fence, 5 * 0x7000_0000 + 1).unwrap();
}
