//! Streams recalled: what each process did before at this point, and what therefore comes next for each of its allocations.
//!
//! | the twin of a use | then |
//! |---|---|
//! | was used again by the operation `u` | the use's allocation is used again by `u` + offset |
//! | died | it dies as much later |
//! | neither, so far | nothing is known, never: it is not used again |
//!
//! What has no twin but outlives steps is looked for in its own past: its first use behind the operation that is repeated.

use std::collections::VecDeque;

use crate::ahead::{Ahead, Expected};
use crate::event::{Item, Key, Turn};
use crate::follow::Heard;
use crate::history::{History, Next, Out};
use crate::place;
use crate::report::StreamReport;
use crate::round;
use crate::stream::Stream;
use crate::subject::Subjects;
use crate::symbol;
use crate::trail::{Forecast, Trail, Trails};
use crate::twin::Twins;

/// Uses of an allocation's own past that are looked at.
const HOPS_MAX: u32 = 16;
/// Operations behind its expected use at which an allocation counts as idle.
const LATE: u64 = 32;
/// Operations and uses that all streams together keep, and one of many at least; powers of two. Each costs about 100 bytes.
const KEPT_TOTAL: usize = 1 << 20;
const KEPT_MIN: usize = 1 << 12;
/// Uses of one list that an allocation's is compared with.
const COMPARED_MAX: usize = 256;
/// Uses that are planned for each operation and each use heard, at most; what is not spent is kept up to so many heard.
const PLANNED_PER_USE: u64 = 8;
const UNSPENT_MAX: u64 = 1 << 16;
/// How often is planned: what the first repetition left is not what a later one leaves.
const PLANS: u32 = 3;

/// A stream that has named nothing for so many operations of the segment is silent: whether it repeats says nothing of the others.
const SILENT_AFTER: u64 = 1024;
/// Streams of ended processes that are reported on.
const ENDED_MAX: usize = 64;

/// All streams of a segment.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    streams: Vec<Stream>,
    trails: Trails,
    twins: Twins,
    heard: u64,
    /// Index of the stream whose operation was heard last.
    latest: usize,
    /// Allocations whose forecasts have changed otherwise than by their use.
    renewed: Vec<Key>,
    /// False until something has not fitted or has lost pages: operations are remembered and followed, and nothing is foreseen of them.
    foresees: bool,
    /// What was known of the streams whose processes have ended last, the latest last.
    ended: VecDeque<StreamReport>,
}

impl Recall {
    /// A process's next operation.
    pub(crate) fn used(&mut self, process: u32, list: &[Item], subjects: &Subjects, room: u64) {
        let index = self.stream_of(process);
        (self.heard, self.latest) = (self.heard + 1, index);
        if !list.is_empty() {
            self.streams[index].spoke_at = self.heard;
        }
        let stream = &mut self.streams[index];
        let earned = PLANNED_PER_USE * (1 + list.len() as u64);
        stream.credit = (stream.credit + earned).min(PLANNED_PER_USE * UNSPENT_MAX);
        let op = self.enter(index, list);
        let Stream { history, follow, .. } = &mut self.streams[index];
        let heard = follow.hear(history, op);
        self.streams[index].as_foreseen = matches!(heard, Heard::AsForeseen | Heard::Adopted);
        if !self.foresees {
            return;
        }
        let Stream { history, follow, .. } = &self.streams[index];
        let Some(offset) = follow.offset() else {
            if heard == Heard::Lost {
                self.forget(index);
            }
            return;
        };
        self.twins.find(history, &self.trails, op, op - offset);
        self.foresee(index, op, offset);
        match heard {
            Heard::Adopted => self.renew(index, op, offset),
            _ => self.find_idle(index, op, offset),
        }
        self.plan(index, (op, offset), heard == Heard::Adopted, (subjects, room));
    }

    /// The operation's use of an allocation has ended: from now on it may be a victim.
    pub(crate) fn ended(&mut self, key: Key, written: bool) {
        let Some(trail) = self.trails.get(key) else { return };
        self.streams[trail.stream as usize].history.wrote(trail.last, written);
    }

