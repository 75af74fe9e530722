//! PREEMPT: where a queue stops, when, and what it says.

use super::*;

const NESTED: u64 = 0x3_0000;

/// Two fills of local memory at a bus address, and where the second ends.
fn nested(rig: &Rig) -> u32 {
    let mut words = Vec::new();
    for page in 0..2u64 {
        let target_bus = 0x20_0000 + page * 0x1_0000;
        Command::FillPhysical { target_bus, bytes: 0x1_0000, pattern: 7 }.encode(&mut words);
    }
    for (index, word) in words.iter().enumerate() {
        Word::store(rig.system.word(NESTED + index as u64 * 8), *word);
    }
    words.len() as u32
}

fn preempt(rig: &Rig) {
    rig.gpu.write_register(QUEUE_SELECT, 0);
    rig.gpu.write_register(QUEUE_CONTROL, queue_control::PREEMPT);
}

fn filled(rig: &Rig, page: u64) -> bool {
    Word::load(rig.gpu.local_memory().word(0x20_0000 + page * 0x1_0000)) != 0
}

#[test]
fn a_queue_stops_between_two_commands_of_a_nested_buffer() {
    // spec: sync §4.3
    let mut rig = mapped(DataMode::Stored, true);
    let words = nested(&rig);
    let packet = |value| [Command::BranchPhysical { bus: SYSTEM_BASE + NESTED, words }, Command::Complete { value }];
    rig.push(&packet(1));
    rig.push(&packet(2));
    // Into the middle of the first packet's first fill: 50 ns of the branch, then 50 + 1000 + 164.
    rig.gpu.tick(500);
    preempt(&rig);
    assert_eq!((rig.state(0), rig.pop().0), (queue_state::READY, record::NONE), "a command under way is finished");
    rig.gpu.tick(1263);
    assert_eq!(rig.pop().0, record::NONE);
    rig.gpu.tick(1264);
    assert_eq!(rig.pop(), (record::PREEMPTED, [0, 0, 3]));
    assert_eq!((rig.state(0), rig.gpu.read_register(QUEUE_NESTED_WORDS)), (queue_state::PREEMPTED, 3));
    assert_eq!(rig.gpu.next_event(), None, "and nothing more happens");
    assert!(filled(&rig, 0) && !filled(&rig, 1));
    // A doorbell does not wake it, and a second request says nothing.
    rig.gpu.doorbell_rung(0);
    preempt(&rig);
    rig.drain();
    assert_eq!(rig.pop().0, record::NONE);
    // Enabled again it begins with its ring, which the driver has written anew.
    rig.written = 0;
    rig.enable(0, engine_of(true), RING, true);
    rig.run(&[
        Command::BranchPhysical { bus: SYSTEM_BASE + NESTED + 24, words: words - 3 },
        Command::Complete { value: 1 },
    ]);
    assert_eq!((filled(&rig, 1), rig.pop()), (true, (record::COMPLETED, [0, 1, 0])));
}

#[test]
fn a_queue_with_nothing_to_do_or_in_a_wait_stops_at_once() {
    // spec: sync §4.3
    let mut rig = mapped(DataMode::Stored, true);
    rig.run(&[Command::Nop, Command::Complete { value: 4 }]);
    assert_eq!(rig.pop().0, record::COMPLETED);
    preempt(&rig);
    assert_eq!(rig.pop(), (record::PREEMPTED, [0, 24, 0]));
    rig.written = 0;
    rig.enable(0, engine_of(true), RING, true);
    let wait = Command::Wait { va: SYSTEM, value: 5, log: None };
    for parked in [false, true] {
        rig.push(&[Command::Nop, wait, Command::Complete { value: 5 }]);
        if parked {
            rig.drain();
            assert_eq!(rig.state(0), queue_state::PARKED);
        } else {
            rig.gpu.tick(rig.gpu.now() + 60);
        }
        preempt(&rig);
        assert_eq!(rig.pop(), (record::PREEMPTED, [0, 8, 0]), "the wait is not over; parked: {parked}");
        rig.written = 0;
        rig.enable(0, engine_of(true), RING, true);
    }
    // The value that comes now unparks no queue.
    Word::store(rig.system.word(0x1_0000), 9);
    rig.gpu.write_register(CMP_COMMAND, cmp::RESCAN);
    rig.drain();
    assert_eq!(rig.pop().0, record::NONE);
}

#[test]
fn a_queue_that_faults_says_so_instead() {
    // spec: sync §4.3, memory §5.8
    let mut rig = mapped(DataMode::Stored, true);
    rig.push(&[Command::FillPhysical { target_bus: u64::MAX - 7, bytes: 8, pattern: 0 }, Command::Nop]);
    rig.gpu.tick(10);
    preempt(&rig);
    rig.drain();
    assert_eq!((rig.pop().0, rig.pop().0, rig.state(0)), (record::FAULT, record::NONE, queue_state::FAULTED));
    preempt(&rig);
    assert_eq!(rig.pop().0, record::NONE, "nor later");
}
