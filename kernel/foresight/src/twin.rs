//! Which use of an operation repeats which use of the one an offset ago: its *twin*.
//!
//! First what the last match already told to await, then equal allocations, then new ones in the order of the lists by size. What is not
//! found has no twin.

use crate::history::History;
use crate::trail::Trails;

/// Earlier uses that are compared with each.
const COMPARED_MAX: usize = 64;

/// The matches of one operation; kept so that nothing is allocated.
#[derive(Debug, Default)]
pub(crate) struct Twins {
    /// For each use of the operation, the number of its twin.
    of: Vec<Option<u64>>,
    /// For each use of the earlier one, whether it is a twin already.
    taken: Vec<bool>,
}

impl Twins {
    /// For each use of the last operation, in order, its twin.
    pub(crate) fn found(&self) -> &[Option<u64>] {
        &self.of
    }

    /// Matches the uses of `op` with those of `then`.
    pub(crate) fn find(&mut self, history: &History, trails: &Trails, op: u64, then: u64) {
        let (Some(now), Some(past)) = (history.uses_of(op), history.uses_of(then)) else {
            self.of.clear();
            return;
        };
        let key_of = |number: u64| history.used(number).expect("its operation is kept").key;
        self.taken.clear();
        // CAST: the length of a list.
        self.taken.resize((past.end - past.start) as usize, false);
        self.of.clear();
        for number in now.clone() {
            let awaited = trails.get(key_of(number)).and_then(|trail| trail.awaits);
            let awaited = awaited.filter(|twin| past.contains(twin));
            let twin = awaited.or_else(|| {
                let mut compared = past.clone().take(COMPARED_MAX);
                compared.find(|twin| key_of(*twin) == key_of(number))
            });
            let twin = twin.filter(|twin| take(&mut self.taken, twin - past.start));
            self.of.push(twin);
        }
        let mut from = past.start;
        for (index, number) in now.enumerate() {
            if self.of[index].is_some() {
                continue;
            }
            let used = history.used(number).expect("its operation is kept");
            let alike = |twin: &u64| {
                let other = history.used(*twin).expect("its operation is kept");
                other.looks == used.looks && (other.age == 0) == (used.age == 0)
            };
            while from < past.end && self.taken[(from - past.start) as usize] {
                from += 1;
            }
            let mut free = (from..past.end).take(COMPARED_MAX).filter(|twin| !self.taken[(twin - past.start) as usize]);
            self.of[index] = free.find(alike);
            if let Some(twin) = self.of[index] {
                take(&mut self.taken, twin - past.start);
            }
        }
    }
}

/// Takes a twin; `false` if it is taken.
fn take(taken: &mut [bool], index: u64) -> bool {
    // CAST: an index of the list.
    !std::mem::replace(&mut taken[index as usize], true)
}
