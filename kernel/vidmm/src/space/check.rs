//! The invariants of address spaces: every page is free or taken once, only taken pages are mapped, and tables have exactly their frames.
//! Called by `invariant`; nothing here changes anything.

use std::collections::BTreeMap;

use wddm_types::PageRun;

use super::{AddressSpaces, Mapping, Space, SpaceKind};
use crate::slab::SpaceId;

impl AddressSpaces {
    /// All spaces.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SpaceId, &Space)> {
        self.spaces.iter()
    }

    /// System pages that spaces and their tables have.
    pub(crate) fn system_pages(&self) -> impl Iterator<Item = PageRun> + '_ {
        let reserves = [SpaceKind::Process, SpaceKind::Paging].into_iter();
        let reserves = reserves.filter_map(|kind| self.frames.peek(kind).in_system());
        self.spaces.iter().filter_map(|(_, space)| space.zero_page).chain(reserves)
    }

    /// Finds a fault in the addresses of spaces.
    // spec: memory §4.8
    pub(crate) fn check_addresses(&self) -> Result<(), String> {
        for (id, space) in self.spaces.iter() {
            if self.geometry.translates() {
                let end = self.end_of(space.kind, &space.table);
                let first = self.begin_of(space.kind).min(end);
                space.check(first, end).map_err(|place| format!("{id:?}: {place}"))?;
            } else if !space.mapped.is_empty() {
                return Err(format!("{id:?} shows what nothing translates"));
            }
        }
        let away = self.spaces.iter().filter(|(_, space)| !space.table.is_resident());
        let away: Vec<&Space> = away.map(|(_, space)| space).collect();
        if away.iter().any(|space| space.is_paging()) {
            return Err("the tables of the paging process are away".into());
        }
        let (away, counted) = (away.len(), self.away);
        if away == counted { Ok(()) } else { Err(format!("the tables of {away} spaces are away, {counted} counted")) }
    }

    /// Finds a fault in the frames of tables.
    pub(crate) fn check_frames(&self) -> Result<(), String> {
        if !self.geometry.translates() {
            return Ok(());
        }
        for kind in [SpaceKind::Process, SpaceKind::Paging] {
            let spaces = self.spaces.iter().filter(|(_, space)| space.kind == kind);
            let frames: Vec<_> = spaces.flat_map(|(_, space)| space.table.frames()).collect();
            let place = |place| format!("tables of {kind:?} spaces: {place}");
            self.frames.peek(kind).check(&frames).map_err(place)?;
        }
        Ok(())
    }

    /// Finds a fault in the tables themselves.
    pub(crate) fn check_tables(&self) -> Result<(), String> {
        if !self.geometry.translates() {
            return Ok(());
        }
        let leaf = self.geometry.leaf_shift();
        self.spaces
            .iter()
            .try_for_each(|(id, space)| space.table.check(id, &space.shown_by_leaf(leaf), space.is_paging()))
    }

    /// Whether entries say zero themselves, for those who walk them.
    #[cfg(test)]
    pub(crate) fn entries_say_zero(&self) -> bool {
        !self.writer.needs_zero_page()
    }

    /// Takes a frame of tables that no table has, for those who test the check.
    #[cfg(test)]
    pub(crate) fn lose_frame(&mut self) {
        let size = crate::page_table::TableSize { level: 0, pages: 1, alignment_pages: 1 };
        self.frames.of(SpaceKind::Process).take(size).expect("a free frame");
    }

    /// Forgets what a space shows, for those who test the check.
    #[cfg(test)]
    pub(crate) fn forget_mappings(&mut self, space: SpaceId) {
        self.spaces[space].mapped.clear();
    }

    /// The tables of a space and their frames, for those who test tables alone.
    #[cfg(test)]
    pub(crate) fn table_and_frames(
        &mut self,
        space: SpaceId,
    ) -> (&mut crate::page_table::PageTable, &mut crate::page_table::TableFrames) {
        let entry = &mut self.spaces[space];
        (&mut entry.table, self.frames.of(entry.kind))
    }
}

impl Space {
    /// Finds a fault in the addresses of a space whose pages `first..end` can be used.
    fn check(&self, first: u64, end: u64) -> Result<(), String> {
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
    fn shown_by_leaf(&self, shift: u32) -> BTreeMap<u64, u64> {
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
