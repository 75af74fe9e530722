//! A device gives way: works of the ring wait for a use of content that its queued work has not ended, perhaps because that stands behind a
//! fence of its own client, and works of other processes stand behind them (memory §10.1). The device is suspended, so that nothing uses the
//! content; it lists the content again until the use is over, and has it back with its next turn.
//!
//! The books have moved on since the works were decided, and stay right: the content leaves with its work, and what only the use needs (the
//! content of an allocation that its owner has destroyed or offered) is copied out in front of that work.
//!
//! A device that would not fit with that content even if it were alone withholds what its own unfinished MakeResident brings (`withheld`).
//! Where that is not enough it cannot give way, for it would never have a turn.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::{FencePoint, PAGE_BYTES};

use crate::allocation::{Allocation, Placement};
use crate::device::{EvictFlags, Postponed};
use crate::paging::{Batch, DiscardedContent, Operation, UsedContent, merge_points};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::{Claim, Limit, Takes};
use crate::vidmm::placement::victim::copy_out;

/// The uses of an allocation that queued work of a device has not ended.
struct Uses<F> {
    /// No list of the device names the content for these any more.
    early: Vec<FencePoint<F>>,
    /// The process has evicted again what a MakeResident has not brought yet: the work behind these uses stands behind the paging fence. By the
    /// serial of the work that brings the content for them.
    late: BTreeMap<u64, Vec<FencePoint<F>>>,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Suspends a device in favour of works that wait for its uses. From now on nothing waits for these points: the kernel stops the device's
    /// contexts, and idle contexts are what the works wait for. `is_of`: whether a point is of work of the device that is not over. `used`: content
    /// that queued works take behind points of any device, with the serials of the works.
    ///
    /// Where the content does not fit beside the device's list, the device withholds what the works behind bring for it
    /// ([`VidMm::withholds`]): its paging fences have not come to that, so that no work uses it.
    ///
    /// False: the device cannot give way, and nothing has changed.
    // spec: memory §8.6, memory §10.1
    #[must_use = "the ring waits on"]
    pub fn give_way(
        &mut self,
        device: DeviceId,
        is_of: impl Fn(&FencePoint<F>) -> bool,
        used: &[(u64, &UsedContent<F>)],
    ) -> bool {
        if used.iter().any(|(_, used)| used.ends_first && used.until.iter().any(&is_of)) {
            return false;
        }
        let uses = self.uses_of(&is_of, used);
        let Some((withheld, splits)) = self.to_withhold(device, &uses) else { return false };
        if !self.is_suspended(device) {
            self.stand_in_line(device);
        }
        // What the device has evicted stays on its list from now on, so a suspension has nothing else to wait for.
        drop(self.devices.take_uses(device));
        let of_uses = used.iter().filter(|(_, used)| uses.contains_key(&used.allocation));
        of_uses.for_each(|(_, used)| self.keep_discarded(used));
        withheld.into_iter().for_each(|id| self.withhold(device, id));
        let in_use = self.allocations.iter().filter(|(_, known)| known.last_use.iter().any(&is_of));
        for id in in_use.map(|(id, _)| id).collect::<Vec<_>>() {
            self.allocations[id].last_use.retain(|point| !is_of(point));
        }
        for (id, mut uses) in uses {
            if !splits {
                std::mem::take(&mut uses.late).values().for_each(|late| merge_points(&mut uses.early, late));
            }
            let offered_behind = self.offer_counts_later(id).then(|| uses.early.clone());
            self.count_behind(device, id, uses);
            if let Some(last_use) = offered_behind {
                self.devices.postpone(device, Postponed::Offer { id, last_use });
            }
        }
        for id in self.list_of(device) {
            self.rerank(id);
        }
        self.forget_turn();
        true
    }

    /// What queued work of a device uses that the device does not list for it.
    fn uses_of(
        &self,
        is_of: impl Fn(&FencePoint<F>) -> bool,
        used: &[(u64, &UsedContent<F>)],
    ) -> BTreeMap<AllocationId, Uses<F>> {
        let mut uses: BTreeMap<AllocationId, Uses<F>> = BTreeMap::new();
        let in_place = self.in_place().map(|(id, last_use)| (u64::MAX, id, last_use));
        let taken = used.iter().map(|(serial, used)| (*serial, used.allocation, &used.until));
        for (serial, id, until) in in_place.chain(taken) {
            let Some(known) = self.allocations.get(id) else { continue };
            let points: Vec<FencePoint<F>> =
                until.iter().filter_map(|point| use_of(known, *point)).filter(&is_of).collect();
            if points.is_empty() {
                continue;
            }
            let uses = uses.entry(id).or_insert(Uses { early: Vec::new(), late: BTreeMap::new() });
            // The content that this use found came with the last work before.
            let came = self.comings(id).rfind(|coming| *coming < serial);
            merge_points(came.map_or(&mut uses.early, |coming| uses.late.entry(coming).or_default()), &points);
        }
        uses
    }

    /// The content that lies somewhere, with its last uses. Content that lies nowhere was evicted before: a destruction notes all queued work of
    /// its device, which uses the content no more.
    fn in_place(&self) -> impl Iterator<Item = (AllocationId, &Vec<FencePoint<F>>)> {
        let lies = self.allocations.iter().filter(|(_, known)| !matches!(known.placement, Placement::None));
        lies.map(|(id, known)| (id, &known.last_use))
    }

