//! Packets that do not end, and who makes room late (sync §4.4): the node is asked for what it has, and who does not give it back in
//! time costs the adapter a reset. Virtual time makes it exact; a millisecond of compute work is a thousand bytes here.

use std::sync::Arc;

use d3dkmt::DeviceState;
use ddi::{Interrupt, Notify};
use dxgk_host::{Host, HostConfig, ProcessLink, Profile};
use events::{Event, PreemptedFor};
use kmt_calls::{Call, ContextFlags, PacketCall, PriorityCall, Reply};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, Surface, SurfaceKind};
use wddm_types::{NodeId, RawHandle};

use crate::heard::Heard;
use crate::stubborn::{Whims, wrapped};
use crate::timeouts::{drain, impatient};
use crate::world::{MIB, VIRTUAL};

const MS: u64 = 1_000_000;
/// As of [`impatient`].
const DELAY: u64 = 100 * MS;
/// A delay has so many looks; the first sees what there is.
const LOOK: u64 = DELAY / 8;

fn kept(event: &Event) -> bool {
    matches!(
        event,
        Event::AdapterReset { .. }
            | Event::AdapterStopped { .. }
            | Event::DeviceInError { .. }
            | Event::DeviceSuspended { .. }
            | Event::DeviceResumed { .. }
            | Event::PacketStarted { .. }
            | Event::PacketCompleted { .. }
            | Event::PreemptionRequested { .. }
    )
}

/// An adapter of WDDM 2.0, whose driver may say nothing of what came back.
fn host(swallows: bool) -> (Arc<Host>, Heard) {
    let heard = Heard::of(kept);
    let mut profile = *Profile::named("wddm2-packets").expect("a built-in profile");
    profile.timing.compute_bytes_per_us = 1;
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| {
        if !(swallows && matches!(interrupt, Interrupt::DmaPreempted { .. })) {
            notify.interrupt(interrupt);
        }
    };
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(heard.clone()),
        recovery: impatient(),
        wrap_miniport: Some(wrapped(Whims { say: Box::new(say), packets: true, ..Whims::default() })),
        ..HostConfig::new(&profile, VIRTUAL)
    };
    (Host::start(config).expect("the host starts"), heard)
}

/// A process with a context on the compute node.
struct Client {
    gpu: Gpu,
    link: Arc<ProcessLink>,
    context: RawHandle,
    buffer: Surface,
    target: Surface,
}

impl Client {
    fn new(host: &Arc<Host>, flags: ContextFlags) -> Client {
        let link = ProcessLink::new(Arc::clone(host));
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
        let (device, node, engine_affinity) = (gpu.device().handle(), NodeId(0), 1);
        let create =
            PacketCall::CreateContextVirtual { device, node, engine_affinity, flags, private_data: Vec::new() };
        let made = link.call(Call::Packet(create));
        let Ok(Reply::Handle(context)) = made else { panic!("no context: {made:?}") };
        let [buffer, target] = [(SurfaceKind::System, 4096), (SurfaceKind::Local, MIB)].map(|(kind, bytes)| {
            let surface = gpu.create_surface(kind, bytes).expect("a surface");
            gpu.pin(&surface).expect("room for it");
            surface
        });
        Client { gpu, link, context, buffer, target }
    }

    /// So many commands of so many milliseconds each, in one packet.
    fn works(&self, commands: u64, ms: u64) {
        let mut all = Commands::new();
        for _ in 0..commands {
            all.touch(self.target.va(), ms * 1000, false);
        }
        self.buffer.lock().expect("a lock").write_words(0, all.words());
        // CAST: a few words.
        let command_bytes = all.words().len() as u32 * 8;
        let (context, commands, written_primaries) = (self.context, self.buffer.va(), Vec::new());
        let submit = PacketCall::SubmitCommand { context, commands, command_bytes, written_primaries };
        self.link.call(Call::Packet(submit)).expect("it is queued");
    }

    fn state(&self) -> DeviceState {
        self.gpu.device().state().expect("a state")
    }
}

/// When the first packet of what was heard started, and everything else since then.
fn since_start(heard: &Heard) -> Vec<(u64, Event)> {
    let all = heard.take_timed();
    let first = all.iter().position(|(_, event)| matches!(event, Event::PacketStarted { .. })).expect("it started");
    let began = all[first].0;
    all[first + 1..].iter().map(|(at, event)| (at - began, event.clone())).collect()
}

