//! All synchronization objects of one adapter and the waits on them: the waiter set W and MonitoredValue of sync §1.3.
//! Not the words in memory, nor the order in which they are written: that is the caller's (`dxgkrnl`).
//!
//! # How it works
//! A wait is a list of *conditions*, one per point that did not hold when it was registered, and the number of
//! conditions that it still needs: all of them for [`WaitMode::All`], one for [`WaitMode::Any`]. Everything else is the
//! same for both. A fence holds its conditions sorted by (value, registration), so that a sample splits off a prefix
//! and MonitoredValue is the first value minus one. A wait knows how many of its conditions are still in such a list, and lies
//! where its id says: so the cost of a sample is the number of conditions that it satisfies, and the logarithm of the other waiters,
//! however many fences there are.
//!
//! | event | conditions that leave | wait ends |
//! |---|---|---|
//! | sample of value c | those with value ≤ c on that fence | when it needs no more; its other conditions leave too |
//! | always signaled | all on that fence, as for a sample of `u64::MAX` | as above |
//! | destroy | all on that fence | at once, even if it needs more (sync §6 B8) |
//! | cancel, end | all of that wait | at once |

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::FencePoint;

use self::fence::{Condition, Fence};
use crate::slots::{FenceId, Slots};
use crate::wait::{MonitoredUpdate, Party, Sampled, WaitId, WaitMode, WaitOutcome};

mod fence;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod model;
#[cfg(test)]
mod races;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;

/// The kind of a fence, which determines its MonitoredValue (sync §1.2, §1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FenceKind {
    /// `D3DDDI_MONITORED_FENCE`: it has no MonitoredValue, every signal interrupts.
    Monitored,
    /// `D3DDDI_NATIVE_FENCE` on one adapter, or on several that reach each other: MonitoredValue follows the waiters.
    Native,
    /// A native fence created with CrossAdapter: MonitoredValue is 0 for life, every signal interrupts (sync §3.12).
    NativeCrossAdapter,
}

/// The fences, and the waits on them. `W` is what the caller wants back when a wait ends.
pub struct Fences<W> {
    fences: Slots<Fence>,
    /// Those that have waiters: kept, so that a look at them costs what they are and not what there is.
    waited_for: BTreeSet<FenceId>,
    waits: Slots<Wait<W>>,
    /// The waits of each party that has any: ending them costs what they are, and not what others wait for.
    parties: BTreeMap<Party, BTreeSet<WaitId>>,
    /// Waits that have not ended.
    waiting: usize,
    registrations: u64,
}

impl<W> Fences<W> {
    /// No fence.
    pub fn new() -> Self {
        Fences {
            fences: Slots::new(),
            waited_for: BTreeSet::new(),
            waits: Slots::new(),
            parties: BTreeMap::new(),
            waiting: 0,
            registrations: 0,
        }
    }

    /// A new fence, without waiters. Its [`monitored_value`](Self::monitored_value) counts as published: the caller writes it into the
    /// fence's words.
    pub fn create(&mut self, kind: FenceKind) -> FenceId {
        self.fences.insert(Fence::new(kind))
    }

    /// The kind that the fence was created with.
    ///
    /// # Panics
    /// Here and in every method that takes a fence: if the fence was destroyed.
    pub fn kind(&self, fence: FenceId) -> FenceKind {
        self.fence(fence).kind
    }

    /// Whether the fence still exists. For ids that crossed from an interrupt to its deferred half (sync §6 B19).
    pub fn contains(&self, fence: FenceId) -> bool {
        self.fences.get(fence).is_some()
    }

    /// Destroys the fence. Every wait that still needs it ends, also one that needs other fences as well; those get
    /// updates, the destroyed one never does.
    // spec: sync §6 B8
    pub fn destroy(&mut self, fence: FenceId) -> Sampled<W> {
        let destroyed = self.fences.remove(fence).unwrap_or_else(|| stale(fence));
        self.waited_for.remove(&fence);
        let mut turn = FenceChanges::default();
        for condition in destroyed.conditions {
            // Absent: a wait that named the fence twice and has ended a moment ago.
            if let Some(wait) = self.remove_wait(condition.wait) {
                self.withdraw(condition.wait, &wait.points, &mut turn.touched);
                turn.released.push(wait.what);
            }
        }
        self.finish(turn)
    }

    /// Registers a wait, unless it holds already. `current` samples CurrentValue of a fence; it is asked once per point,
    /// and not at all for a fence that is always signaled. A wait for no points holds.
    ///
    /// The same fence may be named several times: each point is a condition of its own (sync §6 B11). The number of
    /// points is not checked here (`D3DDDI_MAX_OBJECT_WAITED_ON` is the call's business).
    // spec: sync §3.5, §6 B1, §6 B2
    pub fn wait(
        &mut self,
        points: &[FencePoint<FenceId>],
        mode: WaitMode,
        current: &mut dyn FnMut(FenceId) -> u64,
        what: W,
    ) -> WaitOutcome<W> {
        self.wait_of(None, points, mode, current, what)
    }

