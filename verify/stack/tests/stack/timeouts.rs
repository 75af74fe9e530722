//! Work that does not end, and hardware that does not answer: the kernel preempts the context, gives its device up, and no other process
//! notices (sync §4.4). Virtual time makes all of it exact: on this device a millisecond of compute work is a kilobyte.

mod fault;
mod going_down;
mod groups;
pub mod late_calls;
mod paging;
mod policy;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use d3dkmt::{DeviceState, Fence, NativeFenceRequest};
use device_port::DevicePort;
use dxgk_host::{Host, HostConfig, OnTimeout, Pending, Profile, RecoveryPolicy};
use events::Event;
use kmt_calls::{Call, QueueCall, QueueFlags, Reply, SyncCall, WaitFlags};
use kmt_link::Link;
use softgpu_umd::{Commands, Surface, SurfaceKind};
use wddm_types::{NodeId, RawHandle};

use fault::Port;
pub use fault::{Fault, Hold};
use stack::heard::Heard;
use stack::world::{Client, MIB, VIRTUAL, client};

const MS: u64 = 1_000_000;
/// `TdrDelay` here.
const DELAY: u64 = 100 * MS;
const KIB: u64 = 1024;

pub fn host(recovery: RecoveryPolicy) -> (Arc<Host>, Heard, Arc<Fault>) {
    host_with(recovery, |_| {})
}

/// The same, changed before it starts.
pub fn host_with(recovery: RecoveryPolicy, change: impl FnOnce(&mut HostConfig)) -> (Arc<Host>, Heard, Arc<Fault>) {
    let heard = Heard::of(|event| {
        matches!(
            event,
            Event::AdapterReset { .. }
                | Event::AdapterStopped { .. }
                | Event::DeviceInError { .. }
                | Event::EngineReset { .. }
                | Event::DeviceSuspended { .. }
                | Event::EngineGroupAsked { .. }
                | Event::EngineResetCalledOff { .. }
        )
    });
    let mut profile = *Profile::named("discrete-4k").expect("a built-in profile");
    profile.timing.compute_bytes_per_us = 1;
    let fault = Arc::new(Fault::default());
    let between = Arc::clone(&fault);
    let mut config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(heard.clone()),
        recovery,
        wrap_port: Some(Box::new(move |device| Arc::new(Port { device, fault: between }) as Arc<dyn DevicePort>)),
        ..HostConfig::new(&profile, VIRTUAL)
    };
    change(&mut config);
    (Host::start(config).expect("the host starts"), heard, fault)
}

pub fn impatient() -> RecoveryPolicy {
    RecoveryPolicy { delay_ns: Some(DELAY), ..RecoveryPolicy::default() }
}

fn state(of: &Client) -> DeviceState {
    of.gpu.device().state().expect("a state")
}

/// Compute work of so many milliseconds, in one command.
pub fn works(of: &mut Client, on: &Surface, ms: u64) -> u64 {
    let mut commands = Commands::new();
    commands.touch(on.va(), ms * KIB * 1000 / 1024, false);
    of.stream.submit(&of.gpu, &[], &commands).expect("a submission")
}

/// Begins a CPU wait: the kernel watches user-mode submission only while a call is pending.
pub fn awaits(host: &Host, of: &Client, fence: &Fence, value: u64) -> Pending {
    let (device, points) = (of.gpu.device().handle(), vec![(fence.handle(), value)]);
    let (async_event, flags) = (RawHandle::NONE, WaitFlags::empty());
    let wait = SyncCall::WaitForSynchronizationObjectFromCpu { device, points, async_event, flags };
    host.begin_call(of.link.process(), Call::Sync(wait)).expect_err("the value has not come")
}

pub fn drain(host: &Host) {
    while host.step() {}
}

fn resets(heard: &Heard) -> Vec<(u64, Event)> {
    heard.take_timed().into_iter().filter(|(_, event)| !matches!(event, Event::DeviceSuspended { .. })).collect()
}

#[test]
fn the_defaults_are_those_of_the_documents() {
    // spec: sync §4.4
    let policy = RecoveryPolicy::default();
    assert_eq!((policy.delay_ns, policy.ddi_delay_ns), (Some(2_000 * MS), 5_000 * MS));
    assert_eq!((policy.limit_count, policy.limit_time_ns), (5, 60_000 * MS));
    assert_eq!(policy.on_timeout, OnTimeout::Recover);
}

