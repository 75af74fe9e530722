//! Background promotion (memory §8.1 step 4): content that found no room in its preferred place and went elsewhere moves there when the
//! copy engine is idle and there is room.
//!
//! Promotion takes no device's room or time: it uses only free pages, quiesces only idle devices while their content moves, keeps to
//! budgets, and leaves the room to any suspended device that waits for its turn. So promoted content displaces none, and no content goes to
//! and fro. A device that is never idle would keep its content out of the better place for ever: when the room was there for as long as the
//! policy's patience, it is stopped for the move, and goes on at once.

use std::collections::BTreeSet;

use wddm_types::SegmentId;

use crate::allocation::Placement;
use crate::paging::{Batch, Cause, Work, merge_points};
use crate::segment::Wish;
use crate::slab::{AllocationId, SpaceId};
use crate::vidmm::VidMm;

/// How many allocations are looked at, and at most moved, at once.
const SCAN_MAX: usize = 256;

/// The result of a promotion.
#[derive(Debug)]
pub enum Promotion<F> {
    /// Moves to be carried out. The devices that list the content quiesce meanwhile ([`Work::quiesced`]).
    Work(Box<Work<F>>),
    /// There is room, but a device that lists the content runs: ask again.
    Later,
    /// There is nothing to promote.
    Nothing,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Whether content lies in a less preferred place, and no suspended device with work waits for room.
    pub fn may_promote(&self) -> bool {
        self.policy.promote && self.allocations.demoted().next().is_some() && !self.devices.any_busy_waits()
    }

    /// Moves what there is room for to where it would rather be: up to `max_pages` pages, or one allocation. To be called
    /// while nothing else is to be moved.
    // spec: memory §8.1
    pub fn promote(&mut self, max_pages: u64) -> Promotion<F> {
        if !self.may_promote() {
            return Promotion::Nothing;
        }
        let mut batch = self.works.begin();
        let (mut moved, mut later) = (0, false);
        let ids: Vec<AllocationId> = self.allocations.demoted().take(SCAN_MAX).collect();
        for id in ids {
            if !self.lies_elsewhere(id) {
                self.allocations.note_place(id, false);
                continue;
            }
            let Some(target) = self.better_place(id) else {
                // Patience counts only the wait for devices, not for room: it begins anew when there is room.
                self.allocations.waits_for_room(id);
                continue;
            };
            let pages = self.allocations[id].pages_in(self.segment(target));
            if moved > 0 && moved + pages > max_pages {
                continue;
            }
            if self.may_move(id) || self.has_waited(id) {
                self.move_up(id, target, &mut batch);
                moved += pages;
            } else {
                later = true;
            }
        }
        match self.finish(batch, false) {
            Some(work) => Promotion::Work(Box::new(work)),
            None if later => Promotion::Later,
            None => Promotion::Nothing,
        }
    }

    /// An allocation has come to a place: whether that is the one it would rather have is remembered.
    pub(crate) fn note_place(&mut self, id: AllocationId) {
        let elsewhere = self.lies_elsewhere(id);
        self.allocations.note_place(id, elsewhere);
    }

    fn lies_elsewhere(&self, id: AllocationId) -> bool {
        let Some(allocation) = self.allocations.get(id) else { return false };
        let first = allocation.candidates().next().expect("a supported segment");
        match &allocation.placement {
            Placement::None => false,
            Placement::Memory(segment, _) => *segment != first,
            Placement::System(_) => !allocation.in_place && !self.segment(first).is_aperture(),
        }
    }

    /// The most preferred segment with free pages enough that is better than where the content is, if it may go there.
    fn better_place(&self, id: AllocationId) -> Option<SegmentId> {
        let allocation = &self.allocations[id];
        let free = allocation.pins == 0 && allocation.locks.count == 0 && allocation.offer().is_none();
        // The next MakeResident chooses a new place for content on no list.
        if !free || allocation.count == 0 || allocation.doomed.is_some() || allocation.context.is_some() {
            return None;
        }
        let here = |candidate: &SegmentId| match &allocation.placement {
            Placement::Memory(segment, _) => segment == candidate,
            _ => self.segment(*candidate).is_aperture(),
        };
        let better = allocation.candidates().take_while(|candidate| !here(candidate));
        let mut better = better.filter(|candidate| !self.segment(*candidate).is_aperture());
        better.find(|&candidate| self.has_free(id, candidate) && self.all_afford(id, candidate))
    }

    fn has_free(&self, id: AllocationId, candidate: SegmentId) -> bool {
        let (allocation, segment) = (&self.allocations[id], self.segment(candidate));
        let pages = allocation.pages_in(segment);
        if pages > segment.free_pages() {
            return false;
        }
        let wish = Wish::of(&allocation.info, segment);
        !allocation.contiguous() || wish.take_contiguous(&mut segment.trial(), pages).is_some()
    }

    /// Whether every process that lists it keeps to its budget with it.
    // spec: memory §5.5
    fn all_afford(&self, id: AllocationId, candidate: SegmentId) -> bool {
        let allocation = &self.allocations[id];
        let Some(group) = self.segments.charged_group(candidate) else { return true };
        let spaces: BTreeSet<SpaceId> = allocation.holders.iter().map(|device| self.devices[*device].space()).collect();
        let affords = |space: &SpaceId| {
            self.processes.need(*space, group).saturating_add(allocation.bytes())
                <= self.processes.budget_bytes(*space, group)
        };
        allocation.charged == Some(group) || spaces.iter().all(affords)
    }

    /// Whether every device that uses it is suspended, or idle and may be stopped at no cost.
    fn may_move(&self, id: AllocationId) -> bool {
        self.users_of(id).iter().all(|device| {
            let known = &self.devices[*device];
            known.is_suspended() || self.policy.suspend_others && known.is_idle()
        })
    }

    /// Whether devices that run have kept it from moving for as long as the policy lets them.
    fn has_waited(&mut self, id: AllocationId) -> bool {
        let now_ns = self.clock.now_ns();
        let since = self.allocations.waits_for_devices(id, now_ns);
        let patience_ns = self.policy.promote_patience_ns;
        self.policy.suspend_others && patience_ns != u64::MAX && now_ns - since >= patience_ns
    }

    fn move_up(&mut self, id: AllocationId, target: SegmentId, batch: &mut Batch<F>) {
        for device in self.users_of(id) {
            if !self.devices[device].is_suspended() && !batch.quiesced.contains(&device) {
                batch.quiesced.push(device);
                merge_points(&mut batch.after, &self.devices.take_uses(device));
            }
        }
        self.vacate(id, Cause::Promote, batch);
        let (allocation, segment) = (&self.allocations[id], self.segment(target));
        let (pages, contiguous) = (allocation.pages_in(segment), allocation.contiguous());
        let wish = Wish::of(&allocation.info, segment);
        let frames = self.segments[target].take_as_wished(&wish, pages, contiguous);
        self.commit(id, target, frames.expect("there is room"), Cause::Promote, batch);
    }
}
