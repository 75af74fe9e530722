//! The time that a planned memory takes: a paging ring that carries works out in their order, one after the other, a link, and a CPU that is at
//! most 64 operations ahead of the engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::memory::Watch;

/// A link, and what operations take.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Bytes in a microsecond, each way.
    pub link: u64,
    /// Whether both ways carry at once.
    pub duplex: bool,
    /// Nanoseconds of each operation of a step; empty: by their bytes.
    pub op_ns: Vec<u64>,
    /// Whether works are done ahead.
    pub ahead: bool,
}

/// Bytes that are filled in a microsecond.
const FILLED: u64 = 400_000;
/// Bytes that an operation handles in a microsecond, where it has no recorded time; and what it takes besides.
const HANDLED: u64 = 1_000_000;
const BEGIN_NS: u64 = 2_000;
/// Operations that are queued at most, and after how many ends the CPU goes on.
const QUEUED_MAX: usize = 64;

/// The clock. Times are in nanoseconds since the begin.
#[derive(Debug)]
pub struct Clock {
    machine: Machine,
    /// When each operation ended; the first entry is the begin.
    ends: Vec<u64>,
    /// When the ring is free.
    ring: u64,
    /// Free frames by the operation that used them last.
    free: BinaryHeap<Reverse<(u64, u64)>>,
    /// What the work that is made has to copy and fill, and the operation that it waits for.
    work: Work,
    step: u32,
    /// When the last step ended.
    step_ends: u64,
}

#[derive(Debug, Default)]
struct Work {
    copied_in: u64,
    copied_out: u64,
    filled: u64,
    behind: u64,
}

impl Clock {
    /// At the begin, with that many free bytes.
    pub fn new(machine: Machine, capacity: u64) -> Clock {
        let free = BinaryHeap::from([Reverse((0, capacity))]);
        Clock { machine, ends: vec![0], ring: 0, free, work: Work::default(), step: 0, step_ends: 0 }
    }

    /// What each step took, given how many operations it has.
    pub fn steps(&self, operations: usize) -> Vec<u64> {
        self.ends.windows(operations + 1).step_by(operations).map(|step| step[operations] - step[0]).collect()
    }

    /// When the CPU may decide the next operation.
    fn decides(&self) -> u64 {
        let done = self.ends.len() - 1;
        let waits_for = (done / (QUEUED_MAX / 2) * (QUEUED_MAX / 2)).saturating_sub(QUEUED_MAX / 2);
        let queued = if done < QUEUED_MAX { 0 } else { self.ends[waits_for] };
        queued.max(self.step_ends)
    }

    /// The ring carries the work out. Answers when it is over; nothing for a work with nothing to do.
    fn carry_out(&mut self) -> Option<u64> {
        let work = std::mem::take(&mut self.work);
        let (copied_in, copied_out) = (work.copied_in, work.copied_out);
        if copied_in + copied_out + work.filled == 0 {
            return None;
        }
        let copied = if self.machine.duplex { copied_in.max(copied_out) } else { copied_in + copied_out };
        // CAST: an operation's number.
        let behind = self.ends[(work.behind as usize).min(self.ends.len() - 1)];
        let begins = self.ring.max(behind).max(self.decides());
        self.ring = begins + copied * 1_000 / self.machine.link + work.filled * 1_000 / FILLED;
        Some(self.ring)
    }
}

impl Watch for Clock {
    fn operates(&mut self, step: u32, bytes: u64) {
        if step != self.step {
            (self.step, self.step_ends) = (step, self.ends[self.ends.len() - 1]);
        }
        let ready = self.carry_out().unwrap_or(0);
        let begins = ready.max(self.decides()).max(self.ends[self.ends.len() - 1]);
        let op_ns = &self.machine.op_ns;
        let takes = match op_ns.len() {
            0 => bytes * 1_000 / HANDLED + BEGIN_NS,
            recorded => op_ns[(self.ends.len() - 1) % recorded],
        };
        self.ends.push(begins + takes);
    }

    fn works_ahead(&self) -> bool {
        self.machine.ahead
    }

    fn comes(&mut self, copied: u64, filled: u64) {
        self.work.copied_in += copied;
        self.work.filled += filled;
        let mut left = copied + filled;
        while left > 0 {
            let Reverse((last, bytes)) = self.free.pop().expect("frames are free");
            let taken = bytes.min(left);
            left -= taken;
            self.work.behind = self.work.behind.max(last);
            if bytes > taken {
                self.free.push(Reverse((last, bytes - taken)));
            }
        }
    }

    fn goes(&mut self, last: u64, bytes: u64, copied: u64) {
        self.work.copied_out += copied;
        if bytes > 0 {
            self.free.push(Reverse((last, bytes)));
        }
    }

    fn is_done(&mut self) {
        self.carry_out();
    }
}
