//! Frames of a segment, taken and given back, against the better of two general allocators on the same calls in the same
//! run. How many requests each refuses is printed beside its time; the counts that are promised are asserted in the
//! tests of the memory manager. Called by the suite.

mod peers;
mod sequence;

use std::num::NonZeroU64;

use vidmm::FramePool;
use wddm_types::{PageRun, Pages};

use crate::machine::pin_here;
use crate::report::{Goal, Row};
use crate::statistic::{Ratio, median, median_ratio};
use peers::{Offsets, Segregated};
use sequence::{Frames, POOL_PAGES, make, sequence};

const CALLS: usize = 400_000;
const CALLS_SMOKE: usize = 20_000;
const CONTIGUOUS_MAX: f64 = 1.0;
const SCATTERED_MAX: f64 = 2.0;

/// Both rows.
pub(crate) fn rows(pair: [usize; 2], batches: usize, smoke: bool) -> Vec<Row> {
    pin_here(pair[0]);
    let (calls, slots) = sequence(if smoke { CALLS_SMOKE } else { CALLS });
    let mut memory = Segregated::memory();
    let mut times: [Vec<f64>; 4] = Default::default();
    let mut refused = [0; 4];
    let whole = || FramePool::new(PageRun { first: 0, count: Pages(POOL_PAGES) });
    let (mut contiguous, mut scattered) = (Contiguous(whole()), Scattered(whole()));
    let (mut segregated, mut offsets) = (Segregated::new(&mut memory), Offsets::new());
    // They live as long as an adapter, and every round gives everything back; the first touches the memory.
    for round in 0..=batches {
        let answers = [
            make(&mut contiguous, &calls, slots),
            make(&mut scattered, &calls, slots),
            make(&mut segregated, &calls, slots),
            make(&mut offsets, &calls, slots),
        ];
        for (kind, (ns, count)) in answers.into_iter().enumerate() {
            refused[kind] = count;
            if round > 0 {
                times[kind].push(ns);
            }
        }
    }
    let [contiguous, scattered, segregated, offsets] = times;
    // The better peer is the one against which we look worse.
    let against = |ours: &[f64]| median_ratio(ours, &segregated).or_greater(median_ratio(ours, &offsets));
    let (contiguous_ratio, scattered_ratio) = (against(&contiguous), against(&scattered));
    let cell = |times: &[f64], refused: u32| format!("{:.1} ns, {refused} refused", median(times.to_vec()));
    let peer = format!("rlsf {}; offset-allocator {}", cell(&segregated, refused[2]), cell(&offsets, refused[3]));
    let row = |measure: &str, ours: String, ratio: Ratio, goal: f64| Row {
        measure: format!("{measure}, {} calls at 95 % fill", calls.len()),
        ours,
        peer: peer.clone(),
        ratio: Some(ratio),
        goal: Goal::AtMost(goal),
    };
    vec![
        row("contiguous frames", cell(&contiguous, refused[0]), contiguous_ratio, CONTIGUOUS_MAX),
        row("scattered frames as extents", cell(&scattered, refused[1]), scattered_ratio, SCATTERED_MAX),
    ]
}

struct Contiguous(FramePool);

/// Bits for the pages of a run in a word that holds all of it, so that what is compared keeps its books in one word.
const COUNT_BITS: u32 = 16;

impl Frames for Contiguous {
    type Taken = NonZeroU64;

    fn take(&mut self, pages: u32) -> Option<NonZeroU64> {
        let run = self.0.take_contiguous(u64::from(pages), 1, false)?;
        NonZeroU64::new(run.first << COUNT_BITS | run.count.0)
    }

    fn give(&mut self, taken: NonZeroU64) {
        let word = taken.get();
        self.0.give(PageRun { first: word >> COUNT_BITS, count: Pages(word % (1 << COUNT_BITS)) });
    }
}

struct Scattered(FramePool);

impl Frames for Scattered {
    type Taken = Vec<PageRun>;

    fn take(&mut self, pages: u32) -> Option<Vec<PageRun>> {
        self.0.take_scattered(u64::from(pages))
    }

    fn give(&mut self, taken: Vec<PageRun>) {
        taken.into_iter().for_each(|run| self.0.give(run));
    }
}