    /// An allocation has died.
    pub(crate) fn died(&mut self, key: Key) {
        if let Some(trail) = self.trails.died(key) {
            self.streams[trail.stream as usize].history.died(trail.last);
        }
    }

    /// Whether a process has a stream.
    pub(crate) fn knows(&self, process: u32) -> bool {
        self.index_of(process).is_some()
    }

    /// A process has ended: its stream is empty from now on, and another process's next. Answers with its index.
    pub(crate) fn gone(&mut self, process: u32) -> Option<u32> {
        let index = self.index_of(process)?;
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.extend(known_of(&self.streams[index]).map(|known| StreamReport { ended: true, ..known }));
        self.streams[index] = Stream::new(None, self.heard, KEPT_MIN);
        // CAST: as many streams as processes.
        self.trails.forget_stream(index as u32, |key| self.renewed.push(key));
        let gone = index as u32;
        self.share();
        Some(gone)
    }

    /// Operations and uses that each stream keeps: the share of all.
    pub(crate) fn kept_max(&self) -> usize {
        let living = self.streams.iter().filter(|stream| stream.process.is_some()).count();
        (KEPT_TOTAL / living.max(1).next_power_of_two()).max(KEPT_MIN)
    }

    /// A stream has come or gone: each keeps its share.
    fn share(&mut self) {
        let kept_max = self.kept_max();
        for stream in self.streams.iter_mut().filter(|stream| stream.process.is_some()) {
            stream.history.keep(kept_max);
        }
    }

    /// The place that an allocation's forecast says, without the time of an unknown one.
    pub(crate) fn place(&self, key: Key, dirty: bool, pages: u64) -> u64 {
        let Some(trail) = self.trails.get(key) else { return place::UNKNOWN };
        place_of(trail, &self.streams[trail.stream as usize], dirty, pages)
    }

    /// The next allocation whose forecast has changed otherwise than by its use.
    pub(crate) fn renewed(&mut self) -> Option<Key> {
        self.renewed.pop()
    }

    /// Over how many operations the very allocations had come again when the followed offset of the latest stream was found, if it has just been.
    pub(crate) fn just_agreed(&self) -> Option<u64> {
        let stream = self.streams.get(self.latest)?;
        stream.follow.just_agreed()
    }

    /// If the latest operations of all streams that are not silent came as foreseen: the longest of their offsets.
    pub(crate) fn repeats_after(&self) -> Option<u64> {
        let speaks = |stream: &&Stream| stream.process.is_some() && self.heard - stream.spoke_at <= SILENT_AFTER;
        let speaking = self.streams.iter().filter(speaks);
        let offsets = speaking.map(|stream| stream.follow.offset().filter(|_| stream.as_foreseen));
        offsets.reduce(|longest, offset| Some(longest?.max(offset?))).flatten()
    }

