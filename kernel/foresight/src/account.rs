//! Never worse than LRU: the account of what deviating from LRU has cost, and may yet cost.
//!
//! # The account
//! `L` is what the ghost's LRU has copied, `A` what was really copied. Of an allocation the truth has the pages `[0, r)`, of these `[0, q)`
//! dirty; the ghost has `[0, g)`, of these `[0, γ)` dirty. The *potential* is what the truth may yet have to copy and the ghost has not:
//!
//! ```text
//! Φ = Σ max(0, g − r)      the ghost would hit, the truth fetches
//!   + Σ max(0, q − γ)      the ghost has copied these pages out; the truth may still have to
//! ```
//!
//! # The rule
//! A victim that the ghost still has is taken, and a page is copied ahead, only as far as afterwards
//!
//! ```text
//! A + Φ ≤ L + L/100 + D                                                             (*)
//! ```
//! `D` is the *loan*, 0 while nothing repeats. Where (*) forbids the victim, the account *follows* LRU: it names a page that the truth has and
//! the ghost has not, and of these pages the one whose next use the forecast puts last.
//!
//! # Why it holds
//! Let the ghost take each operation first, then the truth. Following, `A + Φ − L` does not grow:
//! 1. The ghost drops a page: the first sum does not grow. If the page was dirty, L grows by 1 and the second sum by at most 1. The ghost
//!    fetches a page: L grows by 1, and Φ by 1 if the truth lacks it. (A page without content costs the ghost nothing, and the truth
//!    nothing at 2.)
//! 2. The truth fetches a page that it needs: the ghost has it by now, so A grows by 1 and Φ falls by 1.
//! 3. The truth needs room: its pages and the needed ones are more than the room, the ghost's are not and have all the needed ones. So there
//!    is a page that the truth has, the ghost has not, and the operation does not need. It goes: the first sum stays; if it
//!    is dirty, A grows by 1 and the second sum falls by 1, because its place is at or above g, and g is at or above γ.
//! 4. A write makes the allocation whole and dirty on both sides: both terms are 0. A death ends both terms.
//!
//! Where the truth uses a page outside instead (`in_place`), A grows by 1 and Φ does not fall: that is a step of the next sort.
//!
//! Every other step is taken with (*) afterwards. Φ is never negative, so `A ≤ L + L/100 + D` at every time.
//! The proof leaves out what tests measure instead: victims that can only go whole, other segments, pins, locks, offers, and a page that VidMm
//! does not let go because it stands in another tier or priority.
//!
//! # The loan
//! (*) alone lends 1 % of L, and on a scan each page kept pays only after a round: the second step would gain little. So while all streams
//! repeat, `D` is up to two rooms, and never more than L (`loan`). When what was foreseen does not come, D is what is owed then, and (*)
//! holds without a loan until that is paid. So at the end of any run that repeats throughout, or that never repeats, A is at most
//! 1 % above L.

use std::collections::BTreeSet;

use crate::event::{Item, Key, Moved, Place, Victim};
use crate::ghost::{Ghost, Holding};
use crate::loan::Loan;
use crate::report::{Flow, Loss};

/// Allocations of the surplus that are looked at for one that may go.
const LOOKED_MAX: usize = 64;

/// The account of one segment.
#[derive(Debug)]
pub(crate) struct Account {
    ghost: Ghost,
    marks: Vec<Mark>,
    /// A: what was really copied.
    actual: Flow,
    /// Part of A: what work used where it lies, outside.
    in_place: Flow,
    /// Φ: what the truth may yet have to copy.
    potential: u64,
    loan: Loan,
    /// Operations as foreseen since a round began, and what the truth and the ghost had copied then.
    round: (u64, u64, u64),
    /// Of what is on no list: the allocations of which the truth has more than the ghost, by place.
    surplus: BTreeSet<(Place, Key)>,
    /// Evicts so far.
    clock: u64,
    /// Slots whose terms one event changes; kept for its room.
    touched: Vec<u32>,
    taking: Option<taking::Taking>,
    /// Pages taken although the ghost has them.
    deviated: u64,
    /// Pages copied out whose allocation died before they came back.
    unread: u64,
    /// Pages taken because the account forbade to deviate.
    followed: u64,
}

/// What the truth has of an allocation, and its part in the sums.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    key: Option<Key>,
    resident: u64,
    dirty: u64,
    /// Pages copied out that have not come back.
    outside: u64,
    /// Its terms of Φ.
    term: u64,
    /// Its place among the victims, and when it became one.
    place: Place,
    since: u64,
    /// Whether it stands in `surplus`, with that place.
    listed: bool,
    /// It has just become a subject, and the ghost was charged for its content: pages that turn out to be there already were no copies for the ghost either.
    arriving: bool,
}

