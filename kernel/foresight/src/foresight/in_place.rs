//! The third choice: content that an operation only reads stays outside, and the operation reads it there.
//!
//! # What it costs
//! An allocation of `s` pages is absent, and `l` pages of room are lacking for it. Where it is *brought*, the link carries `s` pages, and the
//! first victims of the order lose `l`. Where it is *read in place*, the link carries `s` pages, too, and each operation that
//! names it carries them again, until it is brought. So
//!
//! | its next use | brought | read in place |
//! |---|---|---|
//! | behind those of the victims | `s`, and then `l` for the victims; its own pages are the next to go | `s` |
//! | before those of the victims | `s`, and it is there | `s`, and then `s` again |
//! | never | `s`, and then `l` for the victims | `s` |
//!
//! It is read in place where its own place in the order is before those of the victims that make the room: it would be the next
//! victim itself. Where most of its room is free it is brought, because it may stay there at no cost.
//!
//! # When it is not
//! - The operation that this one repeats wrote it, or none is known: what is written outside costs the link twice, and nothing is saved.
//! - Of it or of the victims nothing is foreseen.
//! - The account forbids it: a page read in place is one that LRU has, or will have, in the segment.

use super::Foresight;
use crate::event::Key;
use crate::place;

/// Victims that are looked at for one list.
const LOOKED_MAX: usize = 256;

/// An absent allocation that an operation only reads.
struct Candidate {
    place: u64,
    key: Key,
    pages: u64,
}

impl Foresight {
    /// Which of `absent` the latest operation had better read where they lie: allocations that it names and that have no page in the segment,
    /// but have content. `lacking`: how many pages are not free for what the operation's list lacks. `order`: what may be lazily evicted,
    /// the first of it first, without what the list names.
    #[must_use]
    pub fn in_place(&self, absent: &[Key], lacking: u64, order: impl IntoIterator<Item = Key>) -> Vec<Key> {
        let mut chosen = Vec::new();
        let mut candidates: Vec<Candidate> = absent.iter().filter_map(|key| self.candidate(*key)).collect();
        candidates.sort_unstable_by_key(|candidate| (candidate.place, candidate.key));
        let mut victims = order.into_iter().take(LOOKED_MAX).map(|key| {
            let resident = self.subjects.get(key).map_or(0, |subject| subject.resident);
            (self.place_of(key, 0).0, resident)
        });
        let (mut lacking, mut spare, mut next) = (lacking, self.account.spare(), victims.next());
        for Candidate { place, key, pages } in candidates {
            // What goes before it makes room for it, and does not count twice.
            while let Some((_, resident)) = next.filter(|(victim, _)| *victim < place && lacking > 0) {
                lacking = lacking.saturating_sub(resident);
                next = victims.next();
            }
            let foreseen = next.is_some_and(|(victim, _)| !place::is_unknown(victim));
            if !foreseen || 2 * lacking <= pages || pages > spare {
                continue;
            }
            (lacking, spare) = (lacking.saturating_sub(pages), spare - pages);
            chosen.push(key);
        }
        chosen
    }

    fn candidate(&self, key: Key) -> Option<Candidate> {
        let subject = self.subjects.get(key)?;
        let absent = subject.here && subject.resident == 0 && subject.has_content;
        let place = self.recall.place(key, false, subject.pages);
        let foreseen = absent && self.recall.only_reads(key) && !place::is_unknown(place);
        foreseen.then_some(Candidate { place, key, pages: subject.pages })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ended, Event, Foresight, Item, Key, Moved};

    const PAGES: u64 = 10;

    fn key(slot: u32) -> Key {
        Key::new(slot, 0)
    }

    /// Of four contents of 10 pages, in a room for three, three are used twice in a round, and the fourth once.
    const ROUND: [u32; 7] = [0, 1, 2, 0, 1, 2, 3];

    /// Rounds, one operation for each use.
    struct Scan {
        foresight: Foresight,
        resident: Vec<u32>,
    }