    /// The order of the processes' turns, the running one first; it loses last, and what has no turn loses first.
    pub(crate) fn order(&mut self, next: &[Turn]) {
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let at = next.iter().position(|turn| stream.process == Some(turn.process));
            let order = at.map_or(0, |at| place::ORDER_MAX.saturating_sub(at as u64));
            if std::mem::replace(&mut stream.order, order) != order {
                let of = self.trails.iter().filter(|trail| trail.stream as usize == index);
                self.renewed.extend(of.map(|trail| trail.key));
            }
        }
    }

    /// Index of the stream whose operation was heard last.
    pub(crate) fn latest(&self) -> u32 {
        // CAST: as many streams as processes.
        self.latest as u32
    }

    /// What is ahead of the stream whose operation was heard last, if that came as foreseen.
    pub(crate) fn ahead(&self) -> Option<Ahead<'_>> {
        let stream = self.streams.get(self.latest).filter(|stream| self.foresees && stream.as_foreseen)?;
        let (offset, op) = (stream.follow.offset()?, stream.history.operations() - 1);
        Some(Ahead::new(self.latest(), (op, offset), &stream.history))
    }

    /// Whether the process's next operation is not expected to use an allocation that it has used before.
    pub(crate) fn is_surprising(&self, process: u32, key: Key) -> bool {
        let Some(trail) = self.trails.get(key) else { return false };
        let stream = &self.streams[trail.stream as usize];
        stream.process == Some(process) && trail.forecast != Forecast::Used { op: stream.history.operations() }
    }

    /// What is expected of an allocation.
    pub(crate) fn expected(&self, key: Key) -> Option<Expected> {
        let trail = self.trails.get(key)?;
        let last = self.streams[trail.stream as usize].history.used(trail.last)?.op;
        Some(Expected { stream: trail.stream, last, forecast: trail.forecast })
    }

    /// What is known of each stream: of the living by process, then of those that have ended last.
    pub(crate) fn report(&self) -> Vec<StreamReport> {
        let mut all: Vec<StreamReport> = self.streams.iter().filter_map(known_of).collect();
        all.sort_by_key(|stream| stream.process);
        all.extend(&self.ended);
        all
    }

    fn index_of(&self, process: u32) -> Option<usize> {
        self.streams.iter().position(|stream| stream.process == Some(process))
    }

    fn stream_of(&mut self, process: u32) -> usize {
        if let Some(index) = self.index_of(process) {
            return index;
        }
        let stream = Stream::new(Some(process), self.heard, KEPT_MIN);
        let index = match self.streams.iter().position(|stream| stream.process.is_none()) {
            Some(index) => {
                self.streams[index] = stream;
                index
            }
            None => {
                self.streams.push(stream);
                self.streams.len() - 1
            }
        };
        self.share();
        index
    }

    /// Writes the operation into the history.
    fn enter(&mut self, index: usize, list: &[Item]) -> u64 {
        let history = &mut self.streams[index].history;
        let op = history.begin(symbol::of_list(list), symbol::of_names(list));
        for item in list {
            // CAST: as many streams as processes.
            let (trail, known) = self.trails.of(item.key, index as u32, op);
            let last = known.then_some(trail.last);
            trail.last = history.push(item, symbol::of_item(item), last, trail.born);
        }
        op
    }

    /// Forecasts what comes next for each allocation of the operation.
    fn foresee(&mut self, index: usize, op: u64, offset: u64) {
        let history = &mut self.streams[index].history;
        let Some(uses) = history.uses_of(op) else { return };
        for (number, twin) in uses.zip(self.twins.found()) {
            if let Some(twin) = twin {
                history.repeats(number, *twin);
            }
            let key = history.used(number).expect("its operation is kept").key;
            // Where forecasts begin behind the operation, it may have died since, or another stream may have used it.
            let Some(trail) = self.trails.get_mut(key).filter(|trail| trail.stream as usize == index) else { continue };
            (trail.forecast, trail.awaits) = match twin {
                Some(twin) => after_twin(history, *twin, offset),
                None if trail.born <= op - offset => from_own_past(history, trail, op - offset, offset),
                None => (Forecast::Unknown, None),
            };
        }
    }

    /// A new offset is followed: forecasts anew what comes next for everything that the stream used last.
    fn renew(&mut self, index: usize, op: u64, offset: u64) {
        let Recall { streams, trails, renewed, .. } = self;
        let history = &streams[index].history;
        let then = op - offset;
        let keys = trails.iter().filter(|trail| trail.stream as usize == index).map(|trail| trail.key);
        for key in keys.collect::<Vec<Key>>() {
            let trail = trails.get_mut(key).expect("it has just been there");
            let last = history.used(trail.last).map(|used| used.op);
            if last == Some(op) {
                continue;
            }
            (trail.forecast, trail.awaits) = match last {
                // It was born in this repetition, and what is born as it was had a life in the one before.
                Some(last) if trail.born > then && trail.born >= offset => {
                    from_likeness(history, trail.last, last - offset, offset)
                }
                Some(last) if last > then => from_own_past(history, trail, then, offset),
                // It was not used for a whole repetition.
                _ => (Forecast::Idle, None),
            };
            renewed.push(key);
        }
    }

    /// The stream is planned as soon as an offset is followed, and a few times more, each a whole repetition later; it has to earn each plan.
    fn plan(&mut self, index: usize, (op, offset): (u64, u64), adopted: bool, (subjects, room): (&Subjects, u64)) {
        let Recall { streams, trails, renewed, .. } = self;
        let stream = &mut streams[index];
        if adopted {
            (stream.plan_at, stream.plans) = (Some(op), 0);
        }
        if stream.plan_at == Some(op) {
            let size = round::size(&stream.history, (op, offset));
            if size > stream.credit {
                stream.plan_at = Some(op + 1);
                return;
            }
            stream.credit -= size;
            stream.plans += 1;
            stream.plan_at = (stream.plans < PLANS).then_some(op + offset);
            round::plan(&mut stream.history, trails, (op, offset), (subjects, room), renewed);
        }
    }

    /// An allocation that the operation a little behind the repeated one used, and that the present repetition has not used, is idle.
    fn find_idle(&mut self, index: usize, op: u64, offset: u64) {
        let history = &self.streams[index].history;
        let Some(late) = (op - offset).checked_sub(LATE) else { return };
        for used in history.list(late) {
            let Some(trail) = self.trails.get_mut(used.key) else { continue };
            let last = history.used(trail.last).map(|used| used.op);
            if trail.stream as usize == index && last == Some(late) && trail.forecast != Forecast::Idle {
                (trail.forecast, trail.awaits) = (Forecast::Idle, None);
                self.renewed.push(used.key);
            }
        }
    }

    /// The repetition is lost: nothing of it is foreseen any more.
    fn forget(&mut self, index: usize) {
        let Recall { trails, renewed, .. } = self;
        let of = trails.iter().filter(|trail| trail.stream as usize == index && trail.forecast != Forecast::Unknown);
        renewed.extend(of.map(|trail| trail.key));
        for key in &*renewed {
            if let Some(trail) = trails.get_mut(*key) {
                (trail.forecast, trail.awaits) = (Forecast::Unknown, None);
            }
        }
    }
}

