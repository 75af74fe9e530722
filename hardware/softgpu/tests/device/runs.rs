//! Signals that stand behind each other, on the device's threads: the engine executes them in one go, and what comes of them is what comes of
//! them one by one; and a queue that has not been rung yet.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use shared_words::log::{self, entry};
use softgpu_spec::LogSlot;

use super::*;

/// Bytes of system memory behind virtual address `SYSTEM`: three fences of two words each, a word for a copy, a log, and its second page.
const WORDS: u64 = 0x1_0000;
const THIRD: u64 = 512;
const THIRD_MONITORED: u64 = THIRD + 128;
const COPIED: u64 = 768;
const LOG: u64 = WORDS + 1024;
const ENTRIES: u64 = 5;
const SIGNALS: u64 = 90;
/// Signals of a row that an engine executes in one go unless something stops it, and the one among them that is of the third fence. The
/// entry behind that one would have its time.
const ROW: u64 = 40;
const MIDDLE: u64 = 4;
const VALUE: u64 = 7;
/// When a queue without progress is called stuck: nothing here takes a thousandth of it.
const STUCK_AFTER: Duration = Duration::from_secs(60);

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
    for monitored in [128, 384, THIRD_MONITORED] {
        Word::store(rig.system.word(WORDS + monitored), u64::MAX);
    }
    Word::store(rig.system.word(LOG + log::ENTRIES_OFFSET), ENTRIES);
    rig
}

/// The signals of a row, each with an entry of its own.
fn row() -> Vec<Command<'static>> {
    let header_va = SYSTEM + LOG - WORDS;
    let signal = |nth| {
        let log = Some(LogSlot { entry_va: header_va + log::entry_offset(nth), header_va, handle: 9 });
        match nth {
            MIDDLE => Command::Signal {
                current_va: SYSTEM + THIRD,
                monitored_va: SYSTEM + THIRD_MONITORED,
                value: VALUE,
                log,
            },
            _ => Command::Signal { current_va: SYSTEM, monitored_va: SYSTEM + 128, value: nth + 1, log },
        }
    };
    (0..ROW).map(signal).collect()
}

/// A device with a log for a row, and what is monitored of the third fence.
fn rig_for_row(monitored: u64) -> Rig {
    let rig = rig();
    Word::store(rig.system.word(LOG + log::ENTRIES_OFFSET), ROW);
    Word::store(rig.system.word(WORDS + THIRD_MONITORED), monitored);
    rig
}

/// The times of a row's entries.
fn times(rig: &Rig) -> Vec<u64> {
    (0..ROW).map(|nth| rig.word(LOG + log::entry_offset(nth) + entry::END)).collect()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < STUCK_AFTER, "stuck before {what}");
        std::thread::yield_now();
    }
}

/// Whether queue 0, which is selected, is at the end of what was rung.
fn is_through(rig: &Rig) -> bool {
    rig.gpu.read_register(QUEUE_READ_POINTER) == rig.written
}

/// Has the device do what was rung: in virtual time, or on its threads until the queue is at an end or has stopped.
fn run(rig: &Rig, on_threads: bool) {
    if !on_threads {
        rig.drain();
        return;
    }
    run_with(rig, || until("the end of the queue", || rig.state(0) == queue_state::FAULTED || is_through(rig)));
}

/// Lets the device's threads run while this does something.
fn run_with(rig: &Rig, act: impl FnOnce()) {
    let _running = rig.gpu.run_threads();
    act();
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
    let mut rig = rig_for_row(u64::MAX);
    // All of the row is announced before the engine's thread is there, and nothing asks for the engine meanwhile.
    rig.push(&row());
    let begun = rig.gpu.now();
    run(&rig, true);
    let times = times(&rig);
    assert!(times.is_sorted() && times[0] >= begun && times[ROW as usize - 1] <= rig.gpu.now(), "{times:?}");
    let longest = times.chunk_by(|a, b| a == b).map(<[u64]>::len).max();
    assert!(longest > Some(1), "the engine executes them in one go: {times:?}");
    assert!(longest <= Some(8), "a clock that stands still for no longer: {times:?}");
}

/// The interrupt comes while the engine stands at the signal in the middle: what its receiver sees then, and the time of the next entry.
#[test]
fn a_value_that_a_processor_waits_for_interrupts_from_the_middle_of_a_row() {
    // spec: sync §3.7, sync §3.14
    let mut rig = rig_for_row(VALUE - 1);
    let seen: Arc<Mutex<Vec<[u64; 4]>>> = Arc::default();
    let (notes, gpu, system) = (Arc::clone(&seen), Arc::downgrade(&rig.gpu), Arc::clone(&rig.system));
    let look = move || {
        let gpu = gpu.upgrade().expect("the device is there");
        let [signals, suppressed] =
            [counter::SIGNALS, counter::INTERRUPTS_SUPPRESSED].map(|register| gpu.read_register(register));
        let current = Word::load(system.word(WORDS + THIRD));
        notes.lock().unwrap().push([current, signals, suppressed, gpu.now()]);
    };
    *rig.pin.1.lock().unwrap() = Some(Box::new(look));
    rig.push(&row());
    run(&rig, true);
    let seen = seen.lock().unwrap();
    let [[current, signals, suppressed, interrupted_at]] = seen[..] else { panic!("one interrupt: {seen:?}") };
    assert_eq!([current, signals, suppressed], [VALUE, MIDDLE + 1, MIDDLE], "the signal is stored and counted");
    assert_eq!(rig.pop(), (record::FENCE, [0, SYSTEM + THIRD, VALUE]));
    assert_eq!(rig.pop().0, record::NONE);
    let next = times(&rig)[MIDDLE as usize + 1];
    assert!(
        next >= interrupted_at,
        "the signal behind it was executed at {next}, before the interrupt at {interrupted_at}"
    );
}

