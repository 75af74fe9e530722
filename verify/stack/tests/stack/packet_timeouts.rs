//! Packets that do not end, and packets that are preempted late (sync §4.4): the kernel preempts the node, and resets an engine that does not
//! give its packet back in time. Virtual time makes it exact; a millisecond of compute work is a thousand bytes here.

mod groups;

use std::sync::Arc;

use d3dkmt::DeviceState;
use ddi::{DriverStatus, Interrupt, Notify, PacketScheduling, ResetEngine};
use dxgk_host::{Host, HostConfig, OnTimeout, ProcessLink, Profile, RecoveryPolicy};
use events::{Event, PreemptedFor};
use kmt_calls::{Call, ContextFlags, PacketCall, PriorityCall, Reply};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, Surface, SurfaceKind};
use wddm_types::{EngineId, NodeId, RawHandle};

use crate::stubborn::{Whims, wrapped};
use crate::timeouts::{drain, impatient};
use stack::heard::Heard;
use stack::world::{MIB, VIRTUAL};

const MS: u64 = 1_000_000;
/// As of [`impatient`].
const DELAY: u64 = 100 * MS;
/// The watchdog looks eight times in a delay; the first look only takes stock.
const LOOK: u64 = DELAY / 8;

fn kept(event: &Event) -> bool {
    matches!(
        event,
        Event::AdapterReset { .. }
            | Event::EngineReset { .. }
            | Event::AdapterStopped { .. }
            | Event::DeviceInError { .. }
            | Event::DeviceSuspended { .. }
            | Event::DeviceResumed { .. }
            | Event::PacketStarted { .. }
            | Event::PacketCompleted { .. }
            | Event::PreemptionRequested { .. }
    )
}

/// An adapter of WDDM 2.0.
fn host() -> (Arc<Host>, Heard) {
    host_with(0, Whims::default())
}

/// Its driver says nothing of so many preemptions that were answered, and has whims.
fn host_with(swallows: u32, whims: Whims) -> (Arc<Host>, Heard) {
    host_under(impatient(), swallows, whims)
}

fn host_under(recovery: RecoveryPolicy, swallows: u32, whims: Whims) -> (Arc<Host>, Heard) {
    host_heard(kept, recovery, swallows, whims, |_| ())
}

fn host_heard(
    kept: fn(&Event) -> bool,
    recovery: RecoveryPolicy,
    mut swallows: u32,
    whims: Whims,
    change: impl FnOnce(&mut HostConfig),
) -> (Arc<Host>, Heard) {
    let heard = Heard::of(kept);
    let mut profile = *Profile::named("wddm2-packets").expect("a built-in profile");
    profile.timing.compute_bytes_per_us = 1;
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| {
        if swallows > 0 && matches!(interrupt, Interrupt::DmaPreempted { .. }) {
            swallows -= 1;
        } else {
            notify.interrupt(interrupt);
        }
    };
    let mut config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(heard.clone()),
        recovery,
        wrap_miniport: Some(wrapped(Whims { say: Box::new(say), packets: true, ..whims })),
        ..HostConfig::new(&profile, VIRTUAL)
    };
    change(&mut config);
    (Host::start(config).expect("the host starts"), heard)
}

/// A process with a context on the compute node, or another one.
struct Client {
    gpu: Gpu,
    link: Arc<ProcessLink>,
    context: RawHandle,
    buffer: Surface,
    target: Surface,
}

impl Client {
    fn new(host: &Arc<Host>, flags: ContextFlags) -> Client {
        Client::on(host, NodeId(0), flags)
    }

    fn on(host: &Arc<Host>, node: NodeId, flags: ContextFlags) -> Client {
        let link = ProcessLink::new(Arc::clone(host));
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
        let (device, engine_affinity) = (gpu.device().handle(), 1);
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
        let submit =
            PacketCall::SubmitCommand { context, commands, command_bytes, written_primaries, private_data: Vec::new() };
        self.link.call(Call::Packet(submit)).expect("it is queued");
    }

