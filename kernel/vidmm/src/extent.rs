//! Page ranges: the resident extents of one allocation ([`Extents`]) and plain sets of pages ([`PageSet`]). Pure
//! arithmetic over sorted vectors; called by `residency`, `victim` and `lock`.

/// Consecutive pages of an allocation in consecutive frames of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First page within the allocation.
    pub page: u64,
    /// Frame of that page within the segment, in 4-KB pages.
    pub frame: u64,
    /// How many pages.
    pub count: u64,
    /// Whether the copy here may be newer than the backing store (memory §8.3 "What is clean").
    pub dirty: bool,
}

/// The resident extents of one allocation in one segment, ascending by page. None is empty, no page is in two, and `pages` is their sum,
/// which is no more than `whole`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    list: Vec<Extent>,
    pages: u64,
    /// How many of these are dirty.
    dirty: u64,
    /// Pages that the allocation takes in this segment, all of it there.
    whole: u64,
}

impl Extents {
    /// None yet, of an allocation that takes `whole` pages here.
    pub fn of(whole: u64) -> Self {
        Extents { whole, ..Extents::default() }
    }

    /// Whether all of it is here.
    pub fn are_whole(&self) -> bool {
        debug_assert!(self.pages <= self.whole, "{} pages are resident of {}", self.pages, self.whole);
        self.pages == self.whole
    }

    /// How many pages are resident.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// How many pages are dirty.
    pub fn dirty_pages(&self) -> u64 {
        self.dirty
    }

    /// The extents in order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.list.iter().copied()
    }

    /// The page ranges `(first, count)` that are not resident.
    pub fn missing(&self) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut next = 0;
        for extent in &self.list {
            if extent.page > next {
                gaps.push((next, extent.page - next));
            }
            next = extent.page + extent.count;
        }
        debug_assert!(next <= self.whole, "page {next} is behind the last of {}", self.whole);
        if next < self.whole {
            gaps.push((next, self.whole - next));
        }
        gaps
    }

    /// Adds extents; `added` is ascending and names pages that are not resident. Neighbours become one.
    pub fn add(&mut self, added: &[Extent]) {
        let old = std::mem::take(&mut self.list);
        let expected = self.pages + added.iter().map(|extent| extent.count).sum::<u64>();
        let (mut left, mut right) = (old.into_iter().peekable(), added.iter().copied().peekable());
        (self.pages, self.dirty) = (0, 0);
        while let Some(extent) = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) if l.page < r.page => left.next(),
            (_, Some(_)) => right.next(),
            (_, None) => left.next(),
        } {
            self.push(extent);
        }
        debug_assert_eq!(self.pages, expected, "pages come, and none is lost or comes twice");
    }

    /// Takes the last `pages` pages out, in ascending order.
    pub fn take_end(&mut self, pages: u64) -> Vec<Extent> {
        assert!(pages <= self.pages, "no more is taken than is resident");
        let mut taken = Vec::new();
        let mut left = pages;
        while left > 0 {
            let last = self.list.last_mut().expect("resident pages lie in extents");
            let count = last.count.min(left);
            let (keep, last_dirty) = (last.count - count, last.dirty);
            taken.push(Extent { page: last.page + keep, frame: last.frame + keep, count, dirty: last.dirty });
            last.count = keep;
            if keep == 0 {
                self.list.pop();
            }
            left -= count;
            self.dirty -= if last_dirty { count } else { 0 };
        }
        self.pages -= pages;
        debug_assert_eq!(self.pages == 0, self.list.is_empty(), "{} pages are left in {:?}", self.pages, self.list);
        taken.reverse();
        taken
    }

    /// Makes up to `pages` dirty pages from the start clean; answers which.
    pub fn clean_first(&mut self, pages: u64) -> Vec<Extent> {
        let mut cleaned = Vec::new();
        let mut left = pages;
        let before = self.pages;
        (self.pages, self.dirty) = (0, 0);
        for extent in std::mem::take(&mut self.list) {
            let count = if extent.dirty { extent.count.min(left) } else { 0 };
            if count > 0 {
                let done = Extent { count, ..extent };
                cleaned.push(done);
                self.push(Extent { dirty: false, ..done });
                left -= count;
            }
            if count < extent.count {
                let rest = Extent {
                    page: extent.page + count,
                    frame: extent.frame + count,
                    count: extent.count - count,
                    dirty: extent.dirty,
                };
                self.push(rest);
            }
        }
        debug_assert_eq!(self.pages, before, "a page that is made clean stays");
        cleaned
    }

    /// Makes up to `pages` dirty pages from the end clean; answers which, ascending.
    pub fn clean_last(&mut self, pages: u64) -> Vec<Extent> {
        let mut cleaned = Vec::new();
        let mut skip = self.dirty.saturating_sub(pages);
        (self.pages, self.dirty) = (0, 0);
        for extent in std::mem::take(&mut self.list) {
            let keep = if extent.dirty { extent.count.min(skip) } else { extent.count };
            skip -= if extent.dirty { keep } else { 0 };
            if keep > 0 {
                self.push(Extent { count: keep, ..extent });
            }
            if keep < extent.count {
                let done = Extent {
                    page: extent.page + keep,
                    frame: extent.frame + keep,
                    count: extent.count - keep,
                    dirty: true,
                };
                cleaned.push(done);
                self.push(Extent { dirty: false, ..done });
            }
        }
        cleaned
    }

    /// Moves the extents in `count` frames from `from` on to the frames from `to` on. Returns the moved extents.
    pub fn relocate(&mut self, from: u64, count: u64, to: u64) -> Vec<Extent> {
        debug_assert!(
            from + count <= to || to + count <= from,
            "{count} frames move from {from} to {to}, over themselves"
        );
        let mut moved = Vec::new();
        let before = self.pages;
        (self.pages, self.dirty) = (0, 0);
        for extent in std::mem::take(&mut self.list) {
            let (low, high) = (extent.frame.max(from), (extent.frame + extent.count).min(from + count));
            if low >= high {
                self.push(extent);
                continue;
            }
            let part = |frame: u64, end: u64| Extent {
                page: extent.page + (frame - extent.frame),
                frame,
                count: end - frame,
                dirty: extent.dirty,
            };
            let there = Extent { frame: to + (low - from), ..part(low, high) };
            let parts = [part(extent.frame, low), there, part(high, extent.frame + extent.count)];
            parts.into_iter().filter(|part| part.count > 0).for_each(|part| self.push(part));
            moved.push(there);
        }
        debug_assert_eq!(self.pages, before, "a page that moves stays resident");
        moved
    }

    /// Says that everything here may have been written.
    pub fn make_dirty(&mut self) {
        if self.dirty == self.pages {
            return;
        }
        (self.pages, self.dirty) = (0, 0);
        for extent in std::mem::take(&mut self.list) {
            self.push(Extent { dirty: true, ..extent });
        }
    }

    fn push(&mut self, extent: Extent) {
        debug_assert!(extent.count > 0, "no page is resident from page {} on", extent.page);
        self.pages += extent.count;
        self.dirty += if extent.dirty { extent.count } else { 0 };
        if let Some(last) = self.list.last_mut() {
            assert!(last.page + last.count <= extent.page, "a page has one frame");
            let neighbours = last.page + last.count == extent.page && last.frame + last.count == extent.frame;
            if neighbours && last.dirty == extent.dirty {
                last.count += extent.count;
                return;
            }
        }
        self.list.push(extent);
    }
}

