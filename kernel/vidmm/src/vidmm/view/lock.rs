//! Lock2 and Unlock2 (memory §6.3): where the CPU sees an allocation, and that it goes on seeing it while the content
//! moves. The table of `rules` decides what a lock does; this module carries it out.
//!
//! # A locked allocation moves
//! Its address stays, the medium behind it changes. Any work that changes the medium of a locked allocation says so with a
//! [`Rotation`](crate::Rotation): before its first operation the CPU's mapping is write-protected, after its last one the new medium is
//! shown. In between the CPU reads the old one, and a CPU write waits. So no write is lost, and the move needs no help from the program.
//! Locked content is never taken for clean: the CPU writes without telling VidMm.
//!
//! Content that may not be in a memory segment while it is locked (cached, not CPU-visible, out of reach, or confined: locked while not
//! resident with no aperture supported) is committed to system memory if it can, and not at all otherwise.

mod copy;
mod legacy;
mod render;
pub(crate) mod rules;
mod view;

use ddi::{AllocationFlags, DriverModel, SegmentFlags};
use wddm_types::{CpuRun, FencePoint, PAGE_BYTES, PageRun, SegmentId, SegmentSet};

use crate::allocation::{Locks, Placement, SYSTEM_COPY};
use crate::operation::RangeWish;
use crate::operation::{WindowMap, WindowPages};
use crate::paging::{Batch, Cause, Work};
use crate::seldom::Seldom;
use crate::slab::AllocationId;
use crate::vidmm::VidMm;
use rules::{Medium, Ruling, Subject};

pub use legacy::LegacyLock;

/// How to give the CPU an allocation's content: map `window`, carry out `work`, wait for `wait_for`, clear `clear`,
/// show `runs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockPlan<F> {
    /// Copies the content out; to be queued like any work.
    pub work: Option<Work<F>>,
    /// The ring is to be past this work before the CPU looks: the last one that writes or reads the content.
    /// `None`: no need to wait.
    pub wait_for: Option<u64>,
    /// Pages without content; the caller fills them with the clear pattern, by the CPU.
    pub clear: Vec<PageRun>,
    /// Pages of the host aperture that the driver is to map first. If it fails: [`VidMm::window_failed`].
    pub window: Option<WindowMap>,
    /// A swizzling range that the driver is to acquire first. If it does not: [`VidMm::range_failed`].
    pub range: Option<RangeWish>,
    /// The runs to map for the CPU, in order.
    pub runs: Vec<CpuRun>,
}

