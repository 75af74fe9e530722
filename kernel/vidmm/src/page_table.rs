//! Page tables of one space as VidMm remembers them: which tables exist, where, and how many entries of each are in
//! use. It never reads or writes memory: every change is an UPDATE_PAGE_TABLE operation. Called by `space`.
//!
//! The tables of one level stand in a map keyed by the high bits of the addresses that they cover, so that any number
//! of levels with any index bits (memory §4.3) is one piece of code. A table is made when a range below it is mapped,
//! all its entries invalid, and freed when the last such range is gone (memory §4.6), at the root excepted.

mod check;
mod coarse;
mod copy;
mod dual;
mod entry;
mod frames;
mod geometry;
mod large;
mod platform;
mod residence;
mod root;

use std::collections::BTreeMap;

use ddi::{Pte, PteFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PhysicalAddress, SegmentId};

use crate::paging::Operation;
use crate::slab::SpaceId;
pub(crate) use coarse::{COARSE_PAGES, is_coarse_run};
use coarse::{Coarse, leaf_update};
pub(crate) use entry::LeafEntry;
pub use frames::{OutOfTables, SpaceKind};
pub(crate) use frames::{TableFrames, TableSize, TableSources, reserve_of, table_sources};
pub(crate) use geometry::Geometry;
use residence::NOWHERE;
pub(crate) use root::{NewRoot, RootLength};

#[derive(Clone, Debug)]
struct Table {
    address: PhysicalAddress,
    /// Leaf: mapped pages. Above: tables below.
    used: u64,
    /// Leaf: the entry above names memory, beginning with this entry's, instead of this table.
    large: Option<LeafEntry>,
    /// Leaf: it has 64-KB entries and stands elsewhere; `address` is kept for its conversion. With dual entries both stand.
    coarse: Option<Box<Coarse>>,
}

/// An entry above the leaf, and with dual entries its second half.
#[derive(Clone, Copy, Debug)]
struct Link {
    first: Pte,
    first_64kb: Option<Pte>,
}

impl From<Pte> for Link {
    fn from(first: Pte) -> Link {
        Link { first, first_64kb: None }
    }
}

impl Table {
    fn new(address: PhysicalAddress) -> Table {
        Table { address, used: 0, large: None, coarse: None }
    }

    /// The entry above that leads here.
    fn link(&self) -> Link {
        let to = |address| Pte { flags: PteFlags::VALID, address };
        match &self.coarse {
            Some(coarse) if coarse.dual.is_some() => {
                Link { first: to(self.address), first_64kb: Some(to(coarse.address)) }
            }
            Some(coarse) => Pte { flags: PteFlags::VALID | PteFlags::LEAF_64KB, address: coarse.address }.into(),
            None => to(self.address).into(),
        }
    }
}

/// The tables of one space.
#[derive(Debug)]
pub(crate) struct PageTable {
    geometry: Geometry,
    levels: Vec<BTreeMap<u64, Table>>,
    root: PhysicalAddress,
    /// The tables below the root have frames.
    resident: bool,
    /// Leaf tables come in pairs, one of each form.
    dual: bool,
    /// How long the root is.
    root_step: usize,
    /// Room of tables that nothing leads to any more, and its pages: it goes back at the next occasion.
    spare: Vec<(PhysicalAddress, u64)>,
}

