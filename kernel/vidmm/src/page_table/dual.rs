//! Dual entries (memory §4.5): an entry of level 1 holds two leaf tables, one of 4-KB entries and one of 64-KB entries. Both
//! stand all the time, and *of each 64 KB of addresses only one of the two forms is valid at any time*. Which one it is may
//! change with every change of content, back and forth, and no context quiesces for it: content that moves was invalid in between anyway.
//!
//! | what is to be written | 64-KB entry valid | 4-KB entries valid | nothing valid |
//! |---|---|---|---|
//! | invalid, all of it | 64-KB entry invalid | those invalid | nothing to do |
//! | invalid, a part | taken apart, then the part invalid | those invalid | nothing to do |
//! | valid, 64-KB entries can say it | 64-KB entry | 4-KB entries | 64-KB entry |
//! | valid, they cannot | taken apart, then 4-KB entries | 4-KB entries | 4-KB entries |
//!
//! *Taking apart* is the one case in which pages that stay valid change their form: the process quiesces for it, because between the two
//! writes nothing is valid there. A work writes the entries that it makes valid behind all that it makes invalid; a form that this work
//! itself has written is therefore only taken apart behind that.

use ddi::PteFlags;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun};

use super::LeafEntry;
use super::coarse::{COARSE_PAGES, Coarse, can_be_coarse, leaf_update, why_converted};
use super::large::LARGE_PAGES;
use super::{PageTable, Table};
use crate::operation::Operation;
use crate::paging::Conversion;
use crate::paging::{Batch, Hull, Section};
use crate::slab::SpaceId;

/// The valid entries in the 4-KB table of a pair.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    /// Of each 64 KB one bit a page.
    valid: Vec<u16>,
    /// The work that made pages of each 64 KB valid last, and which.
    written: Vec<(u64, u16)>,
}

impl Coarse {
    /// Of each 64 KB only one of the two forms is valid.
    fn assert_one_form(&self, slot: usize) {
        let (coarse, fine) = (is_valid(&self.entries[slot]), self.dual.as_ref().map_or(0, |beside| beside.valid[slot]));
        debug_assert!(!coarse || fine == 0, "64 KB in slot {slot} have a 64-KB entry and 4-KB entries {fine:#b}");
    }
}

impl Beside {
    /// Of so many times 64 KB: nothing is valid.
    pub fn new(count: u64) -> Beside {
        Beside { valid: vec![0; count as usize], written: vec![(0, 0); count as usize] }
    }

    /// The table's memory has lost it.
    pub fn forget(&mut self) {
        self.valid.fill(0);
        self.written.fill((0, 0));
    }
}

/// How a piece within 64 KB is written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Piece {
    use_64kb: bool,
    section: Section,
}

fn is_valid(entry: &LeafEntry) -> bool {
    entry.pte.flags.contains(PteFlags::VALID)
}

/// The bits of pages `from..from + count` of 64 KB.
fn bits(from: u64, count: u64) -> u16 {
    debug_assert!(count > 0 && from + count <= COARSE_PAGES, "{count} pages from page {from} of 64 KB");
    // CAST: at most 16 pages, of which none is beyond the sixteenth.
    (((1u32 << count) - 1) << from) as u16
}

impl PageTable {
    /// Writes entries of one pair of leaf tables, each 64 KB in the form that it may have; neighbours of one form together.
    // spec: memory §4.5
    pub(super) fn write_dual<F: Copy + Eq>(
        &mut self,
        space: SpaceId,
        (page, count): (u64, u64),
        entry: LeafEntry,
        batch: &mut Batch<F>,
        section: Section,
    ) {
        let end = page + count;
        let (mut at, mut from, mut last) = (page, page, None);
        while at < end {
            let stop = ((at / COARSE_PAGES + 1) * COARSE_PAGES).min(end);
            let next = self.form_of(space, (at, stop - at), entry.advanced(at - page), batch, section);
            if next != last {
                self.write_piece(space, (from, at - from), entry.advanced(from - page), last, batch);
                (from, last) = (at, next);
            }
            at = stop;
        }
        self.write_piece(space, (from, end - from), entry.advanced(from - page), last, batch);
    }

