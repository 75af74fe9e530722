//! How allocations begin and end: creation with a backing store, destruction now or behind its last use (memory §2, §6.2,
//! §8.5). `residency` moves their content meanwhile.

use ddi::{AllocationFlags, AllocationFlags2, AllocationInfo, KmdAllocation};
use wddm_types::{FencePoint, PageRun, Pages};

use crate::allocation::{self, Allocation, AllocationError, Origin, Placement, Terms};
use crate::device::Postponed;
use crate::extent::PageSet;
use crate::paging::{Cause, Work, merge_points};
use crate::slab::{AllocationId, DeviceId, SpaceId};
use crate::system_pages::pages_of;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Makes an allocation, not resident (S0, memory §10.1 row 8), with its backing store.
    ///
    /// # Errors
    /// See [`AllocationError`].
    pub fn create_allocation(
        &mut self,
        owner: DeviceId,
        info: AllocationInfo,
    ) -> Result<AllocationId, AllocationError> {
        self.create_allocation_from(owner, info, Origin::default())
    }

    /// Whether these can be made together, before any of them is: so a creation that fails discards no offered content.
    ///
    /// # Errors
    /// See [`AllocationError`].
    // spec: memory §2.7, memory §5.9
    pub fn check_allocations(&self, wanted: &[(AllocationInfo, Origin)]) -> Result<(), AllocationError> {
        let mut needed = 0u64;
        for (info, origin) in wanted {
            let (_, pages) = allocation::check(self.segments.with_system_alias(*info), origin, self.creation_terms())?;
            needed = needed.saturating_add(if origin.existing.is_some() { 0 } else { pages });
        }
        if self.can_back(Pages(needed)) { Ok(()) } else { Err(self.no_backing_store(needed)) }
    }

    /// The same for a primary, or over memory that exists already.
    ///
    /// # Errors
    /// See [`AllocationError`].
    // spec: memory §2.2, memory §2.7
    pub fn create_allocation_from(
        &mut self,
        owner: DeviceId,
        info: AllocationInfo,
        origin: Origin,
    ) -> Result<AllocationId, AllocationError> {
        let _ = &self.devices[owner];
        let info = self.by_physical_address(self.segments.with_system_alias(info));
        let (info, pages) = allocation::check(info, &origin, self.creation_terms())?;
        let foreign = origin.existing.is_some();
        let backing = match origin.existing {
            Some(runs) => Some(runs),
            None => {
                self.decommit_for(pages);
                self.system.take_backing(Some(owner), info.flags, pages)
            }
        };
        let backing = backing.ok_or_else(|| self.no_backing_store(pages))?;
        debug_assert_eq!(pages_of(&backing), pages, "as many pages are behind an allocation as it has");
        let system_only = info.supported_segments.iter().all(|id| self.segment(id).is_aperture());
        let valid = if system_only || foreign { PageSet::all(pages) } else { PageSet::default() };
        // spec: memory §2.2, bits 8 and 9: never a victim, whatever lists say
        let pinned = info.flags.intersects(AllocationFlags::OVERLAY | AllocationFlags::CAPTURE);
        let mut new = Allocation::new(owner, self.band_of(owner), (info, pages), backing);
        (new.foreign, new.primary, new.valid, new.pins) = (foreign, origin.primary, valid, u32::from(pinned));
        let id = self.allocations.begin(new);
        self.devices.own(owner, id);
        Ok(id)
    }

    fn no_backing_store(&self, wanted: u64) -> AllocationError {
        AllocationError::NoBackingStore { wanted: Pages(wanted), free: self.free_system_pages() }
    }

    /// The backing pages that are to hold the clear pattern before anybody uses a new allocation: all of them when it
    /// can only live in system memory, else none (a first commit fills the segment instead, memory §3.3).
    pub fn pages_to_clear(&self, allocation: AllocationId) -> &[PageRun] {
        let allocation = &self.allocations[allocation];
        let system_only = allocation.info.supported_segments.iter().all(|id| self.segment(id).is_aperture());
        if system_only && !allocation.foreign { &allocation.backing } else { &[] }
    }

    /// Bytes of an allocation, rounded to the pages of its segments.
    pub fn allocation_bytes(&self, allocation: AllocationId) -> u64 {
        self.allocations[allocation].bytes()
    }

    /// The driver's handle of an allocation.
    pub fn kmd_handle(&self, allocation: AllocationId) -> KmdAllocation {
        self.allocations[allocation].info.allocation
    }

    /// The system pages of an allocation, in order.
    pub fn backing(&self, allocation: AllocationId) -> &[PageRun] {
        &self.allocations[allocation].backing
    }

    /// Whether something is in the system pages of an allocation, or may be stored there.
    pub fn uses_backing(&self, allocation: AllocationId) -> bool {
        let known = &self.allocations[allocation];
        let in_system = matches!(known.placement, Placement::System(_));
        in_system || !known.valid.is_empty() || self.shares_backing(allocation)
    }

    /// Whether the driver sees the system pages of an allocation too (`ShareBackingStoreWithKmd`).
    pub fn shares_backing(&self, allocation: AllocationId) -> bool {
        self.allocations[allocation].info.flags2.contains(AllocationFlags2::SHARE_BACKING_STORE_WITH_KMD)
    }

    /// Whether all of an allocation is where the GPU reaches it.
    pub fn is_resident(&self, allocation: AllocationId) -> bool {
        let allocation = &self.allocations[allocation];
        match &allocation.placement {
            Placement::None => false,
            Placement::Memory(_, extents) => extents.are_whole(),
            Placement::System(_) => true,
        }
    }

    /// The owner has destroyed an allocation that queued work may still use (memory §8.5, S8). It is on no list any more,
    /// its pages count as room: the next plan that needs room takes them first, uncopied, behind `after`. When its last use is over,
    /// [`VidMm::destroy_allocation`] ends it. So a destruction delays no device that has room, and evicts no live content in favour of the
    /// dead. `taken`: uses of it that works in the ring wait for.
    // spec: memory §6.2, memory §8.5
    pub fn doom_allocation(&mut self, id: AllocationId, after: &[FencePoint<F>], taken: &[FencePoint<F>]) {
        // Its process sees it no more, whenever it goes.
        self.unlock_all(id);
        self.foresee_death(id);
        self.count_returning(id);
        let owner = self.allocations[id].owner.expect("a device has just destroyed it");
        if self.must_postpone(owner, after) {
            self.devices.postpone(owner, Postponed::Doom { id, after: after.to_vec() });
            return;
        }
        self.devices.note_uses(owner, after);
        self.doom(id, after, Some(taken));
    }

    /// `taken`: as for [`VidMm::doom_allocation`]; `None`: that is not known.
    pub(crate) fn doom(&mut self, id: AllocationId, after: &[FencePoint<F>], taken: Option<&[FencePoint<F>]>) {
        // Work may have written what was on a list, and a use that goes on needs it.
        if let Allocation { count: 1.., placement: Placement::Memory(_, extents), .. } = &mut self.allocations[id] {
            extents.make_dirty();
        }
        let done = self.works.completed();
        let known = &mut self.allocations[id];
        let taken = taken.or((known.last_work <= done).then_some(&[])).filter(|_| known.count == 0);
        known.uses_at_death = taken.map(|taken| {
            let mut uses = known.last_use.clone();
            merge_points(&mut uses, taken);
            uses
        });
        self.leave_lists(id);
        let tick = self.clock.next_tick();
        let allocation = &mut self.allocations[id];
        assert!(allocation.doomed.is_none(), "an allocation is destroyed once");
        let (count, locks) = (allocation.count, allocation.locks.count);
        debug_assert!(count == 0 && locks == 0, "{id:?} is destroyed, listed {count} times and locked {locks} times");
        allocation.doomed = Some(tick);
        merge_points(&mut allocation.last_use, after);
        self.rerank(id);
    }

    /// Takes an allocation off every list.
    pub(crate) fn leave_lists(&mut self, id: AllocationId) {
        self.forget_postponed(id);
        for device in self.devices.withholding().collect::<Vec<_>>() {
            self.devices.forget_withheld(device, id);
        }
        let holders: Vec<DeviceId> = self.allocations[id].holders.iter().copied().collect();
        let mut listed = 0;
        for device in holders {
            let times = self.devices.unlist(device, id);
            debug_assert!(times.is_some(), "{device:?} holds {id:?}, and does not list it");
            listed += times.unwrap_or(0);
            self.remove_holder(id, device);
            self.foresee_leave(device, id);
        }
        let allocation = &mut self.allocations[id];
        debug_assert_eq!(allocation.count, listed, "{id:?} counts what its holders list");
        allocation.count = 0;
        allocation.lazy_since = None;
        self.allocations.forget_aside(id);
        self.rerank(id);
    }

    /// Ends an allocation: its addresses are unmapped (memory §6.2), its content dropped, a lock on it undone (§10.1
    /// row 27). `after`: its last use; the work waits for it. The backing store returns to the pool when the ring is
    /// past every work that touched it ([`VidMm::completed`]).
    pub fn destroy_allocation(&mut self, allocation: AllocationId, after: &[FencePoint<F>]) -> Option<Work<F>> {
        let mut batch = self.works.begin();
        self.unlock_all(allocation);
        self.foresee_death(allocation);
        self.leave_window(allocation, &mut batch);
        let spaces: Vec<(SpaceId, u64)> = self.allocations[allocation].mappings.iter().copied().collect();
        for (space, first) in spaces {
            let count = Pages(self.spaces[space].mapping_at(first).expect("an allocation knows its mappings").pages);
            let run = PageRun { first, count };
            self.conceal(space, run, &mut batch);
            self.revert(space, run, &mut batch);
        }
        self.leave_lists(allocation);
        let reachable = !matches!(self.allocations[allocation].placement, Placement::None);
        if reachable {
            merge_points(&mut self.allocations[allocation].last_use, after);
            self.withdraw(allocation, Cause::Destroy, &mut batch);
        } else if !batch.invalidations.is_empty() {
            merge_points(&mut batch.after, after);
        }
        let gone = self.allocations.end(allocation);
        debug_assert!(gone.mappings.is_empty(), "{allocation:?} is gone, and shown at {:?}", gone.mappings);
        debug_assert!(gone.holders.is_empty(), "{allocation:?} is gone, and listed by {:?}", gone.holders);
        debug_assert!(gone.standing.is_none(), "{allocation:?} is gone, and stands as {:?}", gone.standing);
        debug_assert!(matches!(gone.placement, Placement::None), "{allocation:?} is gone from {:?}", gone.placement);
        debug_assert!(gone.displayed.at.is_none(), "{allocation:?} is gone, and displayed at {:?}", gone.displayed.at);
        if let Some(owner) = gone.owner {
            self.devices.disown(owner, allocation);
        }
        let work = self.finish(batch, false);
        let last = work.as_ref().map_or(gone.last_work.min(self.works.returned()), |work| work.serial);
        if gone.returns {
            self.system.announced_gone(&gone.backing);
        }
        if !gone.foreign {
            self.retire(last, gone.backing);
        }
        work
    }

    /// The terms by which an allocation's description is checked on this adapter.
    pub(crate) fn creation_terms(&self) -> Terms<'_> {
        Terms { model: self.model, version: self.version, caps: self.caps, segments: self.segments.all() }
    }
}
