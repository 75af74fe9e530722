//! How far the CPU runs ahead of the GPU, in bytes: storages that have died, and that submitted work may still use, hold memory until that
//! work is done. A driver that counts its submissions alone would hold as many dead storages as its ring has places, however
//! large they are. Called by `site`; it knows progress values and bytes, no fence and no allocation.

use std::collections::VecDeque;

/// The dead storages of one lane that its submitted work may still use.
pub struct DeadStorages {
    /// Most bytes that they may hold.
    bytes_max: u64,
    bytes: u64,
    /// The progress value behind which each is free, and its bytes; oldest first.
    dead: VecDeque<(u64, u64)>,
}

impl DeadStorages {
    /// No dead storages.
    pub fn new(bytes_max: u64) -> DeadStorages {
        DeadStorages { bytes_max, bytes: 0, dead: VecDeque::new() }
    }

    /// A storage has died; the submissions up to this progress value may use it.
    pub fn died(&mut self, last_use: u64, bytes: u64) {
        self.dead.push_back((last_use, bytes));
        self.bytes += bytes;
    }

    /// The GPU has reached `progress`: storages whose last use is not behind it are free.
    pub fn reached(&mut self, progress: u64) {
        while let Some((_, bytes)) = self.dead.pop_front_if(|(last_use, _)| *last_use <= progress) {
            self.bytes -= bytes;
        }
    }

    /// The progress value to wait for before the next storage is made: from then on the dead ones hold no more than they may. `None`: they
    /// already hold no more.
    #[must_use]
    pub fn wait_for(&self) -> Option<u64> {
        let mut left = self.bytes;
        let mut value = None;
        for (last_use, bytes) in &self.dead {
            if left <= self.bytes_max {
                break;
            }
            (left, value) = (left - bytes, Some(*last_use));
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_waited_for_as_holds_too_many_bytes() {
        let mut dead = DeadStorages::new(100);
        assert_eq!(dead.wait_for(), None);
        [(1, 60), (2, 40), (2, 1), (5, 90)].into_iter().for_each(|(value, bytes)| dead.died(value, bytes));
        assert_eq!(dead.wait_for(), Some(2), "60 and 40 have to go");
        dead.reached(1);
        assert_eq!(dead.wait_for(), Some(2), "131 are left");
        dead.reached(4);
        assert_eq!(dead.wait_for(), None);
        dead.died(6, 11);
        assert_eq!(dead.wait_for(), Some(5));
        dead.reached(6);
        assert_eq!((dead.bytes, dead.wait_for()), (0, None));
    }

    #[test]
    fn one_storage_larger_than_the_limit_is_waited_for() {
        let mut dead = DeadStorages::new(0);
        dead.died(7, 1);
        assert_eq!(dead.wait_for(), Some(7));
    }
}
