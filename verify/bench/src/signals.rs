//! Signals that no CPU waiter wants: what one costs, without an entry in a log and with one, and that none of them interrupts. Called by the
//! suite.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use shared_words::{Barrier, HardwareBarrier, Word};
use softgpu_spec::register::counter;
use softgpu_spec::{Command, engine};

use crate::machine::pin_here;
use crate::report::{BenchError, Goal, Row};
use crate::rig::{RING_BYTES, Rig, log_slot, word_va};
use crate::statistic::{median, median_ratio};

const QUEUE: u32 = 0;
const FENCE: u64 = word_va(0);
const BEGUN: u64 = word_va(2);
const ENDED: u64 = word_va(3);
/// At most this many times what a signal is at least.
const PLAIN_GOAL: f64 = 3.0;
/// The same with an entry of its time in the queue's log.
const LOGGED_GOAL: f64 = 8.0;

/// How signals are sent.
struct Way {
    name: &'static str,
    logs: bool,
    /// A ring full, but for the two timestamps: a signal is four words, with a place in a log eight, a timestamp two.
    signals_a_turn: u64,
    goal: f64,
}

const WAYS: [Way; 2] = [
    Way {
        name: "signal without a waiter, logs off",
        logs: false,
        signals_a_turn: RING_BYTES / 32 - 1,
        goal: PLAIN_GOAL,
    },
    Way {
        name: "signal without a waiter, logs on",
        logs: true,
        signals_a_turn: RING_BYTES / 64 - 1,
        goal: LOGGED_GOAL,
    },
];

/// Executes at least `count` signals of rising values in each way.
// spec: sync §3.19
pub(crate) fn rows(pair: [usize; 2], count: u64) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for way in &WAYS {
        rows.extend(row(way, pair, count)?);
    }
    Ok(rows)
}

fn row(way: &Way, pair: [usize; 2], count: u64) -> Result<[Row; 2], BenchError> {
    let mut rig = Rig::start(4096, 0, pair)?;
    rig.enable(QUEUE, engine::COMPUTE);
    rig.clear_fence(FENCE);
    let (mut signals, mut limits) = (Vec::new(), Vec::new());
    let turns = count.div_ceil(way.signals_a_turn);
    for turn in 0..turns {
        let first = turn * way.signals_a_turn + 1;
        let signal = |value| {
            let log = way.logs.then(|| log_slot(QUEUE, value));
            Command::Signal { current_va: FENCE, monitored_va: FENCE + 128, value, log }
        };
        let commands: Vec<_> = std::iter::once(Command::Timestamp { va: BEGUN })
            .chain((first..first + way.signals_a_turn).map(signal))
            .chain(std::iter::once(Command::Timestamp { va: ENDED }))
            .collect();
        rig.fill(QUEUE, &commands);
        rig.turn(QUEUE);
        rig.wait_idle(QUEUE)?;
        let taken = Word::load(rig.word(ENDED)).saturating_sub(Word::load(rig.word(BEGUN)));
        signals.push(taken as f64 / way.signals_a_turn as f64);
        limits.push(bare_signal_ns(pair[0]));
    }
    let (asked, executed) = (turns * way.signals_a_turn, rig.counter(counter::SIGNALS));
    if executed != asked || Word::load(rig.word(FENCE)) != executed {
        return Err(BenchError::Device(format!("{executed} of {asked} signals were executed")));
    }
    // Two witnesses: what the device counts, and what came out at its pin.
    let raised = rig.counter(counter::INTERRUPTS_RAISED).max(rig.interrupts());
    let zero = Row {
        measure: format!("{}: interrupts", way.name),
        ours: format!("{raised} interrupts"),
        peer: format!("of {executed} signals"),
        ratio: None,
        goal: Goal::Zero { counted: raised },
    };
    let ratio = Some(median_ratio(&signals, &limits));
    let (ours, peer) = (format!("{:.1} ns", median(signals)), format!("store, barrier, load {:.1} ns", median(limits)));
    Ok([zero, Row { measure: way.name.into(), ours, peer, ratio, goal: Goal::AtMost(way.goal) }])
}

/// The least that a signal is: store, full barrier, load, on lines that no other thread touches.
fn bare_signal_ns(processor: usize) -> f64 {
    const ROUNDS: u64 = 20_000;
    let bare = || {
        pin_here(processor);
        let (current, monitored) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let started = Instant::now();
        for value in 0..ROUNDS {
            Word::store(black_box(&current), value);
            HardwareBarrier::full();
            black_box(Word::load(black_box(&monitored)));
        }
        started.elapsed().as_nanos() as f64 / ROUNDS as f64
    };
    std::thread::scope(|scope| scope.spawn(bare).join().expect("the measuring thread does not panic"))
}
