//! A small memory that says what an order of victims would copy: on a sample of the allocations, with their share of the room.
//!
//! It holds pages as the ghost does, but its victims go in the order of a *worth* that is given with each use, the least first. What is
//! on a list may go, too: a sample compares orders, it promises nothing.

use std::collections::BTreeSet;

/// A memory of sampled allocations.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    held: u64,
    seats: Vec<Seat>,
    order: BTreeSet<(u64, u32)>,
    copied: u64,
}

/// A sampled allocation, by slot.
#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    worth: u64,
    resident: u64,
    dirty: u64,
    /// Whether what goes of it has content: it came with some, or work has written it.
    content: bool,
}

impl Sample {
    /// A use of an allocation that is worth so much then, in a room of so many pages.
    pub(crate) fn used(&mut self, slot: u32, pages: u64, has_content: bool, worth: u64, room: u64) {
        let at = slot as usize;
        if at >= self.seats.len() {
            self.seats.resize(at + 1, Seat::default());
        }
        let before = self.seats[at];
        self.order.remove(&(before.worth, slot));
        let missing = pages.saturating_sub(before.resident);
        let content = before.content || has_content;
        if missing > 0 {
            self.make_room(missing, room);
            self.copied += if content { missing } else { 0 };
        }
        self.held += missing;
        self.seats[at] = Seat { worth, resident: before.resident + missing, dirty: before.dirty, content };
        self.order.insert((worth, slot));
    }

    /// Work has written it.
    pub(crate) fn written(&mut self, slot: u32) {
        if let Some(seat) = self.seats.get_mut(slot as usize) {
            (seat.dirty, seat.content) = (seat.resident, true);
        }
    }

    /// Its content is void.
    pub(crate) fn dropped(&mut self, slot: u32) {
        if let Some(seat) = self.seats.get_mut(slot as usize) {
            (seat.dirty, seat.content) = (0, false);
        }
    }

    /// It is gone.
    pub(crate) fn forget(&mut self, slot: u32) {
        if let Some(seat) = self.seats.get_mut(slot as usize) {
            self.order.remove(&(seat.worth, slot));
            self.held -= seat.resident;
            *seat = Seat::default();
        }
    }

    /// Pages copied, where older ones count less.
    pub(crate) fn copied(&self) -> u64 {
        self.copied
    }

    /// What was copied so far counts half from now on.
    pub(crate) fn age(&mut self) {
        self.copied /= 2;
    }

    /// What it holds, and what its seats say that it holds.
    pub(crate) fn sums(&self) -> (u64, u64) {
        (self.held, self.seats.iter().map(|seat| seat.resident).sum())
    }

    fn make_room(&mut self, wanted: u64, room: u64) {
        while self.held + wanted > room {
            let Some((worth, slot)) = self.order.pop_first() else { return };
            let seat = &mut self.seats[slot as usize];
            let taken = (self.held + wanted - room).min(seat.resident);
            seat.resident -= taken;
            self.held -= taken;
            let out = seat.dirty.saturating_sub(seat.resident);
            seat.dirty -= out;
            self.copied += out;
            if seat.resident > 0 {
                self.order.insert((worth, slot));
            }
        }
    }
}
