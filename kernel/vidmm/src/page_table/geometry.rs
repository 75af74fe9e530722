//! How addresses are cut into indices, as the driver described its levels (memory §4.3). It has no tables.

use ddi::{GpuMmuCaps, GpuMmuFlags, PageTableLevelDesc, RootPageTableSize};
use wddm_types::PAGE_BYTES;

use super::large::LargePages;
use super::root::{RootStep, root_bits, root_steps};

/// How addresses are cut into indices.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(super) levels: Vec<Level>,
    /// Lengths that a root can have.
    pub(super) roots: Vec<RootStep>,
    pub(super) large: LargePages,
    /// Pages of a leaf table of 64-KB entries; 0: there are none.
    pub(super) coarse_pages: u64,
    /// Entries of level 1 hold two leaf tables, one of each form.
    pub(super) dual: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Pages that one entry covers, as a power of two.
    pub entry_shift: u32,
    /// Pages that the table covers, as a power of two.
    pub table_shift: u32,
    /// Size and alignment in pages.
    pub table_pages: u64,
    pub alignment_pages: u64,
}

impl Geometry {
    /// From checked descriptions.
    pub fn new(descriptions: &[PageTableLevelDesc], caps: &GpuMmuCaps, roots: &[RootPageTableSize]) -> Self {
        let (mut shift, root) = (0, descriptions.len().saturating_sub(1));
        let level = |(number, description): (usize, &PageTableLevelDesc)| {
            let entry_shift = shift;
            shift += match number == root {
                true => root_bits(caps, descriptions, !roots.is_empty()),
                false => description.index_bits,
            };
            Level {
                entry_shift,
                table_shift: shift,
                table_pages: u64::from(description.size_bytes) / PAGE_BYTES,
                alignment_pages: (u64::from(description.alignment_bytes) / PAGE_BYTES).max(1),
            }
        };
        let levels: Vec<Level> = descriptions.iter().enumerate().map(level).collect();
        let goes_on = |pair: &[Level]| pair[0].table_shift == pair[1].entry_shift;
        debug_assert!(levels.windows(2).all(goes_on), "an entry covers what a table below it does: {levels:?}");
        let roots = root_steps(descriptions, roots);
        debug_assert!(roots.is_sorted_by_key(|step| step.entries), "the shortest root is the first: {roots:?}");
        Geometry {
            levels,
            roots,
            large: LargePages::new(caps.flags),
            coarse_pages: u64::from(caps.leaf_table_64kb_bytes) / PAGE_BYTES,
            dual: caps.flags.contains(GpuMmuFlags::DUAL_PTE_SUPPORTED),
        }
    }

    /// Whether there are addresses at all. Spaces of an adapter without them have no room and no tables.
    pub fn translates(&self) -> bool {
        !self.levels.is_empty()
    }

    /// Number of the root's level.
    pub fn root_level(&self) -> usize {
        self.levels.len().saturating_sub(1)
    }

    /// Pages of the whole space.
    pub fn space_pages(&self) -> u64 {
        self.levels.last().map_or(0, |root| 1 << root.table_shift)
    }

    /// Pages that a leaf table of the GPU's covers, where there are any.
    pub fn leaf_table_pages(&self) -> Option<u64> {
        self.levels.first().filter(|_| !self.is_platforms()).map(|leaf| 1 << leaf.table_shift)
    }

    /// Whether roots are as long as what they reach.
    pub fn grows(&self) -> bool {
        self.roots.len() > 1
    }

    /// Pages that one entry of the root covers.
    pub fn root_entry_pages(&self) -> u64 {
        self.levels.last().map_or(0, |root| 1 << root.entry_shift)
    }
}
