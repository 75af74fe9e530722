//! Two engines that signal against the context management processor that parks queues: the table of parked queues under its lock,
//! the count that every signaller looks at, and [`shared_words::fence::may_park`] (sync §3.8). Two queues wait, each for the
//! second value of another fence; each signaller signals its fence twice.

use shared_words::fence::{MONITORED_NONE, may_park, signal};
use shared_words::{Barrier, Word};

use crate::buffers::{Cell, Program, again, explore};
use crate::explore::{Ending, Explored};

const CURRENT: [Cell; 2] = [Cell(0), Cell(1)];
const UNWAITED: Cell = Cell(2);
const PARKED: Cell = Cell(3);
/// Free at 1: taken by an exchange, given back by a store.
const LOCK: Cell = Cell(4);
/// The table: whether each queue is in it, and whether each is ready.
const TABLE: [Cell; 2] = [Cell(5), Cell(6)];
const READY: [Cell; 2] = [Cell(7), Cell(8)];
const WANTED: u64 = 2;

fn locked<T>(act: impl FnOnce() -> T) -> T {
    LOCK.reached(1);
    while LOCK.exchange(0) == 0 {
        LOCK.reached(1);
    }
    let result = act();
    LOCK.store(1);
    result
}

fn parked() -> u64 {
    TABLE.iter().map(Word::load).sum()
}

/// Signals a fence twice; looks into the table only if the count says that a queue is parked.
fn signaller<S: Barrier + 'static>(number: usize) -> Program {
    Program::new(vec![1], move |knows| {
        let value = knows[0];
        if value > WANTED {
            return 0;
        }
        let _ = signal(S::full, &CURRENT[number], &UNWAITED, value, || ());
        if PARKED.load() != 0 {
            locked(|| {
                if TABLE[number].load() == 1 && CURRENT[number].load() >= WANTED {
                    TABLE[number].store(0);
                    READY[number].store(1);
                    PARKED.store(parked());
                }
            });
        }
        again(vec![value + 1])
    })
}

/// Parks a queue for each fence, unless its value has come.
fn parker<P: Barrier + 'static>() -> Program {
    Program::new(vec![0], |knows| {
        // CAST: two queues.
        let number = knows[0] as usize;
        if number == 2 {
            return 0;
        }
        locked(|| {
            TABLE[number].store(1);
            if !may_park(P::full, &CURRENT[number], &PARKED, parked(), WANTED) {
                TABLE[number].store(0);
                PARKED.store(parked());
                READY[number].store(1);
            }
        });
        again(vec![knows[0] + 1])
    })
}

/// Lost is a queue that is not ready although its value has come for good, or a count that is not the table's.
pub fn two_queues<S: Barrier + 'static, P: Barrier + 'static>() -> Explored {
    let memory = [0, 0, MONITORED_NONE, 0, 1, 0, 0, 0, 0];
    let programs = [signaller::<S>(0), signaller::<S>(1), parker::<P>()];
    let judge = |memory: &[u64], said: &[Option<u64>]| {
        let ready = READY.iter().all(|word| memory[word.0] == 1);
        Ending { lost: !ready || memory[PARKED.0] != 0 || said.contains(&None), twice: false }
    };
    explore(&memory, &programs, judge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Removed;
    use crate::buffers::Full;

    #[test]
    fn every_queue_goes_on() {
        // spec: sync §3.8, sync §3.19
        let explored = two_queues::<Full, Full>();
        assert!(explored.lost == 0 && explored.executions > 0, "{explored:?}");
    }

    #[test]
    fn the_signallers_barrier_removed_is_found() {
        // spec: sync §3.8
        assert!(two_queues::<Removed, Full>().lost > 0);
    }

    #[test]
    fn the_parkers_barrier_removed_is_found() {
        // spec: sync §3.8
        assert!(two_queues::<Full, Removed>().lost > 0);
    }
}
