//! Tables that leave their frames and come back (memory §4.6). The root stays: contexts name it. Nothing is copied: what
//! tables say is known here and in `space`, so they are written anew. While they are away, what is mapped is counted as
//! ever, and nothing is written.

use ddi::Pte;
use wddm_types::{PhysicalAddress, SegmentId};

use super::{Geometry, PageTable};
use crate::operation::Operation;
use crate::slab::SpaceId;
use crate::tables::{OutOfTables, TableFrames, TableSize};

/// Address of a table that is nowhere.
pub(super) const NOWHERE: PhysicalAddress = PhysicalAddress { segment: SegmentId::SYSTEM, offset: u64::MAX };

impl Geometry {
    fn size(&self, number: usize) -> TableSize {
        let level = self.levels[number];
        TableSize { pages: level.table_pages, alignment_pages: level.alignment_pages }
    }

    /// What a root takes at first; nothing without addresses.
    pub fn root_size(&self) -> TableSize {
        match self.roots.first() {
            Some(step) => TableSize { pages: step.pages, ..self.size(self.root_level()) },
            None => TableSize { pages: 0, alignment_pages: 1 },
        }
    }
}

impl PageTable {
    /// Whether the tables below the root are there.
    pub fn is_resident(&self) -> bool {
        self.resident
    }

    /// Pages of the tables below the root.
    pub fn lower_pages(&self) -> u64 {
        let below = self.levels.iter().take(self.geometry.root_level()).enumerate();
        below.map(|(number, tables)| tables.len() as u64 * self.geometry.size(number).pages).sum()
    }

    /// What the tables below the root take, in the order in which they come back.
    pub fn lower_sizes(&self) -> Vec<TableSize> {
        let below = (0..self.geometry.root_level()).rev();
        below.flat_map(|number| self.levels[number].keys().map(move |_| self.geometry.size(number))).collect()
    }

    /// Where the tables below the root are, in the order in which they give up their frames.
    pub fn lower_places(&self) -> impl Iterator<Item = (PhysicalAddress, u64)> + '_ {
        let below = self.levels.iter().take(self.geometry.root_level()).enumerate();
        below.flat_map(move |(number, tables)| {
            tables.values().map(move |table| (table.address, self.geometry.size(number).pages))
        })
    }

    /// The tables that the pages of these runs lack, in the order in which [`PageTable::cover`] makes them; `None`: more
    /// than `pages_max` pages of them.
    pub fn lacking(&self, runs: &[(u64, u64)], pages_max: u64) -> Option<Vec<TableSize>> {
        self.lacking_coarse(runs, &[], pages_max)
    }

    /// The same where the leaf tables of some runs have room for 64-KB entries beside.
    pub fn lacking_coarse(&self, runs: &[(u64, u64)], coarse: &[bool], pages_max: u64) -> Option<Vec<TableSize>> {
        let shift = self.geometry.levels[0].table_shift;
        let mut made = std::collections::BTreeSet::new();
        let mut sizes = Vec::new();
        for (nth, &(first, count)) in runs.iter().enumerate() {
            let (from, to) = (first >> shift, (first + count - 1) >> shift);
            // A range may be as large as the space: nobody lists tables that there is no room for.
            if to - from >= self.levels[0].range(from..=to).count() as u64 + pages_max {
                return None;
            }
            let absent = self.absent(first, count).into_iter().filter(|table| made.insert(*table));
            let wants = coarse.get(nth).is_some_and(|coarse| *coarse);
            for (number, _) in absent {
                sizes.push(self.geometry.size(number));
                if let (0, true, Some(pages)) = (number, wants, self.geometry.coarse_table_pages()) {
                    sizes.push(TableSize { pages, ..self.geometry.size(0) });
                }
            }
        }
        Some(sizes)
    }

    /// Takes the tables below the root out of their frames: the driver is told of each, from the leaves up, and all its
    /// entries become invalid.
    // spec: memory §4.6
    pub fn evict(&mut self, space: SpaceId, frames: &mut TableFrames) -> Vec<Operation> {
        assert!(self.resident, "tables leave once");
        let root = self.geometry.root_level();
        let mut operations = Vec::new();
        for number in 0..root {
            let level = self.geometry.levels[number];
            operations.extend(self.levels[number].iter().map(|(&prefix, table)| Operation::EvictTable {
                space,
                level: number as u32, // CAST: at most six levels.
                table: table.link().address,
                use_64kb: table.coarse.is_some(),
                count: 1 << (level.table_shift - level.entry_shift),
                first_va: self.first_va(number, prefix),
            }));
        }
        let links = self.levels[root - 1].keys();
        operations.extend(links.map(|&prefix| self.parent_entry(space, root - 1, prefix, Pte::INVALID)));
        for (address, pages) in self.lower_places() {
            frames.give(address, pages);
        }
        for table in self.levels[..root].iter_mut().flat_map(|tables| tables.values_mut()) {
            (table.address, table.large) = (NOWHERE, None);
            // It comes back with 4-KB entries.
            self.spare.extend(table.coarse.take().map(|coarse| (coarse.address, self.geometry.coarse_pages)));
        }
        self.give_spare(frames);
        self.resident = false;
        operations
    }

    /// Brings them back, linked, the entries of pages invalid. Nothing changes on failure.
    // spec: memory §4.6
    pub fn restore(&mut self, space: SpaceId, frames: &mut TableFrames) -> Result<Vec<Operation>, OutOfTables> {
        assert!(!self.resident, "tables come back once");
        if !frames.hold([], &self.lower_sizes()) {
            return Err(OutOfTables);
        }
        let mut operations = Vec::new();
        for number in (0..self.geometry.root_level()).rev() {
            let level = self.geometry.levels[number];
            for table in self.levels[number].values_mut() {
                table.address = frames.take(level.table_pages, level.alignment_pages).expect("there is room for all");
            }
            for (&prefix, table) in &self.levels[number] {
                operations.push(self.fresh(space, number, prefix));
                operations.push(self.parent_entry(space, number, prefix, table.link()));
            }
        }
        self.resident = true;
        Ok(operations)
    }
}
