//! The content of leaf entries as a value (memory §3.4): what is written in them, and what the driver is told about it.

use ddi::{KmdAllocation, Pte};
use wddm_types::PAGE_BYTES;

/// The content of leaf entries: the first entry, and the driver's information about it (memory §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafEntry {
    pub pte: Pte,
    /// All entries are the same; else they name consecutive pages.
    pub repeat: bool,
    /// The allocation behind the first entry, and the page of it.
    pub behind: Option<(KmdAllocation, u64)>,
    pub driver_protection: u64,
    /// Words of native fences lie there.
    pub native_fence: bool,
    /// A large page may stand for it.
    pub large_allowed: bool,
    /// A 64-KB entry may stand for sixteen of them.
    pub coarse_allowed: bool,
}

impl LeafEntry {
    /// Nothing there.
    pub const INVALID: LeafEntry = LeafEntry {
        pte: Pte::INVALID,
        repeat: true,
        behind: None,
        driver_protection: 0,
        native_fence: false,
        large_allowed: false,
        coarse_allowed: false,
    };

    /// The entry `pages` further on.
    pub fn advanced(self, pages: u64) -> LeafEntry {
        let mut pte = self.pte;
        if !self.repeat {
            pte.address.offset += pages * PAGE_BYTES;
        }
        LeafEntry { pte, behind: self.behind.map(|(allocation, page)| (allocation, page + pages)), ..self }
    }
}
