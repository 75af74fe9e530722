//! Optional indexes of a pool beside its free runs: their order by address, and the cleared pages. The pool keeps each from its first use
//! on, so a pool that never needs them pays nothing. Called by the pool.

use wddm_types::PageRun;

use super::bins::Bins;
use super::cleared::Cleared;
use super::order::Order;

/// The books beside the bins.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub order: Order,
    /// Kept from the first page on that is marked as cleared.
    pub cleared: Option<Cleared>,
}

impl Books {
    /// Those of a copy: the order is sorted anew when it is asked for.
    pub fn copy(&self) -> Option<Box<Books>> {
        let cleared = self.cleared.clone()?;
        Some(Box::new(Books { order: Order::default(), cleared: Some(cleared) }))
    }

    /// An owner took `taken` out of a free run that began at `first`.
    #[cold]
    #[inline(never)]
    pub fn taken(&mut self, first: u64, taken: PageRun, bins: &Bins) {
        self.order.note(&[first, taken.end()], bins.len());
        if let Some(cleared) = &mut self.cleared {
            cleared.taken(taken);
        }
    }

    /// An owner gave pages back, written.
    #[cold]
    #[inline(never)]
    pub fn given(&mut self, given: PageRun, bins: &Bins) {
        self.order.note(&[given.first, given.end()], bins.len());
        if let Some(cleared) = &mut self.cleared {
            cleared.given(given);
        }
    }
}
