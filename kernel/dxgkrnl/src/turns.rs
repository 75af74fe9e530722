//! When an adapter looks again at the uses of memory that change with time: devices that take turns because their lists do not fit
//! together, trims, content that could move to where it would rather be (memory §5.4, §8.1, §8.6).
//!
//! Here are times, and nothing that is done at them. `vidmm` decides; `adapter::turns` asks it at these times and carries the decision out.
//! This part asks no other.
//!
//! Between the turns of a machine a time is set exactly while there is a reason to look: each look clears its own, and sets it again where
//! the reason stays.

use std::collections::VecDeque;

/// How often the kernel looks for changes that no call or interrupt tells of: a suspended device that got work by doorbell, a process
/// that is still over its budget.
const LOOK_AGAIN_NS: u64 = 20_000_000;
/// How often the kernel looks whether content can move to where it would rather be.
const PROMOTE_AGAIN_NS: u64 = 100_000_000;

/// When to look at each again.
#[derive(Default)]
pub struct Turns {
    /// When to decide the next turn.
    resume_ns: Option<u64>,
    /// When to ask for trims.
    trim_ns: Option<u64>,
    /// When content may next move to where it would rather be.
    promote_ns: Option<u64>,
    /// Works ahead of need that the ring was not past when it was asked last, the first queued first.
    ahead: VecDeque<u64>,
    /// Nothing has happened in this turn of the machine but that time has passed.
    by_clock: bool,
}

impl Turns {
    /// The first of the times.
    pub fn deadline_ns(&self) -> Option<u64> {
        [self.resume_ns, self.trim_ns, self.promote_ns].into_iter().flatten().min()
    }

    /// The machine's turn begins because time has passed, and for no other reason.
    pub fn time_has_passed(&mut self) {
        self.by_clock = true;
    }

    /// The adapter decides turns of devices now. True: more has happened than that time has passed, so that the decision made last may no
    /// longer be right.
    #[must_use = "the memory manager forgets the turn that it decided last"]
    pub fn begin(&mut self) -> bool {
        self.resume_ns = None;
        !std::mem::take(&mut self.by_clock)
    }

    /// Whether the next turn of a device has its time.
    pub fn decides(&self) -> bool {
        self.resume_ns.is_some()
    }

    /// No device can have a turn now.
    pub fn decide_later(&mut self, now_ns: u64) {
        self.resume_ns = Some(now_ns + LOOK_AGAIN_NS);
    }

    /// A device can have its turn then, if nothing changes before.
    pub fn decide_at(&mut self, now_ns: u64, then_ns: u64) {
        self.resume_ns = Some(then_ns.min(now_ns + LOOK_AGAIN_NS).max(now_ns + 1));
        debug_assert!(self.resume_ns.is_some_and(|at| at > now_ns), "a turn is decided again later than {now_ns}");
    }

    /// How many works ahead of need the ring is not past, of which `done` is the last that it is past.
    pub fn ahead_of(&mut self, done: u64) -> usize {
        while self.ahead.pop_front_if(|work| *work <= done).is_some() {}
        self.ahead.len()
    }

    /// One was queued: it ends with the last that the ring has queued.
    pub fn works_ahead(&mut self, queued: u64) {
        debug_assert!(self.ahead.back().is_none_or(|last| *last <= queued), "{queued} comes behind {:?}", self.ahead);
        self.ahead.push_back(queued);
    }

    /// Arms the trims while there is a reason for them.
    pub fn arm_trims(&mut self, now_ns: u64, has_reason: bool) {
        if !has_reason {
            self.trim_ns = None;
        } else if self.trim_ns.is_none_or(|at| at <= now_ns) {
            self.trim_ns = Some(now_ns + LOOK_AGAIN_NS);
        }
        debug_assert!(self.trim_ns.is_none_or(|at| at > now_ns), "trims are asked for later than {now_ns}");
    }

    /// No content would rather be elsewhere.
    pub fn content_stays(&mut self) {
        self.promote_ns = None;
    }

    /// Content would rather be elsewhere, and the kernel tries again.
    pub fn promote_again(&mut self, now_ns: u64) {
        self.promote_ns = Some(now_ns + PROMOTE_AGAIN_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_ahead_count_until_the_ring_is_past_them() {
        let mut turns = Turns::default();
        for queued in [3, 5, 6] {
            turns.works_ahead(queued);
        }
        assert_eq!([2, 3, 5, 5, 9].map(|done| turns.ahead_of(done)), [3, 2, 1, 1, 0]);
    }
}
