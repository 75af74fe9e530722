//! What the eviction planner is told, and what it answers, segment by segment. Called by `placement::foreseen`, which knows allocations.
//!
//! It owns one [`Foresight`] for each memory segment whose evictions are planned; with [`Eviction::Lru`] there is none, and each question
//! costs one look at an empty list. It knows an allocation by its [`Key`], which is its id, and no content. What holds at every call:
//! - a segment's room, as it was told last, is its frames less those of what is no subject ([`Told`]), as soon as a list is told;
//! - nothing is told of a segment that has no foresight.

use foresight::{Ended, Event, Foresight, Item, Key, Place, Victim, Wanted};
use wddm_types::{SegmentId, SegmentSet};

use crate::policy::Eviction;
use crate::segment::{Segment, Segments};
use crate::seldom::Blank;
use crate::slab::{AllocationId, Key as _};

/// The planners of one adapter.
#[derive(Debug)]
pub(crate) struct Foreseen {
    /// By number of the segment less 1; none where evictions are not planned.
    segments: Vec<Option<Planned>>,
    planned: SegmentSet,
    /// Kept for their room: a list that is told.
    items: Vec<Item>,
    ended: Vec<Ended>,
    /// The number of the list that is told.
    lists: u64,
}

/// One segment whose evictions are planned.
#[derive(Debug)]
struct Planned {
    foresight: Foresight,
    /// All frames that content can have.
    pages: u64,
    /// Frames of what is no subject.
    outside: u64,
    /// The room that was told last.
    room: u64,
}

/// What an allocation was told as, and what is still to be told of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// A list has named it in its first segment, and it has not been elsewhere since.
    pub subject: bool,
    /// Its owner has destroyed it.
    pub died: bool,
    /// Pages that it has as a subject.
    pub resident: u64,
    /// How many of these are dirty.
    pub dirty: u64,
    /// The segment and the pages that it has there without being a subject, unless they go before any subject's.
    pub outside: Option<(SegmentId, u64)>,
    /// Pages copied in and out that are not told yet.
    pub paged_in: u64,
    /// The same, out.
    pub paged_out: u64,
    /// The last list that named it: each list names an allocation once.
    pub list: u64,
    /// How often that list names it.
    pub times: u64,
    /// As a subject: lists told whose end is not told. 0 exactly if no device lists it.
    pub open: u64,
    /// Work of an end that is not told yet may have written it.
    pub written: bool,
}

impl Blank for Told {
    const BLANK: &'static Self = &Told {
        subject: false,
        died: false,
        resident: 0,
        dirty: 0,
        outside: None,
        paged_in: 0,
        paged_out: 0,
        list: 0,
        times: 0,
        open: 0,
        written: false,
    };
}

impl Foreseen {
    /// One for each memory segment, if the policy plans evictions. Where the driver alone knows how content lies, parts of it are no
    /// victims, and nothing is planned.
    pub fn open(eviction: Eviction, segments: &Segments) -> Foreseen {
        let plan = |segment: &Segment| {
            let pages = segment.capacity_pages();
            let planned = !segment.is_aperture() && !segment.aligns_pitches();
            planned.then(|| Planned { foresight: Foresight::new(pages), pages, outside: 0, room: pages })
        };
        let plans: Vec<_> = match eviction {
            Eviction::Lru => Vec::new(),
            Eviction::Planner => segments.all().iter().map(plan).collect(),
        };
        let numbers = segments.ids().zip(&plans).filter(|(_, plan)| plan.is_some()).map(|(id, _)| id);
        let planned = numbers.fold(SegmentSet::NONE, |set, id| set.with(SegmentSet::only(id)));
        Foreseen { segments: plans, planned, items: Vec::new(), ended: Vec::new(), lists: 0 }
    }

    /// Whether evictions are planned at all.
    pub fn is_on(&self) -> bool {
        !self.planned.is_empty()
    }

    /// The segments whose evictions are planned.
    pub fn planned(&self) -> SegmentSet {
        self.planned
    }

    /// What is foreseen of a segment.
    pub fn of(&self, segment: SegmentId) -> Option<&Foresight> {
        self.at(segment).map(|planned| &planned.foresight)
    }

    /// The time of a lazily evicted allocation in the order of victims; `since`: of its Evict.
    pub fn time_of(&self, segment: SegmentId, id: AllocationId, since: u64) -> u64 {
        let Some(planned) = self.at(segment) else { return since };
        let Place(time) = planned.foresight.place_of(key_of(id), since);
        time
    }

    /// Tells an event of a segment.
    pub fn hear(&mut self, segment: SegmentId, event: Event<'_>) {
        if let Some(planned) = self.at_mut(segment) {
            planned.foresight.hear(event);
        }
    }

    /// The next allocation of a segment whose place in the order of victims has changed.
    pub fn changed(&mut self, segment: SegmentId) -> Option<AllocationId> {
        self.at_mut(segment)?.foresight.changed().map(id_of)
    }

