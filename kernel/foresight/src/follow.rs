//! Which earlier part of a stream happens again: the *offset* by which an operation lies behind the one that it repeats.
//!
//! Identity proposes, symbols dispose. An allocation that outlives a step (a weight) says where it was used before with the same symbol:
//! each such place is a vote for an offset. Equal symbols alone would not do: the layers of a model look alike, and the longest match of
//! symbols in the first step is a layer, not a step. No period is assumed, only "what followed last time": nested, alternating and changed
//! shapes need no rule of their own.
//!
//! An offset that is followed is asked first. Where its operation has the same symbol and the same allocations, as far as these lived
//! then, nothing else is looked at, so a long offset is not lost to a short one of an inner loop. Where it has not, the others are counted,
//! and one of them replaces it when it was right often enough where the followed one was not. A single operation more, less or otherwise
//! is a *slip*: the offset moves by as much, and the repetition is lost only when slips are the rule. After a loss an offset has to be right
//! twice as often before it is followed: what has a skeleton that repeats and nothing else (a mixture of experts that never chooses alike)
//! would be lost and found again for ever.

use crate::history::History;

/// Earlier uses of all of them together that are looked at.
const HOPS_MAX: usize = 96;
/// Earlier uses of one allocation that are looked at.
const CHAIN_MAX: usize = 48;
/// Allocations of one operation that vote.
const VOTERS_MAX: usize = 8;
/// Offsets that are counted side by side.
const CANDIDATES: usize = 8;
/// So often right, and an offset is followed where none is.
const ADOPTED_AT: u8 = 2;
/// It doubles with each loss, and no more often than so.
const DOUBLINGS_MAX: u32 = 5;
/// A repetition has proved itself when it was followed for a whole one, and for so many operations.
const PROVED_MIN: u64 = 64;
/// Of the last 64 operations so many may have begun to follow an offset: each looks at everything that the stream has used.
const ADOPTIONS_MAX: u32 = 8;
/// So often right where the followed one was not, and it is replaced.
const REPLACED_AT: u8 = 8;
/// How far a slip moves the offset at most.
const SLIP_MAX: u64 = 32;
/// So many slips in 64 operations, and the repetition is lost.
const SLIPS_MAX: u32 = 16;
/// Operations over which the pasts of offsets are compared.
const CONTEXT_MAX: u64 = 64;
/// Most exact sets that are remembered with their last place.
const SETS_MAX: usize = 1 << 16;
/// Uses of an earlier list that are compared with.
const COMPARED_MAX: usize = 64;

/// How well an operation repeats the one an offset ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    /// Another symbol, or not kept.
    Mismatch,
    /// Fewer than half of the allocations that lived then were in it.
    Differs,
    /// At least half.
    Partly,
    /// All of its allocations are new since.
    Silent,
    /// The very ones.
    Same,
}

#[derive(Clone, Copy, Debug, Default)]
struct Candidate {
    offset: u64,
    right: u8,
    /// Over how many operations it agreed when it was proposed.
    context: u64,
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// No offset is followed.
    Nothing,
    /// It is as foreseen.
    AsForeseen,
    /// It is another one than foreseen, and the offset is kept or has moved a little.
    Slipped,
    /// From here on another offset is followed.
    Adopted,
    /// The repetition is lost.
    Lost,
}

/// The offset of one stream.
#[derive(Debug)]
pub(crate) struct Follow {
    offset: Option<u64>,
    candidates: [Candidate; CANDIDATES],
    /// One bit an operation, the latest lowest: whether it was a slip.
    slips: u64,
    /// The same: whether an offset was adopted.
    adoptions: u64,
    /// The last operation of an exact set, by the low bits of its names; grows with the history.
    sets: Vec<(u64, u64)>,
    /// How often what is asked of an offset has doubled: once with each loss, since a whole repetition came as foreseen.
    doublings: u32,
    /// Operations as foreseen since the last slip.
    clean: u64,
    /// Over how many operations the offset agreed when it was adopted, if the latest operation made it so.
    just_agreed: Option<u64>,
    followed: u64,
    slipped: u64,
    lost: u64,
}

impl Follow {
    pub(crate) fn new() -> Follow {
        let candidates = [Candidate::default(); CANDIDATES];
        Follow {
            offset: None,
            candidates,
            slips: 0,
            adoptions: 0,
            sets: Vec::new(),
            doublings: 0,
            clean: 0,
            just_agreed: None,
            followed: 0,
            slipped: 0,
            lost: 0,
        }
    }

    /// How far behind the operation that it repeats the present one lies.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// Over how many operations the very allocations had come again, if the offset has just been adopted.
    pub(crate) fn just_agreed(&self) -> Option<u64> {
        self.just_agreed
    }