#[test]
fn only_who_is_hung_loses_its_work() {
    // spec: sync §4.4, sync §3.16
    let (host, heard, fault) = host(impatient());
    let mut hung = client(&host);
    fault.hold(Hold::Runs);
    let mut other = client(&host);
    let [large, small] = [&hung, &other].map(|of| of.pinned(SurfaceKind::Local, MIB));
    let fence = hung.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    drain(&host);
    heard.take();
    let begins = host.now_ns();
    let never = works(&mut hung, &large, 1_000);
    let behind = works(&mut other, &small, 30);
    let asleep = awaits(&host, &hung, hung.stream.progress(), never);
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect_err("the device is lost");
    assert_eq!((state(&hung), state(&other)), (DeviceState::Hung, DeviceState::Active));
    assert_eq!(fence.current(), u64::MAX, "fences that it might have signalled are reached for ever");
    assert!(other.stream.progress().current() >= behind, "the other's work has ended");
    let resets = resets(&heard);
    let [(at, Event::EngineReset { .. }), (_, Event::DeviceInError { state: 3, .. })] = resets.as_slice() else {
        panic!("{resets:?}");
    };
    // A delay without progress, and another after the preemption; the submission comes before.
    let took = at - begins;
    assert!((2 * DELAY..2 * DELAY + DELAY / 4).contains(&took), "{took}");
    assert!(host.now_ns() < begins + 1_000 * MS, "the kernel does not wait for the end of it");
    drop((large, hung));
    let mut new = client(&host);
    let surface = new.pinned(SurfaceKind::Local, MIB);
    let done = works(&mut new, &surface, 10);
    drain(&host);
    assert!(new.stream.progress().current() >= done, "the engine works");
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

/// Resets of engines do not count as resets of the adapter.
#[test]
fn engines_are_reset_as_often_as_it_takes() {
    // spec: sync §4.4
    let (host, heard, fault) = host(RecoveryPolicy { limit_count: 0, ..impatient() });
    for _ in 0..7 {
        let mut hung = client(&host);
        fault.hold(Hold::Runs);
        let surface = hung.pinned(SurfaceKind::Local, MIB);
        let never = works(&mut hung, &surface, 1_000);
        let asleep = awaits(&host, &hung, hung.stream.progress(), never);
        drain(&host);
        host.take_answer(asleep).expect("it is over").expect_err("the device is lost");
        assert_eq!(state(&hung), DeviceState::Hung);
    }
    assert_eq!(heard.count(|event| matches!(event, Event::EngineReset { .. })), 7);
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

#[test]
fn who_makes_room_late_goes_on() {
    // spec: sync §4.4
    let (host, heard, fault) = host(impatient());
    let mut late = client(&host);
    // It looks when the interrupt line goes up, and eight times in a delay.
    fault.hold(Hold::Late(12));
    let surface = late.pinned(SurfaceKind::Local, MIB);
    drain(&host);
    heard.take();
    let done = works(&mut late, &surface, 170);
    let asleep = awaits(&host, &late, late.stream.progress(), done);
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect("and well");
    assert!(matches!(heard.take().as_slice(), [Event::DeviceSuspended { .. }]), "it was asked");
    assert_eq!(state(&late), DeviceState::Active);
    assert!(late.stream.progress().current() >= done);
    host.check_invariants().unwrap();
}

/// However late the answer comes, also between the last look for it and the reset: it is in time or too late, and the kernel resets no
/// other device for it.
#[test]
fn an_answer_at_any_moment_is_in_time_or_too_late() {
    // spec: sync §4.4
    let mut states = Vec::new();
    for looks in 1..60 {
        let (host, heard, fault) = host(RecoveryPolicy { limit_count: 0, ..impatient() });
        let mut late = client(&host);
        let surface = late.pinned(SurfaceKind::Local, MIB);
        drain(&host);
        fault.hold(Hold::Late(looks));
        let done = works(&mut late, &surface, 1_000);
        let asleep = awaits(&host, &late, late.stream.progress(), done);
        drain(&host);
        let answer = host.take_answer(asleep).expect("it is over");
        assert_eq!(answer.is_ok(), state(&late) == DeviceState::Active, "{looks}");
        states.push(state(&late));
        let reset = resets(&heard).iter().any(|(_, event)| matches!(event, Event::AdapterReset { .. }));
        assert!(!reset && host.stopped().is_none(), "{looks}");
        host.check_invariants().unwrap();
    }
    let both = states.contains(&DeviceState::Active) && states.contains(&DeviceState::Hung);
    assert!(both && states.is_sorted_by_key(|state| *state == DeviceState::Hung), "{states:?}");
}

#[test]
fn who_waits_is_never_hung_and_time_comes_to_an_end() {
    // spec: sync §3.8, sync §4.4, sync §6 D5
    let (host, heard, _) = host(impatient());
    let mut waits = client(&host);
    let fence = waits.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    drain(&host);
    let mut commands = Commands::new();
    commands.wait(&fence, 1);
    let done = waits.stream.submit(&waits.gpu, &[], &commands).expect("a submission");
    let asleep = awaits(&host, &waits, waits.stream.progress(), done);
    let before = host.now_ns();
    drain(&host);
    assert!(host.now_ns() > before + DELAY, "the watchdog looked");
    for _ in 0..5 {
        assert_eq!(state(&waits), DeviceState::Active);
        drain(&host);
    }
    waits.gpu.device().signal(&fence, 1).expect("a signal");
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect("and well");
    assert_eq!(resets(&heard), []);
    host.check_invariants().unwrap();
}

#[test]
fn a_queue_without_timeout_takes_its_time_and_so_does_an_adapter_without_detection() {
    // spec: sync §2.5, sync §4.4
    let (host, heard, _) = host(impatient());
    let client = client(&host);
    let surface = client.pinned(SurfaceKind::Local, MIB);
    let device = client.gpu.device().handle();
    let call = |call| client.link.call(call);
    let made = call(Call::Queue(QueueCall::CreateHwContext { device, node: NodeId(0), private_data: Vec::new() }));
    let Ok(Reply::Handle(context)) = made else { panic!("no context: {made:?}") };
    let flags = QueueFlags::DISABLE_GPU_TIMEOUT;
    let made = call(Call::Queue(QueueCall::CreateHwQueue { context, flags, private_data: Vec::new() }));
    let Ok(Reply::HwQueue(queue)) = made else { panic!("no queue: {made:?}") };
    let buffer = client.pinned(SurfaceKind::System, 4096);
    let mut commands = Commands::new();
    commands.touch(surface.va(), MIB, false);
    buffer.lock().expect("a lock").write_words(0, commands.words());
    // CAST: a few words.
    let buffer_bytes = commands.words().len() as u32 * 8;
    let (queue, buffer, written_primaries) = (queue.queue, buffer.va(), Vec::new());
    let submit = QueueCall::SubmitCommandToHwQueue {
        queue,
        progress_value: 1,
        buffer,
        buffer_bytes,
        written_primaries,
        private_data: Vec::new(),
    };
    drain(&host);
    heard.take();
    let begins = host.now_ns();
    call(Call::Queue(submit)).expect("a submission");
    drain(&host);
    assert!(host.now_ns() > begins + 1_000 * MS);
    assert_eq!(heard.take(), [], "the kernel did not preempt it");
    let (host, heard, _) = self::host(RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() });
    let mut long = self::client(&host);
    let surface = long.pinned(SurfaceKind::Local, MIB);
    heard.take();
    let done = works(&mut long, &surface, 1_000);
    drain(&host);
    assert!(long.stream.progress().current() >= done && heard.take().is_empty());
}

#[test]
fn an_engine_that_never_answers_takes_the_adapter_with_it() {
    // spec: sync §4.4
    let (host, heard, fault) = host(impatient());
    let other = client(&host);
    let mut hung = client(&host);
    let surface = hung.pinned(SurfaceKind::Local, MIB);
    drain(&host);
    heard.take();
    fault.hold(Hold::Sticks);
    let never = works(&mut hung, &surface, 1_000);
    let asleep = awaits(&host, &hung, hung.stream.progress(), never);
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect_err("the device is lost");
    let resets: Vec<Event> = resets(&heard).into_iter().map(|(_, event)| event).collect();
    assert!(matches!(resets.as_slice(), [Event::AdapterReset { .. }, ..]), "{resets:?}");
    assert_eq!((state(&hung), state(&other)), (DeviceState::Reset, DeviceState::Reset));
    drop((surface, hung, other));
    let mut new = client(&host);
    let surface = new.pinned(SurfaceKind::Local, MIB);
    let done = works(&mut new, &surface, 10);
    drain(&host);
    assert!(new.stream.progress().current() >= done);
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

/// An interrupt that gets lost is made up for by the next look.
#[test]
fn who_waits_for_an_interrupt_that_was_lost_goes_on() {
    // spec: sync §4.4, sync §3.9
    let (host, heard, fault) = host(impatient());
    let mut client = client(&host);
    let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    drain(&host);
    let asleep = awaits(&host, &client, &fence, 1);
    let mut commands = Commands::new();
    commands.signal(&fence, 1);
    fault.swallows.store(1, Ordering::SeqCst);
    client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
    drain(&host);
    assert_eq!(fault.swallows.load(Ordering::SeqCst), 0, "it was lost");
    host.take_answer(asleep).expect("it is over").expect("and well");
    assert_eq!(resets(&heard), []);
}
