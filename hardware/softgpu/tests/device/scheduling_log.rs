//! An engine's log of the owners that it runs: states, times; logs that are full, exchanged, refused.

use shared_words::log;
use shared_words::scheduling_log::{self as layout, ContextState, Entry};

use super::sharing::{Queues, STEP_NS, rank};
use super::*;

/// Virtual pages from 40 on show system memory from here on.
const LOGS: u64 = 0x2_0000;
const VA: u64 = 40 * PAGE;
const FOR_EVER: [u64; 3] = [1 << 40, 0, 0];

use ContextState::{Idle, Ready, Running};

fn with_logs() -> Queues {
    let queues = Queues::new();
    (0..8).for_each(|page| queues.rig.map(40 + page, SYSTEM_BASE + LOGS + page * PAGE, 0));
    queues.rig.map(48, SYSTEM_BASE + LOGS, READ_ONLY);
    queues.rig.gpu.write_register(CMP_ROOT, ROOT);
    queues
}

/// Gives the engine of the queues a log; whether it writes one now.
fn set(rig: &Rig, va: u64, entries: u64, interrupt: u64, control: u64) -> bool {
    // The old header there counts nothing yet, and the entries are not zeroed.
    if (VA..VA + 8 * PAGE).contains(&va) && entries < 128 {
        Word::store(rig.system.word(LOGS + va - VA), 0);
        (0..entries * 4).for_each(|word| Word::store(rig.system.word(LOGS + va - VA + 32 + word * 8), u64::MAX));
    }
    for (register, value) in [
        (SCHEDULING_LOG_ENGINE, engine_of(true)),
        (SCHEDULING_LOG_ADDRESS, va),
        (SCHEDULING_LOG_ENTRIES, entries),
        (SCHEDULING_LOG_INTERRUPT, interrupt),
        (SCHEDULING_LOG_CONTROL, control),
    ] {
        rig.gpu.write_register(register, value);
    }
    rig.gpu.read_register(SCHEDULING_LOG_CONTROL) == 1
}

/// How many entries were ever written, and what lies in each place of the ring.
fn log_at(rig: &Rig, va: u64, entries: u64) -> (u64, Vec<(u64, u64, ContextState)>) {
    let at = LOGS + va - VA;
    let total = log::total(rig.word(at), entries);
    let words = |index: u64| [0, 8, 16, 24].map(|field| rig.word(at + layout::entry_offset(index) + field));
    let entry = |index: u64| Entry::from_words(words(index)).expect("a state that there is");
    let tell = |Entry { time, context, state }: Entry| (time, context, state);
    (total, (0..total.min(entries)).map(entry).map(tell).collect())
}

fn owner(queues: &Queues, queue: u64, owner: u64) {
    queues.rig.gpu.write_register(QUEUE_SELECT, queue);
    queues.rig.gpu.write_register(QUEUE_OWNER, owner);
    assert_eq!(queues.rig.gpu.read_register(QUEUE_OWNER), owner);
}

#[test]
fn a_log_tells_who_has_the_engine_from_when_on_and_who_waits_for_it() {
    // spec: sync §4.2
    let mut queues = with_logs();
    assert!(set(&queues.rig, VA, 127, 127, 1));
    queues.bands(2, 0, 1 << 40, 0);
    (1..=3).zip([70, 90, 80]).for_each(|(queue, name)| owner(&queues, queue, name));
    queues.start(rank(1, 7, 1), FOR_EVER, &[6]);
    queues.start(rank(1, 6, 1), FOR_EVER, &[1]);
    // A higher band takes the engine when the command under way is done, and gives it back.
    queues.rig.gpu.tick(2 * STEP_NS + 500);
    queues.start(rank(2, 7, 2), FOR_EVER, &[5]);
    let end = queues.rig.drain();
    let (branch, fill) = (50, STEP_NS - 50);
    let taken = branch + 2 * STEP_NS + fill;
    let back = taken + branch + 5 * STEP_NS;
    let last = back + 50 + 3 * STEP_NS;
    let told = vec![
        (0, 90, Ready),
        (0, 70, Running),
        (taken, 70, Ready),
        (taken, 80, Running),
        (back, 80, Idle),
        (back, 70, Running),
        (last, 70, Idle),
        (last, 90, Running),
        (last + branch + STEP_NS, 90, Idle),
    ];
    assert_eq!(log_at(&queues.rig, VA, 127), (9, told));
    assert_eq!(end, last + branch + STEP_NS);
    assert_eq!(queues.rig.pop().0, record::NONE, "no interrupt was asked for");
}

#[test]
fn queues_of_one_owner_are_one_and_those_of_none_are_not_told() {
    // spec: sync §4.2
    let mut queues = with_logs();
    assert!(set(&queues.rig, VA, 127, 127, 1));
    (1..=3).zip([70, 70, 0]).for_each(|(queue, name)| owner(&queues, queue, name));
    let quantum = [STEP_NS, 0, 0];
    queues.start(rank(1, 7, 1), quantum, &[2]);
    queues.start(rank(1, 7, 1), quantum, &[2]);
    queues.start(rank(0, 7, 2), quantum, &[2]);
    queues.rig.drain();
    let (total, told) = log_at(&queues.rig, VA, 127);
    assert_eq!(told, [(0, 70, Running), (2 * 50 + 4 * STEP_NS, 70, Idle)]);
    assert_eq!(total, 2);
}

