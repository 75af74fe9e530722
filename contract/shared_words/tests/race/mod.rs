//! Two sides that store a word each and load the other's at the same moment, on two processors: rounds in which neither finds the other's
//! store are lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use shared_words::Memory;
use shared_words::across::Processors;

/// A side that has not come by then never comes.
const NEVER: Duration = Duration::from_secs(60);
/// Rounds of a race.
pub const ROUNDS: u64 = 200_000;
/// Pairs of words used in turn, so that a round's lines were last touched long ago.
const PAIRS: u64 = 512;
/// A word on a cache line of its own.
const LINE: u64 = 128;
/// Bytes of a race: how far each side is, the pairs, and what each found.
pub const BYTES: u64 = (LINE * (2 + 2 * PAIRS) + 2 * 8 * ROUNDS).next_multiple_of(4096);

/// Two of these processors.
pub fn two_of(processors: &[usize]) -> Option<(usize, usize)> {
    match processors {
        [first, second, ..] => Some((*first, *second)),
        _ => None,
    }
}

/// This thread runs there.
pub fn pin(processor: usize) {
    assert!(Processors::go_to(processor), "it was ours");
}

/// Goes on when both sides have come this far.
///
/// # Panics
/// When the other does not come: it has died.
pub fn meet(memory: &Memory, side: u64, turn: u64) {
    memory.word(LINE * side).store(turn, Ordering::Release);
    let mut looks = 0u64;
    let mut began = None;
    while memory.word(LINE * (1 - side)).load(Ordering::Acquire) < turn {
        looks += 1;
        if looks.is_multiple_of(1 << 10) {
            // The other side may wait for this processor's neighbour, which other programs have: they take their turns meanwhile.
            std::thread::yield_now();
            let began = began.get_or_insert_with(Instant::now);
            assert!(began.elapsed() < NEVER, "the other side does not come to turn {turn}");
        }
        std::hint::spin_loop();
    }
}

fn found(memory: &Memory, side: u64, round: u64) -> &AtomicU64 {
    memory.word(LINE * (2 + 2 * PAIRS) + 8 * (side * ROUNDS + round))
}

/// Runs one side, from this turn on.
pub fn run(memory: &Memory, side: u64, first_turn: u64, barrier: fn()) {
    for round in 0..ROUNDS {
        let [own, other] = [side, 1 - side].map(|word| memory.word(LINE * (2 + 2 * (round % PAIRS) + word)));
        meet(memory, side, first_turn + 2 * round);
        // It has the line that it is going to load, so that the load can be early and the store late.
        let _ = other.load(Ordering::Relaxed);
        meet(memory, side, first_turn + 2 * round + 1);
        own.store(round + 1, Ordering::Relaxed);
        barrier();
        let finds = other.load(Ordering::Relaxed) == round + 1;
        found(memory, side, round).store(finds.into(), Ordering::Relaxed);
    }
    meet(memory, side, first_turn + 2 * ROUNDS);
}

/// Rounds that were lost, when both have run.
pub fn lost(memory: &Memory) -> usize {
    let neither = |round: &u64| [0, 1].into_iter().all(|side| found(memory, side, *round).load(Ordering::Relaxed) == 0);
    (0..ROUNDS).filter(neither).count()
}
