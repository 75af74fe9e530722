//! The pool against naive models: a map of pages, and an exhaustive best fit.

mod cleared;
mod compaction;
mod figures;
mod model;

use wddm_types::PageRun;

use super::{FramePool, run};

/// Pages 0 to 99, of which 10..20 and 50..60 are taken.
fn holed() -> FramePool {
    let mut pool = FramePool::new(run(0, 100));
    pool.take_exact(run(10, 10));
    pool.take_exact(run(50, 10));
    pool
}

/// The free runs by address.
fn free_runs(pool: &FramePool) -> Vec<PageRun> {
    let mut runs: Vec<_> = pool.bins.iter().map(|(_, free)| run(free.first, free.count)).collect();
    runs.sort_unstable_by_key(|run| run.first);
    runs
}

#[test]
fn a_window_confines_what_is_taken() {
    // spec: memory §2.5
    let window = run(5, 60);
    assert_eq!(holed().take_contiguous_within(window, 5, 1, false), Some(run(5, 5)));
    assert_eq!(holed().take_contiguous_within(window, 5, 8, false), Some(run(24, 5)));
    assert_eq!(holed().take_contiguous_within(window, 5, 1, true), Some(run(60, 5)));
    assert_eq!(holed().take_contiguous_within(window, 6, 8, true), Some(run(40, 6)));
    assert_eq!(holed().take_contiguous_within(window, 31, 1, false), None);
    assert_eq!(holed().take_scattered_within(window, 12, false), [run(5, 5), run(20, 7)]);
    assert_eq!(holed().take_scattered_within(window, 12, true), [run(60, 5), run(43, 7)]);
    let mut pool = holed();
    assert_eq!(pool.take_scattered_within(window, 1000, false), [run(5, 5), run(20, 30), run(60, 5)]);
    assert_eq!(pool.free_pages(), 40);
    assert!(pool.take_scattered_within(window, 1, false).is_empty());
}

#[test]
fn excluded_pages_are_gone_for_ever() {
    // spec: memory §1.4
    let mut pool = FramePool::new(run(0, 10));
    pool.exclude(run(3, 2));
    assert_eq!((pool.capacity_pages(), pool.free_pages()), (8, 8));
    assert_eq!(pool.take_scattered(8).expect("eight are free").len(), 2);
    assert_eq!(pool.take_scattered(1), None);
    assert_eq!(free_runs(&pool.emptied()), [run(0, 3), run(5, 5)]);
}

#[test]
#[should_panic(expected = "a page is given back once")]
fn a_page_given_back_twice_stops_the_program() {
    let mut pool = holed();
    pool.give(run(10, 10));
    pool.give(run(95, 5));
}
