//! The invariants of an address space: every page is free or taken once, and only taken pages are mapped. Called
//! by `invariant`; nothing here changes anything.

use std::collections::BTreeMap;

use super::{Mapping, Space};

impl Space {
    /// Finds a fault in the addresses of a space whose pages `first..end` can be used.
    pub(crate) fn check(&self, first: u64, end: u64) -> Result<(), String> {
        self.free.check()?;
        let mut cuts: Vec<(u64, u64, bool)> = self.free.all().iter().map(|gap| (gap.first, gap.end, true)).collect();
        cuts.extend(self.ranges.iter().map(|(&from, range)| (from, range.end, false)));
        cuts.sort_unstable();
        let mut next = first;
        let mut was_free = false;
        for (from, to, free) in cuts {
            if from != next || to <= from {
                return Err(format!("pages {next:#x} to {from:#x} are neither free nor taken, or both"));
            }
            if free && was_free {
                return Err(format!("free addresses that touch at page {from:#x}"));
            }
            (next, was_free) = (to, free);
        }
        if next != end {
            return Err(format!("addresses end at page {next:#x}, not at {end:#x}"));
        }
        let mut last = 0;
        for (&from, mapping) in &self.mapped {
            let run = wddm_types::PageRun { first: from, count: wddm_types::Pages(mapping.pages) };
            if mapping.pages == 0 || from < last || !self.is_taken(run) {
                return Err(format!("page {from:#x} shows {mapping:?} where nothing is taken, or two things"));
            }
            last = run.end();
        }
        Ok(())
    }

    /// Pages that show something, by leaf table of `shift` address bits.
    pub(crate) fn shown_by_leaf(&self, shift: u32) -> BTreeMap<u64, u64> {
        let mut leaves = BTreeMap::new();
        for (&from, &Mapping { pages, .. }) in &self.mapped {
            let (mut page, end) = (from, from + pages);
            while page < end {
                let stop = (((page >> shift) + 1) << shift).min(end);
                *leaves.entry(page >> shift).or_insert(0) += stop - page;
                page = stop;
            }
        }
        leaves
    }
}
