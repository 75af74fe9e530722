//! Leaf tables of 64-KB entries in the single-entry mode (memory §4.5; that of dual entries is `dual`): the entry above a leaf names either a table of 4-KB
//! entries or one of 64-KB entries. A table that is made for content of 64-KB segment pages begins with the second form.
//! Once a 4-KB page must appear in it, it is *converted*, and never back: all contexts of the process quiesce, VidMm writes its entries
//! into a table of the first form, then the entry above, and the contexts go on.
//!
//! A conversion must not fail, so the room for the second table is taken together with that for the first. This module remembers the
//! entries of a 64-KB table, because the conversion has to write them once more.
//!
//! # The order within one work
//! A work makes entries invalid first and valid last (memory §8.3), in whatever order it decided on them. A conversion in
//! between is written among the invalid ones. There it must not show what becomes valid only later in the same work, so
//! entries remember what stood there before the work, and the later ones are written into the new table in their turn.

use ddi::{Pte, PteFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PhysicalAddress};

use super::LeafEntry;
use super::dual::Beside;
use super::{Geometry, PageTable};
use crate::operation::Operation;
use crate::paging::{Batch, Hull, Section};
use crate::paging::{Conversion, ConversionCause};
use crate::slab::SpaceId;

/// 4-KB pages behind one entry.
pub(crate) const COARSE_PAGES: u64 = 16;

/// The 64-KB form of a leaf table.
#[derive(Clone, Debug)]
pub(super) struct Coarse {
    /// Where it is.
    pub address: PhysicalAddress,
    /// The entries that it holds, or that pending work writes.
    pub entries: Vec<LeafEntry>,
    /// The work that made entries valid last, and what stood in those before it.
    before: (u64, Vec<(usize, LeafEntry)>),
    /// The work among whose valid entries the table is linked.
    linked: u64,
    /// With dual entries: what stands in the table of 4-KB entries beside it.
    pub dual: Option<Beside>,
}

impl Coarse {
    /// A table of so many entries, all invalid.
    fn new(address: PhysicalAddress, count: u64, linked: u64, dual: bool) -> Coarse {
        let entries = vec![LeafEntry::INVALID; count as usize];
        Coarse { address, entries, before: (0, Vec::new()), linked, dual: dual.then(|| Beside::new(count)) }
    }

    /// The table's memory has lost it.
    pub fn forget(&mut self) {
        self.entries.fill(LeafEntry::INVALID);
        self.before = (0, Vec::new());
        self.linked = 0;
        self.dual.iter_mut().for_each(Beside::forget);
    }

    /// The table is linked again by a work, empty.
    pub fn forget_for(&mut self, serial: u64, section: Section) {
        self.forget();
        if section == Section::Valid {
            self.linked = serial;
        }
    }
}

impl Geometry {
    /// Pages of a leaf table of 64-KB entries, if this adapter has any.
    // spec: memory §4.2, memory §4.5
    pub fn coarse_table_pages(&self) -> Option<u64> {
        let whole = self.levels[0].table_shift >= COARSE_PAGES.trailing_zeros();
        (self.coarse_pages > 0 && whole).then_some(self.coarse_pages)
    }
}

/// Whether pages and addresses are whole 64-KB pages.
pub(crate) fn is_coarse_run(first: u64, count: u64) -> bool {
    first.is_multiple_of(COARSE_PAGES) && count.is_multiple_of(COARSE_PAGES)
}

/// Whether 64-KB entries can say this.
// spec: memory §4.5
pub(super) fn can_be_coarse(entry: &LeafEntry) -> bool {
    let names_memory = entry.pte.flags.contains(PteFlags::VALID) && !entry.pte.flags.contains(PteFlags::ZERO);
    let aligned = entry.pte.address.offset.is_multiple_of(COARSE_PAGES * PAGE_BYTES);
    !names_memory || entry.coarse_allowed && !entry.repeat && aligned
}

/// The part of a change that 64-KB entries cannot express.
pub(super) fn why_converted(page: u64, count: u64, entry: &LeafEntry) -> ConversionCause {
    let valid = entry.pte.flags.contains(PteFlags::VALID) && !entry.pte.flags.contains(PteFlags::ZERO);
    match (valid && entry.pte.address.segment.is_system(), is_coarse_run(page, count)) {
        (true, _) => ConversionCause::SystemMemory,
        (false, false) => ConversionCause::PartOfPage,
        (false, true) => ConversionCause::SmallPages,
    }
}

impl PageTable {
    /// The 64-KB form for a new leaf table at this place.
    pub(super) fn new_coarse(&self, address: PhysicalAddress, serial: u64) -> Box<Coarse> {
        Box::new(Coarse::new(address, (1 << self.geometry.levels[0].table_shift) / COARSE_PAGES, serial, self.dual))
    }

