//! Free runs sorted by their length. A run of up to [`EXACT`] pages stands in the bin of exactly its length, so the
//! best fit is in the first bin that has anything, found through two levels of bits. Longer runs share a bin with those that
//! agree in the six leading bits of their lengths. Called by the pool.
//!
//! Of equally long runs the low ones are taken first: that keeps the high ones together and saves a tenth of the
//! refusals of a pool that is nearly full. Short lengths have many runs; these have a bin for each eighth of the pool, so
//! that a low one comes first by itself. Elsewhere it is enough to know which half of the pool a run lies in: the list of a
//! bin is a ring that a run of the lower half enters at its begin, and one of the upper half at its end.
//!
//! A call costs what its loads wait for one another, not what it computes. So nothing here follows more than one link
//! before it knows what it will write: each ring has its bin as a link of its own, which is never left, and no run is
//! looked at to place another.

use std::hint::select_unpredictable;

use wddm_types::PageRun;

/// No run: the numbers of runs begin behind those of the bins.
pub(super) const NONE: u32 = 0;
/// The longest run with bins by address.
const SHORT: u64 = 64;
const REGIONS: usize = 8;
/// The longest run with a bin of its own: 16 MiB.
const EXACT: u64 = 4096;
/// The first bin of several lengths.
const SHARED: usize = exact_bin(EXACT) + 1;
const OCTAVES: usize = 64 - EXACT.ilog2() as usize;
const PER_OCTAVE: usize = 32;
const BINS: usize = SHARED + OCTAVES * PER_OCTAVE;
const WORDS: usize = BINS.div_ceil(64);
/// Room of the bits: a power of two, so that a masked index is known to lie within.
const WORDS_ROOM: usize = WORDS.next_power_of_two();
/// How many runs of a shared bin are compared before one is good enough.
const LOOK: usize = 16;

const _: () = assert!(WORDS_ROOM == 128, "the upper level of bits is two words");

/// One free run.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeRun {
    pub first: u64,
    pub count: u64,
}

impl FreeRun {
    /// One past its last page.
    pub fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// The neighbours in a ring.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    next: u32,
}

/// All free runs of a pool, by number and by length.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    /// By number, less that of the first run.
    runs: Vec<FreeRun>,
    /// By number, those of the bins first.
    links: Vec<Link>,
    /// Numbers of runs without pages.
    unused: Vec<u32>,
    start: u64,
    half: u64,
    region_shift: u32,
    bits: [u64; WORDS_ROOM],
    words: [u64; 2],
}

impl Bins {
    /// None yet, of a pool with these pages.
    pub fn new(whole: PageRun) -> Self {
        let width = u64::BITS - whole.count.0.leading_zeros();
        // CAST: there are fewer bins than that.
        let alone = |bin: usize| Link { before: bin as u32, next: bin as u32 };
        Bins {
            runs: Vec::new(),
            links: (0..BINS).map(alone).collect(),
            unused: Vec::new(),
            start: whole.first,
            half: whole.first + whole.count.0 / 2,
            region_shift: width.saturating_sub(REGIONS.ilog2()),
            bits: [0; WORDS_ROOM],
            words: [0; 2],
        }
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.runs.len() - self.unused.len()
    }

    #[inline(always)]
    pub fn get(&self, run: u32) -> FreeRun {
        self.runs[run as usize - BINS]
    }

