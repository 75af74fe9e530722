//! Work that the planner wants ahead of need: content comes before a list names it, leaves before its room is needed, or is copied out while
//! it stays (policy, [`Eviction::Planner`](crate::Eviction)). Called by the kernel when the paging ring has little to do.
//!
//! # The law of such a work
//! - **It stops nothing**: it suspends, quiesces and idles no device, and waits for no use. Works go in order, so the works of every process would
//!   wait behind it for a use whose fence its process alone signals; hence it takes only what no queued work uses any more. Each work is short.
//! - **It takes room from no device.** While a suspended device with work waits for its room, nothing comes ahead. Content that comes may displace
//!   only what any list of the same process could displace (memory §8.2); what its owner has destroyed goes first.
//! - **It changes nothing that a program can see**: content that came is like content that was lazily evicted, on no list and charged to none.
//! - What cannot come or go in part, and what the CPU or the driver has a hand in, is left to demand.

use foresight::Wanted;
use wddm_types::{FencePoint, PAGE_BYTES, SegmentId};

use crate::allocation::Placement;
use crate::foreseen::id_of;
use crate::paging::{Batch, Cause, Work};
use crate::rank::{DOOMED_TIER, lazy_tier};
use crate::segment::Wish;
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

/// A work ahead in the making.
pub(crate) struct Ahead<'a, F> {
    pub segment: SegmentId,
    /// What has come by it: that is no victim of the same work, whose entries become valid last.
    came: Vec<AllocationId>,
    /// Whether a last use is over.
    is_over: &'a dyn Fn(&FencePoint<F>) -> bool,
    pub batch: Batch<F>,
}

impl<'a, F> Ahead<'a, F> {
    pub fn new(segment: SegmentId, batch: Batch<F>, is_over: &'a dyn Fn(&FencePoint<F>) -> bool) -> Self {
        Ahead { segment, came: Vec::new(), is_over, batch }
    }
}

impl<F: Copy + Eq> VidMm<F> {
    /// Whether evictions are planned on this adapter: then [`VidMm::work_ahead`] may have something to do.
    pub fn plans_ahead(&self) -> bool {
        self.foreseen.is_on()
    }

    /// The next work that the planner wants ahead of need, of at most `max_pages` pages; `None`: nothing. `is_over` says of a last use whether
    /// it is: what is still in use is left where it is.
    // spec: memory §8.3
    pub fn work_ahead(&mut self, max_pages: u64, is_over: &dyn Fn(&FencePoint<F>) -> bool) -> Option<Work<F>> {
        if self.devices.any_busy_waits() {
            return None;
        }
        for segment in self.foreseen.planned().iter() {
            let victims = self.segments[segment].victims().lazily_evicted();
            let Some(wanted) = self.foreseen.wanted(segment, max_pages, victims) else { continue };
            let mut ahead = Ahead::new(segment, self.works.begin(), is_over);
            self.do_ahead(wanted, max_pages, &mut ahead);
            let work = self.finish(ahead.batch, false);
            if work.is_some() {
                return work;
            }
        }
        None
    }

    /// Does what is wanted, as far as the law of such works allows it. Answers how many pages came, went or were copied.
    pub(crate) fn do_ahead(&mut self, wanted: Wanted, max_pages: u64, ahead: &mut Ahead<'_, F>) -> u64 {
        match wanted {
            Wanted::Fetch { key, pages, instead_of } => {
                self.fetch(id_of(key), pages.min(max_pages), instead_of.map(id_of), ahead)
            }
            Wanted::WriteBack { key, pages } => {
                let id = id_of(key);
                let may =
                    self.is_idle_there(id, ahead) && self.worth_writing(id) && !self.allocations[id].all_or_nothing();
                if may { self.write_back_end(id, pages.min(max_pages), &mut ahead.batch) } else { 0 }
            }
            Wanted::Clear { key, pages } => {
                let id = id_of(key);
                if self.may_leave_ahead(id, ahead) { self.take_ahead(id, pages.min(max_pages), ahead) } else { 0 }
            }
        }
    }

