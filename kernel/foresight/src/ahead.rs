//! The operations ahead of a stream, read off those that they repeat.

use crate::history::{History, Next};
use crate::trail::Forecast;

/// What is ahead of a stream that repeats itself.
pub(crate) struct Ahead<'a> {
    /// Index of the stream.
    pub stream: u32,
    /// Its latest operation.
    pub op: u64,
    /// How far behind the operation that it repeats lies.
    pub offset: u64,
    history: &'a History,
}

/// What is expected of one allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Index of the stream that used it last.
    pub stream: u32,
    /// The operation that did.
    pub last: u64,
    pub forecast: Forecast,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(stream: u32, (op, offset): (u64, u64), history: &'a History) -> Ahead<'a> {
        Ahead { stream, op, offset, history }
    }

    /// Uses of the operation `at`, which is ahead.
    pub(crate) fn uses_at(&self, at: u64) -> u64 {
        let uses = at.checked_sub(self.offset).and_then(|then| self.history.uses_of(then));
        uses.map_or(0, |uses| uses.end - uses.start)
    }

    /// Pages of what the operation `at`, which is ahead, uses and which is used next behind the operation `next`.
    pub(crate) fn farther_than(&self, at: u64, next: u64) -> u64 {
        let Some(uses) = at.checked_sub(self.offset).and_then(|then| self.history.uses_of(then)) else { return 0 };
        let is_farther = |number: &u64| match self.history.next(*number) {
            Next::Used { op, .. } => op + self.offset > next,
            // It lives, and was not used since: its next use repeats one of the repetition that runs.
            Next::Open => true,
            Next::Died { .. } => false,
        };
        uses.filter(is_farther).filter_map(|number| Some(self.history.used(number)?.pages)).sum()
    }
}
