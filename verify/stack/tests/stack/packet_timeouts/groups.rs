//! Engines that are reset together (sync §4.4, step 6): their work is lost, unless it leaves within half a second after preemption.

use std::sync::atomic::{AtomicBool, Ordering};

use dxgk_host::DriverClock;
use kmt_calls::MakeResidentFlags;

use super::*;
use crate::timeouts::late_calls::Hand;

const COMPUTE: NodeId = NodeId(0);
const COPY: NodeId = NodeId(1);
/// So long those have that are reset with another.
const ROOM: u64 = 500 * MS;

fn heard(event: &Event) -> bool {
    matches!(
        event,
        Event::EngineGroupAsked { .. }
            | Event::EngineResetCalledOff { .. }
            | Event::PreemptionRequested { why: PreemptedFor::Reset, .. }
            | Event::PagingPacketStarted { .. }
            | Event::EngineReset { .. }
            | Event::AdapterReset { .. }
            | Event::DeviceInError { .. }
            | Event::PacketCompleted { .. }
    )
}

/// An adapter of two engines that are reset together.
fn paired(change: fn(&mut HostConfig)) -> (Arc<Host>, Heard) {
    paired_under(Whims::default(), change)
}

fn paired_under(whims: Whims, change: impl FnOnce(&mut HostConfig)) -> (Arc<Host>, Heard) {
    let paired: fn(&mut HostConfig) = |config| config.profile.reset_group = pair().reset_group;
    host_heard(heard, impatient(), 0, whims, |config| {
        paired(config);
        change(config);
    })
}

fn pair() -> &'static Profile {
    Profile::named("paired-engines").expect("a built-in profile")
}

fn is_asked(event: &Event) -> bool {
    matches!(event, Event::EngineGroupAsked { .. })
}

fn until_asked(host: &Host, heard: &Heard) {
    while heard.count(is_asked) == 0 {
        let ms = host.now_ns() + MS;
        while host.step_until(ms) {}
        assert!(ms < 10_000 * MS, "nothing hangs");
    }
}

/// Work that begins after this has not been preempted before.
fn half_a_delay_before_asked(host: &Host) {
    let until = host.now_ns() + DELAY + DELAY / 2;
    while host.step_until(until) {}
}

/// The events from the first preemption of the group on, with the time since then.
fn since_asked(heard: &Heard) -> Vec<(u64, Event)> {
    let all = heard.take_timed();
    let first = all.iter().position(|(_, event)| is_asked(event)).expect("it was asked");
    let began = all[first].0;
    all[first..].iter().map(|(at, event)| (at - began, event.clone())).collect()
}

