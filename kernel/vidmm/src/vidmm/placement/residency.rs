//! MakeResident and Evict (memory §5.1 to §5.3): the lists of the devices and their counts.
//!
//! MakeResident first plans (`plan`), changing nothing: for each allocation that misses pages, the first candidate segment
//! (memory §8.1) whose free and victim pages hold what is missing beside what is planned already. Only a whole plan
//! is carried out (`commit`), so a failure leaves every count and page as it was. An aperture as candidate means system
//! memory (memory §1.6): the content stays where it is, only entries are written.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::FencePoint;

use crate::allocation::Placement;
use crate::device::{EvictFlags, Postponed};
use crate::paging::{Batch, Cause, Work, merge_points};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::{Claim, Limit, Takes};

/// Why MakeResident failed; no count changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MakeResidentError {
    /// Scarcity (`STATUS_NO_MEMORY`): this many bytes are to be evicted before a retry can succeed. When the request
    /// can never fit, the size of the request (memory §10.1 row 11).
    #[error("{bytes_to_trim} bytes are to be evicted first")]
    OutOfMemory {
        /// `NumBytesToTrim`.
        bytes_to_trim: u64,
    },
    /// The allocation is locked and supports no aperture: it may not enter a memory segment (memory §6.3). It can come
    /// with the device's next turn after the unlock: [`VidMm::make_resident_held`].
    #[error("a locked allocation may not enter a memory segment")]
    Locked {
        /// The allocation that is locked.
        allocation: AllocationId,
    },
    /// The allocation is offered: it is to be reclaimed first (memory §5.9). The caller is to blame.
    #[error("an offered allocation is to be reclaimed first")]
    Offered {
        /// The allocation that is offered.
        allocation: AllocationId,
    },
}

/// `D3DDDI_MAKERESIDENT` flags (memory §5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MakeResidentFlags {
    /// The caller has nothing left to trim: the current budget may be exceeded, not the maximum.
    pub cant_trim_further: bool,
    /// The device is lost if this fails, so devices of the same or lower protection may be suspended for it. Counts only with
    /// `cant_trim_further`.
    pub must_succeed: bool,
}

/// Why Evict was refused; nothing changed for the whole call (memory §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvictError {
    /// The device's count would go below zero.
    #[error("an allocation is evicted more often than it was made resident")]
    BelowZero {
        /// The allocation with too few MakeResident calls.
        allocation: AllocationId,
    },
}

impl<F: Copy + Eq> VidMm<F> {
    /// Adds allocations to a device's list within its process's budget; see [`VidMm::make_resident_with`].
    ///
    /// # Errors
    /// See [`MakeResidentError`].
    pub fn make_resident(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
    ) -> Result<Option<Work<F>>, MakeResidentError> {
        self.make_resident_with(device, list, MakeResidentFlags::default())
    }