    /// Notes what becomes of a part of 64 KB, and answers how it is written; `None`: it says so already.
    fn form_of<F: Copy + Eq>(
        &mut self,
        space: SpaceId,
        (page, count): (u64, u64),
        entry: LeafEntry,
        batch: &mut Batch<F>,
        section: Section,
    ) -> Option<Piece> {
        let shift = self.geometry.levels[0].table_shift;
        let slot = ((page & ((1 << shift) - 1)) / COARSE_PAGES) as usize;
        let (whole, bits) = (count == COARSE_PAGES, bits(page % COARSE_PAGES, count));
        let changed = Hull::of(self.root, page, count);
        let coarse = self.coarse_mut(page >> shift);
        let beside = coarse.dual.as_mut().expect("a pair");
        let mut section = section;
        let (epoch, written) = &mut beside.written[slot];
        if *epoch != batch.epoch {
            (*epoch, *written) = (batch.epoch, 0);
        }
        // A work writes the entries that it makes valid behind all that it makes invalid.
        if *written & bits != 0 && section == Section::Invalid {
            section = Section::Valid;
            batch.relinked.insert(space);
            Hull::note(&mut batch.fresh, space, changed);
        }
        if section == Section::Valid {
            *written |= bits;
        }
        let standing = is_valid(&coarse.entries[slot]);
        let use_64kb = match is_valid(&entry) {
            false if !standing && beside.valid[slot] & bits == 0 => return None,
            false => standing && whole,
            true => whole && beside.valid[slot] == 0 && can_be_coarse(&entry),
        };
        if use_64kb {
            coarse.entries[slot] = entry;
            coarse.assert_one_form(slot);
            return Some(Piece { use_64kb, section });
        }
        if standing {
            let first = page / COARSE_PAGES * COARSE_PAGES;
            self.split(space, first, batch, section);
            let (va, size_bytes) = (GpuVa(first * PAGE_BYTES), COARSE_PAGES * PAGE_BYTES);
            batch.conversions.push(Conversion { space, va, size_bytes, cause: why_converted(page, count, &entry) });
        }
        let coarse = self.coarse_mut(page >> shift);
        let beside = coarse.dual.as_mut().expect("a pair");
        match is_valid(&entry) {
            true => beside.valid[slot] |= bits,
            false => beside.valid[slot] &= !bits,
        }
        coarse.assert_one_form(slot);
        Some(Piece { use_64kb, section })
    }

    /// 64 KB that have a 64-KB entry have sixteen of 4 KB instead, which say the same.
    // spec: memory §4.5, only one of the two forms is valid at any time
    fn split<F: Copy + Eq>(&mut self, space: SpaceId, page: u64, batch: &mut Batch<F>, section: Section) {
        let shift = self.geometry.levels[0].table_shift;
        let (prefix, index) = (page >> shift, page & ((1 << shift) - 1));
        let slot = (index / COARSE_PAGES) as usize;
        let coarse = self.coarse_mut(prefix);
        debug_assert!(is_valid(&coarse.entries[slot]), "page {page:#x} has no 64-KB entry to be taken apart");
        coarse.assert_one_form(slot);
        let entry = std::mem::replace(&mut coarse.entries[slot], LeafEntry::INVALID);
        coarse.dual.as_mut().expect("a pair").valid[slot] = u16::MAX;
        let (coarse, table) = (coarse.address, self.levels[0][&prefix].address);
        let run = (page, index, COARSE_PAGES);
        let operations = batch.section(section);
        operations.push(leaf_update(space, coarse, run, LeafEntry::INVALID, true));
        operations.push(leaf_update(space, table, run, entry, false));
        batch.idle_spaces.insert(space);
        let changed = Hull::of(self.root, page, COARSE_PAGES);
        match section {
            Section::Invalid => Hull::note(&mut batch.stale, space, changed),
            Section::Valid => {
                batch.relinked.insert(space);
                Hull::note(&mut batch.fresh, space, changed);
            }
        }
    }

