//! Engines that ask for less power when they have nothing to do, and that are given work again (sync §3.17); engines of which the
//! hardware itself says that they hang (sync §2.8).

use std::sync::{Arc, Mutex};

use d3dkmt::DeviceState;
use ddi::{EngineState, Interrupt, Notify, PowerState};
use dxgk_host::{Host, HostConfig, Mode, Profile, RecoveryPolicy};
use events::Event;
use kmt_calls::{AdapterCall, Call, Reply};
use kmt_link::Link;
use softgpu_kmd::KmdConfig;
use softgpu_spec::register::ENGINE_GATE;
use softgpu_umd::{Commands, KernelFedStream, Stream, StreamConfig, SurfaceKind};
use wddm_types::{EngineId, NodeId};

use crate::stubborn::{Whims, wrapped};
use crate::timeouts::{self, Hold, awaits, drain, impatient, works};
use stack::heard::Heard;
use stack::world::{Client, MIB, VIRTUAL, client};

const COMPUTE: NodeId = NodeId(0);
const COPY: NodeId = NodeId(1);
/// How long engines of the profile have nothing to do before they say so.
const IDLE_NS: u64 = 50_000;
const MS: u64 = 1_000_000;

fn power_and_hangs(event: &Event) -> bool {
    matches!(
        event,
        Event::EnginePower { .. }
            | Event::EngineReset { .. }
            | Event::DeviceInError { .. }
            | Event::DeviceSuspended { .. }
    )
}

/// A driver that says something beside its own interrupts: once, with the next of them.
fn saying(what: &Saying) -> Whims {
    let said = Arc::clone(what);
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| {
        notify.interrupt(interrupt);
        if let Some(more) = said.lock().unwrap().take() {
            notify.interrupt(more);
        }
    };
    Whims { say: Box::new(say), packets: true, ..Whims::default() }
}

/// A host of a profile, what it tells, and what its driver will say.
fn host_of(profile: Profile, mode: Mode, recovery: RecoveryPolicy) -> (Arc<Host>, Heard, Saying) {
    let (heard, said) = (Heard::of(power_and_hangs), Saying::default());
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        recovery,
        tracer: Box::new(heard.clone()),
        wrap_miniport: Some(wrapped(saying(&said))),
        ..HostConfig::new(&profile, mode)
    };
    (Host::start(config).expect("the host starts"), heard, said)
}

type Saying = Arc<Mutex<Option<Interrupt<'static>>>>;

fn named(name: &str) -> Profile {
    *Profile::named(name).expect("a built-in profile")
}

fn power(heard: &Heard) -> Vec<(u64, NodeId, bool)> {
    let power = |(at, event)| match event {
        Event::EnginePower { node, low, .. } => Some((at, NodeId(node), low)),
        _ => None,
    };
    heard.take_timed().into_iter().filter_map(power).collect()
}

fn now(of: &Client) -> u64 {
    kmt_link::Link::now_ns(of.link.as_ref())
}

#[test]
fn an_engine_without_work_gets_less_power_and_all_of_it_for_the_next_submission() {
    // spec: sync §3.17, sync §2.8
    let (host, heard, _) = host_of(named("power-saving"), VIRTUAL, RecoveryPolicy::default());
    let mut one = client(&host);
    let surface = one.pinned(SurfaceKind::Local, 65536);
    drain(&host);
    heard.take();
    assert_eq!(host.device_register(ENGINE_GATE), 0b11, "both have had nothing to do for long");
    let raised = host.counters().interrupts;
    works(&mut one, &surface, 1);
    let woken = power(&heard);
    assert!(matches!(woken[..], [(_, COMPUTE, false)]), "connected again: {woken:?}");
    assert_eq!(host.device_register(ENGINE_GATE), 0b10);
    let last = one.stream.last_value();
    one.stream.wait(&one.gpu, last).expect("it was rung again, and ran");
    let known = now(&one);
    drain(&host);
    let slept = power(&heard);
    let [(at, COMPUTE, true)] = slept[..] else { panic!("it sleeps again: {slept:?}") };
    assert!(at.abs_diff(known) <= IDLE_NS && at + 2_000 >= known + IDLE_NS, "{at} {known}");
    assert_eq!(host.counters().interrupts - raised, 2, "one for the waiter, one for less power");
    // Nothing happens in an engine that sleeps.
    assert!(!host.step());
    assert_eq!(host.counters().interrupts - raised, 2);
    host.check_invariants().unwrap();
}

