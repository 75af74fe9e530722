//! Offer and Reclaim (memory §5.9, §8.5): content that its process can do without, and its return. Called by the
//! kernel.
//!
//! Offered content stays where it is and is the first to go, LOW before NORMAL before HIGH, for any claimant, even if lists name it. VidMm
//! never copies it out: it discards an allocation's content as a whole. Until its device reclaims it, VidMm refuses to lock it or make it
//! resident.
//!
//! An offer says that work which was queued before still needs the content. Where that work is on the hardware or about to be, a discard
//! waits for it. Where the device is suspended until its turn, the offer is *due*: the owning process sees it made, and for all others the
//! content stays as it was, comes back with the turn, and may go behind that work.
//!
//! Reclaim asks for no room that others need: if what is on a list does not fit beside them any more, its device is suspended until its
//! next turn. Only a list that would not even fit alone is refused.

use std::collections::BTreeSet;

use ddi::AllocationFlags2;
use wddm_types::{FencePoint, Pages};

use crate::allocation::{Offer, OfferPriority, Placement};
use crate::device::Postponed;
use crate::paging::{Cause, Work, merge_points};
use crate::slab::{AllocationId, DeviceId, SpaceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::{Claim, Limit, Plan, Takes};
use crate::vidmm::placement::residency::MakeResidentError;

/// `D3DKMT_OFFER_FLAGS`. OfferImmediately says nothing to this machine: an offer always counts at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfferFlags {
    /// The backing store may be given up as well; Reclaim may then answer NotCommitted.
    pub allow_decommit: bool,
}

/// Why an offer was refused; nothing changed for the whole call. The caller is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// It is offered already.
    #[error("it is offered already")]
    Offered {
        /// The allocation that is offered already.
        allocation: AllocationId,
    },
    /// It is locked: the CPU is using it.
    #[error("it is locked")]
    Locked {
        /// The allocation that is locked.
        allocation: AllocationId,
    },
    /// It is pinned: the display or a queued update is using it.
    #[error("it is pinned")]
    Pinned {
        /// The allocation that is pinned.
        allocation: AllocationId,
    },
}

/// `D3DDDI_RECLAIM_RESULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimResult {
    /// 0: the content is as it was.
    Ok,
    /// 1: the content is lost.
    Discarded,
    /// 2: the content is lost and there is no memory for a new backing store; it stays offered.
    NotCommitted,
}

/// The result of Reclaim.
#[must_use = "it may hold work"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaimed<F> {
    /// One per entry of the list.
    pub results: Vec<ReclaimResult>,
    /// Brings what is on the residency list back in. The GPU waits for it; Lock2 need not.
    pub work: Option<Work<F>>,
}

/// Why Reclaim was refused; nothing changed for the whole call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReclaimError {
    /// It is not offered (the caller).
    #[error("it is not offered")]
    NotOffered {
        /// The allocation that is not offered.
        allocation: AllocationId,
    },
    /// With it a list would not fit any more even if all other content left, or not into the largest budget that its process
    /// can have (scarcity).
    #[error("what is on the residency list can never fit: {bytes_to_trim} bytes are to be evicted first")]
    OutOfMemory {
        /// As from MakeResident.
        bytes_to_trim: u64,
    },
}

impl<F: Copy + Eq> VidMm<F> {
    /// Offers allocations for a device. `last_use`: points after which nothing queued before uses them; a discard waits for
    /// them, and the offer of a suspended device waits for its turn.
    ///
    /// # Errors
    /// See [`OfferError`].
    // spec: memory §5.9
    pub fn offer(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        priority: OfferPriority,
        flags: OfferFlags,
        last_use: &[FencePoint<F>],
    ) -> Result<(), OfferError> {
        let mut seen = BTreeSet::new();
        for &allocation in list {
            let known = &self.allocations[allocation];
            if known.is_offered() || !seen.insert(allocation) {
                return Err(OfferError::Offered { allocation });
            }
            if known.locks.count > 0 {
                return Err(OfferError::Locked { allocation });
            }
            if known.pins > 0 {
                return Err(OfferError::Pinned { allocation });
            }
        }
        let postponed = self.must_postpone(device, last_use);
        if !postponed {
            self.devices.note_uses(device, last_use);
        }
        for &id in list {
            let time = self.clock.next_tick();
            let allocation = &self.allocations[id];
            let priority = priority.for_content(allocation.info.priority);
            let offer = Offer { priority, time, allow_decommit: flags.allow_decommit, discarded: false };
            self.allocations.let_offer_wait(id, offer);
            if postponed {
                self.devices.postpone(device, Postponed::Offer { id, last_use: last_use.to_vec() });
            } else {
                self.begin_due_offer(id, last_use);
            }
        }
        Ok(())
    }