/// What is known of a stream; `None`: it is no process's.
fn known_of(stream: &Stream) -> Option<StreamReport> {
    let process = stream.process?;
    let (followed, slips, lost) = stream.follow.counts();
    let (operations, repeats_after) = (stream.history.operations(), stream.follow.offset());
    Some(StreamReport { process, ended: false, operations, repeats_after, followed, slips, lost })
}

/// What comes after a use whose twin this is; and the past use that the next one repeats.
fn after_twin(history: &History, twin: u64, offset: u64) -> (Forecast, Option<u64>) {
    match history.next(twin) {
        Next::Used { number, op } => (Forecast::Used { op: op + offset }, Some(number)),
        Next::Died { op } => (Forecast::Dies { op: op + offset }, None),
        Next::Open => (Forecast::Unknown, None),
    }
}

/// The same by the allocation's own first use behind the operation `then`.
fn from_own_past(history: &History, trail: &Trail, then: u64, offset: u64) -> (Forecast, Option<u64>) {
    let found = history.first_behind(trail.last, then, HOPS_MAX);
    match found.and_then(|number| Some((number, history.used(number)?.op))) {
        Some((number, op)) => (Forecast::Used { op: op + offset }, Some(number)),
        None => (Forecast::Unknown, None),
    }
}

/// The same by a use of the operation `then` that looks like the use of this number.
fn from_likeness(history: &History, number: u64, then: u64, offset: u64) -> (Forecast, Option<u64>) {
    let Some((used, past)) = history.used(number).zip(history.uses_of(then)) else { return (Forecast::Unknown, None) };
    let alike =
        |twin: &u64| history.used(*twin).is_some_and(|other| other.looks == used.looks && other.age == used.age);
    past.take(COMPARED_MAX).find(alike).map_or((Forecast::Unknown, None), |twin| after_twin(history, twin, offset))
}

fn place_of(trail: &Trail, stream: &Stream, dirty: bool, pages: u64) -> u64 {
    let (used, out) = stream.history.used(trail.last).map_or((0, Out::Nothing), |used| (used.op, used.out));
    place::of(trail.forecast, (dirty, pages, out), (stream.base, used), stream.order)
}

mod pressure;
mod reading;
#[cfg(test)]
mod tests;
