//! Work that does not end while the adapter falls asleep, or while PnP stops it: the device has its power, so hung work is found as ever.

use ddi::PowerState;

use super::*;

/// A host with a process that works for ever, and one that does nothing.
fn hung(hold: Hold) -> (Arc<Host>, Heard, [Client; 2], Surface) {
    let (host, heard, fault) = host(impatient());
    let (other, mut hung) = (client(&host), client(&host));
    let surface = hung.pinned(SurfaceKind::Local, MIB);
    drain(&host);
    heard.take();
    fault.hold(hold);
    works(&mut hung, &surface, 1_000);
    (host, heard, [other, hung], surface)
}

#[test]
fn an_engine_that_hangs_is_reset_on_the_way_to_a_sleep() {
    // spec: sync §4.4, memory §1.10
    for state_of_sleep in [PowerState::Standby, PowerState::Hibernate] {
        let (host, heard, [mut other, hung], surface) = hung(Hold::Runs);
        let begins = host.now_ns();
        host.power_transition(state_of_sleep).expect("the engine is reset, and the computer sleeps");
        // The sleep itself asks the context to leave: one delay.
        let took = host.now_ns() - begins;
        assert!((DELAY..2 * DELAY).contains(&took), "{took}");
        assert_eq!(heard.count(|event| matches!(event, Event::EngineReset { .. })), 1);
        host.power_transition(PowerState::On).expect("it wakes");
        assert_eq!((state(&hung), state(&other)), (DeviceState::Hung, DeviceState::Active));
        drop((surface, hung));
        let surface = other.pinned(SurfaceKind::Local, MIB);
        let done = works(&mut other, &surface, 10);
        drain(&host);
        assert!(other.stream.progress().current() >= done, "the engine works");
        host.check_invariants().expect("in order");
    }
}

#[test]
fn an_engine_that_hangs_is_reset_on_the_way_to_a_stop() {
    // spec: sync §4.4, memory §8.4
    let (host, heard, _clients, _surface) = hung(Hold::Runs);
    host.stop_adapter().expect("the engine is reset, and the adapter stops");
    assert_eq!(heard.count(|event| matches!(event, Event::EngineReset { .. })), 1);
    host.check_invariants().expect("in order");
}

#[test]
fn an_engine_that_never_answers_has_the_adapter_reset_on_the_way_to_a_sleep() {
    // spec: sync §4.4, memory §1.10
    let (host, heard, [other, hung], surface) = hung(Hold::Sticks);
    host.power_transition(PowerState::Standby).expect("the adapter is reset, and the computer sleeps");
    assert_eq!(heard.count(|event| matches!(event, Event::AdapterReset { .. })), 1);
    host.power_transition(PowerState::On).expect("it wakes");
    assert_eq!((state(&hung), state(&other)), (DeviceState::Reset, DeviceState::Reset));
    drop((surface, hung, other));
    let mut new = client(&host);
    let surface = new.pinned(SurfaceKind::Local, MIB);
    let done = works(&mut new, &surface, 10);
    drain(&host);
    assert!(new.stream.progress().current() >= done, "the engine works");
    assert_eq!(host.stopped(), None);
    host.check_invariants().expect("in order");
}
