//! The device straight through its registers, in virtual time: each command, each fault, the ring's end, the aperture, the
//! interrupt records. No driver and no kernel.

mod answers;
mod bells;
mod busy;
mod displays;
mod idle;
mod nested;
mod order;
mod peers;
mod preemption;
mod reads;
mod resets;
mod rig;
mod rings;
mod runs;
mod scheduling_log;
mod seals;
mod sharing;
mod signals;
mod stores;
mod tiles;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use device_port::{Clocked, DevicePort, InterruptPin, Probe};
use shared_words::{Memory, Word};
use softgpu::{Config, DataMode, SoftGpu, Timing};
use softgpu_spec::bus::{APERTURE_BASE, SYSTEM_BASE};
use softgpu_spec::page_table::{READ_ONLY, Shape, VALID};
use softgpu_spec::register::*;
use softgpu_spec::{Command, pattern};

use rig::*;

#[test]
fn kernels_do_what_their_names_say() {
    let mut rig = mapped(DataMode::Stored, false);
    rig.run(&[
        Command::Pattern { va: LOCAL, bytes: 2 * PAGE, seed: 5 },
        Command::Copy { source_va: LOCAL, target_va: SYSTEM, bytes: 2 * PAGE },
    ]);
    let sum = (0..1024).fold(0u64, |sum, index| sum.wrapping_add(pattern::word(5, index * 8)));
    for offset in [0, 8, 4096, 8184] {
        assert_eq!(rig.word(0x1_0000 + offset), pattern::word(5, offset), "scattered pages arrive in order");
    }
    rig.run(&[
        Command::Checksum { va: LOCAL, bytes: 2 * PAGE, result_va: SYSTEM },
        Command::Touch { va: SYSTEM, bytes: 8, write: true, within: false },
        Command::Fill { va: SYSTEM + 16, bytes: 8, pattern: 7 },
        Command::Timestamp { va: SYSTEM + 8 },
    ]);
    assert_eq!(rig.word(0x1_0000), sum.wrapping_add(1), "the sum, and then touched");
    assert_eq!(rig.word(0x1_0010), 7 << 32 | 7);
    assert!(rig.word(0x1_0008) > 0 && rig.word(0x1_0008) <= rig.gpu.now());
    let two = |a: f32, b: f32| u64::from(a.to_bits()) | u64::from(b.to_bits()) << 32;
    rig.system.write(0x1_1000, &two(1.0, 2.0).to_le_bytes());
    rig.system.write(0x1_1100, &two(10.0, 20.0).to_le_bytes());
    rig.run(&[Command::Saxpy {
        x_va: SYSTEM + PAGE,
        y_va: SYSTEM + PAGE + 0x100,
        elements: 2,
        a_bits: 3f32.to_bits(),
    }]);
    assert_eq!(rig.word(0x1_1100), two(13.0, 26.0));
}

#[test]
fn a_check_reports_its_first_mismatch_and_no_later_one() {
    let mut rig = mapped(DataMode::Stored, false);
    rig.run(&[Command::Pattern { va: LOCAL, bytes: 2 * PAGE, seed: 5 }]);
    Word::store(rig.gpu.local_memory().word(0x30_0010), 1);
    let check = |seed, tag| Command::Check { va: LOCAL, bytes: 2 * PAGE, seed, report_va: SYSTEM, tag };
    rig.run(&[check(5, 40), check(6, 41)]);
    let report = [0, 8, 16, 24].map(|offset| rig.word(0x1_0000 + offset));
    assert_eq!(report, [41, PAGE + 0x10, 1, pattern::word(5, PAGE + 0x10)], "tag 40 plus one, and not tag 41");
}

#[test]
fn modelled_content_takes_its_time_and_moves_nothing() {
    let mut rig = mapped(DataMode::Modelled, false);
    let start = rig.drain();
    rig.push(&[Command::Pattern { va: LOCAL, bytes: PAGE, seed: 5 }]);
    let timing = Timing::default();
    let expected = timing.command_ns + timing.launch_ns + (PAGE * 1000).div_ceil(timing.compute_bytes_per_us);
    assert_eq!(rig.drain() - start, expected);
    assert_eq!(Word::load(rig.gpu.local_memory().word(0x20_0000)), 0);
    rig.run(&[Command::Pattern { va: 40 * PAGE, bytes: PAGE, seed: 5 }]);
    assert_eq!(rig.state(0), queue_state::FAULTED, "it faults where stored content would");
}

