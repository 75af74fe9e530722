//! Free runs sorted by their length. A run of up to [`EXACT`] pages stands in the bin of exactly its length, so the
//! best fit is in the first bin that has anything, found through two levels of bits. Longer runs share a bin with those that
//! agree in the six leading bits of their lengths. Called by the pool.
//!
//! Of equally long runs the low ones are taken first: that keeps the high ones together and saves a tenth of the
//! refusals of a pool that is nearly full. Short lengths have many runs; these have a bin for each thirty-second part of the pool, so
//! that the lowest comes first by itself. Elsewhere it is enough to know which of two is the lower: the list of a bin is
//! a ring that a run enters at its begin or its end.

use std::hint::select_unpredictable;

use wddm_types::PageRun;

/// No run.
pub(super) const NONE: u32 = u32::MAX;
/// The longest run with bins by address.
const SHORT: u64 = 64;
const REGIONS: usize = 32;
/// The longest run with a bin of its own: 16 MiB.
const EXACT: u64 = 4096;
/// The first bin of several lengths.
const SHARED: usize = SHORT as usize * REGIONS + (EXACT - SHORT) as usize;
const OCTAVES: usize = 64 - EXACT.ilog2() as usize;
const PER_OCTAVE: usize = 32;
const BINS: usize = SHARED + OCTAVES * PER_OCTAVE;
const WORDS: usize = BINS.div_ceil(64);
/// Room of the tables: powers of two, so that a masked index is known to lie within.
const BINS_ROOM: usize = BINS.next_power_of_two();
const WORDS_ROOM: usize = BINS_ROOM / 64;
/// How many runs of a shared bin are compared before one is good enough.
const LOOK: usize = 16;

const _: () = assert!(WORDS_ROOM == 128, "the upper level of bits is two words");
const _: () = assert!(BINS_ROOM <= u32::MAX as usize && WORDS <= WORDS_ROOM, "a bin has a number");

/// One free run, in the list of its bin. Half a cache line, so that it never lies in two.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct FreeRun {
    pub first: u64,
    pub count: u64,
    before: u32,
    next: u32,
    /// Its bin, so that leaving need not find it again.
    bin: u32,
}

impl FreeRun {
    /// One past its last page.
    pub fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// All free runs of a pool, by number and by length.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    runs: Vec<FreeRun>,
    unused: u32,
    len: usize,
    heads: Box<[u32; BINS_ROOM]>,
    start: u64,
    region_shift: u32,
    bits: [u64; WORDS_ROOM],
    words: [u64; 2],
}

impl Bins {
    /// None yet, of a pool with these pages.
    pub fn new(whole: PageRun) -> Self {
        let width = u64::BITS - whole.count.0.leading_zeros();
        Bins {
            runs: Vec::new(),
            unused: NONE,
            len: 0,
            heads: Box::new([NONE; BINS_ROOM]),
            start: whole.first,
            region_shift: width.saturating_sub(REGIONS.ilog2()),
            bits: [0; WORDS_ROOM],
            words: [0; 2],
        }
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub fn get(&self, run: u32) -> FreeRun {
        self.runs[run as usize]
    }

    /// All runs, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (u32, FreeRun)> + '_ {
        // CAST: runs are numbered by u32.
        self.runs.iter().enumerate().filter(|(_, run)| run.count > 0).map(|(number, run)| (number as u32, *run))
    }

    /// A number for a run without pages.
    #[inline(always)]
    pub fn number(&mut self) -> u32 {
        self.len += 1;
        if self.unused != NONE {
            let run = self.unused;
            self.unused = self.runs[run as usize].next;
            return run;
        }
        let number = u32::try_from(self.runs.len()).ok().filter(|number| *number != NONE);
        self.runs.push(FreeRun { first: 0, count: 0, before: NONE, next: NONE, bin: 0 });
        number.expect("fewer free runs than numbers")
    }

    /// The number is not needed any more; its run has left its bin.
    #[inline(always)]
    pub fn forget(&mut self, run: u32) {
        self.runs[run as usize] = FreeRun { first: 0, count: 0, before: NONE, next: self.unused, bin: 0 };
        self.unused = run;
        self.len -= 1;
    }

