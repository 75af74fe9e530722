//! Joins a recorded step with itself: the same events again and again, every storage with its identity per step.
//!
//! Storages that are alive before and after the step keep one identity. All others are new each time. Storages that a
//! step leaves alive besides them (gradients) die when the next step begins; after the last step they stay alive, as they
//! would in the program. Not a simulator: nothing here knows of memory. Called by `reference` and by `drive`.

use crate::{Event, Lifetime, Workload};

/// A storage's identity over joined steps. The order is step, then index: kept storages come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageId {
    /// The step that this incarnation belongs to; 0 for storages that all steps share.
    pub step: u32,
    /// Index into [`Workload::storages`].
    pub storage: u32,
}

/// One event of joined steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepEvent {
    /// An operation; its reads and writes must be resident together.
    Op {
        /// The step, from 0.
        step: u32,
        /// The operation's number in the step, from 0.
        op_index: u32,
        /// The adapter that runs it: the one that it names, or else the first.
        adapter: u32,
        /// Index into [`Workload::op_names`].
        name: u32,
        /// Storages read, ascending.
        reads: Vec<StorageId>,
        /// Storages written, ascending.
        writes: Vec<StorageId>,
    },
    /// The program gave the storage back; this identity never occurs again.
    Death(StorageId),
}

/// Iterator over the events of joined steps; see [`Workload::steps`].
#[derive(Debug, Clone)]
pub struct Steps<'a> {
    workload: &'a Workload,
    count: u32,
    step: u32,
    event: usize,
    op_index: u32,
    /// Storages whose death opens every step but the first.
    left_over: Vec<u32>,
    /// How many of them have died in this step's opening.
    left_over_done: usize,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(workload: &'a Workload, count: u32) -> Steps<'a> {
        let lives = workload.lifetimes().iter();
        // CAST: a workload has at most u32::MAX storages.
        let left_over: Vec<u32> =
            lives.enumerate().filter(|(_, life)| **life == Lifetime::LeftOver).map(|(index, _)| index as u32).collect();
        let left_over_done = left_over.len(); // nothing is left over before the first step
        Steps { workload, count, step: 0, event: 0, op_index: 0, left_over, left_over_done }
    }

    fn id(&self, storage: u32, step: u32) -> StorageId {
        match self.workload.lifetimes()[storage as usize] {
            Lifetime::Kept => StorageId { step: 0, storage },
            _ => StorageId { step, storage },
        }
    }

    fn ids(&self, set: &[u32]) -> Vec<StorageId> {
        let mut ids: Vec<StorageId> = set.iter().map(|&storage| self.id(storage, self.step)).collect();
        ids.sort_unstable(); // kept storages come first in later steps
        ids
    }
}

impl Iterator for Steps<'_> {
    type Item = StepEvent;

    fn next(&mut self) -> Option<StepEvent> {
        if self.step == self.count {
            return None;
        }
        if let Some(&storage) = self.left_over.get(self.left_over_done) {
            self.left_over_done += 1;
            return Some(StepEvent::Death(self.id(storage, self.step - 1)));
        }
        // PANIC: a workload has at least one event, and `event` is set back below when it reaches the end.
        let next = match &self.workload.events()[self.event] {
            &Event::Death(storage) => StepEvent::Death(self.id(storage, self.step)),
            Event::Op { adapter, name, reads, writes } => {
                let op_index = self.op_index;
                self.op_index += 1;
                let (reads, writes) = (self.ids(reads), self.ids(writes));
                let adapter = adapter.unwrap_or(0);
                StepEvent::Op { step: self.step, op_index, adapter, name: *name, reads, writes }
            }
        };
        self.event += 1;
        if self.event == self.workload.events().len() {
            self.step += 1;
            self.event = 0;
            self.op_index = 0;
            self.left_over_done = 0;
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SourceKind, Storage};

    fn op(reads: &[u32], writes: &[u32]) -> Event {
        Event::Op { adapter: None, name: 0, reads: reads.to_vec(), writes: writes.to_vec() }
    }

    #[test]
    fn every_lifetime_has_its_identity() {
        let storages = [(1, true), (2, true), (4, false), (8, false), (0, false)]
            .map(|(bytes, persistent)| Storage { bytes, persistent });
        let events = vec![op(&[0, 1], &[2]), Event::Death(1), op(&[2], &[3, 4]), Event::Death(4), Event::Death(2)];
        let names = vec!["op".to_owned()];
        let w = Workload::new("w".into(), SourceKind::ReferenceString, storages.to_vec(), names, events).unwrap();
        use Lifetime::*;
        assert_eq!(w.lifetimes(), [Kept, Brought, Passing, LeftOver, Unused]);
        let id = |step, storage| StorageId { step, storage };
        let expected = |step, kept_first: Vec<StorageId>| {
            vec![
                StepEvent::Op { step, op_index: 0, adapter: 0, name: 0, reads: kept_first, writes: vec![id(step, 2)] },
                StepEvent::Death(id(step, 1)),
                StepEvent::Op {
                    step,
                    op_index: 1,
                    adapter: 0,
                    name: 0,
                    reads: vec![id(step, 2)],
                    writes: vec![id(step, 3)],
                },
                StepEvent::Death(id(step, 2)),
            ]
        };
        let mut all = expected(0, vec![id(0, 0), id(0, 1)]);
        all.push(StepEvent::Death(id(0, 3)));
        all.extend(expected(1, vec![id(0, 0), id(1, 1)]));
        assert_eq!(w.steps(2).collect::<Vec<_>>(), all);
        assert_eq!(w.steps(0).count(), 0);
        // 1 and 2 persist, 4 at the first operation, 2 gone and 8 more at the second.
        assert_eq!((w.peak_bytes(0), w.peak_bytes(1), w.peak_bytes(3)), (3, 13, 13));
        assert_eq!((w.largest_op_bytes(), w.persistent_bytes(), w.ops()), (12, 3, 2));
    }
}