    /// The same for a party, with which the wait ends ([`Fences::end_waits_of`]).
    pub fn wait_of(
        &mut self,
        party: Option<Party>,
        points: &[FencePoint<FenceId>],
        mode: WaitMode,
        current: &mut dyn FnMut(FenceId) -> u64,
        what: W,
    ) -> WaitOutcome<W> {
        let mut open = Vec::new();
        for point in points {
            let reached = self.fence(point.fence).always_signaled || current(point.fence) >= point.value;
            if !reached {
                open.push(*point);
            }
        }
        let needed = match mode {
            WaitMode::All => open.len(),
            // One condition that holds is enough; so is the absence of conditions.
            WaitMode::Any if open.len() < points.len() => 0,
            WaitMode::Any => open.len().min(1),
        };
        if needed == 0 {
            return WaitOutcome::Satisfied(what);
        }
        let registration = self.registrations;
        let place = self.waits.insert(Wait { party, points: open.clone(), left: open.len(), needed, what });
        let wait = WaitId { registration, place };
        if let Some(party) = party {
            self.parties.entry(party).or_default().insert(wait);
        }
        self.registrations += 1;
        self.waiting += 1;
        let mut touched = Vec::with_capacity(open.len());
        for (fence, condition) in conditions(wait, &open) {
            self.fence_mut(fence).conditions.insert(condition);
            touched.push(fence);
        }
        WaitOutcome::Pending { wait, updates: self.changed(touched) }
    }

    /// Ends every wait on the fence whose waiter `ends` says so of, whatever else it waits for: an open of a shared fence was
    /// closed, and its CPU waiters go on with it.
    // spec: sync §2.3 (UnwaitCpuWaitersOnlyOnDestroy), §3.4 step 1
    pub fn end_waits_on(&mut self, fence: FenceId, ends: &mut dyn FnMut(&W) -> bool) -> Sampled<W> {
        let mut waits: Vec<WaitId> = self.fence(fence).conditions.iter().map(|condition| condition.wait).collect();
        waits.sort_unstable();
        waits.dedup();
        self.end_waits(waits, ends)
    }

    /// Ends every wait of a party: a device was lost, or goes.
    // spec: sync §3.16
    pub fn end_waits_of(&mut self, party: Party) -> Sampled<W> {
        let waits = self.parties.get(&party).map_or_else(Vec::new, |waits| waits.iter().copied().collect());
        self.end_waits(waits, &mut |_| true)
    }

    fn end_waits(&mut self, waits: Vec<WaitId>, ends: &mut dyn FnMut(&W) -> bool) -> Sampled<W> {
        let mut turn = FenceChanges::default();
        for id in waits {
            if self.waits.get(id.place).is_some_and(|wait| ends(&wait.what))
                && let Some(wait) = self.remove_wait(id)
            {
                self.withdraw(id, &wait.points, &mut turn.touched);
                turn.released.push(wait.what);
            }
        }
        self.finish(turn)
    }

    /// Takes a sample of CurrentValue and ends the waits that it satisfies. A sample below an earlier one (a rewind) satisfies only what it
    /// reaches and revives no ended wait (sync §6 B4).
    // spec: sync §3.10
    pub fn sample(&mut self, fence: FenceId, current: u64) -> Sampled<W> {
        let mut turn = FenceChanges { released: Vec::new(), touched: vec![fence] };
        for condition in self.fence_mut(fence).split_reached(current) {
            // Absent: a WaitAny with two points on this fence, which ended at the lower one a moment ago.
            let Some(wait) = self.waits.get_mut(condition.wait.place) else {
                continue;
            };
            wait.left -= 1;
            wait.needed -= 1;
            if wait.needed > 0 {
                continue;
            }
            if let Some(wait) = self.remove_wait(condition.wait) {
                // spec: sync §3.5 step 5, §6 B10
                if wait.left > 0 {
                    self.withdraw(condition.wait, &wait.points, &mut turn.touched);
                }
                turn.released.push(wait.what);
            }
        }
        self.finish(turn)
    }

    /// Withdraws a wait. `None`: it has ended already.
    pub fn cancel(&mut self, wait: WaitId) -> Option<(W, Vec<MonitoredUpdate>)> {
        let Wait { points, what, .. } = self.remove_wait(wait)?;
        let mut touched = Vec::with_capacity(points.len());
        self.withdraw(wait, &points, &mut touched);
        Some((what, self.changed(touched)))
    }

    /// The MonitoredValue that is in force once all updates are published: a signal of a greater value interrupts.
    /// 0 for a monitored fence, which has no such word: so the same comparison says "always".
    // spec: sync §1.3
    pub fn monitored_value(&self, fence: FenceId) -> u64 {
        self.fence(fence).published
    }

    /// The least value of a wait registered here; [`Fences::set_elsewhere`] does not count.
    pub fn earliest(&self, fence: FenceId) -> Option<u64> {
        self.fence(fence).conditions.first().map(|condition| condition.value)
    }

