//! Preemption on the whole stack: the context of higher rank gets the node, paging gets it before every context, and a preempted packet runs
//! once, in its order, with its memory at the present place.

mod moving;

use std::sync::Arc;

use d3dkmt::{Allocation, Context, DeviceState, EvictFlags, Fence, FenceFlags, MakeResidentFlags};
use ddi::Interrupt;
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use events::Event;
use kmt_link::Link;
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{Gpu, ListedCommands, SurfaceKind};
use wddm_types::{EngineId, NodeId, NtStatus};

use crate::stubborn::{Whims, wrapped};
use stack::heard::{Heard, heard_on};
use stack::world::{MIB, VIRTUAL};

pub const COMPUTE: NodeId = NodeId(0);
const COPY: NodeId = NodeId(1);

/// Events of packets.
fn of_packets(event: &Event) -> bool {
    matches!(
        event,
        Event::PacketStarted { .. }
            | Event::PacketCompleted { .. }
            | Event::PacketPreempted { .. }
            | Event::PagingPacketStarted { .. }
            | Event::PreemptionRequested { .. }
            | Event::Preempted { .. }
            | Event::AdapterStopped { .. }
    )
}

pub fn host(mode: Mode) -> (Arc<Host>, Heard) {
    heard_on("wddm1-banks", mode, 8 * MIB, of_packets)
}

pub struct Client {
    pub gpu: Gpu,
    pub link: Arc<ProcessLink>,
}

pub fn client(host: &Arc<Host>) -> Client {
    let link = ProcessLink::new(Arc::clone(host));
    Client { gpu: Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens"), link }
}

impl Client {
    pub fn context(&self, node: NodeId) -> Context {
        Context::create(self.gpu.device(), node, Vec::new()).expect("a context")
    }

    pub fn memory(&self, kind: SurfaceKind, bytes: u64) -> Arc<Allocation> {
        let allocation = self.unlisted(kind, bytes);
        self.list(&allocation);
        allocation
    }

    fn unlisted(&self, kind: SurfaceKind, bytes: u64) -> Arc<Allocation> {
        let cpu_visible = kind == SurfaceKind::System;
        let request =
            AllocationRequest { kind, cpu_visible, cached: false, accessed_physically: true, size_bytes: bytes };
        self.gpu.device().create_allocation(request.encode().to_vec()).expect("memory")
    }

    fn list(&self, allocation: &Allocation) {
        self.gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).expect("room");
    }

    pub fn fence(&self) -> Fence {
        self.gpu.device().create_monitored_fence(FenceFlags::NO_GPU_ACCESS, 0).expect("a fence")
    }

    /// Waits until everything rendered so far is done.
    pub fn drain(&self, context: &Context) {
        let done = self.fence();
        context.signal(&done, 1).unwrap();
        self.gpu.device().wait(&[(&done, 1)]).expect("it completes");
    }
}

/// A buffer that changes every word so many times: a command that runs twice, or not at all, shows.
pub fn changes(target: &Allocation, bytes: u64, times: u32) -> ListedCommands {
    let mut commands = ListedCommands::new();
    for _ in 0..times {
        commands.touch(target, bytes, true);
    }
    commands
}

/// The events in short: `l1=4` context low's first packet was started as 4, `l1.` it is done, `l1<` it came back,
/// `p3=4` the paging ring's third as 4, `?h` a request for high, `!3` an answer with 3 as last completed.
pub fn short(events: &[(u64, Event)], names: &[(u64, char)]) -> Vec<String> {
    let name = |context: u64| names.iter().find(|(number, _)| *number == context).map_or('p', |(_, name)| *name);
    let mut all = Vec::new();
    for (_, event) in events {
        all.push(match event {
            Event::PacketStarted { context, packet, fence_id, patched, .. } => {
                format!("{}{packet}={fence_id}{}", name(*context), if *patched { "*" } else { "" })
            }
            Event::PacketCompleted { context, packet } => format!("{}{packet}.", name(*context)),
            Event::PacketPreempted { context, packet, .. } => format!("{}{packet}<", name(*context)),
            Event::PagingPacketStarted { progress_value, fence_id, again, .. } => {
                format!("p{progress_value}={fence_id}{}", if *again { "<" } else { "" })
            }
            Event::PreemptionRequested { context, .. } => format!("?{}", name(*context)),
            Event::Preempted { last_completed, .. } => format!("!{last_completed}"),
            other => panic!("{other:?}"),
        });
    }
    all
}