    /// Brings missing pages of an allocation, into free frames or those of another one.
    fn fetch(
        &mut self,
        id: AllocationId,
        pages: u64,
        instead_of: Option<AllocationId>,
        ahead: &mut Ahead<'_, F>,
    ) -> u64 {
        let segment = ahead.segment;
        if !self.may_come_ahead(segment, id) {
            return 0;
        }
        let allocation = &self.allocations[id];
        let (missing, tier) = (allocation.pages - allocation.resident_pages(), lazy_tier(allocation.band));
        let pages = self.in_whole_pages(segment, pages.min(missing));
        self.take_from_dead(pages, ahead);
        let shortage = pages.saturating_sub(self.segment(segment).free_pages());
        let lower = |other: &AllocationId| {
            let rank = self.allocations[*other].standing.and_then(|standing| standing.rank);
            rank.is_some_and(|rank| rank.tier <= tier)
        };
        let loser = instead_of.filter(|other| shortage > 0 && *other != id && self.may_leave_ahead(*other, ahead));
        if let Some(other) = loser.filter(lower) {
            self.take_ahead(other, shortage, ahead);
        }
        let pages = self.in_whole_pages(segment, pages.min(self.segment(segment).free_pages()));
        if pages == 0 {
            return 0;
        }
        if self.allocations[id].in_place {
            // Entries that lead to system memory go first.
            if !self.allocations[id].last_use.iter().all(ahead.is_over) {
                return 0;
            }
            self.withdraw(id, Cause::Foreseen, &mut ahead.batch);
        }
        let allocation = &mut self.allocations[id];
        if allocation.lazy_since.is_none() {
            // No list has named it since it was away: it stands as if it were evicted now.
            allocation.lazy_since = Some(self.clock.next_tick());
        }
        let wish = Wish::of(&self.allocations[id].info, self.segment(segment));
        let frames = self.segments[segment].take_as_wished(&wish, pages, false).expect("as many are free");
        self.commit(id, segment, frames, Cause::Foreseen, &mut ahead.batch);
        ahead.came.push(id);
        pages
    }

    /// Takes what the destroyed still hold, until so many pages are free or no work uses them and they hold none.
    fn take_from_dead(&mut self, pages: u64, ahead: &mut Ahead<'_, F>) {
        while self.segment(ahead.segment).free_pages() < pages {
            let Some(dead) = self.first_over(ahead) else { return };
            let all = self.allocations[dead].resident_pages();
            let shortage = pages - self.segment(ahead.segment).free_pages();
            let taken = if self.goes_whole(dead) { all } else { shortage.min(all) };
            self.take_end(dead, taken, Cause::Destroy, &mut ahead.batch);
        }
    }

    /// The first of the destroyed that no work uses any more.
    fn first_over(&self, ahead: &Ahead<'_, F>) -> Option<AllocationId> {
        let dead = self.segment(ahead.segment).victims().up_to(DOOMED_TIER).map(|(_, id)| id);
        dead.take(DEAD_MAX).find(|id| self.allocations[*id].last_use.iter().all(ahead.is_over))
    }

    /// Takes pages off the end of a victim. Answers how many.
    fn take_ahead(&mut self, id: AllocationId, pages: u64, ahead: &mut Ahead<'_, F>) -> u64 {
        let unit = self.segment(ahead.segment).page_bytes() / PAGE_BYTES;
        let pages = pages.next_multiple_of(unit).min(self.allocations[id].resident_pages());
        self.take_end(id, pages, Cause::Foreseen, &mut ahead.batch);
        pages
    }

    /// Whether content may come to a segment in parts, on its own.
    fn may_come_ahead(&self, segment: SegmentId, id: AllocationId) -> bool {
        let Some(allocation) = self.allocations.get(id) else { return false };
        let lacks = match &allocation.placement {
            Placement::None => true,
            Placement::Memory(_, extents) => !extents.are_whole(),
            Placement::System(_) => self.is_decided_anew(id),
        };
        let by_itself = allocation.context.is_none() && !allocation.stores_fences() && !allocation.all_or_nothing();
        lacks
            && by_itself
            && allocation.aside.is_none()
            && allocation.is_subject()
            && allocation.first_segment() == segment
            && allocation.count == 0
            && !allocation.backing.is_empty()
            && !self.is_marked(id)
            && !self.spaces.change_only_idle()
    }

    /// Whether pages of an allocation may leave before their room is needed.
    fn may_leave_ahead(&self, id: AllocationId, ahead: &Ahead<'_, F>) -> bool {
        self.is_idle_there(id, ahead) && !self.goes_whole(id) && !self.is_marked(id) && !self.spaces.change_only_idle()
    }

    /// Whether an allocation is lazily evicted, no queued work uses it, and it did not come just now.
    fn is_idle_there(&self, id: AllocationId, ahead: &Ahead<'_, F>) -> bool {
        let Some(allocation) = self.allocations.get(id) else { return false };
        let here = matches!(&allocation.placement, Placement::Memory(present, _) if *present == ahead.segment);
        let idle = allocation.is_subject() && allocation.count == 0 && allocation.doomed.is_none();
        here && idle && !ahead.came.contains(&id) && allocation.last_use.iter().all(ahead.is_over)
    }

    /// So many 4-KB pages, or fewer, that are whole pages of a segment.
    fn in_whole_pages(&self, segment: SegmentId, pages: u64) -> u64 {
        let unit = self.segment(segment).page_bytes() / PAGE_BYTES;
        pages / unit * unit
    }
}

/// How many of the destroyed are looked at for one whose last use is over.
const DEAD_MAX: usize = 16;
