//! Signals that stand behind each other, on the device's threads: the engine executes them in one go, and what comes of them is what comes of
//! them one by one; and a queue that has not been rung yet.

use shared_words::log::{self, entry};
use softgpu_spec::LogSlot;

use super::*;

/// Bytes of system memory behind virtual address `SYSTEM`: two fences of two words each, a log, and its second page.
const WORDS: u64 = 0x1_0000;
const LOG: u64 = WORDS + 1024;
const ENTRIES: u64 = 5;
const SIGNALS: u64 = 90;

/// Signal number `nth`, of one of two fences; the second has no log.
fn signal(nth: u64) -> Command<'static> {
    let at = SYSTEM + nth % 2 * 256;
    let entry_va = SYSTEM + LOG - WORDS + log::entry_offset(nth / 2 % ENTRIES);
    let slot = LogSlot { entry_va, header_va: SYSTEM + LOG - WORDS, handle: 9 };
    let log = nth.is_multiple_of(2).then_some(slot);
    Command::Signal { current_va: at, monitored_va: at + 128, value: nth + 1, log }
}

/// A device whose fences have no waiter.
fn rig() -> Rig {
    let rig = mapped(DataMode::Stored, false);
    for monitored in [128, 384] {
        Word::store(rig.system.word(WORDS + monitored), u64::MAX);
    }
    Word::store(rig.system.word(LOG + log::ENTRIES_OFFSET), ENTRIES);
    rig
}

/// Has the device do what was rung: in virtual time, or on its threads until the queue is at an end or has stopped.
fn run(rig: &Rig, on_threads: bool) {
    if !on_threads {
        rig.drain();
        return;
    }
    let _running = rig.gpu.run_threads();
    let ended = || rig.state(0) == queue_state::FAULTED || rig.gpu.read_register(QUEUE_READ_POINTER) == rig.written;
    while !ended() {
        std::thread::yield_now();
    }
}

