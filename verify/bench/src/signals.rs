//! Signals that no CPU waiter wants: what one costs, and that none of them interrupts. Called by the suite.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use shared_words::{Barrier, HardwareBarrier, Word};
use softgpu_spec::register::counter;
use softgpu_spec::{Command, engine};

use crate::machine::pin_here;
use crate::report::{BenchError, Goal, Row};
use crate::rig::{RING_BYTES, Rig, word_va};
use crate::statistic::{median, median_ratio};

const QUEUE: u32 = 0;
const FENCE: u64 = word_va(0);
const BEGUN: u64 = word_va(2);
const ENDED: u64 = word_va(3);
/// A ring full, but for the two timestamps: a signal is four words, a timestamp two.
const SIGNALS_A_TURN: u64 = RING_BYTES / 32 - 1;

/// Executes at least `count` signals of rising values.
// spec: sync §3.19
pub(crate) fn rows(pair: [usize; 2], count: u64) -> Result<Vec<Row>, BenchError> {
    let mut rig = Rig::start(4096, 0, pair)?;
    rig.enable(QUEUE, engine::COMPUTE);
    rig.clear_fence(FENCE);
    let (mut signals, mut limits) = (Vec::new(), Vec::new());
    let turns = count.div_ceil(SIGNALS_A_TURN);
    for turn in 0..turns {
        let value = turn * SIGNALS_A_TURN;
        let signal = |value| Command::Signal { current_va: FENCE, monitored_va: FENCE + 128, value, log: None };
        let begun = std::iter::once(Command::Timestamp { va: BEGUN });
        let commands: Vec<_> = begun
            .chain((1..=SIGNALS_A_TURN).map(|index| signal(value + index)))
            .chain(std::iter::once(Command::Timestamp { va: ENDED }))
            .collect();
        rig.fill(QUEUE, &commands);
        rig.turn(QUEUE);
        rig.wait_idle(QUEUE)?;
        let taken = Word::load(rig.word(ENDED)).saturating_sub(Word::load(rig.word(BEGUN)));
        signals.push(taken as f64 / SIGNALS_A_TURN as f64);
        limits.push(bare_signal_ns(pair[0]));
    }
    let executed = rig.counter(counter::SIGNALS);
    if executed != turns * SIGNALS_A_TURN || Word::load(rig.word(FENCE)) != executed {
        return Err(BenchError::Device(format!("{executed} of {} signals were executed", turns * SIGNALS_A_TURN)));
    }
    // Two witnesses: what the device counts, and what came out at its pin.
    let raised = rig.counter(counter::INTERRUPTS_RAISED).max(rig.interrupts());
    let zero = Row {
        measure: "interrupts of signals without a waiter".into(),
        ours: format!("{raised} interrupts"),
        peer: format!("of {executed} signals"),
        ratio: None,
        goal: Goal::Zero { counted: raised },
    };
    let ratio = Some(median_ratio(&signals, &limits));
    let (ours, peer) = (format!("{:.1} ns", median(signals)), format!("store, barrier, load {:.1} ns", median(limits)));
    let price = Row { measure: "signal without a waiter".into(), ours, peer, ratio, goal: Goal::None };
    Ok(vec![zero, price])
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
