//! Quiesced devices: which devices' contexts are to leave the hardware, for which reasons, and up to which number all of them have (sync
//! §4.1, memory §8.6). The caller decides that a device quiesces, asks its driver to suspend the contexts, and hears the
//! acknowledgements; what executes, and on which hardware, this module does not know.
//!
//! Suspensions are numbered. The caller's fence has the number up to which all of them are acknowledged, so that work behind a suspension
//! waits for it like for any other point.
//!
//! ```text
//!          suspend: Issue, issued       the last context acknowledges, and those of all suspensions before
//! running ───────────────────────▶ suspending ────────────────────────────────────────────────▶ quiesced
//!    ▲                                  │                                                          │
//!    └────────────── resume: the last reason is gone; no acknowledgement is awaited ────────────────┘
//! ```
//! A device may be suspended for several reasons at once; only the first one asks the driver, and only the last one that goes lets the
//! device run. `D` names a device (or another thing that is suspended as a whole), `C` a context, `F` the fence.
//!
//! # Invariants
//! - Numbers rise by 1, and pending suspensions stand in the order of their numbers.
//! - A device without an entry in `reasons` runs; an entry has a reason at least.
//! - A suspension that is acknowledged stands behind one that is not: else [`Suspensions::take_reached`] is due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wddm_types::FencePoint;

#[cfg(test)]
mod tests;

bitflags::bitflags! {
    /// Why a device is quiesced. It runs again when the last reason is gone.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SuspendReasons: u32 {
        /// Its list cannot be resident beside others' (memory §8.2).
        const RESIDENCY = 1 << 0;
        /// Page tables of its process change under it (memory §4.5, §4.6).
        const PAGE_TABLES = 1 << 1;
        /// Content of its list moves and stays on it: within its segment, up to a better one (memory §8.1), or out for a lock
        /// (memory §6.3).
        const RELOCATION = 1 << 3;
        /// Its work makes no progress; a context that acknowledges the suspension is not hung (sync §4.4).
        const TIMEOUT = 1 << 4;
        /// An engine that it uses is about to be reset (sync §4.4).
        const RESET = 1 << 5;
    }
}

/// The number of a suspension, as the driver is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SuspensionNumber(u64);

impl SuspensionNumber {
    /// How the driver and the fence have it.
    pub fn raw(self) -> u64 {
        self.0
    }
}

/// The answer to the wish that a device quiesces.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspend<F> {
    /// Nothing executes for it.
    AlreadyQuiesced,
    /// It was asked before: nothing executes for it once this point is reached.
    Pending(FencePoint<F>),
    /// The caller asks the driver with this number, and then says [`Suspensions::issued`].
    Issue(SuspensionNumber),
}

/// A driver acknowledged a suspension that the kernel never asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverAsked;

/// One suspension that is not acknowledged, or stands behind one that is not.
#[derive(Clone, Debug)]
struct Suspension<D, C> {
    number: SuspensionNumber,
    device: D,
    /// Contexts whose acknowledgement is still to come.
    contexts: BTreeSet<C>,
    /// How long it has been pending, as the looks count it.
    waited_ns: u64,
    /// It was waited for in vain and is waited for once more.
    again: bool,
    /// Its device's work may take as long as it takes.
    no_timeout: bool,
}

/// The suspensions of one adapter.
#[derive(Clone, Debug)]
pub struct Suspensions<D, C, F> {
    /// The fence that numbers are signalled on; `None` until the first one needs it.
    fence: Option<F>,
    /// The last number.
    last: u64,
    /// Why each device is suspended that is.
    reasons: BTreeMap<D, SuspendReasons>,
    /// Oldest first.
    pending: VecDeque<Suspension<D, C>>,
}

impl<D, C, F> Default for Suspensions<D, C, F> {
    fn default() -> Self {
        Suspensions { fence: None, last: 0, reasons: BTreeMap::new(), pending: VecDeque::new() }
    }
}

