//! Counts of flips and of interrupts of the display, from the kernel's trace.

use std::sync::{Arc, Mutex, PoisonError};

use events::{Event, Tracer};

/// The counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Flips that were shown.
    pub shown: u64,
    /// Flips that were not, and will not be.
    pub dropped: u64,
    /// Interrupts of the display.
    pub interrupts: u64,
}

impl Counts {
    /// Flips that are over.
    pub(super) fn over(self) -> u64 {
        self.shown + self.dropped
    }
}

/// The tracer that counts.
#[derive(Clone, Default)]
pub(super) struct Counter(Arc<Mutex<Counts>>);

impl Counter {
    pub(super) fn counts(&self) -> Counts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tracer for Counter {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::FlipShown { .. } => counts.shown += 1,
            Event::FlipDropped { .. } => counts.dropped += 1,
            Event::DisplayInterrupted { .. } => counts.interrupts += 1,
            _ => {}
        }
    }
}
