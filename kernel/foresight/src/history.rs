//! What a stream of operations was: each operation with its uses, and each allocation's uses as a chain in both directions.
//!
//! The oldest fall out; whatever is asked about them is answered by `None`.

use std::ops::Range;

use crate::event::{Item, Key};
use crate::ring::Ring;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// What it looks like without names ([`crate::symbol`]).
    pub symbol: u64,
    /// The same for the very names.
    pub names: u64,
    first: u64,
    count: u32,
}

/// One allocation in one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub key: Key,
    pub op: u64,
    pub pages: u64,
    /// What it looks like without its name; the low half.
    pub looks: u32,
    /// Operations since its first use.
    pub age: u32,
    /// Whether the operation has written it, as far as told.
    pub written: bool,
    /// How much of it the plan has out behind this use.
    pub out: Out,
    /// And behind the use that repeats this one.
    pub out_next: Out,
    /// How many uses ago its previous one was; 0: this is its first.
    back: u32,
    after: After,
}

/// How much of an allocation a plan has out between a use and the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Out {
    /// Nothing, or nothing is planned.
    #[default]
    Nothing,
    /// Some pages.
    Partly,
    /// All of it.
    Wholly,
}

#[derive(Clone, Copy, Debug)]
enum After {
    Open,
    /// So many uses on.
    Used(u32),
    /// So many operations on: before the operation that far behind this one.
    Died(u32),
}

/// What came after a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Not known, or not yet.
    Open,
    /// The use of this number, in this operation.
    Used { number: u64, op: u64 },
    /// Death, before this operation.
    Died { op: u64 },
}

/// The operations of one stream.
#[derive(Debug)]
pub(crate) struct History {
    kept_max: usize,
    ops: Ring<Operation>,
    uses: Ring<Use>,
}

impl History {
    /// An empty one that keeps so many operations and so many uses, a power of two: a stream whose step is longer is not recognised.
    pub(crate) fn new(kept_max: usize) -> History {
        History { kept_max, ops: Ring::new(kept_max), uses: Ring::new(kept_max) }
    }

    /// Keeps so many from now on.
    pub(crate) fn keep(&mut self, kept_max: usize) {
        self.kept_max = kept_max;
        self.ops.keep(kept_max);
        self.uses.keep(kept_max);
    }

    /// How many it keeps at most.
    pub(crate) fn kept_max(&self) -> usize {
        self.kept_max
    }

    /// How many operations there were: the number of the next.
    pub(crate) fn operations(&self) -> u64 {
        self.ops.end()
    }

    /// The next operation begins; its uses follow.
    pub(crate) fn begin(&mut self, symbol: u64, names: u64) -> u64 {
        let first = self.uses.end();
        self.ops.push(Operation { symbol, names, first, count: 0 });
        self.ops.end() - 1
    }

    /// The operation that has begun uses an allocation, whose previous use is `last` and whose first was in the operation `born`.
    pub(crate) fn push(&mut self, item: &Item, looks: u64, last: Option<u64>, born: u64) -> u64 {
        let (op, number) = (self.ops.end() - 1, self.uses.end());
        let back = last.map_or(0, |last| u32::try_from(number - last).unwrap_or(0));
        if let Some(before) = last.and_then(|last| self.uses.get_mut(last)) {
            before.after = After::Used(back);
        }
        let age = u32::try_from(op - born).unwrap_or(u32::MAX);
        let Item { key, pages, .. } = *item;
        // CAST: the low half is meant.
        let looks = looks as u32;
        let (out, out_next, after) = (Out::Nothing, Out::Nothing, After::Open);
        self.uses.push(Use { key, op, pages, looks, age, written: false, out, out_next, back, after });
        self.ops.get_mut(op).expect("it has just begun").count += 1;
        number
    }

    /// Whether the use of this number has written.
    pub(crate) fn wrote(&mut self, number: u64, written: bool) {
        if let Some(used) = self.uses.get_mut(number) {
            used.written = written;
        }
    }

    /// A use repeats its twin: as long as nothing else is told it writes if that did, and the plan says of it what it said then.
    pub(crate) fn repeats(&mut self, number: u64, twin: u64) {
        let Some(Use { written, out_next, .. }) = self.uses.get(twin).copied() else { return };
        if let Some(used) = self.uses.get_mut(number) {
            (used.written, used.out, used.out_next) = (written, out_next, out_next);
        }
    }

    /// The plan has so much out behind the use of this number, and behind the one that repeats it.
    pub(crate) fn plan(&mut self, number: u64, out: Option<Out>, out_next: Out) {
        if let Some(used) = self.uses.get_mut(number) {
            (used.out, used.out_next) = (out.unwrap_or(used.out), out_next);
        }
    }

    /// The allocation whose last use this was has died.
    pub(crate) fn died(&mut self, number: u64) {
        let now = self.operations();
        if let Some(used) = self.uses.get_mut(number) {
            used.after = After::Died(u32::try_from(now - used.op).unwrap_or(u32::MAX));
        }
    }

    /// The operation of this number, if it and its uses are kept.
    pub(crate) fn op(&self, op: u64) -> Option<&Operation> {
        self.ops.get(op).filter(|found| found.first >= self.uses.start())
    }

    /// The numbers of an operation's uses.
    pub(crate) fn uses_of(&self, op: u64) -> Option<Range<u64>> {
        self.op(op).map(|found| found.first..found.first + u64::from(found.count))
    }

    /// The use of this number.
    pub(crate) fn used(&self, number: u64) -> Option<&Use> {
        self.uses.get(number)
    }

    /// The uses of an operation; none if it is not kept.
    pub(crate) fn list(&self, op: u64) -> impl Iterator<Item = &Use> {
        self.uses_of(op).unwrap_or(0..0).filter_map(|number| self.uses.get(number))
    }

    /// The previous use of the same allocation.
    pub(crate) fn previous(&self, number: u64) -> Option<u64> {
        let back = self.uses.get(number)?.back;
        let previous = (back != 0).then(|| number - u64::from(back))?;
        (previous >= self.uses.start()).then_some(previous)
    }

    /// What came after a use.
    pub(crate) fn next(&self, number: u64) -> Next {
        let Some(used) = self.uses.get(number) else { return Next::Open };
        match used.after {
            After::Open => Next::Open,
            After::Died(on) => Next::Died { op: used.op + u64::from(on) },
            After::Used(on) => {
                let number = number + u64::from(on);
                self.uses.get(number).map_or(Next::Open, |next| Next::Used { number, op: next.op })
            }
        }
    }

    /// The first use behind the operation `op` of the allocation whose latest use is `last`, looked for over so many uses.
    pub(crate) fn first_behind(&self, last: u64, op: u64, most: u32) -> Option<u64> {
        let mut found = self.uses.get(last).filter(|used| used.op > op).map(|_| last)?;
        for _ in 0..most {
            let Some(previous) = self.previous(found) else { return Some(found) };
            if self.uses.get(previous).is_none_or(|used| used.op <= op) {
                return Some(found);
            }
            found = previous;
        }
        None
    }
}
