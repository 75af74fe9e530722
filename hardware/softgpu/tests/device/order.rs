//! Each barrier of the device is needed. Each unit has a store buffer that nothing but its barriers empties ([`Probe::buffers_stores`]),
//! so a store before a missing barrier is missing where the other side looks: taken out, each barrier fails a test here, with the same
//! outcome each time.

mod buffered;

use device_port::Unit;
use shared_words::{Barrier, HardwareBarrier, doorbell, log};
use softgpu_spec::LogSlot;

use super::signals::looked_at;
use super::*;
use buffered::*;

/// The bench shows what it is there for: without a barrier a store is seen by its unit alone.
#[test]
fn a_store_is_its_units_own_until_a_barrier() {
    let (mut rig, bench) = buffered();
    let seen: Arc<Mutex<Vec<Stored>>> = Arc::default();
    let notes = Arc::clone(&seen);
    *bench.overtakes.lock().unwrap() = Some(Box::new(move |_, unit, bus, value| {
        if bus.is_some() {
            notes.lock().unwrap().push((unit, bus, value));
        }
        false
    }));
    rig.give(0, &[signal(5)]);
    assert_eq!(*seen.lock().unwrap(), [(Unit::Engine(0), Some(SYSTEM_BASE + CURRENT), 5)]);
    assert_eq!(rig.word(CURRENT), 5, "the signal has a barrier behind it");
    rig.drain();
    assert!(rig.gpu.now() < 1_000_000, "nothing is on its way any more");
}

