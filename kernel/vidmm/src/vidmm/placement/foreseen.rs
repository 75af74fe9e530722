//! The planner hears what VidMm does, and says which victim goes (memory §8.2). `foreseen` has the planners, `rank` the order; the crate
//! `foresight` says at its head what it is told and when. With [`Eviction::Lru`](crate::Eviction::Lru) every method here is one branch.
//!
//! A *subject* of a segment is what a list has named, whose first choice the segment is, and what any list may name again there. Everything
//! else with pages in the segment makes its room smaller: what is pinned, locked, or would rather lie elsewhere. Content of the dead and of
//! offers does neither: it goes before any subject.

use ddi::AllocationInfo;
use foresight::{Ended, Event, Item, Moved, Report};
use wddm_types::{PAGE_BYTES, SegmentId};

use crate::allocation::{Allocation, Placement};
use crate::device::EvictFlags;
use crate::foreseen::{Told, id_of, key_of};
use crate::rank::{Rank, is_lazy};
use crate::slab::{AllocationId, DeviceId, Key, SpaceId};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Planned against actual, of each memory segment whose evictions are planned. The process of a stream that has not ended is that of
    /// [`VidMm::space_numbered`].
    pub fn plan_reports(&self) -> impl Iterator<Item = (SegmentId, Report)> + '_ {
        self.foreseen.planned().iter().filter_map(|segment| Some((segment, self.foreseen.of(segment)?.report())))
    }

    /// The space of the process that a plan's report numbers so, if it lives.
    pub fn space_numbered(&self, number: u32) -> Option<SpaceId> {
        self.spaces.iter().map(|(space, _)| space).find(|space| space.parts().0 == number)
    }

    /// A device's list gets these: one operation's set, before room is made for it.
    pub(crate) fn foresee_use(&mut self, device: DeviceId, list: &[AllocationId]) {
        if !self.foreseen.is_on() {
            return;
        }
        let process = self.process_number(device);
        for segment in self.foreseen.planned().iter() {
            let (number, mut items, ended) = self.foreseen.begin_list();
            for &id in list {
                let allocation = &mut self.allocations[id];
                // A lock tells nothing: a subject that a lock keeps stays a subject, and its lists count.
                let subject = allocation.told.subject || allocation.is_subject();
                if allocation.told.list == number || allocation.first_segment() != segment || !subject {
                    continue;
                }
                allocation.told.list = number;
                allocation.told.open += 1;
                items.push(Item {
                    key: key_of(id),
                    pages: allocation.pages,
                    kind: allocation.kind(),
                    has_content: !allocation.valid.is_empty(),
                });
            }
            let ids = items.iter().map(|item| id_of(item.key));
            let new: Vec<AllocationId> = ids.filter(|id| !self.allocations[*id].told.subject).collect();
            for &id in &new {
                let told = &mut self.allocations[id].told;
                let before = told.outside.take();
                (told.subject, told.resident, told.dirty) = (true, 0, 0);
                self.foreseen.stands_outside(before, None);
            }
            self.foreseen.tell_room(segment);
            self.foreseen.hear(segment, Event::Used { process, device: device.parts().0, list: &items });
            self.foreseen.end_list(items, ended);
            // What lay there before any list named it.
            new.into_iter().for_each(|id| self.tell(id));
            self.rank_changed(segment);
        }
    }

    /// A device's list loses these: an operation's use of them is queued. Before what becomes a victim is ranked.
    pub(crate) fn foresee_end(&mut self, device: DeviceId, list: &[AllocationId], flags: EvictFlags) {
        if !self.foreseen.is_on() {
            return;
        }
        let (process, written) = (self.process_number(device), !flags.not_written_to);
        for segment in self.foreseen.planned().iter() {
            let (number, items, mut ended) = self.foreseen.begin_list();
            for &id in list {
                let allocation = &mut self.allocations[id];
                if !allocation.told.subject || allocation.first_segment() != segment {
                    continue;
                }
                let told = &mut allocation.told;
                if told.list != number {
                    (told.list, told.times) = (number, 0);
                    ended.push(Ended { key: key_of(id), written });
                }
                told.times += 1;
            }
            let mut again = Vec::new();
            ended.retain_mut(|one| self.count_end(one, &mut again));
            self.hear_end(segment, process, &ended, again);
            self.foreseen.end_list(items, ended);
        }
    }

    /// A device's list names an allocation no more, although no Evict said so. Before what becomes a victim is ranked.
    pub(crate) fn foresee_leave(&mut self, device: DeviceId, id: AllocationId) {
        if !self.foreseen.is_on() || !self.allocations[id].told.subject {
            return;
        }
        let (process, left) = (self.process_number(device), self.times_listed(id));
        let allocation = &mut self.allocations[id];
        let (segment, told) = (allocation.first_segment(), &mut allocation.told);
        debug_assert!(told.open > 0 || left == 0, "a list of {id:?} was not told: {told:?}");
        let stays = told.open.min(left);
        let ends = told.open - stays;
        told.open = stays;
        self.hear_end(segment, process, &[], vec![(Ended { key: key_of(id), written: true }, ends)]);
    }

    /// Counts an Evict of the last list begun for what is told of its allocation: the last count takes with it what lists told beyond it. False: no
    /// list told ends by it, because the list that told it named it more than once.
    fn count_end(&mut self, ended: &mut Ended, again: &mut Vec<(Ended, u64)>) -> bool {
        let id = id_of(ended.key);
        let listed = self.times_listed(id);
        let told = &mut self.allocations[id].told;
        debug_assert!(told.times <= listed, "lists name {id:?} {listed} times, and it ends {} times", told.times);
        let ends = if told.times == listed { told.open } else { told.open.saturating_sub(1).min(1) };
        told.open -= ends;
        told.written |= ended.written;
        if ends == 0 {
            return false;
        }
        ended.written = std::mem::take(&mut told.written);
        if ends > 1 {
            again.push((*ended, ends - 1));
        }
        true
    }

    /// Tells ends, each allocation once at a time.
    fn hear_end(&mut self, segment: SegmentId, process: u32, ended: &[Ended], mut again: Vec<(Ended, u64)>) {
        self.foresee_writes_in_place(segment, ended);
        if !ended.is_empty() {
            self.foreseen.hear(segment, Event::Ended { process, list: ended });
        }
        again.retain(|(_, times)| *times > 0);
        while !again.is_empty() {
            let list: Vec<Ended> = again.iter().map(|(ended, _)| *ended).collect();
            self.foreseen.hear(segment, Event::Ended { process, list: &list });
            again.iter_mut().for_each(|(_, times)| *times -= 1);
            again.retain(|(_, times)| *times > 0);
        }
    }

    /// How often lists name an allocation, without the evicts that wait.
    pub(crate) fn times_listed(&self, id: AllocationId) -> u64 {
        self.allocations[id].holders.iter().map(|device| self.devices.stays_listed(*device, id)).sum()
    }

    /// A process's space ends, behind all that it had: its stream ends, and its number may be another one's from now on.
    pub(crate) fn foresee_gone(&mut self, space: SpaceId) {
        for segment in self.foreseen.planned().iter() {
            self.foreseen.hear(segment, Event::Gone { process: space.parts().0 });
            self.rank_changed(segment);
        }
    }

    /// An allocation's owner destroys it: it is no subject from now on, whatever becomes of its pages.
    pub(crate) fn foresee_death(&mut self, id: AllocationId) {
        if !self.foreseen.is_on() {
            return;
        }
        let allocation = &mut self.allocations[id];
        let told = std::mem::replace(&mut *allocation.told, Told { died: true, ..Told::default() });
        self.foreseen.stands_outside(told.outside, None);
        // Where it was planned before it went elsewhere, its process's footprint has it still.
        for segment in self.foreseen.planned().iter() {
            self.foreseen.hear(segment, Event::Died { key: key_of(id) });
        }
    }

    /// The content of an allocation is void.
    pub(crate) fn foresee_loss(&mut self, id: AllocationId) {
        let allocation = &self.allocations[id];
        if self.foreseen.is_on() && allocation.told.subject {
            self.foreseen.hear(allocation.first_segment(), Event::Dropped { key: key_of(id) });
        }
    }

    /// What it may prefer changes: where it was planned, it is no subject any more. `info` is what it will be.
    pub(crate) fn foresee_home(&mut self, id: AllocationId, info: &AllocationInfo) {
        if !self.foreseen.is_on() {
            return;
        }
        let allocation = &mut self.allocations[id];
        let home = allocation.first_segment();
        let before = std::mem::replace(&mut allocation.info, *info);
        let moves = allocation.first_segment() != home;
        allocation.info = before;
        if moves && allocation.told.subject {
            *allocation.told = Told { list: allocation.told.list, ..Told::default() };
            self.foreseen.hear(home, Event::Elsewhere { key: key_of(id) });
        }
    }

    /// Tells what an allocation has now, if it is not what was told last. Whatever changes that ranks it anew, and so comes here.
    pub(crate) fn tell(&mut self, id: AllocationId) {
        if !self.foreseen.is_on() {
            return;
        }
        let allocation = &mut self.allocations[id];
        let told = *allocation.told;
        if told.died {
            return;
        }
        let home = allocation.first_segment();
        if told.subject && allocation.is_subject() {
            let (resident, dirty) = match &allocation.placement {
                Placement::Memory(_, extents) => (extents.pages(), extents.dirty_pages()),
                Placement::None | Placement::System(_) => (0, 0),
            };
            if (told.resident, told.dirty, told.paged_in, told.paged_out) != (resident, dirty, 0, 0) {
                *allocation.told = Told { resident, dirty, paged_in: 0, paged_out: 0, ..told };
                let (paged_in, paged_out) = (told.paged_in, told.paged_out);
                let moved = Moved { key: key_of(id), resident, dirty, paged_in, paged_out };
                self.foreseen.hear(home, Event::Moved(moved));
            }
            return;
        }
        let outside = allocation.outside();
        *allocation.told = Told { outside, list: told.list, ..Told::default() };
        self.foreseen.stands_outside(told.outside, outside);
        if told.subject {
            self.foreseen.hear(home, Event::Elsewhere { key: key_of(id) });
        }
    }

    /// The victim that loses pages where `first` stands first in the order, and how many of `pages`: of the lazily evicted the planner's
    /// account may ask for another one, of the same tier and priority.
    pub(crate) fn foreseen_victim(
        &mut self,
        segment: SegmentId,
        (rank, first): (Rank, AllocationId),
        pages: u64,
    ) -> (AllocationId, u64) {
        if !self.foreseen.is_on() || !is_lazy(rank.tier) {
            return (first, pages);
        }
        let resident = self.allocations[first].resident_pages();
        let beside = |other: AllocationId| {
            let standing = self.allocations.get(other).and_then(|known| known.standing);
            let beside = standing.filter(|standing| standing.segment == segment).and_then(|standing| standing.rank);
            beside.is_some_and(|beside| (beside.tier, beside.priority) == (rank.tier, rank.priority))
        };
        let (victim, most) = self.foreseen.victim(segment, first, pages.min(resident), beside);
        // What goes leaves in whole pages of the segment.
        (victim, most.next_multiple_of(self.segment(segment).page_bytes() / PAGE_BYTES))
    }

    /// Ranks anew what the planner ranks otherwise than before.
    pub(crate) fn rank_changed(&mut self, segment: SegmentId) {
        while let Some(id) = self.foreseen.changed(segment) {
            if self.allocations.get(id).is_some() {
                self.rerank(id);
            }
        }
    }

    /// The number of a device's process in its events.
    pub(crate) fn process_number(&self, device: DeviceId) -> u32 {
        self.devices[device].space().parts().0
    }
}

impl<F> Allocation<F> {
    /// The segment that it prefers: it is planned there, or nowhere.
    pub(crate) fn first_segment(&self) -> SegmentId {
        self.candidates().next().expect("a supported segment")
    }

    /// Whether it comes to the segment that it prefers, and goes from there, as lists and room want it.
    pub(crate) fn is_subject(&self) -> bool {
        let home = match &self.placement {
            Placement::None => true,
            Placement::Memory(present, _) => *present == self.first_segment(),
            Placement::System(_) => self.in_place,
        };
        home && !self.told.died && self.pins == 0 && self.locks.count == 0 && self.offer().is_none()
    }

    /// The pages that it keeps from subjects.
    pub(crate) fn outside(&self) -> Option<(SegmentId, u64)> {
        match &self.placement {
            Placement::Memory(segment, extents) if self.offer().is_none() => Some((*segment, extents.pages())),
            _ => None,
        }
    }

    /// What tells allocations of one size apart: where they may be, and how they are used.
    fn kind(&self) -> u16 {
        let of = |bits: u32| bits ^ bits >> 16;
        // CAST: folded to 16 bits; only equality counts.
        (of(self.info.supported_segments.0) ^ of(self.info.flags.bits()).rotate_left(5)) as u16
    }
}