    /// The allocation that loses pages where `first` stands first, and how many of `pages`: another one only if it `may`.
    pub fn victim(
        &mut self,
        segment: SegmentId,
        first: AllocationId,
        pages: u64,
        may: impl Fn(AllocationId) -> bool,
    ) -> (AllocationId, u64) {
        let Some(planned) = self.at_mut(segment) else { return (first, pages) };
        match planned.foresight.victim_among(key_of(first), pages, |key| may(id_of(key))) {
            Victim::Planned { pages: most } => (first, most.clamp(1, pages)),
            Victim::Follow { key, pages: most } => (id_of(key), most.clamp(1, pages)),
        }
    }

    /// Work ahead of need of at most so many pages. `order`: the lazily evicted, the first of the order first.
    pub fn wanted(
        &mut self,
        segment: SegmentId,
        pages: u64,
        order: impl Iterator<Item = AllocationId>,
    ) -> Option<Wanted> {
        self.at_mut(segment)?.foresight.wanted(pages, order.map(key_of))
    }

    /// Whether two processes' content fits into every planned segment, each one's alone, and not both together into one.
    pub fn fit_one_at_a_time(&self, one: u32, other: u32) -> bool {
        let planned = || self.segments.iter().flatten();
        let footprints = |of: &Planned| (of.foresight.footprint(one), of.foresight.footprint(other));
        let alone = |of: &Planned| footprints(of).0.max(footprints(of).1) <= of.room;
        planned().all(alone) && planned().any(|of| footprints(of).0 + footprints(of).1 > of.room)
    }

    /// Pages of all the content that a process's lists have named.
    pub fn footprint(&self, process: u32) -> u64 {
        self.segments.iter().flatten().map(|of| of.foresight.footprint(process)).sum()
    }

    /// Which of `absent`, all of the latest list, its work had better read where they lie. `order`: the lazily evicted that the list does not name.
    pub fn in_place(
        &self,
        segment: SegmentId,
        absent: &[AllocationId],
        lacking: u64,
        order: impl Iterator<Item = AllocationId>,
    ) -> Vec<AllocationId> {
        let Some(planned) = self.at(segment) else { return Vec::new() };
        let absent: Vec<Key> = absent.iter().map(|id| key_of(*id)).collect();
        planned.foresight.in_place(&absent, lacking, order.map(key_of)).into_iter().map(id_of).collect()
    }

    /// A list is to be told. Answers with its number, and with room for its parts.
    pub fn begin_list(&mut self) -> (u64, Vec<Item>, Vec<Ended>) {
        self.lists += 1;
        let (mut items, mut ended) = (std::mem::take(&mut self.items), std::mem::take(&mut self.ended));
        items.clear();
        ended.clear();
        (self.lists, items, ended)
    }

    /// It was told.
    pub fn end_list(&mut self, items: Vec<Item>, ended: Vec<Ended>) {
        (self.items, self.ended) = (items, ended);
    }

    /// What is no subject has other pages now.
    pub fn stands_outside(&mut self, before: Option<(SegmentId, u64)>, now: Option<(SegmentId, u64)>) {
        if let Some((segment, pages)) = before
            && let Some(planned) = self.at_mut(segment)
        {
            planned.outside -= pages;
        }
        if let Some((segment, pages)) = now
            && let Some(planned) = self.at_mut(segment)
        {
            planned.outside += pages;
        }
    }

    /// Tells the room of a segment's subjects, if it has changed.
    pub fn tell_room(&mut self, segment: SegmentId) {
        let Some(planned) = self.at_mut(segment) else { return };
        let room = planned.pages - planned.outside;
        if std::mem::replace(&mut planned.room, room) != room {
            planned.foresight.hear(Event::Room { pages: room });
        }
    }

    /// All that a refused call must leave as it was, of one segment.
    pub fn state(&self, segment: SegmentId) -> impl std::fmt::Debug + '_ {
        (self.at(segment), self.lists)
    }

    /// Frames of a segment that what is no subject has.
    pub fn outside(&self, segment: SegmentId) -> u64 {
        self.at(segment).map_or(0, |planned| planned.outside)
    }

    fn at(&self, segment: SegmentId) -> Option<&Planned> {
        self.segments.get(usize::from(segment.0).wrapping_sub(1))?.as_ref()
    }

    fn at_mut(&mut self, segment: SegmentId) -> Option<&mut Planned> {
        self.segments.get_mut(usize::from(segment.0).wrapping_sub(1))?.as_mut()
    }
}

/// An allocation's name at the border.
pub(crate) fn key_of(id: AllocationId) -> Key {
    let (slot, generation) = id.parts();
    Key::new(slot, generation)
}

/// The allocation of that name.
pub(crate) fn id_of(key: Key) -> AllocationId {
    AllocationId::new(key.slot(), key.generation())
}
