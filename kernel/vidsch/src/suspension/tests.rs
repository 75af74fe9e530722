//! Suspensions alone: one rule per test.

use super::*;

type Known = Suspensions<char, u32, &'static str>;

const TIMEOUT: SuspendReasons = SuspendReasons::TIMEOUT;
const RESIDENCY: SuspendReasons = SuspendReasons::RESIDENCY;

fn known() -> Known {
    let mut known = Known::default();
    assert!(!known.has_fence());
    known.signal_on("fence");
    assert!(known.has_fence());
    known
}

fn point(value: u64) -> FencePoint<&'static str> {
    FencePoint { fence: "fence", value }
}

/// Suspends a device whose contexts acknowledge later.
fn suspend(known: &mut Known, device: char, contexts: &[u32]) -> u64 {
    suspend_with(known, device, contexts, false)
}

fn suspend_with(known: &mut Known, device: char, contexts: &[u32], no_timeout: bool) -> u64 {
    let Suspend::Issue(number) = known.suspend(device, TIMEOUT) else { panic!("{device} runs") };
    known.issued(number, device, contexts.iter().copied().collect(), no_timeout);
    number.raw()
}

#[test]
fn a_device_quiesces_when_its_last_context_acknowledges_and_runs_when_its_last_reason_goes() {
    // spec: sync §4.1, memory §8.6
    let mut known = known();
    assert_eq!((known.is_suspended('a'), known.reasons('a')), (false, SuspendReasons::empty()));
    assert_eq!(suspend(&mut known, 'a', &[1, 2]), 1);
    assert_eq!(known.suspend('a', RESIDENCY), Suspend::Pending(point(1)), "it is asked once");
    assert_eq!(known.last_number().raw(), 1);
    assert_eq!((known.acknowledged(1, 1), known.take_reached()), (Ok(()), None));
    assert_eq!((known.awaits('a'), known.point_of('a')), (true, Some(point(1))));
    assert_eq!((known.acknowledged(2, 1), known.take_reached()), (Ok(()), Some(point(1))));
    assert_eq!((known.awaits('a'), known.point_of('a'), known.take_reached()), (false, None, None));
    assert_eq!(known.suspend('a', RESIDENCY), Suspend::AlreadyQuiesced);
    assert_eq!(known.reasons('a'), TIMEOUT | RESIDENCY);
    assert!(!known.resume('a', TIMEOUT) && known.is_suspended('a'));
    assert!(!known.resume('a', TIMEOUT), "the other reason is left");
    assert!(known.resume('a', RESIDENCY) && !known.is_suspended('a'));
    assert!(!known.resume('a', RESIDENCY), "it runs");
    assert_eq!(suspend(&mut known, 'a', &[]), 2, "another suspension, another number");
}

#[test]
fn a_number_is_reached_when_all_before_it_are() {
    // spec: sync §4.1
    let mut known = known();
    suspend(&mut known, 'a', &[1]);
    suspend(&mut known, 'b', &[2]);
    suspend(&mut known, 'c', &[]);
    assert_eq!(known.acknowledged(2, 2), Ok(()));
    assert_eq!(known.take_reached(), None, "the first holds it");
    assert_eq!(['a', 'b', 'c'].map(|device| known.awaits(device)), [true; 3]);
    assert_eq!(known.acknowledged(1, 1), Ok(()));
    assert_eq!(known.take_reached(), Some(point(3)));
}