    /// Adds allocations to a device's list, one count per occurrence, and brings in what is missing. All or nothing
    /// (memory §5.2). `None`: everything was resident, or the device is suspended: then the content comes with
    /// [`VidMm::resume`], before any of its contexts runs.
    ///
    /// # Errors
    /// See [`MakeResidentError`].
    // spec: memory §5.2
    pub fn make_resident_with(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        flags: MakeResidentFlags,
    ) -> Result<Option<Work<F>>, MakeResidentError> {
        if let Some(&allocation) = list.iter().find(|id| self.allocations[**id].is_offered()) {
            return Err(MakeResidentError::Offered { allocation });
        }
        let claim = claim_of(device, flags);
        if self.devices.withholds(device) {
            return self.withhold_more(claim, list).map(|()| None);
        }
        let waits = self.devices[device].is_suspended();
        let stands_back = !waits && self.stands_back(device);
        let plan = if waits || stands_back { self.plan_alone(claim, list) } else { self.plan(claim, list) };
        let mut plan = match plan {
            // The device's queued work still needs content that the device has evicted: what comes now waits for that room.
            Err(MakeResidentError::OutOfMemory { .. }) if self.devices.evicted_behind_work(device).next().is_some() => {
                return self.withhold_more(claim, list).map(|()| None);
            }
            plan => plan.inspect_err(|_| self.pressure.feel())?,
        };
        self.foresee_use(device, list);
        self.leave_in_place(device, list, &mut plan);
        if waits || stands_back {
            self.comes_with_turn(device, list);
        }
        for &id in list {
            self.count_up(device, id);
        }
        if stands_back {
            let mut batch = self.works.begin();
            self.suspend_now(device, &mut batch);
            return Ok(self.finish(batch, false));
        }
        if !waits {
            self.claim_turn(device);
        }
        if plan.is_empty() {
            return Ok(None);
        }
        let mut batch = self.works.begin();
        let coming: Vec<AllocationId> = list.iter().copied().filter(|id| !self.is_resident(*id)).collect();
        self.begin(&mut plan, device, &mut batch);
        self.carry_out(plan, Cause::MakeResident, &mut batch);
        let missing = list.iter().find(|id| !waits && !self.is_resident(**id));
        debug_assert!(missing.is_none(), "{missing:?} was brought in for {device:?}, and is not all there");
        let work = self.finish(batch, false);
        self.come_with(work.as_ref(), coming);
        Ok(work)
    }

    /// Adds allocations to a device's list although a lock keeps one of them out ([`MakeResidentError::Locked`]): the counts
    /// rise at once, and the device is suspended until its turn after the unlock brings everything.
    ///
    /// # Errors
    /// `OutOfMemory`: the list would not fit even if the device were alone, or not into the budget. Nothing changed.
    // spec: memory §10.1 row 23, memory §5.2
    pub fn make_resident_held(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        flags: MakeResidentFlags,
    ) -> Result<Option<Work<F>>, MakeResidentError> {
        self.plan_alone(claim_of(device, flags), list).inspect_err(|_| self.pressure.feel())?;
        self.foresee_use(device, list);
        self.comes_with_turn(device, list);
        list.iter().for_each(|id| self.count_up(device, *id));
        let mut batch = self.works.begin();
        if !self.is_suspended(device) {
            self.suspend_now(device, &mut batch);
        }
        debug_assert!(self.is_suspended(device), "{device:?} runs, and a lock keeps content of its list out");
        Ok(self.finish(batch, false))
    }

    /// Whether a lock keeps an allocation from becoming resident anywhere.
    // spec: memory §6.3, requirements
    pub fn is_kept_out(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        let admits = |segment| match self.segment(segment).is_aperture() {
            true => !self.is_marked(id),
            false => self.may_enter_locked(id, segment),
        };
        allocation.locks.count > 0 && !self.is_resident(id) && !allocation.candidates().any(admits)
    }

    // spec: memory §5.1, memory §10.1 row 13
    pub(crate) fn count_up(&mut self, device: DeviceId, id: AllocationId) {
        let first = self.devices.list_up(device, id);
        self.allocations.forget_aside(id);
        let allocation = &mut self.allocations[id];
        allocation.count += 1;
        allocation.lazy_since = None;
        let count = allocation.count;
        let listed = || self.devices[device].times_listed(id);
        debug_assert!(listed() <= count, "{device:?} lists {id:?} {} times, and all devices {count} times", listed());
        if first {
            self.add_holder(id, device);
            self.rerank(id);
        }
    }

    /// Takes allocations off a device's list, one count per occurrence (memory §5.3). `last_use`: points after which
    /// nothing queued before this call uses them; kept, and waited for by the work that takes their pages. Until then the eviction stands
    /// aside ([`VidMm::evictions_over`]): the paging ring waits for no device's use by it.
    ///
    /// # Errors
    /// See [`EvictError`].
    pub fn evict(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        flags: EvictFlags,
        last_use: &[FencePoint<F>],
    ) -> Result<Option<Work<F>>, EvictError> {
        self.evict_over(device, list, flags, last_use, &|_| false)
    }

