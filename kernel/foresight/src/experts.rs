//! Which order serves what nothing is foreseen of: recency, or frequency with a short or a long memory.
//!
//! Three *experts* each have an opinion: recency is LRU; two frequencies have half-lives of 16 and of 256 rooms' worth of uses (`frequency`).
//! Each runs a small memory over a sample of the allocations (`sample`), and the one that has copied the least lately leads. Its order is
//! that of all allocations without a forecast. While recency leads, the planner *is* LRU there; the account bounds what an expert may cost.
//!
//! They watch only while something is unknown: what repeats needs none of them. Small sets are sampled whole, large ones one allocation in
//! sixteen, by a hash of the name. The sample's room is its share of the pages.
//! A new leader's order reaches each allocation at its next use, and the others by and by (`next_changed`).

use crate::event::{Broken, Item, Key};
use crate::frequency::scored;
use crate::sample::Sample;

/// Half-lives in rooms' worth of uses, as powers of two.
const HALF_LIVES: [u32; 2] = [4, 8];
/// With more living allocations than the first number one in as many as the second is sampled, a power of two.
const SAMPLED: [(u64, u64); 3] = [(0, 1), (32, 4), (256, 16)];
/// A leader is replaced by one that copies a twentieth less.
const MARGIN: u64 = 20;
/// The window in which copies count halves after so many rooms' worth of uses.
const WINDOW_ROOMS: u64 = 8;
/// Allocations whose place changes with one operation because the leader has.
const CHANGED_MAX: u32 = 64;

/// The experts of one segment.
#[derive(Debug)]
pub(crate) struct Experts {
    room: u64,
    /// Time: 1/65536 of a room's worth of uses; and the rest of the division.
    now: u64,
    rest: u64,
    uses: u64,
    seats: Vec<Seat>,
    living: u64,
    /// Pages of the living, and of the sampled ones among them.
    pages: u64,
    sampled_pages: u64,
    /// The line of [`SAMPLED`]; it only rises.
    thinness: usize,
    /// Recency first, then the frequencies.
    samples: [Sample; 1 + HALF_LIVES.len()],
    leader: usize,
    aged: u64,
    /// The next slot whose place may have to change, and how many may in this operation.
    changed: usize,
    changes_left: u32,
}

/// What is known of an allocation.
#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    key: Option<Key>,
    pages: u64,
    sampled: bool,
    scores: [u64; HALF_LIVES.len()],
}

impl Experts {
    pub(crate) fn new(room: u64) -> Experts {
        Experts {
            room,
            now: 0,
            rest: 0,
            uses: 0,
            seats: Vec::new(),
            living: 0,
            pages: 0,
            sampled_pages: 0,
            thinness: 0,
            samples: Default::default(),
            leader: 0,
            aged: 0,
            changed: usize::MAX,
            changes_left: 0,
        }
    }

    /// The room changes.
    pub(crate) fn resize(&mut self, room: u64) {
        self.room = room;
    }

    /// A MakeResident.
    pub(crate) fn used(&mut self, list: &[Item]) {
        self.changes_left = CHANGED_MAX;
        for item in list {
            self.use_one(item);
        }
        if self.now - self.aged >= WINDOW_ROOMS << 16 {
            self.aged = self.now;
            self.elect();
            self.samples.iter_mut().for_each(Sample::age);
        }
    }

    /// Work has written an allocation.
    pub(crate) fn written(&mut self, key: Key) {
        if self.seat(key).is_some_and(|seat| seat.sampled) {
            self.samples.iter_mut().for_each(|sample| sample.written(key.slot()));
        }
    }

    /// Its content is void.
    pub(crate) fn dropped(&mut self, key: Key) {
        if self.seat(key).is_some_and(|seat| seat.sampled) {
            self.samples.iter_mut().for_each(|sample| sample.dropped(key.slot()));
        }
    }

    /// It is gone.
    pub(crate) fn forget(&mut self, key: Key) {
        if self.seat(key).is_some() {
            self.vacate(key.slot());
        }
    }

    /// Where an allocation stands by the leader's order, larger goes later; `None`: by the time of its last use.
    pub(crate) fn worth(&self, key: Key) -> Option<u64> {
        let frequency = self.leader.checked_sub(1)?;
        Some(self.seat(key)?.scores[frequency])
    }

    /// Which expert leads: 0 is recency, then frequencies with half-lives of 16 and of 256 rooms.
    pub(crate) fn leader(&self) -> usize {
        self.leader
    }

    /// An allocation whose place has changed because the leader has.
    pub(crate) fn next_changed(&mut self) -> Option<Key> {
        while self.changes_left > 0 && self.changed < self.seats.len() {
            self.changes_left -= 1;
            self.changed += 1;
            if let Some(key) = self.seats[self.changed - 1].key {
                return Some(key);
            }
        }
        None
    }