#[test]
fn each_fault_stops_its_queue_and_no_other() {
    let bad_word = Command::WriteEntries { table: 0, first: 0, entries: &[] };
    let cases: [(Command<'_>, u64); 6] = [
        (Command::Fill { va: 40 * PAGE, bytes: 8, pattern: 0 }, fault::NOT_PRESENT),
        (Command::Fill { va: 20 * PAGE, bytes: 8, pattern: 0 }, fault::READ_ONLY),
        (Command::Fill { va: u64::MAX - 7, bytes: 64, pattern: 0 }, fault::BAD_ADDRESS),
        (Command::Wait { va: LOCAL + 4, value: 1, log: None }, fault::BAD_ADDRESS),
        (bad_word, fault::PRIVILEGE),
        (Command::Fill { va: LOCAL + 1, bytes: 8, pattern: 0 }, fault::BAD_ADDRESS),
    ];
    for (command, cause) in cases {
        let mut rig = mapped(DataMode::Stored, false);
        rig.map(20, 0x20_0000, READ_ONLY);
        rig.enable(1, u64::from(softgpu_spec::engine::COMPUTE), 0x8000, false);
        rig.run(&[command]);
        assert_eq!(rig.state(0), queue_state::FAULTED, "{command:?}");
        let (kind, fields) = rig.pop();
        assert_eq!((kind, fields[0], fields[2] & 0xff), (record::FAULT, 0, cause), "{command:?}");
        assert_eq!(rig.pop().0, record::NONE);
        assert!(rig.pin.0.load(Ordering::Relaxed) > 0);
        assert_eq!(rig.state(1), queue_state::READY, "the other queue goes on");
    }
    let mut rig = mapped(DataMode::Stored, false);
    Word::store(rig.system.word(RING), 0x7f | 1 << 8);
    rig.written = 8;
    Word::store(rig.gpu.doorbell_page().word(0), 8);
    rig.gpu.doorbell_rung(0);
    rig.drain();
    assert_eq!((rig.pop().1[2] & 0xff, rig.state(0)), (fault::BAD_COMMAND, queue_state::FAULTED));
}

#[test]
fn commands_wrap_over_the_end_of_the_ring() {
    let mut rig = mapped(DataMode::Stored, false);
    for value in 1..=1000u64 {
        // Seven words: every place of the ring's end is met.
        let signal = Command::Signal { current_va: SYSTEM, monitored_va: SYSTEM + 64, value, log: None };
        Word::store(rig.system.word(0x1_0040), u64::MAX);
        rig.run(&[signal, Command::Nop, Command::Timestamp { va: SYSTEM + 8 }]);
        assert_eq!(rig.word(0x1_0000), value);
    }
    assert_eq!(rig.gpu.read_register(counter::INTERRUPTS_SUPPRESSED), 1000);
    assert_eq!(rig.gpu.read_register(counter::INTERRUPTS_RAISED), 0);
}

#[test]
fn the_aperture_redirects_page_by_page() {
    let mut rig = mapped(DataMode::Stored, true);
    rig.run(&[
        Command::MapAperture { first: 2, count: 2, system_address: 0x2_0000, step: PAGE },
        Command::FillPhysical { target_bus: APERTURE_BASE + 2 * PAGE, bytes: 2 * PAGE, pattern: 3 },
        Command::MapAperture { first: 3, count: 1, system_address: 0x2_4000, step: 0 },
        Command::FillPhysical { target_bus: APERTURE_BASE + 3 * PAGE, bytes: PAGE, pattern: 4 },
    ]);
    assert_eq!([0x2_0000, 0x2_1000, 0x2_4000].map(|at| rig.word(at)), [3 << 32 | 3, 3 << 32 | 3, 4 << 32 | 4]);
    rig.run(&[Command::FillPhysical { target_bus: APERTURE_BASE, bytes: 8, pattern: 1 }]);
    assert_eq!((rig.state(0), rig.pop().1[2] & 0xff), (queue_state::FAULTED, fault::NOT_PRESENT));
}

/// The commands of a paging buffer by address: any queue copies and stores in its own space, also between page tables that are mapped
/// there; touching a bus address is for privileged ones.
#[test]
fn paging_by_address_needs_no_more_than_a_space() {
    let mut rig = mapped(DataMode::Stored, true);
    // The leaf table itself at virtual page 24.
    rig.map(24, LEAF, 0);
    rig.run(&[
        Command::Pattern { va: LOCAL, bytes: PAGE, seed: 7 },
        Command::Copy { source_va: LOCAL, target_va: SYSTEM, bytes: PAGE },
        Command::Store { va: SYSTEM + 16, words: &[11, 12, 13] },
        Command::Copy { source_va: 24 * PAGE + 18 * 8, target_va: 24 * PAGE + 30 * 8, bytes: 8 },
        Command::FlushTlb { root: ROOT, first_va: 30 * PAGE, last_va: 31 * PAGE - 1 },
        Command::Store { va: 30 * PAGE + 64, words: &[99] },
        Command::TouchPhysical { bus: 0x20_0008, write: true },
        Command::TouchPhysical { bus: SYSTEM_BASE + 0x1_0008, write: false },
    ]);
    assert_eq!(rig.state(0), queue_state::READY);
    assert_eq!(
        [0, 16, 24, 32, 40].map(|at| rig.word(0x1_0000 + at)),
        [pattern::word(7, 0), 11, 12, 13, pattern::word(7, 40)]
    );
    assert_eq!(rig.word(0x1_0040), 99, "the copied entry leads to the same page");
    let local = Word::load(rig.gpu.local_memory().word(0x20_0008));
    assert_eq!(local, pattern::word(7, 8), "touching changes nothing");
    rig.run(&[Command::TouchPhysical { bus: APERTURE_BASE, write: false }]);
    assert_eq!((rig.state(0), rig.pop().1[2] & 0xff), (queue_state::FAULTED, fault::NOT_PRESENT));
    let mut rig = mapped(DataMode::Stored, false);
    rig.run(&[Command::TouchPhysical { bus: 0x20_0000, write: false }]);
    assert_eq!((rig.state(0), rig.pop().1[2] & 0xff), (queue_state::FAULTED, fault::PRIVILEGE));
}

#[test]
fn a_changed_entry_is_seen_after_the_flush() {
    let mut rig = mapped(DataMode::Stored, true);
    Word::store(rig.system.word(0x1_0040), u64::MAX);
    let signal = |value| Command::Signal { current_va: SYSTEM, monitored_va: SYSTEM + 64, value, log: None };
    rig.run(&[signal(1)]);
    rig.run(&[
        Command::WriteEntryRun { table: LEAF, first: 18, count: 1, entry: (SYSTEM_BASE + 0x2_0000) | VALID, step: 0 },
        signal(2),
    ]);
    assert_eq!((rig.word(0x1_0000), rig.word(0x2_0000)), (2, 0), "the translation is remembered");
    rig.run(&[Command::FlushTlb { root: ROOT, first_va: 0, last_va: 0 }, signal(3)]);
    assert_eq!((rig.word(0x1_0000), rig.word(0x2_0000)), (2, 3));
}

#[test]
fn a_parked_wait_goes_on_when_the_value_comes() {
    // spec: sync §3.8, sync §3.9
    let mut rig = mapped(DataMode::Stored, false);
    rig.gpu.write_register(CMP_ROOT, ROOT);
    Word::store(rig.system.word(0x1_0040), u64::MAX);
    rig.run(&[
        Command::Wait { va: SYSTEM, value: 5, log: None },
        Command::Signal { current_va: SYSTEM + 128, monitored_va: SYSTEM + 64, value: 1, log: None },
    ]);
    assert_eq!(rig.state(0), queue_state::PARKED);
    for (value, goes_on) in [(4, false), (6, true)] {
        Word::store(rig.system.word(0x1_0000), value);
        rig.gpu.write_register(CMP_ARGUMENT_0, SYSTEM);
        rig.gpu.write_register(CMP_COMMAND, cmp::RESCAN);
        rig.drain();
        assert_eq!(rig.word(0x1_0080) == 1, goes_on, "value {value}");
    }
    for (monitored, interrupts) in [(6, 0), (5, 1)] {
        for (register, value) in [(CMP_ARGUMENT_0, SYSTEM), (CMP_ARGUMENT_1, SYSTEM + 64), (CMP_ARGUMENT_2, monitored)]
        {
            rig.gpu.write_register(register, value);
        }
        rig.gpu.write_register(CMP_COMMAND, cmp::PUBLISH_MONITORED);
        assert_eq!((rig.gpu.read_register(CMP_RESULT), rig.word(0x1_0040)), (cmp_result::DONE, monitored));
        assert_eq!(rig.gpu.read_register(counter::PUBLISH_RAISED), interrupts, "interrupt iff 6 > {monitored}");
    }
}

#[test]
fn a_disabled_queue_executes_nothing_and_starts_anew() {
    let mut rig = mapped(DataMode::Stored, false);
    rig.run(&[Command::Wait { va: SYSTEM, value: 5, log: None }]);
    rig.gpu.write_register(QUEUE_SELECT, 0);
    rig.gpu.write_register(QUEUE_CONTROL, queue_control::DISABLE);
    Word::store(rig.system.word(0x1_0000), 9);
    rig.gpu.write_register(CMP_COMMAND, cmp::RESCAN);
    rig.drain();
    assert_eq!(rig.state(0), queue_state::DISABLED);
    rig.written = 0;
    rig.enable(0, engine_of(false), RING, false);
    rig.run(&[Command::Fill { va: SYSTEM + PAGE, bytes: 8, pattern: 2 }]);
    assert_eq!((rig.word(0x1_1000), rig.gpu.read_register(QUEUE_READ_POINTER)), (2 << 32 | 2, 24));
}
