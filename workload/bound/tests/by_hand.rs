//! Programs of a few operations, solved by hand: each term of the sum, and each line that it has to obey.

use bound::{Bound, BoundError, fewest_bytes};
use replay::{Event, SourceKind, Storage, Workload};

fn workload(storages: &[(u64, bool)], events: Vec<Event>) -> Workload {
    let storages = storages.iter().map(|&(bytes, persistent)| Storage { bytes, persistent }).collect();
    Workload::new("w".into(), SourceKind::ReferenceString, storages, vec!["op".into(), "large".into()], events).unwrap()
}

fn op(reads: &[u32], writes: &[u32]) -> Event {
    Event::Op { adapter: None, name: 0, reads: reads.to_vec(), writes: writes.to_vec() }
}

fn found(workload: &Workload, steps: u32, capacity: u64) -> Bound {
    fewest_bytes(workload, steps, capacity, &mut || f64::INFINITY).unwrap()
}

/// In and out together, and in alone.
fn bytes(workload: &Workload, steps: u32, capacity: u64) -> (u64, u64) {
    let found = found(workload, steps, capacity);
    (found.moved_bytes, found.paged_in_bytes)
}

#[test]
fn content_that_was_there_before_comes_in_once() {
    let w = workload(&[(3, true), (5, false)], vec![op(&[0], &[1]), op(&[1], &[0])]);
    assert_eq!(bytes(&w, 1, 8), (3, 3));
    assert_eq!(bytes(&w, 9, 8), (3, 3), "over all steps");
    let overwritten = workload(&[(3, true)], vec![op(&[], &[0])]);
    assert_eq!(bytes(&overwritten, 1, 8), (0, 0), "what is overwritten before anything reads it need not come in");
}

#[test]
fn content_that_dies_in_its_step_comes_in_with_each() {
    let w = workload(&[(3, true)], vec![op(&[0], &[]), Event::Death(0)]);
    assert_eq!(bytes(&w, 4, 8), (12, 12));
    assert_eq!(found(&w, 4, 8).cold_bytes, 12);
}

#[test]
fn what_left_clean_comes_back_without_a_write_back() {
    // 4 + 8 over 10: two of storage 0 are out at operation 1, and come back.
    let w = workload(&[(4, true), (8, true)], vec![op(&[0], &[]), op(&[1], &[]), op(&[0], &[])]);
    assert_eq!(bytes(&w, 1, 10), (12 + 2, 12 + 2));
    assert_eq!(bytes(&w, 1, 12), (12, 12));
}

#[test]
fn what_left_dirty_is_written_back_and_comes_back() {
    let w = workload(&[(4, false), (8, true)], vec![op(&[], &[0]), op(&[1], &[]), op(&[0], &[])]);
    assert_eq!(bytes(&w, 1, 10), (8 + 2 + 2, 8 + 2));
}

/// 0 is used at 0, 2 and 4; 1 and 2, each 8 bytes and dead behind it, at 1 and 3.
fn twice_pushed_out(between: Event) -> Workload {
    let events =
        vec![op(&[], &[0]), op(&[1], &[]), Event::Death(1), between, op(&[2], &[]), Event::Death(2), op(&[0], &[])];
    workload(&[(4, false), (8, true), (8, true)], events)
}

#[test]
fn one_write_back_serves_until_the_next_write() {
    let once = twice_pushed_out(op(&[0], &[]));
    assert_eq!(bytes(&once, 1, 10), (16 + 2 + 2 + 2, 16 + 2 + 2), "unchanged between: it is written back once");
    let again = twice_pushed_out(op(&[0], &[0]));
    assert_eq!(bytes(&again, 1, 10), (16 + 2 + 2 + 2 + 2, 16 + 2 + 2), "written between: twice");
}

#[test]
fn of_two_that_leave_the_one_whose_write_back_is_paid_already_is_cheaper() {
    // As above, and storage 3, written at 2 and read at 4, may be out at operation 3 instead of 0: its write-back would be a new one.
    let events = vec![
        op(&[], &[0]),
        op(&[1], &[]),
        Event::Death(1),
        op(&[0], &[3]),
        op(&[2], &[]),
        Event::Death(2),
        op(&[0, 3], &[]),
    ];
    let w = workload(&[(4, false), (8, true), (8, true), (2, false)], events);
    let found = found(&w, 1, 10);
    assert_eq!(
        found.moved_bytes,
        16 + (2 + 2) + 2 + (2 + 2),
        "2 of 0 back and in; again 2 in; at 3 two more of either back and in"
    );
    assert!(found.effort.variables > 0, "it takes the linear program");
}