/// A set of pages as sorted, disjoint, non-touching ranges `(first, end)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageSet {
    ranges: Vec<(u64, u64)>,
}

impl PageSet {
    /// The pages `0..count`.
    pub fn all(count: u64) -> Self {
        PageSet { ranges: vec![(0, count)] }
    }

    /// Whether there is no page in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds pages.
    pub fn insert(&mut self, first: u64, count: u64) {
        let (mut first, mut end) = (first, first + count);
        let from = self.ranges.partition_point(|range| range.1 < first);
        let to = self.ranges.partition_point(|range| range.0 <= end);
        if from < to {
            first = first.min(self.ranges[from].0);
            end = end.max(self.ranges[to - 1].1);
        }
        self.ranges.splice(from..to, [(first, end)]);
        let before = from.checked_sub(1).map(|before| self.ranges[before].1);
        debug_assert!(before.is_none_or(|before| before < first), "{before:?} touches page {first}");
        let behind = self.ranges.get(from + 1).map(|behind| behind.0);
        debug_assert!(behind.is_none_or(|behind| end < behind), "{behind:?} touches page {end}");
    }

    /// Cuts `first..first + count` into pieces `(first, count, inside)`.
    pub fn split(&self, first: u64, count: u64) -> Vec<(u64, u64, bool)> {
        let end = first + count;
        let mut pieces = Vec::new();
        let mut next = first;
        for &(from, to) in &self.ranges[self.ranges.partition_point(|range| range.1 <= first)..] {
            if from >= end {
                break;
            }
            if from > next {
                pieces.push((next, from - next, false));
                next = from;
            }
            let stop = to.min(end);
            pieces.push((next, stop - next, true));
            next = stop;
        }
        if next < end {
            pieces.push((next, end - next, false));
        }
        debug_assert_eq!(
            pieces.iter().map(|piece| piece.1).sum::<u64>(),
            count,
            "the pieces are the whole: {pieces:?}"
        );
        pieces
    }
}
