//! The account against orders of victims that are as bad as they can be: a page-exact memory drives it alone and obeys its answers.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::Account;
use crate::event::{Item, Key, Moved, Place, Victim};
use crate::loan::ROOMS_MAX;
use crate::report::Flow;

/// How an order of victims is made: from the allocation, the time of its Evict, and a number that the test draws.
type Order = fn(u32, u64, u64) -> u64;

/// A memory in pages; the truth of the account.
struct Memory {
    account: Account,
    room: u64,
    held: u64,
    all: Vec<Content>,
    order: BTreeSet<(Place, u32)>,
    rule: Order,
    drawn: u64,
    /// The loan that the bound allows at most.
    lent_max: u64,
}

#[derive(Clone, Copy, Default)]
struct Content {
    pages: u64,
    resident: u64,
    dirty: u64,
    exists: bool,
    place: Place,
    generation: u32,
    used: bool,
}

impl Memory {
    fn new(room: u64, sizes: &[u64], rule: Order) -> Memory {
        let all = sizes.iter().map(|&pages| Content { pages, exists: pages % 3 == 0, ..Content::default() }).collect();
        Memory { account: Account::new(room), room, held: 0, all, order: BTreeSet::new(), rule, drawn: 1, lent_max: 0 }
    }

    fn key(&self, slot: u32) -> Key {
        Key::new(slot, self.all[slot as usize].generation)
    }

    fn draw(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.drawn >> 33
    }

    /// One operation on a set; bit `i` of `written` says whether the `i`-th is written. What does not fit is left out.
    fn operate(&mut self, set: &BTreeSet<u32>, written: u32, trusted: Option<u64>) {
        let mut left = self.room;
        let fits = |&&slot: &&u32| {
            let pages = self.all[slot as usize].pages;
            let fits = pages <= left;
            left -= if fits { pages } else { 0 };
            fits
        };
        let set: Vec<u32> = set.iter().filter(fits).copied().collect();
        self.account.trust(trusted);
        let list: Vec<Item> = set.iter().map(|&slot| self.item(slot)).collect();
        self.account.used(&list);
        self.judge();
        for &slot in &set {
            self.order.remove(&(self.all[slot as usize].place, slot));
            self.all[slot as usize].used = true;
        }
        let absent: u64 =
            set.iter().map(|&slot| self.all[slot as usize]).map(|content| content.pages - content.resident).sum();
        while self.room - self.held < absent {
            self.make_room(absent - (self.room - self.held));
        }
        for &slot in &set {
            self.fetch(slot);
        }
        for (at, &slot) in set.iter().enumerate() {
            self.end(slot, written >> at & 1 == 1);
        }
        self.account.check().unwrap();
    }

    fn item(&self, slot: u32) -> Item {
        let Content { pages, exists, .. } = self.all[slot as usize];
        Item { key: self.key(slot), pages, kind: 0, has_content: exists }
    }

    fn make_room(&mut self, wanted: u64) {
        let &(_, first) = self.order.first().expect("the set fits, so something else is here");
        let asked = wanted.min(self.all[first as usize].resident);
        let (key, pages) = match self.account.victim(self.key(first), asked, |_| true) {
            Victim::Planned { pages } => (self.key(first), pages),
            Victim::Follow { key, pages } => (key, pages),
        };
        assert!(pages > 0 && pages <= asked, "{pages} pages of {asked}");
        let slot = key.slot();
        let content = &mut self.all[slot as usize];
        assert!(self.order.contains(&(content.place, slot)), "only what is on no list goes");
        content.resident -= pages;
        let out = content.dirty.saturating_sub(content.resident);
        content.dirty -= out;
        self.held -= pages;
        if content.resident == 0 {
            self.order.remove(&(content.place, slot));
        }
        self.tell(slot, 0, out);
    }

    fn fetch(&mut self, slot: u32) {
        let content = &mut self.all[slot as usize];
        let missing = content.pages - content.resident;
        content.resident += missing;
        self.held += missing;
        let paged_in = if content.exists { missing } else { 0 };
        if missing > 0 {
            self.tell(slot, paged_in, 0);
        }
    }

    fn tell(&mut self, slot: u32, paged_in: u64, paged_out: u64) {
        let Content { resident, dirty, .. } = self.all[slot as usize];
        self.account.moved(&Moved { key: self.key(slot), resident, dirty, paged_in, paged_out });
        self.judge();
    }

    fn end(&mut self, slot: u32, written: bool) {
        let key = self.key(slot);
        let since = self.account.ended(key, written);
        let drawn = self.draw();
        let place = Place((self.rule)(slot, since, drawn));
        self.account.placed(key, place);
        let content = &mut self.all[slot as usize];
        if written {
            (content.dirty, content.exists) = (content.resident, true);
        }
        content.place = place;
        self.order.insert((place, slot));
        self.judge();
    }

