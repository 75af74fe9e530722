//! Residences of allocations on the pages of segments: the moves of memory, turned into rectangles of time and
//! address. It believes the events and checks nothing; pages that leave without having come are passed over.

use std::collections::BTreeMap;

use wddm_types::PageRun;

/// Consecutive pages of a segment that one allocation held for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residence {
    /// The segment.
    pub segment: u8,
    /// First page in the segment, of 4 KB.
    pub first_page: u64,
    /// How many.
    pub pages: u64,
    /// The allocation.
    pub allocation: u64,
    /// The process whose it is; 0 when that is not known.
    pub process: u32,
    /// When it came, as the kernel decided.
    pub begin_ns: u64,
    /// When it left, or the end of the recording.
    pub end_ns: u64,
}

/// The current residences, and the past ones.
#[derive(Debug, Default)]
pub struct Places {
    /// By segment and first page.
    now: BTreeMap<(u8, u64), Residence>,
    past: Vec<Residence>,
}

impl Places {
    /// An allocation's pages came.
    pub fn came(&mut self, at_ns: u64, segment: u8, run: PageRun, allocation: u64, process: u32) {
        self.left(at_ns, segment, run);
        let (first_page, pages) = (run.first, run.count.0);
        let residence = Residence { segment, first_page, pages, allocation, process, begin_ns: at_ns, end_ns: at_ns };
        self.now.insert((segment, first_page), residence);
    }

    /// Pages left. The rest of a residence goes on.
    pub fn left(&mut self, at_ns: u64, segment: u8, run: PageRun) {
        let end = run.end();
        let before = self.now.range(..(segment, run.first)).next_back();
        let reaches = before.filter(|((of, _), r)| *of == segment && r.first_page + r.pages > run.first);
        let from = reaches.map_or(run.first, |((_, first), _)| *first);
        let hit: Vec<u64> = self.now.range((segment, from)..(segment, end)).map(|((_, first), _)| *first).collect();
        for first in hit {
            let whole = self.now.remove(&(segment, first)).expect("just seen");
            let whole_end = whole.first_page + whole.pages;
            let (cut_from, cut_to) = (whole.first_page.max(run.first), whole_end.min(end));
            for (first_page, stop) in [(whole.first_page, cut_from), (cut_to, whole_end)] {
                if first_page < stop {
                    let rest = Residence { first_page, pages: stop - first_page, ..whole.clone() };
                    self.now.insert((segment, first_page), rest);
                }
            }
            if whole.begin_ns < at_ns {
                let gone = Residence { first_page: cut_from, pages: cut_to - cut_from, end_ns: at_ns, ..whole };
                self.past.push(gone);
            }
        }
    }

    /// All residences, in order of their beginning; current ones end at `end_ns`.
    pub fn finish(mut self, end_ns: u64) -> Vec<Residence> {
        self.past.extend(self.now.into_values().map(|residence| Residence { end_ns, ..residence }));
        self.past.sort_by_key(|r| (r.begin_ns, r.segment, r.first_page, r.end_ns));
        self.past
    }
}

#[cfg(test)]
mod tests {
    use wddm_types::Pages;

    use super::*;

    fn run(first: u64, count: u64) -> PageRun {
        PageRun { first, count: Pages(count) }
    }

    fn told(places: Places) -> Vec<(u8, u64, u64, u64, u64, u64)> {
        let all = places.finish(100).into_iter();
        all.map(|r| (r.segment, r.first_page, r.pages, r.allocation, r.begin_ns, r.end_ns)).collect()
    }

    #[test]
    fn what_leaves_in_part_stays_in_part() {
        let mut places = Places::default();
        places.came(10, 1, run(4, 8), 7, 1);
        places.came(10, 2, run(4, 8), 9, 1);
        places.left(20, 1, run(6, 2));
        places.left(30, 1, run(0, 5));
        let expected = [
            (1, 4, 1, 7, 10, 30),
            (1, 5, 1, 7, 10, 100),
            (1, 6, 2, 7, 10, 20),
            (1, 8, 4, 7, 10, 100),
            (2, 4, 8, 9, 10, 100),
        ];
        assert_eq!(told(places), expected);
    }

    #[test]
    fn a_new_placement_ends_the_one_that_was_there() {
        let mut places = Places::default();
        places.came(10, 1, run(0, 4), 7, 1);
        places.came(10, 1, run(4, 4), 8, 1);
        places.came(50, 1, run(2, 4), 9, 2);
        let expected = [
            (1, 0, 2, 7, 10, 100),
            (1, 2, 2, 7, 10, 50),
            (1, 4, 2, 8, 10, 50),
            (1, 6, 2, 8, 10, 100),
            (1, 2, 4, 9, 50, 100),
        ];
        assert_eq!(told(places), expected);
    }
}
