//! Which free run begins or ends at a page: what makes merging a freed run with its neighbours take constant time. Its
//! size follows the number of free runs, not the size of the segment. Called by the pool.
//!
//! A free run stands under its first page and under the page behind its last. Two entries never meet on one page,
//! because a run that ends where another begins is merged with it. Open addressing; the multiplier is fixed and nothing
//! walks the table, so its order shows nowhere.

const VACANT: u64 = u64::MAX;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
const SLOTS_MIN: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Slot {
    page: u64,
    run: u32,
}

/// Pages to runs.
#[derive(Clone, Debug)]
pub(super) struct Boundaries {
    slots: Vec<Slot>,
    len: usize,
    shift: u32,
}

impl Boundaries {
    pub fn new() -> Self {
        Boundaries::with_slots(SLOTS_MIN)
    }

    /// The run that begins or ends here.
    #[inline]
    pub fn get(&self, page: u64) -> Option<u32> {
        let slot = self.slots[self.find(page)];
        (slot.page == page).then_some(slot.run)
    }

    /// Puts a run under a page, in place of what stood there.
    #[inline]
    pub fn set(&mut self, page: u64, run: u32) {
        let mut at = self.find(page);
        if self.slots[at].page == VACANT {
            if (self.len + 1) * 2 > self.slots.len() {
                self.grow();
                at = self.find(page);
            }
            self.len += 1;
        }
        self.slots[at] = Slot { page, run };
    }

    /// Takes away what stands under a page.
    #[inline]
    pub fn remove(&mut self, page: u64) {
        let mask = self.slots.len() - 1;
        let mut hole = self.find(page);
        assert_eq!(self.slots[hole].page, page, "a run stands under both its boundaries");
        self.len -= 1;
        // What stands behind the hole moves up, unless it would come before its home.
        let mut next = (hole + 1) & mask;
        while self.slots[next].page != VACANT {
            let home = self.home(self.slots[next].page);
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.slots[hole].page = VACANT;
    }

    fn with_slots(slots: usize) -> Self {
        Boundaries { slots: vec![Slot { page: VACANT, run: 0 }; slots], len: 0, shift: 64 - slots.ilog2() }
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::replace(self, Boundaries::with_slots(self.slots.len() * 2));
        for slot in old.slots.into_iter().filter(|slot| slot.page != VACANT) {
            self.set(slot.page, slot.run);
        }
    }

    #[inline]
    fn home(&self, page: u64) -> usize {
        (page.wrapping_mul(MULTIPLIER) >> self.shift) as usize
    }

    /// The slot of a page, or the vacant one where it would stand.
    #[inline]
    fn find(&self, page: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(page);
        while self.slots[at].page != page && self.slots[at].page != VACANT {
            at = (at + 1) & mask;
        }
        at
    }
}
