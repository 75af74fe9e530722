//! The pool against a map of pages: same free runs after every call, the same refusals, and the best place where one is
//! promised.

use proptest::prelude::*;
use wddm_types::PageRun;

use super::super::{FramePool, run};
use super::free_runs;

const FIRST: u64 = 7;
const PAGES: u64 = 9000;

#[derive(Clone, Debug)]
enum Call {
    Contiguous { pages: u64, alignment: u64, from_end: bool },
    Within { window: PageRun, pages: u64, alignment: u64, from_end: bool },
    Scattered { pages: u64 },
    ScatteredWithin { window: PageRun, pages: u64, from_end: bool },
    Exact { of_free: usize, skip: u64, pages: u64 },
    Give { which: usize },
}

fn calls() -> impl Strategy<Value = Call> {
    let pages = || prop_oneof![4 => 1u64..40, 2 => 1u64..700, 1 => 1u64..9200];
    let alignment = || (0u32..7).prop_map(|shift| 1u64 << shift);
    let window = || (FIRST..FIRST + PAGES, 0u64..4000).prop_map(|(first, pages)| run(first, pages));
    prop_oneof![
        4 => (pages(), alignment(), any::<bool>())
            .prop_map(|(pages, alignment, from_end)| Call::Contiguous { pages, alignment, from_end }),
        2 => pages().prop_map(|pages| Call::Contiguous { pages, alignment: 1, from_end: false }),
        2 => (window(), pages(), alignment(), any::<bool>())
            .prop_map(|(window, pages, alignment, from_end)| Call::Within { window, pages, alignment, from_end }),
        3 => pages().prop_map(|pages| Call::Scattered { pages }),
        1 => (window(), pages(), any::<bool>())
            .prop_map(|(window, pages, from_end)| Call::ScatteredWithin { window, pages, from_end }),
        1 => (any::<usize>(), 0u64..50, 1u64..50).prop_map(|(of_free, skip, pages)| Call::Exact { of_free, skip, pages }),
        9 => any::<usize>().prop_map(|which| Call::Give { which }),
    ]
}

/// Which pages are free, page by page.
struct Map(Vec<bool>);

impl Map {
    fn runs(&self) -> Vec<PageRun> {
        let mut runs: Vec<PageRun> = Vec::new();
        for page in (0u64..).zip(&self.0).filter(|(_, free)| **free).map(|(page, _)| page) {
            match runs.last_mut() {
                Some(last) if last.end() == page => last.count.0 += 1,
                _ => runs.push(run(page, 1)),
            }
        }
        runs
    }

    fn set(&mut self, pages: PageRun, free: bool) {
        for page in pages.first..pages.end() {
            assert_ne!(self.0[page as usize], free, "page {page}");
            self.0[page as usize] = free;
        }
    }

    /// The aligned places of a request within a window.
    fn places(&self, window: PageRun, pages: u64, alignment: u64) -> Vec<u64> {
        let runs = self.runs().into_iter().map(|free| (free.first.max(window.first), free.end().min(window.end())));
        let place = |at: &u64| at.is_multiple_of(alignment);
        let in_run = |(low, high): (u64, u64)| (low..(high + 1).saturating_sub(pages).max(low)).filter(place);
        runs.filter(|(low, high)| low < high).flat_map(in_run).collect()
    }
}

fn make(pool: &mut FramePool, map: &Map, owned: &[PageRun], call: &Call) -> Vec<PageRun> {
    let whole = run(FIRST, PAGES);
    match *call {
        Call::Contiguous { pages, alignment, from_end } => {
            let places = map.places(whole, pages, alignment);
            let taken = pool.take_contiguous(pages, alignment, from_end);
            assert_eq!(taken.is_some(), !places.is_empty(), "refused exactly when there is no place");
            if let Some(taken) = taken {
                assert!(places.contains(&taken.first) && taken.count.0 == pages);
                let in_run = |free: &&PageRun| free.first <= taken.first && taken.first < free.end();
                let used = map.runs().iter().find(in_run).expect("it was free").count.0;
                let shortest = map.runs().iter().map(|free| free.count.0).filter(|count| *count >= pages).min();
                if from_end {
                    assert_eq!(Some(&taken.first), places.last());
                } else if alignment == 1 && pages <= 4096 && shortest <= Some(4096) {
                    assert_eq!(Some(used), shortest, "the best fit");
                }
            }
            taken.into_iter().collect()
        }
        Call::Within { window, pages, alignment, from_end } => {
            let places = map.places(window, pages, alignment);
            let place = if from_end { places.last() } else { places.first() };
            let taken = pool.take_contiguous_within(window, pages, alignment, from_end);
            assert_eq!(taken, place.map(|at| run(*at, pages)));
            taken.into_iter().collect()
        }
        Call::Scattered { pages } => {
            let taken = pool.take_scattered(pages);
            let free: u64 = map.runs().iter().map(|free| free.count.0).sum();
            assert_eq!(taken.is_some(), pages <= free);
            let taken = taken.unwrap_or_default();
            let one = map.runs().iter().any(|free| free.count.0 >= pages);
            assert!(!one || taken.len() == 1, "content that fits whole comes whole");
            assert_eq!(taken.iter().map(|run| run.count.0).sum::<u64>(), if pages <= free { pages } else { 0 });
            taken
        }
        Call::ScatteredWithin { window, pages, from_end } => {
            let taken = pool.take_scattered_within(window, pages, from_end);
            let mut there = map.places(window, 1, 1);
            if from_end {
                there.reverse();
            }
            there.truncate(pages as usize);
            let mut expected = there.clone();
            expected.sort_unstable();
            let mut pages: Vec<u64> = taken.iter().flat_map(|run| run.first..run.end()).collect();
            pages.sort_unstable();
            assert_eq!(pages, expected, "the nearest pages");
            taken
        }
        Call::Exact { of_free, skip, pages } => {
            let runs = map.runs();
            let Some(free) = runs.get(of_free % runs.len().max(1)).filter(|free| free.count.0 >= skip + pages) else {
                return Vec::new();
            };
            let wanted = run(free.first + skip, pages);
            pool.take_exact(wanted);
            vec![wanted]
        }
        Call::Give { which } => {
            if let Some(given) = owned.get(which % owned.len().max(1)) {
                pool.give(*given);
            }
            Vec::new()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_pool_agrees_with_a_map_of_pages(calls in proptest::collection::vec(calls(), 1..120)) {
        // spec: memory §8.1
        let mut pool = FramePool::new(run(FIRST, PAGES));
        let mut map = Map((0..FIRST + PAGES).map(|page| page >= FIRST).collect());
        let mut owned: Vec<PageRun> = Vec::new();
        for call in &calls {
            let taken = make(&mut pool, &map, &owned, call);
            taken.iter().for_each(|run| map.set(*run, false));
            if let Call::Give { which } = call
                && !owned.is_empty()
            {
                let given = owned.swap_remove(which % owned.len());
                map.set(given, true);
            }
            owned.extend(taken);
            prop_assert_eq!(free_runs(&pool), map.runs());
            prop_assert_eq!(pool.free_pages(), map.0.iter().filter(|free| **free).count() as u64);
        }
    }
}
