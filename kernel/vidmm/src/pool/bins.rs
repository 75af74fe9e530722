//! Free runs sorted by their length. A run of up to [`EXACT`] pages stands in the bin of exactly its length, so the
//! best fit is in the first bin that has anything, found through two levels of bits. Longer runs share a bin with those that
//! agree in the six leading bits of their lengths. Called by the pool.
//!
//! Of equally long runs the lowest is taken: that keeps the high ones together and saves a tenth of the refusals of a
//! pool that is nearly full. So each bin is a pairing heap by length and address: a tree in which whoever is above goes
//! first. Most bins have one run, and then it is as cheap as a list.

/// No run.
pub(super) const NONE: u32 = u32::MAX;
/// The longest run with a bin of its own: 16 MiB.
const EXACT: u64 = 4096;
const OCTAVES: usize = 64 - EXACT.ilog2() as usize;
const PER_OCTAVE: usize = 32;
const BINS: usize = EXACT as usize + OCTAVES * PER_OCTAVE;
const WORDS: usize = BINS.div_ceil(64);
/// How many runs of a shared bin are compared before one is good enough.
const LOOK: usize = 16;

const _: () = assert!(WORDS <= 128, "the upper level of bits is two words");

/// One free run, in the heap of its bin.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeRun {
    pub first: u64,
    pub count: u64,
    /// The first of those below it.
    child: u32,
    /// The next of those below the same.
    next: u32,
    /// The one before it below the same; of the first, the one above.
    before: u32,
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
    /// Who goes first in each bin.
    heads: Vec<u32>,
    bits: [u64; WORDS],
    words: [u64; 2],
}

impl Bins {
    pub fn new() -> Self {
        Bins { runs: Vec::new(), unused: NONE, len: 0, heads: vec![NONE; BINS], bits: [0; WORDS], words: [0; 2] }
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn get(&self, run: u32) -> FreeRun {
        self.runs[run as usize]
    }

    /// All runs, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (u32, FreeRun)> + '_ {
        // CAST: runs are numbered by u32.
        self.runs.iter().enumerate().filter(|(_, run)| run.count > 0).map(|(number, run)| (number as u32, *run))
    }

    /// A new run; answers its number.
    #[inline]
    pub fn add(&mut self, first: u64, count: u64) -> u32 {
        let fresh = FreeRun { first, count, child: NONE, next: NONE, before: NONE };
        let run = if self.unused == NONE {
            let number = u32::try_from(self.runs.len()).ok().filter(|number| *number != NONE);
            self.runs.push(fresh);
            number.expect("fewer free runs than numbers")
        } else {
            let run = self.unused;
            self.unused = self.runs[run as usize].next;
            self.runs[run as usize] = fresh;
            run
        };
        self.len += 1;
        self.link(run);
        run
    }

    #[inline]
    pub fn remove(&mut self, run: u32) {
        self.unlink(run);
        self.runs[run as usize] = FreeRun { first: 0, count: 0, child: NONE, next: self.unused, before: NONE };
        self.unused = run;
        self.len -= 1;
    }

    /// Gives a run other pages.
    #[inline]
    pub fn resize(&mut self, run: u32, first: u64, count: u64) {
        self.unlink(run);
        let resized = &mut self.runs[run as usize];
        (resized.first, resized.count) = (first, count);
        self.link(run);
    }

    /// The shortest run of at least `pages`, the lowest of equals, as far as a shared bin is looked through.
    #[inline]
    pub fn best_fit(&self, pages: u64) -> Option<u32> {
        let bin = bin_of(pages);
        let found = self.next_bin(bin)?;
        if found < EXACT as usize {
            return Some(self.heads[found]);
        }
        let own = if found == bin { self.shortest(found, pages) } else { None };
        own.or_else(|| Some(self.heads[self.next_bin(bin + 1)?]))
    }

