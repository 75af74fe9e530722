//! Lock2 and Unlock2 as far as they are built (memory §6.3): the CPU sees an allocation in its backing store. The host
//! aperture, a CPU-visible memory segment, and moving what a device's list holds are not built and say so.

use wddm_types::PageRun;

use crate::allocation::Placement;
use crate::paging::{Batch, Cause, Work};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

/// How to give the CPU an allocation's content: carry out `work`, wait for `wait_for`, clear `clear`, show `backing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockPlan<F> {
    /// Copies the content out; to be queued like any work.
    pub work: Option<Work<F>>,
    /// The ring is to be past this work before the CPU looks: the last one that writes or reads the backing store.
    /// `None`: no need to wait.
    pub wait_for: Option<u64>,
    /// Pages that nobody wrote yet; the CPU fills them with the clear pattern.
    pub clear: Vec<PageRun>,
    /// The pages to map, in order.
    pub backing: Vec<PageRun>,
}

/// Why a lock or unlock was refused; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// It lies in a memory segment and a device's list holds it there.
    #[error("locking what lies in a memory segment while it is on a residency list is not built")]
    NotSupported,
    /// Not CPU-visible, in a memory segment, and no aperture is supported (memory §6.3 row 9).
    #[error("not CPU-visible, resident, and no aperture is supported")]
    CantLock,
    /// Too many locks are outstanding.
    #[error("too many locks")]
    TooManyReferences,
    /// It is offered: it is to be reclaimed first (memory §5.9).
    #[error("an offered allocation is to be reclaimed first")]
    Offered,
    /// It is offered, and its content is lost already.
    #[error("the content of an offered allocation is lost")]
    ContentLost,
    /// Unlock without a lock.
    #[error("it is not locked")]
    NotLocked,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Locks an allocation. Locks nest; until the last unlock it does not enter a memory segment.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn lock(&mut self, id: AllocationId) -> Result<LockPlan<F>, LockError> {
        // spec: memory §5.9, memory §9.3
        match self.offered(id) {
            Some(true) => return Err(LockError::ContentLost),
            Some(false) => return Err(LockError::Offered),
            None => {}
        }
        let allocation = &self.allocations[id];
        if allocation.locks >= self.policy.lock_count_max {
            return Err(LockError::TooManyReferences);
        }
        let in_memory = matches!(allocation.placement, Placement::Memory(..));
        if in_memory && allocation.count > 0 {
            let visible = allocation.info.flags.contains(ddi::AllocationFlags::CPU_VISIBLE);
            let aperture = allocation.info.supported_segments.iter().any(|s| self.segment(s).is_aperture());
            return Err(if visible || aperture { LockError::NotSupported } else { LockError::CantLock });
        }
        let mut batch = Batch::new(self.serial + 1);
        if in_memory {
            self.withdraw(id, Cause::Lock, &mut batch);
        }
        let work = self.finish(batch, false);
        let completed = self.completed_serial();
        let allocation = &mut self.allocations[id];
        allocation.locks += 1;
        let pieces = allocation.valid.split(0, allocation.pages);
        let unwritten = pieces.iter().filter(|(_, _, valid)| !valid);
        let clear = unwritten.flat_map(|&(first, count, _)| allocation.backing_of(first, count)).collect();
        // From here on the CPU writes the backing store, and says so to nobody.
        let pages = allocation.pages;
        allocation.valid.insert(0, pages);
        Ok(LockPlan {
            work,
            wait_for: Some(allocation.last_work).filter(|&serial| serial > completed),
            clear,
            backing: allocation.backing.clone(),
        })
    }

    /// Undoes one lock.
    ///
    /// # Errors
    /// `NotLocked`.
    pub fn unlock(&mut self, id: AllocationId) -> Result<(), LockError> {
        let locks = &mut self.allocations[id].locks;
        *locks = locks.checked_sub(1).ok_or(LockError::NotLocked)?;
        Ok(())
    }

    /// Whether an allocation is locked.
    pub fn is_locked(&self, id: AllocationId) -> bool {
        self.allocations[id].locks > 0
    }
}
