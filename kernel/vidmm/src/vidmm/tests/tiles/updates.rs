//! Updates that wait for their turn, and what the naive map makes of them.

use super::*;
use crate::{UpdateError, UpdateOperation};

/// An operation of an update in the naive map's terms: pages within the area.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Map { at: u64, pages: u64, allocation: usize, from: u64, period: u64 },
    Unmap { at: u64, pages: u64, zero: bool },
    Copy { from: u64, pages: u64, to: u64 },
}

impl World {
    pub(super) fn update(&mut self, a: u64, b: u64, c: u64) {
        let operations: Vec<Operation> = (0..1 + c % 4)
            .map(|nth| {
                let (at, pages) = ((a + nth * 5) % AREA, 1 + (b >> nth) % 8);
                let pages = pages.min(AREA - at);
                match (c >> nth) % 3 {
                    0 => {
                        let period = if pages % 2 == 0 { pages / 2 } else { pages };
                        Operation::Map { at, pages, allocation: (b % 3) as usize, from: c % 8, period }
                    }
                    1 => Operation::Unmap { at, pages, zero: b.is_multiple_of(2) },
                    _ => Operation::Copy { from: (at + c % 7).min(AREA - pages), pages, to: at },
                }
            })
            .collect();
        let alive = |operation: &Operation| match operation {
            Operation::Map { allocation, .. } => self.allocations[*allocation].is_some(),
            _ => true,
        };
        if !operations.iter().all(alive) {
            return;
        }
        let asked: Vec<UpdateOperation> = operations.iter().map(|operation| self.asked(operation)).collect();
        let target = |operation: &Operation| match *operation {
            Operation::Map { at, pages, .. } | Operation::Unmap { at, pages, .. } => (at, pages),
            Operation::Copy { to, pages, .. } => (to, pages),
        };
        let targets: Vec<(u64, u64)> = operations.iter().map(target).collect();
        let sources: Vec<(u64, u64)> = operations
            .iter()
            .filter_map(|operation| match *operation {
                Operation::Copy { from, pages, .. } => Some((from, pages)),
                _ => None,
            })
            .collect();
        let allowed = (self.one_reservation(&targets), sources.is_empty() || self.one_reservation(&sources));
        match self.mm.prepare_update(self.space, &asked) {
            Ok((update, work)) => {
                assert_eq!(allowed, (true, true));
                self.machine.queue(work);
                self.waiting.push((update, operations, Vec::new()));
            }
            Err(UpdateError::Targets) => assert!(!allowed.0),
            Err(UpdateError::Sources) => assert!(!allowed.1),
            Err(error) => panic!("{error}"),
        }
    }

    fn asked(&self, operation: &Operation) -> UpdateOperation {
        match *operation {
            Operation::Map { at, pages, allocation, from, period } => UpdateOperation::Map {
                base: self.va(at),
                size_bytes: pages * PAGE_BYTES,
                allocation: self.allocations[allocation].expect("alive"),
                offset_bytes: from * PAGE_BYTES,
                allocation_size_bytes: if period == pages { 0 } else { period * PAGE_BYTES },
                protection: None,
            },
            Operation::Unmap { at, pages, zero } => UpdateOperation::Unmap {
                base: self.va(at),
                size_bytes: pages * PAGE_BYTES,
                reserved: if zero { Reserved::Zero } else { Reserved::NoAccess },
            },
            Operation::Copy { from, pages, to } => UpdateOperation::Copy {
                source: self.va(from),
                size_bytes: pages * PAGE_BYTES,
                destination: self.va(to),
            },
        }
    }

    /// The oldest update's turn.
    pub(super) fn apply(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let (update, operations, gone) = self.waiting.remove(0);
        let work = self.mm.apply_update(update);
        self.machine.queue(work);
        for operation in operations {
            let writes: Vec<(u64, Page)> = match operation {
                Operation::Map { allocation, .. } if self.allocations[allocation].is_none() => Vec::new(),
                Operation::Map { at, pages, allocation, from, period } => {
                    (0..pages).map(|page| (at + page, Page::Shows(allocation, from + page % period))).collect()
                }
                Operation::Unmap { at, pages, zero } => {
                    let shows = if zero { Page::Zero } else { Page::Nothing };
                    (at..at + pages).map(|page| (page, shows)).collect()
                }
                Operation::Copy { from, pages, to } => (0..pages)
                    .filter(|page| !gone.contains(&(from + page)))
                    .map(|page| (to + page, self.naive[&(from + page)].1))
                    .collect(),
            };
            for (page, shows) in writes {
                if !gone.contains(&page) {
                    self.naive.get_mut(&page).expect("still reserved").1 = shows;
                }
            }
        }
    }
}

pub(super) fn names(operations: &[Operation], which: usize) -> bool {
    operations.iter().any(|operation| matches!(operation, Operation::Map { allocation, .. } if *allocation == which))
}