/// The events of one node.
fn of_node(events: Vec<(u64, Event)>, wanted: NodeId, contexts: &[u64]) -> Vec<(u64, Event)> {
    let is_wanted = |event: &Event| match event {
        Event::PacketStarted { node, .. }
        | Event::PacketPreempted { node, .. }
        | Event::PagingPacketStarted { node, .. }
        | Event::PreemptionRequested { node, .. }
        | Event::Preempted { node, .. } => *node == wanted.0,
        Event::PacketCompleted { context, .. } => contexts.contains(context),
        _ => true,
    };
    events.into_iter().filter(|(_, event)| is_wanted(event)).collect()
}

#[test]
fn a_higher_context_of_a_process_goes_first_and_nothing_runs_twice() {
    // spec: sync §4.2, sync §4.3, memory §7.4
    let (host, heard) = host(VIRTUAL);
    let client = client(&host);
    let (low, high) = (client.context(COMPUTE), client.context(COMPUTE));
    high.set_in_process_priority(7).unwrap();
    assert_eq!((low.in_process_priority(), high.in_process_priority()), (Ok(0), Ok(7)));
    let (one, other) = (client.memory(SurfaceKind::System, MIB), client.memory(SurfaceKind::System, MIB));
    client.drain(&low);
    heard.take_timed();
    for _ in 0..3 {
        changes(&one, MIB, 2).render(&low).unwrap();
    }
    changes(&other, 4096, 1).render(&high).unwrap();
    client.drain(&high);
    assert_eq!(one.lock().unwrap().read_word(0), 1, "interrupted between its commands");
    client.drain(&low);
    let events = of_node(heard.take_timed(), COMPUTE, &[1, 2]);
    let expected = [
        "l1=1", "l2=2", "l3=3", "?h", "!0", "l3<", "l2<", "l1<", "h1=4", "h1.", "l1=5", "l2=6", "l3=7", "l1.", "l2.",
        "l3.",
    ];
    assert_eq!(short(&events, &[(1, 'l'), (2, 'h')]), expected);
    // The request waits for the command under way, which began when the packet did: 50 ns of its branch, then
    // 50 + 2000 + 41,944 over the bus. Of the rest only the second packet takes time.
    let at = |which: &str| {
        let index = expected.iter().position(|known| *known == which).unwrap();
        events[index].0
    };
    assert_eq!(at("!0") - at("l1=1"), 50 + 50 + 2_000 + 41_944);
    assert_eq!(at("h1=4"), at("!0"));
    // The rest of the first: a branch, one command, a completion.
    assert_eq!(at("l1.") - at("l1=5"), 50 + 43_994 + 150);
    assert_eq!([&one, &other].map(|memory| memory.lock().unwrap().read_word(8)), [6, 1], "once each");
}

#[test]
fn paging_buffers_come_again_first_with_their_ids() {
    // spec: memory §7.4, sync §4.3
    let (host, heard) = host(VIRTUAL);
    let client = client(&host);
    let (low, high) = (client.context(COPY), client.context(COPY));
    high.set_in_process_priority(1).unwrap();
    let (one, other) = (client.memory(SurfaceKind::System, MIB), client.memory(SurfaceKind::System, MIB));
    let large = client.unlisted(SurfaceKind::Local, 2 * MIB);
    large.lock().unwrap().write_words(MIB, &[77]);
    client.drain(&low);
    // The first buffers make their contexts' DMA buffers, which the aperture has to show.
    for context in [&low, &high] {
        changes(&one, 8, 1).render(context).unwrap();
        client.drain(context);
    }
    heard.take_timed();
    // A page-in that takes long, a packet behind it, and one that ranks higher than that.
    client.list(&large);
    changes(&one, MIB, 1).render(&low).unwrap();
    changes(&other, 8, 1).render(&high).unwrap();
    client.drain(&high);
    client.drain(&low);
    let events = of_node(heard.take_timed(), COPY, &[1, 2]);
    // The page-in keeps 7, which the device has not done when the high context's packet becomes ready; contexts get new ids.
    let expected = ["p5=7", "l2=8", "?h", "!6", "l2<", "p5=7<", "h2=9", "h2.", "l2=10", "l2."];
    assert_eq!(short(&events, &[(1, 'l'), (2, 'h')]), expected);
    assert_eq!([&one, &other].map(|memory| memory.lock().unwrap().read_word(0)), [3, 1], "once each");
}

