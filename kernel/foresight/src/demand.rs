//! How much room the operations ahead of a stream need, beyond what is resident now: what is created and has not died by then, and what is
//! missing and used by then.
//!
//! ```text
//! need(j) = living(j − offset) + growth − living now        created and died, as the repeated operations did
//!         + Σ missing pages whose next use is at most j     they come back by then, if nothing brings them sooner
//! ```
//! Where `need` is above the free room, something that is resident now has left by then; where it is below, room is left over, and may be
//! used until then for what comes back later.

use crate::ring::Ring;

/// What was when an operation began.
#[derive(Clone, Copy, Debug)]
struct Passed {
    /// Pages of the living.
    living: u64,
    /// Pages copied since the begin.
    moved: u64,
}

/// One stream's operations.
#[derive(Debug)]
pub(crate) struct Demand {
    living: u64,
    passed: Ring<Passed>,
}

impl Demand {
    /// One that keeps so many operations: no repetition is longer.
    pub(crate) fn new(kept_max: usize) -> Demand {
        Demand { living: 0, passed: Ring::new(kept_max) }
    }

    /// Keeps so many operations from now on.
    pub(crate) fn keep(&mut self, kept_max: usize) {
        self.passed.keep(kept_max);
    }

    /// Pages of the living.
    pub(crate) fn living(&self) -> u64 {
        self.living
    }

    /// So many pages live from now on.
    pub(crate) fn born(&mut self, pages: u64) {
        self.living += pages;
    }

    /// So many pages live no longer.
    pub(crate) fn died(&mut self, pages: u64) {
        self.living -= pages;
    }

    /// The next operation has begun: so many pages were copied before.
    pub(crate) fn begin(&mut self, moved: u64) {
        self.passed.push(Passed { living: self.living, moved });
    }

    /// Pages copied during the repetition that ends with the operation `op`.
    pub(crate) fn moved_in_round(&self, op: u64, offset: u64) -> Option<u64> {
        let then = self.passed.get(op.checked_sub(offset)?)?;
        Some(self.passed.get(op)?.moved - then.moved)
    }

    /// The need of the operations behind `op`, in order, at most `most` of them. `missing`: what comes back, by its next use.
    pub(crate) fn needs(
        &self,
        (op, offset): (u64, u64),
        most: u64,
        missing: impl Iterator<Item = (u64, u64)>,
        needs: &mut Vec<i64>,
    ) {
        needs.clear();
        let living = |op: u64| self.passed.get(op).map(|passed| signed(passed.living));
        let (Some(now), Some(then)) = (living(op), op.checked_sub(offset).and_then(living)) else { return };
        let base = now - then - signed(self.living);
        let mut missing = missing.peekable();
        let mut returned = 0;
        for ahead in op + 1..=op + most.min(offset) {
            while let Some((_, pages)) = missing.next_if(|(next, _)| *next <= ahead) {
                returned += signed(pages);
            }
            let Some(was) = living(ahead - offset) else { return };
            needs.push(was + base + returned);
        }
    }
}

/// Pages as a signed number.
pub(crate) fn signed(pages: u64) -> i64 {
    i64::try_from(pages).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_need_is_what_was_created_then_and_what_comes_back() {
        let mut demand = Demand::new(64);
        // A step of three operations: 10 pages outlive it, its second creates 5, which die behind its third.
        demand.born(10);
        for step in 0..2u64 {
            demand.begin(step * 7);
            demand.born(5);
            demand.begin(step * 7 + 3);
            demand.begin(step * 7 + 4);
            demand.died(5);
        }
        demand.begin(14);
        assert_eq!(demand.moved_in_round(6, 3), Some(7));
        assert_eq!(demand.moved_in_round(2, 3), None);
        let mut needs = Vec::new();
        demand.needs((6, 3), 8, [(8, 4)].into_iter(), &mut needs);
        assert_eq!(needs, [5, 9, 4], "no farther than what is foreseen");
        demand.born(5);
        demand.needs((6, 3), 2, std::iter::empty(), &mut needs);
        assert_eq!(needs, [0, 0], "what is created already needs nothing more");
    }
}
