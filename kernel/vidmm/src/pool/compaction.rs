//! The moves that make a hole: for a contiguous request when pages enough are free and no hole holds it. It moves nothing, but returns the
//! moves. Called by `plan`.
//!
//! The idea: every stretch of pages that are free or movable is a place where the hole could be. Its best places begin or
//! end where some run begins or ends. They are tried from the one that displaces the fewest pages on; a place counts
//! when all that it displaces finds room among the free pages elsewhere. Nothing moves twice, and nothing moves to pages
//! that another move leaves, so the moves can be done in any order.

use wddm_types::PageRun;

use super::{FramePool, run};

/// Places that are tried in full before the search gives up.
const TRIES: usize = 64;

/// Content that may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Movable {
    /// Where it is now.
    pub run: PageRun,
    /// It has to stay one run, at a multiple of this many pages; `None`: any part may go anywhere.
    pub alignment: Option<u64>,
}

/// One move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Position of what moves in the list of what may.
    pub movable: usize,
    /// Pages that it leaves.
    pub from: PageRun,
    /// As many free pages where it goes.
    pub to: PageRun,
}

impl FramePool {
    /// The cheapest moves after which a run of `pages` pages at a multiple of `alignment` pages is free, and that run.
    /// `None`: no place was found. Pages that are neither free nor movable stay.
    pub fn compaction(&self, pages: u64, alignment: u64, movable: &[Movable]) -> Option<(PageRun, Vec<Relocation>)> {
        assert!(pages > 0 && alignment.is_power_of_two(), "a run has pages and its alignment is a power of two");
        if pages > self.free_pages() {
            return None;
        }
        let sorted = Sorted::new(movable);
        let starts = self.starts(pages, alignment, movable).into_iter();
        let holes = starts.map(|first| run(first, pages));
        // Content that must stay whole takes pages outside the hole, and leaves some there that are free only afterwards.
        let spare = self.free_pages() - pages;
        let mut places: Vec<(u64, PageRun)> = holes
            .filter_map(|hole| {
                let [parts, wholes] = sorted.beyond(hole);
                (wholes <= spare).then(|| (sorted.touched_pages(hole) - parts, hole))
            })
            .collect();
        places.sort_unstable_by_key(|(cost, hole)| (*cost, hole.first));
        let rehoused = |(_, hole)| self.rehouse(hole, movable, &sorted).map(|moves| (hole, moves));
        places.into_iter().take(TRIES).find_map(rehoused)
    }

    /// Where the hole could begin.
    fn starts(&self, pages: u64, alignment: u64, movable: &[Movable]) -> Vec<u64> {
        let free = self.bins.iter().map(|(_, free)| (free.first, free.end()));
        let mut spans: Vec<_> = free.chain(movable.iter().map(|m| (m.run.first, m.run.end()))).collect();
        spans.sort_unstable();
        let mut starts = Vec::new();
        for stretch in spans.chunk_by(|one, next| one.1 == next.0) {
            let (low, high) = (stretch[0].0, stretch[stretch.len() - 1].1);
            for &(first, end) in stretch {
                let upwards = first.next_multiple_of(alignment);
                let downwards = end.saturating_sub(pages) / alignment * alignment;
                starts.extend([upwards, downwards].into_iter().filter(|&at| low <= at && at + pages <= high));
            }
        }
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// Where all goes that a hole displaces.
    fn rehouse(&self, hole: PageRun, movable: &[Movable], sorted: &Sorted) -> Option<Vec<Relocation>> {
        let mut rest = self.clone();
        for (_, free) in self.bins.iter() {
            let (low, high) = (free.first.max(hole.first), free.end().min(hole.end()));
            if low < high {
                rest.take_exact(run(low, high - low));
            }
        }
        let mut leaving: Vec<_> = sorted.displaced(hole).collect();
        // Content that must stay whole is the hardest to place: the longest comes first.
        leaving.sort_by_key(|(at, from)| (movable[*at].alignment.is_none(), std::cmp::Reverse(from.count), *at));
        let mut moves = Vec::new();
        for (at, from) in leaving {
            let targets = match movable[at].alignment {
                Some(alignment) => vec![rest.take_contiguous(from.count.0, alignment, false)?],
                None => rest.take_scattered(from.count.0)?,
            };
            let mut first = from.first;
            for to in targets {
                let beside = to.end() <= hole.first || hole.end() <= to.first;
                debug_assert!(beside, "what lies at {from:?} moves to {to:?}, in the hole {hole:?}");
                moves.push(Relocation { movable: at, from: run(first, to.count.0), to });
                first += to.count.0;
            }
            debug_assert_eq!(first, from.end(), "all of {from:?} moves");
        }
        Some(moves)
    }
}

/// Movable content by address, with sums, so that a place is judged in the time of a search.
struct Sorted {
    /// Position in the caller's list, run, whether it has to stay whole; by address.
    content: Vec<(usize, PageRun, bool)>,
    /// Pages before each.
    before: Vec<u64>,
}

impl Sorted {
    fn new(movable: &[Movable]) -> Sorted {
        let mut content: Vec<_> =
            movable.iter().enumerate().map(|(at, of)| (at, of.run, of.alignment.is_some())).collect();
        content.sort_unstable_by_key(|(_, run, _)| run.first);
        let sum =
            |sum: &mut u64, (_, run, _): &(usize, PageRun, bool)| Some(std::mem::replace(sum, *sum + run.count.0));
        let mut before: Vec<u64> = content.iter().scan(0, sum).collect();
        before.push(content.iter().map(|(_, run, _)| run.count.0).sum());
        Sorted { content, before }
    }

    /// Those that have a page in a hole.
    fn within(&self, hole: PageRun) -> std::ops::Range<usize> {
        let from = self.content.partition_point(|(_, run, _)| run.end() <= hole.first);
        from..from + self.content[from..].partition_point(|(_, run, _)| run.first < hole.end())
    }

    /// The runs that have to leave a hole: the part that lies in it, or the whole run if it must stay whole.
    fn displaced(&self, hole: PageRun) -> impl Iterator<Item = (usize, PageRun)> + '_ {
        self.content[self.within(hole)].iter().map(move |&(at, from, whole)| {
            let (low, high) = (from.first.max(hole.first), from.end().min(hole.end()));
            (at, if whole { from } else { run(low, high - low) })
        })
    }

    /// Pages of those that have a page in a hole.
    fn touched_pages(&self, hole: PageRun) -> u64 {
        let within = self.within(hole);
        self.before[within.end] - self.before[within.start]
    }

    /// Their pages outside the hole: of what may go in parts, and of what has to stay whole. Only the first and the last
    /// can reach beyond it.
    fn beyond(&self, hole: PageRun) -> [u64; 2] {
        let within = &self.content[self.within(hole)];
        let last = within.last().filter(|_| within.len() > 1);
        let mut pages = [0; 2];
        for &(_, from, whole) in within.first().into_iter().chain(last) {
            pages[usize::from(whole)] += outside(from, hole);
        }
        pages
    }
}

/// Pages of a run that are not in a hole.
fn outside(from: PageRun, hole: PageRun) -> u64 {
    let (low, high) = (from.first.max(hole.first), from.end().min(hole.end()));
    from.count.0 - high.saturating_sub(low)
}
