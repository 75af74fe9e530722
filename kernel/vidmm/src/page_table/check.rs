//! The invariants of the tables of a space: each has a parent, counts what is below it, and has room of its own. Called by `invariant`;
//! nothing here changes anything.

use std::collections::BTreeMap;

use wddm_types::{PageRun, PhysicalAddress};

use super::residence::NOWHERE;
use super::{Geometry, PageTable};
use crate::slab::SpaceId;

impl Geometry {
    /// Address bits of a leaf table, in pages.
    pub(crate) fn leaf_shift(&self) -> u32 {
        self.levels[0].table_shift
    }
}

impl PageTable {
    /// Where the tables are that are there, with their pages.
    pub(crate) fn frames(&self) -> Vec<(PhysicalAddress, u64)> {
        let tables = self.levels.iter().enumerate();
        let own = tables
            .flat_map(|(number, tables)| tables.values().map(move |table| (table.address, self.table_pages(number))));
        let leaves = self.levels.iter().take(1).flat_map(BTreeMap::values).filter_map(|table| table.coarse.as_ref());
        let coarse = leaves.map(|coarse| (coarse.address, self.geometry.coarse_pages));
        let all = own.chain(coarse).chain(self.spare.iter().copied());
        all.filter(|(address, _)| *address != NOWHERE).collect()
    }

    /// The leaf table that translates a page, and its pages.
    pub(crate) fn leaf_of(&self, page: u64) -> (PhysicalAddress, u64) {
        let level = self.geometry.levels[0];
        (self.levels[0][&(page >> level.table_shift)].address, level.table_pages)
    }

    /// Those that translate a run, in order.
    pub(crate) fn leaves_of(&self, run: PageRun) -> Vec<(PhysicalAddress, u64)> {
        let shift = self.geometry.leaf_shift();
        let prefixes = run.first >> shift..=(run.end() - 1) >> shift;
        prefixes.map(|prefix| self.leaf_of(prefix << shift)).collect()
    }

    /// Forgets what a leaf counts, for those who test the check.
    #[cfg(test)]
    pub(crate) fn miscount(&mut self, page: u64) {
        let prefix = page >> self.geometry.leaf_shift();
        self.levels[0].get_mut(&prefix).expect("a table").used = 0;
    }

    /// Finds a fault in the tables of a space. `exact`: leaf tables count the mapped pages and no others. Updates that wait for their turn,
    /// and the scratch area, count pages that show nothing yet. `shown`: how many pages show something, by leaf table.
    pub(crate) fn check(&self, space: SpaceId, shown: &BTreeMap<u64, u64>, exact: bool) -> Result<(), String> {
        if self.geometry.is_platforms() {
            return self.check_platforms(space, shown, exact);
        }
        if !self.geometry.translates() {
            let empty = self.levels.iter().all(BTreeMap::is_empty);
            return if empty { Ok(()) } else { Err(format!("{space:?} has tables, and nothing is translated")) };
        }
        let root = self.geometry.root_level();
        if self.levels[root].len() != 1 || self.levels[root].get(&0).is_none_or(|table| table.address != self.root) {
            return Err(format!("{space:?} has no root, or two"));
        }
        let away = self.levels[..root].iter().flat_map(BTreeMap::values).any(|table| table.address == NOWHERE);
        let there = self.levels[..root].iter().flat_map(BTreeMap::values).any(|table| table.address != NOWHERE);
        if self.resident && away || !self.resident && there {
            return Err(format!("{space:?} has some of its tables, and not all"));
        }
        let beyond = self.levels[root - 1].keys().next_back().filter(|last| **last >= u64::from(self.root_entries()));
        if let Some(prefix) = beyond {
            return Err(format!("{space:?}: the root of {} entries does not reach {prefix:#x}", self.root_entries()));
        }
        for number in 0..root {
            let bits = self.geometry.levels[number + 1].table_shift - self.geometry.levels[number].table_shift;
            let mut below: BTreeMap<u64, u64> = BTreeMap::new();
            for &prefix in self.levels[number].keys() {
                *below.entry(prefix >> bits).or_insert(0) += 1;
            }
            for (prefix, table) in &self.levels[number + 1] {
                let children = below.remove(prefix).unwrap_or(0);
                if table.used != children {
                    return Err(format!("{space:?}, level {}: {} used, {children} there", number + 1, table.used));
                }
            }
            if let Some(prefix) = below.keys().next() {
                return Err(format!("{space:?}, level {number}: tables below {prefix:#x} without a parent"));
            }
        }
        for (prefix, pages) in shown {
            let used = self.levels[0].get(prefix).map(|table| table.used);
            if used.is_none_or(|used| used < *pages || exact && used != *pages) {
                return Err(format!("{space:?}, leaf {prefix:#x}: {pages} pages are shown, {used:?} counted"));
            }
        }
        match self.levels[0].iter().find(|(prefix, table)| table.used == 0 || exact && !shown.contains_key(prefix)) {
            Some((prefix, _)) => Err(format!("{space:?}: leaf {prefix:#x} has nothing to translate")),
            None => Ok(()),
        }
    }
}