/// At equality the engine's own look is silent: the CMP, which would decide the same, is not asked.
#[test]
fn an_engine_asks_for_a_value_that_exceeds_what_is_monitored_and_for_no_other() {
    // spec: sync §1.3, sync §3.9
    // seed: N17
    let (mut rig, bench) = buffered();
    rig.publish(41);
    let asked = Arc::new(AtomicU64::new(0));
    for (value, times) in [(40, 0), (41, 0), (42, 1)] {
        let count = Arc::clone(&asked);
        *bench.asked.lock().unwrap() = Some(Box::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        rig.put(0, &[signal(value)]);
        run_due(&rig.gpu);
        assert_eq!((rig.word(CURRENT), asked.load(Ordering::Relaxed)), (value, times), "against 41");
    }
}

/// Race one: no CPU waiter is there when the engine looks, and a waiter that comes behind that look does not miss the value.
#[test]
fn an_engines_barrier_lets_an_update_find_its_value() {
    // spec: sync §3.9, sync §3.19 item 1
    // seed: N27, N33
    let (mut rig, _) = buffered();
    rig.give(0, &[signal(5)]);
    assert_eq!(rig.pin.0.load(Ordering::Relaxed), 0, "no CPU waiter needs it");
    rig.publish(4);
    assert_eq!(
        rig.word(CURRENT),
        5,
        "a reader behind the update reads a value that was decided by the old MonitoredValue"
    );
    assert_eq!(rig.pin.0.load(Ordering::Relaxed), 1);
    assert_eq!(rig.pop(), (record::MONITORED, [va(CURRENT), 5, 0]));
}

/// Race two: the CMP has looked at CurrentValue, and an engine writes a newer one: it has to see the new MonitoredValue.
#[test]
fn the_cmps_barrier_lets_an_engine_find_the_waiter() {
    // spec: sync §3.9, sync §3.19 item 1
    // seed: N28, N30, N31
    let (mut rig, _) = buffered();
    rig.publish(4);
    assert_eq!(rig.pin.0.load(Ordering::Relaxed), 0, "the value has not come");
    rig.give(0, &[signal(5)]);
    assert_eq!((rig.pop(), rig.pin.0.load(Ordering::Relaxed)), ((record::FENCE, [0, va(CURRENT), 5]), 1));
    // The same with another engine's value, which comes while the CMP is asked about the first.
    let (mut rig, bench) = buffered();
    *bench.asked.lock().unwrap() = Some(Box::new(|gpu| publish(gpu, 5)));
    rig.publish(4);
    rig.give(0, &[signal(5)]);
    assert_eq!(rig.pin.0.load(Ordering::Relaxed), 0, "no waiter is left for 5");
    rig.give(1, &[signal(6)]);
    assert_eq!((rig.pop(), rig.pin.0.load(Ordering::Relaxed)), ((record::FENCE, [1, va(CURRENT), 6]), 1));
}

/// An engine's look is a question; the answer is the CMP's, by the MonitoredValue of then.
#[test]
fn the_cmp_decides_and_not_the_engine() {
    // spec: sync §3.9
    // seed: N29
    for (raised_to, interrupts) in [(u64::MAX, 0), (5, 0), (4, 1)] {
        let (mut rig, bench) = buffered();
        rig.publish(4);
        *bench.asked.lock().unwrap() = Some(Box::new(move |gpu| publish(gpu, raised_to)));
        rig.give(0, &[signal(5)]);
        assert!(bench.asked.lock().unwrap().is_none(), "the engine's own look said so");
        let by_signal = rig.gpu.read_register(counter::INTERRUPTS_RAISED);
        assert_eq!(by_signal, interrupts, "5 against {raised_to}");
    }
    let (mut rig, bench) = buffered();
    *bench.asked.lock().unwrap() = Some(Box::new(|_| panic!("its look says that no waiter is there")));
    rig.give(0, &[signal(5)]);
    rig.publish(6);
    rig.give(0, &[signal(6)]);
}

#[test]
fn a_wait_that_parks_is_found_by_who_signals_behind_it() {
    // spec: sync §3.8
    // seed: N06
    for signals_first in [false, true] {
        let (mut rig, _) = buffered();
        if signals_first {
            rig.give(0, &[signal(5)]);
        }
        rig.give(1, &waits());
        if !signals_first {
            assert_eq!(rig.state(1), queue_state::PARKED);
            rig.give(0, &[signal(5)]);
        }
        // Unparking takes its time, and the engine that has signalled is busy for longer.
        run_for(&rig.gpu, 1_500);
        assert_eq!((rig.word(ANSWER), rig.state(1)), (1, queue_state::READY), "signal first: {signals_first}");
    }
}

/// The log's one barrier stands behind the header: the kernel, told of the next event, finds the entry announced.
#[test]
fn an_entry_is_announced_when_its_command_is_over() {
    // spec: sync §3.14
    // seed: N109
    let logged = |log| {
        [
            (Command::Wait { va: va(CURRENT), value: 0, log }, log::WAIT_UNBLOCKED, 0),
            (
                Command::Signal { current_va: va(CURRENT), monitored_va: va(MONITORED), value: 3, log },
                log::SIGNAL_EXECUTED,
                3,
            ),
            (Command::Log { slot: slot(), operation: 2, value: 7 }, log::SUBMISSION_BEGUN, 7),
        ]
    };
    for (command, operation, value) in logged(Some(slot())) {
        let (mut rig, _) = buffered();
        rig.give(0, &[command]);
        assert_eq!(rig.word(LOG + log::POSITION_OFFSET), 1, "{command:?}");
        let [of, named] = [log::entry::FENCE_VALUE, log::entry::HANDLE_AND_OPERATION].map(|at| rig.word(ENTRY + at));
        assert_eq!((of, named), (value, 9 | u64::from(operation) << 32), "{command:?}");
    }
}

/// There is no barrier between entry and header: a reader that finds the header has the entry committed, while the engine is about its
/// command.
#[test]
fn what_an_engine_has_written_is_committed_while_it_goes_on() {
    // spec: sync §2.7, sync §3.14
    // seed: N109, N111
    let (mut rig, bench) = buffered();
    Word::store(rig.system.word(CURRENT), 3);
    let looks: Arc<Mutex<Vec<[u64; 2]>>> = Arc::default();
    let (notes, system) = (Arc::clone(&looks), Arc::clone(&rig.system));
    *bench.overtakes.lock().unwrap() = Some(Box::new(move |gpu, _, bus, _| {
        let header = bus == Some(SYSTEM_BASE + LOG);
        if header {
            let look = || [LOG, ENTRY].map(|at| Word::load(system.word(at)));
            let before = look();
            gpu.write_register(QUEUE_SELECT, 0);
            gpu.write_register(QUEUE_CONTROL, queue_control::COMMIT);
            notes.lock().unwrap().extend([before, look()]);
        }
        header
    }));
    rig.give(0, &[Command::Wait { va: va(CURRENT), value: 3, log: Some(slot()) }]);
    assert_eq!(*looks.lock().unwrap(), [[0, 0], [1, 3]], "not there, and then both are");
}

/// A log's header is advanced by the engine and not by the commands' author: entry by entry, and from the last to the first with one wrap
/// more, in one word. An engine that is listened to and one that is not write it by different paths, and so do a header or an entry that
/// lie across pages.
#[test]
fn the_engine_advances_index_and_wraps() {
    // spec: sync §2.7, sync §3.14
    // seed: N99, N129 (two)
    let across = va(CURRENT) + PAGE - 8;
    let places = [(va(LOG), va(ENTRY)), (across, va(ENTRY)), (va(LOG), across)];
    for (probed, (header_va, entry_va)) in [true, false].into_iter().flat_map(|probed| places.map(|at| (probed, at))) {
        let mut rig = if probed { buffered().0 } else { mapped(DataMode::Stored, false) };
        let at = CURRENT + header_va - va(CURRENT);
        Word::store(rig.system.word(at + log::ENTRIES_OFFSET), 2);
        let log = Some(LogSlot { entry_va, header_va, handle: 9 });
        for (written, (index, wraps)) in (1..).zip([(1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]) {
            let signal = Command::Signal { current_va: va(CURRENT), monitored_va: va(MONITORED), value: written, log };
            if probed {
                rig.give(0, &[signal]);
            } else {
                rig.run(&[signal]);
            }
            assert_eq!(rig.word(at), wraps << 32 | index, "{written} entries, probed: {probed}, {header_va:#x}");
            rig.drain();
        }
    }
}

/// A signal that changes nothing, because its word is sealed, has its entry: the next command has the next one.
#[test]
fn a_sealed_signal_leaves_no_hole_in_its_log() {
    // spec: sync §3.14, sync §3.16
    let (mut rig, _) = buffered();
    rig.gpu.write_register(CMP_ARGUMENT_0, va(CURRENT));
    rig.gpu.write_register(CMP_COMMAND, cmp::SEAL);
    rig.give(
        0,
        &[Command::Signal { current_va: va(CURRENT), monitored_va: va(MONITORED), value: 3, log: Some(slot()) }],
    );
    assert_eq!([CURRENT, LOG, ENTRY].map(|at| rig.word(at)), [u64::MAX, 1, 3]);
}

#[test]
fn a_seal_is_seen_by_who_parks_and_who_signals_behind_it() {
    // spec: sync §3.16
    let seal = |gpu: &SoftGpu| {
        gpu.write_register(CMP_ARGUMENT_0, va(CURRENT));
        gpu.write_register(CMP_COMMAND, cmp::SEAL);
    };
    let (mut rig, _) = buffered();
    seal(&rig.gpu);
    rig.give(1, &waits());
    assert_eq!(rig.word(ANSWER), 1, "no engine parks on it any more");
    // A signal between the seal and its value leaves the word alone.
    let (mut rig, bench) = buffered();
    let between: Arc<Mutex<Option<u64>>> = Arc::default();
    let (note, system) = (Arc::clone(&between), Arc::clone(&rig.system));
    *bench.overtakes.lock().unwrap() = Some(Box::new(move |gpu, unit, bus, value| {
        let sealing = (unit, bus, value) == (Unit::Cmp, Some(SYSTEM_BASE + CURRENT), u64::MAX);
        if sealing {
            gpu.write_register(QUEUE_SELECT, 0);
            // It begins the signal, and ends it: when an engine falls asleep all stores arrive.
            (0..2).for_each(|_| gpu.tick(gpu.next_event().expect("a command")));
            assert_ne!(gpu.read_register(QUEUE_READ_POINTER), 0, "it is over");
            *note.lock().unwrap() = Some(Word::load(system.word(CURRENT)));
        }
        sealing
    }));
    rig.push(&[signal(3), Command::Nop]);
    seal(&rig.gpu);
    assert_eq!((*between.lock().unwrap(), rig.word(CURRENT)), (Some(0), u64::MAX));
    // And one that has not looked for the seal when it comes.
    let (mut rig, bench) = buffered();
    rig.publish(4);
    *bench.asked.lock().unwrap() = Some(Box::new(move |gpu| seal(gpu)));
    rig.give(0, &[signal(5)]);
    assert_eq!(rig.word(CURRENT), u64::MAX);
}

/// An interrupt without a question, also for a value that is there already, or less: the value stands there when it comes, and a queue
/// that parks behind it sees it.
#[test]
fn a_signal_of_a_monitored_fence_is_seen_when_it_interrupts() {
    // spec: sync §3.7
    // seed: N04 (two)
    let (mut rig, _) = buffered();
    let seen = looked_at(&rig, [CURRENT; 3]);
    for value in [7, 7, 5, 5] {
        rig.give(0, &[Command::SignalAlways { va: va(CURRENT), value }]);
        rig.drain();
    }
    assert_eq!(*seen.lock().unwrap(), [[7; 3], [7; 3], [5; 3], [5; 3]], "every time");
    rig.give(1, &waits());
    assert_eq!(rig.word(ANSWER), 1);
}

/// The doorbell's second word against its first: a producer that rings a sleeping engine learns that it sleeps.
#[test]
fn who_rings_an_engine_that_fell_asleep_wakes_it() {
    // spec: sync §3.17
    let (mut rig, _) = buffered();
    rig.put(0, &[signal(1)]);
    run_due(&rig.gpu);
    let mut words = Vec::new();
    signal(2).encode(&mut words);
    for (word, at) in words.iter().zip((rig.written..).step_by(8)) {
        Word::store(rig.system.word(RING + at % RING_BYTES), *word);
    }
    let page = rig.gpu.doorbell_page();
    let (value, asleep) = (page.word(doorbell::VALUE_OFFSET), page.word(doorbell::ASLEEP_OFFSET));
    let end = rig.written + words.len() as u64 * 8;
    assert!(doorbell::ring(HardwareBarrier::full, value, asleep, end), "it sleeps");
    rig.gpu.doorbell_rung(0);
    run_due(&rig.gpu);
    assert_eq!(rig.word(CURRENT), 2);
}
