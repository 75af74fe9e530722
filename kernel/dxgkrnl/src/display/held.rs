//! Hardware queues whose next command writes a primary that displays show: they are held until it is free.

use vidmm::AllocationId;

use super::{DisplayNews, Displays, Lent};
use crate::number::QueueNumber;

impl Displays {
    /// A hardware queue has come to a command that writes primaries. The one for which it is held until all are free; `None`: they are.
    // spec: memory §5.6, memory §10.1 row 31
    pub fn hold(&mut self, queue: QueueNumber, primaries: Vec<AllocationId>) -> Option<AllocationId> {
        let shown = primaries.iter().copied().find(|primary| !self.may_write(*primary))?;
        debug_assert!(
            self.held.iter().all(|(held, _)| *held != queue),
            "a queue that is held comes to nothing: {queue:?}"
        );
        self.held.push((queue, primaries));
        Some(shown)
    }

    /// Whether a hardware queue is held.
    pub fn holds(&self, queue: QueueNumber) -> bool {
        self.held.iter().any(|(held, _)| *held == queue)
    }

    /// A hardware queue goes.
    pub fn forget_queue(&mut self, queue: QueueNumber) {
        self.held.retain(|(of, _)| *of != queue);
    }

    /// Primaries may have come free: queues that waited for them go on.
    pub(super) fn free_held_queues(&mut self, lent: &mut Lent<'_, '_>) {
        let flips = &self.flips;
        let held = std::mem::take(&mut self.held).into_iter();
        let (free, kept) = held.partition(|(_, primaries)| primaries.iter().all(|primary| flips.may_write(*primary)));
        self.held = kept;
        lent.news.extend(Vec::into_iter(free).map(|(queue, _)| DisplayNews::GoesOn(queue)));
    }
}