impl PageTable {
    /// Takes room for a root that reaches page `end`.
    pub fn new(geometry: &Geometry, kind: SpaceKind, end: u64, frames: &mut TableFrames) -> Result<Self, OutOfTables> {
        // The paging process maps by 4 KB always: its tables are alone.
        let dual = geometry.dual && kind == SpaceKind::Process;
        if !geometry.translates() {
            let root = PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 };
            let (geometry, levels) = (geometry.clone(), Vec::new());
            return Ok(PageTable { geometry, levels, root, resident: true, dual, root_step: 0, spare: Vec::new() });
        }
        if geometry.is_platforms() {
            return Ok(PageTable::of_platform(geometry));
        }
        let root_step = geometry.root_step(end);
        let root = frames.take(geometry.root_size_of(root_step)).ok_or(OutOfTables)?;
        let mut levels = vec![BTreeMap::new(); geometry.levels.len()];
        levels[geometry.root_level()].insert(0, Table::new(root));
        let geometry = geometry.clone();
        Ok(PageTable { geometry, levels, root, resident: true, dual, root_step, spare: Vec::new() })
    }

    /// Makes all entries of the root invalid: the first write of a space, if it has a root.
    pub fn initialize(&self, space: SpaceId) -> Vec<Operation> {
        let mut operations = Vec::new();
        if self.geometry.translates() && !self.geometry.is_platforms() {
            self.fresh(space, self.geometry.root_level(), 0, &mut operations);
        }
        operations
    }

    /// All tables anew, the root first: their memory has lost them. Entries of pages are invalid afterwards.
    // spec: memory §4.7, memory §8.4
    pub fn rebuild(&mut self, space: SpaceId) -> Vec<Operation> {
        if !self.resident || self.geometry.is_platforms() {
            return self.initialize(space);
        }
        for table in self.levels.iter_mut().take(1).flat_map(BTreeMap::values_mut) {
            table.large = None;
            if let Some(coarse) = &mut table.coarse {
                coarse.forget();
            }
        }
        let mut operations = Vec::new();
        for number in (0..self.levels.len()).rev() {
            for (&prefix, table) in &self.levels[number] {
                self.fresh(space, number, prefix, &mut operations);
                if number < self.geometry.root_level() {
                    operations.push(self.parent_entry(space, number, prefix, table.link()));
                }
            }
        }
        operations
    }

    /// Address of the root.
    pub fn root(&self) -> PhysicalAddress {
        self.root
    }

    /// Makes the tables that translate `count` pages from page `first` and counts these pages as used. Nothing changes on
    /// failure. While tables are away they are only counted; the caller has checked that all would fit. `coarse`: new leaf
    /// tables have 64-KB entries, if this adapter has any, and are linked by the work of this number.
    pub fn cover(
        &mut self,
        space: SpaceId,
        first: u64,
        count: u64,
        coarse: Option<u64>,
        frames: &mut TableFrames,
    ) -> Result<Vec<Operation>, OutOfTables> {
        self.give_spare(frames);
        debug_assert!(count > 0 && first + count <= self.geometry.space_pages(), "{count:#x} pages from {first:#x} on");
        if !self.resident {
            for (number, prefix) in self.absent(first, count) {
                let mut table = Table::new(NOWHERE);
                table.coarse = (self.dual && number == 0).then(|| self.new_coarse(NOWHERE, 0));
                self.levels[number].insert(prefix, table);
                self.parent(number, prefix).used += 1;
            }
            self.count_leaves(first, count, |used, pages| *used += pages);
            return Ok(Vec::new());
        }
        let shift = self.geometry.levels[0].table_shift;
        let (from, to) = (first >> shift, (first + count - 1) >> shift);
        // A range may be as large as the space: the loop below lists no tables beyond the free pages.
        if to - from >= self.levels[0].range(from..=to).count() as u64 + frames.leaf_free_pages() {
            return Err(OutOfTables);
        }
        let absent = self.absent(first, count);
        let coarse = if self.dual { Some(0) } else { coarse };
        let coarse = coarse.zip(self.geometry.coarse_table_pages());
        let mut wanted = Vec::with_capacity(absent.len());
        for &(number, _) in &absent {
            let size = self.geometry.size(number);
            wanted.push(size);
            if let (0, Some((_, pages))) = (number, coarse) {
                wanted.push(TableSize { pages, ..size });
            }
        }
        let mut taken = frames.take_all(&wanted)?.into_iter();
        let mut operations = Vec::with_capacity(absent.len() * 2);
        for &(number, prefix) in &absent {
            let mut table = Table::new(taken.next().expect("one for each"));
            if let (0, Some((serial, _))) = (number, coarse) {
                table.coarse = Some(self.new_coarse(taken.next().expect("two for a leaf"), serial));
            }
            let link = table.link();
            self.levels[number].insert(prefix, table);
            self.fresh(space, number, prefix, &mut operations);
            operations.push(self.parent_entry(space, number, prefix, link));
            self.parent(number, prefix).used += 1;
        }
        debug_assert!(taken.next().is_none(), "frames are taken for no table");
        self.count_leaves(first, count, |used, pages| *used += pages);
        Ok(operations)
    }

    /// Counts pages as unused and frees the tables that have no used entry left. Their entries are already invalid.
    pub fn uncover(&mut self, space: SpaceId, first: u64, count: u64, frames: &mut TableFrames) -> Vec<Operation> {
        self.give_spare(frames);
        self.count_leaves(first, count, |used, pages| *used -= pages);
        let mut operations = Vec::new();
        for number in 0..self.geometry.root_level() {
            let shift = self.geometry.levels[number].table_shift;
            let span = first >> shift..=(first + count - 1) >> shift;
            let empty: Vec<u64> = self.levels[number]
                .range(span)
                .filter(|(_, table)| table.used == 0)
                .map(|(prefix, _)| *prefix)
                .collect();
            for prefix in empty {
                let link = self.resident.then(|| self.parent_entry(space, number, prefix, Pte::INVALID.into()));
                let table = self.levels[number].remove(&prefix).expect("it was just listed");
                if let Some(link) = link {
                    operations.push(link);
                }
                self.give_table(number, table, frames);
                self.parent(number, prefix).used -= 1;
            }
        }
        operations
    }

    /// Gives every table back, the root too.
    pub fn destroy(mut self, frames: &mut TableFrames) {
        self.give_spare(frames);
        for (number, tables) in std::mem::take(&mut self.levels).into_iter().enumerate() {
            tables.into_values().for_each(|table| self.give_table(number, table, frames));
        }
    }

    fn give_table(&self, number: usize, table: Table, frames: &mut TableFrames) {
        if table.address != NOWHERE {
            frames.give(table.address, self.table_pages(number));
        }
        if let Some(coarse) = table.coarse.filter(|coarse| coarse.address != NOWHERE) {
            frames.give(coarse.address, self.geometry.coarse_pages);
        }
    }

    /// Pages of a table of a level.
    fn table_pages(&self, number: usize) -> u64 {
        if number == self.geometry.root_level() { self.root_pages() } else { self.geometry.levels[number].table_pages }
    }

    /// Gives back the room that nothing leads to any more.
    pub fn give_spare(&mut self, frames: &mut TableFrames) {
        for (address, pages) in self.spare.drain(..) {
            frames.give(address, pages);
        }
    }

    /// Writes the entries of `count` covered pages from page `first`, none of them under a large page. One operation per
    /// leaf table.
    pub fn write_small(
        &self,
        space: SpaceId,
        first: u64,
        count: u64,
        entry: LeafEntry,
        operations: &mut Vec<Operation>,
    ) {
        if self.geometry.is_platforms() {
            operations.push(platform::update(space, first, count, entry));
            return;
        }
        debug_assert!(self.resident, "entries of page {first:#x} are written in a table that is away");
        let shift = self.geometry.levels[0].table_shift;
        let (mut page, end, mut next) = (first, first + count, entry);
        while page < end {
            let stop = (((page >> shift) + 1) << shift).min(end);
            let table = &self.levels[0][&(page >> shift)];
            debug_assert!(table.large.is_none(), "entries of page {page:#x} are written below a large page");
            let index = page & ((1 << shift) - 1);
            operations.push(leaf_update(space, table.address, (page, index, stop - page), next, false));
            next = next.advanced(stop - page);
            page = stop;
        }
    }

    /// The tables above `count` pages that do not exist, from the root down.
    fn absent(&self, first: u64, count: u64) -> Vec<(usize, u64)> {
        let mut absent = Vec::new();
        for number in (0..self.geometry.root_level()).rev() {
            let shift = self.geometry.levels[number].table_shift;
            let (from, to) = (first >> shift, (first + count - 1) >> shift);
            let mut next = from;
            for (&prefix, _) in self.levels[number].range(from..=to) {
                absent.extend((next..prefix).map(|prefix| (number, prefix)));
                next = prefix + 1;
            }
            absent.extend((next..=to).map(|prefix| (number, prefix)));
        }
        absent
    }

    fn count_leaves(&mut self, first: u64, count: u64, change: impl Fn(&mut u64, u64)) {
        let shift = self.geometry.levels[0].table_shift;
        let end = first + count;
        for (prefix, table) in self.levels[0].range_mut(first >> shift..=(end - 1) >> shift) {
            let from = first.max(prefix << shift);
            let to = end.min((prefix + 1) << shift);
            change(&mut table.used, to - from);
        }
    }

    fn parent(&mut self, number: usize, prefix: u64) -> &mut Table {
        let (up, _) = self.up(number, prefix);
        self.levels[number + 1].get_mut(&up).expect("a table has a parent")
    }

    /// Prefix of the parent and index within it.
    fn up(&self, number: usize, prefix: u64) -> (u64, u32) {
        let bits = self.geometry.levels[number + 1].table_shift - self.geometry.levels[number].table_shift;
        // CAST: an index has at most 31 bits.
        (prefix >> bits, (prefix & ((1 << bits) - 1)) as u32)
    }

    fn parent_entry(&self, space: SpaceId, number: usize, prefix: u64, link: Link) -> Operation {
        let (up, index) = self.up(number, prefix);
        Operation::UpdatePageTable {
            space,
            level: number as u32 + 1, // CAST: at most six levels.
            table: self.levels[number + 1][&up].address,
            start_index: index,
            count: 1,
            first: link.first,
            first_64kb: self.second_half(number + 1, link.first_64kb),
            repeat: false,
            initial: false,
            use_64kb: false,
            first_va: self.first_va(number, prefix),
            behind: None,
            driver_protection: 0,
            native_fence: false,
        }
    }

    /// All entries of a new table become invalid, or of both.
    fn fresh(&self, space: SpaceId, number: usize, prefix: u64, operations: &mut Vec<Operation>) {
        let table = &self.levels[number][&prefix];
        let coarse = table.coarse.as_ref().map(|coarse| coarse.address);
        if coarse.is_none() || self.dual {
            operations.push(self.fresh_one(space, number, prefix, (table.address, false)));
        }
        operations.extend(coarse.map(|coarse| self.fresh_one(space, number, prefix, (coarse, true))));
    }

    fn fresh_one(
        &self,
        space: SpaceId,
        number: usize,
        prefix: u64,
        (table, use_64kb): (PhysicalAddress, bool),
    ) -> Operation {
        let level = self.geometry.levels[number];
        Operation::UpdatePageTable {
            space,
            level: number as u32, // CAST: at most six levels.
            table,
            use_64kb,
            start_index: 0,
            count: match number == self.geometry.root_level() {
                true => self.root_entries(),
                false => 1 << (level.table_shift - level.entry_shift),
            },
            first: Pte::INVALID,
            first_64kb: self.second_half(number, None),
            repeat: true,
            initial: true,
            first_va: self.first_va(number, prefix),
            behind: None,
            driver_protection: 0,
            native_fence: false,
        }
    }

    /// The second half of entries of a level, where they have one.
    // spec: memory §4.5
    fn second_half(&self, number: usize, first_64kb: Option<Pte>) -> Option<Pte> {
        (self.geometry.dual && number == 1).then(|| first_64kb.unwrap_or(Pte::INVALID))
    }

    fn first_va(&self, number: usize, prefix: u64) -> GpuVa {
        GpuVa((prefix << self.geometry.levels[number].table_shift) * PAGE_BYTES)
    }
}