    /// The serials of the works, not done, with which MakeResidents bring content; none where it may come no later.
    fn comings(&self, id: AllocationId) -> impl DoubleEndedIterator<Item = u64> + '_ {
        let known = &self.allocations[id];
        let may_come_later = known.pins == 0 && !known.is_offered();
        let pending = known.comings.iter().copied();
        pending.filter(move |coming| may_come_later && *coming > self.works.completed())
    }

    /// Whether a MakeResident brings content with a work that is not done, and may bring it later.
    fn is_coming(&self, id: AllocationId) -> bool {
        self.comings(id).next().is_some()
    }

    /// What a device is to withhold of its list so that the rest of it fits with content that its queued work uses, if it is alone, and whether
    /// the content of late uses is withheld as well; `None`: that does not fit.
    fn to_withhold(
        &self,
        device: DeviceId,
        uses: &BTreeMap<AllocationId, Uses<F>>,
    ) -> Option<(BTreeSet<AllocationId>, bool)> {
        let claim = Claim { device, takes: Takes::Lower, limit: Limit::None, for_holders: false, moves: true };
        let listed = self.list_of(device);
        let fits = |(withheld, splits): &(BTreeSet<AllocationId>, bool)| {
            let there = listed.iter().copied().filter(|id| !withheld.contains(id)).collect();
            let back = uses.iter().filter(|(_, uses)| !splits || !uses.early.is_empty()).map(|(id, _)| *id);
            self.plan_alone_beside(claim, there, &back.collect::<Vec<_>>()).is_ok()
        };
        let coming = listed.iter().copied().filter(|id| self.is_coming(*id)).collect();
        [(BTreeSet::new(), false), (coming, true)].into_iter().find(fits)
    }

    /// Keeps content that a work is to discard, where the offer still stands. A process that has taken the offer back knows that the content is
    /// lost.
    // spec: memory §5.9
    fn keep_discarded(&mut self, used: &UsedContent<F>) {
        let id = used.allocation;
        if let Some(before) = &used.discarded
            && self.allocations.keep_offered(id, before.offered_at)
        {
            let known = &mut self.allocations[id];
            (known.valid, known.backing_linear) = (before.valid.clone(), before.backing_linear);
        }
    }

    /// An offer that counts does not from now on: its content is kept for the queued work that uses it. Whether there was one.
    // spec: memory §5.9
    fn offer_counts_later(&mut self, id: AllocationId) -> bool {
        let Some(offer) = self.allocations[id].offer() else { return false };
        self.allocations.take_offer_back(id);
        self.allocations.let_offer_wait(id, offer);
        let group = self.group_of_placement(id);
        self.charge(id, group);
        true
    }

    /// A suspended device lists content until its early uses are over, and withholds it until the late ones are. Content that its owner has
    /// destroyed stays so long as well, and is destroyed after the last of them.
    fn count_behind(&mut self, device: DeviceId, id: AllocationId, Uses { early, late }: Uses<F>) {
        let doomed = self.allocations[id].doomed.take();
        if !early.is_empty() {
            self.count_up(device, id);
        } else if matches!(self.allocations[id].placement, Placement::Memory(..)) && self.allocations[id].count == 0 {
            // It is a victim all along.
            let known = &mut self.allocations[id];
            known.lazy_since = known.lazy_since.or(doomed);
        } else if doomed.is_none() {
            self.free_aperture_later(id, device);
        }
        let dies_early = doomed.is_some() && late.is_empty();
        self.end_behind(device, id, early, dies_early);
        let last = late.keys().last().copied();
        for (comes_with, points) in late {
            self.devices.withhold_once(device, id, comes_with);
            self.end_behind(device, id, points, doomed.is_some() && Some(comes_with) == last);
        }
        self.rerank(id);
        if !self.is_resident(id) {
            self.note_loss(id);
        }
    }

    /// A suspended device evicts content that it lists or withholds, or destroys it, when these uses are over.
    fn end_behind(&mut self, device: DeviceId, id: AllocationId, last_use: Vec<FencePoint<F>>, dies: bool) {
        if last_use.is_empty() {
            return;
        }
        let flags = EvictFlags { only_if_necessary: true, not_written_to: false };
        let step = match dies {
            true => Postponed::Doom { id, after: last_use },
            false => Postponed::Evict { id, flags, last_use },
        };
        self.devices.postpone(device, step);
    }

    /// The copies out of what a work drops although a use still needs it, to be carried out before the work.
    pub fn rescue(&mut self, used: &UsedContent<F>) -> Vec<Operation> {
        let id = used.allocation;
        let Some(known) = self.allocations.get(id) else { return Vec::new() };
        let offer = known.offer().or(known.offer_due()).filter(|offer| !offer.discarded);
        let is_kept = |before: &DiscardedContent| offer.is_some_and(|offer| offer.time == before.offered_at);
        if used.dropped.is_empty() || !used.discarded.as_ref().is_none_or(is_kept) {
            return Vec::new();
        }
        let (form, dummy_page) = (self.form_out(id, false), self.dummy_page_address());
        let mut batch = Batch::<F>::new(0);
        for (segment, extent) in &used.dropped {
            let allocation = &mut self.allocations[id];
            let address = self.segments[*segment].descriptor.base_address + extent.frame * PAGE_BYTES;
            copy_out(&mut self.segments, allocation, extent, (*segment, address), (form, dummy_page, 0), &mut batch);
            allocation.valid.insert(extent.page, extent.count);
        }
        batch.out
    }
}

/// The use of content that ends with a point; `None`: the point is of none, for a destruction notes work that does not use the content.
fn use_of<F: Copy + Eq>(known: &Allocation<F>, point: FencePoint<F>) -> Option<FencePoint<F>> {
    let Some(uses) = &known.uses_at_death else { return Some(point) };
    let last = uses.iter().find(|last| last.fence == point.fence)?;
    Some(FencePoint { value: point.value.min(last.value), ..point })
}