    /// All runs, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (u32, FreeRun)> + '_ {
        // CAST: runs are numbered by u32.
        let numbered = |(at, run): (usize, &FreeRun)| ((at + BINS) as u32, *run);
        self.runs.iter().enumerate().map(numbered).filter(|(_, run)| run.count > 0)
    }

    /// A number for a run without pages.
    #[inline(always)]
    pub fn number(&mut self) -> u32 {
        match self.unused.pop() {
            Some(run) => {
                debug_assert_eq!(self.get(run).count, 0, "run {run} is given a second time");
                run
            }
            None => self.new_number(),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_number(&mut self) -> u32 {
        let number = u32::try_from(self.links.len()).expect("fewer free runs than numbers");
        self.runs.push(FreeRun { first: 0, count: 0 });
        self.links.push(Link { before: NONE, next: NONE });
        number
    }

    /// The number is not needed any more; its run has left its bin.
    #[inline(always)]
    pub fn forget(&mut self, run: u32) {
        debug_assert!(self.get(run).count > 0, "run {run} is forgotten twice");
        self.runs[run as usize - BINS].count = 0;
        self.unused.push(run);
    }

    /// Gives a run that is in no bin its pages, and puts it into the bin for them. Written without branches, because they would be
    /// unpredictable.
    #[inline(always)]
    pub fn enter(&mut self, run: u32, first: u64, count: u64) {
        debug_assert!(
            count > 0 && first >= self.start,
            "{count} pages from page {first}, in a pool from {}",
            self.start
        );
        let bin = self.bin_of(first, count);
        let Link { before: last, next: head } = self.links[bin];
        let lower = first < self.half;
        // CAST: there are fewer bins than that.
        let before = select_unpredictable(lower, bin as u32, last);
        let next = select_unpredictable(lower, head, bin as u32);
        self.links[before as usize].next = run;
        self.links[next as usize].before = run;
        self.links[run as usize] = Link { before, next };
        self.runs[run as usize - BINS] = FreeRun { first, count };
        self.bits[bin / 64 % WORDS_ROOM] |= 1 << (bin % 64);
        self.words[bin / 4096 % 2] |= 1 << (bin / 64 % 64);
    }

    /// Takes a run out of its bin; answers with what it was.
    #[inline(always)]
    pub fn leave(&mut self, run: u32) -> FreeRun {
        let Link { before, next } = self.links[run as usize];
        self.unlink(before, next);
        debug_assert!(self.get(run).count > 0, "run {run} is in a bin, and has no page");
        self.get(run)
    }

    /// Takes the shortest run of at least `pages` out of its bin, the lowest of equals, as far as a shared bin is looked
    /// through; answers with its number and what it was.
    #[inline(always)]
    pub fn leave_best_fit(&mut self, pages: u64) -> Option<(u32, FreeRun)> {
        let bin = first_bin(pages);
        let found = self.next_bin(bin)?;
        if found >= SHARED {
            let run = self.best_shared_fit(bin, pages)?;
            return Some((run, self.leave(run)));
        }
        let run = self.links[found].next;
        debug_assert!(self.get(run).count >= pages, "{:?} is no fit for {pages} pages", self.get(run));
        // The predecessor of the first of a ring is the bin itself. CAST: there are fewer bins than that.
        self.unlink(found as u32, self.links[run as usize].next);
        Some((run, self.get(run)))
    }

    /// Makes two links neighbours between which one run stood.
    #[inline(always)]
    fn unlink(&mut self, before: u32, next: u32) {
        self.links[before as usize].next = next;
        self.links[next as usize].before = before;
        // Only the bin itself can be on both sides. Where a run is, no bit is cleared, and a word that is found empty
        // was so before.
        let (bin, emptied) = (before as usize, u64::from(before == next));
        let bits = &mut self.bits[bin / 64 % WORDS_ROOM];
        *bits &= !(emptied << (bin % 64));
        self.words[bin / 4096 % 2] &= !(u64::from(*bits == 0) << (bin / 64 % 64));
    }

    /// The shortest run of at least `pages`, the lowest of equals, as far as a shared bin is looked through.
    #[inline(always)]
    pub fn best_fit(&self, pages: u64) -> Option<u32> {
        let bin = first_bin(pages);
        let found = self.next_bin(bin)?;
        if found < SHARED {
            return Some(self.links[found].next);
        }
        self.best_shared_fit(bin, pages)
    }

    #[cold]
    #[inline(never)]
    fn best_shared_fit(&self, bin: usize, pages: u64) -> Option<u32> {
        let fit = |bin: usize| self.shortest(self.next_bin(bin)?, pages);
        fit(bin).or_else(|| fit(bin + 1))
    }

    /// The runs of at least `pages`, the shorter bins first.
    pub fn at_least(&self, pages: u64) -> impl Iterator<Item = u32> + '_ {
        let next = |bin: &usize| self.next_bin(*bin + 1);
        let bins = std::iter::successors(self.next_bin(first_bin(pages)), next);
        bins.flat_map(|bin| self.list(bin)).filter(move |run| self.get(*run).count >= pages)
    }

    /// The longest run, as far as shared bins are looked through.
    #[inline]
    pub fn longest(&self) -> Option<u32> {
        let upper = if self.words[1] != 0 { 1 } else { 0 };
        let word = upper * 64 + 63usize.checked_sub(self.words[upper].leading_zeros() as usize)?;
        let bin = word * 64 + 63 - self.bits[word].leading_zeros() as usize;
        let look = if bin < SHARED { 1 } else { LOOK };
        self.list(bin).take(look).max_by_key(|run| self.key(*run))
    }

    /// Runs that are exactly as long as this one.
    pub fn fellows(&self, run: u32) -> impl Iterator<Item = u32> + '_ {
        let count = self.get(run).count;
        let bin = first_bin(count);
        let bins = bin..bin + if count <= SHORT { REGIONS } else { 1 };
        let alike = move |fellow: &u32| self.get(*fellow).count == count;
        bins.flat_map(|bin| self.list(bin)).take(LOOK).filter(alike)
    }

    /// The best of the first few that fit; the first of them is looked for to the end of the bin.
    fn shortest(&self, bin: usize, pages: u64) -> Option<u32> {
        let mut fitting = self.list(bin).filter(|run| self.get(*run).count >= pages);
        let first = fitting.next()?;
        std::iter::once(first).chain(fitting.take(LOOK - 1)).min_by_key(|run| self.key(*run))
    }

    fn list(&self, bin: usize) -> impl Iterator<Item = u32> + '_ {
        let next = move |at: u32| Some(self.links[at as usize].next).filter(|next| *next as usize != bin);
        // CAST: there are fewer bins than that.
        std::iter::successors(next(bin as u32), move |run| next(*run))
    }

    /// The first bin from `bin` on that has a run.
    #[inline(always)]
    fn next_bin(&self, bin: usize) -> Option<usize> {
        let word = bin / 64;
        if word >= WORDS_ROOM {
            return None;
        }
        let here = self.bits[word] & (u64::MAX << (bin % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let from = word + 1;
        let low = if from < 64 { self.words[0] & (u64::MAX << from) } else { 0 };
        let next = if low != 0 {
            low.trailing_zeros() as usize
        } else {
            let high = if from <= 64 { self.words[1] } else { self.words[1] & (u64::MAX << (from - 64)) };
            if high == 0 {
                return None;
            }
            64 + high.trailing_zeros() as usize
        };
        Some(next * 64 + self.bits[next].trailing_zeros() as usize)
    }

    #[inline]
    fn key(&self, run: u32) -> (u64, u64) {
        let FreeRun { first, count } = self.get(run);
        (count, first)
    }

    /// The bin of a run.
    #[inline(always)]
    fn bin_of(&self, first: u64, count: u64) -> usize {
        let region = (first - self.start) >> self.region_shift;
        let short = select_unpredictable(count <= SHORT, region, 0);
        first_bin(count) + short as usize
    }
}

/// The first bin of a length above 0 that has bins of its own. Those before that of one page stay empty.
#[inline(always)]
const fn exact_bin(count: u64) -> usize {
    let short = if count <= SHORT { count } else { SHORT + 1 };
    (count + short * (REGIONS as u64 - 1)) as usize
}

/// The first bin of a length above 0.
#[inline(always)]
fn first_bin(count: u64) -> usize {
    if count <= EXACT {
        return exact_bin(count);
    }
    let octave = count.ilog2();
    let sub = (count >> (octave - PER_OCTAVE.ilog2())) as usize % PER_OCTAVE;
    SHARED + (octave - EXACT.ilog2()) as usize * PER_OCTAVE + sub
}
