//! The tree of gaps beside an ordered list that is walked from its begin: the same addresses, and few nodes looked at.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wddm_types::{PageRun, Pages};

use super::{Gap, Gaps};

/// Addresses at multiples of 64 KB, reservations at those of 256 KB and large pages of 2 MB.
const ASKED: [u64; super::ASKED] = [16, 64, 512];

/// The rule itself: the lowest free addresses that fit, found by looking at every gap.
struct Walked(BTreeMap<u64, u64>);

impl Walked {
    fn find(&self, pages: u64, minimum: u64, maximum: u64, alignment: u64) -> Option<u64> {
        let from = self.0.range(..=minimum).next_back().map_or(0, |(&first, _)| first);
        self.0.range(from..).find_map(|(&first, &end)| {
            let at = first.max(minimum).checked_next_multiple_of(alignment)?;
            (at.checked_add(pages)? <= end.min(maximum)).then_some(at)
        })
    }

    fn find_highest(&self, pages: u64, minimum: u64, maximum: u64, alignment: u64) -> Option<u64> {
        self.0.iter().rev().find_map(|(&first, &end)| {
            let last = end.min(maximum).checked_sub(pages)?;
            let at = last - last % alignment;
            (at >= first.max(minimum)).then_some(at)
        })
    }

    fn take(&mut self, run: PageRun) {
        let (&from, &end) = self.0.range(..=run.first).next_back().expect("free");
        self.0.remove(&from);
        self.0.extend([(from, run.first), (run.end(), end)].into_iter().filter(|(first, end)| first < end));
    }

    fn give(&mut self, run: PageRun) {
        let (mut first, mut end) = (run.first, run.end());
        if let Some((&before, _)) = self.0.range(..=first).next_back().filter(|(_, end)| **end == first) {
            first = before;
        }
        end = self.0.remove(&end).unwrap_or(end);
        self.0.insert(first, end);
    }
}

fn run(first: u64, pages: u64) -> PageRun {
    PageRun { first, count: Pages(pages) }
}

/// Nodes that a search may look at: two ways down an AVL tree, and at most one neighbour beside each node of the second.
fn nodes_max(gaps: usize) -> usize {
    let levels = (1.45 * (gaps as f64 + 2.0).log2()).ceil() as usize;
    3 * levels
}

fn counted(gaps: &Gaps, pages: u64, window: (u64, u64), alignment: u64) -> (Option<u64>, usize) {
    let mut looked = 0;
    let found = gaps.search(pages, window, alignment, &mut || looked += 1);
    (found, looked)
}

#[derive(Clone, Debug)]
enum Step {
    /// Takes what a search finds, from below or from above: pages, bounds, alignment as a power of two.
    Find { pages: u64, minimum: u64, length: u64, shift: u32, from_top: bool },
    /// Takes free pages somewhere.
    Take { page: u64, pages: u64 },
    /// Frees one of the runs that are taken, or a part of it.
    Give { which: usize, skip: u64, pages: u64 },
}

const SPACE: u64 = 1 << 14;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pages = prop_oneof![8 => 1..40u64, 2 => 40..700u64, 1 => Just(u64::MAX)];
    let minimum = prop_oneof![2 => Just(0), 3 => 0..SPACE + 100, 1 => Just(u64::MAX)];
    let length = prop_oneof![2 => Just(u64::MAX), 3 => 0..2000u64];
    let find = (pages, minimum, length, 0..14u32, any::<bool>())
        .prop_map(|(pages, minimum, length, shift, from_top)| Step::Find { pages, minimum, length, shift, from_top });
    let take = (0..SPACE, 1..40u64).prop_map(|(page, pages)| Step::Take { page, pages });
    let give = (any::<usize>(), 0..8u64, 1..60u64).prop_map(|(which, skip, pages)| Step::Give { which, skip, pages });
    proptest::collection::vec(prop_oneof![4 => find, 2 => take, 3 => give], 1..400)
}