#[test]
fn whatever_the_kernel_submits_comes_with_power() {
    // spec: sync §3.17
    let (host, heard, _) = host_of(named("power-saving"), VIRTUAL, RecoveryPolicy::default());
    let one = client(&host);
    let surface = one.pinned(SurfaceKind::System, 4096);
    let mut fed = KernelFedStream::hardware(&one.gpu, COMPUTE, StreamConfig::default()).expect("a queue");
    drain(&host);
    heard.take();
    assert_eq!(host.device_register(ENGINE_GATE), 0b11);
    let mut commands = Commands::new();
    commands.fill(surface.va(), 4096, 7);
    let value = fed.submit(&one.gpu, None, &commands).expect("a submission");
    fed.wait(&one.gpu, value).expect("it runs");
    assert!(matches!(power(&heard)[..], [(_, COMPUTE, false), ..]));
    drain(&host);
    // Paging needs the other engine.
    heard.take();
    let more = one.pinned(SurfaceKind::Local, MIB);
    assert!(power(&heard).iter().any(|(_, node, low)| *node == COPY && !low));
    drop(more);
    drain(&host);
    assert_eq!(host.device_register(ENGINE_GATE), 0b11);
    // Sleep of the whole adapter ends with all engines on.
    host.power_transition(PowerState::Standby).expect("it falls asleep");
    host.power_transition(PowerState::On).expect("it wakes");
    assert_eq!(host.device_register(ENGINE_GATE) & 1, 0);
    let value = fed.submit(&one.gpu, None, &commands).expect("a submission");
    fed.wait(&one.gpu, value).expect("it runs");
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

/// An engine that had nothing to do is raised for the next packet of either node, and its packets count as work.
#[test]
fn packets_come_with_power_and_keep_it() {
    // spec: sync §3.17, memory §7.4
    let (host, heard, _) = host_of(named("power-saving"), VIRTUAL, RecoveryPolicy::default());
    let one = client(&host);
    let surface = one.pinned(SurfaceKind::System, 4096);
    for (node, left_low) in [(COMPUTE, 0b10), (COPY, 0b01)] {
        let mut fed = KernelFedStream::packets(&one.gpu, node, StreamConfig::default()).expect("a context");
        for round in 1..=3 {
            drain(&host);
            heard.take();
            assert_eq!(host.device_register(ENGINE_GATE), 0b11, "{node:?}, round {round}");
            let mut commands = Commands::new();
            commands.fill(surface.va(), 4096, round).work(4 * IDLE_NS);
            let value = fed.submit(&one.gpu, None, &commands).expect("a submission");
            assert_eq!(host.device_register(ENGINE_GATE), left_low, "{node:?} is raised before it has its packet");
            fed.wait(&one.gpu, value).expect("it runs");
            let told: Vec<_> = power(&heard).into_iter().map(|(_, of, low)| (of, low)).collect();
            assert_eq!(told, [(node, false)], "it keeps its power while the packet runs");
            assert_eq!(surface.lock().expect("system memory").read_word(0), u64::from(round) << 32 | u64::from(round));
        }
    }
    host.check_invariants().unwrap();
}

/// A driver asks for less power while its engine has a packet.
#[test]
fn an_engine_with_a_packet_keeps_its_power() {
    // spec: sync §3.17
    let (host, heard, saying) = host_of(named("discrete-4k"), VIRTUAL, RecoveryPolicy::default());
    let (one, other) = (client(&host), client(&host));
    let mut fed = KernelFedStream::packets(&one.gpu, COMPUTE, StreamConfig::default()).expect("a context");
    let mut copies = Stream::create(&other.gpu, COPY, StreamConfig::default()).expect("a stream");
    drain(&host);
    let mut commands = Commands::new();
    commands.work(5 * MS);
    let value = fed.submit(&one.gpu, None, &commands).expect("a submission");
    let state = EngineState::TransitionToF1;
    *saying.lock().unwrap() = Some(Interrupt::EngineStateChange { node: COMPUTE, engine: EngineId(0), state });
    let done = copies.submit(&other.gpu, &[], &Commands::new()).expect("a submission");
    copies.wait(&other.gpu, done).expect("its interrupt brings the other one");
    assert!(saying.lock().unwrap().is_none(), "it was said");
    assert_eq!(power(&heard), [], "a packet is under way");
    fed.wait(&one.gpu, value).expect("it runs to its end");
    host.check_invariants().unwrap();
}

/// A driver asks in the moment in which a process has rung: the doorbell is gone, and the engine keeps its power.
#[test]
fn an_engine_with_work_keeps_its_power() {
    // spec: sync §3.17
    let (host, heard, saying) = host_of(named("discrete-4k"), VIRTUAL, RecoveryPolicy::default());
    let (mut one, mut other) = (client(&host), client(&host));
    let surface = one.pinned(SurfaceKind::Local, 65536);
    let mut copies = Stream::create(&other.gpu, COPY, StreamConfig::default()).expect("a stream");
    drain(&host);
    let value = works(&mut one, &surface, 5);
    let state = EngineState::TransitionToF1;
    *saying.lock().unwrap() = Some(Interrupt::EngineStateChange { node: COMPUTE, engine: EngineId(0), state });
    let done = copies.submit(&other.gpu, &[], &Commands::new()).expect("a submission");
    copies.wait(&other.gpu, done).expect("its interrupt brings the other one");
    assert!(saying.lock().unwrap().is_none(), "it was said");
    assert_eq!(power(&heard), [], "work is under way");
    // The next submission finds its doorbell gone, and connects it.
    let next = works(&mut one, &surface, 1);
    assert_eq!(next, value + 1);
    one.stream.wait(&one.gpu, next).expect("both ran");
    other.run(|commands| {
        commands.touch(surface.va(), 0, false);
    });
    assert_eq!(power(&heard), []);
    host.check_invariants().unwrap();
}

/// `D3DKMTSetStablePowerState`: what was low comes up, nothing goes down, and the engines that asked meanwhile go down behind the last holder.
#[test]
fn engines_keep_their_power_while_a_process_holds_it() {
    // spec: sync §3.17
    let (host, heard, _) = host_of(named("power-saving"), VIRTUAL, RecoveryPolicy::default());
    let (mut one, other) = (client(&host), client(&host));
    let surface = one.pinned(SurfaceKind::Local, 65536);
    let gate = || {
        drain(&host);
        host.device_register(ENGINE_GATE)
    };
    let stable = |of: &Client, adapter, enabled| {
        let call = AdapterCall::SetStablePowerState { adapter, enabled };
        assert_eq!(of.link.call(Call::Adapter(call)), Ok(Reply::Done));
    };
    let (first, theirs) = (one.gpu.adapter().handle(), other.gpu.adapter().handle());
    assert_eq!(gate(), 0b11, "both have had nothing to do for long");
    heard.take();
    stable(&one, first, true);
    let told: Vec<_> = power(&heard).into_iter().map(|(_, node, low)| (node, low)).collect();
    assert_eq!((told, host.device_register(ENGINE_GATE)), (vec![(COMPUTE, false), (COPY, false)], 0));
    assert_eq!((gate(), power(&heard)), (0, vec![]), "they ask, and keep it");
    let last = works(&mut one, &surface, 1);
    one.stream.wait(&one.gpu, last).expect("it runs");
    stable(&other, theirs, true);
    stable(&one, first, false);
    assert_eq!((gate(), power(&heard)), (0, vec![]), "another process holds it");
    stable(&other, theirs, false);
    assert_eq!(gate(), 0b11);
    // A handle that is closed holds nothing, and a process that has died neither.
    let open = AdapterCall::OpenAdapterFromLuid { luid: host.luid() };
    let Ok(Reply::Handle(second)) = one.link.call(Call::Adapter(open)) else { panic!("it opens") };
    stable(&one, second, true);
    stable(&one, first, false);
    assert_eq!(gate(), 0, "another handle's word");
    one.link.call(Call::Adapter(AdapterCall::CloseAdapter { adapter: second })).expect("it closes");
    assert_eq!(gate(), 0b11);
    stable(&other, theirs, true);
    assert_eq!(gate(), 0);
    host.process_died(other.link.process());
    assert_eq!(gate(), 0b11);
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

/// The hardware's watchdog, or a driver, reports a hang: the kernel preempts the running context at once. A context that leaves goes on.
#[test]
fn work_that_hangs_by_the_hardwares_word_is_asked_at_once() {
    // spec: sync §2.8, sync §4.4
    let hung = Interrupt::EngineStateChange { node: COMPUTE, engine: EngineId(0), state: EngineState::Hung };
    let timeout = Interrupt::GpuEngineTimeout { node: COMPUTE, engine: EngineId(0) };
    for (word, hangs) in [(hung, false), (timeout, false), (hung, true), (timeout, true)] {
        let said = Saying::default();
        let whims = saying(&said);
        let (host, heard, fault) =
            timeouts::host_with(impatient(), |config| config.wrap_miniport = Some(wrapped(whims)));
        let (other, mut one) = (client(&host), client(&host));
        if hangs {
            fault.hold(Hold::Runs);
        }
        let surface = one.pinned(SurfaceKind::Local, MIB);
        let mut copies = Stream::create(&other.gpu, COPY, StreamConfig::default()).expect("a stream");
        drain(&host);
        heard.take();
        let value = works(&mut one, &surface, 1_000);
        let begun = now(&one);
        *said.lock().unwrap() = Some(word);
        let done = copies.submit(&other.gpu, &[], &Commands::new()).expect("a submission");
        copies.wait(&other.gpu, done).expect("its interrupt brings the other one");
        let pending = awaits(&host, &one, one.stream.progress(), value);
        drain(&host);
        let told = heard.take_timed();
        let Some((asked, Event::DeviceSuspended { .. })) = told.first() else { panic!("{told:?}") };
        assert!(asked - begun < MS, "not after the delay: {asked} {begun}");
        let reset = told.iter().find(|(_, event)| matches!(event, Event::EngineReset { .. }));
        assert_eq!(reset.is_some(), hangs, "{word:?}: {told:?}");
        if let Some((at, _)) = reset {
            assert!((99 * MS..=113 * MS).contains(&(at - asked)), "one delay for leaving: {at} {asked}");
        }
        let expected = if hangs { DeviceState::Hung } else { DeviceState::Active };
        assert_eq!(one.gpu.device().state().unwrap(), expected);
        let answer = host.take_answer(pending).expect("the wait ends in any case");
        assert_eq!(answer.is_ok(), !hangs);
        assert_eq!(other.gpu.device().state().unwrap(), DeviceState::Active, "the other did not notice");
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_hang_costs_no_device_where_timeouts_are_off_and_an_engine_that_there_is_not_stops_the_adapter() {
    // spec: sync §4.4, sync §2.8
    let off = RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() };
    let lies = |said: Interrupt<'static>| {
        let (host, heard, saying) = host_of(named("discrete-4k"), VIRTUAL, off);
        let mut one = client(&host);
        heard.take();
        *saying.lock().unwrap() = Some(said);
        let value = one.stream.submit(&one.gpu, &[], &Commands::new()).expect("a submission");
        let _ = one.stream.wait(&one.gpu, value);
        drain(&host);
        (host, heard)
    };
    let (host, heard) = lies(Interrupt::GpuEngineTimeout { node: COMPUTE, engine: EngineId(0) });
    assert_eq!((host.stopped(), heard.take().len()), (None, 0));
    for (said, word) in [
        (Interrupt::GpuEngineTimeout { node: NodeId(9), engine: EngineId(0) }, "node 9 of 2"),
        (
            Interrupt::EngineStateChange { node: NodeId(2), engine: EngineId(0), state: EngineState::TransitionToF1 },
            "node 2 of 2",
        ),
    ] {
        let (host, _) = lies(said);
        let reason = host.stopped().expect("it is stopped");
        assert!(reason.contains(word), "{reason}");
    }
}

/// In real time engines lose their power between any two steps of a submission: all work runs all the same.
#[test]
fn nothing_that_is_rung_is_lost_between_sleep_and_work() {
    // spec: sync §3.17
    let profile = named("power-saving");
    let restless = Profile { driver: KmdConfig { idle_ns: 2_000, ..profile.driver }, ..profile };
    let (host, _, _) = host_of(restless, Mode::Real, RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() });
    std::thread::scope(|scope| {
        for seed in 0..2u64 {
            let host = &host;
            scope.spawn(move || {
                let mut one = client(host);
                for round in 0..150u64 {
                    one.run(|_| {});
                    // From no pause to one that outlasts the engine's patience many times.
                    std::thread::sleep(std::time::Duration::from_micros((round * 7 + seed * 13) % 90));
                }
            });
        }
    });
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}
