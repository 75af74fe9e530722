//! Large pages (memory §4.5): where the entries of a whole leaf table would name consecutive, aligned memory, the entry
//! above it names that memory itself. The leaf table stays, because taking the large page apart must not fail; its
//! entries are written anew when it is used again.

use ddi::{GpuMmuFlags, PteFlags};
use wddm_types::PAGE_BYTES;

use super::{Geometry, PageTable};
use crate::entry::LeafEntry;
use crate::operation::Operation;
use crate::slab::SpaceId;

/// Pages of a large page: 2 MB.
const LARGE_PAGES: u64 = 512;

/// When large pages are used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LargePages {
    supported: bool,
    any_address: bool,
}

impl LargePages {
    /// What the caps say.
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
        let covers = 1 << self.levels[0].table_shift;
        (self.large.supported && covers == LARGE_PAGES).then_some(LARGE_PAGES)
    }
}

impl PageTable {
    /// Writes the entries of `count` covered pages from page `first`, as large pages where that can be.
    pub fn write(&mut self, space: SpaceId, first: u64, count: u64, entry: LeafEntry, operations: &mut Vec<Operation>) {
        if !self.is_resident() {
            return;
        }
        let shift = self.geometry.levels[0].table_shift;
        let (mut page, end, mut next, mut pending) = (first, first + count, entry, 0);
        while page < end {
            let stop = (((page >> shift) + 1) << shift).min(end);
            let whole = stop - page == 1 << shift;
            let prefix = page >> shift;
            if whole && self.can_be_large(&next) {
                self.write_small(space, page - pending, pending, rewound(next, pending), operations);
                pending = 0;
                self.link_large(space, prefix, next, operations);
            } else {
                if self.levels[0][&prefix].large.is_some() {
                    self.take_apart(space, prefix, whole, operations);
                }
                pending += stop - page;
            }
            next = next.advanced(stop - page);
            page = stop;
        }
        self.write_small(space, end - pending, pending, rewound(next, pending), operations);
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
        operations.push(self.parent_entry(space, 0, prefix, pte));
        self.levels[0].get_mut(&prefix).expect("it is covered").large = Some(entry);
    }

    /// The leaf table translates again, to the same pages; or to nothing, if all its entries are about to be written.
    fn take_apart(&mut self, space: SpaceId, prefix: u64, whole: bool, operations: &mut Vec<Operation>) {
        let table = self.levels[0].get_mut(&prefix).expect("it is covered");
        let address = table.address;
        let entry = table.large.take().expect("it was looked at");
        if !whole {
            self.write_small(space, prefix << self.geometry.levels[0].table_shift, LARGE_PAGES, entry, operations);
        } else {
            operations.push(self.fresh(space, 0, prefix));
        }
        let link = ddi::Pte { flags: PteFlags::VALID, address };
        operations.push(self.parent_entry(space, 0, prefix, link));
    }
}

/// The entry `pages` before this one.
fn rewound(entry: LeafEntry, pages: u64) -> LeafEntry {
    let mut pte = entry.pte;
    if !entry.repeat {
        pte.address.offset -= pages * PAGE_BYTES;
    }
    LeafEntry { pte, behind: entry.behind.map(|(allocation, page)| (allocation, page - pages)), ..entry }
}
