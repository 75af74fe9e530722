//! The entries of leaf tables, linked or not. A table that is written before it is linked, as in a conversion, changes no
//! translation until the entry above names it; then all of it is translated at once. Copied entries say what the source
//! says at that moment. Where an entry above names two tables, one of 4-KB entries and one of 64-KB entries, each 64 KB is
//! valid in one of them at most. Part of the frames model.

use std::collections::BTreeMap;

use ddi::{CopyEntries, KmdProcess};
use wddm_types::{GpuVa, PAGE_BYTES};

use super::{Frame, Frames, Spot, at, name};
use crate::check::contract::{Broken, Contract};

/// Pages behind a 64-KB entry.
const COARSE_PAGES: u64 = 16;

/// A leaf table.
#[derive(Debug)]
pub(super) struct Leaf {
    process: KmdProcess,
    /// The page that its first entry translates.
    base: u64,
    /// Its entries stand for 64 KB each.
    pub(super) coarse: bool,
    /// The entry above names it.
    linked: bool,
    /// The table of the other form that the same entry names.
    beside: Option<Frame>,
    /// By page from `base` on.
    entries: BTreeMap<u64, Frame>,
}

/// One run of entries: from page `va` of the space on, `index` of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) process: KmdProcess,
    pub(super) va: u64,
    pub(super) index: u64,
    pub(super) count: u64,
    pub(super) target: Option<Frame>,
    pub(super) repeat: bool,
    pub(super) coarse: bool,
    pub(super) initial: bool,
}

impl Leaf {
    pub(super) fn is_of(&self, process: KmdProcess) -> bool {
        self.process == process
    }
}

impl Frames {
    /// Entries of a leaf table are written.
    // spec: memory §3.4, operation 11, memory §4.5
    pub(super) fn write_leaf(&mut self, table: Frame, run: Run, contract: &Contract) -> Result<(), Broken> {
        let Run { process, va, index, count, target, repeat, coarse, initial } = run;
        let base = va.checked_sub(index).ok_or_else(|| format!("the table at {} begins below 0", at(table)))?;
        if initial || !self.leaves.contains_key(&table) {
            let leaf = Leaf { process, base, coarse, linked: false, beside: None, entries: BTreeMap::new() };
            self.leaves.insert(table, leaf);
        }
        let leaf = &self.leaves[&table];
        if (leaf.process, leaf.base, leaf.coarse) != (process, base, coarse) {
            return Err(format!(
                "entries of {process:?} (64 KB: {coarse}) from page {base:#x} on into the table at {}, which is {:?}'s (64 KB: {}) from {:#x} on",
                at(table),
                leaf.process,
                leaf.coarse,
                leaf.base
            ));
        }
        if coarse {
            let whole = |pages: u64| pages.is_multiple_of(COARSE_PAGES);
            if !whole(index) || !whole(count) || target.is_some_and(|(_, page)| !whole(page) || repeat) {
                return Err(format!("a part of a 64-KB entry in the table at {}", at(table)));
            }
        }
        for page in 0..count {
            let target = target.map(|(segment, first)| (segment, if repeat { first } else { first + page }));
            self.set_leaf(table, index + page, target, contract)?;
        }
        Ok(())
    }

    fn set_leaf(&mut self, table: Frame, index: u64, target: Option<Frame>, contract: &Contract) -> Result<(), Broken> {
        let leaf = self.leaves.get_mut(&table).expect("the caller has seen it");
        match target {
            Some(frame) => leaf.entries.insert(index, frame),
            None => leaf.entries.remove(&index),
        };
        let (spot, linked) = ((leaf.process, leaf.base + index), leaf.linked);
        match (linked, target) {
            (true, Some(_)) => {
                self.only_form(table, index)?;
                self.translate(spot, target, contract)
            }
            (true, None) if self.is_said_beside(table, index) => Ok(()),
            (true, None) => self.translate(spot, None, contract),
            (false, Some(frame)) => self.may_name(spot, frame, contract),
            (false, None) => Ok(()),
        }
    }

    /// An entry above the leaves names this table from now on: what it translates is what the table says, or that
    /// beside it.
    // spec: memory §4.5
    pub(super) fn link_leaf(
        &mut self,
        table: Frame,
        (process, va): Spot,
        (coarse, beside): (bool, Option<Frame>),
        contract: &Contract,
    ) -> Result<(), Broken> {
        let Some(leaf) = self.leaves.get_mut(&table) else {
            return Err(format!("{process:?} links {} as a leaf table, which was never initialised", at(table)));
        };
        if (leaf.process, leaf.base, leaf.coarse) != (process, va, coarse) {
            return Err(format!(
                "{} is linked as a table of {process:?} from page {va:#x} on, 64 KB: {coarse}; it is {:?}'s from {:#x} on, 64 KB: {}",
                at(table),
                leaf.process,
                leaf.base,
                leaf.coarse
            ));
        }
        (leaf.linked, leaf.beside) = (true, beside);
        let said: Vec<(u64, Frame)> = leaf.entries.iter().map(|(index, frame)| (va + index, *frame)).collect();
        if let Some(beside) = beside.and_then(|beside| self.leaves.get_mut(&beside)) {
            beside.beside = Some(table);
        }
        said.iter().try_for_each(|(page, _)| self.only_form(table, page - va))?;
        let end = va + self.coverage(1) / PAGE_BYTES;
        let before: Vec<u64> = self.live.range((process, va)..(process, end)).map(|((_, page), _)| *page).collect();
        for page in before {
            if !self.is_said_beside(table, page - va) && said.iter().all(|(known, _)| *known != page) {
                self.translate((process, page), None, contract)?;
            }
        }
        said.into_iter().try_for_each(|(page, frame)| self.translate((process, page), Some(frame), contract))
    }