#[test]
fn paging_takes_the_node_from_the_context_that_has_it() {
    // spec: memory §7.4, sync §4.3
    for mode in [VIRTUAL, Mode::Real] {
        let (host, heard) = host(mode);
        let client = client(&host);
        let context = client.context(COPY);
        context.set_in_process_priority(7).unwrap();
        let one = client.memory(SurfaceKind::System, MIB);
        client.drain(&context);
        heard.take_timed();
        let mut changed = 0;
        let requested = loop {
            let more: Vec<_> = (0..8u64)
                .map(|round| {
                    changes(&one, MIB, 8).render(&context).unwrap();
                    // The client does not wait for it; the kernel pages it in between two commands of the running packet.
                    let local = client.unlisted(SurfaceKind::Local, 65536);
                    local.lock().unwrap().write_words(0, &[round]);
                    client.list(&local);
                    local
                })
                .collect();
            client.drain(&context);
            changed += 64;
            let events = heard.take_timed();
            let of = |which: fn(&Event) -> bool| events.iter().filter(|(_, event)| which(event)).count();
            let asked = of(|event| matches!(event, Event::PreemptionRequested { context: 0, .. }));
            let answered = of(|event| matches!(event, Event::Preempted { .. }));
            assert_eq!(asked, answered, "{mode:?}");
            assert_eq!(one.lock().unwrap().read_word(MIB - 8), changed, "{mode:?}: once each");
            for (round, local) in (0..).zip(&more) {
                client.gpu.device().evict(vec![local.handle()], EvictFlags::empty()).unwrap();
                assert_eq!(local.lock().unwrap().read_word(0), round);
            }
            // With threads the node may be done each time before the page-in comes.
            if asked > 0 || mode == VIRTUAL || changed == 64 * 100 {
                break asked;
            }
        };
        assert!(requested > 0, "{mode:?}");
    }
}

#[test]
fn a_process_that_ranks_higher_goes_first_whatever_others_say_of_themselves() {
    // spec: sync §4.2, sync §4.3
    for (class, first) in [(2, "l1."), (4, "h1.")] {
        let (host, heard) = host(VIRTUAL);
        let (humble, proud) = (client(&host), client(&host));
        let (low, high) = (humble.context(COMPUTE), proud.context(COMPUTE));
        // Among its own only: it says nothing about other processes.
        high.set_in_process_priority(7).unwrap();
        host.set_process_priority(proud.link.process(), class);
        let (one, other) = (humble.memory(SurfaceKind::System, MIB), proud.memory(SurfaceKind::System, 4096));
        humble.drain(&low);
        proud.drain(&high);
        heard.take_timed();
        changes(&one, MIB, 2).render(&low).unwrap();
        changes(&other, 4096, 1).render(&high).unwrap();
        humble.drain(&low);
        proud.drain(&high);
        let events = of_node(heard.take_timed(), COMPUTE, &[1, 2]);
        let done = short(&events, &[(1, 'l'), (2, 'h')]).into_iter().find(|what| what.ends_with('.'));
        assert_eq!(done.as_deref(), Some(first), "class {class}");
        assert_eq!((one.lock().unwrap().read_word(0), other.lock().unwrap().read_word(0)), (2, 1));
    }
}

