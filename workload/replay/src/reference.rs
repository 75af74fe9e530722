//! The oracle: the bytes that a page-granular least-recently-used memory moves for joined steps of a workload.
//!
//! It shares nothing with the kernel that it is held against: no segments, no fences, no drivers, only this model.
//!
//! - A storage occupies whole pages. It is resident from its begin up to some page; the rest is missing.
//! - An operation needs all pages of its storages. If they do not fit beside what is resident, pages are taken from the
//!   *end* of victims: storages not in the operation's set, least recently used first (by the last operation that
//!   used them; those of one operation in ascending order of identity), and only as many pages as are needed.
//! - A taken page that is dirty is paged out; a clean one is dropped.
//! - Missing pages are paged in if the storage has content outside: it was there before its step, or pages of it were
//!   taken after something had written it. Otherwise they are filled in place, which moves nothing: a storage that is read before
//!   anything writes it has no content to keep.
//! - Written storages become wholly dirty. Pages that come back are clean until the next write.
//! - Death drops all pages, wherever they are.
//!
//! Called by tests of the kernel and by users that compare a report with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{StepEvent, StorageId, Workload};

/// Bytes moved over all steps, in whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// From outside into the memory.
    pub paged_in: u64,
    /// From the memory to the outside.
    pub paged_out: u64,
}

/// Why the model cannot run a workload. The caller's numbers are to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// A page must have a size.
    #[error("pages of 0 bytes; give the page size of the memory, such as 4096 or 65536")]
    PageOfNoSize,
    /// An operation needs more pages together than the memory has.
    #[error(
        "operation {op_index} needs {needed} pages of {page_bytes} bytes together, the memory has {capacity}; give it more memory"
    )]
    TooSmall {
        /// The operation within its step.
        op_index: u32,
        /// Pages that it needs.
        needed: u128,
        /// Pages that the memory has.
        capacity: u64,
        /// Bytes in a page.
        page_bytes: u64,
    },
    /// The moved bytes do not fit 64 bits.
    #[error("more than 2^64 bytes would be moved; ask for fewer steps")]
    TooMuchMoved,
}

/// Runs `steps` joined steps through a memory of `capacity_bytes` (rounded down to whole pages of `page_bytes`).
///
/// # Errors
/// [`ReferenceError`] if the page size is zero, an operation does not fit, or the sums overflow.
pub fn lru_bytes(
    workload: &Workload,
    steps: u32,
    capacity_bytes: u64,
    page_bytes: u64,
) -> Result<Moved, ReferenceError> {
    let capacity = capacity_bytes.checked_div(page_bytes).ok_or(ReferenceError::PageOfNoSize)?;
    let mut memory = Memory { capacity, ..Memory::default() };
    for (tick, event) in (0u64..).zip(workload.steps(steps)) {
        match event {
            StepEvent::Death(id) => memory.drop_all(id),
            StepEvent::Op { op_index, reads, writes, .. } => {
                let set: BTreeSet<StorageId> = reads.iter().chain(&writes).copied().collect();
                let sizes = set.iter().map(|&id| {
                    let storage = workload.storages()[id.storage as usize];
                    (id, storage.bytes.div_ceil(page_bytes), storage.persistent)
                });
                memory.bring(sizes, &set, tick).map_err(|needed| ReferenceError::TooSmall {
                    op_index,
                    needed,
                    capacity,
                    page_bytes,
                })?;
                for id in &writes {
                    memory.write(*id);
                }
            }
        }
    }
    let bytes = |pages: u128| {
        let bytes = pages.checked_mul(page_bytes.into()).and_then(|bytes| u64::try_from(bytes).ok());
        bytes.ok_or(ReferenceError::TooMuchMoved)
    };
    Ok(Moved { paged_in: bytes(memory.paged_in)?, paged_out: bytes(memory.paged_out)? })
}

/// The memory; all counts are pages.
#[derive(Default)]
struct Memory {
    capacity: u64,
    used: u64,
    held: BTreeMap<StorageId, StorageState>,
    /// Storages with resident pages by last use, then identity: the order of victims.
    order: BTreeSet<(u64, StorageId)>,
    paged_in: u128,
    paged_out: u128,
}

/// State of a living storage.
#[derive(Default)]
struct StorageState {
    /// Pages from the begin that are resident.
    resident: u64,
    /// Pages from the begin that are resident and dirty: pages come back clean, and always at the end.
    dirty: u64,
    /// Whether missing pages have content elsewhere.
    content_outside: bool,
    /// Whether an operation has written it.
    written: bool,
    /// The last operation that used it.
    last_use: u64,
}

impl Memory {
    /// Makes a set resident. `sizes` has identity, pages and whether content exists before the first touch.
    /// `Err` says how many pages the set has if that is too many.
    fn bring(
        &mut self,
        sizes: impl Iterator<Item = (StorageId, u64, bool)> + Clone,
        set: &BTreeSet<StorageId>,
        tick: u64,
    ) -> Result<(), u128> {
        let needed: u128 = sizes.clone().map(|(_, pages, _)| u128::from(pages)).sum();
        if needed > u128::from(self.capacity) {
            return Err(needed);
        }
        let missing = |held: &BTreeMap<StorageId, StorageState>, id: StorageId, pages: u64| {
            pages - held.get(&id).map_or(0, |held| held.resident)
        };
        let absent: u64 = sizes.clone().map(|(id, pages, _)| missing(&self.held, id, pages)).sum();
        while absent > self.capacity - self.used {
            self.take(absent - (self.capacity - self.used), set);
        }
        for (id, pages, persistent) in sizes {
            let absent = missing(&self.held, id, pages);
            let held = self
                .held
                .entry(id)
                .or_insert_with(|| StorageState { content_outside: persistent, ..StorageState::default() });
            if held.content_outside {
                self.paged_in += u128::from(absent);
            }
            self.order.remove(&(held.last_use, id));
            self.order.insert((tick, id));
            (held.resident, held.last_use) = (pages, tick);
            self.used += absent;
        }
        Ok(())
    }

    /// Takes up to `wanted` pages from the end of the least recently used storage outside the set.
    fn take(&mut self, wanted: u64, set: &BTreeSet<StorageId>) {
        let victim = self.order.iter().find(|(_, id)| !set.contains(id)).copied();
        let (last_use, id) = victim.expect("the set fits, so something else is resident");
        let held = self.held.get_mut(&id).expect("what is in the order is held");
        let taken = wanted.min(held.resident);
        held.resident -= taken;
        self.used -= taken;
        let dirty_taken = held.dirty.saturating_sub(held.resident);
        held.dirty -= dirty_taken;
        held.content_outside |= held.written;
        self.paged_out += u128::from(dirty_taken);
        if held.resident == 0 {
            self.order.remove(&(last_use, id));
        }
    }

    fn write(&mut self, id: StorageId) {
        if let Some(held) = self.held.get_mut(&id) {
            (held.dirty, held.written) = (held.resident, true);
        }
    }

    fn drop_all(&mut self, id: StorageId) {
        if let Some(held) = self.held.remove(&id) {
            self.order.remove(&(held.last_use, id));
            self.used -= held.resident;
        }
    }
}