    /// The same; `is_over` says of earlier last uses whether they are, so that no eviction stands aside for one that is.
    ///
    /// # Errors
    /// See [`EvictError`].
    // spec: memory §5.3
    pub fn evict_over(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        flags: EvictFlags,
        last_use: &[FencePoint<F>],
        is_over: &dyn Fn(&FencePoint<F>) -> bool,
    ) -> Result<Option<Work<F>>, EvictError> {
        self.begin_evict(device, list, flags, is_over)?;
        Ok(self.give_up(device, list, flags, last_use))
    }

    /// Takes allocations off a device's list as [`VidMm::evict`] does, each behind its own last uses: for drivers of the first generation,
    /// whose buffers name everything that they use. A suspended device keeps on its list only what its queued buffers name. So a lock of what
    /// none of them names keeps no turn from the device (memory §10.1 row 23).
    ///
    /// # Errors
    /// See [`EvictError`].
    // spec: memory §5.3, memory §6.1
    pub fn evict_each(
        &mut self,
        device: DeviceId,
        uses: &[(AllocationId, Vec<FencePoint<F>>)],
        flags: EvictFlags,
        is_over: &dyn Fn(&FencePoint<F>) -> bool,
    ) -> Result<Vec<Work<F>>, EvictError> {
        let list: Vec<AllocationId> = uses.iter().map(|(id, _)| *id).collect();
        self.begin_evict(device, &list, flags, is_over)?;
        let (free, used): (Vec<_>, Vec<_>) = uses.iter().partition(|(_, last_use)| last_use.is_empty());
        let free: Vec<AllocationId> = free.into_iter().map(|(id, _)| *id).collect();
        let mut works = Vec::from_iter(self.give_up(device, &free, flags, &[]));
        works.extend(used.into_iter().filter_map(|(id, last_use)| self.give_up(device, &[*id], flags, last_use)));
        Ok(works)
    }

    /// Checks the list of an Evict before anything changes.
    fn begin_evict(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        flags: EvictFlags,
        is_over: &dyn Fn(&FencePoint<F>) -> bool,
    ) -> Result<(), EvictError> {
        self.check_counts(device, list)?;
        list.iter().for_each(|id| self.allocations[*id].last_use.retain(|point| !is_over(point)));
        match self.devices.withholds(device) {
            true => {
                let lists = |id: &AllocationId| self.devices.stays_listed(device, *id) > 0;
                let listed: Vec<AllocationId> = list.iter().copied().filter(lists).collect();
                self.foresee_end(device, &listed, flags);
            }
            false => self.foresee_end(device, list, flags),
        }
        Ok(())
    }

    /// Takes allocations off a device's list that were checked.
    fn give_up(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        flags: EvictFlags,
        last_use: &[FencePoint<F>],
    ) -> Option<Work<F>> {
        if self.must_postpone(device, last_use) {
            for &id in list {
                self.devices.postpone(device, Postponed::Evict { id, flags, last_use: last_use.to_vec() });
            }
            return None;
        }
        self.devices.note_uses(device, last_use);
        if self.devices.withholds(device) {
            let devices = &mut self.devices;
            let mut listed = list.to_vec();
            listed.retain(|id| devices.stays_listed(device, *id) > 0 || !devices.withhold_less(device, *id));
            self.count_down(device, &listed, flags, last_use, None);
            return None;
        }
        // Where lists name each of these more often than this call takes back, nothing leaves its place and there is no work to construct.
        if list.iter().all(|id| self.allocations[*id].count > list.len() as u64) {
            self.count_down(device, list, flags, last_use, None);
            return None;
        }
        let mut batch = self.works.begin();
        self.count_down(device, list, flags, last_use, Some(&mut batch));
        self.finish(batch, false)
    }