impl<D: Copy + Ord, C: Copy + Ord, F: Copy> Suspensions<D, C, F> {
    /// Whether there is a fence for the numbers already.
    pub fn has_fence(&self) -> bool {
        self.fence.is_some()
    }

    /// Numbers are signalled on this fence.
    ///
    /// # Panics
    /// If they have a fence already: points of the first would never be reached.
    pub fn signal_on(&mut self, fence: F) {
        assert!(self.fence.replace(fence).is_none(), "suspensions have one fence");
    }

    /// A device that runs is to quiesce.
    // spec: sync §4.1, memory §8.6
    pub fn suspend(&mut self, device: D, reason: SuspendReasons) -> Suspend<F> {
        let ran = !self.is_suspended(device);
        self.quiesce(device, reason);
        if ran {
            self.last += 1;
            let before = self.pending.back().map(|pending| pending.number.0);
            debug_assert!(before < Some(self.last), "suspension {} is new, and {before:?} is pending", self.last);
            return Suspend::Issue(SuspensionNumber(self.last));
        }
        self.point_of(device).map_or(Suspend::AlreadyQuiesced, Suspend::Pending)
    }

    /// A device on which nothing executes is quiesced by this alone: it is new, or lost.
    pub fn quiesce(&mut self, device: D, reason: SuspendReasons) {
        debug_assert!(!reason.is_empty(), "a device is kept off the hardware for no reason");
        *self.reasons.entry(device).or_default() |= reason;
    }

    /// The driver was asked: these contexts of the device acknowledge later. `no_timeout`: their work may take as long as it takes.
    ///
    /// # Panics
    /// If the numbers do not rise, or the device runs.
    pub fn issued(&mut self, number: SuspensionNumber, device: D, contexts: BTreeSet<C>, no_timeout: bool) {
        assert!(self.pending.back().is_none_or(|last| last.number < number), "suspensions are issued in their order");
        assert!(self.is_suspended(device), "a device is asked to leave only while there is a reason");
        debug_assert!(number.0 <= self.last, "number {} is issued, and {} is the last", number.0, self.last);
        self.pending.push_back(Suspension { number, device, contexts, waited_ns: 0, again: false, no_timeout });
    }