#[test]
fn a_ring_that_is_full_goes_on_at_its_beginning_and_counts_that() {
    // spec: sync §4.2, sync §2.7
    let mut queues = with_logs();
    assert!(set(&queues.rig, VA, 4, 1, 1));
    (1..=2).zip([70, 90]).for_each(|(queue, name)| owner(&queues, queue, name));
    let quantum = [STEP_NS, 0, 0];
    queues.start(rank(1, 7, 1), quantum, &[3]);
    queues.start(rank(1, 7, 1), quantum, &[3]);
    queues.rig.drain();
    let (total, told) = log_at(&queues.rig, VA, 4);
    assert_eq!(rig_position(&queues.rig), log::position(total, 4), "index below, wraps above, in one word");
    assert!(total > 8, "{total} entries were written");
    // The newest entries are there, each in its place.
    let newest = (0..4).map(|index| (index + 4 - total % 4) % 4);
    let mut by_age: Vec<_> = newest.zip(told).collect();
    by_age.sort_by_key(|(age, _)| *age);
    assert!(by_age.is_sorted_by_key(|(_, (time, ..))| *time), "{by_age:?}");
    assert_eq!(by_age[3].1.2, Idle, "the last entry says that no owner runs");
    // Entry 1 is written once a round, and told each time.
    let tellings = (0..total).filter(|number| number % 4 == 1).count();
    let records: Vec<_> =
        std::iter::from_fn(|| Some(queues.rig.pop()).filter(|(kind, _)| *kind != record::NONE)).collect();
    assert_eq!(records, vec![(record::SCHEDULING_LOG, [engine_of(true), 0, 0]); tellings]);
}

fn rig_position(rig: &Rig) -> u64 {
    rig.word(LOGS)
}

#[test]
fn when_a_log_is_taken_away_nothing_more_is_written_there() {
    // spec: sync §4.2
    let mut queues = with_logs();
    (1..=2).zip([70, 90]).for_each(|(queue, name)| owner(&queues, queue, name));
    queues.bands(1, 0, 1 << 40, 0);
    queues.start(rank(1, 7, 1), FOR_EVER, &[4]);
    queues.start(rank(1, 6, 1), FOR_EVER, &[4]);
    queues.rig.gpu.tick(STEP_NS);
    // A log that is new to the engine begins with what is.
    assert!(set(&queues.rig, VA, 127, 127, 1));
    assert_eq!(log_at(&queues.rig, VA, 127).1, [(STEP_NS, 90, Ready), (STEP_NS, 70, Running)]);
    // One behind another goes on where that ended.
    queues.rig.gpu.tick(2 * STEP_NS);
    assert!(set(&queues.rig, VA + 4 * PAGE, 127, 127, 1));
    assert_eq!(log_at(&queues.rig, VA + 4 * PAGE, 127).0, 0);
    let change = 50 + 4 * STEP_NS;
    queues.rig.gpu.tick(change);
    assert_eq!(log_at(&queues.rig, VA + 4 * PAGE, 127).1, [(change, 70, Idle), (change, 90, Running)]);
    assert_eq!(log_at(&queues.rig, VA, 127).0, 2, "the old one is as it was");
    assert!(!set(&queues.rig, VA, 127, 127, 0));
    queues.rig.drain();
    assert_eq!((log_at(&queues.rig, VA, 127).0, log_at(&queues.rig, VA + 4 * PAGE, 127).0), (0, 2));
}

#[test]
fn an_owner_whose_queue_is_taken_off_the_engine_is_idle_at_once() {
    // spec: sync §4.2, sync §4.1
    let mut queues = with_logs();
    assert!(set(&queues.rig, VA, 127, 127, 1));
    (1..=2).zip([70, 90]).for_each(|(queue, name)| owner(&queues, queue, name));
    queues.start(rank(1, 7, 1), FOR_EVER, &[4]);
    queues.start(rank(1, 6, 1), FOR_EVER, &[4]);
    queues.rig.gpu.tick(STEP_NS);
    queues.rig.gpu.write_register(QUEUE_SELECT, 1);
    queues.rig.gpu.write_register(QUEUE_CONTROL, queue_control::SUSPEND);
    let at = queues.rig.gpu.now();
    assert_eq!(log_at(&queues.rig, VA, 127).1[2..], [(at, 70, Idle)]);
    queues.rig.gpu.tick(at + STEP_NS);
    assert_eq!(log_at(&queues.rig, VA, 127).1[3], (at, 90, Running));
}

#[test]
fn a_log_across_pages_is_found_page_by_page_and_one_that_is_nowhere_is_not_taken() {
    // spec: sync §4.2
    let mut queues = with_logs();
    // The header at the end of a page, the entries on the next; and those pages not side by side.
    let va = VA + PAGE - 32;
    queues.rig.map(41, SYSTEM_BASE + LOGS + 5 * PAGE, 0);
    owner(&queues, 1, 70);
    assert!(set(&queues.rig, va, 127, 127, 1));
    queues.start(rank(1, 7, 1), FOR_EVER, &[1]);
    queues.rig.drain();
    assert_eq!(queues.rig.word(LOGS + PAGE - 32), 2);
    assert_eq!([0, 16, 24].map(|field| queues.rig.word(LOGS + 5 * PAGE + field)), [0, 70, 1]);
    for (va, entries) in [
        (48 * PAGE, 1),
        (60 * PAGE, 1),
        (VA + 8, 1),
        (VA, 0),
        (VA + 7 * PAGE, 129),
        (VA, u64::MAX / 32),
        (u64::MAX - 31, 1),
    ] {
        assert!(!set(&queues.rig, va, entries, 0, 1), "{va:#x}, {entries} entries");
    }
    queues.rig.gpu.write_register(SCHEDULING_LOG_ENGINE, 2);
    assert_eq!(queues.rig.gpu.read_register(SCHEDULING_LOG_ENGINE), engine_of(true));
}