    /// Whether the table beside this one translates a page.
    fn is_said_beside(&self, table: Frame, index: u64) -> bool {
        self.beside(table).is_some_and(|beside| beside.entries.contains_key(&index))
    }

    /// Of the 64 KB around a page the table beside this one translates nothing.
    // spec: memory §4.5, only one of the two forms is valid at any time
    fn only_form(&self, table: Frame, index: u64) -> Result<(), Broken> {
        let first = index / COARSE_PAGES * COARSE_PAGES;
        match self.beside(table).and_then(|beside| beside.entries.range(first..first + COARSE_PAGES).next()) {
            Some((taken, _)) => Err(format!(
                "page {index:#x} of the table at {} is valid, and page {taken:#x} of the other form beside it",
                at(table)
            )),
            None => Ok(()),
        }
    }

    fn beside(&self, table: Frame) -> Option<&Leaf> {
        self.leaves.get(&self.leaves.get(&table)?.beside?)
    }

    /// Ends all translations of a leaf table.
    pub(super) fn hide_leaf(&mut self, table: Frame, contract: &Contract) -> Result<(), Broken> {
        let Some(leaf) = self.leaves.get(&table) else { return Ok(()) };
        let spots: Vec<Spot> = leaf.entries.keys().map(|index| (leaf.process, leaf.base + index)).collect();
        spots.into_iter().try_for_each(|spot| self.translate(spot, None, contract))
    }

    /// A leaf table is none any more.
    pub(super) fn leaf_gone(&mut self, table: Frame) {
        let beside = self.leaves.remove(&table).and_then(|leaf| leaf.beside);
        if let Some(other) = beside.and_then(|beside| self.leaves.get_mut(&beside)) {
            other.beside = None;
        }
    }

    /// A page of a process leads to this frame from now on.
    pub(super) fn translate(&mut self, spot: Spot, target: Option<Frame>, contract: &Contract) -> Result<(), Broken> {
        let before = self.live.get(&spot).copied();
        if let Some(old) = before
            && Some(old) != target
        {
            self.live.remove(&spot);
            self.leaves_ahead(spot, old);
            if !self.stale.insert((spot, old)) {
                self.unreach(spot, old);
            }
        }
        let Some(frame) = target else { return Ok(()) };
        self.may_name(spot, frame, contract)?;
        if contract.is_system(spot.0) && self.shows_words {
            self.show_words(spot, before, frame)?;
        }
        if self.live.insert(spot, frame).is_none() {
            *self.reached.entry(frame).or_default().entry(spot).or_insert(0) += 1;
        }
        Ok(())
    }

    /// Entries are copied from table to table, which the paging process sees through its windows.
    // spec: memory §3.4, operation 14
    pub(super) fn copy_entries(&mut self, range: &CopyEntries, contract: &Contract) -> Result<(), Broken> {
        let (source, target) = (self.window(range.source_table, contract)?, self.window(range.target_table, contract)?);
        for table in [source, target] {
            let leaf = self.leaves.get(&table).ok_or_else(|| format!("{} is copied as a leaf table", at(table)))?;
            if leaf.coarse {
                return Err(format!("entries of the table of 64-KB entries at {} are copied", at(table)));
            }
        }
        if self.leaves[&source].process != self.leaves[&target].process {
            return Err(format!("entries are copied from {} to another process's {}", at(source), at(target)));
        }
        let entries = u64::from(self.entries(0, self.leaves[&source].process)?);
        let (from, to, count) = (u64::from(range.source_start), u64::from(range.target_start), u64::from(range.count));
        if from + count > entries || to + count > entries {
            return Err(format!("{count} entries from {from} to {to} are copied, of tables of {entries}"));
        }
        let copied: Vec<Option<Frame>> =
            (from..from + count).map(|index| self.leaves[&source].entries.get(&index).copied()).collect();
        for (index, frame) in (to..).zip(copied) {
            let leaf = &self.leaves[&target];
            self.copied.insert((leaf.process, leaf.base + index));
            self.set_leaf(target, index, frame, contract)?;
        }
        Ok(())
    }

    /// Whether an entry was copied last there, and not written.
    pub fn was_copied(&self, process: KmdProcess, va: GpuVa, count: u32) -> bool {
        let page = va.0 / PAGE_BYTES;
        self.copied.range((process, page)..(process, page + u64::from(count))).next().is_some()
    }

    /// The frame that the paging process sees at a window.
    fn window(&self, va: GpuVa, contract: &Contract) -> Result<Frame, Broken> {
        if !va.0.is_multiple_of(COARSE_PAGES * PAGE_BYTES) {
            return Err(format!("a table is copied at {va:?}, which is not on 64 KB"));
        }
        let spot = (contract.system().ok_or("there is no paging process")?, va.0 / PAGE_BYTES);
        self.live.get(&spot).copied().ok_or_else(|| format!("a table is copied where nothing is: {}", name(spot)))
    }
}
