//! What an LRU of the same room would hold now, and what it would have copied: the planner's yardstick, page by page.
//!
//! It runs beside the truth over the same operations and copies nothing. Its law:
//! - An allocation has its first pages, as many as are resident; the first of these are dirty.
//! - A MakeResident brings all pages of its list. For want of room the allocation that left its last list longest ago loses pages from its
//!   end, only as many as are needed; what is on a list loses none. If nothing can lose any, the ghost holds more than the room, and
//!   gives it back as soon as it can.
//! - A missing page that has content is copied in; without content it is filled, which copies nothing. A dirty page that goes is copied out.
//!   Whether there is content outside the ghost knows itself once work has written: the truth may have kept here what the ghost has copied out.
//! - Work that may have written makes the whole allocation dirty. A page that comes back is clean.
//!
//! The ones on no list stand in a chain, in the order in which they left their last one: a use costs O(1), a victim O(1).

use crate::event::{Item, Key};
use crate::report::Flow;

/// The end of the chain.
const NONE: u32 = u32::MAX;

/// An LRU of a room, in pages.
#[derive(Debug)]
pub(crate) struct Ghost {
    room: u64,
    held: u64,
    seats: Vec<Seat>,
    first: u32,
    last: u32,
    flow: Flow,
}

/// One allocation.
#[derive(Clone, Copy, Debug)]
struct Seat {
    generation: u32,
    lives: bool,
    resident: u64,
    dirty: u64,
    /// Whether what goes of it has content: it came with some, or work has written it.
    content: bool,
    /// Lists that it is on.
    open: u32,
    /// Whether it stands in the chain.
    chained: bool,
    before: u32,
    behind: u32,
}

const EMPTY: Seat = Seat {
    generation: 0,
    lives: false,
    resident: 0,
    dirty: 0,
    content: false,
    open: 0,
    chained: false,
    before: NONE,
    behind: NONE,
};

/// What the ghost has of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    /// Pages from the begin.
    pub resident: u64,
    /// How many of these the ghost alone has.
    pub dirty: u64,
    /// Whether it is on no list.
    pub idle: bool,
}

impl Ghost {
    pub(crate) fn new(room: u64) -> Ghost {
        Ghost { room, held: 0, seats: Vec::new(), first: NONE, last: NONE, flow: Flow::default() }
    }

    /// The room changes. Slots that lose pages for it are added to `touched`.
    pub(crate) fn resize(&mut self, room: u64, touched: &mut Vec<u32>) {
        self.room = room;
        self.make_room(0, touched);
    }

    /// Whether lists hold more than the room, so that it gives back what leaves them.
    pub(crate) fn is_over(&self) -> bool {
        self.held > self.room
    }

    /// A MakeResident. Slots whose holding changes are added to `touched`.
    pub(crate) fn used(&mut self, list: &[Item], touched: &mut Vec<u32>) {
        let mut absent = 0;
        for item in list {
            let slot = self.admit(item.key);
            self.unchain(slot);
            let seat = &mut self.seats[slot as usize];
            seat.open += 1;
            absent += item.pages.saturating_sub(seat.resident);
            touched.push(slot);
        }
        self.make_room(absent, touched);
        for item in list {
            let seat = &mut self.seats[item.key.slot() as usize];
            let missing = item.pages.saturating_sub(seat.resident);
            seat.resident += missing;
            self.held += missing;
            seat.content |= item.has_content;
            if seat.content {
                self.flow.paged_in += missing;
            }
        }
    }

    /// An Evict of one allocation.
    pub(crate) fn ended(&mut self, key: Key, written: bool) {
        let Some(slot) = self.slot_of(key) else { return };
        let seat = &mut self.seats[slot as usize];
        if written {
            (seat.dirty, seat.content) = (seat.resident, true);
        }
        seat.open = seat.open.saturating_sub(1);
        if seat.open == 0 {
            self.unchain(slot);
            self.chain(slot);
        }
    }

    /// What it has will never be copied out: the content is void.
    pub(crate) fn cleaned(&mut self, key: Key) {
        if let Some(slot) = self.slot_of(key) {
            let seat = &mut self.seats[slot as usize];
            (seat.dirty, seat.content) = (0, false);
        }
    }

    /// It is gone, or no subject.
    pub(crate) fn forget(&mut self, key: Key) {
        if let Some(slot) = self.slot_of(key) {
            self.vacate(slot);
        }
    }

    /// Pages that came without a copy after all, although the ghost was charged for them.
    pub(crate) fn refund(&mut self, pages: u64) {
        self.flow.paged_in = self.flow.paged_in.saturating_sub(pages);
    }

    /// What it has of the tenant of a slot.
    pub(crate) fn holding(&self, slot: u32) -> Holding {
        self.seats.get(slot as usize).filter(|seat| seat.lives).map_or(Holding::default(), |seat| Holding {
            resident: seat.resident,
            dirty: seat.dirty,
            idle: seat.open == 0,
        })
    }