proptest! {
    #[test]
    fn the_tree_gives_the_addresses_that_a_walk_past_all_gaps_gives(steps in steps(), first in 0..600u64) {
        // spec: memory §4.8
        let (mut gaps, mut walked) = (Gaps::new(first, SPACE, ASKED), Walked(BTreeMap::from([(first, SPACE)])));
        let mut taken: Vec<PageRun> = Vec::new();
        for step in steps {
            match step {
                Step::Find { pages, minimum, length, shift, from_top } => {
                    let (window, alignment) = ((minimum, minimum.saturating_add(length)), 1 << shift);
                    let (found, looked) = counted(&gaps, pages, window, alignment);
                    prop_assert_eq!(found, walked.find(pages, window.0, window.1, alignment));
                    let mut looked_down = 0;
                    let highest = gaps.search_down(pages, window, alignment, &mut || looked_down += 1);
                    prop_assert_eq!(highest, walked.find_highest(pages, window.0, window.1, alignment));
                    if alignment == 1 || ASKED.contains(&alignment) {
                        let most = nodes_max(walked.0.len());
                        prop_assert!(looked.max(looked_down) <= most, "{looked}, {looked_down} nodes of {most}");
                    }
                    let found = if from_top { highest } else { found };
                    taken.extend(found.map(|at| run(at, pages)));
                    if let Some(at) = found {
                        gaps.take(run(at, pages));
                        walked.take(run(at, pages));
                    }
                }
                Step::Take { page, pages } => {
                    let free = gaps.at_or_below(page).filter(|gap| page + pages <= gap.end);
                    if free.is_some() {
                        gaps.take(run(page, pages));
                        walked.take(run(page, pages));
                        taken.push(run(page, pages));
                    }
                }
                Step::Give { which, skip, pages } if !taken.is_empty() => {
                    let whole = taken.swap_remove(which % taken.len());
                    let from = (whole.first + skip).min(whole.end() - 1);
                    let part = run(from, pages.min(whole.end() - from));
                    gaps.give(part);
                    walked.give(part);
                    let rests = [(whole.first, part.first), (part.end(), whole.end())];
                    taken.extend(rests.iter().filter(|(low, high)| low < high).map(|&(low, high)| run(low, high - low)));
                }
                Step::Give { .. } => {}
            }
            prop_assert_eq!(gaps.check(), Ok(()));
            let known: Vec<Gap> = walked.0.iter().map(|(&first, &end)| Gap { first, end }).collect();
            prop_assert_eq!(gaps.all(), known);
        }
    }
}

/// A space in which each of `count` mappings of one page lies at a multiple of 16, as 64-KB alignment puts them.
fn sprinkled(count: u64) -> Gaps {
    let mut gaps = Gaps::new(512, 1 << 36, ASKED);
    for _ in 0..count {
        let at = gaps.find(1, 0, u64::MAX, 16).expect("free");
        gaps.take(run(at, 1));
    }
    gaps
}

#[test]
fn a_search_among_a_hundred_thousand_gaps_looks_at_a_few_dozen() {
    let count = 100_000;
    let gaps = sprinkled(count);
    assert_eq!(gaps.all().len() as u64, count);
    let behind = 512 + 16 * count;
    let most = nodes_max(gaps.all().len());
    assert!(most < 80, "{most}");
    // (pages, window, alignment) and the lowest address.
    for (pages, window, alignment, at) in [
        (1, (0, u64::MAX), 16, Some(behind)),
        (1, (0, u64::MAX), 1, Some(513)),
        (15, (0, u64::MAX), 1, Some(513)),
        (16, (0, u64::MAX), 1, Some(behind - 15)),
        (1, (512 + 16 * 50_000, u64::MAX), 1, Some(513 + 16 * 50_000)),
        (1, (512 + 16 * 50_000, behind), 16, None),
        (512, (0, u64::MAX), 512, Some(behind.next_multiple_of(512))),
        (1 << 36, (0, u64::MAX), 1, None),
    ] {
        let (found, looked) = counted(&gaps, pages, window, alignment);
        assert_eq!(found, at, "{pages} pages in {window:?} at multiples of {alignment}");
        assert!(looked <= most, "{looked} nodes for {pages} pages in {window:?} at multiples of {alignment}");
    }
}

#[test]
fn gaps_that_are_long_enough_and_lie_wrong_are_stepped_over_together() {
    // Each gap holds 512 pages from its first page on, and none of them from a multiple of 512 on.
    let (count, stride) = (20_000, 1024);
    let mut gaps = Gaps::new(0, 1 << 36, ASKED);
    for number in 0..count {
        gaps.take(run(number * stride, 1));
        gaps.take(run(number * stride + 513, 511));
    }
    let (found, looked) = counted(&gaps, 512, (0, u64::MAX), 512);
    assert_eq!(found, Some(count * stride));
    assert!(looked <= nodes_max(gaps.all().len()), "{looked} nodes");
    // An alignment that the tree does not know: the gaps of which it cannot tell are looked at, and the answer is right.
    assert_eq!(gaps.find(512, 0, u64::MAX, 2048), Some((count * stride).next_multiple_of(2048)));
}