impl Account {
    pub(crate) fn new(room: u64) -> Account {
        Account {
            ghost: Ghost::new(room),
            marks: Vec::new(),
            actual: Flow::default(),
            in_place: Flow::default(),
            potential: 0,
            loan: Loan::default(),
            round: (0, 0, 0),
            surplus: BTreeSet::new(),
            clock: 0,
            touched: Vec::new(),
            taking: None,
            deviated: 0,
            unread: 0,
            followed: 0,
        }
    }

    /// The room.
    pub(crate) fn room(&self) -> u64 {
        self.ghost.room()
    }

    /// The room changes.
    pub(crate) fn resize(&mut self, room: u64) {
        self.touched.clear();
        self.ghost.resize(room, &mut self.touched);
        self.settle_touched();
    }

    /// A MakeResident: the ghost takes it before the truth does.
    pub(crate) fn used(&mut self, list: &[Item]) {
        self.touched.clear();
        for item in list {
            self.admit(item);
        }
        self.ghost.used(list, &mut self.touched);
        self.settle_touched();
    }

    /// An Evict of one allocation. Answers when it became a victim, on a clock of Evicts.
    pub(crate) fn ended(&mut self, key: Key, written: bool) -> u64 {
        self.clock += 1;
        if self.ghost.knows(key) {
            self.ghost.ended(key, written);
            let mark = &mut self.marks[key.slot() as usize];
            (mark.since, mark.arriving) = (self.clock, false);
            if written {
                mark.dirty = mark.resident;
            }
            self.settle(key.slot());
            // Lists of suspended processes together may be more than the room.
            if self.ghost.is_over() {
                self.resize(self.ghost.room());
            }
        }
        self.clock
    }

    /// When it became a victim last, on the clock of Evicts.
    pub(crate) fn since(&self, key: Key) -> u64 {
        self.marks.get(key.slot() as usize).filter(|mark| mark.key == Some(key)).map_or(0, |mark| mark.since)
    }

    /// It has another place.
    pub(crate) fn placed(&mut self, key: Key, place: Place) {
        let Some(mark) = self.marks.get_mut(key.slot() as usize).filter(|mark| mark.key == Some(key)) else { return };
        let before = std::mem::replace(&mut mark.place, place);
        if mark.listed && before != place {
            self.surplus.remove(&(before, key));
            self.surplus.insert((place, key));
        }
    }

    /// What the truth has of it has changed.
    pub(crate) fn moved(&mut self, moved: &Moved) {
        self.actual.paged_in += moved.paged_in;
        self.actual.paged_out += moved.paged_out;
        let slot = moved.key.slot();
        let Some(mark) = self.marks.get_mut(slot as usize).filter(|mark| mark.key == Some(moved.key)) else { return };
        if mark.arriving && moved.resident > mark.resident {
            self.ghost.refund((moved.resident - mark.resident).saturating_sub(moved.paged_in));
            mark.arriving = false;
        }
        let gone = mark.resident.saturating_sub(moved.resident);
        (mark.resident, mark.dirty) = (moved.resident, moved.dirty);
        mark.outside = (mark.outside + moved.paged_out).saturating_sub(moved.paged_in);
        self.settle(slot);
        self.count(moved.key, gone);
    }

    /// Its content is void: neither side copies it out.
    pub(crate) fn dropped(&mut self, key: Key) {
        if self.ghost.knows(key) {
            self.ghost.cleaned(key);
            self.marks[key.slot() as usize].dirty = 0;
            self.settle(key.slot());
        }
    }

    /// It has died: what was copied out and has not come back was copied for nothing.
    pub(crate) fn died(&mut self, key: Key) {
        if self.ghost.knows(key) {
            self.unread += self.marks[key.slot() as usize].outside;
            self.forget(key);
        }
    }

    /// It is no subject until it is used again, or is gone: it leaves both sides.
    pub(crate) fn forget(&mut self, key: Key) {
        if self.ghost.knows(key) {
            self.ghost.forget(key);
            self.vacate(key.slot());
        }
    }

    /// What is foreseen from now on would have been right for so many operations.
    pub(crate) fn agreed(&mut self, operations: u64) {
        self.loan.agreed(operations);
    }

    /// An operation began: after how many operations the streams repeat, if all of them do and it came as foreseen.
    pub(crate) fn trust(&mut self, repeats_after: Option<u64>) {
        let owes = self.over() > 0;
        let copied = (self.carried(), self.ghost.flow().moved());
        match repeats_after {
            Some(round) if self.round.0 < round => {
                self.round.0 += 1;
                self.loan.proved(round, owes);
            }
            // A whole round as foreseen that copied more than LRU did: the forecast is right, and of no use.
            Some(_) if owes && copied.0 - self.round.1 > copied.1 - self.round.2 => {
                self.loan.disproved(true);
                self.round = (0, copied.0, copied.1);
            }
            Some(round) => {
                self.loan.proved(round, owes);
                self.round = (0, copied.0, copied.1);
            }
            None => {
                self.loan.disproved(owes);
                self.round = (0, copied.0, copied.1);
            }
        }
    }

