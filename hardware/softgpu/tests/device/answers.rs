//! A signal behind a wait, in real time: it is given the moment the value comes, and is a command like any other all the same. The
//! engine's patience has no end here, and no register access or wake-up reaches it once it runs, so that it is still polling whenever the
//! value comes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use device_port::DevicePort;
use shared_words::log::entry;
use shared_words::{Word, log};
use softgpu::Config;
use softgpu_spec::register::*;
use softgpu_spec::{Command, LogSlot};

use crate::signals::looked_at;
use crate::{CONFIG, PAGE, Pin, RING, RING_BYTES, Rig, SYSTEM};

/// Byte of system memory behind virtual address `SYSTEM`.
const WORDS: u64 = 0x1_0000;
const WAITED: u64 = SYSTEM;
const GIVEN: u64 = SYSTEM + 128;
const MONITORED: u64 = SYSTEM + 256;
const WAIT_LOG: u64 = SYSTEM + 512;
const SIGNAL_LOG: u64 = SYSTEM + 1024;
/// When a queue without progress is called stuck: nothing here takes a thousandth of it.
const STUCK_AFTER: Duration = Duration::from_secs(60);

fn rig() -> Rig {
    let system = shared_words::Memory::reserve(1 << 20).unwrap();
    let pin = Arc::new(Pin::default());
    let rig = Rig::of(Config { poll_spins: u32::MAX, ..CONFIG }, system, pin, false);
    rig.map_pages();
    Word::store(rig.system.word(WORDS + 256), u64::MAX);
    for header in [512, 1024] {
        Word::store(rig.system.word(WORDS + header + log::ENTRIES_OFFSET), log::LOG_ENTRIES);
    }
    rig
}

fn slot(log: u64) -> LogSlot {
    LogSlot { entry_va: log + 64, header_va: log, handle: 9 }
}

fn wait(log: Option<LogSlot>) -> Command<'static> {
    Command::Wait { va: WAITED, value: 5, log }
}

fn signal(log: Option<LogSlot>) -> Command<'static> {
    Command::Signal { current_va: GIVEN, monitored_va: MONITORED, value: 7, log }
}

impl Rig {
    fn until(&self, register: u32, value: u64) {
        let begun = Instant::now();
        while self.gpu.read_register(register) != value {
            assert_ne!(self.state(0), queue_state::FAULTED, "waiting for {value} at {register:#x}");
            assert!(begun.elapsed() < STUCK_AFTER, "stuck before {value} at {register:#x}");
            std::thread::yield_now();
        }
    }

    /// The value that queue 0 waits for comes when the engine looks for it, and the queue gets to the end of what was rung.
    fn answer(&self) {
        self.until(counter::WAITS_UNSATISFIED, 1);
        Word::store(self.system.word(WORDS), 5);
        self.gpu.write_register(QUEUE_SELECT, 0);
        self.until(QUEUE_READ_POINTER, self.written);
    }
}

#[test]
fn wait_and_signal_are_done_together_and_logged_each() {
    // spec: sync §3.7, sync §3.8, sync §3.14
    // seed: N103
    for monitored in [u64::MAX, 6] {
        let mut rig = rig();
        let of_signal = [WORDS + 128, WORDS + 1024, WORDS + 1024 + 64 + entry::FENCE_VALUE];
        let seen = looked_at(&rig, of_signal);
        Word::store(rig.system.word(WORDS + 256), monitored);
        rig.push(&[wait(Some(slot(WAIT_LOG))), signal(Some(slot(SIGNAL_LOG))), Command::Nop]);
        let _running = rig.gpu.run_threads();
        rig.answer();
        assert_eq!(rig.word(WORDS + 128), 7);
        let fields = [entry::FENCE_VALUE, entry::HANDLE_AND_OPERATION, entry::OBSERVED, entry::END];
        let read = |at: u64| fields.map(|field| rig.word(WORDS + at + 64 + field));
        let [value, what, observed, unblocked] = read(512);
        assert_eq!((value, what), (5, 9 | u64::from(log::WAIT_UNBLOCKED) << 32));
        assert!(observed != 0 && observed <= unblocked, "it was seen unsatisfied first");
        let [value, what, observed, executed] = read(1024);
        assert_eq!((value, what, observed), (7, 9 | u64::from(log::SIGNAL_EXECUTED) << 32, 0));
        assert!(unblocked <= executed, "the signal came behind the wait");
        assert_eq!((rig.word(WORDS + 512), rig.word(WORDS + 1024)), (1, 1), "an entry each");
        let counters = [counter::WAITS, counter::SIGNALS, counter::WAITS_PARKED];
        assert_eq!(counters.map(|counter| rig.gpu.read_register(counter)), [1, 1, 0]);
        let told = if monitored == 6 { (record::FENCE, [0, GIVEN, 7]) } else { (record::NONE, [0; 3]) };
        let (kind, fields) = rig.pop();
        assert_eq!((kind, if kind == record::NONE { [0; 3] } else { fields }), told);
        let when_told: &[[u64; 3]] = if monitored == 6 { &[[7, 1, 7]] } else { &[] };
        assert_eq!(*seen.lock().unwrap(), when_told, "value, position and entry stand there before");
    }
}