    /// Its owner destroys it; the slot's next tenant is as large.
    fn destroy(&mut self, slot: u32) {
        self.account.died(self.key(slot));
        let content = &mut self.all[slot as usize];
        self.order.remove(&(content.place, slot));
        self.held -= content.resident;
        let pages = content.pages;
        *content = Content { pages, generation: content.generation + 1, ..Content::default() };
        self.judge();
    }

    fn judge(&self) {
        let (actual, lru) = (self.account.actual().moved(), self.account.lru().moved());
        let bound = lru + lru / 100 + self.lent_max.min(lru);
        assert!(actual <= bound, "{actual} pages were copied, LRU copies {lru}");
    }
}

/// The times of the Evicts: LRU.
const RECENCY: Order = |_, since, _| since;
/// What was used last goes first.
const LAST: Order = |_, since, _| u64::MAX - since;
/// In any order.
const ANY: Order = |_, _, drawn| drawn;
/// The same ones always, whatever is used.
const STUBBORN: Order = |slot, _, _| u64::from(slot);

const ORDERS: [Order; 4] = [RECENCY, LAST, ANY, STUBBORN];

/// An operation's set, what it writes, what the forecast says (0 and 1: nothing, else that all repeats), and a death.
type Step = (BTreeSet<u32>, u32, u8, Option<u32>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        (prop::collection::btree_set(0u32..12, 1..5), any::<u32>(), 0u8..12, prop::option::weighted(0.1, 0u32..12));
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_order_moves_more_than_a_hundredth_above_lru(
        room in 4u64..60,
        sizes in prop::collection::vec(1u64..20, 12),
        steps in steps(),
        order in 0usize..4,
    ) {
        let mut memory = Memory::new(room, &sizes, ORDERS[order]);
        for (set, written, _, death) in &steps {
            memory.operate(set, *written, None);
            death.iter().for_each(|&slot| memory.destroy(slot));
        }
    }

    #[test]
    fn a_false_forecast_costs_at_most_its_loan(
        room in 4u64..60,
        sizes in prop::collection::vec(1u64..20, 12),
        steps in steps(),
        order in 0usize..4,
    ) {
        let mut memory = Memory::new(room, &sizes, ORDERS[order]);
        memory.lent_max = ROOMS_MAX * room;
        for (set, written, forecast, death) in &steps {
            memory.operate(set, *written, (*forecast > 1).then_some(u64::from(*forecast)));
            death.iter().for_each(|&slot| memory.destroy(slot));
        }
    }

    #[test]
    fn with_lru_s_order_the_truth_is_the_ghost(
        room in 4u64..60,
        sizes in prop::collection::vec(1u64..20, 12),
        steps in steps(),
    ) {
        let mut memory = Memory::new(room, &sizes, RECENCY);
        for (set, written, _, death) in &steps {
            memory.operate(set, *written, None);
            death.iter().for_each(|&slot| memory.destroy(slot));
            let account = &memory.account;
            prop_assert_eq!((account.actual(), account.loss().potential), (account.lru(), 0));
            prop_assert_eq!((account.loss().deviated, account.loss().followed), (0, 0));
        }
    }
}

/// A scan of `count` allocations of `pages` pages each, again and again.
fn scan(memory: &mut Memory, rounds: u64, trusted_from: u64) {
    let count = memory.all.len() as u32;
    for round in 0..rounds {
        for slot in 0..count {
            let repeats = (round >= trusted_from).then_some(u64::from(count));
            memory.operate(&BTreeSet::from([slot]), 0, repeats);
        }
    }
}

#[test]
fn a_loan_keeps_the_stable_part_of_a_scan_from_the_second_round_on() {
    // 40 allocations of 30 pages in room for 36: LRU brings all in each round, the optimum what does not fit.
    let mut memory = Memory::new(1080, &[30; 40], LAST);
    memory.lent_max = 2160;
    scan(&mut memory, 1, 1);
    assert_eq!(memory.account.actual(), Flow { paged_in: 1200, paged_out: 0 }, "the first round brings everything");
    let mut rounds = [0; 3];
    for round in &mut rounds {
        let before = memory.account.actual().paged_in;
        scan(&mut memory, 1, 0);
        *round = memory.account.actual().paged_in - before;
    }
    assert_eq!(rounds, [210, 120, 120], "what LRU had thrown away as well, then what does not fit");
    assert_eq!((memory.account.lru().paged_in, memory.account.loss().owed), (4 * 1200, 0));
}