    /// Operations as foreseen, slips, and losses so far.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.followed, self.slipped, self.lost)
    }

    /// Hears the operation that has just entered the history.
    pub(crate) fn hear(&mut self, history: &History, op: u64) -> Heard {
        let set = self.same_set_before(history, op);
        self.just_agreed = None;
        self.adoptions <<= 1;
        let Some(offset) = self.offset else {
            self.count(history, op, set);
            return self.adopt(history, op, self.adopted_at()).unwrap_or(Heard::Nothing);
        };
        let agreement = agreement(history, op, offset);
        let slips = matches!(agreement, Agreement::Mismatch | Agreement::Differs);
        self.slips = self.slips << 1 | u64::from(slips);
        match agreement {
            Agreement::Silent => {}
            Agreement::Same => self.doubt(history, op),
            _ => self.count(history, op, set),
        }
        let enough = if slips { self.adopted_at() } else { REPLACED_AT.max(self.adopted_at()) };
        if let Some(adopted) = self.adopt(history, op, enough) {
            return adopted;
        }
        if !slips {
            self.followed += 1;
            self.clean += 1;
            if self.clean > offset.max(PROVED_MIN) {
                self.doublings = 0;
            }
            return if agreement == Agreement::Partly { Heard::Slipped } else { Heard::AsForeseen };
        }
        self.slipped += 1;
        self.clean = 0;
        if self.slips.count_ones() >= SLIPS_MAX {
            self.lost += 1;
            // That a loop of a few operations ended says nothing of a step.
            self.doublings = DOUBLINGS_MAX.min(self.doublings + u32::from(offset > SLIP_MAX));
            (self.offset, self.slips, self.candidates) = (None, 0, Default::default());
            return Heard::Lost;
        }
        if let Some(moved) = moved(history, op, offset) {
            self.offset = Some(moved);
        }
        Heard::Slipped
    }

    /// Follows the best offset that was right often enough: the one whose past agrees over the longest stretch, and of equals the nearest.
    fn adopt(&mut self, history: &History, op: u64, at: u8) -> Option<Heard> {
        if self.adoptions.count_ones() >= ADOPTIONS_MAX {
            return None;
        }
        let mut best: Option<(u64, u64)> = None;
        for candidate in self.candidates.iter().filter(|candidate| candidate.right >= at) {
            let context = context(history, op, candidate.offset);
            let better = |(longest, nearest)| context > longest || (context == longest && candidate.offset < nearest);
            if best.is_none_or(better) {
                best = Some((context, candidate.offset));
            }
        }
        let (_, offset) = best?;
        if self.offset == Some(offset) {
            return None;
        }
        (self.offset, self.slips, self.candidates) = (Some(offset), 0, Default::default());
        self.just_agreed = Some(agreed(history, op, offset));
        self.adoptions |= 1;
        Some(Heard::Adopted)
    }

    /// The followed offset was right: whichever was not loses.
    fn doubt(&mut self, history: &History, op: u64) {
        for candidate in self.candidates.iter_mut().filter(|candidate| candidate.right > 0) {
            candidate.right -= u8::from(agreement(history, op, candidate.offset) != Agreement::Same);
        }
    }

    /// Counts for each candidate whether it was right, and lets allocations propose new ones.
    fn count(&mut self, history: &History, op: u64, set: Option<u64>) {
        for candidate in self.candidates.iter_mut().filter(|candidate| candidate.right > 0) {
            match agreement(history, op, candidate.offset) {
                Agreement::Same => candidate.right = candidate.right.saturating_add(1),
                Agreement::Partly | Agreement::Silent => {}
                Agreement::Mismatch | Agreement::Differs => candidate.right = candidate.right.saturating_sub(2),
            }
        }
        if let Some(before) = set {
            self.propose(history, op, op - before);
        }
        let Some(uses) = history.uses_of(op) else { return };
        let symbol = history.op(op).map(|found| found.symbol);
        let mut hops = HOPS_MAX;
        for number in uses.take(VOTERS_MAX) {
            let mut earlier = history.previous(number);
            for _ in 0..CHAIN_MAX.min(hops) {
                let Some(used) = earlier.and_then(|number| history.used(number)) else { break };
                hops -= 1;
                if used.op < op && history.op(used.op).map(|found| found.symbol) == symbol {
                    self.propose(history, op, op - used.op);
                }
                earlier = earlier.and_then(|number| history.previous(number));
            }
        }
    }

    /// How often an offset has to be right before it is followed.
    fn adopted_at(&self) -> u8 {
        ADOPTED_AT << self.doublings
    }

    /// Counts an offset from now on, unless those that are counted agree over longer stretches of the past.
    fn propose(&mut self, history: &History, op: u64, offset: u64) {
        if self.candidates.iter().any(|candidate| candidate.right > 0 && candidate.offset == offset) {
            return;
        }
        let context = context(history, op, offset);
        let strength = |candidate: &Candidate| (candidate.right > 1, candidate.right > 0, candidate.context);
        let weakest = self.candidates.iter_mut().min_by_key(|candidate| strength(candidate)).expect("there are some");
        if strength(weakest) < (false, true, context) {
            *weakest = Candidate { offset, right: 1, context };
        }
    }

    /// The last operation with exactly these allocations; it is replaced by this one.
    fn same_set_before(&mut self, history: &History, op: u64) -> Option<u64> {
        let found = history.op(op).filter(|found| found.names != 0)?;
        let most = SETS_MAX.min(history.kept_max());
        if self.sets.len() > most {
            self.sets = Vec::new();
        }
        let length = self.sets.len();
        if op >= length as u64 / 2 && length < most {
            let smaller = std::mem::replace(&mut self.sets, vec![(0, u64::MAX); (length * 2).max(64).min(most)]);
            for known in smaller.into_iter().filter(|known| known.1 != u64::MAX) {
                let index = self.set_index(known.0);
                self.sets[index] = known;
            }
        }
        let index = self.set_index(found.names);
        let slot = &mut self.sets[index];
        let before = std::mem::replace(slot, (found.names, op));
        (before.0 == found.names && before.1 < op).then_some(before.1)
    }

    fn set_index(&self, names: u64) -> usize {
        // CAST: masked below the length, which is a power of two.
        (names & (self.sets.len() as u64 - 1)) as usize
    }
}

