//! Engines that have nothing to do and say so, and engines without a clock.

use softgpu_spec::register::{ENGINE_GATE, ENGINE_IDLE_NS, QUEUE_READ_POINTER};

use super::*;

const IDLE_NS: u64 = 1_000;

fn read_pointer(rig: &Rig) -> u64 {
    rig.gpu.write_register(QUEUE_SELECT, 0);
    rig.gpu.read_register(QUEUE_READ_POINTER)
}

#[test]
fn an_engine_says_once_that_it_has_nothing_to_do() {
    // spec: sync §3.17
    let mut rig = mapped(DataMode::Stored, false);
    let engine = engine_of(false);
    rig.drain();
    let begun = rig.gpu.now();
    rig.gpu.write_register(ENGINE_IDLE_NS, IDLE_NS);
    assert_eq!(rig.drain(), begun + IDLE_NS);
    let mut both = [rig.pop(), rig.pop()].map(|(kind, fields)| (kind, fields[0]));
    both.sort_unstable();
    assert_eq!(both, [(record::IDLE, 0), (record::IDLE, 1)]);
    assert_eq!((rig.drain(), rig.pop().0), (begun + IDLE_NS, record::NONE), "once");
    let begun = rig.gpu.now();
    rig.run(&[Command::Nop]);
    assert_eq!(rig.gpu.now(), begun + Timing::default().command_ns + IDLE_NS);
    assert_eq!(
        (rig.pop(), rig.pop().0),
        ((record::IDLE, [engine, 0, 0]), record::NONE),
        "an engine that has had work tells of idleness"
    );
    // A parked wait is something to do.
    rig.run(&[Command::Wait { va: SYSTEM, value: 5, log: None }]);
    assert_eq!((rig.state(0), rig.pop().0), (queue_state::PARKED, record::NONE));
    Word::store(rig.system.word(0x1_0000), 5);
    rig.gpu.write_register(CMP_COMMAND, cmp::RESCAN);
    rig.drain();
    assert_eq!(rig.pop(), (record::IDLE, [engine, 0, 0]));
    rig.gpu.write_register(ENGINE_IDLE_NS, 0);
    rig.run(&[Command::Nop]);
    assert_eq!(rig.pop().0, record::NONE, "no idle time is set");
}

#[test]
fn an_engine_without_a_clock_looks_at_nothing_and_then_at_all_that_came() {
    // spec: sync §3.17
    let mut rig = mapped(DataMode::Stored, false);
    let engine = engine_of(false);
    rig.gpu.write_register(ENGINE_GATE, 1 << engine);
    assert_eq!(rig.gpu.read_register(ENGINE_GATE), 1 << engine);
    rig.gpu.write_register(ENGINE_IDLE_NS, IDLE_NS);
    rig.run(&[Command::Nop, Command::Nop]);
    assert_eq!(read_pointer(&rig), 0);
    assert_eq!((rig.pop(), rig.pop().0), ((record::IDLE, [1 - engine, 0, 0]), record::NONE), "it says nothing either");
    rig.gpu.write_register(ENGINE_GATE, 0);
    let begun = rig.gpu.now();
    assert_eq!(rig.drain(), begun + 2 * Timing::default().command_ns + IDLE_NS);
    assert_eq!((read_pointer(&rig), rig.pop()), (16, (record::IDLE, [engine, 0, 0])));
}

/// A device that has nothing to do has nothing to do at the end of time, either: the time of what never comes is no time.
#[test]
fn the_end_of_time_finds_an_idle_device() {
    let mut rig = mapped(DataMode::Stored, false);
    rig.run(&[Command::Nop]);
    assert_eq!(rig.gpu.next_event(), None);
    rig.gpu.tick(u64::MAX);
    assert_eq!((rig.gpu.now(), rig.gpu.next_event()), (u64::MAX, None));
}