#[test]
fn a_device_that_went_on_before_it_had_left_is_asked_again_with_a_number_of_its_own() {
    // spec: sync §4.1
    let mut known = known();
    suspend(&mut known, 'a', &[1]);
    suspend(&mut known, 'b', &[2]);
    assert!(known.resume('b', TIMEOUT));
    known.forget_device('b');
    suspend(&mut known, 'b', &[2]);
    assert_eq!(known.point_of('b'), Some(point(3)), "the last one counts");
    assert_eq!(known.acknowledged(2, 2), Ok(()), "a late word of the one before");
    assert_eq!(known.waiting().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(known.acknowledged(1, 1), Ok(()));
    assert_eq!(known.take_reached(), Some(point(2)));
    assert!(known.awaits('b'));
}

#[test]
fn only_a_number_that_was_given_can_be_acknowledged() {
    // spec: sync §4.1
    let mut known = known();
    assert_eq!(known.acknowledged(1, 1), Err(NeverAsked));
    suspend(&mut known, 'a', &[1]);
    assert_eq!(known.acknowledged(1, 2), Err(NeverAsked));
    assert_eq!(known.take_reached(), None, "and nothing has changed");
    assert_eq!([known.acknowledged(9, 1), known.acknowledged(1, 0)], [Ok(()), Ok(())], "a context of no suspension");
    assert_eq!(known.waiting().collect::<Vec<_>>(), [1]);
}

#[test]
fn no_suspension_waits_for_what_has_gone() {
    // spec: memory §8.6
    let mut known = known();
    suspend(&mut known, 'a', &[1, 2]);
    suspend(&mut known, 'b', &[3]);
    known.forget(1);
    assert_eq!((known.take_reached(), known.waiting().collect::<Vec<_>>()), (None, vec![2, 3]));
    known.forget_device('a');
    assert_eq!(known.take_reached(), Some(point(1)), "the other device is not touched");
    known.forget(3);
    assert_eq!(known.take_reached(), Some(point(2)));
    known.drop_reasons('a');
    assert_eq!(known.suspended().collect::<Vec<_>>(), [('b', TIMEOUT)]);
    assert!(!known.resume('a', TIMEOUT), "it does not run either");
}

#[test]
fn a_device_without_work_is_quiesced_by_a_reason_alone() {
    // spec: memory §4.5
    let mut known = known();
    known.quiesce('a', RESIDENCY);
    assert!(known.is_suspended('a') && !known.awaits('a'));
    assert_eq!(known.suspend('a', TIMEOUT), Suspend::AlreadyQuiesced, "the driver is not asked");
    assert_eq!(known.last_number().raw(), 0);
    assert!(!known.resume('a', RESIDENCY) && known.resume('a', TIMEOUT));
}

#[test]
fn those_suspended_for_a_reason_go_on_when_they_have_left() {
    // spec: sync §4.4
    let mut known = known();
    suspend(&mut known, 'a', &[1]);
    suspend(&mut known, 'b', &[2]);
    known.quiesce('c', RESIDENCY);
    assert_eq!(known.quiesced_for(TIMEOUT).count(), 0);
    assert_eq!(known.acknowledged(1, 1), Ok(()));
    assert_eq!(known.take_reached(), Some(point(1)));
    assert_eq!(known.quiesced_for(TIMEOUT).collect::<String>(), "a");
    assert_eq!(known.quiesced_for(RESIDENCY).collect::<String>(), "c");
}

#[test]
fn a_context_that_does_not_leave_in_time_is_overdue_and_gets_that_time_once_more() {
    // spec: sync §4.4
    let mut known = known();
    suspend(&mut known, 'a', &[1]);
    assert_eq!(known.overdue(6, 10), []);
    suspend(&mut known, 'b', &[2]);
    assert_eq!(known.overdue(4, 10), [1], "each counts its own time");
    assert_eq!([known.wait_once_more(1), known.wait_once_more(9)], [true, true]);
    assert_eq!((known.overdue(6, 10), known.overdue(4, 10)), (vec![2], vec![1, 2]));
    assert!(!known.wait_once_more(1), "it had that");
    assert!(known.wait_once_more(2), "the other has not");
    assert_eq!(known.overdue(9, 10), []);
    known.wait_anew();
    assert_eq!((known.overdue(9, 10), known.overdue(1, 10)), (vec![], vec![1, 2]));
}

#[test]
fn the_time_of_work_without_a_limit_does_not_count() {
    // spec: sync §4.4
    let mut known = known();
    assert!(!known.any_pending());
    suspend_with(&mut known, 'a', &[1], true);
    assert!(!known.any_pending() && known.awaits('a'));
    assert_eq!(known.overdue(100, 10), []);
    suspend(&mut known, 'b', &[2]);
    assert!(known.any_pending());
    assert_eq!(known.overdue(10, 10), [2]);
}

#[test]
#[should_panic(expected = "suspensions have one fence")]
fn a_second_fence_is_a_bug_of_the_kernel() {
    known().signal_on("another");
}

#[test]
#[should_panic(expected = "suspensions are issued in their order")]
fn a_number_that_was_issued_twice_is_a_bug_of_the_kernel() {
    let mut known = known();
    let Suspend::Issue(number) = known.suspend('a', TIMEOUT) else { panic!("it runs") };
    (0..2).for_each(|_| known.issued(number, 'a', BTreeSet::from([1]), false));
}

#[test]
#[should_panic(expected = "a device is asked to leave only while there is a reason")]
fn a_device_without_a_reason_that_is_asked_to_leave_is_a_bug_of_the_kernel() {
    let mut known = known();
    let Suspend::Issue(number) = known.suspend('a', TIMEOUT) else { panic!("it runs") };
    assert!(known.resume('a', TIMEOUT));
    known.issued(number, 'a', BTreeSet::from([1]), false);
}
