//! Work ahead of need: what comes before a list names it, in whose place, and what leaves before its room is needed.
//!
//! # What may be done ahead without a byte more
//! The order of victims decides *which* content is away and for how long; the front only moves the copies to earlier times.
//! - **A return** comes early into room that no operation before its use needs ([`Demand::needs`]).
//! - **A departure** comes early if it comes anyway: if some operation before the victim's next use needs so much room that everything with
//!   a farther next use does not suffice, counting what the operations until then will have used.
//!
//! Nothing returns in the place of a victim that is used later: on a scan that only moves the hole of absent content along, and elsewhere it
//! costs as many bytes in each repetition.
//!
//! What came ahead and is not used yet is bounded by the *lead*: where the link is the bottleneck, what comes too early is in the way of what a
//! list needs now.
//!
//! What leaves early at the end of a step leaves a step sooner, once. So the front looks ahead no farther than a part of the repetition.
//!
//! Nothing comes or goes early while operations use what was not expected of them: a stream that repeats its shape alone (a token goes
//! through all layers, with other experts each time) follows an offset, and its forecasts are worth a rank, not a copy.
//!
//! # When
//! By operations, not by time: each one allows [`PACE`] times its share of what the last repetition copied. So copies lie evenly
//! under the work that is under way, the answers depend on no clock, and a demand waits for no more than that.

use std::collections::BTreeSet;

use crate::ahead::Ahead;
use crate::demand::{Demand, signed};
use crate::event::{Item, Key, Moved, Wanted};
use crate::recall::Recall;
use crate::subject::{Subject, Subjects};
use crate::trail::Forecast;

/// Operations ahead that are looked at.
const OPERATIONS_MAX: u64 = 256;
/// And no more than such a part of a repetition.
const ROUND_PART: u64 = 8;
/// What so many of the latest operations used stays: a copy would wait for them.
const RIPE_AFTER: u64 = 2;
/// Uses of operations ahead that are looked at in one operation.
const LOOKS_MAX: u64 = 1 << 14;
/// Victims that are looked at.
const LOOKED_MAX: usize = 256;
/// Fewer pages are not worth a copy of their own.
const GRAIN: u64 = 64;
/// An operation allows so many times its share of the copies.
const PACE: u64 = 2;
/// Largest pages' worth of credit, in parts of the room.
const CREDIT_PART: u64 = 64;
/// What came ahead and is not used yet is at most such a part of the room.
const LEAD_PART: u64 = 64;
/// Of the last 64 operations so many may have used what was not expected of them.
const SURPRISES_MAX: u32 = 4;
/// Operations between two looks that find nothing to do.
const REST: u64 = 8;

/// One allocation, as the front knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    key: Option<Key>,
    stream: u32,
    /// Its pages, if it was created before the eyes of the stream; 0 for what had content at its first use: it always lived.
    created: u64,
    /// The next use under which it stands in `missing`.
    missing_at: Option<u64>,
    /// Pages that came ahead, and are not used yet.
    ahead: u64,
    /// On a list now.
    in_use: bool,
    /// Works of it were refused: until its next use none is asked for.
    refused: bool,
}

/// The front of one segment.
#[derive(Debug)]
pub(crate) struct Front {
    room: u64,
    marks: Vec<Mark>,
    demands: Vec<Demand>,
    /// Content that is not wholly resident, by stream and next use.
    missing: BTreeSet<(u32, u64, Key)>,
    moved: u64,
    credit: u64,
    /// Pages that came ahead, and are not used yet.
    lead: u64,
    /// One bit an operation, the latest lowest: whether it used what was not expected of it.
    surprises: u64,
    /// The latest answer: the allocation, what it had then, and how often it has been given without a change of that.
    answered: Option<(Key, u64, u32)>,
    /// Uses that operations ahead may still be asked for, until the next operation.
    looks_left: u64,
    /// Operations that each stream keeps.
    kept_max: usize,
    /// The stream and its operation from which on it is worth to look again.
    rests_until: (u32, u64),
    /// Kept for its room.
    needs: Vec<i64>,
}

/// What the front asks others.
pub(crate) struct View<'a> {
    pub subjects: &'a Subjects,
    pub recall: &'a Recall,
    /// Pages that the account allows.
    pub spare: u64,
    /// Pages of one work.
    pub at_most: u64,
}

/// A victim that may go ahead.
struct Candidate {
    key: Key,
    resident: u64,
    next: u64,
    /// Pages that stand before it in the order, and stay for now.
    unripe: u64,
}

impl Front {
    pub(crate) fn new(room: u64) -> Front {
        Front {
            room,
            marks: Vec::new(),
            demands: Vec::new(),
            missing: BTreeSet::new(),
            moved: 0,
            credit: 0,
            lead: 0,
            surprises: u64::MAX,
            answered: None,
            looks_left: 0,
            kept_max: 64,
            rests_until: (0, 0),
            needs: Vec::new(),
        }
    }

    /// The room changes.
    pub(crate) fn resize(&mut self, room: u64) {
        self.room = room;
    }

