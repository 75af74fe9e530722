//! This module lays the last whole repetition of a stream out as the problem of [`crate::plan`], and writes the plan to the uses of the
//! history.

use std::ops::Range;

use crate::event::Key;
use crate::history::{History, Next, Out};
use crate::plan::{Begun, Stretch, pages_out, signed};
use crate::subject::Subjects;
use crate::trail::{Forecast, Trails};

/// Uses, and operations, of a repetition that is planned; in a longer one the farthest next use goes first.
const USES_MAX: u64 = 1 << 16;

/// Uses and operations of the repetition that ends with `op`: what a plan of it costs. 0: it is not planned.
pub(crate) fn size(history: &History, (op, offset): (u64, u64)) -> u64 {
    uses(history, (op, offset)).map_or(0, |uses| (uses.end - uses.start).max(offset))
}

/// The uses of the repetition that ends with `op`, if they are kept and not too many.
fn uses(history: &History, (op, offset): (u64, u64)) -> Option<Range<u64>> {
    let (first, last) = history.uses_of(op + 1 - offset).zip(history.uses_of(op))?;
    Some(first.start..last.end).filter(|uses| (uses.end - uses.start).max(offset) <= USES_MAX)
}

/// Plans for a room what comes behind `op` by what the `offset` operations up to it were, and marks their uses. Allocations whose present
/// stretch is planned are added to `renewed`.
pub(crate) fn plan(
    history: &mut History,
    trails: &Trails,
    (op, offset): (u64, u64),
    (subjects, room): (&Subjects, u64),
    renewed: &mut Vec<Key>,
) {
    let base = op + 1 - offset;
    let Some(uses) = uses(history, (op, offset)) else { return };
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut wraps: Vec<(usize, usize)> = Vec::new();
    let mut begun: Vec<Begun> = Vec::new();
    let mut keys: Vec<Key> = Vec::new();
    for number in uses.clone() {
        let used = history.used(number).expect("its operation is kept");
        // CAST: operations and uses of one repetition.
        let begin = (used.op - base) as usize;
        let index_of = |number: u64| number.checked_sub(uses.start).map(|index| index as usize);
        let trail = trails.get(used.key).filter(|trail| trail.last == number);
        let (end, dies) = match (history.next(number), trail.map(|trail| trail.forecast)) {
            (Next::Used { op, .. }, _) | (Next::Open, Some(Forecast::Used { op })) => (op, false),
            (Next::Died { op }, _) | (Next::Open, Some(Forecast::Dies { op })) => (op, true),
            (Next::Open, _) => (used.op, true),
        };
        if let Some(next) = trail.and_then(|trail| trail.awaits).and_then(index_of) {
            wraps.push((next, stretches.len()));
        }
        // CAST: no farther than the next repetition.
        let end = (end.saturating_sub(base).min(2 * offset) as usize).max(begin);
        let before = history.previous(number).and_then(index_of);
        // CAST: as above.
        if trail.is_some() && end > offset as usize {
            let now = used.op == op;
            let subject = subjects.get(used.key).filter(|_| !now);
            let (resident, dirty) = subject.map_or((used.pages, used.written), |held| (held.resident, held.dirty > 0));
            begun.push(Begun { stretch: stretches.len(), resident: resident.min(used.pages), dirty });
            keys.push(used.key);
        }
        stretches.push(Stretch { begin, end, pages: used.pages, written: used.written, dies, before });
    }
    for (next, last) in wraps {
        if let Some(stretch) = stretches.get_mut(next).filter(|stretch| stretch.before.is_none()) {
            stretch.before = Some(last);
        }
    }
    // CAST: operations of one repetition.
    let excess = excess(&stretches, offset as usize, room);
    if excess.iter().all(|pages| *pages == 0) {
        return;
    }
    let out = pages_out(&stretches, &begun, &excess);
    let how_much = |out: u64, of: u64| match out {
        0 => Out::Nothing,
        pages if pages < of => Out::Partly,
        _ => Out::Wholly,
    };
    for ((number, next), stretch) in uses.clone().zip(out.next).zip(&stretches) {
        history.plan(number, None, how_much(next, stretch.pages));
    }
    for (held, now) in begun.iter().zip(out.begun) {
        let number = uses.start + held.stretch as u64;
        let next = history.used(number).map_or(Out::Nothing, |used| used.out_next);
        history.plan(number, Some(how_much(now, held.resident)), next);
    }
    renewed.extend(keys);
}

/// For each operation of the repetition, by how many pages what is alive then exceeds the room.
fn excess(stretches: &[Stretch], length: usize, room: u64) -> Vec<u64> {
    let mut changes = vec![0i64; length * 3 + 1];
    for stretch in stretches {
        let pages = signed(stretch.pages);
        changes[stretch.begin] += pages;
        changes[stretch.end.max(stretch.begin + 1)] -= pages;
    }
    let mut alive = vec![0i64; length];
    let mut sum = 0;
    for (at, change) in changes.iter().enumerate() {
        sum += change;
        alive[at % length] += sum;
    }
    alive.into_iter().map(|pages| u64::try_from(pages.saturating_sub(signed(room))).unwrap_or(0)).collect()
}