#[test]
fn a_queue_parked_on_a_value_in_the_middle_of_a_row_goes_on() {
    // spec: sync §3.7, sync §3.8, sync §3.14
    const WAITER_RING: u64 = 0x8000;
    for engine in [softgpu_spec::engine::COPY, softgpu_spec::engine::COMPUTE] {
        let mut rig = rig_for_row(u64::MAX);
        rig.enable(1, u64::from(engine), WAITER_RING, false);
        let mut words = Vec::new();
        for command in [
            Command::Wait { va: SYSTEM + THIRD, value: VALUE, log: None },
            Command::CopyRun { source_va: SYSTEM, target_va: SYSTEM + COPIED, count: 1 },
        ] {
            command.encode(&mut words);
        }
        (0..).zip(&words).for_each(|(nth, word)| Word::store(rig.system.word(WAITER_RING + nth * 8), *word));
        let bell = rig.gpu.doorbell_page();
        Word::store(bell.word(shared_words::doorbell::DOORBELL_BYTES), words.len() as u64 * 8);
        rig.gpu.doorbell_rung(1);
        rig.drain();
        assert_eq!(rig.state(1), queue_state::PARKED, "on engine {engine}");
        rig.push(&row());
        run_with(&rig, || {
            until("the end of the row", || rig.state(0) == queue_state::READY && is_through(&rig));
            until("the parked queue's next command", || rig.word(WORDS + COPIED) != 0);
        });
        assert_eq!(rig.pin.0.load(Ordering::Relaxed), 0, "no processor waits, engine {engine}");
        let times = times(&rig);
        let [told, next] = [MIDDLE, MIDDLE + 1].map(|nth| times[nth as usize]);
        assert!(next > told, "the entry behind a wake-up has a time of its own, engine {engine}: {times:?}");
        if engine == softgpu_spec::engine::COMPUTE {
            let then = rig.word(WORDS + COPIED);
            assert!(then < ROW, "the engine turns to the queue that it has unparked: {then} signals before its turn");
        }
    }
}

/// Signals that a suspension finds executed, when the engine rests for so long in the middle of a row and the suspension is asked for then.
fn executed_when_suspended(rests: Duration) -> u64 {
    let mut rig = rig_for_row(VALUE - 1);
    let is_there = Arc::new(AtomicBool::new(false));
    let says = Arc::clone(&is_there);
    // The suspension interrupts too, on this thread.
    let look = move || {
        if !says.swap(true, Ordering::AcqRel) {
            std::thread::sleep(rests);
        }
    };
    *rig.pin.1.lock().unwrap() = Some(Box::new(look));
    rig.push(&row());
    rig.gpu.write_register(QUEUE_SELECT, 0);
    let mut executed = 0;
    run_with(&rig, || {
        until("the middle of the row", || is_there.load(Ordering::Acquire));
        rig.gpu.write_register(QUEUE_CONTROL, queue_control::SUSPEND);
        executed = rig.gpu.read_register(counter::SIGNALS);
        rig.gpu.write_register(QUEUE_CONTROL, queue_control::RESUME);
        until("the end of the row", || is_through(&rig));
    });
    assert_eq!((rig.gpu.read_register(counter::SIGNALS), rig.word(WORDS)), (ROW, ROW), "the rest follows");
    executed
}

/// Attempts to have a suspension come while an engine rests.
const ATTEMPTS: u32 = 14;

#[test]
fn a_suspension_stops_an_engine_in_the_middle_of_a_row() {
    // spec: sync §3.7
    // This thread may get no processor while the engine rests: then the engine rests longer in the next attempt, a minute in the last.
    let executed: Vec<u64> = (0..ATTEMPTS)
        .map(|attempt| executed_when_suspended(Duration::from_millis(5 << attempt)))
        .take_while(|executed| *executed != MIDDLE + 1)
        .collect();
    assert!(
        executed.len() < ATTEMPTS as usize,
        "it went on behind signal {MIDDLE} in each attempt: {executed:?} were executed"
    );
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
    until("the end of the queue", || is_through(&rig));
    assert_eq!((rig.word(WORDS), asleep(&rig, 0)), (7, 0), "rung, it is looked at");
}