    /// Which pages go when the forecast says `first` and so many are needed.
    pub(crate) fn victim(&mut self, first: Key, pages: u64, may_go: impl Fn(Key) -> bool) -> Victim {
        let planned = self.deviation(first, pages);
        if planned.pages > 0 {
            self.taking = Some(taking::Taking {
                key: first,
                free: planned.pages - planned.ghosts,
                pages: planned.pages,
                follows: false,
            });
            return Victim::Planned { pages: planned.pages };
        }
        let surplus = self.surplus.iter().map(|&(_, key)| key).take(LOOKED_MAX);
        let other = surplus.into_iter().find(|&key| key != first && may_go(key));
        let Some(key) = other else {
            // Nothing that LRU would have taken may go: pins, lists and whole victims are no subject of the rule.
            self.taking = None;
            return Victim::Planned { pages };
        };
        let slot = key.slot();
        let over = self.marks[slot as usize].resident - self.ghost.holding(slot).resident;
        let pages = pages.min(over);
        self.taking = Some(taking::Taking { key, free: 0, pages, follows: true });
        Victim::Follow { key, pages }
    }

    /// How many pages may be copied ahead of need now, each of which costs one until it pays.
    pub(crate) fn spare(&self) -> u64 {
        (self.allowance() + self.lent()).saturating_sub(self.carried() + self.potential)
    }

    /// Whether a loan stands: what all streams do is known.
    pub(crate) fn lends(&self) -> bool {
        self.lent() > 0
    }

    /// What was really copied.
    pub(crate) fn actual(&self) -> Flow {
        self.actual
    }

    /// What LRU would have copied.
    pub(crate) fn lru(&self) -> Flow {
        self.ghost.flow()
    }

    /// Pages that were copied out for nothing: their allocation died before they came back.
    pub(crate) fn unread(&self) -> u64 {
        self.unread
    }

    /// The account in numbers.
    pub(crate) fn loss(&self) -> Loss {
        Loss {
            potential: self.potential,
            lent: self.lent(),
            owed: if self.loan.is_lost() { self.over() } else { 0 },
            halvings: self.loan.halvings(),
            deviated: self.deviated,
            followed: self.followed,
        }
    }

    /// L and its hundredth part.
    fn allowance(&self) -> u64 {
        let lru = self.ghost.flow().moved();
        lru + lru / 100
    }

    /// How far the truth, with what it may yet have to copy, is beyond that.
    fn over(&self) -> u64 {
        (self.carried() + self.potential).saturating_sub(self.allowance())
    }

    /// The loan that stands now.
    fn lent(&self) -> u64 {
        self.loan.lent(self.ghost.room(), self.ghost.flow().moved())
    }

    fn admit(&mut self, item: &Item) {
        let key = item.key;
        let at = key.slot() as usize;
        if at >= self.marks.len() {
            self.marks.resize(at + 1, Mark::default());
        }
        if self.marks[at].key != Some(key) {
            self.vacate(key.slot());
            self.marks[at] = Mark { key: Some(key), arriving: item.has_content, ..Mark::default() };
        }
    }

    fn vacate(&mut self, slot: u32) {
        let mark = std::mem::take(&mut self.marks[slot as usize]);
        self.potential -= mark.term;
        if let (true, Some(key)) = (mark.listed, mark.key) {
            self.surplus.remove(&(mark.place, key));
        }
    }

    fn settle_touched(&mut self) {
        for at in 0..self.touched.len() {
            self.settle(self.touched[at]);
        }
    }

    /// Brings a slot's part in the sums up to date.
    fn settle(&mut self, slot: u32) {
        let holding = self.ghost.holding(slot);
        let Some(mark) = self.marks.get_mut(slot as usize) else { return };
        let Some(key) = mark.key else { return };
        let now = term(mark, holding);
        self.potential = self.potential - mark.term + now;
        mark.term = now;
        let surplus = mark.resident > holding.resident && holding.idle;
        if surplus != mark.listed {
            mark.listed = surplus;
            match surplus {
                true => self.surplus.insert((mark.place, key)),
                false => self.surplus.remove(&(mark.place, key)),
            };
        }
    }
}

/// An allocation's part in Φ.
fn term(mark: &Mark, holding: Holding) -> u64 {
    holding.resident.saturating_sub(mark.resident) + mark.dirty.saturating_sub(holding.dirty)
}

mod in_place;
mod sums;
mod taking;
#[cfg(test)]
mod tests;
