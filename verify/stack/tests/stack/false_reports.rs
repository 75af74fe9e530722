//! A driver that makes impossible reports: its adapter stops, and the reason names the report. The kernel hears its reports to the end;
//! no process's work counts as done because of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt::NativeFenceRequest;
use ddi::{DmaFault, EngineState, Interrupt, InterruptFlags, KmdQueue, Notify, OsContext, PageFault};
use dxgk_host::{Host, HostConfig, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, KernelFedStream, StreamConfig};
use wddm_types::{EngineId, NodeId};

use crate::fence_interrupts::begin_wait;
use crate::stubborn::{Whims, host_with, wrapped};
use stack::world::{MIB, VIRTUAL, client};

/// A driver's report about a completed packet.
type Lie = fn(NodeId, u32, &mut dyn Notify);
/// A driver's report without an event.
type Tale = fn(&mut dyn Notify);
/// How many nodes the adapter has: the first ordinal that it does not have.
const NODES: u16 = softgpu_spec::engine::COUNT as u16;

fn done(node: NodeId, fence_id: u32, notify: &mut dyn Notify) {
    notify.interrupt(Interrupt::DmaCompleted { node, fence_id });
}

/// Why the adapter has stopped whose driver lies when its next packet is done.
fn stopped_by_packets(lie: Lie) -> Option<String> {
    let armed: Arc<AtomicBool> = Arc::default();
    let now = Arc::clone(&armed);
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| match interrupt {
        Interrupt::DmaCompleted { node, fence_id } if now.swap(false, Ordering::Relaxed) => lie(node, fence_id, notify),
        other => notify.interrupt(other),
    };
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(wrapped(Whims { say: Box::new(say), packets: true, ..Whims::default() })),
        ..HostConfig::new(Profile::named("wddm2-packets").expect("a built-in profile"), VIRTUAL)
    };
    let host = Host::start(config).expect("the host starts");
    let link = ProcessLink::new(Arc::clone(&host));
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    let mut stream = KernelFedStream::packets(&gpu, NodeId(0), StreamConfig::default()).expect("a context");
    for last in [false, false, true] {
        while host.step() {}
        armed.store(last, Ordering::Relaxed);
        stream.submit(&gpu, None, &Commands::new()).expect("a submission");
    }
    while host.step() {}
    assert!(!armed.load(Ordering::Relaxed), "a packet was done");
    host.stopped()
}

#[test]
fn a_packet_that_the_node_does_not_have_is_an_invalid_fence_id() {
    // spec: sync §4.4, sync §2.8
    let cases: [(&str, Lie); 6] = [
        ("reported done: it was reported done before", |node, id, notify| {
            done(node, id, notify);
            done(node, id, notify);
        }),
        ("was done before", |node, id, notify| {
            done(node, id, notify);
            done(node, id - 1, notify);
        }),
        ("reported done: node 0 has it", |node, id, notify| done(NodeId(node.0 + 1), id, notify)),
        ("reported done: it was never handed over", |node, id, notify| done(node, id + 100, notify)),
        ("reported to have faulted: it was never handed over", |node, id, notify| {
            let (virtual_address, write, invalid_instruction) = (0x1000, false, false);
            let fault = DmaFault { node, fence_id: id + 100, virtual_address, write, invalid_instruction };
            notify.interrupt(Interrupt::DmaPageFaulted(fault));
        }),
        ("there is no such node", |_, id, notify| done(NodeId(99), id, notify)),
    ];
    for (why, lie) in cases {
        let stopped = stopped_by_packets(lie).unwrap_or_else(|| panic!("{why}: it goes on"));
        assert!(stopped.contains(why), "{why}: {stopped}");
        let named = why == "there is no such node" || stopped.starts_with("bug check 0x119, parameter 0x1:");
        assert!(named, "{stopped}");
    }
    assert_eq!(stopped_by_packets(done), None, "the truth");
}

