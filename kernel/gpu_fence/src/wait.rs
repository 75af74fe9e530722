//! The words in which a wait is asked for and answered. Plain values; the bookkeeping is in `fences`.

use crate::slots::FenceId;

/// A wait that did not hold at once. Never used again; a wait registered later has the greater id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaitId {
    /// How many were registered before it.
    pub(crate) registration: u64,
    /// Where it lies in the table of waits.
    pub(crate) place: FenceId,
}

/// The party that a wait belongs to, and ends with: the caller's number for a device, or for another object with
/// several waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Party(pub u64);

/// When a wait for several points ends. (`WaitAny` of `D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS`.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitMode {
    /// Once every point has been reached. A point counts from the sample that reached it, even if the value falls
    /// later (a rewind, sync §6 B4).
    All,
    /// Once the first point has been reached.
    Any,
}

/// Publish this: from now on a GPU signal of `fence` interrupts iff its value is above `value` (sync §1.3).
#[must_use = "an update that is not published loses wake-ups"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MonitoredUpdate {
    /// The fence whose MonitoredValue changes.
    pub fence: FenceId,
    /// The new one.
    pub value: u64,
}

/// The result of a wait.
#[must_use = "release the waiter, or register it with the driver"]
#[derive(PartialEq, Eq, Debug)]
pub enum WaitOutcome<W> {
    /// It held already; it never entered a waiter set (sync §6 B2).
    Satisfied(W),
    /// It is registered. Publish, sample again, and only then let the waiter sleep (sync §3.9).
    Pending {
        /// Names it for [`cancel`](crate::Fences::cancel).
        wait: WaitId,
        /// MonitoredValues that fell.
        updates: Vec<MonitoredUpdate>,
    },
}

/// The waiters that an operation released, and the updates that the caller must publish after it.
#[must_use = "released waiters must be woken and updates published"]
#[derive(PartialEq, Eq, Debug)]
pub struct Sampled<W> {
    /// The waits that ended, in the order of the value whose turn it was, then of registration.
    pub released: Vec<W>,
    /// At most one per fence, in the order of [`FenceId`].
    pub updates: Vec<MonitoredUpdate>,
}

impl<W> Sampled<W> {
    /// Whether the operation released no waiter and changed no MonitoredValue: legal after any interrupt (sync §3.9).
    pub fn is_empty(&self) -> bool {
        self.released.is_empty() && self.updates.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FenceKind, Fences};

    #[test]
    fn a_sample_is_empty_if_it_lets_no_waiter_go_and_publishes_nothing() {
        let fence = Fences::<()>::new().create(FenceKind::Native);
        let update = || vec![MonitoredUpdate { fence, value: 1 }];
        for (released, updates, empty) in
            [(vec![], vec![], true), (vec![()], vec![], false), (vec![], update(), false), (vec![()], update(), false)]
        {
            assert_eq!(Sampled { released, updates }.is_empty(), empty);
        }
    }
}