    /// From now on an offer counts, behind these last uses.
    pub(crate) fn begin_due_offer(&mut self, id: AllocationId, last_use: &[FencePoint<F>]) {
        let locks = self.allocations[id].locks.count;
        debug_assert_eq!(locks, 0, "the offer of {id:?} counts, and it is locked");
        self.allocations.let_offer_count(id);
        self.allocations.forget_aside(id);
        merge_points(&mut self.allocations[id].last_use, last_use);
        // Offered content counts against no budget.
        self.charge(id, None);
        self.rerank(id);
    }

    /// Takes offers back, with what is left of their content; see [`VidMm::reclaim_with`].
    ///
    /// # Errors
    /// See [`ReclaimError`].
    pub fn reclaim(&mut self, device: DeviceId, list: &[AllocationId]) -> Result<Reclaimed<F>, ReclaimError> {
        self.reclaim_with(device, list, true)
    }

    /// Takes offers back. Content on a list of the device comes back in, or comes with the next turn of the device, which is suspended
    /// until then. A new backing store is there at once. If the content is not `wanted`, nothing is copied for its sake.
    ///
    /// # Errors
    /// See [`ReclaimError`].
    // spec: memory §5.9
    pub fn reclaim_with(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        wanted: bool,
    ) -> Result<Reclaimed<F>, ReclaimError> {
        let mut seen = BTreeSet::new();
        for &allocation in list {
            if !self.allocations[allocation].is_offered() || !seen.insert(allocation) {
                return Err(ReclaimError::NotOffered { allocation });
            }
        }
        let mut plan = match self.plan_of_reclaim(device, list) {
            Ok(plan) => plan,
            Err(error) => {
                if !self.has_turns_for(device, list) {
                    return Err(out_of_memory(error));
                }
                Plan::default()
            }
        };
        let due: BTreeSet<AllocationId> = list.iter().copied().filter(|id| self.call_off(*id)).collect();
        let counts = |id: &AllocationId| !due.contains(id);
        let take_back = |id: &AllocationId| if counts(id) { self.take_back(*id, wanted) } else { ReclaimResult::Ok };
        let results: Vec<ReclaimResult> = list.iter().map(take_back).collect();
        // An allocation that got no backing store stays offered, so nothing comes in for it.
        plan.places.retain(|(id, _)| self.allocations[*id].offer().is_none());
        let mut batch = self.works.begin();
        self.begin(&mut plan, device, &mut batch);
        for &id in list.iter().filter(|id| counts(id)) {
            let group = self.group_of_placement(id);
            if self.allocations[id].offer().is_none() {
                self.charge(id, group);
            }
            self.rerank(id);
        }
        self.carry_out(plan, Cause::Reclaim, &mut batch);
        for &id in list.iter().filter(|id| !self.is_resident(**id)).collect::<Vec<_>>() {
            for holder in self.running_holders(id) {
                self.suspend_now(holder, &mut batch);
            }
        }
        Ok(Reclaimed { results, work: self.finish(batch, false) })
    }

    /// Whether an allocation is offered, and if so whether its content is lost.
    pub fn offered(&self, id: AllocationId) -> Option<bool> {
        let allocation = &self.allocations[id];
        allocation.offer().or(allocation.offer_due()).map(|offer| offer.discarded)
    }

    /// Takes an offer back that does not count yet; false: there is none. Work queued before it finds the content as it was.
    fn call_off(&mut self, id: AllocationId) -> bool {
        let due = self.allocations.forget_waiting_offer(id);
        if due {
            self.devices.forget_postponed_offer(id);
        }
        due
    }

    /// Content on a running device's list has to be resident at once.
    fn plan_of_reclaim(&self, device: DeviceId, list: &[AllocationId]) -> Result<Plan, MakeResidentError> {
        if self.is_suspended(device) {
            self.plan_turn_with(device, list)?;
        }
        let runner = |id: &AllocationId| self.allocations[*id].holders.iter().find(|d| !self.is_suspended(**d));
        let wanted: Vec<AllocationId> = list.iter().copied().filter(|id| runner(id).is_some()).collect();
        let Some(&first) = wanted.first().and_then(runner) else { return Ok(Plan::default()) };
        self.plan(claim_of(if self.is_suspended(device) { first } else { device }), &wanted)
    }

