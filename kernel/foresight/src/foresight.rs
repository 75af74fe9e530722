//! The door: each event goes to the parts that it concerns, in one order; each question is answered by one part.

use crate::account::Account;
use crate::event::{Broken, Ended, Event, Item, Key, Moved, Place, Victim, Wanted};
use crate::experts::Experts;
use crate::front::{Front, View};
use crate::place;
use crate::recall::Recall;
use crate::report::Report;
use crate::subject::Subjects;

/// What is foreseen of one memory segment.
#[derive(Debug)]
pub struct Foresight {
    subjects: Subjects,
    recall: Recall,
    account: Account,
    experts: Experts,
    front: Front,
}

impl Foresight {
    /// A segment in which subjects may hold so many pages. Nothing is known.
    #[must_use]
    pub fn new(pages: u64) -> Foresight {
        Foresight {
            subjects: Subjects::default(),
            recall: Recall::default(),
            account: Account::new(pages),
            experts: Experts::new(pages),
            front: Front::new(pages),
        }
    }

    /// Hears what has happened.
    pub fn hear(&mut self, event: Event<'_>) {
        match event {
            Event::Room { pages } => self.resize(pages),
            Event::Used { process, device: _, list } => self.used(process, list),
            Event::Ended { process: _, list } => self.ended(list),
            Event::Moved(moved) => self.moved(&moved),
            Event::Died { key } => self.died(key),
            Event::Dropped { key } => self.dropped(key),
            Event::Elsewhere { key } => self.elsewhere(key),
            Event::Order { next } => self.recall.order(next),
        }
    }

    /// The place of an allocation among its tier and priority; `since` is the time of the Evict that made it a victim.
    #[must_use]
    pub fn place_of(&self, key: Key, since: u64) -> Place {
        let unknown = self.experts.worth(key).unwrap_or(since);
        Place(place::since(self.recall.place(key), unknown))
    }

    /// An allocation whose place has changed otherwise than by an `Ended` that names it: to be asked until there is none.
    pub fn changed(&mut self) -> Option<Key> {
        let key = self.next_changed()?;
        self.account.placed(key, self.place_of(key, self.account.since(key)));
        Some(key)
    }

    /// Which pages may go when `first` is the first of the order and `pages` are needed; not 0.
    #[must_use]
    pub fn victim(&mut self, first: Key, pages: u64) -> Victim {
        self.account.victim(first, pages)
    }

    /// Work ahead of need of at most so many pages. `order`: what may be lazily evicted, the first of the order first; it is asked only as far
    /// as needed.
    #[must_use]
    pub fn wanted(&mut self, at_most: u64, order: impl IntoIterator<Item = Key>) -> Option<Wanted> {
        let view = View { subjects: &self.subjects, recall: &self.recall, spare: self.account.spare(), at_most };
        self.front.wanted(&view, &mut order.into_iter())
    }

    /// Pages of all the content that a process's lists have named and that lives.
    #[must_use]
    pub fn footprint(&self, process: u32) -> u64 {
        self.subjects.footprint(process)
    }

