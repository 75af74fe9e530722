//! The table of a space that the platform keeps: in the IoMmu model a process has no tables of the GPU's own, the IOMMU reads
//! the CPU's (memory §4.1). Here such a space is one table of all its pages, which has no frame, is never made, moved or
//! lost, and is written by [`Operation::PlatformEntries`] instead of entries.

use std::collections::BTreeMap;

use ddi::PteFlags;
use wddm_types::{CpuVa, PAGE_BYTES, Pages, PhysicalAddress, SegmentId};

use super::LeafEntry;
use super::geometry::Level;
use super::residence::NOWHERE;
use super::root::RootStep;
use super::{Geometry, PageTable, Table};
use crate::operation::Operation;
use crate::slab::SpaceId;

impl Geometry {
    /// Addresses of this many bits that the platform translates.
    // spec: memory §4.1
    pub fn of_platform(address_bits: u32) -> Geometry {
        let bits = address_bits - PAGE_BYTES.trailing_zeros();
        let level = Level { entry_shift: 0, table_shift: bits, table_pages: 0, alignment_pages: 1 };
        let roots = vec![RootStep { entries: 1 << bits, pages: 0 }];
        Geometry { levels: vec![level], roots, large: Default::default(), coarse_pages: 0, dual: false }
    }

    /// Whether the platform translates: page tables of a GPU have two levels at least.
    pub fn is_platforms(&self) -> bool {
        self.levels.len() == 1
    }
}

impl PageTable {
    pub(super) fn of_platform(geometry: &Geometry) -> PageTable {
        let root = PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 };
        let levels = vec![BTreeMap::from([(0, Table::new(NOWHERE))])];
        PageTable {
            geometry: geometry.clone(),
            levels,
            root,
            resident: true,
            dual: false,
            root_step: 0,
            spare: Vec::new(),
        }
    }

    /// Finds a fault in such a table: it has to count the mapped pages, and no others.
    pub(super) fn check_platforms(
        &self,
        space: SpaceId,
        shown: &BTreeMap<u64, u64>,
        exact: bool,
    ) -> Result<(), String> {
        let pages: u64 = shown.values().sum();
        let counted = self.levels[0].get(&0).map(|table| table.used);
        match counted {
            Some(used) if used == pages || !exact && used > pages => Ok(()),
            _ => Err(format!("{space:?}, the platform's table: {pages} pages are shown, {counted:?} counted")),
        }
    }
}

/// The update of `count` pages from page `first` of a space on.
pub(super) fn update(space: SpaceId, first: u64, count: u64, entry: LeafEntry) -> Operation {
    let valid = entry.pte.flags.contains(PteFlags::VALID);
    assert!(!valid || entry.pte.address.segment.is_system() && !entry.repeat, "the IOMMU maps system memory only");
    let shows = valid.then_some(entry.pte.address.offset / PAGE_BYTES);
    let writable = !entry.pte.flags.contains(PteFlags::READ_ONLY);
    Operation::PlatformEntries { space, first: CpuVa(first * PAGE_BYTES), count: Pages(count), shows, writable }
}
