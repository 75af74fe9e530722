//! Both races of native fences through client, kernel, driver and device, whose engines and CMP have store buffers here that only their own
//! barriers empty ([`Probe::buffers_stores`]): without one of these barriers a waiter below sleeps for ever, each time. The device's own tests
//! show the purpose of each barrier.

use std::sync::Arc;

use d3dkmt::NativeFenceRequest;
use device_port::{Observation, Probe};
use dxgk_host::{Host, HostConfig, Pending, Profile};
use kmt_calls::{Call, SyncCall, WaitFlags};
use softgpu_spec::register::counter;
use softgpu_umd::{Commands, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::{GpuVa, NodeId, RawHandle};

use crate::fence_interrupts::begin_wait;
use stack::world::{Client, MIB, VIRTUAL, client};

struct Buffers;

impl Probe for Buffers {
    fn observe(&self, _at_ns: u64, _what: Observation) {}

    fn buffers_stores(&self) -> bool {
        true
    }
}

fn host(profile: &str) -> Arc<Host> {
    let profile = Profile::named(profile).expect("a built-in profile");
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        probe: Some(Arc::new(Buffers)),
        ..HostConfig::new(profile, VIRTUAL)
    };
    Host::start(config).expect("the host starts")
}

/// A wait of the CPU, for a value that has come or not.
fn waits(host: &Arc<Host>, of: &Client, fence: &d3dkmt::Fence, value: u64) -> Result<(), Pending> {
    let (device, points) = (of.gpu.device().handle(), vec![(fence.handle(), value)]);
    let (async_event, flags) = (RawHandle::NONE, WaitFlags::empty());
    let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu { device, points, async_event, flags });
    host.begin_call(of.link.process(), call).map(|answer| drop(answer.expect("a wait")))
}

fn fence_of(client: &Client) -> d3dkmt::Fence {
    client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence")
}

/// A signal, and something behind it that takes its engine much longer than the test looks: an engine that falls asleep puts a barrier.
fn signal(stream: &mut Stream, client: &Client, [source, target]: [GpuVa; 2], fence: &d3dkmt::Fence, value: u64) {
    let mut commands = Commands::new();
    commands.signal(fence, value).copy(source, target, LONG_BYTES);
    stream.submit(&client.gpu, &[], &commands).expect("a submission");
}

/// Steps that the device takes by itself, far fewer than a buffered store needs to arrive without a barrier.
fn settle(host: &Host, ns: u64) {
    let until = host.now_ns() + ns;
    while host.step_until(until) && host.now_ns() < until {}
}

/// The bytes of a test's copy over the bus, and bounds of the test's time with and without it.
const LONG_BYTES: u64 = 4 * MIB;
const SHORT_NS: u64 = 20_000;
const LONG_NS: u64 = 400_000;
/// The same behind several hundred signals.
const OVERRUN_NS: u64 = 150_000;

fn surfaces(client: &Client) -> ([Surface; 2], [GpuVa; 2]) {
    let of = |kind| client.pinned(kind, LONG_BYTES);
    let both = [of(SurfaceKind::System), of(SurfaceKind::System)];
    let addresses = [both[0].va(), both[1].va()];
    (both, addresses)
}

/// MonitoredValue in system memory, in local memory, and logs that name the signalled fences.
const PROFILES: [&str; 3] = ["discrete-4k", "local-monitored", "optimized-fences"];

/// The engine looks at MonitoredValue before there is a waiter; a waiter that comes then finds the value, or is interrupted.
#[test]
fn a_value_without_a_waiter_is_there_for_a_later_wait() {
    // spec: sync §3.9, sync §3.19 item 1
    // seed: N27, N33
    for profile in PROFILES {
        let host = host(profile);
        let client = client(&host);
        let mut other = Stream::create(&client.gpu, NodeId(1), StreamConfig::default()).expect("a stream");
        let (_kept, long) = surfaces(&client);
        let fence = fence_of(&client);
        settle(&host, LONG_NS);
        for value in 1..=20 {
            signal(&mut other, &client, long, &fence, value);
            settle(&host, SHORT_NS);
            if let Err(asleep) = waits(&host, &client, &fence, value) {
                settle(&host, SHORT_NS);
                host.take_answer(asleep)
                    .unwrap_or_else(|| panic!("{profile}: the waiter for {value} sleeps"))
                    .expect("well");
            }
            assert_eq!(fence.current(), value, "{profile}: a reader behind the update sees it");
            settle(&host, LONG_NS);
        }
        assert_eq!(host.stopped(), None);
    }
}