    /// Writes entries of one leaf table that has 64-KB entries, or has it converted first if these cannot say it.
    pub(super) fn write_coarse<F: Copy + Eq>(
        &mut self,
        space: SpaceId,
        (page, count): (u64, u64),
        entry: LeafEntry,
        batch: &mut Batch<F>,
        section: Section,
    ) {
        let shift = self.geometry.levels[0].table_shift;
        let prefix = page >> shift;
        let coarse = self.coarse_mut(prefix);
        debug_assert!(coarse.dual.is_none(), "a pair of leaf tables is written as one");
        let from = page & ((1 << shift) - 1);
        let slots = (from / COARSE_PAGES) as usize..(from + count).div_ceil(COARSE_PAGES) as usize;
        if !is_coarse_run(page, count) || !can_be_coarse(&entry) {
            let nothing = |known: &LeafEntry| !known.pte.flags.contains(PteFlags::VALID);
            if nothing(&entry) && coarse.entries[slots].iter().all(nothing) {
                return;
            }
            batch.conversions.push(Conversion {
                space,
                va: GpuVa((prefix << shift) * PAGE_BYTES),
                size_bytes: PAGE_BYTES << shift,
                cause: why_converted(page, count, &entry),
            });
            self.convert(space, prefix, batch);
            return self.write_small(space, page, count, entry, batch.section(section));
        }
        if section == Section::Valid && coarse.before.0 != batch.epoch {
            coarse.before = (batch.epoch, Vec::new());
        }
        for slot in slots {
            if section == Section::Valid && coarse.before.1.iter().all(|(known, _)| *known != slot) {
                coarse.before.1.push((slot, coarse.entries[slot]));
            }
            coarse.entries[slot] = entry.advanced(slot as u64 * COARSE_PAGES - from);
        }
        let operation = leaf_update(space, coarse.address, (page, from, count), entry, true);
        batch.section(section).push(operation);
    }

    /// The leaf table has 4-KB entries from now on, which say what the 64-KB ones said.
    // spec: memory §4.5
    fn convert<F: Copy + Eq>(&mut self, space: SpaceId, prefix: u64, batch: &mut Batch<F>) {
        let shift = self.geometry.levels[0].table_shift;
        let table = self.levels[0].get_mut(&prefix).expect("it is covered");
        let address = table.address;
        let Coarse { address: old, entries, before, linked, .. } = *table.coarse.take().expect("it has 64-KB entries");
        self.spare.push((old, self.geometry.coarse_pages));
        let start = prefix << shift;
        // A table that is linked among the valid entries of this work has nothing to be converted before that.
        let section = if linked == batch.epoch { Section::Valid } else { Section::Invalid };
        if section == Section::Invalid {
            // Written after the old table has gone, these would land in frames that belong to no table.
            let into_old = |what: &Operation| matches!(what, Operation::UpdatePageTable { table, .. } if *table == old);
            batch.section(Section::Valid).retain(|what| !into_old(what));
        }
        let mut standing = entries.clone();
        if section == Section::Invalid && before.0 == batch.epoch {
            before.1.iter().for_each(|&(slot, entry)| standing[slot] = entry);
        }
        let mut operations = Vec::new();
        self.fresh(space, 0, prefix, &mut operations);
        self.write_slots(space, start, &standing, |_| true, &mut operations);
        operations.push(self.parent_entry(space, 0, prefix, Pte { flags: PteFlags::VALID, address }.into()));
        batch.section(section).append(&mut operations);
        if section == Section::Invalid && before.0 == batch.epoch {
            let later = |slot: usize| before.1.iter().any(|(known, _)| *known == slot);
            self.write_slots(space, start, &entries, later, batch.section(Section::Valid));
        }
        batch.idle_spaces.insert(space);
        // The hardware may remember where the old table is.
        let changed = Hull::of(self.root, start, 1 << shift);
        match section {
            Section::Invalid => Hull::note(&mut batch.stale, space, changed),
            Section::Valid => {
                batch.relinked.insert(space);
                Hull::note(&mut batch.fresh, space, changed);
            }
        }
    }

    /// Writes what 64-KB entries said as 4-KB entries, neighbours that go on in one another together.
    fn write_slots(
        &self,
        space: SpaceId,
        start: u64,
        entries: &[LeafEntry],
        wanted: impl Fn(usize) -> bool,
        operations: &mut Vec<Operation>,
    ) {
        let valid = |slot: &usize| wanted(*slot) && entries[*slot].pte.flags.contains(PteFlags::VALID);
        let mut slot = 0;
        while slot < entries.len() {
            if !valid(&slot) {
                slot += 1;
                continue;
            }
            let goes_on = |next: &usize| {
                valid(next) && entries[*next] == entries[slot].advanced((next - slot) as u64 * COARSE_PAGES)
            };
            let end = (slot + 1..entries.len()).take_while(goes_on).last().map_or(slot + 1, |last| last + 1);
            let (first, count) = (start + slot as u64 * COARSE_PAGES, (end - slot) as u64 * COARSE_PAGES);
            self.write_small(space, first, count, entries[slot], operations);
            slot = end;
        }
    }

    pub(super) fn coarse_mut(&mut self, prefix: u64) -> &mut Coarse {
        self.levels[0].get_mut(&prefix).and_then(|table| table.coarse.as_mut()).expect("it has 64-KB entries")
    }
}

/// The update of entries of one leaf table: from page `page` of the space on, which is entry `index` of the table.
pub(super) fn leaf_update(
    space: SpaceId,
    table: PhysicalAddress,
    (page, index, count): (u64, u64, u64),
    entry: LeafEntry,
    use_64kb: bool,
) -> Operation {
    debug_assert!(count > 0, "no entry is written from page {page:#x} on");
    debug_assert!(!use_64kb || is_coarse_run(index, count), "{count} entries from {index} on are no whole 64 KB");
    Operation::UpdatePageTable {
        space,
        level: 0,
        table,
        // CAST: an index has at most 31 bits, and a run inside a table no more entries.
        start_index: index as u32,
        count: count as u32,
        first: entry.pte,
        first_64kb: None,
        repeat: entry.repeat,
        initial: false,
        use_64kb,
        first_va: GpuVa(page * PAGE_BYTES),
        behind: entry.behind.map(|(allocation, page)| (allocation, page * PAGE_BYTES)),
        driver_protection: entry.driver_protection,
        native_fence: entry.native_fence,
    }
}
