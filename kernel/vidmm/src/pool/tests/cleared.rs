//! The record of pages that hold the clear pattern.

use super::super::{FramePool, run};
use super::holed;

#[test]
fn what_was_marked_is_told_to_who_takes_it_and_is_dirty_again_when_given_back() {
    // spec: memory §3.3
    let mut pool = holed();
    assert_eq!(pool.cleared_parts(run(20, 5)), [(run(20, 5), false)]);
    let first = pool.uncleared(8).expect("nothing is cleared");
    pool.mark_cleared(first);
    assert_eq!(pool.cleared_parts(first), [(first, true)]);
    pool.mark_cleared(run(22, 4));
    assert_eq!(pool.cleared_parts(run(20, 8)), [(run(20, 2), false), (run(22, 4), true), (run(26, 2), false)]);
    pool.take_exact(run(21, 3));
    assert_eq!(pool.cleared_parts(run(21, 3)), [(run(21, 1), false), (run(22, 2), true)]);
    pool.give(run(21, 3));
    assert_eq!(pool.cleared_parts(run(21, 5)), [(run(21, 3), false), (run(24, 2), true)]);
}

#[test]
fn clearing_ahead_comes_to_an_end_and_names_free_pages_only() {
    // spec: memory §3.3
    let mut pool = holed();
    let mut cleared = 0;
    while let Some(run) = pool.uncleared(16) {
        assert!(run.count.0 <= 16 && (run.end() <= 10 || run.first >= 20 && run.end() <= 50 || run.first >= 60));
        pool.mark_cleared(run);
        cleared += run.count.0;
    }
    assert_eq!(cleared, pool.free_pages());
    pool.give(run(10, 10));
    assert_eq!(pool.uncleared(100), Some(run(10, 10)));
    let taken = pool.take_scattered(pool.free_pages()).expect("all that is free");
    assert_eq!(pool.uncleared(100), None, "{taken:?}");
}

#[test]
fn cleared_pages_are_preferred_among_holes_of_one_length_and_at_either_end() {
    // spec: memory §3.3
    let mut pool = FramePool::new(run(0, 60));
    for first in [10, 30, 50] {
        pool.take_exact(run(first, 10));
    }
    pool.mark_cleared(run(25, 5));
    assert_eq!(pool.take_scattered_cleared(5), Some(vec![run(25, 5)]));
    pool.mark_cleared(run(0, 10));
    assert_eq!(pool.take_scattered_cleared(10), Some(vec![run(0, 10)]));
    // The shorter hole is the better fit, cleared or not.
    pool.mark_cleared(run(40, 10));
    assert_eq!(pool.take_scattered_cleared(5), Some(vec![run(20, 5)]));
}
