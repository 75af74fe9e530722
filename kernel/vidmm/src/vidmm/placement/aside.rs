//! Evictions that stand aside (memory §5.3, §10.1): content that has left the last list while queued work still uses it stays where it is
//! until that work is over, and leaves then. The paging ring waits for no use by it, so the works of others go on, however long the device's
//! work waits for a fence of its own client.
//!
//! Meanwhile the content is unneeded like what was lazily evicted, and the last of its tier to be taken: a work that takes it has to wait for
//! its use. Pages of an aperture, of which nothing is lost, go to any claimant. A MakeResident takes the eviction back; a destruction, an
//! offer, and whatever takes the content away replace it.
//!
//! The kernel asks when a use may be over ([`VidMm::evictions_over`]); `residency` has the call, the book of allocations the lists.

use wddm_types::FencePoint;

use crate::allocation::{Aside, Placement};
use crate::paging::{Batch, Cause, Work};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::Place;

/// How many evictions of a device are looked at beyond those whose use is over: a device's uses end one after the other.
const SCAN_MAX: usize = 16;

impl<F: Copy + Eq> VidMm<F> {
    /// Takes content on no list out of its place, now or when the use of it is over.
    // spec: memory §5.3, memory §10.1
    pub(crate) fn leave_for_good(&mut self, id: AllocationId, device: DeviceId, batch: &mut Batch<F>) {
        if self.allocations[id].last_use.is_empty() {
            return self.withdraw(id, Cause::Evict, batch);
        }
        self.leave_later(id, device);
    }

    /// Content that has left the last list without a work frees the pages of an aperture once the use of it is over: no claimant waits for
    /// content that is no victim.
    pub(crate) fn free_aperture_later(&mut self, id: AllocationId, device: DeviceId) {
        let known = &self.allocations[id];
        let occupies = matches!(known.placement, Placement::System(Some(_))) && !known.in_place;
        let is_free_to_go = known.count == 0 && known.pins == 0 && known.offer().is_none() && known.aside.is_none();
        if occupies && is_free_to_go {
            self.leave_later(id, device);
        }
    }

    fn leave_later(&mut self, id: AllocationId, device: DeviceId) {
        let tick = self.clock.next_tick();
        self.allocations.stand_aside(id, Aside { device, tick });
        self.allocations[id].lazy_since = Some(tick);
        self.rerank(id);
    }

    /// Whether any eviction stands aside.
    pub fn any_aside(&self) -> bool {
        self.allocations.any_aside()
    }

    /// The evictions that stand aside.
    pub fn asides(&self) -> impl Iterator<Item = (DeviceId, AllocationId)> + '_ {
        let devices = self.allocations.devices_aside();
        devices.flat_map(|device| self.allocations.asides_of(device).map(move |id| (device, id)))
    }

    /// For each device whose evictions stand aside the uses that the oldest of them waits for.
    pub fn uses_awaited(&self) -> impl Iterator<Item = (DeviceId, &[FencePoint<F>])> {
        let first = |device| self.allocations.asides_of(device).next().map(|id| (device, id));
        let oldest = self.allocations.devices_aside().filter_map(first);
        oldest.map(|(device, id)| (device, self.allocations[id].last_use.as_slice()))
    }

    /// Carries out the evictions whose content no queued work uses any more: a work for each device that asked for some.
    // spec: memory §5.3
    pub fn evictions_over(&mut self, is_over: &dyn Fn(&FencePoint<F>) -> bool) -> Vec<(DeviceId, Work<F>)> {
        let mut works = Vec::new();
        for device in self.allocations.devices_aside().collect::<Vec<_>>() {
            let mut looked = 0;
            let mut over = Vec::new();
            for id in self.allocations.asides_of(device) {
                if self.allocations[id].last_use.iter().all(is_over) {
                    over.push(id);
                } else {
                    looked += 1;
                }
                if looked == SCAN_MAX {
                    break;
                }
            }
            if over.is_empty() {
                continue;
            }
            let mut batch = self.works.begin();
            over.into_iter().for_each(|id| self.end_aside(id, &mut batch));
            works.extend(self.finish(batch, false).map(|work| (device, work)));
        }
        works
    }

    fn end_aside(&mut self, id: AllocationId, batch: &mut Batch<F>) {
        self.allocations.forget_aside(id);
        let allocation = &mut self.allocations[id];
        allocation.last_use.clear();
        // Pinned content stays, as if it had been evicted lazily.
        if allocation.pins > 0 {
            self.rerank(id);
        } else {
            self.withdraw(id, Cause::Evict, batch);
        }
    }

    /// Pages of apertures whose evictions stand aside.
    pub(crate) fn asides_in_apertures(&self) -> impl Iterator<Item = (AllocationId, u64)> + '_ {
        let apertures = self.segments.all().iter().filter(|segment| segment.is_aperture());
        // Nothing else is a victim there.
        let victims = apertures.flat_map(|segment| segment.victims().up_to(crate::rank::DOOMED_TIER));
        victims.map(|(_, id)| match &self.allocations[id].placement {
            Placement::System(Some((_, run))) => (id, run.count.0),
            elsewhere => unreachable!("{id:?} is a victim in an aperture, and lies in {elsewhere:?}"),
        })
    }

    /// Unmaps evicted content until all apertures together may show what is planned. The plan has counted with that.
    // spec: memory §1.12
    pub(crate) fn keep_commit_limit(&mut self, places: &[(AllocationId, Place)], batch: &mut Batch<F>) {
        let shown = |place: &Place| match place {
            Place::System(Some((_, run))) => run.count.0,
            _ => 0,
        };
        let wanted: u64 = places.iter().map(|(_, place)| shown(place)).sum();
        while wanted > self.segments.commit_left_pages() {
            let planned = |id: AllocationId| places.iter().any(|(planned, _)| *planned == id);
            let Some(id) = self.asides_in_apertures().map(|(id, _)| id).find(|id| !planned(*id)) else { return };
            self.withdraw(id, Cause::Pressure { for_allocation: places[0].0 }, batch);
        }
    }
}