    /// Gives a run that is in no bin its pages, and puts it into the bin for them. Written without branches: nobody could
    /// guess which way they go.
    #[inline(always)]
    pub fn enter(&mut self, run: u32, first: u64, count: u64) {
        let bin = self.bin_of(first, count);
        let head = self.heads[bin % BINS_ROOM];
        // An empty ring is begun by itself.
        let empty = head == NONE;
        let next = select_unpredictable(empty, run, head);
        let behind = &mut self.runs[next as usize];
        let lower = first < behind.first;
        let before = select_unpredictable(empty, run, behind.before);
        behind.before = run;
        self.heads[bin % BINS_ROOM] = select_unpredictable(lower, run, next);
        self.bits[bin / 64 % WORDS_ROOM] |= 1 << (bin % 64);
        self.words[bin / 4096 % 2] |= 1 << (bin / 64 % 64);
        self.runs[before as usize].next = run;
        // CAST: there are fewer bins than that.
        self.runs[run as usize] = FreeRun { first, count, before, next, bin: bin as u32 };
    }

    /// Takes a run out of its bin; answers with what it was.
    #[inline(always)]
    pub fn leave(&mut self, run: u32) -> FreeRun {
        let free = self.runs[run as usize];
        let FreeRun { before, next, bin, .. } = free;
        let bin = bin as usize;
        self.runs[next as usize].before = before;
        self.runs[before as usize].next = next;
        let left = select_unpredictable(next == run, NONE, next);
        let head = &mut self.heads[bin % BINS_ROOM];
        *head = select_unpredictable(*head == run, left, *head);
        let emptied = u64::from(*head == NONE);
        let bits = &mut self.bits[bin / 64 % WORDS_ROOM];
        *bits &= !(emptied << (bin % 64));
        self.words[bin / 4096 % 2] &= !(u64::from(*bits == 0) << (bin / 64 % 64));
        free
    }

    /// The shortest run of at least `pages`, the lowest of equals, as far as a shared bin is looked through.
    #[inline(always)]
    pub fn best_fit(&self, pages: u64) -> Option<u32> {
        let bin = first_bin(pages);
        let found = self.next_bin(bin)?;
        if found < SHARED {
            return Some(self.heads[found]);
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
        bins.flat_map(|bin| self.list(bin)).filter(move |run| self.runs[*run as usize].count >= pages)
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
        let count = self.runs[run as usize].count;
        let bin = first_bin(count);
        let bins = bin..bin + if count <= SHORT { REGIONS } else { 1 };
        let alike = move |fellow: &u32| self.runs[*fellow as usize].count == count;
        bins.flat_map(|bin| self.list(bin)).take(LOOK).filter(alike)
    }

    /// The best of the first few that fit; the first of them is looked for to the end of the bin.
    fn shortest(&self, bin: usize, pages: u64) -> Option<u32> {
        let mut fitting = self.list(bin).filter(|run| self.runs[*run as usize].count >= pages);
        let first = fitting.next()?;
        std::iter::once(first).chain(fitting.take(LOOK - 1)).min_by_key(|run| self.key(*run))
    }

    fn list(&self, bin: usize) -> impl Iterator<Item = u32> + '_ {
        let head = self.heads[bin];
        let next = move |run: &u32| Some(self.runs[*run as usize].next).filter(|next| *next != head);
        std::iter::successors((head != NONE).then_some(head), next)
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
        let FreeRun { first, count, .. } = self.runs[run as usize];
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

/// The first bin of a length above 0.
#[inline(always)]
fn first_bin(count: u64) -> usize {
    if count <= EXACT {
        let short = (count - 1) as usize * REGIONS;
        let long = (count as usize + SHORT as usize * REGIONS).wrapping_sub(SHORT as usize + 1);
        return select_unpredictable(count <= SHORT, short, long);
    }
    let octave = count.ilog2();
    let sub = (count >> (octave - PER_OCTAVE.ilog2())) as usize % PER_OCTAVE;
    SHARED + (octave - EXACT.ilog2()) as usize * PER_OCTAVE + sub
}