    /// Each stream keeps so many operations from now on.
    pub(crate) fn keep(&mut self, kept_max: usize) {
        if std::mem::replace(&mut self.kept_max, kept_max) != kept_max {
            self.demands.iter_mut().for_each(|demand| demand.keep(kept_max));
        }
    }

    /// A stream's next operation has begun. `surprising`: it uses what was not expected of it.
    pub(crate) fn used(&mut self, stream: u32, list: &[Item], surprising: bool) {
        self.surprises = self.surprises << 1 | u64::from(surprising);
        self.looks_left = LOOKS_MAX;
        while self.demands.len() <= stream as usize {
            self.demands.push(Demand::new(self.kept_max));
        }
        for item in list {
            self.enter(stream, item);
        }
        self.demands[stream as usize].begin(self.moved);
    }

    /// It may be a victim from now on.
    pub(crate) fn ended(&mut self, key: Key) {
        if let Some(mark) = self.mark(key) {
            mark.in_use = false;
        }
    }

    /// Pages came or went.
    pub(crate) fn moved(&mut self, moved: &Moved, before: u64) {
        self.moved += moved.paged_in + moved.paged_out;
        let Some(mark) = self.mark(moved.key) else { return };
        let came = if mark.in_use { 0 } else { moved.resident.saturating_sub(before) };
        let now = (mark.ahead + came).min(moved.resident);
        let was = std::mem::replace(&mut mark.ahead, now);
        self.lead = self.lead - was + now;
    }

    /// Its forecast, its content or its pages may have changed.
    pub(crate) fn settle(&mut self, subject: &Subject, forecast: Forecast) {
        let Some(mark) = self.mark(subject.key) else { return };
        let is_missing = subject.here && subject.has_content && subject.resident < subject.pages && !mark.in_use;
        let next = match forecast {
            Forecast::Used { op } if is_missing => Some(op),
            _ => None,
        };
        self.stand(subject.key, next);
    }

    /// It is gone, or no subject any more.
    pub(crate) fn forget(&mut self, key: Key) {
        if self.mark(key).is_some() {
            self.vacate(key.slot() as usize);
        }
    }

    /// A stream's process has ended: the stream begins anew as another one's.
    pub(crate) fn gone(&mut self, stream: u32) {
        for slot in 0..self.marks.len() {
            if self.marks[slot].key.is_some() && self.marks[slot].stream == stream {
                self.vacate(slot);
            }
        }
        if let Some(demand) = self.demands.get_mut(stream as usize) {
            *demand = Demand::new(self.kept_max);
        }
        self.rests_until = (stream, 0);
    }

    /// The next work ahead.
    pub(crate) fn wanted(&mut self, view: &View<'_>, order: &mut dyn Iterator<Item = Key>) -> Option<Wanted> {
        let ahead = view.recall.ahead()?;
        let most = view.at_most.min(self.credit).min(view.spare / 3);
        let rests = self.rests_until.0 == ahead.stream && ahead.op < self.rests_until.1;
        if self.surprises.count_ones() > SURPRISES_MAX || most < GRAIN || rests {
            return None;
        }
        self.hear_refusal(view);
        let wanted = self.look(view, &ahead, most, order);
        self.remember(view, wanted);
        match wanted {
            Some(Wanted::Fetch { pages, .. } | Wanted::Clear { pages, .. }) => self.credit -= pages.min(self.credit),
            _ => self.rests_until = (ahead.stream, ahead.op + REST),
        }
        wanted
    }

    /// The stream's latest operation came as foreseen: it allows copies.
    pub(crate) fn advance(&mut self, ahead: &Ahead<'_>) {
        let (op, offset) = (ahead.op, ahead.offset);
        let Some(moved) = self.demands[ahead.stream as usize].moved_in_round(op, offset) else { return };
        let share = moved.saturating_mul(PACE) / offset + 1;
        self.credit = (self.credit + share).min((self.room / CREDIT_PART).max(GRAIN));
    }

    /// Nothing is foreseen: no copy is allowed.
    pub(crate) fn halt(&mut self) {
        self.credit = 0;
    }

    fn look(
        &mut self,
        view: &View<'_>,
        ahead: &Ahead<'_>,
        most: u64,
        order: &mut dyn Iterator<Item = Key>,
    ) -> Option<Wanted> {
        let free = signed(self.room) - signed(view.subjects.resident());
        let missing = self.missing.range((ahead.stream, ahead.op + 1, Key::FIRST)..);
        let missing = missing.take_while(|(stream, ..)| *stream == ahead.stream);
        let mut first = None;
        let lacking = missing.map(|&(_, next, key)| {
            if first.is_none() && !self.marks[key.slot() as usize].refused {
                first = Some((next, key));
            }
            (next, view.subjects.get(key).map_or(0, |subject| subject.pages - subject.resident))
        });
        let at = (ahead.op, ahead.offset);
        self.demands[ahead.stream as usize].needs(
            at,
            OPERATIONS_MAX.min(ahead.offset / ROUND_PART),
            lacking,
            &mut self.needs,
        );
        let peak = self.needs.iter().copied().max()?;
        let lead = (self.room / LEAD_PART).saturating_sub(self.lead);
        if let Some((next, key)) = first.filter(|_| lead > 0) {
            let subject = view.subjects.get(key)?;
            let pages = most.min(lead).min(subject.pages - subject.resident);
            let before = self.need_before(ahead.op, next).max(0);
            // CAST: it is above 0.
            let left = free.saturating_sub(before).max(0) as u64;
            if left >= pages.min(GRAIN) {
                return Some(Wanted::Fetch { key, pages: pages.min(left), instead_of: None });
            }
        }
        if peak <= free {
            return None;
        }
        let candidate = self.candidate(view, ahead, order)?;
        self.departure(ahead, &candidate, free, most)
    }

