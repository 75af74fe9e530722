//! The memory of a replayed call: its structure, and what the pointers in it lead to. The call may look there and nowhere else
//! (`trace::Watched::within`).

use std::ops::Range;

use wddm_types::PAGE_BYTES;

/// As aligned as any structure of the interface.
type Cell = u128;

/// Blocks of memory that stay where they are until the call has returned.
#[derive(Default)]
pub struct Arena {
    blocks: Vec<Vec<Cell>>,
    pages: Vec<Box<[Page]>>,
}

/// Memory that a program gives.
#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Page {
    _bytes: [u8; PAGE_BYTES as usize],
}

impl Arena {
    /// A block that begins with these bytes, and where it is.
    pub fn block(&mut self, bytes: &[u8]) -> usize {
        let cell = |chunk: &[u8]| {
            let mut cell = [0; size_of::<Cell>()];
            cell[..chunk.len()].copy_from_slice(chunk);
            Cell::from_ne_bytes(cell)
        };
        // One at least: a block has a place.
        let mut cells: Vec<Cell> = bytes.chunks(size_of::<Cell>()).map(cell).collect();
        cells.resize(cells.len().max(1), 0);
        let place = cells.as_mut_ptr().expose_provenance();
        self.blocks.push(cells);
        place
    }

    /// Whole pages of zeros.
    pub fn pages(&mut self, bytes: usize) -> usize {
        let count = bytes.div_ceil(PAGE_BYTES as usize).max(1);
        let mut pages = vec![Page { _bytes: [0; PAGE_BYTES as usize] }; count].into_boxed_slice();
        let place = pages.as_mut_ptr().expose_provenance();
        self.pages.push(pages);
        place
    }

    /// The pages stay as long as this process: an allocation may lie over them for longer than the call.
    pub fn keep_pages(self) {
        self.pages.into_iter().for_each(std::mem::forget);
    }

    /// The bytes of a block.
    pub fn bytes(&self, place: usize) -> Vec<u8> {
        let block = self.blocks.iter().find(|cells| cells.as_ptr().addr() == place);
        block.map(|cells| cells.iter().flat_map(|cell| cell.to_ne_bytes()).collect()).unwrap_or_default()
    }

    /// All of it.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let blocks = self.blocks.iter().map(|cells| {
            let place = cells.as_ptr().addr();
            place..place + size_of_val(&cells[..])
        });
        let pages = self.pages.iter().map(|pages| {
            let place = pages.as_ptr().addr();
            place..place + size_of_val(&pages[..])
        });
        blocks.chain(pages).collect()
    }
}