    /// Lowers counts that were checked. Without a batch nothing leaves its place.
    pub(crate) fn count_down(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        flags: EvictFlags,
        last_use: &[FencePoint<F>],
        mut batch: Option<&mut Batch<F>>,
    ) {
        for &id in list {
            let left_list = self.devices.list_down(device, id);
            if left_list {
                self.remove_holder(id, device);
            }
            let allocation = &mut self.allocations[id];
            debug_assert!(allocation.count > 0, "{id:?} leaves the list of {device:?}, and is on none");
            allocation.count -= 1;
            merge_points(&mut allocation.last_use, last_use);
            // spec: memory §8.3, what is clean: any interval that may have written makes everything dirty
            if !flags.not_written_to
                && let Placement::Memory(_, extents) = &mut allocation.placement
            {
                extents.make_dirty();
            }
            if allocation.count == 0 {
                self.left_all_lists(id, (device, flags), batch.as_deref_mut());
            } else if left_list {
                self.rerank(id);
            }
        }
    }

    /// How often a device's list names an allocation.
    pub fn count(&self, device: DeviceId, allocation: AllocationId) -> u64 {
        self.devices.count(device, allocation)
    }

    fn check_counts(&self, device: DeviceId, list: &[AllocationId]) -> Result<(), EvictError> {
        // A list in the order of its ids names each once, so that one count of each is enough.
        if list.is_sorted_by(|one, next| one < next) {
            let missing = list.iter().find(|id| self.count(device, **id) == 0);
            return missing.map_or(Ok(()), |&allocation| Err(EvictError::BelowZero { allocation }));
        }
        let mut wanted: BTreeMap<AllocationId, u64> = BTreeMap::new();
        for &allocation in list {
            let wanted = wanted.entry(allocation).or_insert(0);
            *wanted += 1;
            if *wanted > self.count(device, allocation) {
                return Err(EvictError::BelowZero { allocation });
            }
        }
        Ok(())
    }

    fn left_all_lists(
        &mut self,
        id: AllocationId,
        (device, flags): (DeviceId, EvictFlags),
        batch: Option<&mut Batch<F>>,
    ) {
        let allocation = &self.allocations[id];
        debug_assert!(allocation.holders.is_empty(), "{id:?} is on no list, and held by {:?}", allocation.holders);
        let lazily = match &allocation.placement {
            // It was taken while its devices were suspended.
            Placement::None => return,
            // Pinned content stays; offered content is to be discarded, not copied out.
            _ if allocation.pins > 0 || allocation.offer().is_some() => true,
            Placement::Memory(..) => flags.only_if_necessary,
            // Content in system memory gives up no room by staying. Content that prefers a memory segment leaves, so that its next
            // MakeResident places it anew; so does content that occupies the aperture.
            Placement::System(aperture) => {
                let only_system = allocation.info.supported_segments.iter().all(|s| self.segment(s).is_aperture());
                // What the planner left there stays until the next list decides anew: to move it now, the ring would wait for its use.
                flags.only_if_necessary && (allocation.in_place || only_system && aperture.is_none())
            }
        };
        match batch {
            Some(batch) if !lazily => self.leave_for_good(id, device, batch),
            _ => {
                self.become_victim(id);
                if !lazily {
                    self.free_aperture_later(id, device);
                }
            }
        }
    }
}

/// How far a MakeResident may go.
fn claim_of(device: DeviceId, flags: MakeResidentFlags) -> Claim {
    let (takes, limit) = match (flags.cant_trim_further, flags.must_succeed) {
        (false, _) => (Takes::Ranked, Limit::Current),
        (true, false) => (Takes::Ranked, Limit::Maximum),
        (true, true) => (Takes::Any, Limit::Maximum),
    };
    Claim { device, takes, limit, for_holders: false, moves: true }
}

/// The first occurrences of a list.
pub(crate) fn unique(list: &[AllocationId]) -> Vec<AllocationId> {
    let mut seen = BTreeSet::new();
    list.iter().copied().filter(|&id| seen.insert(id)).collect()
}
