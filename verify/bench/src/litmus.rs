//! The races of fences and of doorbells on real processors: one side against the other, a fresh pair of words each round, both at the
//! same moment. With the barriers no wake-up may be lost; without them the count shows whether the processors reorder at all,
//! and so whether the first number says anything. Called by the suite.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use shared_words::{Barrier, FrequentBarrier, HardwareBarrier, RareBarrier, doorbell, fence};

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

/// Two words on cache lines of their own: CurrentValue and MonitoredValue, or a doorbell's value and whether its engine sleeps.
struct Pair {
    first: Line,
    second: Line,
}

/// Pairs used in turn: enough that a round's lines were last touched long ago, few enough that they stay in the cache.
const PAIRS: usize = 512;
/// A barrier for every thread of the process is a system call: so many times fewer rounds.
const RARE: u64 = 20;

/// Runs all forms.
// seed: N27
// spec: sync §3.9, sync §3.17
pub(crate) fn rows(pair: [usize; 2], rounds: u64) -> Vec<Row> {
    let row = |measure: &str, lost: u64, rounds: u64, goal| Row {
        measure: measure.into(),
        ours: format!("{lost} lost"),
        peer: format!("of {rounds} races"),
        ratio: None,
        goal,
    };
    let zero = |measure, lost, rounds| row(measure, lost, rounds, Goal::Zero { counted: lost });
    let fences = lost_wakeups::<HardwareBarrier>(pair, rounds);
    let reordered = lost_wakeups::<NoBarrier>(pair, rounds);
    let rings = lost_rings::<FrequentBarrier, RareBarrier>(pair, rounds / RARE);
    let reordered_rings = lost_rings::<NoBarrier, HardwareBarrier>(pair, rounds / RARE);
    vec![
        zero("fence race, both barriers", fences, rounds),
        row("fence race, barriers removed", reordered, rounds, Goal::None),
        zero("doorbell race, the sleeper's barrier for both", rings, rounds / RARE),
        row("doorbell race, the ringer's barrier removed", reordered_rings, rounds / RARE, Goal::None),
    ]
}

/// Rounds in which the signaller raised no interrupt and the kernel's side did not see the value either. Round r signals r + 1.
/// MonitoredValue is "no waiter" before the round; the waiter wants r + 1.
fn lost_wakeups<B: Barrier>(pair: [usize; 2], rounds: u64) -> u64 {
    let signaller =
        |Pair { first, second }: &Pair, round: u64| fence::signal(B::full, &first.0, &second.0, round + 1, || ());
    let kernel =
        |Pair { first, second }: &Pair, round: u64| fence::publish_monitored(B::full, &first.0, &second.0, round);
    lost(pair, rounds, fence::MONITORED_NONE, &signaller, &kernel)
}

/// Rounds in which the ringer saw an engine that is awake, and the engine sleeps all the same. Round r rings r + 1; the engine is awake
/// before.
fn lost_rings<P: Barrier, C: Barrier>(pair: [usize; 2], rounds: u64) -> u64 {
    let ringer = |Pair { first, second }: &Pair, round: u64| doorbell::ring(P::full, &first.0, &second.0, round + 1);
    let engine = |Pair { first, second }: &Pair, round: u64| {
        // The value that the pair was rung with in its last round.
        let seen = (round + 1).saturating_sub(PAIRS as u64);
        !doorbell::may_sleep(C::full, &first.0, &second.0, seen)
    };
    lost(pair, rounds, 0, &ringer, &engine)
}

/// The step of a side with the pair of a round; it returns whether it saw the other side's store.
type Side<'a> = dyn Fn(&Pair, u64) -> bool + Sync + 'a;

/// Rounds in which neither side knows of the other. The first stores the first word and loads the second, the second the other way
/// round; the second word is put back before each round.
fn lost(pair: [usize; 2], rounds: u64, before: u64, first: &Side<'_>, second: &Side<'_>) -> u64 {
    let line = || Line(AtomicU64::new(0));
    let pairs: Vec<_> = (0..PAIRS).map(|_| Pair { first: line(), second: line() }).collect();
    let turns = [line(), line()];
    let run = |side: usize, act: &Side<'_>| {
        pin_here(pair[side]);
        let mut knows = vec![0u64; rounds.div_ceil(64) as usize];
        for round in 0..rounds {
            let words = &pairs[round as usize % PAIRS];
            if side == 1 {
                words.second.0.store(before, Ordering::Release);
            }
            meet(&turns, side, 2 * round + 1);
            // Each side holds the line that it is going to load, so that the load can be early and the store late.
            let _ = if side == 0 { &words.second } else { &words.first }.0.load(Ordering::Relaxed);
            meet(&turns, side, 2 * round + 2);
            knows[round as usize / 64] |= u64::from(act(words, round)) << (round % 64);
        }
        knows
    };
    let sides = std::thread::scope(|scope| {
        let sides = [scope.spawn(|| run(0, first)), scope.spawn(|| run(1, second))];
        sides.map(|side| side.join().expect("no panic"))
    });
    let told = sides[0].iter().zip(&sides[1]).map(|(one, other)| u64::from((one | other).count_ones())).sum::<u64>();
    rounds - told
}

/// Goes on when both sides have come this far.
fn meet(turns: &[Line; 2], side: usize, turn: u64) {
    turns[side].0.store(turn, Ordering::Release);
    while turns[1 - side].0.load(Ordering::Acquire) < turn {}
}