    fn write_piece<F: Copy + Eq>(
        &self,
        space: SpaceId,
        (page, count): (u64, u64),
        entry: LeafEntry,
        piece: Option<Piece>,
        batch: &mut Batch<F>,
    ) {
        let Some(Piece { use_64kb, section }) = piece else { return };
        let shift = self.geometry.levels[0].table_shift;
        let Table { address, coarse, .. } = &self.levels[0][&(page >> shift)];
        let coarse = coarse.as_ref().expect("a pair").address;
        let table = if use_64kb { coarse } else { *address };
        let run = (page, page & ((1 << shift) - 1), count);
        batch.section(section).push(leaf_update(space, table, run, entry, use_64kb));
    }

    /// The pair of leaf tables translates again what a large page did, or nothing.
    pub(super) fn take_apart_dual(
        &mut self,
        space: SpaceId,
        prefix: u64,
        entry: Option<LeafEntry>,
        operations: &mut Vec<Operation>,
    ) {
        let coarse = self.coarse_mut(prefix);
        coarse.forget();
        self.fresh(space, 0, prefix, operations);
        if let Some(entry) = entry {
            let use_64kb = can_be_coarse(&entry);
            let coarse = self.coarse_mut(prefix);
            let mut table = coarse.address;
            match use_64kb {
                true => {
                    let said = (0u64..).map(|slot| entry.advanced(slot * COARSE_PAGES));
                    coarse.entries.iter_mut().zip(said).for_each(|(slot, entry)| *slot = entry);
                }
                false => {
                    coarse.dual.as_mut().expect("a pair").valid.fill(u16::MAX);
                    table = self.levels[0][&prefix].address;
                }
            }
            let page = prefix << self.geometry.levels[0].table_shift;
            operations.push(leaf_update(space, table, (page, 0, LARGE_PAGES), entry, use_64kb));
        }
        let link = self.levels[0][&prefix].link();
        operations.push(self.parent_entry(space, 0, prefix, link));
    }

    /// Whether any of these pages has a 64-KB entry.
    pub(super) fn any_coarse(&self, first: u64, count: u64) -> bool {
        let shift = self.geometry.levels[0].table_shift;
        (first / COARSE_PAGES..(first + count).div_ceil(COARSE_PAGES)).any(|slot| {
            let page = slot * COARSE_PAGES;
            let pair = self.levels[0].get(&(page >> shift)).and_then(|table| table.coarse.as_ref());
            let entry = |pair: &super::Coarse| pair.entries[((page & ((1 << shift) - 1)) / COARSE_PAGES) as usize];
            pair.is_some_and(|pair| is_valid(&entry(pair)))
        })
    }

    /// Entries of 4 KB have been copied: what is valid where.
    pub(super) fn copied(&mut self, source: u64, run: PageRun) {
        let shift = self.geometry.levels[0].table_shift;
        let place = |page: u64| {
            let slot = ((page & ((1 << shift) - 1)) / COARSE_PAGES) as usize;
            (page >> shift, slot, bits(page % COARSE_PAGES, 1))
        };
        for page in 0..run.count.0 {
            let (prefix, slot, bit) = place(source + page);
            let pair = self.levels[0].get(&prefix).and_then(|table| table.coarse.as_ref()?.dual.as_ref());
            let valid = pair.is_some_and(|beside| beside.valid[slot] & bit != 0);
            let (prefix, slot, bit) = place(run.first + page);
            let beside = self.coarse_mut(prefix).dual.as_mut().expect("a pair");
            match valid {
                true => beside.valid[slot] |= bit,
                false => beside.valid[slot] &= !bit,
            }
        }
    }
}
