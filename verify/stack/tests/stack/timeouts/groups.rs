//! Engines that are reset together (sync §4.4, step 6), with queues that their hardware schedules: contexts on all of them leave the
//! hardware first.

use dxgk_host::ProcessLink;
use events::Event;

use super::*;
use stack::world::gpu_on;

/// The device queue that the kernel makes first. It is on the copy engine.
const PAGING: u64 = 0;
/// So long those have that are reset with another.
const ROOM: u64 = 500 * MS;
/// `SuspendReasons::RESET`.
const RESET: u32 = 32;

fn paired() -> (Arc<Host>, Heard, Arc<Fault>) {
    host_with(impatient(), |config| {
        config.profile.reset_group = Profile::named("paired-engines").expect("a built-in profile").reset_group;
    })
}

pub fn until_asked(host: &Host, heard: &Heard) {
    while heard.count(|event| matches!(event, Event::EngineGroupAsked { .. })) == 0 {
        let ms = host.now_ns() + MS;
        while host.step_until(ms) {}
        assert!(ms < 10_000 * MS, "nothing hangs");
    }
}

/// The events from the first preemption of the group on, with the time since then.
fn since_asked(heard: &Heard) -> Vec<(u64, Event)> {
    let all = heard.take_timed();
    let asked = |(_, event): &(u64, Event)| matches!(event, Event::EngineGroupAsked { .. });
    let first = all.iter().position(asked).expect("it was asked");
    let began = all[first].0;
    all[first..].iter().map(|(at, event)| (at - began, event.clone())).collect()
}

#[test]
fn queues_that_leave_the_engines_in_time_go_on_where_they_were() {
    // spec: sync §4.4
    let (host, heard, fault) = paired();
    let mut hung = client(&host);
    fault.hold(Hold::Runs);
    fault.hold_queue(PAGING, Hold::Runs);
    let mut other = client(&host);
    let [large, small] = [&hung, &other].map(|of| of.pinned(SurfaceKind::Local, MIB));
    drain(&host);
    heard.take();
    let never = works(&mut hung, &large, 1_000);
    let behind = works(&mut other, &small, 30);
    let asleep = awaits(&host, &hung, hung.stream.progress(), never);
    until_asked(&host, &heard);
    // The copy engine's only queue takes a while.
    fault.hold_queue(PAGING, Hold::Late(10));
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect_err("the device is lost");
    let events = since_asked(&heard);
    let [
        (0, Event::EngineGroupAsked { node: 0, nodes: 0b11, .. }),
        suspended @ ..,
        (reset, Event::EngineReset { node: 0, device: guilty, .. }),
        (_, Event::DeviceInError { device, state: 3, .. }),
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert_eq!(guilty, device);
    assert!(suspended.iter().all(|(_, event)| matches!(event, Event::DeviceSuspended { .. })), "{events:?}");
    assert!((1..ROOM).contains(reset), "{events:?}");
    assert_eq!((state(&hung), state(&other)), (DeviceState::Hung, DeviceState::Active));
    assert!(other.stream.progress().current() >= behind);
    // The ring goes on, too.
    let surface = other.pinned(SurfaceKind::Local, MIB);
    let done = works(&mut other, &surface, 10);
    drain(&host);
    assert!(other.stream.progress().current() >= done);
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

#[test]
fn a_queue_that_does_not_leave_its_engine_for_half_a_second_is_reset_with_the_other() {
    // spec: sync §4.4
    let (host, heard, fault) = paired();
    let mut hung = client(&host);
    fault.hold(Hold::Runs);
    let surface = hung.pinned(SurfaceKind::Local, MIB);
    drain(&host);
    heard.take();
    fault.hold_queue(PAGING, Hold::Runs);
    let never = works(&mut hung, &surface, 1_000);
    let asleep = awaits(&host, &hung, hung.stream.progress(), never);
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect_err("the device is lost");
    let events = since_asked(&heard);
    let [
        (0, Event::EngineGroupAsked { node: 0, .. }),
        // The driver names every queue that was on one of the engines, and the paging queue is among them.
        (ROOM, Event::EngineReset { node: 0, .. }),
        (ROOM, Event::AdapterReset { reason, .. }),
        (ROOM, Event::DeviceInError { state: 2, .. }),
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert!(reason.contains("under paging work"), "{reason}");
    drop((surface, hung));
    let mut new = client(&host);
    let surface = new.pinned(SurfaceKind::Local, MIB);
    let done = works(&mut new, &surface, 10);
    drain(&host);
    assert!(new.stream.progress().current() >= done && host.stopped().is_none());
    host.check_invariants().unwrap();
}

#[test]
fn a_queue_that_leaves_late_while_others_are_asked_is_not_reset() {
    // spec: sync §4.4
    let (host, heard, fault) = paired();
    let mut late = client(&host);
    fault.hold(Hold::Runs);
    let surface = late.pinned(SurfaceKind::Local, MIB);
    drain(&host);
    heard.take();
    let done = works(&mut late, &surface, 1_000);
    let asleep = awaits(&host, &late, late.stream.progress(), done);
    fault.hold_queue(PAGING, Hold::Runs);
    until_asked(&host, &heard);
    fault.hold(Hold::Late(10));
    fault.hold_queue(PAGING, Hold::Late(20));
    drain(&host);
    let events = since_asked(&heard);
    host.take_answer(asleep).expect("it is over").unwrap_or_else(|_| panic!("{events:?}"));
    let off = events.iter().position(|(_, event)| matches!(event, Event::EngineResetCalledOff { node: 0, .. }));
    assert!(events[off.expect("it left its engine")].0 < ROOM, "{events:?}");
    assert!(!events.iter().any(|(_, event)| matches!(event, Event::EngineReset { .. })), "{events:?}");
    assert_eq!((host.stopped(), state(&late)), (None, DeviceState::Active));
    host.check_invariants().unwrap();
}

#[test]
fn who_comes_to_an_engine_that_is_about_to_be_reset_waits() {
    // spec: sync §4.4
    let (host, heard, fault) = paired();
    let mut hung = client(&host);
    fault.hold(Hold::Runs);
    let link = ProcessLink::new(Arc::clone(&host));
    let newcomer = gpu_on(&host, &link, 0);
    let surface = hung.pinned(SurfaceKind::Local, MIB);
    drain(&host);
    heard.take();
    fault.hold_queue(PAGING, Hold::Runs);
    let never = works(&mut hung, &surface, 1_000);
    let asleep = awaits(&host, &hung, hung.stream.progress(), never);
    until_asked(&host, &heard);
    let device = newcomer.device().handle();
    let create = QueueCall::CreateHwContext { device, node: NodeId(0), private_data: Vec::new() };
    link.call(Call::Queue(create)).expect("a context");
    fault.hold_queue(PAGING, Hold::Late(10));
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect_err("the device is lost");
    let events = since_asked(&heard);
    let came = events.iter().position(|(_, event)| matches!(event, Event::DeviceSuspended { reasons: RESET, .. }));
    let reset = events.iter().position(|(_, event)| matches!(event, Event::EngineReset { .. }));
    assert!(came.expect("it waits") < reset.expect("a reset"), "{events:?}");
    assert_eq!(newcomer.device().state().expect("a state"), DeviceState::Active);
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}
