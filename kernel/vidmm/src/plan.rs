//! Where the content of one MakeResident goes, found without changing anything. Called by `residency`.
//!
//! Scattered content is planned by counting pages. Contiguous content (memory §1.6) needs a run: the plan tries it on a
//! copy of the pool, giving back whole victims in their order until one fits.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::{PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::allocation::Placement;
use crate::pool::FramePool;
use crate::residency::{MakeResidentError, unique};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

/// Where one allocation goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Into a memory segment; contiguous content into these frames.
    Memory(SegmentId, Option<PageRun>),
    /// Into system memory; content that is accessed physically behind these aperture pages.
    System(Option<PageRun>),
}

/// What MakeResident will do.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Victims that lose everything for a contiguous run, with the allocation that needs it.
    pub whole_victims: Vec<(AllocationId, AllocationId)>,
    /// Allocations that miss pages.
    pub places: Vec<(AllocationId, Place)>,
}

/// What a segment can still give.
#[derive(Debug)]
struct Room {
    /// Free pages and victims' pages, less what is planned.
    pages: u64,
    /// A copy of the pool with contiguous content placed, made when first needed.
    trial: Option<FramePool>,
    /// Victims that the trial has given back.
    given: BTreeSet<AllocationId>,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Plans a MakeResident of `list`.
    pub(crate) fn plan(&self, list: &[AllocationId]) -> Result<Plan, MakeResidentError> {
        let list = unique(list);
        let mut rooms: BTreeMap<SegmentId, Room> = self.segments.iter().map(|s| (s.id, self.room(s.id))).collect();
        for &id in &list {
            let allocation = &self.allocations[id];
            if allocation.lazy_since.is_some()
                && let Placement::Memory(segment, extents) = &allocation.placement
            {
                // What is being made resident is no victim.
                rooms.get_mut(segment).expect("the segment exists").pages -= extents.pages();
            }
        }
        let mut plan = Plan::default();
        for (position, &id) in list.iter().enumerate() {
            if self.is_resident(id) {
                continue;
            }
            let place = self.place(id, &list, &mut rooms, &mut plan)?;
            match place {
                Some(place) => plan.places.push((id, place)),
                None => return Err(self.out_of_memory(&list, position, &rooms)),
            }
        }
        Ok(plan)
    }

    fn room(&self, id: SegmentId) -> Room {
        let segment = self.segment(id);
        Room { pages: segment.pool.free_pages() + segment.lazy_pages, trial: None, given: BTreeSet::new() }
    }

    fn place(
        &self,
        id: AllocationId,
        list: &[AllocationId],
        rooms: &mut BTreeMap<SegmentId, Room>,
        plan: &mut Plan,
    ) -> Result<Option<Place>, MakeResidentError> {
        let allocation = &self.allocations[id];
        let mut refused = false;
        // What lies partly in a segment is completed there if it can be (memory §10.4 item 26).
        let present = match &allocation.placement {
            Placement::Memory(segment, _) => Some(*segment),
            Placement::None | Placement::System(_) => None,
        };
        let others = allocation.candidates().filter(|candidate| Some(*candidate) != present);
        for candidate in present.into_iter().chain(others) {
            let room = rooms.get_mut(&candidate).expect("supported segments exist");
            if self.segment(candidate).is_aperture() {
                if !allocation.contiguous() {
                    return Ok(Some(Place::System(None)));
                }
                if let Some(run) = self.contiguous(id, candidate, list, room, plan) {
                    return Ok(Some(Place::System(Some(run))));
                }
            } else if allocation.locks > 0 {
                // spec: memory §6.3, not committed to a memory segment while locked
                refused = true;
            } else if allocation.contiguous() {
                if let Some(run) = self.contiguous(id, candidate, list, room, plan) {
                    return Ok(Some(Place::Memory(candidate, Some(run))));
                }
            } else {
                let here = if Some(candidate) == present { allocation.resident_pages() } else { 0 };
                let missing = allocation.pages - here;
                if missing <= room.pages {
                    room.pages -= missing;
                    return Ok(Some(Place::Memory(candidate, None)));
                }
            }
        }
        if refused { Err(MakeResidentError::Locked { allocation: id }) } else { Ok(None) }
    }

    /// A run for contiguous content, with the victims that it costs.
    fn contiguous(
        &self,
        id: AllocationId,
        candidate: SegmentId,
        list: &[AllocationId],
        room: &mut Room,
        plan: &mut Plan,
    ) -> Option<PageRun> {
        let allocation = &self.allocations[id];
        let segment = self.segment(candidate);
        if allocation.pages > room.pages {
            return None;
        }
        let page = segment.page_bytes() / PAGE_BYTES;
        let alignment = (allocation.info.alignment_bytes / PAGE_BYTES).max(page);
        let from_end = allocation.info.flags.contains(ddi::AllocationFlags::FROM_END_OF_SEGMENT);
        let mut trial = room.trial.clone().unwrap_or_else(|| segment.pool.clone());
        let mut given = Vec::new();
        let spared = |victim: &&AllocationId| !list.contains(victim) && !room.given.contains(victim);
        let mut victims = segment.lazy.values().filter(spared);
        loop {
            if let Some(run) = trial.take_contiguous(allocation.pages, alignment, from_end) {
                room.pages -= allocation.pages;
                room.trial = Some(trial);
                room.given.extend(&given);
                plan.whole_victims.extend(given.into_iter().map(|victim| (victim, id)));
                return Some(run);
            }
            let &victim = victims.next()?;
            let Placement::Memory(_, extents) = &self.allocations[victim].placement else {
                unreachable!("victims have pages in a memory segment")
            };
            extents.iter().for_each(|e| trial.give(PageRun { first: e.frame, count: Pages(e.count) }));
            given.push(victim);
        }
    }

    /// The bytes that are missing in the largest segment that the failing allocation supports (memory §10.1 row 11),
    /// the rest of the list counted where it would go there too.
    fn out_of_memory(
        &self,
        list: &[AllocationId],
        position: usize,
        rooms: &BTreeMap<SegmentId, Room>,
    ) -> MakeResidentError {
        let failing = &self.allocations[list[position]];
        let usable = failing.candidates().max_by_key(|id| (self.capacity_bytes(*id), std::cmp::Reverse(*id)));
        let segment = usable.expect("a supported segment");
        let missing = |id: &AllocationId| {
            let allocation = &self.allocations[*id];
            let first = allocation.candidates().next();
            let counts = first == Some(segment) && !self.is_resident(*id);
            if counts { allocation.pages - allocation.resident_pages() } else { 0 }
        };
        let own = failing.pages - failing.resident_pages();
        let behind: u64 = list[position + 1..].iter().map(missing).sum();
        // Contiguous content can fail though pages enough are free: then its own size is a step forward.
        let shortage = (own + behind).checked_sub(rooms[&segment].pages).filter(|&pages| pages > 0).unwrap_or(own);
        let request: u64 = list.iter().map(|id| self.allocations[*id].pages).sum();
        let never = request > self.segment(segment).pool.capacity_pages();
        let pages = if never { request } else { shortage };
        MakeResidentError::OutOfMemory { bytes_to_trim: Pages(pages).bytes() }
    }
}
