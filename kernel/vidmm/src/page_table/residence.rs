//! Tables that leave their frames and come back (memory §4.6). The root stays: contexts name it. Nothing is copied: what
//! tables say is known here and in `space`, so they are written anew. While they are away, what is mapped is counted as
//! ever, and nothing is written.

use ddi::Pte;
use wddm_types::{PhysicalAddress, SegmentId};

use super::{Geometry, Link, PageTable};
use crate::operation::Operation;
use crate::page_table::{OutOfTables, TableFrames, TableSize};
use crate::slab::SpaceId;

/// Address of a table that is nowhere.
pub(super) const NOWHERE: PhysicalAddress = PhysicalAddress { segment: SegmentId::SYSTEM, offset: u64::MAX };

impl Geometry {
    /// The pages that a table of a level takes.
    pub(super) fn size(&self, number: usize) -> TableSize {
        let level = self.levels[number];
        TableSize { level: number, pages: level.table_pages, alignment_pages: level.alignment_pages }
    }

    /// The pages that a root takes at first; none without addresses.
    pub fn root_size(&self) -> TableSize {
        match self.roots.first() {
            Some(_) => self.root_size_of(0),
            None => TableSize { level: 0, pages: 0, alignment_pages: 1 },
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
        below
            .map(|(number, tables)| tables.len() as u64 * self.table_sizes(number).map(|size| size.pages).sum::<u64>())
            .sum()
    }

    /// The pages that the tables below the root take, in the order in which they come back.
    pub fn lower_sizes(&self) -> Vec<TableSize> {
        let below = (0..self.geometry.root_level()).rev();
        below.flat_map(|number| self.levels[number].keys().flat_map(move |_| self.table_sizes(number))).collect()
    }

    /// The pages that a table of a level takes; with dual entries a leaf takes two tables.
    fn table_sizes(&self, number: usize) -> impl Iterator<Item = TableSize> + use<> {
        let size = self.geometry.size(number);
        let coarse = (self.dual && number == 0).then_some(TableSize { pages: self.geometry.coarse_pages, ..size });
        std::iter::once(size).chain(coarse)
    }

    /// Where the tables below the root are, in the order in which they give up their frames.
    pub fn lower_places(&self) -> impl Iterator<Item = (PhysicalAddress, u64)> + '_ {
        let below = self.levels.iter().take(self.geometry.root_level()).enumerate();
        below.flat_map(move |(number, tables)| {
            tables.values().flat_map(move |table| {
                let coarse = table.coarse.iter().filter(|_| self.dual);
                let coarse = coarse.map(|coarse| (coarse.address, self.geometry.coarse_pages));
                std::iter::once((table.address, self.geometry.size(number).pages)).chain(coarse)
            })
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
            // A range may be as large as the space: the loop below lists no tables beyond the room.
            if to - from >= self.levels[0].range(from..=to).count() as u64 + pages_max {
                return None;
            }
            // Only another run may have named a table already.
            let absent = self.absent(first, count).into_iter().filter(|table| runs.len() == 1 || made.insert(*table));
            let wants = coarse.get(nth).is_some_and(|coarse| *coarse);
            for (number, _) in absent {
                sizes.push(self.geometry.size(number));
                if let (0, true, Some(pages)) = (number, wants || self.dual, self.geometry.coarse_table_pages()) {
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
            for (&prefix, table) in &self.levels[number] {
                let leaves = |table, use_64kb| Operation::EvictTable {
                    space,
                    level: number as u32, // CAST: at most six levels.
                    table,
                    use_64kb,
                    halves: self.second_half(number, None).is_some(),
                    count: 1 << (level.table_shift - level.entry_shift),
                    first_va: self.first_va(number, prefix),
                };
                let Link { first, first_64kb } = table.link();
                operations.push(leaves(first.address, table.coarse.is_some() && !self.dual));
                operations.extend(first_64kb.map(|coarse| leaves(coarse.address, true)));
            }
        }
        let links = self.levels[root - 1].keys();
        operations.extend(links.map(|&prefix| self.parent_entry(space, root - 1, prefix, Pte::INVALID.into())));
        for (address, pages) in self.lower_places() {
            debug_assert_ne!(address, NOWHERE, "a table of {space:?} leaves that is away");
            frames.give(address, pages);
        }
        let dual = self.dual;
        for table in self.levels[..root].iter_mut().flat_map(|tables| tables.values_mut()) {
            (table.address, table.large) = (NOWHERE, None);
            if let (true, Some(coarse)) = (dual, &mut table.coarse) {
                coarse.forget();
                coarse.address = NOWHERE;
                continue;
            }
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
            let size = self.geometry.size(number);
            let pairs = self.dual && number == 0;
            for table in self.levels[number].values_mut() {
                debug_assert_eq!(table.address, NOWHERE, "a table of {space:?} comes back that is there");
                debug_assert!(table.large.is_none(), "a large page of {space:?} stands for a table that is away");
                debug_assert_eq!(
                    table.coarse.is_some(),
                    pairs,
                    "what is away of {space:?} has 4-KB entries, or is a pair"
                );
                table.address = frames.take(size).expect("there is room for all");
                if let Some(coarse) = &mut table.coarse {
                    let size = TableSize { pages: self.geometry.coarse_pages, ..size };
                    coarse.address = frames.take(size).expect("there is room for all");
                }
            }
            for (&prefix, table) in &self.levels[number] {
                self.fresh(space, number, prefix, &mut operations);
                operations.push(self.parent_entry(space, number, prefix, table.link()));
            }
        }
        self.resident = true;
        Ok(operations)
    }
}