#[test]
fn what_was_not_rung_is_not_done() {
    // spec: sync §3.17
    let mut rig = rig();
    let mut words = Vec::new();
    wait(None).encode(&mut words);
    let rung = words.len() as u64 * 8;
    signal(None).encode(&mut words);
    for (word, at) in words.iter().zip((RING..).step_by(8)) {
        Word::store(rig.system.word(at), *word);
    }
    rig.written = rung;
    rig.ring();
    let _running = rig.gpu.run_threads();
    rig.answer();
    assert_eq!((rig.word(WORDS + 128), rig.gpu.read_register(counter::SIGNALS)), (0, 0));
    rig.written = words.len() as u64 * 8;
    rig.ring();
    rig.until(QUEUE_READ_POINTER, rig.written);
    assert_eq!((rig.word(WORDS + 128), rig.gpu.read_register(counter::SIGNALS)), (7, 1));
}

#[test]
fn a_signal_without_its_words_is_a_fault_of_its_own() {
    // spec: sync §3.8
    let nowhere = SYSTEM + 2 * PAGE;
    for (command, address) in [
        (Command::Signal { current_va: nowhere, monitored_va: MONITORED, value: 7, log: None }, nowhere),
        (signal(Some(slot(nowhere))), nowhere),
    ] {
        let mut rig = rig();
        rig.push(&[wait(None)]);
        let behind_wait = rig.written;
        rig.push(&[command]);
        let _running = rig.gpu.run_threads();
        rig.until(counter::WAITS_UNSATISFIED, 1);
        Word::store(rig.system.word(WORDS), 5);
        while rig.state(0) != queue_state::FAULTED {
            std::thread::yield_now();
        }
        assert_eq!(rig.gpu.read_register(QUEUE_READ_POINTER), behind_wait, "the wait is over");
        // The engine says it after the queue's state has.
        let (kind, fields) = std::iter::repeat_with(|| rig.pop()).find(|(kind, _)| *kind != record::NONE).expect("one");
        assert_eq!((kind, fields[0], fields[1]), (record::FAULT, 0, address));
    }
}

#[test]
fn a_sealed_word_is_left_alone() {
    // spec: sync §3.16
    let mut rig = rig();
    rig.gpu.write_register(CMP_ROOT, crate::ROOT);
    rig.gpu.write_register(CMP_ARGUMENT_0, GIVEN);
    rig.gpu.write_register(CMP_COMMAND, cmp::SEAL);
    rig.push(&[wait(Some(slot(WAIT_LOG))), signal(None)]);
    let _running = rig.gpu.run_threads();
    rig.answer();
    assert_eq!((rig.word(WORDS + 128), rig.word(WORDS + 512)), (u64::MAX, 1), "the wait is logged all the same");
}

#[test]
fn a_signal_that_begins_anew_in_the_ring_is_found_too() {
    // spec: sync §3.17
    let mut rig = rig();
    // The wait ends two words before the ring does.
    let nops = RING_BYTES / 8 - 5;
    rig.run(&vec![Command::Nop; nops as usize]);
    rig.push(&[wait(None), signal(None)]);
    let _running = rig.gpu.run_threads();
    rig.answer();
    assert_eq!((rig.word(WORDS + 128), rig.gpu.read_register(counter::SIGNALS)), (7, 1));
}
