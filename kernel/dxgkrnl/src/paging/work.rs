//! The works of the ring, in the order in which they were decided: queued behind what they wait for, being built, with the hardware. This
//! part asks no other; `adapter::work` makes works of the memory manager's decisions.

use std::collections::VecDeque;

use gpu_fence::FenceId;
use vidmm::{Operation, SpaceId, UsedContent, WithheldPlace};
use wddm_types::{GpuVa, Pages, ProcessId};

use crate::allocations::Gone;
use crate::number::{PagingQueueNumber, PagingWorkNumber};
use crate::paging::buffer::Progress;
use crate::paging::{MediumChange, PagingRing, Relocation};
use crate::store::ObjectNumber;

/// A work whose last buffer is with the hardware.
pub struct Submitted {
    /// The progress of the ring that completes it.
    pub progress_value: u64,
    /// Its number.
    pub number: PagingWorkNumber,
    /// The memory manager's number of it; 0 for the kernel's own.
    pub serial: u64,
    /// The value that the kernel signals for it: the hardware of a ring of packets signals nothing.
    pub completes: Option<(PagingQueueNumber, u64)>,
}

/// A work as it is queued.
pub struct NewWork {
    /// The memory manager's number of it; 0 for the kernel's own.
    pub serial: u64,
    /// The steps, in their order.
    pub operations: VecDeque<Operation>,
    /// Paging queue and the value of its fence that the work completes.
    pub completes: Option<(PagingQueueNumber, u64)>,
    /// The driver's objects that end when the work is built.
    pub destroys: Vec<Gone>,
    /// Locked content that it moves.
    pub turns: Vec<MediumChange>,
    /// Its moves within segments, and the devices that quiesce for them.
    pub relocation: Relocation,
    /// Content that it takes behind uses.
    pub used: Vec<UsedContent<FenceId>>,
    /// The process that caused it.
    pub process: ProcessId,
}

/// A work that is not built to its end.
pub struct QueuedWork {
    /// Its number.
    pub number: PagingWorkNumber,
    /// The memory manager's number of it; 0 for the kernel's own.
    pub serial: u64,
    /// The steps that are left.
    pub operations: VecDeque<Operation>,
    /// How far the first of them has got.
    pub(super) progress: Progress,
    /// Paging queue and the value of its fence that the work completes.
    pub completes: Option<(PagingQueueNumber, u64)>,
    /// The driver's objects that end when the work is built.
    pub destroys: Vec<Gone>,
    /// Locked content that it moves.
    pub turns: Vec<MediumChange>,
    /// Its moves within segments, and the devices that quiesce for them.
    pub relocation: Relocation,
    /// Content that it takes behind uses.
    pub used: Vec<UsedContent<FenceId>>,
    /// The process that caused it.
    pub process: ProcessId,
}

impl PagingRing {
    /// The memory manager's works that were decided before this serial are queued.
    pub fn next_serial(&self) -> u64 {
        self.last_serial + 1
    }

    /// The place behind everything that works queued so far bring.
    pub fn place(&self) -> WithheldPlace {
        WithheldPlace::behind(self.last_serial)
    }

    /// The memory manager's work with this serial is being queued.
    pub fn serial_queued(&mut self, serial: u64) {
        self.last_serial = self.last_serial.max(serial);
    }

    /// The number of the work that is being queued.
    pub fn next_work(&mut self) -> PagingWorkNumber {
        self.last_queued += 1;
        PagingWorkNumber::from_raw(self.last_queued)
    }

    /// The work that was queued last; `None`: there was none.
    pub fn last_work(&self) -> Option<PagingWorkNumber> {
        (self.last_queued > 0).then_some(PagingWorkNumber::from_raw(self.last_queued))
    }

    /// The last work is for this paging queue.
    pub fn works_for(&mut self, queue: Option<PagingQueueNumber>) {
        self.last_paging_queue = queue;
    }

    /// Whether the last work is for a paging queue, so that no other stands behind it.
    pub fn last_is_for(&self, queue: PagingQueueNumber) -> bool {
        self.last_paging_queue == Some(queue)
    }

    /// A work stands in the scheduler's queue until its turn comes. The last argument is the address space of the paging process.
    pub fn hold(&mut self, number: PagingWorkNumber, work: NewWork, paging: SpaceId) {
        debug_assert_eq!(number.raw(), self.last_queued, "a work is held as soon as it has its number");
        debug_assert!(
            self.held.back().is_none_or(|before| before.number < number),
            "a number is one work's: {number:?} is held"
        );
        if work.operations.iter().any(|operation| writes_entries(operation, paging)) {
            self.entry_works.insert(number);
        }
        let NewWork { serial, operations, completes, destroys, turns, relocation, used, process } = work;
        let progress = Progress::default();
        self.held.push_back(QueuedWork {
            number,
            serial,
            operations,
            progress,
            completes,
            destroys,
            turns,
            relocation,
            used,
            process,
        });
    }

    /// Entries that a queued work was to write for addresses of the paging process that go now, because what they showed
    /// moves: the addresses are free before its turn comes, and may show something else by then.
    // spec: memory §3.4 (paging-process tables), sync §1.5
    pub fn forget_entries(&mut self, paging: SpaceId, va: GpuVa, count: Pages) {
        let end = va.0 + count.bytes();
        let goes = |operation: &Operation| match operation {
            Operation::UpdatePageTable { first_va, .. } => {
                writes_entries(operation, paging) && (va.0..end).contains(&first_va.0)
            }
            _ => false,
        };
        for number in &self.entry_works {
            for works in [&mut self.held, &mut self.building] {
                if let Ok(at) = works.binary_search_by_key(number, |work| work.number) {
                    works[at].operations.retain(|operation| !goes(operation));
                }
            }
        }
    }

    /// Works that write entries of the paging process are those in `entry_works`, and all of these are queued.
    ///
    /// # Errors
    /// The first that is not so.
    pub(super) fn check_entry_works(&self, paging: SpaceId) -> Result<(), String> {
        let queued = || self.building.iter().chain(&self.held);
        let writes = |work: &&QueuedWork| work.operations.iter().any(|operation| writes_entries(operation, paging));
        if let Some(work) = queued().filter(writes).find(|work| !self.entry_works.contains(&work.number)) {
            return Err(format!("work {:?} writes entries of the paging process and is not known to", work.number));
        }
        match self.entry_works.iter().find(|number| !queued().any(|work| work.number == **number)) {
            Some(gone) => Err(format!("work {gone:?} was to write entries of the paging process and is gone")),
            None => Ok(()),
        }
    }
}

/// Whether an operation writes entries of a leaf table of this space.
fn writes_entries(operation: &Operation, space: SpaceId) -> bool {
    matches!(operation, Operation::UpdatePageTable { space: of, level: 0, .. } if *of == space)
}
