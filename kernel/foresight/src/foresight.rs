//! The door: each event goes to the parts that it concerns, in one order; each question is answered by one part.

use crate::account::Account;
use crate::event::{Broken, Ended, Event, Item, Key, Moved, Place, Victim, Wanted};
use crate::experts::Experts;
use crate::front::{Front, View};
use crate::recall::Recall;
use crate::report::Report;
use crate::standing::Standings;
use crate::subject::Subjects;

mod in_place;

/// What is foreseen of one memory segment.
#[derive(Debug)]
pub struct Foresight {
    subjects: Subjects,
    recall: Recall,
    account: Account,
    experts: Experts,
    front: Front,
    standings: Standings,
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
            standings: Standings::default(),
        }
    }

    /// Hears what has happened.
    pub fn hear(&mut self, event: Event<'_>) {
        match event {
            Event::Room { pages } => self.resize(pages),
            Event::Used { process, device: _, list } => self.used(process, list),
            Event::Ended { process: _, list } => self.ended(list),
            Event::Moved(moved) => self.moved(&moved),
            Event::InPlace { key, read, written } => self.account.in_place(key, read, written),
            Event::Died { key } => self.died(key),
            Event::Dropped { key } => self.dropped(key),
            Event::Elsewhere { key } => self.elsewhere(key),
            Event::Gone { process } => self.gone(process),
            Event::Order { next } => self.recall.order(next),
        }
    }

    /// The place of an allocation among its tier and priority; `since` is the time of the Evict that made it a victim.
    #[must_use]
    pub fn place_of(&self, key: Key, since: u64) -> Place {
        self.standings.of(key, since)
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
        self.victim_among(first, pages, |_| true)
    }

    /// The same, where `may_go` says which other allocations may go instead: those that stand beside `first` in VidMm's order.
    #[must_use]
    pub fn victim_among(&mut self, first: Key, pages: u64, may_go: impl Fn(Key) -> bool) -> Victim {
        self.account.victim(first, pages, may_go)
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
            in_place: self.account.used_in_place(),
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
        self.account.check()?;
        self.experts.check()?;
        self.front.check()
    }

    fn next_changed(&mut self) -> Option<Key> {
        loop {
            let key = self.recall.renewed().or_else(|| self.experts.next_changed())?;
            self.settle(key);
            if self.stand(key) {
                return Some(key);
            }
        }
    }

    /// An allocation stands from now on where its forecast and the leading expert say. `false`: it does already, or is no subject.
    fn stand(&mut self, key: Key) -> bool {
        let Some(subject) = self.subjects.get(key) else { return false };
        let place = self.recall.place(key, subject.dirty > 0, subject.pages);
        self.standings.tell(key, place, self.experts.worth(key))
    }

    fn used(&mut self, process: u32, list: &[Item]) {
        // A process that has named nothing here yet has no stream here.
        if list.is_empty() && !self.recall.knows(process) {
            return;
        }
        for item in list {
            self.subjects.used(process, item);
        }
        self.foresee_if_pressed();
        let surprising = list.iter().any(|item| self.recall.is_surprising(process, item.key));
        self.recall.used(process, list, &self.subjects, self.account.room());
        self.front.keep(self.recall.kept_max());
        let surprising = if self.recall.foresees() { surprising } else { !self.recall.came_as_foreseen() };
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
            self.recall.ended(ended.key, ended.written);
            if self.recall.foresees() {
                self.stand(ended.key);
            }
            let since = self.account.ended(ended.key, ended.written);
            self.account.placed(ended.key, self.place_of(ended.key, since));
            self.front.ended(ended.key);
            if self.recall.foresees() {
                self.settle(ended.key);
            }
        }
    }

    fn resize(&mut self, pages: u64) {
        self.front.resize(pages);
        self.account.resize(pages);
        self.experts.resize(pages);
        self.foresee_if_pressed();
    }

    /// If the content that all lists have named does not fit any more: from now on there are victims, and what is foreseen counts.
    fn foresee_if_pressed(&mut self) {
        if self.subjects.named() > self.account.room() {
            self.recall.foresee_from_now_on();
        }
    }

    fn moved(&mut self, moved: &Moved) {
        let before = self.subjects.get(moved.key).map_or(0, |subject| subject.resident);
        self.subjects.moved(moved);
        self.account.moved(moved);
        self.front.moved(moved, before);
        if moved.resident < before {
            self.recall.foresee_from_now_on();
        }
        if self.recall.foresees() {
            self.settle(moved.key);
        }
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

    fn gone(&mut self, process: u32) {
        if let Some(stream) = self.recall.gone(process) {
            self.front.gone(stream);
        }
        self.subjects.gone(process);
    }

    fn dropped(&mut self, key: Key) {
        self.subjects.dropped(key);
        self.account.dropped(key);
        self.experts.dropped(key);
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

    fn operation(foresight: &mut Foresight, process: u32, slots: &[u32]) {
        let item = |slot: &u32| Item { key: Key::new(*slot, 0), pages: 3, kind: 0, has_content: false };
        let list: Vec<Item> = slots.iter().map(item).collect();
        foresight.hear(Event::Used { process, device: process, list: &list });
        let ended = |slot: &u32| Ended { key: Key::new(*slot, 0), written: false };
        let list: Vec<Ended> = slots.iter().map(ended).collect();
        foresight.hear(Event::Ended { process, list: &list });
        while foresight.changed().is_some() {}
    }

    #[test]
    fn of_a_process_that_has_ended_nothing_is_left_but_what_others_share() {
        let mut foresight = Foresight::new(8);
        for _ in 0..8 {
            (0..3).for_each(|slot| operation(&mut foresight, 1, &[slot]));
        }
        let unknown = Foresight::new(8).place_of(Key::new(0, 0), 9);
        assert!(foresight.place_of(Key::new(0, 0), 9) < unknown, "a forecast");
        assert_eq!((foresight.footprint(1), foresight.report().streams.len()), (9, 1));
        foresight.hear(Event::Died { key: Key::new(1, 0) });
        foresight.hear(Event::Died { key: Key::new(2, 0) });
        foresight.hear(Event::Gone { process: 1 });
        assert_eq!(foresight.changed(), Some(Key::new(0, 0)), "the shared one is ranked anew");
        assert_eq!((foresight.changed(), foresight.place_of(Key::new(0, 0), 9)), (None, unknown));
        let streams = foresight.report().streams;
        assert_eq!((foresight.footprint(1), streams.len(), streams[0].ended), (0, 1, true), "{streams:?}");
        operation(&mut foresight, 1, &[0]);
        let stream = foresight.report().streams[0];
        assert_eq!((foresight.footprint(1), stream.operations, stream.repeats_after), (3, 1, None));
        assert_eq!(foresight.check(), Ok(()));
    }

    /// Everything fits, steps repeat, and nothing is foreseen.
    fn unpressed() -> Foresight {
        let mut foresight = Foresight::new(12);
        for _ in 0..8 {
            (0..3).for_each(|slot| operation(&mut foresight, 1, &[slot]));
        }
        (0..3).for_each(|slot| foresight.hear(Event::Moved(has(slot, 3))));
        assert_eq!((foresight.changed(), foresight.report().streams[0].repeats_after), (None, Some(3)));
        assert_eq!(foresight.place_of(Key::new(0, 0), 9), unknown());
        foresight
    }

    fn has(slot: u32, resident: u64) -> Moved {
        Moved { key: Key::new(slot, 0), resident, dirty: 0, paged_in: 0, paged_out: 0 }
    }

    fn unknown() -> Place {
        Foresight::new(12).place_of(Key::new(0, 0), 9)
    }

    /// All three are handed out, and the one that is used again last goes first.
    fn check_that_it_foresees(foresight: &mut Foresight) {
        assert_eq!(std::iter::from_fn(|| foresight.changed()).count(), 3);
        let places = [2, 1, 0].map(|slot| foresight.place_of(Key::new(slot, 0), 9));
        assert!(places.is_sorted() && places[2] < unknown(), "{places:?}");
        assert_eq!(foresight.check(), Ok(()));
    }

    #[test]
    fn the_first_loss_of_pages_begins_forecasts_although_everything_fits() {
        let mut foresight = unpressed();
        foresight.hear(Event::Moved(has(1, 3)));
        assert_eq!(foresight.changed(), None, "it has lost nothing");
        foresight.hear(Event::Moved(has(1, 2)));
        check_that_it_foresees(&mut foresight);
    }

    #[test]
    fn a_room_that_shrinks_below_what_was_named_begins_forecasts() {
        let mut foresight = unpressed();
        foresight.hear(Event::Room { pages: 9 });
        assert_eq!(foresight.changed(), None, "everything fits exactly");
        foresight.hear(Event::Room { pages: 8 });
        check_that_it_foresees(&mut foresight);
    }

    #[test]
    fn a_stream_that_has_ended_or_is_silent_or_empty_is_no_hindrance_to_a_loan() {
        let mut foresight = Foresight::new(6);
        let steps = |foresight: &mut Foresight, steps: u32| {
            for _ in 0..steps {
                (0..4).for_each(|slot| operation(foresight, 1, &[slot]));
            }
            foresight.recall.repeats_after()
        };
        foresight.hear(Event::Used { process: 3, device: 3, list: &[] });
        assert_eq!(steps(&mut foresight, 8), Some(4), "what never names anything here is no stream");
        operation(&mut foresight, 2, &[9]);
        assert_eq!(steps(&mut foresight, 8), None, "the other one does not repeat");
        foresight.hear(Event::Gone { process: 2 });
        assert_eq!(steps(&mut foresight, 1), Some(4));
        operation(&mut foresight, 2, &[9]);
        assert_eq!((steps(&mut foresight, 255), steps(&mut foresight, 2)), (None, Some(4)), "it has been silent");
    }

    #[test]
    fn a_place_changes_only_with_an_end_and_where_it_is_handed_out() {
        const CONTENTS: u32 = 200;
        let mut foresight = Foresight::new(90);
        let mut places = vec![foresight.place_of(Key::new(0, 0), 7); CONTENTS as usize];
        let (mut drawn, mut handed_out) = (1u64, 0);
        for operation in 0..3000u32 {
            // Every other operation uses one of a few, between all of the many: frequency moves less than recency.
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (drawn >> 33) as u32 % if operation % 2 == 0 { 20 } else { CONTENTS };
            let key = Key::new(slot, 0);
            let item = Item { key, pages: 3, kind: 0, has_content: true };
            foresight.hear(Event::Used { process: 1, device: 1, list: &[item] });
            while let Some(key) = foresight.changed() {
                places[key.slot() as usize] = foresight.place_of(key, 7);
                handed_out += 1;
            }
            foresight.hear(Event::Ended { process: 1, list: &[Ended { key, written: false }] });
            places[slot as usize] = foresight.place_of(key, 7);
            let now = (0..CONTENTS).map(|slot| foresight.place_of(Key::new(slot, 0), 7));
            assert!(now.eq(places.iter().copied()), "operation {operation}");
        }
        assert!(foresight.report().expert > 0 && handed_out > 64, "the leader has changed: {handed_out}");
        assert_eq!(foresight.check(), Ok(()));
    }
}