    /// Whether there is room with the next turn of each device that lists something.
    fn has_turns_for(&self, device: DeviceId, list: &[AllocationId]) -> bool {
        let holders = list.iter().flat_map(|id| self.allocations[*id].holders.iter().copied());
        let devices: BTreeSet<DeviceId> = holders.chain([device]).collect();
        devices.into_iter().all(|device| self.plan_turn_with(device, list).is_ok())
    }

    /// Checks that a suspended device's list will fit with its turn.
    fn plan_turn_with(&self, device: DeviceId, list: &[AllocationId]) -> Result<Plan, MakeResidentError> {
        let listed = |id: &AllocationId| self.allocations[*id].holders.contains(&device);
        let own: Vec<AllocationId> = list.iter().copied().filter(listed).collect();
        self.plan_alone(claim_of(device), &own)
    }

    fn take_back(&mut self, id: AllocationId, wanted: bool) -> ReclaimResult {
        let offer = self.allocations[id].offer().expect("the list was checked");
        if self.allocations[id].backing.is_empty() {
            let allocation = &self.allocations[id];
            match self.system.take_backing(allocation.owner, allocation.info.flags, allocation.pages) {
                Some(backing) => self.allocations[id].backing = backing,
                None => return ReclaimResult::NotCommitted,
            }
        }
        self.allocations.take_offer_back(id);
        let allocation = &mut self.allocations[id];
        let in_place = matches!(allocation.placement, Placement::System(_));
        if !wanted && !in_place && !allocation.foreign {
            // spec: memory §5.9, pDiscarded NULL: what is not in place comes back empty
            allocation.lose_content();
        }
        if offer.discarded { ReclaimResult::Discarded } else { ReclaimResult::Ok }
    }

    /// Whether so many pages of backing store can be had, with what is offered given up.
    pub fn can_back(&self, pages: Pages) -> bool {
        let offered = self.allocations.decommittable().filter(|id| self.may_decommit(*id));
        let given_up: u64 = offered.map(|id| self.allocations[id].pages).sum();
        self.system.free_pages() + given_up >= pages.0
    }

    /// Bytes of the offered content of a process whose backing store `decommit_for` could give up now.
    // spec: memory §5.9
    pub fn decommittable_bytes(&self, space: SpaceId) -> u64 {
        let of_space = |id: &AllocationId| {
            let owner = self.allocations[*id].owner;
            owner.is_some_and(|owner| self.devices[owner].space() == space)
        };
        let theirs = self.allocations.decommittable().filter(|id| of_space(id) && self.may_decommit(*id));
        theirs.map(|id| self.allocations[id].bytes()).sum()
    }

    /// Only what no queued work touches: the rest would not come free in time.
    fn may_decommit(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        let nowhere = matches!(allocation.placement, Placement::None);
        // spec: memory §2.2, what the driver sees stays where it is until the allocation is destroyed
        let shared = allocation.info.flags2.contains(AllocationFlags2::SHARE_BACKING_STORE_WITH_KMD);
        let own = !allocation.foreign && !shared && !allocation.backing.is_empty();
        nowhere && self.works.is_past(allocation.last_work) && own
    }

    /// Gives up backing stores of offered content, LOW first, until this many system pages are free. When that cannot be,
    /// it takes none.
    pub(crate) fn decommit_for(&mut self, pages: u64) {
        if self.system.free_pages() >= pages || !self.can_back(Pages(pages)) {
            return;
        }
        let offered: Vec<AllocationId> = self.allocations.decommittable().collect();
        for id in offered {
            if self.system.free_pages() >= pages {
                return;
            }
            if !self.may_decommit(id) {
                continue;
            }
            let allocation = &mut self.allocations[id];
            allocation.lose_content();
            let runs = std::mem::take(&mut allocation.backing);
            if allocation.returns {
                self.system.announced_gone(&runs);
            }
            assert!(allocation.discard_offered(), "only what is offered is in the list");
            runs.into_iter().for_each(|run| self.system.give(run));
        }
        let free = self.system.free_pages();
        debug_assert!(free >= pages, "all that may be given up is, and {free} of {pages} pages are free");
    }
}

/// The claim of a Reclaim, for the devices that list the reclaimed content.
fn claim_of(device: DeviceId) -> Claim {
    Claim { device, takes: Takes::Ranked, limit: Limit::Maximum, for_holders: true, moves: true }
}

fn out_of_memory(error: MakeResidentError) -> ReclaimError {
    match error {
        MakeResidentError::OutOfMemory { bytes_to_trim } => ReclaimError::OutOfMemory { bytes_to_trim },
        MakeResidentError::Locked { .. } | MakeResidentError::Offered { .. } => {
            unreachable!("what is offered is not locked, and Reclaim is what takes an offer back")
        }
    }
}