/// What commands have left behind: fences, the log without its times, read pointer, count and fault.
fn outcome(commands: &[Command<'static>], sealed: bool, on_threads: bool) -> (Vec<u64>, [u64; 2], (u64, [u64; 3])) {
    let mut rig = rig();
    if sealed {
        rig.gpu.write_register(CMP_ROOT, ROOT);
        rig.gpu.write_register(CMP_ARGUMENT_0, SYSTEM + 256);
        rig.gpu.write_register(CMP_COMMAND, cmp::SEAL);
    }
    rig.push(commands);
    run(&rig, on_threads);
    let words = [0, 256, LOG - WORDS].map(|at| rig.word(WORDS + at)).into_iter();
    let fields = [entry::FENCE_VALUE, entry::HANDLE_AND_OPERATION, entry::OBSERVED];
    let entries = (0..ENTRIES).flat_map(|index| fields.map(|field| LOG + log::entry_offset(index) + field));
    let words = words.chain(entries.map(|at| rig.word(at))).collect();
    let times: Vec<u64> = (0..ENTRIES).map(|index| rig.word(LOG + log::entry_offset(index) + entry::END)).collect();
    // In the order in which they were written: behind the position, and round.
    let next = (rig.word(LOG) & 0xffff_ffff) as usize;
    let (newer, older) = times.split_at(next);
    let in_order: Vec<u64> = older.iter().chain(newer).copied().filter(|time| *time != 0).collect();
    assert!(in_order.is_sorted() && !in_order.is_empty(), "times never decrease: {in_order:?}");
    rig.gpu.write_register(QUEUE_SELECT, 0);
    (words, [QUEUE_READ_POINTER, counter::SIGNALS].map(|register| rig.gpu.read_register(register)), rig.pop())
}

#[test]
fn signals_behind_each_other_leave_what_they_leave_one_by_one() {
    // spec: sync §3.7, sync §3.14
    // seed: N103
    let plain: Vec<_> = (0..SIGNALS).map(signal).collect();
    // A log that is not there, a word that is not there, a command that is none: in the middle, behind signals that stay done.
    let nowhere = LogSlot { entry_va: SYSTEM + 2 * PAGE, header_va: SYSTEM + LOG - WORDS, handle: 9 };
    let fence = |current_va, log| Command::Signal { current_va, monitored_va: SYSTEM + 128, value: 500, log };
    for (sealed, odd) in [None, Some(fence(SYSTEM, Some(nowhere)))].map(|odd| (true, odd)).into_iter().chain(
        [
            None,
            Some(fence(SYSTEM, Some(nowhere))),
            Some(fence(SYSTEM + 4 * PAGE, None)),
            Some(Command::TouchPhysical { bus: 0, write: true }),
            Some(Command::Nop),
        ]
        .map(|odd| (false, odd)),
    ) {
        let mut commands = plain.clone();
        if let Some(odd) = odd {
            commands.insert(33, odd);
        }
        let (virtually, really) = (outcome(&commands, sealed, false), outcome(&commands, sealed, true));
        assert_eq!(virtually, really, "{odd:?}, second fence sealed: {sealed}");
    }
}

#[test]
fn entries_behind_each_other_have_the_time_of_a_look_that_is_at_most_eight_old() {
    // spec: sync §3.14
    let mut rig = rig();
    Word::store(rig.system.word(LOG + log::ENTRIES_OFFSET), 40);
    let slot = |nth| LogSlot {
        entry_va: SYSTEM + LOG - WORDS + log::entry_offset(nth),
        header_va: SYSTEM + LOG - WORDS,
        handle: 9,
    };
    let signal =
        |nth| Command::Signal { current_va: SYSTEM, monitored_va: SYSTEM + 128, value: nth + 1, log: Some(slot(nth)) };
    rig.push(&(0..40).map(signal).collect::<Vec<_>>());
    let begun = rig.gpu.now();
    run(&rig, true);
    let times: Vec<u64> = (0..40).map(|nth| rig.word(LOG + log::entry_offset(nth) + entry::END)).collect();
    assert!(times.is_sorted() && times[0] >= begun && times[39] <= rig.gpu.now(), "{times:?}");
    let longest = times.chunk_by(|a, b| a == b).map(<[u64]>::len).max();
    assert!(longest <= Some(8), "a clock that stands still for no longer: {times:?}");
}

#[test]
fn a_queue_sleeps_from_the_start_until_it_is_rung() {
    // spec: sync §3.17
    let config = Config { poll_spins: u32::MAX, ..CONFIG };
    let mut rig = Rig::of(config, Memory::reserve(1 << 20).unwrap(), Arc::new(Pin::default()), false);
    rig.map_pages();
    let _running = rig.gpu.run_threads();
    let asleep = |rig: &Rig, queue: u64| {
        let bell = queue * shared_words::doorbell::DOORBELL_BYTES + shared_words::doorbell::ASLEEP_OFFSET;
        Word::load(rig.gpu.doorbell_page().word(bell))
    };
    // The engine's patience has no end: it would never say that a queue sleeps that it looks at.
    for queue in 1..100 {
        rig.enable(queue, u64::from(softgpu_spec::engine::COMPUTE), 0x8000, false);
        assert_eq!(asleep(&rig, queue), 1, "{queue}");
    }
    rig.enable(0, u64::from(softgpu_spec::engine::COMPUTE), RING, false);
    assert_eq!(asleep(&rig, 0), 1);
    rig.push(&[Command::Store { va: SYSTEM, words: &[7] }]);
    rig.gpu.write_register(QUEUE_SELECT, 0);
    while rig.gpu.read_register(QUEUE_READ_POINTER) != rig.written {
        std::thread::yield_now();
    }
    assert_eq!((rig.word(WORDS), asleep(&rig, 0)), (7, 0), "rung, it is looked at");
}
