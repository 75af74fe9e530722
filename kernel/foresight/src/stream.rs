//! One process's stream: what it was, what part of it happens again, and what may still be planned of it. No logic.

use crate::follow::Follow;
use crate::history::History;

/// One process's operations.
#[derive(Debug)]
pub(crate) struct Stream {
    /// `None`: its process has ended, and the next new one takes its place.
    pub process: Option<u32>,
    /// The operation of the segment that named something of it last.
    pub spoke_at: u64,
    /// Operations of the segment before its first: its positions plus this are the segment's.
    pub base: u64,
    pub history: History,
    pub follow: Follow,
    /// Whether the latest operation came as foreseen.
    pub as_foreseen: bool,
    /// The operation at which it is planned next.
    pub plan_at: Option<u64>,
    /// How often it was planned since the offset is followed.
    pub plans: u32,
    /// Uses that it may plan now.
    pub credit: u64,
    /// The order of its process: 0 loses first.
    pub order: u64,
}

impl Stream {
    /// An empty one of a process, behind so many operations of the segment, that keeps so many operations and uses.
    pub(crate) fn new(process: Option<u32>, heard: u64, kept_max: usize) -> Stream {
        Stream {
            process,
            spoke_at: heard,
            base: heard,
            history: History::new(kept_max),
            follow: Follow::new(),
            as_foreseen: false,
            plan_at: None,
            plans: 0,
            credit: 0,
            order: 0,
        }
    }
}