    fn state(&self) -> DeviceState {
        self.gpu.device().state().expect("a state")
    }
}

/// The events after the first packet's start, with the time since then.
fn since_start(heard: &Heard) -> Vec<(u64, Event)> {
    let all = heard.take_timed();
    let first = all.iter().position(|(_, event)| matches!(event, Event::PacketStarted { .. })).expect("it started");
    let began = all[first].0;
    all[first + 1..].iter().map(|(at, event)| (at - began, event.clone())).collect()
}

/// The context of the hung packet loses all its work; a context that waits for the node goes on.
#[test]
fn only_whose_packet_is_not_given_back_loses_it() {
    // spec: sync §4.3, sync §4.4, sync §3.16
    let (host, heard) = host();
    let (hung, other) = (Client::new(&host, ContextFlags::empty()), Client::new(&host, ContextFlags::empty()));
    drain(&host);
    heard.take();
    hung.works(1, 500);
    hung.works(1, 10);
    other.works(1, 30);
    drain(&host);
    let events = since_start(&heard);
    let [
        (_, Event::PacketStarted { context: behind, .. }),
        asked @ ..,
        (reset, Event::EngineReset { node: 0, device: guilty, .. }),
        (_, Event::DeviceInError { device, state: 3, .. }),
        (_, Event::PacketStarted { context: others, .. }),
        (done, Event::PacketCompleted { context, packet: 1 }),
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert!(asked.iter().any(|(_, event)| matches!(event, Event::PreemptionRequested { .. })), "{events:?}");
    assert_eq!((guilty, others), (device, context));
    assert_ne!(others, behind);
    // The kernel preempts the node for the other context earlier than the watchdog would; the hung packet ignores that for a delay.
    assert!((2 * DELAY..=2 * DELAY + 2 * LOOK).contains(reset), "{events:?}");
    assert!((30 * MS..31 * MS).contains(&(done - reset)), "{events:?}");
    assert_eq!((hung.state(), other.state()), (DeviceState::Hung, DeviceState::Active));
    drop(hung);
    let new = Client::new(&host, ContextFlags::empty());
    new.works(1, 10);
    other.works(1, 10);
    drain(&host);
    assert_eq!(heard.count(|event| matches!(event, Event::PacketCompleted { .. })), 2);
    assert_eq!((host.stopped(), new.state(), other.state()), (None, DeviceState::Active, DeviceState::Active));
    host.check_invariants().unwrap();
}

#[test]
fn at_level_one_a_packet_that_is_not_given_back_is_the_end_of_the_adapter() {
    // spec: sync §4.4
    let (host, heard) = host_under(RecoveryPolicy { on_timeout: OnTimeout::Stop, ..impatient() }, 0, Whims::default());
    let hung = Client::new(&host, ContextFlags::empty());
    drain(&host);
    hung.works(1, 500);
    drain(&host);
    assert!(host.stopped().expect("a bug check").contains("did not end"));
    assert_eq!(hung.state(), DeviceState::Stopped);
    assert_eq!(heard.count(|event| matches!(event, Event::EngineReset { .. } | Event::AdapterReset { .. })), 0);
}

#[test]
fn a_node_that_cannot_be_reset_costs_the_adapter_a_reset() {
    // spec: sync §4.3, sync §4.4
    let reset_engine = Box::new(|_: &mut dyn PacketScheduling, _, _: &mut dyn Notify| {
        Err(DriverStatus::NotSupported("engines by themselves"))
    });
    let (host, heard) = host_with(0, Whims { reset_engine, ..Whims::default() });
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
    assert!(reason.contains("ResetEngine failed"), "{reason}");
    assert!(lost.iter().all(|(_, event)| matches!(event, Event::DeviceInError { state: 2, .. })), "{lost:?}");
    assert_eq!((hung.state(), other.state()), (DeviceState::Reset, DeviceState::Reset));
    drop((hung, other));
    // A new client finds a node that works.
    let new = Client::new(&host, ContextFlags::empty());
    heard.take();
    new.works(1, 10);
    drain(&host);
    assert_eq!(heard.count(|event| matches!(event, Event::PacketCompleted { .. })), 1);
    assert_eq!((host.stopped(), new.state()), (None, DeviceState::Active));
    host.check_invariants().unwrap();
}

/// The answer to the preemption gets lost: the reset finds that the node has nothing any more, and the packet goes on. That is
/// believed once for a packet.
#[test]
fn a_reset_that_aborts_nothing_loses_nothing_but_once() {
    // spec: sync §4.4
    for lost in [1, 2] {
        let (host, heard) = host_with(lost, Whims::default());
        let client = Client::new(&host, ContextFlags::empty());
        drain(&host);
        heard.take();
        client.works(20, 20);
        drain(&host);
        let events = since_start(&heard);
        let count = |wanted: fn(&Event) -> bool| events.iter().filter(|(_, event)| wanted(event)).count();
        assert_eq!(count(|event| matches!(event, Event::EngineReset { device: 0, .. })), lost as usize, "{events:?}");
        let resets = count(|event| matches!(event, Event::AdapterReset { .. }));
        if lost == 1 {
            assert!(matches!(events.last(), Some((at, Event::PacketCompleted { .. })) if *at < 650 * MS), "{events:?}");
            assert_eq!((resets, client.state()), (0, DeviceState::Active));
        } else {
            assert_eq!((resets, client.state()), (1, DeviceState::Reset));
        }
        assert_eq!(host.stopped(), None);
        host.check_invariants().unwrap();
    }
}

/// A packet that was done after all is told while the engine is reset.
#[test]
fn what_a_reset_finds_done_is_done() {
    // spec: sync §4.4
    let reset_engine = Box::new(|driver: &mut dyn PacketScheduling, reset: ResetEngine, notify: &mut dyn Notify| {
        let fence_id = driver.reset_engine(reset, notify)?;
        notify.interrupt(Interrupt::DmaCompleted { node: reset.node, fence_id });
        Ok(fence_id)
    });
    let (host, heard) = host_with(0, Whims { reset_engine, ..Whims::default() });
    let client = Client::new(&host, ContextFlags::empty());
    drain(&host);
    heard.take();
    client.works(1, 500);
    drain(&host);
    assert_eq!(heard.count(|event| matches!(event, Event::PacketCompleted { .. })), 1);
    assert_eq!((host.stopped(), client.state()), (None, DeviceState::Active));
    host.check_invariants().unwrap();
}

#[test]
fn a_reset_that_says_what_cannot_be_stops_the_adapter() {
    // spec: sync §4.4, sync §5
    type Answer = fn(u32, NodeId, &mut dyn Notify) -> u32;
    let cases: [(Answer, &str); 3] = [
        (|aborted, _, _| aborted + 1, "was aborted last"),
        (|aborted, _, _| aborted.wrapping_sub(2), "was aborted last"),
        (
            |aborted, node, notify| {
                notify.interrupt(Interrupt::MonitoredFenceSignaled { node, engine: EngineId(0) });
                aborted
            },
            "no packet done",
        ),
    ];
    for (answer, why) in cases {
        let reset_engine =
            Box::new(move |driver: &mut dyn PacketScheduling, reset: ResetEngine, notify: &mut dyn Notify| {
                driver.reset_engine(reset, notify).map(|aborted| answer(aborted, reset.node, notify))
            });
        let (host, _) = host_with(0, Whims { reset_engine, ..Whims::default() });
        let client = Client::new(&host, ContextFlags::empty());
        drain(&host);
        client.works(1, 500);
        drain(&host);
        let stopped = host.stopped().expect("a broken contract");
        assert!(stopped.contains(why), "{stopped}");
        assert_eq!(client.state(), DeviceState::Stopped);
    }
}

#[test]
fn a_long_packet_that_makes_room_goes_on() {
    // spec: sync §4.3, sync §4.4
    let (host, heard) = host();
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
fn a_process_that_calls_all_the_time_disturbs_others_no_more_often() {
    // spec: sync §4.4
    let (host, heard) = host();
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
    let (host, heard) = host();
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