    /// The runs of at least `pages`, the shorter bins first.
    pub fn at_least(&self, pages: u64) -> impl Iterator<Item = u32> + '_ {
        let mut bin = self.next_bin(bin_of(pages));
        let mut run = bin.map_or(NONE, |bin| self.heads[bin]);
        std::iter::from_fn(move || {
            while run == NONE {
                bin = self.next_bin(bin? + 1);
                run = self.heads[bin?];
            }
            let found = run;
            run = self.after(found);
            Some(found)
        })
        .filter(move |run| self.runs[*run as usize].count >= pages)
    }

    /// The longest run, as far as shared bins are looked through.
    #[inline]
    pub fn longest(&self) -> Option<u32> {
        let upper = if self.words[1] != 0 { 1 } else { 0 };
        let word = upper * 64 + 63usize.checked_sub(self.words[upper].leading_zeros() as usize)?;
        let bin = word * 64 + 63 - self.bits[word].leading_zeros() as usize;
        let look = if bin < EXACT as usize { 1 } else { LOOK };
        self.list(bin).take(look).max_by_key(|run| self.key(*run))
    }

    /// Runs that are exactly as long as this one, and their bin fellows.
    pub fn fellows(&self, run: u32) -> impl Iterator<Item = u32> + '_ {
        let count = self.runs[run as usize].count;
        self.list(bin_of(count)).take(LOOK).filter(move |fellow| self.runs[*fellow as usize].count == count)
    }

    /// The best of the first few that fit; the first of them is looked for to the end of the bin.
    fn shortest(&self, bin: usize, pages: u64) -> Option<u32> {
        let mut fitting = self.list(bin).filter(|run| self.runs[*run as usize].count >= pages);
        let first = fitting.next()?;
        std::iter::once(first).chain(fitting.take(LOOK - 1)).min_by_key(|run| self.key(*run))
    }

    /// The runs of a bin, each after the one above it.
    fn list(&self, bin: usize) -> impl Iterator<Item = u32> + '_ {
        let some = |run: u32| (run != NONE).then_some(run);
        std::iter::successors(some(self.heads[bin]), move |run| some(self.after(*run)))
    }

    /// Who comes after a run in the list of its bin.
    fn after(&self, run: u32) -> u32 {
        let child = self.runs[run as usize].child;
        if child != NONE {
            return child;
        }
        let mut at = run;
        loop {
            let FreeRun { next, mut before, .. } = self.runs[at as usize];
            if next != NONE || before == NONE {
                return next;
            }
            // Up: past those before it below the same.
            while self.runs[before as usize].child != at {
                (at, before) = (before, self.runs[before as usize].before);
            }
            at = before;
        }
    }

    /// The first bin from `bin` on that has a run.
    #[inline]
    fn next_bin(&self, bin: usize) -> Option<usize> {
        let word = bin / 64;
        if word >= WORDS {
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
    fn link(&mut self, run: u32) {
        let bin = bin_of(self.runs[run as usize].count);
        let head = self.heads[bin];
        if head == NONE {
            self.bits[bin / 64] |= 1 << (bin % 64);
            self.words[bin / 4096] |= 1 << (bin / 64 % 64);
            self.heads[bin] = run;
        } else {
            self.heads[bin] = self.meld(head, run);
        }
    }

    #[inline]
    fn unlink(&mut self, run: u32) {
        let FreeRun { count, child, next, before, .. } = self.runs[run as usize];
        let below = if child == NONE { NONE } else { self.meld_all(child) };
        if before == NONE {
            let bin = bin_of(count);
            self.heads[bin] = below;
            if below == NONE {
                self.bits[bin / 64] &= !(1 << (bin % 64));
                if self.bits[bin / 64] == 0 {
                    self.words[bin / 4096] &= !(1 << (bin / 64 % 64));
                }
            }
        } else {
            if self.runs[before as usize].child == run {
                self.runs[before as usize].child = next;
            } else {
                self.runs[before as usize].next = next;
            }
            if next != NONE {
                self.runs[next as usize].before = before;
            }
            if below != NONE {
                let bin = bin_of(count);
                self.heads[bin] = self.meld(self.heads[bin], below);
            }
        }
        let lone = &mut self.runs[run as usize];
        (lone.child, lone.next, lone.before) = (NONE, NONE, NONE);
    }

    #[inline]
    fn key(&self, run: u32) -> (u64, u64) {
        let FreeRun { first, count, .. } = self.runs[run as usize];
        (count, first)
    }

    /// Puts the later of two heads below the other; answers with that.
    #[inline]
    fn meld(&mut self, one: u32, other: u32) -> u32 {
        let (above, below) = if self.key(one) < self.key(other) { (one, other) } else { (other, one) };
        let sibling = std::mem::replace(&mut self.runs[above as usize].child, below);
        if sibling != NONE {
            self.runs[sibling as usize].before = below;
        }
        (self.runs[below as usize].next, self.runs[below as usize].before) = (sibling, above);
        above
    }

    /// Makes one heap of all below the same: in pairs from the first on, then the pairs from the last.
    #[cold]
    fn meld_all(&mut self, first: u32) -> u32 {
        let (mut at, mut pairs) = (first, NONE);
        while at != NONE {
            let one = at;
            let other = self.cut_off(one);
            let pair = if other == NONE {
                at = NONE;
                one
            } else {
                at = self.cut_off(other);
                self.meld(one, other)
            };
            self.runs[pair as usize].next = pairs;
            pairs = pair;
        }
        let mut whole = pairs;
        let mut rest = self.cut_off(whole);
        while rest != NONE {
            let next = self.cut_off(rest);
            whole = self.meld(whole, rest);
            rest = next;
        }
        whole
    }

    /// Makes a run the head of what is below it; answers with the next of its fellows.
    fn cut_off(&mut self, run: u32) -> u32 {
        let run = &mut self.runs[run as usize];
        run.before = NONE;
        std::mem::replace(&mut run.next, NONE)
    }
}

/// The bin of a length above 0.
#[inline]
fn bin_of(count: u64) -> usize {
    if count <= EXACT {
        return count as usize - 1;
    }
    let octave = count.ilog2();
    let sub = (count >> (octave - PER_OCTAVE.ilog2())) as usize % PER_OCTAVE;
    EXACT as usize + (octave - EXACT.ilog2()) as usize * PER_OCTAVE + sub
}