    /// Whether a key is the present tenant of its slot.
    pub(crate) fn knows(&self, key: Key) -> bool {
        self.slot_of(key).is_some()
    }

    /// What it would have copied.
    pub(crate) fn flow(&self) -> Flow {
        self.flow
    }

    /// The pages that it may hold.
    pub(crate) fn room(&self) -> u64 {
        self.room
    }

    fn slot_of(&self, key: Key) -> Option<u32> {
        let seat = self.seats.get(key.slot() as usize)?;
        (seat.lives && seat.generation == key.generation()).then_some(key.slot())
    }

    /// Gives a key its seat; an older tenant is gone.
    fn admit(&mut self, key: Key) -> u32 {
        let at = key.slot() as usize;
        if at >= self.seats.len() {
            self.seats.resize(at + 1, EMPTY);
        }
        if self.slot_of(key).is_none() {
            if self.seats[at].lives {
                self.vacate(key.slot());
            }
            self.seats[at] = Seat { generation: key.generation(), lives: true, ..EMPTY };
        }
        key.slot()
    }

    fn vacate(&mut self, slot: u32) {
        self.unchain(slot);
        self.held -= self.seats[slot as usize].resident;
        self.seats[slot as usize] = EMPTY;
    }

    /// Takes pages until so many fit beside what is held, or nothing is left to be taken.
    fn make_room(&mut self, wanted: u64, touched: &mut Vec<u32>) {
        loop {
            let over = (self.held + wanted).saturating_sub(self.room);
            if over == 0 || self.first == NONE {
                return;
            }
            let slot = self.first;
            let seat = &mut self.seats[slot as usize];
            let taken = over.min(seat.resident);
            seat.resident -= taken;
            let out = seat.dirty.saturating_sub(seat.resident);
            seat.dirty -= out;
            self.flow.paged_out += out;
            self.held -= taken;
            touched.push(slot);
            if self.seats[slot as usize].resident == 0 {
                self.unchain(slot);
            }
        }
    }

    /// Puts a slot at the end of the chain; one without pages has nothing to lose, and stays out.
    fn chain(&mut self, slot: u32) {
        let before = self.last;
        let seat = &mut self.seats[slot as usize];
        if seat.resident == 0 {
            return;
        }
        (seat.chained, seat.before, seat.behind) = (true, before, NONE);
        match before {
            NONE => self.first = slot,
            before => self.seats[before as usize].behind = slot,
        }
        self.last = slot;
    }

    fn unchain(&mut self, slot: u32) {
        let Seat { chained, before, behind, .. } = self.seats[slot as usize];
        if !chained {
            return;
        }
        match before {
            NONE => self.first = behind,
            before => self.seats[before as usize].behind = behind,
        }
        match behind {
            NONE => self.last = before,
            behind => self.seats[behind as usize].before = before,
        }
        self.seats[slot as usize].chained = false;
    }

    /// # Errors
    /// What does not agree.
    pub(crate) fn check(&self) -> Result<(), String> {
        let held: u64 = self.seats.iter().map(|seat| seat.resident).sum();
        if held != self.held {
            return Err(format!("the ghost holds {held} pages and counts {}", self.held));
        }
        if self.held > self.room && self.first != NONE {
            return Err(format!("the ghost holds {held} pages in a room of {} and could give some back", self.room));
        }
        let (mut at, mut before, mut chained) = (self.first, NONE, 0);
        while at != NONE {
            let seat = &self.seats[at as usize];
            if !seat.chained
                || seat.open != 0
                || seat.before != before
                || seat.resident == 0
                || seat.dirty > seat.resident
            {
                return Err(format!("slot {at} stands wrongly in the ghost's chain: {seat:?}"));
            }
            (before, at, chained) = (at, seat.behind, chained + 1);
        }
        let marked = self.seats.iter().filter(|seat| seat.chained).count();
        if before != self.last || chained != marked {
            return Err(format!("the ghost's chain has {chained} slots, and {marked} say that they stand in it"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_work_has_written_is_copied_in_although_the_truth_has_nothing_of_it_outside() {
        let (mut ghost, mut touched) = (Ghost::new(8), Vec::new());
        let item = |slot| Item { key: Key::new(slot, 0), pages: 6, kind: 0, has_content: false };
        let mut operate = |ghost: &mut Ghost, slot, written| {
            ghost.used(&[item(slot)], &mut touched);
            ghost.ended(Key::new(slot, 0), written);
            let Flow { paged_in, paged_out } = ghost.flow();
            (paged_in, paged_out)
        };
        assert_eq!(operate(&mut ghost, 0, true), (0, 0));
        assert_eq!(operate(&mut ghost, 1, false), (0, 4), "it fits only in part");
        assert_eq!(operate(&mut ghost, 0, false), (4, 4), "the truth may have kept all of it");
        assert_eq!(operate(&mut ghost, 1, false), (4, 4), "nothing has written it: it is filled anew");
        ghost.cleaned(Key::new(0, 0));
        assert_eq!(operate(&mut ghost, 0, false), (4, 4), "its content is void");
    }
}