    impl Scan {
        /// After four rounds, and in the fifth up to the operation that names 3, which is absent.
        fn new(written: bool) -> Scan {
            let mut scan = Scan { foresight: Foresight::new(3 * PAGES), resident: Vec::new() };
            for _ in 0..4 {
                for slot in ROUND {
                    scan.used(slot);
                    scan.comes(slot);
                    scan.ended(slot, written);
                }
            }
            for slot in &ROUND[..6] {
                let slot = *slot;
                scan.used(slot);
                scan.comes(slot);
                scan.ended(slot, written);
            }
            scan.used(3);
            scan
        }

        fn used(&mut self, slot: u32) {
            let item = Item { key: key(slot), pages: PAGES, kind: 0, has_content: true };
            self.foresight.hear(Event::Used { process: 1, device: 1, list: &[item] });
            while self.foresight.changed().is_some() {}
        }

        fn comes(&mut self, slot: u32) {
            if self.resident.contains(&slot) {
                return;
            }
            if self.resident.len() == 3 {
                let gone = self.resident.pop().expect("three are there");
                self.moved(gone, 0, 0);
            }
            self.resident.push(slot);
            self.moved(slot, PAGES, PAGES);
        }

        fn moved(&mut self, slot: u32, resident: u64, paged_in: u64) {
            self.foresight.hear(Event::Moved(Moved { key: key(slot), resident, dirty: 0, paged_in, paged_out: 0 }));
        }

        fn ended(&mut self, slot: u32, written: bool) {
            self.foresight.hear(Event::Ended { process: 1, list: &[Ended { key: key(slot), written }] });
            while self.foresight.changed().is_some() {}
        }

        /// What of 3 is to be read in place, where so many pages are lacking.
        fn asked(&self, lacking: u64) -> Vec<Key> {
            let mut order: Vec<u32> = self.resident.iter().copied().filter(|slot| *slot != 3).collect();
            order.sort_by_key(|slot| self.foresight.place_of(key(*slot), 0));
            self.foresight.in_place(&[key(3)], lacking, order.into_iter().map(key))
        }
    }

    #[test]
    fn what_would_be_the_next_victim_itself_is_read_in_place() {
        let scan = Scan::new(false);
        assert!(!scan.resident.contains(&3), "{:?}", scan.resident);
        assert_eq!(scan.asked(PAGES), [key(3)]);
        assert_eq!(scan.asked(PAGES / 2), [], "where half of its room is free it stays there at no cost");
        assert_eq!(scan.asked(PAGES / 2 + 1), [key(3)]);
        assert_eq!(scan.asked(0), []);
        let nothing_foreseen = scan.foresight.in_place(&[key(3)], PAGES, [Key::new(9, 0)]);
        assert_eq!(nothing_foreseen, [], "of the victim nothing is known");
    }

    #[test]
    fn what_the_operation_writes_or_uses_again_first_is_brought() {
        assert_eq!(Scan::new(true).asked(PAGES), [], "its twin wrote");
        let mut scan = Scan::new(false);
        scan.ended(3, false);
        scan.used(0);
        assert_eq!(scan.asked(PAGES), [], "3 is not on the latest list");
    }

    #[test]
    fn what_is_read_in_place_counts_for_the_account() {
        let mut scan = Scan::new(false);
        let before = scan.foresight.report();
        let spare = scan.foresight.account.spare();
        scan.foresight.hear(Event::InPlace { key: key(3), read: PAGES, written: 2 });
        let after = scan.foresight.report();
        assert_eq!((after.in_place.paged_in, after.in_place.paged_out), (PAGES, 2));
        assert_eq!((after.actual, after.lru), (before.actual, before.lru));
        assert_eq!(scan.foresight.account.spare(), spare - PAGES - 2, "the link has carried it");
        scan.foresight.hear(Event::InPlace { key: key(3), read: spare, written: 0 });
        assert_eq!(scan.asked(PAGES), [], "the account forbids more");
        assert_eq!(scan.foresight.check(), Ok(()));
    }
}
