//! A context's rank, and its own quantum and grace periods.

use crate::policy::Band;

/// In-process priorities are at most so far from 0.
// spec: sync §4.2
pub const IN_PROCESS_MAX: i32 = 7;

/// Highest level of the realtime band.
// spec: sync §4.2
pub const REALTIME_LEVEL_MAX: u8 = 31;

/// The weight of an ordinary process.
pub const WEIGHT_NORMAL: u32 = 2;

/// How a context ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its band.
    pub band: Band,
    /// In the realtime band: 0 to [`REALTIME_LEVEL_MAX`]. Means nothing in others.
    pub level: u8,
    /// The process, by the caller's number.
    pub process: u64,
    /// How much the process gets beside others of its band, as against theirs; not 0.
    pub weight: u32,
    /// Among the contexts of its process: -[`IN_PROCESS_MAX`] to [`IN_PROCESS_MAX`].
    pub in_process: i32,
}

impl Rank {
    /// An ordinary context of this process.
    pub fn ordinary(process: u64) -> Rank {
        Rank { band: Band::Normal, level: 0, process, weight: WEIGHT_NORMAL, in_process: 0 }
    }

    /// Band and level, as they are compared.
    pub(crate) fn row(self) -> (Band, u8) {
        (self.band, if self.band == Band::Realtime { self.level } else { 0 })
    }

    /// The rank of a context that `waiter` waits for: it goes where the waiter would (priority inheritance). Among the contexts of its
    /// own process it rises only when the waiter is one of them.
    // spec: sync §4.2
    pub fn raised_for(self, waiter: Rank) -> Rank {
        let mut raised = self;
        if waiter.row() > self.row() {
            (raised.band, raised.level) = (waiter.band, waiter.level);
        }
        if waiter.process == self.process {
            raised.in_process = self.in_process.max(waiter.in_process);
        }
        raised
    }
}

/// A context's own times, as against other contexts of its process (`DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES`).
// spec: sync §2.5
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quanta {
    /// How long it has the engine while another one of the same priority waits.
    pub quantum_ns: u64,
    /// How long it waits before one of the same priority is preempted for it.
    pub grace_same_ns: u64,
    /// How long it waits before one of lower priority is.
    pub grace_lower_ns: u64,
}

impl Default for Quanta {
    /// Policy: half of a process's quantum; a context that ranks above does not wait.
    fn default() -> Quanta {
        Quanta { quantum_ns: 1_000_000, grace_same_ns: 100_000, grace_lower_ns: 0 }
    }
}

/// A context that has the engine or wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contender<C> {
    /// The context.
    pub context: C,
    /// How it ranks.
    pub rank: Rank,
    /// Its own times.
    pub quanta: Quanta,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_count_in_the_realtime_band_alone() {
        let rank = |band, level| Rank { band, level, ..Rank::ordinary(1) };
        assert_eq!(rank(Band::Realtime, 7).row(), (Band::Realtime, 7));
        assert_eq!(rank(Band::Normal, 7).row(), (Band::Normal, 0));
        // A waiter of the same row raises nothing, also where its level means nothing.
        let mine = rank(Band::Normal, 3);
        assert_eq!(mine.raised_for(rank(Band::Normal, 9)), mine);
        assert_eq!(mine.raised_for(rank(Band::Realtime, 9)).row(), (Band::Realtime, 9));
    }
}