/// How well `op` repeats the operation `offset` ago.
fn agreement(history: &History, op: u64, offset: u64) -> Agreement {
    let then = op.checked_sub(offset).and_then(|then| Some((then, history.op(then)?)));
    let (Some((then, was)), Some(is)) = (then, history.op(op)) else { return Agreement::Mismatch };
    if was.symbol != is.symbol {
        return Agreement::Mismatch;
    }
    if was.names == is.names && is.names != 0 {
        return Agreement::Same;
    }
    let lived_then = |age: u32| u64::from(age) >= offset;
    let (mut same, mut asked) = (0, 0);
    for used in history.list(op).filter(|used| lived_then(used.age)).take(COMPARED_MAX) {
        asked += 1;
        same += usize::from(history.list(then).take(COMPARED_MAX).any(|other| other.key == used.key));
    }
    match (same, asked) {
        (_, 0) => Agreement::Silent,
        _ if same * 8 >= asked * 7 => Agreement::Same,
        _ if same * 2 >= asked => Agreement::Partly,
        _ => Agreement::Differs,
    }
}

/// Over how many operations up to `op` the symbols are those of `offset` ago; the begin of the history agrees with everything.
fn context(history: &History, op: u64, offset: u64) -> u64 {
    let symbol = |op: u64| history.op(op).map(|found| found.symbol);
    let agrees = |back: &u64| match op.checked_sub(*back).and_then(|op| Some((op, op.checked_sub(offset)?))) {
        Some((op, then)) => symbol(op).is_some() && symbol(op) == symbol(then),
        None => true,
    };
    (0..CONTEXT_MAX).take_while(agrees).count() as u64
}

/// Over how many operations up to `op` the very allocations came again; the begin of the history agrees with everything.
fn agreed(history: &History, op: u64, offset: u64) -> u64 {
    let agrees = |back: &u64| match op.checked_sub(*back).filter(|op| *op >= offset) {
        Some(op) => matches!(agreement(history, op, offset), Agreement::Same | Agreement::Silent),
        None => true,
    };
    (0..CONTEXT_MAX).take_while(agrees).count() as u64
}

/// The offset nearest to `offset` by which the last two operations repeat what they should.
fn moved(history: &History, op: u64, offset: u64) -> Option<u64> {
    let agrees = |offset: u64| {
        let agrees = |op: u64| !matches!(agreement(history, op, offset), Agreement::Mismatch | Agreement::Differs);
        offset > 0 && agrees(op) && op > 0 && agrees(op - 1)
    };
    (1..=SLIP_MAX.min(offset / 4)).find_map(|by| {
        let nearer = offset.checked_sub(by).filter(|nearer| agrees(*nearer));
        nearer.or_else(|| Some(offset + by).filter(|farther| agrees(*farther)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Item, Key};
    use crate::symbol;

    #[test]
    fn a_stream_that_changes_for_ever_adopts_few_offsets() {
        let (mut history, mut follow) = (History::new(1 << 14), Follow::new());
        let mut past: [Option<(u64, u64)>; 12] = [None; 12];
        let (mut adopted, mut drawn) = (0u64, 1u64);
        let mut most = 0;
        for at in 0..1u64 << 13 {
            // Pieces of one step in an order that is drawn anew: each piece repeats, and nothing longer does.
            if at % 4 == 0 {
                drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            }
            let slot = (drawn >> 33) % 3 * 4 + at % 4;
            let item = Item { key: Key::new(slot as u32, 0), pages: 3 + slot, kind: 0, has_content: false };
            let op = history.begin(symbol::of_list(&[item]), symbol::of_names(&[item]));
            let (last, born) = past[slot as usize].map_or((None, op), |(last, born)| (Some(last), born));
            past[slot as usize] = Some((history.push(&item, symbol::of_item(&item), last, born), born));
            adopted = adopted << 1 | u64::from(follow.hear(&history, op) == Heard::Adopted);
            most = most.max(adopted.count_ones());
        }
        assert!(most > 1 && most <= ADOPTIONS_MAX, "{most} of 64");
    }
}