    /// The victim's departure, as far as it leaves anyway.
    fn departure(&mut self, ahead: &Ahead<'_>, candidate: &Candidate, free: i64, most: u64) -> Option<Wanted> {
        let most = most.min(candidate.resident);
        let mut farther = signed(candidate.unripe);
        let mut excess = i64::MIN;
        for (at, need) in (ahead.op + 1..candidate.next).zip(&self.needs) {
            excess = excess.max(need - free - farther);
            if excess >= signed(most) {
                break;
            }
            self.looks_left = self.looks_left.checked_sub(ahead.uses_at(at))?;
            farther += signed(ahead.farther_than(at, candidate.next));
        }
        // CAST: it is above 0.
        let pages = (excess.max(0) as u64).min(most);
        (pages >= GRAIN.min(candidate.resident)).then_some(Wanted::Clear { key: candidate.key, pages })
    }

    /// The highest need of the operations behind `op` and before `next`.
    fn need_before(&self, op: u64, next: u64) -> i64 {
        (op + 1..next).zip(&self.needs).map(|(_, need)| *need).max().unwrap_or(0)
    }

    /// The first victim that may go ahead.
    fn candidate(&self, view: &View<'_>, ahead: &Ahead<'_>, order: &mut dyn Iterator<Item = Key>) -> Option<Candidate> {
        let mut unripe = 0;
        for key in order.take(LOOKED_MAX) {
            let Some(subject) = view.subjects.get(key).filter(|subject| subject.here && subject.resident > 0) else {
                continue;
            };
            let mark = self.marks[key.slot() as usize];
            // What goes before it and is not asked for makes room as well.
            let expected = view.recall.expected(key).filter(|expected| expected.stream == ahead.stream);
            let Some(expected) = expected.filter(|_| !mark.in_use && !mark.refused && mark.ahead == 0) else {
                unripe += subject.resident;
                continue;
            };
            let next = match expected.forecast {
                Forecast::Used { op } if op > ahead.op => op,
                Forecast::Idle => u64::MAX,
                Forecast::Dies { .. } if subject.dirty == 0 => u64::MAX,
                _ => return None,
            };
            if expected.last + RIPE_AFTER > ahead.op {
                unripe += subject.resident;
                continue;
            }
            return Some(Candidate { key, resident: subject.resident, next, unripe });
        }
        None
    }

    fn enter(&mut self, stream: u32, item: &Item) {
        let slot = item.key.slot() as usize;
        if slot >= self.marks.len() {
            self.marks.resize(slot + 1, Mark::default());
        }
        let mark = self.marks[slot];
        if mark.key != Some(item.key) || mark.stream != stream {
            self.vacate(slot);
            let created = if item.has_content { 0 } else { item.pages };
            self.marks[slot] = Mark { key: Some(item.key), stream, created, ..Mark::default() };
            self.demands[stream as usize].born(created);
        }
        self.stand(item.key, None);
        let mark = &mut self.marks[slot];
        (mark.in_use, mark.refused) = (true, false);
        self.lead -= std::mem::take(&mut mark.ahead);
    }

    fn vacate(&mut self, slot: usize) {
        if let Some(key) = self.marks[slot].key {
            self.stand(key, None);
        }
        let mark = std::mem::take(&mut self.marks[slot]);
        self.lead -= mark.ahead;
        if mark.key.is_some() {
            self.demands[mark.stream as usize].died(mark.created);
        }
    }

    /// It stands among the missing for this use, or not at all.
    fn stand(&mut self, key: Key, next: Option<u64>) {
        let mark = &mut self.marks[key.slot() as usize];
        let stream = mark.stream;
        let before = std::mem::replace(&mut mark.missing_at, next);
        if before == next {
            return;
        }
        if let Some(op) = before {
            self.missing.remove(&(stream, op, key));
        }
        if let Some(op) = next {
            self.missing.insert((stream, op, key));
        }
    }

    fn mark(&mut self, key: Key) -> Option<&mut Mark> {
        self.marks.get_mut(key.slot() as usize).filter(|mark| mark.key == Some(key))
    }
}

mod refusal;
mod sums;
#[cfg(test)]
mod tests;
