//! The translation look-aside buffer: 256 leaf entries, direct-mapped by page and space. It holds what the walk found and
//! never what it missed, so that mapping a page needs no flush. Called by its MMU only.

use softgpu_spec::bus::PAGE_BYTES;
use softgpu_spec::page_table::root;

use crate::bus::Site;

const LINES: usize = 256;
/// No root is all ones: no memory is there.
const EMPTY: u64 = u64::MAX;

/// The translations to forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flush {
    /// Root of the space; all ones for every space.
    pub(crate) root: u64,
    /// First address.
    pub(crate) first: u64,
    /// Last address; 0 with `first` 0 is the whole space.
    pub(crate) last: u64,
}

/// A valid leaf entry.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    pub(super) entry: u64,
    /// Where its page lies, unless that is found anew each time: the aperture's pages change without a flush.
    pub(super) site: Option<Site>,
}

#[derive(Clone, Copy)]
struct Line {
    root: u64,
    page: u64,
    leaf: Leaf,
}

pub(super) struct Tlb {
    lines: Box<[Line; LINES]>,
}

impl Tlb {
    pub(super) fn new() -> Tlb {
        Tlb { lines: Box::new([Line { root: EMPTY, page: 0, leaf: Leaf { entry: 0, site: None } }; LINES]) }
    }

    #[inline(always)]
    pub(super) fn find(&self, root: u64, page: u64) -> Option<Leaf> {
        let line = &self.lines[slot(root, page)];
        (line.page == page && line.root == root && root != EMPTY).then_some(line.leaf)
    }

    pub(super) fn fill(&mut self, root: u64, page: u64, leaf: Leaf) {
        self.lines[slot(root, page)] = Line { root, page, leaf };
    }

    pub(super) fn flush(&mut self, flush: Flush) {
        let whole = flush.first == 0 && flush.last == 0;
        let pages = flush.first / PAGE_BYTES..=flush.last / PAGE_BYTES;
        for line in self.lines.iter_mut() {
            // A root that has become longer in its place is the same space.
            let same = root::table(flush.root) == root::table(line.root) && line.root != EMPTY;
            if (flush.root == u64::MAX || same) && (whole || pages.contains(&line.page)) {
                line.root = EMPTY;
            }
        }
    }
}

#[inline]
fn slot(root: u64, page: u64) -> usize {
    // Roots are pages too: neighbouring spaces with the same layout fall on different lines.
    // CAST: the low bits are all that is wanted.
    ((page ^ (root / PAGE_BYTES).wrapping_mul(37)) % LINES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_forgets_what_it_names_and_nothing_else() {
        let mut tlb = Tlb::new();
        let fill = |tlb: &mut Tlb| {
            for page in 0..8 {
                tlb.fill(4096, page, Leaf { entry: page, site: None });
                tlb.fill(8192, page, Leaf { entry: page, site: None });
            }
        };
        let left = |tlb: &Tlb, root| (0..8).filter(|page| tlb.find(root, *page).is_some()).count();
        for (flush, first, second) in [
            (Flush { root: 4096, first: 0, last: 0 }, 0, 8),
            (Flush { root: u64::MAX, first: 0, last: 0 }, 0, 0),
            (Flush { root: 8192, first: 4096, last: 4096 * 3 - 1 }, 8, 6),
            (Flush { root: u64::MAX, first: 4095, last: 4096 }, 6, 6),
            (Flush { root: 4096, first: 9, last: 3 }, 7, 8),
        ] {
            fill(&mut tlb);
            tlb.flush(flush);
            assert_eq!((left(&tlb, 4096), left(&tlb, 8192)), (first, second), "{flush:?}");
        }
    }
}