    /// # Errors
    /// The sum that is not what its definition says.
    pub(crate) fn check(&self) -> Result<(), Broken> {
        let seats = || self.seats.iter().filter(|seat| seat.key.is_some());
        let pages: u64 = seats().map(|seat| seat.pages).sum();
        let sampled: u64 = seats().filter(|seat| seat.sampled).map(|seat| seat.pages).sum();
        if (seats().count() as u64, pages, sampled) != (self.living, self.pages, self.sampled_pages) {
            return Err(Broken(format!(
                "{pages} pages live and {sampled} are sampled, and {} and {} counted",
                self.pages, self.sampled_pages
            )));
        }
        for (held, sum) in self.samples.iter().map(Sample::sums) {
            if held != sum {
                return Err(Broken(format!("a sample holds {sum} pages, and {held} counted")));
            }
        }
        Ok(())
    }

    fn seat(&self, key: Key) -> Option<&Seat> {
        self.seats.get(key.slot() as usize).filter(|seat| seat.key == Some(key))
    }

    fn use_one(&mut self, item: &Item) {
        self.uses += 1;
        self.rest += item.pages << 16;
        let room = self.room.max(1);
        self.now += self.rest / room;
        self.rest %= room;
        let first = self.admit(item);
        let seat = &mut self.seats[item.key.slot() as usize];
        for (score, half_life) in seat.scores.iter_mut().zip(HALF_LIVES) {
            *score = scored((!first).then_some(*score), self.now >> half_life);
        }
        let Seat { sampled, scores, .. } = *seat;
        if !sampled {
            return;
        }
        let room = self.sample_room();
        let worths = std::iter::once(self.uses).chain(scores);
        for (sample, worth) in self.samples.iter_mut().zip(worths) {
            sample.used(item.key.slot(), item.pages, item.has_content, worth, room);
        }
    }

    /// The sample's share of the room.
    fn sample_room(&self) -> u64 {
        let share = u128::from(self.room) * u128::from(self.sampled_pages) / u128::from(self.pages.max(1));
        // CAST: no more than the room.
        share as u64
    }

    /// Gives a key its seat; an older tenant is gone. Whether it is new.
    fn admit(&mut self, item: &Item) -> bool {
        let (key, at) = (item.key, item.key.slot() as usize);
        if at >= self.seats.len() {
            self.seats.resize(at + 1, Seat::default());
        }
        if self.seats[at].key == Some(key) {
            return false;
        }
        self.vacate(key.slot());
        self.living += 1;
        if SAMPLED.get(self.thinness + 1).is_some_and(|(most, _)| self.living > *most) {
            self.thin();
        }
        let sampled = self.samples_key(key);
        self.pages += item.pages;
        self.sampled_pages += if sampled { item.pages } else { 0 };
        self.seats[at] = Seat { key: Some(key), pages: item.pages, sampled, ..Seat::default() };
        true
    }

    fn vacate(&mut self, slot: u32) {
        let seat = std::mem::take(&mut self.seats[slot as usize]);
        if seat.key.is_none() {
            return;
        }
        self.living -= 1;
        self.pages -= seat.pages;
        if seat.sampled {
            self.sampled_pages -= seat.pages;
            self.samples.iter_mut().for_each(|sample| sample.forget(slot));
        }
    }

    /// From now on fewer are sampled.
    fn thin(&mut self) {
        self.thinness += 1;
        for slot in 0..self.seats.len() {
            let Some(key) = self.seats[slot].key else { continue };
            if self.seats[slot].sampled && !self.samples_key(key) {
                self.seats[slot].sampled = false;
                self.sampled_pages -= self.seats[slot].pages;
                self.samples.iter_mut().for_each(|sample| sample.forget(key.slot()));
            }
        }
    }

    fn samples_key(&self, key: Key) -> bool {
        let name = u64::from(key.slot()) << 32 | u64::from(key.generation());
        (name ^ name >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & (SAMPLED[self.thinness].1 - 1) == 0
    }

    /// The expert that has copied the least leads, if that is clearly less than the present one has.
    fn elect(&mut self) {
        let copied = |at: usize| self.samples[at].copied();
        let best = (0..self.samples.len()).min_by_key(|&at| copied(at)).expect("there are experts");
        let present = copied(self.leader);
        if copied(best) < present - present / MARGIN {
            self.leader = best;
            self.changed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_drifts_is_found() {
        let mut experts = Experts::new(8);
        let item = |slot| Item { key: Key::new(slot, 0), pages: 3, kind: 0, has_content: true };
        experts.used(&[item(0), item(1)]);
        assert_eq!(experts.check(), Ok(()));
        experts.sampled_pages += 1;
        assert!(experts.check().is_err(), "the sampled");
        experts.sampled_pages -= 1;
        experts.seats[0].pages += 1;
        assert!(experts.check().is_err(), "the living");
    }
}
