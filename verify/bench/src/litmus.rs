//! The fence race on real processors: a signaller against the kernel's side, a fresh fence each round, both at the same
//! moment. With the barriers no wake-up may be lost; without them the count shows whether the processors reorder at all,
//! and so whether the first number says anything. Called by the suite.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use shared_words::{Barrier, HardwareBarrier, fence};

use crate::machine::pin_here;
use crate::report::{Goal, Row};

/// The barrier removed: the compiler keeps the order, the processor need not.
struct NoBarrier;

impl Barrier for NoBarrier {
    fn full() {
        compiler_fence(Ordering::SeqCst);
    }
}

#[repr(align(128))]
struct Line(AtomicU64);

/// A fence on cache lines of its own.
struct Fence {
    current: Line,
    monitored: Line,
}

/// Fences used in turn: enough that a round's lines were last touched long ago, few enough that they stay in the cache.
const FENCES: usize = 512;

/// Runs both forms.
// seed: N27
// spec: sync §3.9
pub(crate) fn rows(pair: [usize; 2], rounds: u64) -> Vec<Row> {
    let with = lost_wakeups::<HardwareBarrier>(pair, rounds);
    let without = lost_wakeups::<NoBarrier>(pair, rounds);
    let row = |measure: &str, lost: u64, goal| Row {
        measure: measure.into(),
        ours: format!("{lost} lost"),
        peer: format!("of {rounds} races"),
        ratio: None,
        goal,
    };
    vec![
        row("fence race, both barriers", with, Goal::Zero { counted: with }),
        row("fence race, barriers removed", without, Goal::None),
    ]
}

/// Rounds in which the signaller raised no interrupt and the kernel's side did not see the value either.
fn lost_wakeups<B: Barrier>(pair: [usize; 2], rounds: u64) -> u64 {
    let line = || Line(AtomicU64::new(0));
    let fences: Vec<_> = (0..FENCES).map(|_| Fence { current: line(), monitored: line() }).collect();
    let turns = [line(), line()];
    // Round r signals r + 1. MonitoredValue is "nobody waits" before the round; the waiter wants r + 1.
    let signaller = |round: u64| {
        let fence = &fences[round as usize % FENCES];
        fence::signal::<B>(&fence.current.0, &fence.monitored.0, round + 1, || ())
    };
    let kernel = |round: u64| {
        let fence = &fences[round as usize % FENCES];
        fence::publish_monitored::<B>(&fence.current.0, &fence.monitored.0, round)
    };
    std::thread::scope(|scope| {
        let run = |side: usize, act: &(dyn Fn(u64) -> bool + Sync)| {
            pin_here(pair[side]);
            let mut raised = vec![0u64; rounds.div_ceil(64) as usize];
            for round in 0..rounds {
                let fence = &fences[round as usize % FENCES];
                if side == 1 {
                    // The kernel's side also puts MonitoredValue back: nobody waits for this round's value yet.
                    fence.monitored.0.store(fence::MONITORED_NONE, Ordering::Release);
                }
                meet(&turns, side, 2 * round + 1);
                // Each side holds the line that it is going to load, so that the load can be early and the store late.
                let _ = if side == 0 { &fence.monitored } else { &fence.current }.0.load(Ordering::Relaxed);
                meet(&turns, side, 2 * round + 2);
                raised[round as usize / 64] |= u64::from(act(round)) << (round % 64);
            }
            raised
        };
        let kernel_side = scope.spawn(move || run(1, &kernel));
        let signaller_side = scope.spawn(move || run(0, &signaller));
        let (kernel, signaller) = (kernel_side.join(), signaller_side.join());
        let (kernel, signaller) = (kernel.expect("no panic"), signaller.expect("no panic"));
        let told = kernel.iter().zip(&signaller).map(|(one, other)| u64::from((one | other).count_ones())).sum::<u64>();
        rounds - told
    })
}

/// Goes on when both sides have come this far.
fn meet(turns: &[Line; 2], side: usize, turn: u64) {
    turns[side].0.store(turn, Ordering::Release);
    while turns[1 - side].0.load(Ordering::Acquire) < turn {}
}
