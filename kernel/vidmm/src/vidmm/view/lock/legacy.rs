//! The lock of WDDM 1 drivers (memory §6.5): VidMm has the bus window over what is CPU-visible, ranges that show swizzled
//! content in linear order, and system memory to fall back to. That of WDDM 2 drivers is Lock2 with flags, and stands in
//! `lock`.
//!
//! | CPU-visible | content lies | marked | range wanted | ruling |
//! |---|---|---|---|---|
//! | no | anywhere | | | refused |
//! | yes | in system memory, linear | | | as it is: the driver is not asked |
//! | yes | in system memory, swizzled | yes | | in a memory segment first, then as there |
//! | yes | in a segment, with a permanent system copy | no | | the copy |
//! | yes | in a segment behind the BAR | | yes | through a range; without one, out |
//! | yes | in a segment behind the BAR | no | no | as it lies |
//! | yes | in a segment behind the BAR | yes | no | out: nothing else shows it in order |
//! | yes | in a segment that the CPU does not reach | | | out |
//!
//! "Out" is an eviction to system memory, which makes the content linear. Cached content is never seen in a memory segment
//! (memory §6.3 row 1). Content locked through a range does not come back into a memory segment while it is locked: the CPU would see
//! tiles.

use ddi::AllocationFlags;
use wddm_types::{CpuRun, PAGE_BYTES};

use crate::allocation::{Placement, SYSTEM_COPY};
use crate::operation::RangeWish;
use crate::paging::{Cause, Work};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::{Claim, Limit, Takes};

use super::rules::Medium;
use super::{LockError, LockPlan};

/// How an allocation is to be locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegacyLock {
    /// AcquireAperture: through a range, with this private data.
    pub acquire: Option<u32>,
    /// DonotEvict: the lock fails rather than move the content.
    pub donot_evict: bool,
}

/// The outcome of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ruling {
    InPlace,
    Bar,
    Range,
    SystemCopy,
    MoveOut,
    Refuse,
}

/// The inputs of the table.
#[derive(Clone, Copy, Debug)]
struct Subject {
    cpu_visible: bool,
    cached: bool,
    keeps_copy: bool,
    medium: Medium,
    marked: bool,
    acquire: bool,
}

// spec: memory §6.5
fn ruling(subject: Subject) -> Ruling {
    let Subject { cpu_visible, cached, keeps_copy, medium, marked, acquire } = subject;
    match medium {
        _ if !cpu_visible => Ruling::Refuse,
        Medium::System => Ruling::InPlace,
        _ if keeps_copy => Ruling::SystemCopy,
        Medium::Bar if cached => Ruling::MoveOut,
        Medium::Bar if acquire => Ruling::Range,
        Medium::Bar if marked => Ruling::MoveOut,
        Medium::Bar => Ruling::Bar,
        Medium::Windowed | Medium::OutOfReach => Ruling::MoveOut,
    }
}

impl<F: Copy + Eq> VidMm<F> {
    /// Whether a lock may take content out.
    ///
    /// # Errors
    /// As [`VidMm::lock_legacy`].
    fn may_lock_out(&self, id: AllocationId, how: LegacyLock) -> Result<(), LockError> {
        if how.donot_evict {
            return Err(LockError::NeedsEviction);
        }
        let allocation = &self.allocations[id];
        if allocation.pins > 0 {
            return Err(LockError::Pinned);
        }
        // spec: memory §6.5: linear outside memory, a marked one is not for an aperture, where a list would have it
        if allocation.count > 0 && (self.is_marked(id) || !self.supports_aperture(id)) {
            return Err(LockError::CantLock);
        }
        self.way_out(id).map(drop)
    }

    /// Whether there can be a lock of an allocation at all.
    ///
    /// # Errors
    /// `CantLock`: it is not CPU-visible, wherever it lies.
    // spec: memory §6.5
    pub fn may_ever_lock_legacy(&self, id: AllocationId) -> Result<(), LockError> {
        if self.allocations[id].cpu_visible() { Ok(()) } else { Err(LockError::CantLock) }
    }

    /// Whether Discard may give an allocation other memory: not what is pinned, a primary, or memory of its own.
    // spec: memory §6.5
    pub fn may_be_renamed(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        allocation.pins == 0 && !allocation.primary && !allocation.foreign && !allocation.is_offered()
    }

