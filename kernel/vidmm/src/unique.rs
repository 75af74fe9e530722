//! Driver protections that must be the same wherever a range of an allocation is mapped (memory §4.11). Called by
//! `mapping` and `update`.

use std::collections::BTreeMap;

/// `D3DGPU_UNIQUE_DRIVER_PROTECTION` (memory §0).
pub(crate) const UNIQUE: u64 = 1 << 63;

/// The ranges of one allocation, in pages, that have such a protection: first to one past the last, and the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct UniqueProtections(BTreeMap<u64, (u64, u64)>);

impl UniqueProtections {
    /// Whether mapping `first..end` with this value keeps the rule.
    pub fn allow(&self, first: u64, end: u64, value: u64) -> bool {
        self.overlapping(first, end).all(|(_, _, known)| known == value)
    }

    /// Notes a mapping; only values with the top bit are kept.
    pub fn note(&mut self, first: u64, end: u64, value: u64) {
        if value & UNIQUE != 0 {
            self.forget(first, end);
            self.0.insert(first, (end, value));
        }
    }

    /// A NoAccess map took these pages away.
    pub fn forget(&mut self, first: u64, end: u64) {
        let hit: Vec<_> = self.overlapping(first, end).collect();
        for (from, to, value) in hit {
            self.0.remove(&from);
            if from < first {
                self.0.insert(from, (first, value));
            }
            if end < to {
                self.0.insert(end, (to, value));
            }
        }
        let left = self.overlapping(first, end).next();
        debug_assert!(left.is_none(), "pages {first} to {end} are taken away, and {left:?} is kept");
    }

    fn overlapping(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let hit = move |&(_, to, _): &(u64, u64, u64)| first < to;
        self.0.range(..end).map(|(&from, &(to, value))| (from, to, value)).filter(hit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: memory §4.11
    #[test]
    fn a_range_keeps_its_value_until_it_is_forgotten() {
        let mut unique = UniqueProtections::default();
        unique.note(0, 10, 5);
        assert!(unique.allow(0, 10, 6), "without the top bit nothing is kept");
        unique.note(2, 8, UNIQUE | 1);
        assert!(unique.allow(0, 2, 7) && unique.allow(8, 10, 7) && unique.allow(0, 10, UNIQUE | 1));
        assert!(!unique.allow(7, 9, 0) && !unique.allow(2, 3, UNIQUE | 2));
        unique.forget(3, 5);
        assert!(unique.allow(3, 5, 0) && !unique.allow(2, 3, 0) && !unique.allow(5, 6, 0));
    }
}