#[test]
fn a_packet_that_is_not_given_back_costs_the_adapter_a_reset() {
    // spec: sync §4.3, sync §4.4
    let (host, heard) = host(true);
    let (hung, other) = (Client::new(&host, ContextFlags::empty()), Client::new(&host, ContextFlags::empty()));
    drain(&host);
    heard.take();
    hung.works(1, 500);
    drain(&host);
    let events = since_start(&heard);
    let [
        (suspended, Event::DeviceSuspended { .. }),
        (asked, Event::PreemptionRequested { node: 0, why: PreemptedFor::Standstill, .. }),
        (reset, Event::AdapterReset { reason, .. }),
        lost @ ..,
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert_eq!([*suspended, *asked, *reset], [DELAY + LOOK, DELAY + LOOK, 2 * DELAY + LOOK]);
    assert!(reason.contains("did not make room"), "{reason}");
    assert!(lost.iter().all(|(_, event)| matches!(event, Event::DeviceInError { state: 2, .. })), "{lost:?}");
    assert_eq!((hung.state(), other.state()), (DeviceState::Reset, DeviceState::Reset));
    drop((hung, other));
    // Whoever comes now finds a node that works.
    let new = Client::new(&host, ContextFlags::empty());
    heard.take();
    new.works(1, 10);
    drain(&host);
    assert_eq!(heard.count(|event| matches!(event, Event::PacketCompleted { .. })), 1);
    assert_eq!((host.stopped(), new.state()), (None, DeviceState::Active));
    host.check_invariants().unwrap();
}

#[test]
fn a_long_packet_that_makes_room_goes_on() {
    // spec: sync §4.3, sync §4.4
    let (host, heard) = host(false);
    let long = Client::new(&host, ContextFlags::empty());
    drain(&host);
    heard.take();
    long.works(20, 20);
    drain(&host);
    let events = since_start(&heard);
    let [
        (suspended, Event::DeviceSuspended { .. }),
        (asked, Event::PreemptionRequested { .. }),
        (_, Event::DeviceResumed { .. }),
        (_, Event::PacketStarted { .. }),
        (done, Event::PacketCompleted { .. }),
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert_eq!([*suspended, *asked], [DELAY + LOOK; 2]);
    assert!(*done > 3 * DELAY, "{done}: its work is 400 ms");
    assert_eq!((host.stopped(), long.state()), (None, DeviceState::Active));
    host.check_invariants().unwrap();
}

/// Each call lets a packet be asked anew, and none is asked before it has had the node for the delay again.
#[test]
fn a_process_that_calls_all_the_time_disturbs_nobody_more_often() {
    // spec: sync §4.4
    let (host, heard) = host(false);
    let long = Client::new(&host, ContextFlags::empty());
    drain(&host);
    heard.take();
    long.works(20, 20);
    let calls = PriorityCall::SetContextInProcessSchedulingPriority { context: long.context, priority: 0 };
    while host.step() {
        long.link.call(Call::Priority(calls)).expect("nothing changes");
    }
    let events = since_start(&heard);
    let asked = events.iter().filter(|(_, event)| matches!(event, Event::PreemptionRequested { .. }));
    let asked: Vec<u64> = asked.map(|(at, _)| *at).collect();
    assert!(asked.len() > 1 && asked.windows(2).all(|pair| pair[1] - pair[0] >= DELAY), "{asked:?}");
    assert!(matches!(events.last(), Some((_, Event::PacketCompleted { .. }))), "{events:?}");
}

#[test]
fn packets_of_a_context_without_timeout_take_their_time() {
    // spec: sync §4.4
    let (host, heard) = host(true);
    let client = Client::new(&host, ContextFlags::DISABLE_GPU_TIMEOUT);
    drain(&host);
    heard.take();
    client.works(1, 500);
    drain(&host);
    let events = since_start(&heard);
    assert!(matches!(events.as_slice(), [(at, Event::PacketCompleted { .. })] if *at > 4 * DELAY), "{events:?}");
    assert_eq!(client.state(), DeviceState::Active);
    host.check_invariants().unwrap();
}
