//! Buffers that a ring branches to: at virtual and at bus addresses.

use super::*;

#[test]
fn a_nested_buffer_runs_and_does_not_nest() {
    let mut rig = mapped(DataMode::Stored, false);
    let mut nested = Vec::new();
    Command::Fill { va: SYSTEM + PAGE, bytes: 8, pattern: 9 }.encode(&mut nested);
    Command::Branch { va: SYSTEM, words: 1 }.encode(&mut nested);
    for (index, word) in nested.iter().enumerate() {
        Word::store(rig.system.word(0x1_0000 + index as u64 * 8), *word);
    }
    rig.run(&[Command::Branch { va: SYSTEM, words: nested.len() as u32 }]);
    assert_eq!(rig.word(0x1_1000), 9 << 32 | 9);
    assert_eq!((rig.state(0), rig.pop().1[2] & 0xff), (queue_state::FAULTED, fault::BAD_COMMAND));
}

/// A buffer at a bus address is fetched through the aperture, and its end is told by value.
#[test]
fn a_buffer_at_a_bus_address_runs_and_completes() {
    let mut rig = mapped(DataMode::Stored, true);
    let mut nested = Vec::new();
    Command::FillPhysical { target_bus: SYSTEM_BASE + 0x2_0000, bytes: 8, pattern: 7 }.encode(&mut nested);
    for (index, word) in nested.iter().enumerate() {
        Word::store(rig.system.word(0x3_0000 + index as u64 * 8), *word);
    }
    let words = nested.len() as u32;
    rig.run(&[
        Command::MapAperture { first: 5, count: 1, system_address: 0x3_0000, step: 0 },
        Command::BranchPhysical { bus: APERTURE_BASE + 5 * PAGE, words },
        Command::Complete { value: 41 },
        Command::BranchPhysical { bus: SYSTEM_BASE + 0x3_0000, words },
        Command::Complete { value: 42 },
    ]);
    assert_eq!(rig.word(0x2_0000), 7 << 32 | 7);
    assert_eq!(rig.pop(), (record::COMPLETED, [0, 41, 0]));
    assert_eq!(rig.pop(), (record::COMPLETED, [0, 42, 0]));
    assert_eq!(rig.pop().0, record::NONE);
}

/// A process cannot claim that work of its own is complete: its commands are nested.
#[test]
fn a_completion_stands_in_the_ring_only() {
    let mut rig = mapped(DataMode::Stored, false);
    rig.run(&[Command::Complete { value: 1 }]);
    assert_eq!(rig.pop(), (record::COMPLETED, [0, 1, 0]), "the ring is the driver's");
    let mut nested = Vec::new();
    Command::Complete { value: 2 }.encode(&mut nested);
    for (index, word) in nested.iter().enumerate() {
        Word::store(rig.system.word(0x1_0000 + index as u64 * 8), *word);
    }
    rig.run(&[Command::Branch { va: SYSTEM, words: nested.len() as u32 }]);
    assert_eq!((rig.state(0), rig.pop().1[2] & 0xff), (queue_state::FAULTED, fault::PRIVILEGE));
}