#[test]
fn who_gives_an_engine_back_in_time_loses_nothing_by_the_reset_of_another() {
    // spec: sync §4.4
    let (host, heard) = paired(|_| ());
    let (hung, other) = (Client::new(&host, ContextFlags::empty()), Client::on(&host, COPY, ContextFlags::empty()));
    drain(&host);
    heard.take();
    hung.works(1, 1000);
    half_a_delay_before_asked(&host);
    other.works(16, 30);
    drain(&host);
    let events = since_asked(&heard);
    let [
        (0, Event::EngineGroupAsked { node: 0, nodes: 0b11, .. }),
        (0, Event::PreemptionRequested { node: 1, .. }),
        (reset, Event::EngineReset { node: 0, device: guilty, .. }),
        (_, Event::DeviceInError { device, state: 3, .. }),
        (done, Event::PacketCompleted { .. }),
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert_eq!(guilty, device);
    // As soon as the command that the other engine was in is over.
    assert!((1..=30 * MS).contains(reset) && done > reset, "{events:?}");
    assert_eq!((hung.state(), other.state()), (DeviceState::Hung, DeviceState::Active));
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

/// A context with DISABLE_GPU_TIMEOUT never counts as hung; but the kernel resets an engine that it keeps together with the other.
#[test]
fn who_keeps_an_engine_for_half_a_second_is_reset_with_the_other_in_the_order_of_the_nodes() {
    // spec: sync §4.4
    for (node, other_node) in [(COMPUTE, COPY), (COPY, COMPUTE)] {
        let (host, heard) = paired(|_| ());
        let hung = Client::on(&host, node, ContextFlags::empty());
        let other = Client::on(&host, other_node, ContextFlags::DISABLE_GPU_TIMEOUT);
        drain(&host);
        heard.take();
        hung.works(1, 1000);
        other.works(1, 1000);
        drain(&host);
        let events = since_asked(&heard);
        let [
            (0, Event::EngineGroupAsked { nodes: 0b11, node: asked, .. }),
            (0, Event::PreemptionRequested { node: preempted, .. }),
            (ROOM, Event::EngineReset { node: 0, device: first, .. }),
            (ROOM, Event::DeviceInError { device: first_lost, state: 3, .. }),
            (ROOM, Event::EngineReset { node: 1, device: second, .. }),
            (ROOM, Event::DeviceInError { device: second_lost, state: 3, .. }),
        ] = events.as_slice()
        else {
            panic!("{events:?}");
        };
        assert_eq!((asked, preempted), (&node.0, &other_node.0));
        assert_eq!((first, second), (first_lost, second_lost));
        assert_ne!(first, second);
        assert_eq!((hung.state(), other.state()), (DeviceState::Hung, DeviceState::Hung));
        drop((hung, other));
        // Both nodes take packets again.
        let [new, newer] = [COMPUTE, COPY].map(|node| Client::on(&host, node, ContextFlags::empty()));
        new.works(1, 10);
        newer.works(1, 10);
        drain(&host);
        assert_eq!(heard.count(|event| matches!(event, Event::PacketCompleted { .. })), 2);
        assert_eq!(host.stopped(), None);
        host.check_invariants().unwrap();
    }
}

#[test]
fn who_was_hung_and_makes_room_while_others_are_asked_is_not_reset() {
    // spec: sync §4.4
    let (host, heard) = paired(|_| ());
    let late = Client::new(&host, ContextFlags::empty());
    let other = Client::on(&host, COPY, ContextFlags::DISABLE_GPU_TIMEOUT);
    drain(&host);
    heard.take();
    late.works(1, 300);
    other.works(1, 1000);
    drain(&host);
    let events = since_asked(&heard);
    let [
        (0, Event::EngineGroupAsked { node: 0, .. }),
        (0, Event::PreemptionRequested { node: 1, .. }),
        (called_off, Event::EngineResetCalledOff { node: 0, .. }),
        (_, Event::PacketCompleted { .. }),
        (other_done, Event::PacketCompleted { .. }),
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert!((1..100 * MS).contains(called_off) && *other_done > ROOM, "{events:?}");
    assert_eq!((late.state(), other.state()), (DeviceState::Active, DeviceState::Active));
    host.check_invariants().unwrap();
}

/// Paging that comes meanwhile finds its engine about to be reset, and waits.
#[test]
fn nothing_is_handed_to_an_engine_that_is_about_to_be_reset() {
    // spec: sync §4.4
    let (host, heard) = paired(|_| ());
    let hung = Client::new(&host, ContextFlags::empty());
    let third = Client::new(&host, ContextFlags::empty());
    let surface = third.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    let other = Client::on(&host, COPY, ContextFlags::empty());
    drain(&host);
    heard.take();
    hung.works(1, 1000);
    half_a_delay_before_asked(&host);
    // It keeps its engine for a while after the preemption, and then leaves it.
    other.works(3, 90);
    until_asked(&host, &heard);
    third.gpu.pin(&surface).expect("room for it");
    drain(&host);
    let events = since_asked(&heard);
    let at = |wanted: fn(&Event) -> bool| events.iter().position(|(_, event)| wanted(event)).expect("it happened");
    let (reset, paging) = (
        at(|event| matches!(event, Event::EngineReset { node: 0, .. })),
        at(|event| matches!(event, Event::PagingPacketStarted { .. })),
    );
    assert!(events[reset].0 > 0 && paging > reset, "{events:?}");
    assert!(at(|event| matches!(event, Event::PacketCompleted { .. })) > reset, "{events:?}");
    assert_eq!((host.stopped(), third.state()), (None, DeviceState::Active));
    host.check_invariants().unwrap();
}

/// The copy engine does not give a paging buffer back: the kernel cannot know which content is lost with it.
#[test]
fn paging_that_is_reset_with_another_engine_costs_the_adapter_a_reset() {
    // spec: sync §4.4
    let (host, heard) = paired(|config| config.profile.timing.local_copy_bytes_per_us = 8);
    let (hung, third) = (Client::new(&host, ContextFlags::empty()), Client::new(&host, ContextFlags::empty()));
    let surface = third.gpu.create_surface(SurfaceKind::Local, 5 * MIB).expect("a surface");
    drain(&host);
    heard.take();
    hung.works(1, 1000);
    half_a_delay_before_asked(&host);
    let flags = MakeResidentFlags::empty();
    third.gpu.paging().make_resident(vec![surface.allocation().handle()], flags).expect("room for it");
    drain(&host);
    let events = since_asked(&heard);
    let [
        (0, Event::EngineGroupAsked { node: 0, .. }),
        (0, Event::PreemptionRequested { node: 1, .. }),
        (ROOM, Event::EngineReset { node: 0, .. }),
        (ROOM, Event::DeviceInError { state: 3, .. }),
        (ROOM, Event::EngineReset { node: 1, device: 0, .. }),
        (ROOM, Event::AdapterReset { reason, .. }),
        ..,
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert!(reason.contains("under paging work"), "{reason}");
    assert_eq!((hung.state(), third.state()), (DeviceState::Hung, DeviceState::Reset));
    assert_eq!(host.stopped(), None);
    drop((surface, hung, third));
    let new = Client::new(&host, ContextFlags::empty());
    new.works(1, 10);
    drain(&host);
    assert_eq!(heard.count(|event| matches!(event, Event::PacketCompleted { .. })), 1);
    host.check_invariants().unwrap();
}

/// An engine waits for its reset, and its driver is somewhere else.
#[test]
fn a_driver_that_comes_back_late_while_a_reset_is_prepared_is_the_end_of_the_adapter() {
    // spec: sync §4.4, sync §5
    for late in [false, true] {
        let hand = Arc::new(Hand::default());
        let (passes, slow) = (Arc::clone(&hand), Arc::new(AtomicBool::new(false)));
        let is_slow = Arc::clone(&slow);
        let build = Box::new(move |driver: &mut dyn ddi::Miniport, build: &mut ddi::BuildPagingBuffer<'_>| {
            if is_slow.swap(false, Ordering::SeqCst) {
                passes.pass(5_000 * MS + u64::from(late));
            }
            driver.build_paging_buffer(build)
        });
        let (host, heard) = paired_under(Whims { build, ..Whims::default() }, |config| {
            config.driver_clock = Some(hand as Arc<dyn DriverClock>);
        });
        let hung = Client::new(&host, ContextFlags::empty());
        let other = Client::on(&host, COPY, ContextFlags::DISABLE_GPU_TIMEOUT);
        let third = Client::new(&host, ContextFlags::empty());
        let surface = third.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
        drain(&host);
        heard.take();
        hung.works(1, 1000);
        other.works(1, 1000);
        until_asked(&host, &heard);
        slow.store(true, Ordering::SeqCst);
        let _ = third.gpu.pin(&surface);
        drain(&host);
        assert!(!slow.load(Ordering::SeqCst), "it was asked");
        let resets = heard.count(|event| matches!(event, Event::EngineReset { .. }));
        if late {
            let stopped = host.stopped().expect("a bug check");
            assert!(stopped.contains("5000 ms are allowed"), "{stopped}");
            assert_eq!((resets, third.state()), (0, DeviceState::Stopped));
        } else {
            assert_eq!((host.stopped(), resets), (None, 2));
        }
        host.check_invariants().unwrap();
    }
}

/// The hardware resets the engines together also when the driver does not name the group: another process then loses its work.
#[test]
fn a_driver_that_says_nothing_of_the_other_engine_loses_what_that_has() {
    // spec: sync §4.4
    let alone = Whims { group: Box::new(|_, node| 1 << node.0), ..Whims::default() };
    let (host, heard) = paired_under(alone, |_| ());
    let (hung, other) = (Client::new(&host, ContextFlags::empty()), Client::on(&host, COPY, ContextFlags::empty()));
    drain(&host);
    heard.take();
    hung.works(1, 1000);
    half_a_delay_before_asked(&host);
    other.works(16, 30);
    drain(&host);
    assert_eq!(heard.count(is_asked), 0);
    assert_eq!(heard.count(|event| matches!(event, Event::PacketCompleted { .. })), 0);
    assert_eq!((hung.state(), other.state()), (DeviceState::Hung, DeviceState::Hung));
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

#[test]
fn a_driver_that_names_nodes_that_there_are_not_or_not_the_one_asked_about_stops_the_adapter() {
    // spec: sync §4.4, sync §5
    for mask in [0, 0b10, 0b101, 1 << 63 | 1, u64::MAX] {
        let whims = Whims { group: Box::new(move |_, _| mask), ..Whims::default() };
        let (host, heard) = host_heard(heard, impatient(), 0, whims, |_| ());
        let client = Client::new(&host, ContextFlags::empty());
        drain(&host);
        client.works(1, 500);
        drain(&host);
        let stopped = host.stopped().unwrap_or_else(|| panic!("{mask:#x} is believed"));
        assert!(stopped.contains("is said to reset"), "{stopped}");
        assert_eq!(client.state(), DeviceState::Stopped);
        assert_eq!(heard.count(|event| matches!(event, Event::EngineReset { .. } | Event::EngineGroupAsked { .. })), 0);
    }
}
