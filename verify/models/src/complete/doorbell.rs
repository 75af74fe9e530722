//! Two queues of one engine, with a ring of two entries each, whose producers ring while the engine falls asleep:
//! [`shared_words::doorbell`]. Each ring holds one entry at first, so that what is appended wraps around; a producer waits for room.

use shared_words::doorbell::{awake, may_sleep, ring};
use shared_words::{Barrier, Word};

use crate::buffers::{Cell, Full, Program, again, drained, explore};
use crate::explore::{Ending, Explored};

const ENTRIES: u64 = 2;
/// The processors that ring.
const PRODUCERS: [usize; 2] = [0, 1];

/// The rare side's barrier of the asymmetric form ([`shared_words::RareBarrier`]): its own stores have arrived, and then those of all
/// others, one after the other.
pub struct Everybody;

impl Barrier for Everybody {
    fn full() {
        Full::full();
        PRODUCERS.into_iter().for_each(drained);
    }
}

/// The same without the second producer: as if a thread had been left out.
pub struct NotEverybody;

impl Barrier for NotEverybody {
    fn full() {
        Full::full();
        drained(PRODUCERS[0]);
    }
}

/// The frequent side's barrier of the asymmetric form ([`shared_words::FrequentBarrier`]): nothing that the processor sees.
pub struct Nothing;

impl Barrier for Nothing {
    fn full() {}
}

/// Of one queue: doorbell value, asleep, read pointer, entries, sum of the entries that were executed.
const QUEUE_WORDS: usize = 6;
const TOKEN: Cell = Cell(2 * QUEUE_WORDS);
/// Entries that are there at first, not executed.
const WRITTEN: u64 = 1;

#[derive(Clone, Copy)]
struct Queue(usize);

impl Queue {
    fn word(self, at: usize) -> Cell {
        Cell(self.0 * QUEUE_WORDS + at)
    }
    fn value(self) -> Cell {
        self.word(0)
    }
    fn asleep(self) -> Cell {
        self.word(1)
    }
    fn read(self) -> Cell {
        self.word(2)
    }
    fn entry(self, number: u64) -> Cell {
        // CAST: two entries.
        self.word(3 + (number % ENTRIES) as usize)
    }
    fn sum(self) -> Cell {
        self.word(5)
    }
}

/// The content of the entry of a number.
fn said(number: u64) -> u64 {
    1 << (4 * number)
}

fn sum(count: u64) -> u64 {
    (0..count).map(said).sum()
}

/// Appends and rings.
fn producer<P: Barrier + 'static>(queue: Queue, count: u64) -> Program {
    Program::new(vec![WRITTEN], move |knows| {
        let number = knows[0];
        if number == WRITTEN + count {
            return 0;
        }
        queue.read().reached((number + 1).saturating_sub(ENTRIES));
        queue.entry(number).store(said(number));
        if ring(P::full, &queue.value(), &queue.asleep(), number + 1) {
            TOKEN.raise();
        }
        again(vec![number + 1])
    })
}

/// Executes what it sees of both queues, and sleeps when there is nothing.
fn engine<C: Barrier + 'static>() -> Program {
    Program::new(vec![0; 4], |knows| {
        let (mut done, mut sums) = ([knows[0], knows[1]], [knows[2], knows[3]]);
        for number in 0..2 {
            let queue = Queue(number);
            if done[number] < queue.value().load() {
                sums[number] += queue.entry(done[number]).load();
                done[number] += 1;
                queue.sum().store(sums[number]);
                queue.read().store(done[number]);
                again([done, sums].concat());
            }
        }
        let [first, second] = [Queue(0), Queue(1)];
        if may_sleep(C::full, &first.value(), &first.asleep(), done[0]) {
            if may_sleep(C::full, &second.value(), &second.asleep(), done[1]) {
                TOKEN.reached(1);
                TOKEN.exchange(0);
                awake(&second.asleep());
            }
            awake(&first.asleep());
        }
        again([done, sums].concat())
    })
}

/// Two producers against the engine, the second with up to two submissions. Lost is an entry that is not executed, or not once.
pub fn two_rings<P: Barrier + 'static, C: Barrier + 'static>(counts: [u64; 2]) -> Explored {
    let mut memory = [0; 2 * QUEUE_WORDS + 1];
    for queue in [Queue(0), Queue(1)] {
        memory[queue.value().0] = WRITTEN;
        memory[queue.entry(0).0] = said(0);
    }
    let programs = [producer::<P>(Queue(0), counts[0]), producer::<P>(Queue(1), counts[1]), engine::<C>()];
    let judge = move |memory: &[u64], _: &[Option<u64>]| {
        let wrong = |number: usize| memory[Queue(number).sum().0] != sum(WRITTEN + counts[number]);
        Ending { lost: wrong(0) || wrong(1), twice: false }
    };
    explore(&memory, &programs, judge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Removed;

    #[test]
    fn every_submission_is_executed_once() {
        // spec: sync §3.17, sync §3.19
        let explored = two_rings::<Full, Full>([2, 2]);
        assert!(explored.lost == 0 && explored.executions > 0, "{explored:?}");
    }

    #[test]
    fn a_ringer_needs_no_barrier_if_who_falls_asleep_puts_one_for_everybody() {
        // spec: sync §3.9, sync §3.17
        let explored = two_rings::<Nothing, Everybody>([2, 2]);
        assert!(explored.lost == 0 && explored.executions > 0, "{explored:?}");
        // A party of another process puts its own.
        assert_eq!(two_rings::<Full, Everybody>([1, 1]).lost, 0);
    }

    #[test]
    fn a_thread_that_is_left_out_of_the_barrier_for_everybody_is_found() {
        // spec: sync §3.9
        assert!(two_rings::<Nothing, NotEverybody>([1, 1]).lost > 0);
        assert!(two_rings::<Nothing, Full>([1, 1]).lost > 0);
    }

    #[test]
    fn the_ringers_barrier_removed_is_found() {
        // spec: sync §3.17
        assert!(two_rings::<Removed, Full>([1, 1]).lost > 0);
    }

    #[test]
    fn the_barrier_of_the_engine_that_falls_asleep_removed_is_found() {
        // spec: sync §3.17
        assert!(two_rings::<Full, Removed>([1, 1]).lost > 0);
    }
}
