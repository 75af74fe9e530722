//! Large pages (memory §4.5): where the entries of a whole leaf table would name consecutive, aligned memory, the entry
//! above it names that memory itself. The leaf table stays, because taking the large page apart must not fail; its
//! entries are written anew when it is used again.

use ddi::{GpuMmuFlags, PteFlags};
use wddm_types::PAGE_BYTES;

use super::LeafEntry;
use super::{Geometry, PageTable};
use crate::operation::Operation;
use crate::paging::{Batch, Section};
use crate::slab::SpaceId;

/// Pages of a large page: 2 MB.
pub(super) const LARGE_PAGES: u64 = 512;

/// When large pages are used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LargePages {
    supported: bool,
    any_address: bool,
}

impl LargePages {
    /// The large pages that the caps allow.
    pub fn new(flags: GpuMmuFlags) -> LargePages {
        LargePages {
            supported: flags.contains(GpuMmuFlags::LARGE_PAGE_SUPPORTED),
            any_address: flags.contains(GpuMmuFlags::ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS),
        }
    }
}

impl Geometry {
    /// Pages of a large page, if this adapter has any.
    // spec: memory §4.5
    pub fn large_page(&self) -> Option<u64> {
        let covered = self.levels.first().map(|leaf| 1 << leaf.table_shift);
        covered.filter(|&pages: &u64| self.large.supported && pages == LARGE_PAGES)
    }
}

impl PageTable {
    /// Writes the entries of `count` covered pages from page `first` in the largest form that can say them.
    pub fn write<F: Copy + Eq>(
        &mut self,
        space: SpaceId,
        first: u64,
        count: u64,
        entry: LeafEntry,
        batch: &mut Batch<F>,
        section: Section,
    ) {
        if !self.is_resident() {
            return;
        }
        let shift = self.geometry.levels[0].table_shift;
        let (mut page, end, mut next) = (first, first + count, entry);
        while page < end {
            let stop = (((page >> shift) + 1) << shift).min(end);
            let whole = stop - page == 1 << shift;
            let prefix = page >> shift;
            if whole && self.can_be_large(&next) {
                self.link_large(space, prefix, next, batch.section(section));
            } else {
                if self.levels[0][&prefix].large.is_some() {
                    self.take_apart(space, prefix, whole, batch, section);
                }
                if self.dual {
                    self.write_dual(space, (page, stop - page), next, batch, section);
                } else if self.levels[0][&prefix].coarse.is_some() {
                    self.write_coarse(space, (page, stop - page), next, batch, section);
                } else {
                    self.write_small(space, page, stop - page, next, batch.section(section));
                }
            }
            next = next.advanced(stop - page);
            page = stop;
        }
    }

    fn can_be_large(&self, entry: &LeafEntry) -> bool {
        let address = entry.pte.address;
        let aligned = address.offset.is_multiple_of(LARGE_PAGES * PAGE_BYTES) || self.geometry.large.any_address;
        self.geometry.large_page().is_some()
            && entry.large_allowed
            && !entry.repeat
            && entry.pte.flags.contains(PteFlags::VALID)
            && !address.segment.is_system()
            && aligned
    }

    fn link_large(&mut self, space: SpaceId, prefix: u64, entry: LeafEntry, operations: &mut Vec<Operation>) {
        let mut pte = entry.pte;
        pte.flags |= PteFlags::LARGE_PAGE;
        operations.push(self.parent_entry(space, 0, prefix, pte.into()));
        let table = self.levels[0].get_mut(&prefix).expect("it is covered");
        debug_assert!(table.used >= LARGE_PAGES, "a large page stands for {} mapped pages", table.used);
        table.large = Some(entry);
    }

    /// The leaf table translates again, to the same pages; or to nothing, if all its entries are about to be written. Only
    /// then it keeps 64-KB entries: the part that is about to change may be smaller.
    fn take_apart<F: Copy + Eq>(
        &mut self,
        space: SpaceId,
        prefix: u64,
        whole: bool,
        batch: &mut Batch<F>,
        section: Section,
    ) {
        let table = self.levels[0].get_mut(&prefix).expect("it is covered");
        let entry = table.large.take().expect("it was looked at");
        if self.dual {
            return self.take_apart_dual(space, prefix, (!whole).then_some(entry), batch.section(section));
        }
        match &mut table.coarse {
            Some(coarse) if whole => coarse.forget_for(batch.epoch, section),
            _ => self.spare.extend(table.coarse.take().map(|coarse| (coarse.address, self.geometry.coarse_pages))),
        }
        let link = table.link();
        let operations = batch.section(section);
        if !whole {
            self.write_small(space, prefix << self.geometry.levels[0].table_shift, LARGE_PAGES, entry, operations);
        } else {
            self.fresh(space, 0, prefix, operations);
        }
        operations.push(self.parent_entry(space, 0, prefix, link));
    }
}