    /// Whether a lock is granted wherever an instance of the allocation lies: the instance that a rename puts in its place may lie
    /// elsewhere, and a refused lock must rename nothing. It does not check for a free range.
    // spec: memory §6.5
    pub fn may_lock_anywhere(&self, id: AllocationId, how: LegacyLock) -> bool {
        let supported = self.allocations[id].info.supported_segments.iter();
        let memory = supported.filter(|segment| !self.segment(*segment).is_aperture());
        let media = memory.map(|segment| self.medium_of(segment)).chain([Medium::System]);
        let granted = |medium| match self.ruling_at(id, how, medium) {
            Ruling::Refuse => false,
            Ruling::MoveOut => self.may_lock_out(id, how).is_ok(),
            Ruling::InPlace | Ruling::Bar | Ruling::Range | Ruling::SystemCopy => true,
        };
        self.may_lock(id).is_ok() && media.into_iter().all(granted)
    }

    /// Brings swizzled content out of system memory, where the CPU cannot read it, into a memory segment: before a lock.
    /// `None`: it is linear, or there already. `how` says whether the lock may move anything.
    ///
    /// # Errors
    /// `CantLock`: there is no room.
    // spec: memory §6.5, evicted swizzled
    pub fn page_in_for_lock(&mut self, id: AllocationId, how: LegacyLock) -> Result<Option<Work<F>>, LockError> {
        self.legacy_ruling(id, how)?;
        let allocation = &self.allocations[id];
        let away = matches!(allocation.placement, Placement::None);
        if !self.is_marked(id) || !away || allocation.backing_linear || allocation.locks.count > 0 {
            return Ok(None);
        }
        let device = allocation.owner.expect("what is locked is some device's");
        let claim = Claim { device, takes: Takes::Ranked, limit: Limit::None, for_holders: false, moves: true };
        let plan = self.plan(claim, &[id]).map_err(|_| LockError::CantLock)?;
        let mut batch = self.works.begin();
        self.carry_out(plan, Cause::Lock, &mut batch);
        if self.allocations[id].count == 0 {
            self.become_victim(id);
        }
        Ok(self.finish(batch, false))
    }

    /// `D3DKMTLock` of a WDDM 1 driver's allocation. Locks nest; all see the same address.
    ///
    /// # Errors
    /// See [`LockError`].
    // spec: memory §6.5
    pub fn lock_legacy(&mut self, id: AllocationId, how: LegacyLock) -> Result<LockPlan<F>, LockError> {
        let ruling = self.legacy_ruling(id, how)?;
        let nested = self.allocations[id].locks.count > 0;
        if nested && how.acquire.is_some() && !self.allocations[id].locks.acquired {
            return Err(LockError::NotAcquired);
        }
        let mut range = None;
        let moves = match ruling {
            Ruling::Range => match self.wish_range(id, how.acquire.expect("a range is wanted")) {
                Some(wish) => {
                    range = wish;
                    false
                }
                None => true,
            },
            // A nested lock moves nothing.
            Ruling::MoveOut => !nested,
            Ruling::Refuse => return Err(LockError::CantLock),
            Ruling::InPlace | Ruling::Bar | Ruling::SystemCopy => false,
        };
        if moves {
            return self.lock_out(id, how);
        }
        let mut batch = self.works.begin();
        let mut before_range = None;
        if ruling == Ruling::SystemCopy {
            if !nested {
                self.refresh_copy(id, &mut batch);
            }
        } else if let Placement::Memory(_, extents) = &mut self.allocations[id].placement {
            before_range = range.filter(|_| !nested).map(|_| extents.clone());
            // From here on the CPU writes there without telling VidMm.
            extents.make_dirty();
        }
        let work = self.finish(batch, false);
        let clear = self.make_whole(id);
        self.count_lock(id, how.acquire.is_some());
        self.allocations[id].locks.before_range = before_range;
        let mut plan = self.plan_of(id, work, None, clear);
        plan.range = range;
        Ok(plan)
    }

    /// The driver did not acquire the range of the lock just planned: it is decided anew without one.
    ///
    /// # Errors
    /// `NeedsEviction` with DonotEvict, `CantLock`: this lock is undone.
    // spec: memory §6.5, giving up
    pub fn range_failed(
        &mut self,
        id: AllocationId,
        wish: &RangeWish,
        how: LegacyLock,
    ) -> Result<LockPlan<F>, LockError> {
        self.ranges.forget(wish.acquire.range);
        let allocation = &mut self.allocations[id];
        allocation.locks.count -= 1;
        // The driver refused the range, so the CPU has written nothing through it.
        if let (Some(before), Placement::Memory(_, extents)) =
            (allocation.locks.before_range.take(), &mut allocation.placement)
        {
            *extents = before;
        }
        if allocation.locks.count == 0 {
            self.unlocked(id);
        }
        self.lock_out(id, how)
    }