    /// Sets the least value that waiters of other adapters have, where a signal from here reaches those adapters (sync §3.18); `None`: no
    /// such waiter. Returns the updates that the caller must publish. The value 1 makes every signal interrupt.
    // spec: sync §1.3, §3.18
    pub fn set_elsewhere(&mut self, fence: FenceId, earliest: Option<u64>) -> Vec<MonitoredUpdate> {
        self.fence_mut(fence).elsewhere = earliest;
        self.changed(vec![fence])
    }

    /// How many conditions sleep on the fence. A wait that names it twice counts twice.
    pub fn waiters(&self, fence: FenceId) -> usize {
        self.fence(fence).conditions.len()
    }

    /// The fences that have waiters: the kernel scans these after an interrupt without a list (sync §3.10, §6 B17).
    pub fn with_waiters(&self) -> impl Iterator<Item = FenceId> {
        self.waited_for.iter().copied()
    }

    /// Whether a waiter sleeps on the fence.
    pub fn is_waited_for(&self, fence: FenceId) -> bool {
        self.waited_for.contains(&fence)
    }

    /// From now on every value counts as reached, until the fence is destroyed: its device failed. A wait that also
    /// needs other fences goes on waiting for those.
    // spec: sync §3.16, §6 B13
    pub fn always_signaled(&mut self, fence: FenceId) -> Sampled<W> {
        self.fence_mut(fence).always_signaled = true;
        self.sample(fence, u64::MAX)
    }

    /// What sleeps here, each once for each of its waits. For checks: it goes through all waits.
    pub fn waiting(&self) -> impl Iterator<Item = &W> {
        self.waits.values().map(|wait| &wait.what)
    }

    /// Whether anybody waits for anything.
    pub fn is_anybody_waiting(&self) -> bool {
        self.waiting > 0
    }

    fn remove_wait(&mut self, id: WaitId) -> Option<Wait<W>> {
        let wait = self.waits.remove(id.place)?;
        self.waiting -= 1;
        if let Some(party) = wait.party
            && let Some(waits) = self.parties.get_mut(&party)
        {
            waits.remove(&id);
            if waits.is_empty() {
                self.parties.remove(&party);
            }
        }
        Some(wait)
    }

    /// Removes what is left of a wait's conditions from their fences.
    fn withdraw(&mut self, wait: WaitId, points: &[FencePoint<FenceId>], touched: &mut Vec<FenceId>) {
        for (fence, condition) in conditions(wait, points) {
            // The fence is absent while it is being destroyed; the condition is if it was reached before.
            if let Some(entry) = self.fences.get_mut(fence)
                && entry.conditions.remove(&condition)
            {
                touched.push(fence);
            }
        }
    }

    fn finish(&mut self, turn: FenceChanges<W>) -> Sampled<W> {
        Sampled { released: turn.released, updates: self.changed(turn.touched) }
    }

    /// The updates of the `touched` fences whose MonitoredValue differs from the published one. Every function that adds or removes a
    /// condition of a fence calls this.
    fn changed(&mut self, mut touched: Vec<FenceId>) -> Vec<MonitoredUpdate> {
        // A fence that was touched twice has nothing left to say the second time.
        touched.sort_unstable();
        let mut updates = Vec::new();
        for id in touched {
            match self.fence(id).conditions.is_empty() {
                true => self.waited_for.remove(&id),
                false => self.waited_for.insert(id),
            };
            let fence = self.fence_mut(id);
            let value = fence.monitored_value();
            if std::mem::replace(&mut fence.published, value) != value {
                updates.push(MonitoredUpdate { fence: id, value });
            }
        }
        updates
    }

    fn fence(&self, id: FenceId) -> &Fence {
        self.fences.get(id).unwrap_or_else(|| stale(id))
    }

    fn fence_mut(&mut self, id: FenceId) -> &mut Fence {
        self.fences.get_mut(id).unwrap_or_else(|| stale(id))
    }
}

impl<W> Default for Fences<W> {
    fn default() -> Self {
        Self::new()
    }
}

struct Wait<W> {
    party: Option<Party>,
    /// The points that did not hold at registration, reached since or not.
    points: Vec<FencePoint<FenceId>>,
    /// How many of them are still in the lists of their fences.
    left: usize,
    /// How many of them must still be reached; at least 1.
    needed: usize,
    what: W,
}

/// The waits that one operation has ended so far, and the fences whose conditions it changed.
struct FenceChanges<W> {
    released: Vec<W>,
    touched: Vec<FenceId>,
}

impl<W> Default for FenceChanges<W> {
    fn default() -> Self {
        FenceChanges { released: Vec::new(), touched: Vec::new() }
    }
}

fn conditions(wait: WaitId, points: &[FencePoint<FenceId>]) -> impl Iterator<Item = (FenceId, Condition)> {
    points.iter().enumerate().map(move |(index, point)| (point.fence, Condition { value: point.value, wait, index }))
}

fn stale(id: FenceId) -> ! {
    panic!("{id:?} names a fence that was destroyed: the kernel kept an id longer than its object")
}
