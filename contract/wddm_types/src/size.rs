//! Pages and runs of pages. A byte count is a plain `u64` whose name ends in `bytes`; a page count is [`Pages`].

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// Bytes of a host page, and of the page in every aperture, MDL and GPU VA parameter (memory §0).
pub const PAGE_BYTES: u64 = 4096;

/// A count of 4096-byte pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pages(pub u64);

impl Pages {
    /// No page.
    pub const ZERO: Pages = Pages(0);

    /// The pages that hold `bytes`, rounded up.
    pub const fn holding(bytes: u64) -> Pages {
        Pages(bytes.div_ceil(PAGE_BYTES))
    }

    /// The bytes of these pages.
    ///
    /// # Panics
    /// If the product does not fit 64 bits: no count of pages that passed a capacity check can do that.
    pub const fn bytes(self) -> u64 {
        match self.0.checked_mul(PAGE_BYTES) {
            Some(bytes) => bytes,
            None => panic!("a page count whose bytes exceed 64 bits"),
        }
    }

    /// Whether there is no page.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add for Pages {
    type Output = Pages;
    fn add(self, other: Pages) -> Pages {
        Pages(self.0 + other.0)
    }
}

impl Sub for Pages {
    type Output = Pages;
    fn sub(self, other: Pages) -> Pages {
        Pages(self.0 - other.0)
    }
}

impl AddAssign for Pages {
    fn add_assign(&mut self, other: Pages) {
        self.0 += other.0;
    }
}

impl SubAssign for Pages {
    fn sub_assign(&mut self, other: Pages) {
        self.0 -= other.0;
    }
}

impl std::iter::Sum for Pages {
    fn sum<I: Iterator<Item = Pages>>(iter: I) -> Pages {
        Pages(iter.map(|pages| pages.0).sum())
    }
}

/// Consecutive pages: `first`, `first + 1`, … Whether they are system pages or pages of a segment is said by the place
/// that holds the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PageRun {
    /// Number of the first page.
    pub first: u64,
    /// How many.
    pub count: Pages,
}

impl PageRun {
    /// One past the last page.
    pub const fn end(self) -> u64 {
        self.first + self.count.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_up_to_pages() {
        // spec: memory §0
        for (bytes, pages) in [(0, 0), (1, 1), (4095, 1), (4096, 1), (4097, 2), (8192, 2)] {
            assert_eq!(Pages::holding(bytes), Pages(pages), "{bytes} bytes");
        }
    }
}
