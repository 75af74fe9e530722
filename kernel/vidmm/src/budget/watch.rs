//! Whether budgets are to be looked at again. Called by `budget`, which says how needs move.

use wddm_types::PAGE_BYTES;

/// Whether some budget can have changed by more than a step since all were divided last. Dividing them looks at every process for every
/// process, and is done after each turn of the machine; most turns move less than any process is from its next step.
///
/// A budget is what a process gets beside the needs of the others, so it changes by no more than those change together, and by the rounding to
/// pages. Reservations, caps, protections and processes that come or go have everything looked at again.
#[derive(Debug, Default)]
pub(super) struct BudgetWatch {
    /// Bytes by which needs have changed since.
    moved: u64,
    /// The least by which a budget had to change then to be told; `None`: everything is to be looked at.
    slack: Option<u64>,
}

impl BudgetWatch {
    /// Everything is looked at the next time.
    pub fn look_again(&mut self) {
        self.slack = None;
    }

    /// Needs have changed by so much.
    pub fn moved(&mut self, bytes: u64) {
        self.moved = self.moved.saturating_add(bytes);
    }

    /// Everything was looked at: the least by which a budget has to change to be told.
    pub fn looked(&mut self, slack: u64) {
        *self = BudgetWatch { moved: 0, slack: Some(slack) };
    }

    /// Whether no budget can have changed by more than a step.
    pub fn is_still(&self) -> bool {
        self.slack.is_some_and(|slack| self.moved.saturating_add(2 * PAGE_BYTES) <= slack)
    }
}