/// The CMP looks at CurrentValue before the value comes; the engine that brings it finds the waiter.
#[test]
fn who_waits_already_is_found_by_whichever_engine_signals() {
    // spec: sync §3.9, sync §3.19 item 1
    // seed: N28, N30
    for profile in PROFILES {
        let host = host(profile);
        let client = client(&host);
        let mut streams =
            [0, 1].map(|node| Stream::create(&client.gpu, NodeId(node), StreamConfig::default()).expect("a stream"));
        let (_kept, long) = surfaces(&client);
        let fence = fence_of(&client);
        settle(&host, LONG_NS);
        for value in 1..=20 {
            let asleep = begin_wait(&host, &client, &fence, value);
            settle(&host, SHORT_NS);
            let raised = host.device_register(counter::INTERRUPTS_RAISED);
            signal(&mut streams[value as usize % 2], &client, long, &fence, value);
            settle(&host, SHORT_NS);
            host.take_answer(asleep)
                .unwrap_or_else(|| panic!("{profile}: the waiter for {value} sleeps"))
                .expect("well");
            assert_eq!(host.device_register(counter::INTERRUPTS_RAISED), raised + 1, "{profile}");
            settle(&host, LONG_NS);
        }
        assert_eq!(host.stopped(), None);
    }
}

/// The log has run over, with fences of local memory in it, whose values no CPU reads and no CPU waits for: the kernel reads the values of
/// all others, and finds those that the engine has stored before it interrupted, through every buffer on the way.
#[test]
fn behind_an_overrun_the_values_that_are_read_are_the_engines() {
    // spec: sync §3.14, sync §3.15
    // seed: N130
    let profile = Profile::named("optimized-fences").expect("a built-in profile");
    let mut config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        probe: Some(Arc::new(Buffers)),
        ..HostConfig::new(profile, VIRTUAL)
    };
    config.features.native_fence.intra_gpu_fence_type = true;
    let host = Host::start(config).expect("the host starts");
    let mut client = client(&host);
    let request = NativeFenceRequest { fence_type: 1, ..NativeFenceRequest::default() };
    let local = client.gpu.device().create_native_fence(request).expect("an INTRA_GPU fence");
    let fences = [fence_of(&client), fence_of(&client), fence_of(&client)];
    settle(&host, LONG_NS);
    let asleep: Vec<_> =
        fences.iter().zip(1..).map(|(fence, value)| begin_wait(&host, &client, fence, value)).collect();
    settle(&host, SHORT_NS);
    let (_kept, long) = surfaces(&client);
    let mut commands = Commands::new();
    for (fence, value) in fences.iter().zip(1..) {
        commands.signal(fence, value);
        (0..200).for_each(|nth| {
            commands.signal(&local, value * 1_000 + nth);
        });
    }
    commands.copy(long[0], long[1], LONG_BYTES);
    client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
    settle(&host, OVERRUN_NS);
    for (asleep, value) in asleep.into_iter().zip(1..) {
        host.take_answer(asleep).unwrap_or_else(|| panic!("the waiter for {value} sleeps")).expect("well");
    }
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

/// A queue that parks, and the signal of another engine: the CMP finds it.
#[test]
fn a_parked_queue_is_found_by_the_signal_of_another_engine() {
    // spec: sync §3.8
    // seed: N06
    let host = host("discrete-4k");
    let mut client = client(&host);
    let mut other = Stream::create(&client.gpu, NodeId(1), StreamConfig::default()).expect("a stream");
    let (_kept, long) = surfaces(&client);
    let (go, done) = (fence_of(&client), fence_of(&client));
    for value in 1..=20 {
        let mut waits = Commands::new();
        waits.wait(&go, value).signal(&done, value);
        client.stream.submit(&client.gpu, &[], &waits).expect("a submission");
        settle(&host, SHORT_NS);
        signal(&mut other, &client, long, &go, value);
        settle(&host, SHORT_NS);
        assert_eq!(done.current(), value);
        settle(&host, LONG_NS);
    }
    assert_eq!(host.stopped(), None);
}