    /// Planned against actual.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            streams: self.recall.report(),
            actual: self.account.actual(),
            lru: self.account.lru(),
            unread: self.account.unread(),
            loss: self.account.loss(),
            expert: self.experts.leader(),
        }
    }

    /// Whether the parts agree with each other.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), Broken> {
        self.subjects.check()?;
        self.account.check()
    }

    fn next_changed(&mut self) -> Option<Key> {
        while let Some(key) = self.recall.renewed() {
            self.settle(key);
            let Some(subject) = self.subjects.get(key) else { continue };
            if self.recall.place_anew(key, subject.dirty > 0, subject.pages) {
                return Some(key);
            }
        }
        self.experts.next_changed()
    }

    fn used(&mut self, process: u32, list: &[Item]) {
        for item in list {
            self.subjects.used(process, item);
        }
        let surprising = list.iter().any(|item| self.recall.is_surprising(process, item.key));
        self.recall.used(process, list, &self.subjects, self.account.room());
        self.front.used(self.recall.latest(), list, surprising);
        match self.recall.ahead() {
            Some(ahead) => self.front.advance(&ahead),
            None => self.front.halt(),
        }
        if let Some(operations) = self.recall.just_agreed() {
            self.account.agreed(operations);
        }
        self.account.trust(self.recall.repeats_after());
        // The ghost takes an operation before the truth does.
        self.account.used(list);
        if !self.account.lends() {
            self.experts.used(list);
        }
    }

    fn ended(&mut self, list: &[Ended]) {
        for ended in list {
            if ended.written {
                self.subjects.written(ended.key);
                self.experts.written(ended.key);
            }
            if let Some(subject) = self.subjects.get(ended.key) {
                self.recall.ended(ended.key, ended.written, subject.dirty > 0, subject.pages);
            }
            let since = self.account.ended(ended.key, ended.written);
            self.account.placed(ended.key, self.place_of(ended.key, since));
            self.front.ended(ended.key);
            self.settle(ended.key);
        }
    }

    fn resize(&mut self, pages: u64) {
        self.front.resize(pages);
        self.account.resize(pages);
        self.experts.resize(pages);
    }

    fn moved(&mut self, moved: &Moved) {
        let before = self.subjects.get(moved.key).map_or(0, |subject| subject.resident);
        self.subjects.moved(moved);
        self.account.moved(moved);
        self.front.moved(moved, before);
        self.settle(moved.key);
    }

    /// The front hears what has become of an allocation.
    fn settle(&mut self, key: Key) {
        if let (Some(subject), Some(expected)) = (self.subjects.get(key), self.recall.expected(key)) {
            self.front.settle(subject, expected.forecast);
        }
    }

    fn died(&mut self, key: Key) {
        self.subjects.died(key);
        self.recall.died(key);
        self.account.died(key);
        self.experts.forget(key);
        self.front.forget(key);
    }

    fn dropped(&mut self, key: Key) {
        self.subjects.dropped(key);
        self.account.dropped(key);
        self.settle(key);
    }

    fn elsewhere(&mut self, key: Key) {
        self.subjects.elsewhere(key);
        self.account.forget(key);
        self.experts.forget(key);
        self.front.forget(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Flow;

    #[test]
    fn while_nothing_is_known_the_order_is_that_of_the_last_use() {
        let mut foresight = Foresight::new(8);
        let key = |slot| Key::new(slot, 0);
        let item = |slot| Item { key: key(slot), pages: 3, kind: 0, has_content: false };
        foresight.hear(Event::Used { process: 1, device: 1, list: &[item(0), item(1)] });
        for slot in 0..2 {
            foresight.hear(Event::Moved(Moved { key: key(slot), resident: 3, dirty: 0, paged_in: 0, paged_out: 0 }));
        }
        foresight.hear(Event::Ended { process: 1, list: &[Ended { key: key(1), written: true }] });
        foresight.hear(Event::Ended { process: 1, list: &[Ended { key: key(0), written: false }] });
        assert!(foresight.place_of(key(1), 7) < foresight.place_of(key(0), 8));
        assert_eq!(foresight.victim(key(1), 2), Victim::Planned { pages: 2 });
        assert_eq!((foresight.changed(), foresight.wanted(64, [])), (None, None));
        foresight.hear(Event::Moved(Moved { key: key(1), resident: 1, dirty: 1, paged_in: 0, paged_out: 2 }));
        assert_eq!(foresight.report().actual, Flow { paged_in: 0, paged_out: 2 });
        assert_eq!(foresight.check(), Ok(()));
        foresight.hear(Event::Moved(Moved { key: key(0), resident: 4, dirty: 0, paged_in: 0, paged_out: 0 }));
        assert!(foresight.check().is_err(), "more pages than it has");
    }
}