    /// The driver shows a range somewhere else than asked, which it may for an alternate address only. Returns the runs that the CPU sees
    /// now.
    // spec: memory §6.5, UseAlternateVA
    pub fn range_placed(&mut self, id: AllocationId, address: u64) -> Vec<CpuRun> {
        self.ranges.place(id, address);
        self.allocations[id].locks.runs = self.cpu_runs(id);
        self.allocations[id].locks.runs.clone()
    }

    fn lock_out(&mut self, id: AllocationId, how: LegacyLock) -> Result<LockPlan<F>, LockError> {
        self.may_lock_out(id, how)?;
        let mut batch = self.works.begin();
        self.move_out(id, &mut batch)?;
        let work = self.finish(batch, false);
        let clear = self.make_whole(id);
        self.count_lock(id, how.acquire.is_some());
        Ok(self.plan_of(id, work, None, clear))
    }

    /// A range for an allocation. `Some(None)`: one shows it already. `None`: there is none to be had.
    // spec: memory §6.5, cached by allocation and private data
    fn wish_range(&mut self, id: AllocationId, data: u32) -> Option<Option<RangeWish>> {
        if self.ranges.find(id, data).is_some() {
            return Some(None);
        }
        let allocation = &self.allocations[id];
        let Placement::Memory(segment, extents) = &allocation.placement else { unreachable!("ranges show memory") };
        let extent = extents.iter().next().expect("it has pages there");
        let (segment, range_bytes, kmd) = (*segment, allocation.bytes(), allocation.info.allocation);
        let base = self.segment(segment).descriptor.cpu.translated().unwrap_or(0);
        let cpu_translated_address = base + extent.frame * PAGE_BYTES;
        let (acquire, release) = self.ranges.take(id, kmd, data)?;
        Some(Some(RangeWish { release, acquire, segment, range_bytes, cpu_translated_address }))
    }

    fn legacy_ruling(&self, id: AllocationId, how: LegacyLock) -> Result<Ruling, LockError> {
        let allocation = &self.allocations[id];
        self.may_lock(id)?;
        let medium = match &allocation.placement {
            Placement::None | Placement::System(_) => Medium::System,
            Placement::Memory(segment, _) => self.medium_of(*segment),
        };
        match self.ruling_at(id, how, medium) {
            Ruling::Refuse => Err(LockError::CantLock),
            ruling => Ok(ruling),
        }
    }

    fn ruling_at(&self, id: AllocationId, how: LegacyLock, medium: Medium) -> Ruling {
        let allocation = &self.allocations[id];
        let flags = allocation.info.flags;
        ruling(Subject {
            cpu_visible: allocation.cpu_visible(),
            // spec: memory §2.2, bits 1 and 4: where it cannot be the copy of what stays, it leaves
            cached: flags.intersects(AllocationFlags::CACHED | SYSTEM_COPY),
            keeps_copy: self.keeps_copy(id),
            medium,
            marked: self.is_marked(id),
            acquire: how.acquire.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table() {
        // spec: memory §6.5
        // seed: M35, M36
        use Medium::{Bar, OutOfReach, System};
        let of = |cpu_visible, cached, medium, marked, acquire| {
            ruling(Subject { cpu_visible, cached, keeps_copy: false, medium, marked, acquire })
        };
        for (marked, acquire) in [(false, false), (false, true), (true, false), (true, true)] {
            assert_eq!(of(true, false, System, marked, acquire), Ruling::InPlace, "the driver is not asked");
            assert_eq!(of(false, false, System, marked, acquire), Ruling::Refuse);
            assert_eq!(of(true, true, Bar, marked, acquire), Ruling::MoveOut);
            assert_eq!(of(true, false, OutOfReach, marked, acquire), Ruling::MoveOut);
        }
        assert_eq!(of(true, false, Bar, false, false), Ruling::Bar);
        assert_eq!(of(true, false, Bar, true, false), Ruling::MoveOut);
        assert_eq!(of(true, false, Bar, false, true), Ruling::Range);
        assert_eq!(of(true, false, Bar, true, true), Ruling::Range);
    }
}