/// Why a lock or unlock was refused; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Rows 1, 6 and 9 of memory §6.3: it lies where the CPU does not reach and may not leave.
    #[error("the CPU does not reach it where it lies, and no aperture is supported (memory §6.3)")]
    CantLock,
    /// It would have to move, and is pinned.
    #[error("it would have to move, and is pinned")]
    Pinned,
    /// Too many locks are outstanding.
    #[error("too many locks")]
    TooManyReferences,
    /// It is offered: it is to be reclaimed first (memory §5.9).
    #[error("an offered allocation is to be reclaimed first")]
    Offered,
    /// It is offered, and its content is lost already.
    #[error("the content of an offered allocation is lost")]
    ContentLost,
    /// It would have to be evicted, and the caller said not to (memory §6.5).
    #[error("it would have to be evicted")]
    NeedsEviction,
    /// It is locked without a range, and now with one (memory §6.5).
    #[error("what was locked without AcquireAperture is not locked again with it")]
    NotAcquired,
    /// Unlock without a lock.
    #[error("it is not locked")]
    NotLocked,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Whether a lock would take content out of its memory segment.
    ///
    /// # Errors
    /// As [`VidMm::lock`].
    pub fn lock_moves(&self, id: AllocationId) -> Result<bool, LockError> {
        let mut ruling = self.rule_for(id, true)?;
        if self.allocations[id].locks.count > 0 {
            return Ok(false);
        }
        if ruling == Ruling::Window && !self.has_window_room(id) {
            ruling = self.rule_for(id, false)?;
        }
        if ruling != Ruling::MoveOut {
            return Ok(false);
        }
        // No device quiesces for a move that cannot be made.
        self.way_out(id).map(|_| true)
    }

    /// The last uses that the copies of a lock would wait for: those of content on no list, which queued work may still write.
    // spec: memory §6.3, memory §10.1
    pub fn lock_waits_for(&self, id: AllocationId) -> &[FencePoint<F>] {
        let allocation = &self.allocations[id];
        let copies = !allocation.last_use.is_empty()
            && allocation.locks.count == 0
            && (self.rule_for(id, true) == Ok(Ruling::SystemCopy) || self.lock_moves(id) == Ok(true));
        if copies { &allocation.last_use } else { &[] }
    }

    /// Locks an allocation. Locks nest; the first decides, the others see the same. If content on lists has to leave, their devices quiesce
    /// meanwhile ([`Work::quiesced`]).
    ///
    /// # Errors
    /// See [`LockError`].
    // spec: memory §6.3
    pub fn lock(&mut self, id: AllocationId) -> Result<LockPlan<F>, LockError> {
        if self.allocations[id].locks.count > 0 {
            self.rule_for(id, true)?;
            self.count_lock(id, false);
            return Ok(self.plan_of(id, None, None, Vec::new()));
        }
        let mut ruling = self.rule_for(id, true)?;
        let mut window = None;
        if ruling == Ruling::Window {
            match self.take_window(id) {
                Some(map) => window = map,
                None => ruling = self.rule_for(id, false)?,
            }
        }
        let mut batch = self.works.begin();
        match ruling {
            Ruling::Refuse => return Err(LockError::CantLock),
            Ruling::InPlace => {}
            Ruling::Bar | Ruling::Window => {
                let Placement::Memory(_, extents) = &mut self.allocations[id].placement else {
                    unreachable!("these rows are about memory segments")
                };
                // From here on the CPU writes there without telling VidMm.
                extents.make_dirty();
            }
            Ruling::SystemCopy => self.refresh_copy(id, &mut batch),
            Ruling::MoveOut => self.move_out(id, &mut batch)?,
        }
        let work = self.finish(batch, false);
        let clear = self.make_whole(id);
        self.count_lock(id, false);
        Ok(self.plan_of(id, work, window, clear))
    }

    /// The driver did not map the window of the lock just planned: what the lock did is undone, and it is decided anew
    /// without a window.
    ///
    /// # Errors
    /// `CantLock`: the allocation is not locked.
    // spec: memory §6.6, an error is "no address": row 6 of memory §6.3
    pub fn window_failed(&mut self, id: AllocationId, map: &WindowMap) -> Result<LockPlan<F>, LockError> {
        assert_eq!(self.allocations[id].locks.count, 1, "only a first lock maps a window");
        self.allocations[id].locks.clear();
        let segment = map.segment;
        if let Some(pages) = self.end_window(id) {
            self.window_unmapped(&pages);
        }
        match self.rule_for(id, false)? {
            Ruling::MoveOut => {}
            ruling => unreachable!("row 6 says out or no, not {ruling:?} of segment {segment:?}"),
        }
        let mut batch = self.works.begin();
        self.move_out(id, &mut batch)?;
        let work = self.finish(batch, false);
        let clear = self.make_whole(id);
        self.count_lock(id, false);
        Ok(self.plan_of(id, work, None, clear))
    }

    /// The driver has unmapped window pages that a [`Rotation`](crate::Rotation) named.
    pub fn window_unmapped(&mut self, pages: &WindowPages) {
        self.windows.unmapped(pages);
    }

    /// Undoes one lock. True: it was the last one.
    ///
    /// # Errors
    /// `NotLocked`.
    pub fn unlock(&mut self, id: AllocationId) -> Result<bool, LockError> {
        let left = self.allocations[id].locks.count.checked_sub(1).ok_or(LockError::NotLocked)?;
        self.allocations[id].locks.count = left;
        if left > 0 {
            return Ok(false);
        }
        self.unlocked(id);
        Ok(true)
    }

    /// Whether an allocation may lie in a memory segment, and not only in system memory.
    pub fn may_lie_in_memory(&self, id: AllocationId) -> bool {
        self.has_memory(self.allocations[id].info.supported_segments)
    }

    /// Whether one of these segments has memory of its own, other than an aperture.
    pub fn has_memory(&self, segments: SegmentSet) -> bool {
        segments.iter().any(|segment| !self.segment(segment).is_aperture())
    }

    /// Whether an allocation is locked.
    pub fn is_locked(&self, id: AllocationId) -> bool {
        self.locks_of(id) > 0
    }

    /// The runs of a locked allocation that the CPU sees once all returned work is done.
    pub fn seen_runs(&self, id: AllocationId) -> &[CpuRun] {
        &self.allocations[id].locks.runs
    }

    /// How many locks of an allocation have not ended.
    pub fn locks_of(&self, id: AllocationId) -> u32 {
        self.allocations[id].locks.count
    }

    /// Undoes every lock: the allocation is destroyed, or its process has it no more.
    // spec: memory §10.1 row 27
    pub fn unlock_all(&mut self, id: AllocationId) {
        if self.allocations[id].locks.count > 0 {
            self.unlocked(id);
        }
    }

    /// Whether a locked allocation may enter a memory segment: only where the CPU sees it too.
    // spec: memory §6.3, requirements
    pub(crate) fn may_enter_locked(&self, id: AllocationId, segment: SegmentId) -> bool {
        let allocation = &self.allocations[id];
        let flags = allocation.info.flags;
        allocation.cpu_visible()
            && !flags.intersects(AllocationFlags::CACHED | SYSTEM_COPY)
            && self.medium_of(segment) == Medium::Bar
            // spec: memory §6.5, nothing renders from it there
            && self.model == DriverModel::Wddm2
            && !allocation.locks.confined
            && !allocation.locks.acquired
            && !self.is_marked(id)
    }

    fn rule_for(&self, id: AllocationId, window: bool) -> Result<Ruling, LockError> {
        let allocation = &self.allocations[id];
        self.may_lock(id)?;
        let medium = match &allocation.placement {
            Placement::None | Placement::System(_) => Medium::System,
            Placement::Memory(segment, _) => self.medium_of(*segment),
        };
        let may_leave = allocation.count == 0 || self.supports_aperture(id);
        let flags = allocation.info.flags;
        let subject = Subject {
            cpu_visible: allocation.cpu_visible(),
            // spec: memory §2.2, bits 1 and 4: where it cannot be the copy of what stays, it leaves, as if the segment and the
            // CPU were not coherent
            cached: flags.intersects(AllocationFlags::CACHED | SYSTEM_COPY),
            keeps_copy: self.keeps_copy(id),
            medium,
            may_leave,
        };
        let (_, ruling) = rules::ruling(subject);
        let ruling = if ruling == Ruling::Window && !window { rules::fallback(may_leave) } else { ruling };
        match ruling {
            Ruling::Refuse => Err(LockError::CantLock),
            Ruling::MoveOut if allocation.pins > 0 => Err(LockError::Pinned),
            ruling => Ok(ruling),
        }
    }

    /// Checks the conditions that forbid any lock.
    // spec: memory §6.3, memory §9.3
    fn may_lock(&self, id: AllocationId) -> Result<(), LockError> {
        if self.allocations[id].locks.count >= self.policy.lock_count_max {
            return Err(LockError::TooManyReferences);
        }
        match self.offered(id) {
            Some(true) => Err(LockError::ContentLost),
            Some(false) => Err(LockError::Offered),
            None => Ok(()),
        }
    }

    fn medium_of(&self, segment: SegmentId) -> Medium {
        let flags = self.segment(segment).descriptor.flags;
        // spec: memory §2.6, the address shows one layout for as long as it is valid: that of the backing store
        if self.segment(segment).aligns_pitches() || !self.policy.cpu_reaches_local {
            Medium::OutOfReach
        } else if flags.contains(SegmentFlags::CPU_VISIBLE) {
            Medium::Bar
        } else if self.windows.is_windowed(segment) {
            Medium::Windowed
        } else {
            Medium::OutOfReach
        }
    }

    fn supports_aperture(&self, id: AllocationId) -> bool {
        self.allocations[id].info.supported_segments.iter().any(|segment| self.segment(segment).is_aperture())
    }

    /// Takes content out to system memory, where it stays within the GPU's reach if a list holds it.
    // spec: memory §10.1 rows 21 and 22
    fn move_out(&mut self, id: AllocationId, batch: &mut Batch<F>) -> Result<(), LockError> {
        let listed = self.allocations[id].count > 0;
        let aperture = self.way_out(id)?;
        // They stop at the turn of this work, not before: earlier work may wait for what they have queued.
        batch.quiesced.extend(self.devices.running(&self.allocations[id].holders));
        self.withdraw(id, Cause::Lock, batch);
        if listed {
            self.enter_system(id, aperture, Cause::Lock, batch);
        }
        let placement = &self.allocations[id].placement;
        debug_assert!(!matches!(placement, Placement::Memory(..)), "{id:?} has moved out, and lies in {placement:?}");
        Ok(())
    }

    /// The aperture pages that content has to have when it moves out, if it has to have any.
    fn way_out(&self, id: AllocationId) -> Result<Option<(SegmentId, PageRun)>, LockError> {
        let allocation = &self.allocations[id];
        if allocation.count == 0 || !allocation.accessed_physically() {
            return Ok(None);
        }
        let alignment = (allocation.info.alignment_bytes / PAGE_BYTES).max(1);
        let left = self.segments.commit_left_pages();
        let mut apertures = allocation.candidates().map(|id| self.segment(id)).filter(|s| s.is_aperture());
        let found = apertures.find_map(|place| {
            let pages = allocation.pages_in(place);
            let run = (pages <= left).then(|| place.trial().take_contiguous(pages, alignment, false))??;
            Some((place.id, run))
        });
        found.map(Some).ok_or(LockError::CantLock)
    }

    fn has_window_room(&self, id: AllocationId) -> bool {
        let Placement::Memory(segment, extents) = &self.allocations[id].placement else { return false };
        self.windows.has_room(*segment, id, extents.iter())
    }

    fn take_window(&mut self, id: AllocationId) -> Option<Option<WindowMap>> {
        let Placement::Memory(segment, extents) = &self.allocations[id].placement else {
            unreachable!("a window shows a memory segment")
        };
        self.windows.take(*segment, id, extents.iter(), self.policy.windows_kept_max)
    }

    /// Whether the CPU sees an allocation through a window: it leaves whole then.
    pub(crate) fn is_windowed(&self, id: AllocationId) -> bool {
        self.allocations[id].locks.count > 0 && self.windows.show(id)
    }

    fn end_window(&mut self, id: AllocationId) -> Option<WindowPages> {
        self.windows.end(id)
    }

    /// Counts one more lock of content that lies where its lock wants it; the first lock decides what the CPU sees. Every lock ends here,
    /// Lock2 of a WDDM 1 allocation too: the ranges that an earlier lock left are in use from now on.
    // spec: memory §6.3, memory §6.5
    fn count_lock(&mut self, id: AllocationId, acquired: bool) {
        if self.allocations[id].locks.count == 0 {
            let confined = matches!(self.allocations[id].placement, Placement::None) && !self.supports_aperture(id);
            let through_aperture = self.shows_primary(id);
            self.allocations[id].locks = Seldom::of(Locks { confined, acquired, through_aperture, ..Locks::default() });
            self.allocations[id].locks.runs = self.cpu_runs(id);
        }
        self.allocations[id].locks.count += 1;
        let (locks, most) = (self.allocations[id].locks.count, self.policy.lock_count_max);
        debug_assert!(locks <= most, "{id:?} has {locks} locks, of {most}");
        self.ranges.keep(id, true);
    }

    fn unlocked(&mut self, id: AllocationId) {
        self.allocations[id].locks.clear();
        self.windows.keep(id);
        self.ranges.keep(id, false);
    }

    fn plan_of(
        &self,
        id: AllocationId,
        work: Option<Work<F>>,
        window: Option<WindowMap>,
        clear: Vec<PageRun>,
    ) -> LockPlan<F> {
        let allocation = &self.allocations[id];
        let wait_for = Some(allocation.last_work).filter(|&serial| !self.works.is_past(serial));
        LockPlan { work, wait_for, clear, window, range: None, runs: allocation.locks.runs.clone() }
    }
}