#[test]
fn priorities_have_bounds() {
    // spec: sync §4.2
    let (host, _) = host(VIRTUAL);
    let client = client(&host);
    let context = client.context(COMPUTE);
    for wrong in [-8, 8, i32::MIN, i32::MAX] {
        let refused = context.set_in_process_priority(wrong).expect_err("beyond the bounds");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{refused}");
    }
    for priority in [-7, 7] {
        context.set_in_process_priority(priority).unwrap();
        assert_eq!(context.in_process_priority(), Ok(priority));
    }
}

/// A driver's false report of a preemption.
#[derive(Clone, Copy, Debug)]
enum Lie {
    Fence,
    Future,
    Past,
    Unasked,
    Engine,
}

#[test]
fn a_driver_that_lies_about_preemptions_stops_its_adapter() {
    // spec: sync §4.3, sync §4.4
    let lies = [
        (Lie::Fence, "preemption 9 of node 0 was reported; 1 was asked for"),
        (Lie::Future, "with packet 77 done last, which the node does not have"),
        (Lie::Past, "with packet 0 done last; packet 1 was done before"),
        (Lie::Unasked, "preemption 1 of node 0 was reported without a pending request"),
        (Lie::Engine, "engine 3 of node 0 was reported; there is no such engine"),
    ];
    for (lie, reason) in lies {
        let heard = Heard::of(of_packets);
        let say = move |interrupt: Interrupt<'_>, notify: &mut dyn ddi::Notify| {
            let mut told = interrupt;
            match (&mut told, lie) {
                (Interrupt::DmaPreempted { preemption_fence_id, .. }, Lie::Fence) => *preemption_fence_id = 9,
                (Interrupt::DmaPreempted { last_completed_fence_id, .. }, Lie::Future) => *last_completed_fence_id = 77,
                (Interrupt::DmaPreempted { last_completed_fence_id, .. }, Lie::Past) => *last_completed_fence_id = 0,
                (Interrupt::DmaPreempted { engine, .. }, Lie::Engine) => engine.0 = 3,
                (Interrupt::DmaCompleted { node, .. }, Lie::Unasked) => {
                    notify.interrupt(Interrupt::DmaPreempted {
                        node: *node,
                        engine: EngineId(0),
                        preemption_fence_id: 1,
                        last_completed_fence_id: 0,
                    });
                }
                _ => {}
            }
            notify.interrupt(told);
        };
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            system_bytes: 64 * MIB,
            tracer: Box::new(heard.clone()),
            wrap_miniport: Some(wrapped(Whims { say: Box::new(say), packets: true, ..Whims::default() })),
            ..HostConfig::new(Profile::named("discrete-4k").unwrap(), VIRTUAL)
        };
        let host = Host::start(config).unwrap();
        let client = client(&host);
        let (low, high) = (client.context(COMPUTE), client.context(COMPUTE));
        high.set_in_process_priority(1).unwrap();
        let one = client.memory(SurfaceKind::System, MIB);
        let done = client.gpu.device().create_native_fence(Default::default()).unwrap();
        changes(&one, 8, 1).render(&low).unwrap();
        low.signal(&done, 1).unwrap();
        let first = client.gpu.device().wait(&[(&done, 1)]);
        if first.is_ok() {
            changes(&one, MIB, 2).render(&low).unwrap();
            changes(&one, 8, 1).render(&high).unwrap();
            high.signal(&done, 2).unwrap();
            let lost = client.gpu.device().wait(&[(&done, 2)]).expect_err("the adapter is stopped");
            assert_eq!(lost.status, NtStatus::DEVICE_REMOVED, "{lie:?}: {lost}");
        }
        let stopped = heard.take_timed().into_iter().find_map(|(_, event)| match event {
            Event::AdapterStopped { reason, .. } => Some(reason),
            _ => None,
        });
        let stopped = stopped.unwrap_or_else(|| panic!("{lie:?} was believed"));
        assert!(stopped.contains(reason), "{lie:?}: {stopped}");
        // spec: memory §8.6, memory §9.3
        assert_eq!(client.gpu.device().state().expect("it may always be asked"), DeviceState::Stopped);
        let budget = client.gpu.adapter().video_memory_info(true).expect_err("the adapter is gone");
        assert_eq!(budget.status, NtStatus::DEVICE_REMOVED, "{budget}");
    }
}