#[test]
fn reports_of_what_there_is_not_end_the_adapter() {
    // spec: sync §2.8, sync §3.10, sync §4.1, memory §5.8
    // seed: N124 (two)
    let cases: [(&str, Tale); 12] = [
        ("a fault of queue 0x10000000000 at 0x5000", |notify| {
            let (queue, node, virtual_address) = (KmdQueue(1 << 40), NodeId(0), 0x5000);
            let fault = PageFault { queue, node, virtual_address, write: false, level: 0, invalid_instruction: false };
            notify.interrupt(Interrupt::HwQueuePageFaulted(fault));
        }),
        ("interrupt 19 is about node 99", |notify| {
            let (node, engine, flags) = (NodeId(99), EngineId(0), InterruptFlags::empty());
            notify.interrupt(Interrupt::NativeFenceSignaled { node, engine, fences: None, queues: &[], flags });
        }),
        ("interrupt 11 is about node 99", |notify| {
            notify.interrupt(Interrupt::MonitoredFenceSignaled { node: NodeId(99), engine: EngineId(0) });
        }),
        ("interrupt 19 is about node 2 of 2", |notify| {
            let (node, engine, flags) = (NodeId(NODES), EngineId(0), InterruptFlags::empty());
            notify.interrupt(Interrupt::NativeFenceSignaled { node, engine, fences: None, queues: &[], flags });
        }),
        ("interrupt 11 is about node 2 of 2", |notify| {
            notify.interrupt(Interrupt::MonitoredFenceSignaled { node: NodeId(NODES), engine: EngineId(0) });
        }),
        ("interrupt 19 is about engine 3 of node 1", |notify| {
            let (node, engine, flags) = (NodeId(1), EngineId(3), InterruptFlags::empty());
            notify.interrupt(Interrupt::NativeFenceSignaled { node, engine, fences: None, queues: &[], flags });
        }),
        ("interrupt 11 is about engine 1 of node 0", |notify| {
            notify.interrupt(Interrupt::MonitoredFenceSignaled { node: NodeId(0), engine: EngineId(1) });
        }),
        ("interrupt 15 is about engine 1 of node 0", |notify| {
            notify.interrupt(Interrupt::SchedulingLogInterrupt { node: NodeId(0), engine: EngineId(1) });
        }),
        ("interrupt 16 is about engine 1 of node 0", |notify| {
            notify.interrupt(Interrupt::GpuEngineTimeout { node: NodeId(0), engine: EngineId(1) });
        }),
        ("interrupt 20 is about engine 1 of node 0", |notify| {
            let (node, engine, state) = (NodeId(0), EngineId(1), EngineState::TransitionToF1);
            notify.interrupt(Interrupt::EngineStateChange { node, engine, state });
        }),
        ("a suspension of context 1099511627776", |notify| {
            let context = OsContext(1 << 40);
            notify.interrupt(Interrupt::SuspendContextCompleted { context, suspend_fence: 0 });
        }),
        ("", |_| ()),
    ];
    for (why, lie) in cases {
        let armed: Arc<AtomicBool> = Arc::default();
        let now = Arc::clone(&armed);
        let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| {
            notify.interrupt(interrupt);
            if now.swap(false, Ordering::Relaxed) {
                lie(notify);
            }
        };
        let host = host_with(4 * MIB, Whims { say: Box::new(say), ..Whims::default() });
        let mut client = client(&host);
        let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
        let wait = begin_wait(&host, &client, &fence, 1);
        while host.step() {}
        armed.store(true, Ordering::Relaxed);
        let mut commands = Commands::new();
        commands.signal(&fence, 1);
        client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
        while host.step() {}
        assert!(!armed.load(Ordering::Relaxed), "an interrupt came");
        assert!(
            host.take_answer(wait).is_some_and(|answer| answer.is_ok() || !why.is_empty()),
            "{why}: the kernel hears the true reports"
        );
        match (why, host.stopped()) {
            ("", None) => {}
            (why, Some(stopped)) if !why.is_empty() => assert!(stopped.contains(why), "{why}: {stopped}"),
            (why, other) => panic!("{why}: {other:?}"),
        }
    }
}