#[test]
fn a_lost_loan_is_owed_until_it_is_paid_and_the_next_is_half() {
    let mut memory = Memory::new(270, &[30; 10], LAST);
    memory.lent_max = 540;
    scan(&mut memory, 1, 1);
    // Four operations as foreseen prove the forecast; nothing moves.
    (0..4).for_each(|_| memory.operate(&BTreeSet::from([9]), 0, Some(10)));
    // One operation by the forecast: LRU fetches 30 pages as well; the truth has kept another 30 that LRU still has.
    memory.operate(&BTreeSet::from([0]), 0, Some(10));
    let lent = memory.account.loss();
    assert_eq!((lent.lent, lent.owed), (330, 0), "not more than LRU has copied, although two rooms are 540");
    assert_eq!((lent.potential, lent.deviated), (30, 30));
    memory.account.trust(None);
    let lost = memory.account.loss();
    assert_eq!((lost.lent, lost.owed, lost.halvings), (0, 27, 1), "330 + 30 less 333");
    memory.account.trust(Some(10));
    assert_eq!(memory.account.loss().lent, 0, "nothing is lent while something is owed");
    // LRU fetches the next one of the scan, the truth has it: that pays.
    memory.operate(&BTreeSet::from([1]), 0, Some(10));
    assert_eq!(
        (memory.account.over(), memory.account.spare()),
        (0, 3),
        "1 % of 360 pages, less what is owed of a loan: nothing"
    );
    (2..9).for_each(|slot| memory.operate(&BTreeSet::from([slot]), 0, Some(10)));
    assert_eq!(memory.account.loss().lent, 270, "half of two rooms, after twice the proof");
    scan(&mut memory, 1, 0);
    assert_eq!((memory.account.loss().halvings, memory.account.loss().lent), (0, 540), "a whole round without a slip");
}

#[test]
fn pages_that_were_there_already_are_no_copies_of_the_ghost_s() {
    let mut account = Account::new(100);
    let key = Key::new(0, 0);
    let item = Item { key, pages: 40, kind: 0, has_content: true };
    account.used(&[item]);
    assert_eq!(account.lru().paged_in, 40, "as far as it knows it has to come");
    account.moved(&Moved { key, resident: 40, dirty: 0, paged_in: 10, paged_out: 0 });
    assert_eq!((account.lru().paged_in, account.actual().paged_in), (10, 10));
    account.ended(key, false);
    account.forget(key);
    assert_eq!(account.check(), Ok(()));
    assert_eq!(account.loss().potential, 0);
}

#[test]
fn copies_out_of_what_dies_outside_were_for_nothing() {
    let mut memory = Memory::new(10, &[8, 8, 8], RECENCY);
    memory.operate(&BTreeSet::from([0]), 1, None);
    memory.operate(&BTreeSet::from([1]), 1, None);
    assert_eq!(memory.account.actual(), Flow { paged_in: 0, paged_out: 6 }, "2 of its pages stay");
    memory.operate(&BTreeSet::from([0]), 0, None);
    assert_eq!(memory.account.actual(), Flow { paged_in: 6, paged_out: 12 });
    memory.destroy(0);
    assert_eq!(memory.account.unread(), 0, "its pages had come back");
    memory.destroy(1);
    assert_eq!(memory.account.unread(), 6);
}

#[test]
fn of_what_the_account_may_take_the_first_that_may_go_is_named_and_counts_when_it_has_gone() {
    let mut account = Account::new(20);
    let key = |slot| Key::new(slot, 0);
    let item = |slot| Item { key: key(slot), pages: 10, kind: 0, has_content: true };
    let moved = |slot, resident| Moved { key: key(slot), resident, dirty: 0, paged_in: 0, paged_out: 0 };
    for slot in 0..4 {
        account.used(&[item(slot)]);
        account.moved(&moved(slot, 10));
        let since = account.ended(key(slot), false);
        account.placed(key(slot), Place(since));
    }
    // The ghost has 2 and 3; nothing is lent that would let one of these go.
    assert_eq!(account.victim(key(3), 10, |_| true), Victim::Follow { key: key(0), pages: 10 });
    assert_eq!(account.victim(key(3), 10, |other| other != key(0)), Victim::Follow { key: key(1), pages: 10 });
    assert_eq!(account.loss().followed, 0, "it has not gone");
    account.moved(&moved(1, 6));
    assert_eq!(account.loss().followed, 4);
    account.moved(&moved(1, 0));
    assert_eq!(account.loss().followed, 4, "counted once");
    assert_eq!(account.victim(key(3), 10, |_| false), Victim::Planned { pages: 10 });
}

/// Of two written contents one becomes void: LRU copies out the other alone, so no more may be lost than beside that.
#[test]
fn lru_copies_out_no_void_content() {
    let mut account = Account::new(8);
    let item = |slot, pages| Item { key: Key::new(slot, 0), pages, kind: 0, has_content: false };
    account.used(&[item(0, 4), item(1, 4)]);
    for slot in [0, 1] {
        account.ended(Key::new(slot, 0), true);
        let key = Key::new(slot, 0);
        account.moved(&Moved { key, resident: 4, dirty: 4, paged_in: 0, paged_out: 0 });
    }
    account.dropped(Key::new(0, 0));
    account.used(&[item(2, 8)]);
    assert_eq!(account.lru(), Flow { paged_in: 0, paged_out: 4 });
    account.check().expect("its parts agree");
}
