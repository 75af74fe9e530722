//! The exact cost of a signal, in comparisons of conditions: 100,000 fences, 10,000 waiters on one of them.

use std::cell::Cell;
use std::cmp::Ordering;

use wddm_types::FencePoint;

use super::*;

thread_local! {
    static COMPARED: Cell<u64> = const { Cell::new(0) };
}

impl Ord for Condition {
    fn cmp(&self, other: &Self) -> Ordering {
        COMPARED.set(COMPARED.get() + 1);
        (self.value, self.wait, self.index).cmp(&(other.value, other.wait, other.index))
    }
}

impl PartialOrd for Condition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

const FENCES: u64 = 100_000;
const WAITERS: u64 = 10_000;
/// Nodes of a tree have at most eleven elements, and a search compares with all of them in the worst case.
const NODE: u64 = 11;

/// All fences, one waiter on each; on the one that is answered, many more: each value from 2 on is waited for once.
fn crowded(fences: u64, waiters: u64) -> (Fences<u64>, FenceId) {
    let mut all = Fences::new();
    let ids: Vec<FenceId> = (0..fences).map(|_| all.create(FenceKind::Native)).collect();
    for id in &ids {
        drop(all.wait(&[FencePoint { fence: *id, value: u64::MAX }], WaitMode::All, &mut |_| 0, 0));
    }
    let one = ids[ids.len() / 2];
    for value in 2..2 + waiters {
        drop(all.wait(&[FencePoint { fence: one, value }], WaitMode::All, &mut |_| 0, value));
    }
    (all, one)
}

/// Comparisons of a signal that satisfies so many.
fn compared(all: &mut Fences<u64>, fence: FenceId, current: u64, satisfied: u64) -> u64 {
    COMPARED.set(0);
    let sampled = all.sample(fence, current);
    assert_eq!(sampled.released.len() as u64, satisfied);
    assert!(sampled.updates.len() as u64 <= 1.min(satisfied));
    COMPARED.get()
}

#[test]
fn a_signal_costs_what_it_satisfies_and_the_logarithm_of_who_else_waits() {
    // spec: sync §3.10, sync §3.19
    let (mut all, one) = crowded(FENCES, WAITERS);
    // A tree of so many has at most so many levels: nodes have six elements at least.
    let levels = u64::from(WAITERS.ilog(6)) + 1;
    let mut current = 1;
    for satisfied in [0, 1, 10, 100, 1_000, 5_000] {
        current += satisfied;
        let steps = compared(&mut all, one, current, satisfied);
        assert!(steps <= NODE * levels, "{satisfied} satisfied: {steps} comparisons");
    }
    assert_eq!(all.waiters(one) as u64, WAITERS + 1 - (current - 1));
    // Neither other fences nor their waiters change the cost of a signal.
    let (mut alone, only) = crowded(1, WAITERS);
    let (mut among, one) = crowded(FENCES, WAITERS);
    for current in [1, 2, 12, 112, 5_000] {
        let satisfied = |all: &Fences<u64>, fence| {
            let before = all.waiters(fence) as u64;
            before - 1 - (WAITERS + 1 - current)
        };
        let released = satisfied(&alone, only);
        let [few, many] =
            [(&mut alone, only), (&mut among, one)].map(|(all, fence)| compared(all, fence, current, released));
        assert_eq!(few, many, "{current}");
    }
}

/// A wait for several, of which one ends it, leaves the others by a search in each; one for all of them has left already.
#[test]
fn who_waits_for_all_has_left_every_list_when_it_ends() {
    // spec: sync §3.5
    let mut all = Fences::new();
    let ids: Vec<FenceId> = (0..32).map(|_| all.create(FenceKind::Native)).collect();
    let points: Vec<_> = ids.iter().map(|fence| FencePoint { fence: *fence, value: 1 }).collect();
    for (mode, searched) in [(WaitMode::All, 0), (WaitMode::Any, 31)] {
        drop(all.wait(&points, mode, &mut |_| 0, 0));
        let mut steps = 0;
        for id in &ids {
            COMPARED.set(0);
            let ended = !all.sample(*id, 1).released.is_empty();
            // One comparison tells a list of one element apart.
            steps += COMPARED.get() - 1.min(COMPARED.get());
            if ended {
                break;
            }
        }
        assert_eq!((steps, all.is_anybody_waiting()), (searched, false), "{mode:?}");
    }
}