    /// A driver's word that a context has left the hardware. The caller asks [`take_reached`](Self::take_reached) then.
    ///
    /// # Errors
    /// The number was never given: the driver broke the contract.
    // spec: sync §4.1
    pub fn acknowledged(&mut self, context: C, number: u64) -> Result<(), NeverAsked> {
        if number > self.last {
            return Err(NeverAsked);
        }
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.number.0 == number) {
            pending.contexts.remove(&context);
        }
        Ok(())
    }

    /// A context has gone, or has nothing on the hardware any more: no suspension waits for it.
    pub fn forget(&mut self, context: C) {
        for pending in &mut self.pending {
            pending.contexts.remove(&context);
        }
    }

    /// A device is lost or goes on: no suspension waits for its contexts.
    pub fn forget_device(&mut self, device: D) {
        for pending in self.pending.iter_mut().filter(|pending| pending.device == device) {
            pending.contexts.clear();
        }
    }

    /// No reason is left to suspend a device, and it is not resumed either: it is destroyed, or was reset.
    pub fn drop_reasons(&mut self, device: D) {
        self.reasons.remove(&device);
    }

    /// The point up to which all suspensions are acknowledged, if that has come further: the caller signals it.
    #[must_use = "waiters wait for the fence"]
    pub fn take_reached(&mut self) -> Option<FencePoint<F>> {
        let mut reached = None;
        while self.pending.front().is_some_and(|pending| pending.contexts.is_empty()) {
            reached = self.pending.pop_front().map(|pending| pending.number);
        }
        let left = self.pending.front().map(|pending| pending.number);
        debug_assert!(left.is_none() || reached < left, "{reached:?} is reached, and {left:?} is pending");
        reached.map(|number| self.point(number))
    }

    /// One reason less to suspend a device. True: that was the last one, and it runs again.
    #[must_use = "its contexts are resumed then"]
    pub fn resume(&mut self, device: D, reason: SuspendReasons) -> bool {
        let Some(reasons) = self.reasons.get_mut(&device) else { return false };
        debug_assert!(!reasons.is_empty(), "a device is kept off the hardware for no reason");
        reasons.remove(reason);
        let runs = reasons.is_empty();
        if runs {
            self.reasons.remove(&device);
        }
        runs
    }

    /// Whether there is a reason to keep a device off the hardware: it executes nothing, or is asked to leave.
    pub fn is_suspended(&self, device: D) -> bool {
        self.reasons.contains_key(&device)
    }

    /// The reasons to keep a device off the hardware.
    pub fn reasons(&self, device: D) -> SuspendReasons {
        self.reasons.get(&device).copied().unwrap_or_default()
    }

    /// All devices that are suspended, with their reasons.
    pub fn suspended(&self) -> impl Iterator<Item = (D, SuspendReasons)> {
        self.reasons.iter().map(|(device, reasons)| (*device, *reasons))
    }

    /// The devices that are suspended for this reason, and that no suspension waits for: they have left the hardware.
    pub fn quiesced_for(&self, reason: SuspendReasons) -> impl Iterator<Item = D> {
        let for_it = self.suspended().filter(move |(_, reasons)| reasons.contains(reason));
        for_it.map(|(device, _)| device).filter(|device| !self.awaits(*device))
    }

    /// The number that a new context of a suspended device is suspended with: it has nothing to wait for.
    pub fn last_number(&self) -> SuspensionNumber {
        SuspensionNumber(self.last)
    }

    /// The point after which nothing executes for a device that is about to quiesce; `None`: nothing does now.
    pub fn point_of(&self, device: D) -> Option<FencePoint<F>> {
        let pending = self.pending.iter().rev().find(|pending| pending.device == device);
        pending.map(|pending| self.point(pending.number))
    }

    /// Whether a suspension of a device is not over yet.
    pub fn awaits(&self, device: D) -> bool {
        self.pending.iter().any(|pending| pending.device == device)
    }

    /// Contexts that have not acknowledged, of the oldest suspension first.
    pub fn waiting(&self) -> impl Iterator<Item = C> {
        self.pending.iter().flat_map(|pending| pending.contexts.iter().copied())
    }

    /// Whether a suspension is pending whose time counts.
    pub fn any_pending(&self) -> bool {
        self.pending.iter().any(|pending| !pending.no_timeout)
    }

    /// Time has passed. Answers with the contexts that have taken too long.
    // spec: sync §4.4
    #[must_use]
    pub fn overdue(&mut self, passed_ns: u64, delay_ns: u64) -> Vec<C> {
        let mut overdue = BTreeSet::new();
        for pending in self.pending.iter_mut().filter(|pending| !pending.no_timeout) {
            pending.waited_ns += passed_ns;
            if pending.waited_ns >= delay_ns {
                overdue.extend(&pending.contexts);
            }
        }
        overdue.into_iter().collect()
    }

    /// A context that took too long gets as much time again; false: it has had that.
    // spec: sync §4.4
    #[must_use]
    pub fn wait_once_more(&mut self, context: C) -> bool {
        let mut may = true;
        for pending in self.pending.iter_mut().filter(|pending| pending.contexts.contains(&context)) {
            may &= !std::mem::replace(&mut pending.again, true);
            pending.waited_ns = 0;
        }
        may
    }

    /// Contexts that have not acknowledged have all their time before them: until now another engine's reset was the reason.
    // spec: sync §4.4
    pub fn wait_anew(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.waited_ns = 0);
    }

    fn point(&self, number: SuspensionNumber) -> FencePoint<F> {
        debug_assert!(number.0 <= self.last, "number {} is signalled, and {} is the last", number.0, self.last);
        FencePoint { fence: self.fence.expect("the first suspension brought its fence"), value: number.0 }
    }
}
