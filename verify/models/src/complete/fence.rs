//! Two engines, and the context management processor with the kernel behind it: [`shared_words::fence::signal`] and
//! [`shared_words::fence::still_exceeds`] against [`shared_words::fence::publish_monitored`]. MonitoredValue is the shadow in local
//! memory that engines look at (sync §1.4 "DEFAULT optimized", §3.9); the article's two races are both in it, the engine's
//! against the CMP's update, and the GPU's against the CPU's look.
//!
//! The kernel waits for two values one after the other. A wait publishes, looks, and sleeps until there is an interrupt; an
//! interrupt releases it if the value has come, and else it sleeps on.

use shared_words::fence::{MONITORED_NONE, publish_monitored, signal, still_exceeds};
use shared_words::{Barrier, Word};

use crate::buffers::{Cell, Program, again, explore};
use crate::explore::{Ending, Explored};

const FENCES: [(Cell, Cell); 2] = [(Cell(0), Cell(1)), (Cell(2), Cell(3))];
/// There was an interrupt.
const RAISED: Cell = Cell(4);
/// Which wait the kernel is at.
const AT: Cell = Cell(5);
const MEMORY: [u64; 6] = [0, MONITORED_NONE, 0, MONITORED_NONE, 0, 0];

/// A value of a fence that is waited for.
type Point = ((Cell, Cell), u64);

/// Signals these values, each when the one before has been seen. An engine whose shadow says so asks the CMP, which decides.
fn engine<S: Barrier + 'static>((current, monitored): (Cell, Cell), values: [u64; 2]) -> Program {
    Program::new(vec![0], move |knows| {
        // CAST: the second of two.
        let Some(&value) = values.get(knows[0] as usize) else { return 0 };
        current.reached(value - 1);
        if signal(S::full, &current, &monitored, value, || ()) && still_exceeds(&monitored, value) {
            RAISED.raise();
        }
        again(vec![knows[0] + 1])
    })
}

/// Waits for values of fences in turn, each time as the earliest waiter, then ends.
fn kernel<K: Barrier + 'static>(waits: [Point; 2]) -> Program {
    Program::new(vec![0, 0], move |knows| {
        let (at, asleep) = (knows[0], knows[1] == 1);
        // CAST: the second of two.
        let Some(&((current, monitored), wanted)) = waits.get(at as usize) else { return 0 };
        if asleep {
            RAISED.reached(1);
            RAISED.exchange(0);
        } else {
            AT.store(at);
            // The look at CurrentValue below covers an interrupt of the update itself.
            let _ = publish_monitored(K::full, &current, &monitored, wanted - 1);
        }
        if current.load() < wanted { again(vec![at, 1]) } else { again(vec![at + 1, 0]) }
    })
}

/// Judges an ending: lost is a waiter that sleeps for ever although its value has come.
fn judge(waits: [Point; 2]) -> impl Fn(&[u64], &[Option<u64>]) -> Ending {
    move |memory, said| {
        // CAST: it is at one of two.
        let ((current, _), wanted) = waits[memory[AT.0] as usize];
        let lost = said[2].is_none() && memory[current.0] >= wanted;
        Ending { lost, twice: said[2].is_some() && memory[RAISED.0] == 1 }
    }
}

/// Two engines take turns at one fence, one to four; the kernel waits for two of the values.
pub fn one_fence<S: Barrier + 'static, K: Barrier + 'static>(wanted: [u64; 2]) -> Explored {
    let fence = FENCES[0];
    let waits = wanted.map(|wanted| (fence, wanted));
    let programs = [engine::<S>(fence, [1, 3]), engine::<S>(fence, [2, 4]), kernel::<K>(waits)];
    explore(&MEMORY, &programs, judge(waits))
}

/// Each engine has a fence of its own; the kernel waits for both.
pub fn two_fences<S: Barrier + 'static, K: Barrier + 'static>() -> Explored {
    let waits = FENCES.map(|fence| (fence, 2));
    let [first, second] = FENCES.map(|fence| engine::<S>(fence, [1, 2]));
    explore(&MEMORY, &[first, second, kernel::<K>(waits)], judge(waits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Removed;
    use crate::buffers::Full;

    #[test]
    fn no_waiter_is_lost() {
        // spec: sync §3.9, sync §3.19
        // seed: N27, N28, N29, N30, N31, N33
        for wanted in [[1, 2], [1, 4], [2, 3], [3, 4]] {
            let explored = one_fence::<Full, Full>(wanted);
            assert!(explored.lost == 0 && explored.twice > 0, "{wanted:?}: {explored:?}");
        }
        let explored = two_fences::<Full, Full>();
        assert!(explored.lost == 0 && explored.twice > 0, "{explored:?}");
    }

    #[test]
    fn the_engines_barrier_removed_is_found() {
        // spec: sync §3.9, sync §3.19
        // seed: N31
        assert!(one_fence::<Removed, Full>([1, 4]).lost > 0);
        assert!(two_fences::<Removed, Full>().lost > 0);
    }

    #[test]
    fn the_barrier_of_the_update_removed_is_found() {
        // spec: sync §3.9, sync §3.19
        // seed: N30
        assert!(one_fence::<Full, Removed>([1, 4]).lost > 0);
        assert!(two_fences::<Full, Removed>().lost > 0);
    }
}
