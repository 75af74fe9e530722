//! One fence as its waits see it: the conditions that sleep on it in the order of their values, and so its MonitoredValue. Called by
//! `fences` alone.

use std::collections::BTreeSet;
use std::mem;

use super::FenceKind;
use crate::slots::FenceId;
use crate::wait::WaitId;

/// A fence.
pub(super) struct Fence {
    pub kind: FenceKind,
    pub always_signaled: bool,
    pub conditions: BTreeSet<Condition>,
    /// The least value that is waited for on other adapters.
    pub elsewhere: Option<u64>,
    /// The MonitoredValue of the last update; before the first one, the value from the creation.
    pub published: u64,
}

impl Fence {
    pub fn new(kind: FenceKind) -> Self {
        let mut fence =
            Fence { kind, always_signaled: false, conditions: BTreeSet::new(), elsewhere: None, published: 0 };
        fence.published = fence.monitored_value();
        fence
    }

    // spec: sync §1.3, §3.12, §6 B3
    pub fn monitored_value(&self) -> u64 {
        let here = self.conditions.first().map(|condition| condition.value);
        match (self.kind, here.into_iter().chain(self.elsewhere).min()) {
            (FenceKind::Monitored | FenceKind::NativeCrossAdapter, _) => 0,
            (FenceKind::Native, None) => u64::MAX,
            // No wait is for 0: every sample has reached it.
            (FenceKind::Native, Some(earliest)) => earliest.saturating_sub(1),
        }
    }

    pub fn split_reached(&mut self, current: u64) -> BTreeSet<Condition> {
        match current.checked_add(1) {
            Some(value) => {
                let above = self.conditions.split_off(&Condition { value, wait: EARLIEST, index: 0 });
                mem::replace(&mut self.conditions, above)
            }
            None => mem::take(&mut self.conditions),
        }
    }
}

/// No wait comes before it.
const EARLIEST: WaitId = WaitId { registration: 0, place: FenceId::FIRST };

/// One point of one wait, as its fence sorts it. Its tests count how often two are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), derive(PartialOrd, Ord))]
pub(super) struct Condition {
    pub value: u64,
    pub wait: WaitId,
    /// Which point of the wait: tells duplicates apart.
    pub index: usize,
}