#[test]
fn dirty_content_that_nothing_reads_again_stays_or_is_written_back_until_it_dies() {
    let kept = workload(&[(4, false), (8, true)], vec![op(&[], &[0]), op(&[1], &[])]);
    assert_eq!(bytes(&kept, 1, 10), (8 + 2, 8));
    let dies = workload(&[(4, false), (8, true)], vec![op(&[], &[0]), Event::Death(0), op(&[1], &[])]);
    assert_eq!(bytes(&dies, 1, 10), (8, 8));
    let clean = workload(&[(4, true), (8, true)], vec![op(&[0], &[]), op(&[1], &[])]);
    assert_eq!(bytes(&clean, 1, 10), (12, 12));
}

#[test]
fn what_a_step_leaves_over_is_in_the_way_until_the_next_begins() {
    let w = workload(&[(4, false), (8, true)], vec![op(&[], &[0]), op(&[1], &[])]);
    // 0 dies as step 1 begins, and is born anew: two of 1 leave for it, come back, and each time two of 0 are written back.
    assert_eq!(bytes(&w, 2, 10), (8 + 2 + 2 + 2, 8 + 2));
}

#[test]
fn what_leaves_and_is_overwritten_unread_costs_its_write_back_only() {
    let dirty = workload(&[(4, false), (8, true)], vec![op(&[], &[0]), op(&[1], &[]), op(&[], &[0])]);
    assert_eq!(bytes(&dirty, 1, 10), (8 + 2, 8));
    let clean = workload(&[(4, true), (8, true)], vec![op(&[0], &[]), op(&[1], &[]), op(&[], &[0])]);
    assert_eq!(bytes(&clean, 1, 10), (12, 12));
}

#[test]
fn a_storage_that_nothing_has_written_has_nothing_to_keep() {
    let w = workload(&[(4, false), (8, true)], vec![op(&[0], &[]), op(&[1], &[]), op(&[0], &[])]);
    assert_eq!(bytes(&w, 1, 10), (8, 8));
}

#[test]
fn bytes_that_are_out_serve_each_operation_until_they_come_back() {
    // 5 + 4 + 4 over 10 at operation 1, 3 + 4 + 4 at 2. Three of 1, which is used last, serve both.
    let events = vec![op(&[0, 1], &[]), op(&[2], &[]), op(&[0, 3], &[]), op(&[1], &[])];
    let w = workload(&[(4, true), (4, true), (5, true), (3, true)], events);
    assert_eq!(bytes(&w, 1, 10), (16 + 3, 16 + 3));
}

#[test]
fn a_capacity_below_the_largest_operation_is_refused_with_its_place() {
    let large = Event::Op { adapter: None, name: 1, reads: vec![0, 1], writes: vec![1] };
    let w = workload(&[(4, true), (8, true)], vec![op(&[0], &[]), large.clone(), large, op(&[1], &[])]);
    let refused = fewest_bytes(&w, 2, 11, &mut || f64::INFINITY).unwrap_err();
    let name = "large".to_owned();
    assert_eq!(refused, BoundError::TooSmall { op_index: 1, name, needed: 12, capacity: 11 });
    assert!(refused.to_string().contains("operation 1 of the step (large) needs 12 bytes"));
    assert!(fewest_bytes(&w, 2, 12, &mut || f64::INFINITY).is_ok());
}

#[test]
fn absurd_numbers_are_errors() {
    let w = workload(&[(4, true)], vec![op(&[0], &[])]);
    let refused = fewest_bytes(&w, 1_000_001, 8, &mut || f64::INFINITY).unwrap_err();
    assert_eq!(refused, BoundError::TooManyOperations { operations: 1_000_001 });
    let huge = workload(&[(1 << 62, true), (1 << 62, true)], vec![op(&[0], &[]), op(&[1], &[])]);
    let refused = fewest_bytes(&huge, 1, 1 << 62, &mut || f64::INFINITY).unwrap_err();
    assert_eq!(refused, BoundError::TooManyBytes { bytes: 1 << 63 });
    let all: Vec<u32> = (0..600).collect();
    let busy = workload(&[(4, true); 600], vec![op(&all, &[])]);
    let refused = fewest_bytes(&busy, 100_000, 2_400, &mut || f64::INFINITY).unwrap_err();
    assert_eq!(refused, BoundError::TooManyUses { uses: 60_000_000, of_a_step: 600 });
}

#[test]
fn a_program_that_is_not_solved_in_time_says_how_large_it_is_and_what_is_known() {
    let w = twice_pushed_out(op(&[0], &[]));
    let refused = fewest_bytes(&w, 1, 10, &mut || 0.0).unwrap_err();
    let BoundError::OutOfTime { effort, at_least } = refused else { panic!("{refused}") };
    assert_eq!((effort.rows, effort.rounds, at_least), (2, 1, 16 + 2 + 2), "as many come in at least");
    assert!(refused.to_string().contains("2 rows"), "{refused}");
}
