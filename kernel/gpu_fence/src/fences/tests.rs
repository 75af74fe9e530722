//! The rules of sync §1.3, §3.9, §3.16 and §6 B, one test each.

use super::*;

type Waits = Fences<&'static str>;

const NO_WAITER: u64 = u64::MAX;

fn at(fence: FenceId, value: u64) -> FencePoint<FenceId> {
    FencePoint { fence, value }
}

/// Registers a wait that must pend while every fence is at `current`.
fn pend(
    fences: &mut Waits,
    points: &[FencePoint<FenceId>],
    mode: WaitMode,
    current: u64,
    what: &'static str,
) -> (WaitId, Vec<MonitoredUpdate>) {
    match fences.wait(points, mode, &mut |_| current, what) {
        WaitOutcome::Pending { wait, updates } => (wait, updates),
        WaitOutcome::Satisfied(what) => panic!("{what} was satisfied at once"),
    }
}

fn monitored(fence: FenceId, value: u64) -> MonitoredUpdate {
    MonitoredUpdate { fence, value }
}

fn sampled(released: &[&'static str], updates: &[MonitoredUpdate]) -> Sampled<&'static str> {
    Sampled { released: released.to_vec(), updates: updates.to_vec() }
}

#[test]
fn the_worked_example_of_the_figures() {
    // spec: sync §1.3
    // seed: N12, N14, N15, N16, N18
    let mut fences = Waits::new();
    let f = fences.create(FenceKind::Native);
    assert_eq!(fences.monitored_value(f), NO_WAITER);
    let (_, updates) = pend(&mut fences, &[at(f, 42)], WaitMode::All, 41, "first");
    assert_eq!(updates, [monitored(f, 41)]);
    let (_, updates) = pend(&mut fences, &[at(f, 43)], WaitMode::All, 41, "second");
    assert_eq!(updates, [], "the earliest waiter is the same");
    // All work up to 41 is done: the kernel registers no wait for it, so no registered wait has a value of 41 or less.
    assert_eq!(fences.wait(&[at(f, 41)], WaitMode::All, &mut |_| 41, "done"), WaitOutcome::Satisfied("done"));
    assert_eq!((fences.waiters(f), fences.monitored_value(f)), (2, 41));
    assert_eq!(fences.sample(f, 42), sampled(&["first"], &[monitored(f, 42)]));
    assert_eq!(fences.sample(f, 43), sampled(&["second"], &[monitored(f, NO_WAITER)]));
    assert_eq!(fences.with_waiters().count(), 0);
}

#[test]
fn a_fence_says_whether_it_lives_and_what_is_waited_for_on_it() {
    let mut fences = Waits::new();
    let (f, other) = (fences.create(FenceKind::Native), fences.create(FenceKind::Native));
    assert_eq!((fences.earliest(f), fences.is_waited_for(f), fences.is_anybody_waiting()), (None, false, false));
    let (far, _) = pend(&mut fences, &[at(f, 9)], WaitMode::All, 0, "far");
    let (near, _) = pend(&mut fences, &[at(f, 5)], WaitMode::All, 0, "near");
    assert_eq!((fences.earliest(f), fences.is_waited_for(f), fences.is_anybody_waiting()), (Some(5), true, true));
    assert!(!fences.is_waited_for(other), "another fence");
    assert!(fences.cancel(near).is_some());
    assert_eq!((fences.earliest(f), fences.is_anybody_waiting()), (Some(9), true));
    assert!(fences.cancel(far).is_some());
    assert_eq!((fences.is_waited_for(f), fences.is_anybody_waiting()), (false, false));
    assert!(fences.contains(f));
    assert_eq!(fences.destroy(f), sampled(&[], &[]));
    assert!(!fences.contains(f) && fences.contains(other));
}

#[test]
fn a_wait_elsewhere_is_published_as_one_of_this_adapter_is() {
    // spec: sync §1.3, sync §3.18
    let mut fences = Waits::new();
    let f = fences.create(FenceKind::Native);
    assert_eq!(fences.set_elsewhere(f, Some(8)), [monitored(f, 7)]);
    let (_, updates) = pend(&mut fences, &[at(f, 10)], WaitMode::All, 0, "here");
    assert_eq!((updates, fences.earliest(f)), (vec![], Some(10)), "the one elsewhere comes first");
    assert_eq!(fences.set_elsewhere(f, None), [monitored(f, 9)]);
    assert_eq!(fences.set_elsewhere(f, None), [], "no news");
}

#[test]
fn one_sample_releases_every_satisfied_waiter_in_order_of_value_then_registration() {
    // spec: sync §3.10
    // seed: N18
    let mut fences = Waits::new();
    let f = fences.create(FenceKind::Native);
    for (what, value) in [("late", 9), ("7 first", 7), ("3", 3), ("7 second", 7)] {
        let _ = pend(&mut fences, &[at(f, value)], WaitMode::All, 0, what);
    }
    assert_eq!(fences.sample(f, 7), sampled(&["3", "7 first", "7 second"], &[monitored(f, 8)]));
}

#[test]
fn every_add_and_remove_moves_monitored_value() {
    // spec: sync §3.9
    // seed: N12, N14, N15
    let mut fences = Waits::new();
    let f = fences.create(FenceKind::Native);
    let (far, updates) = pend(&mut fences, &[at(f, 100)], WaitMode::All, 0, "far");
    assert_eq!(updates, [monitored(f, 99)]);
    let (near, updates) = pend(&mut fences, &[at(f, 10)], WaitMode::All, 0, "near");
    assert_eq!(updates, [monitored(f, 9)]);
    assert_eq!(fences.cancel(near), Some(("near", vec![monitored(f, 99)])));
    assert_eq!(fences.cancel(near), None, "it has ended");
    assert_eq!(fences.cancel(far), Some(("far", vec![monitored(f, NO_WAITER)])));
}

#[test]
fn a_value_is_reached_by_itself_or_anything_greater() {
    // spec: sync §6 B1, §6 B2
    for (waited, current, holds) in
        [(0, 0, true), (0, 5, true), (5, 5, true), (5, 6, true), (5, 4, false), (1, 0, false), (u64::MAX, 0, false)]
    {
        let mut fences = Waits::new();
        let f = fences.create(FenceKind::Native);
        let outcome = fences.wait(&[at(f, waited)], WaitMode::All, &mut |_| current, "w");
        assert_eq!(outcome == WaitOutcome::Satisfied("w"), holds, "wait for {waited} at {current}");
        assert_eq!(fences.waiters(f), usize::from(!holds));
    }
}

#[test]
fn a_waiter_for_the_greatest_value_is_no_special_case() {
    // spec: sync §6 B3
    let mut fences = Waits::new();
    let f = fences.create(FenceKind::Native);
    let (_, updates) = pend(&mut fences, &[at(f, u64::MAX)], WaitMode::All, 7, "max");
    assert_eq!(updates, [monitored(f, u64::MAX - 1)]);
    assert!(fences.sample(f, u64::MAX - 1).is_empty());
    assert_eq!(fences.sample(f, u64::MAX), sampled(&["max"], &[monitored(f, NO_WAITER)]));
}

#[test]
fn a_rewind_revives_no_wait_and_keeps_reached_conditions() {
    // spec: sync §6 B4
    let mut fences = Waits::new();
    let (f, g) = (fences.create(FenceKind::Native), fences.create(FenceKind::Native));
    let _ = pend(&mut fences, &[at(f, 5), at(g, 5)], WaitMode::All, 0, "both");
    assert_eq!(fences.sample(f, 5), sampled(&[], &[monitored(f, NO_WAITER)]));
    assert!(fences.sample(f, 1).is_empty());
    assert_eq!(fences.sample(g, 5), sampled(&["both"], &[monitored(g, NO_WAITER)]));
}

#[test]
fn destruction_ends_every_wait_that_still_needs_the_fence() {
    // spec: sync §6 B8
    let mut fences = Waits::new();
    let (f, g) = (fences.create(FenceKind::Native), fences.create(FenceKind::Native));
    let _ = pend(&mut fences, &[at(f, 9)], WaitMode::All, 0, "f only");
    let _ = pend(&mut fences, &[at(g, 4), at(f, 8), at(f, 7)], WaitMode::All, 0, "all, f twice");
    let _ = pend(&mut fences, &[at(g, 3), at(f, 8)], WaitMode::Any, 0, "any");
    let _ = pend(&mut fences, &[at(g, 6)], WaitMode::All, 0, "g only");
    assert_eq!(fences.destroy(f), sampled(&["all, f twice", "any", "f only"], &[monitored(g, 5)]));
    assert!(!fences.contains(f));
    assert_eq!(fences.waiters(g), 1);
}

#[test]
fn a_condition_that_was_reached_no_longer_needs_its_fence() {
    // spec: sync §6 B8
    let mut fences = Waits::new();
    let (f, g) = (fences.create(FenceKind::Native), fences.create(FenceKind::Native));
    let _ = pend(&mut fences, &[at(f, 5), at(g, 5)], WaitMode::All, 0, "both");
    let _ = fences.sample(f, 5);
    assert!(fences.destroy(f).is_empty());
    assert_eq!(fences.sample(g, 5).released, ["both"]);
}

#[test]
fn wait_any_leaves_every_fence_at_the_first_hit() {
    // spec: sync §3.5 step 5, §6 B10
    let mut fences = Waits::new();
    let (f, g) = (fences.create(FenceKind::Native), fences.create(FenceKind::Native));
    let (wait, updates) = pend(&mut fences, &[at(f, 5), at(g, 8), at(g, 6)], WaitMode::Any, 0, "any");
    assert_eq!(updates, [monitored(f, 4), monitored(g, 5)]);
    assert_eq!(fences.sample(g, 8), sampled(&["any"], &[monitored(f, NO_WAITER), monitored(g, NO_WAITER)]));
    assert_eq!((fences.waiters(f), fences.waiters(g)), (0, 0));
    assert!(fences.sample(f, 5).is_empty(), "released once");
    assert_eq!(fences.cancel(wait), None);
}

#[test]
fn a_wait_any_with_one_condition_that_holds_never_enters() {
    // spec: sync §6 B2, §6 B10
    let mut fences = Waits::new();
    let (f, g) = (fences.create(FenceKind::Native), fences.create(FenceKind::Native));
    let outcome = fences.wait(&[at(f, 5), at(g, 5)], WaitMode::Any, &mut |fence| if fence == g { 5 } else { 0 }, "any");
    assert_eq!(outcome, WaitOutcome::Satisfied("any"));
    assert_eq!(fences.with_waiters().count(), 0);
}

#[test]
fn duplicates_are_independent_conditions() {
    // spec: sync §6 B11
    let mut fences = Waits::new();
    let f = fences.create(FenceKind::Native);
    let (_, updates) = pend(&mut fences, &[at(f, 5), at(f, 9), at(f, 5)], WaitMode::All, 0, "thrice");
    assert_eq!((updates, fences.waiters(f)), (vec![monitored(f, 4)], 3));
    assert_eq!(fences.sample(f, 5), sampled(&[], &[monitored(f, 8)]));
    assert_eq!(fences.sample(f, 9), sampled(&["thrice"], &[monitored(f, NO_WAITER)]));
}

#[test]
fn always_signaled_satisfies_present_and_future_waits_until_destruction() {
    // spec: sync §3.16, §3.19, §6 B13
    for kind in [FenceKind::Monitored, FenceKind::Native, FenceKind::NativeCrossAdapter] {
        let mut fences = Waits::new();
        let (f, other) = (fences.create(kind), fences.create(FenceKind::Native));
        let _ = pend(&mut fences, &[at(f, u64::MAX)], WaitMode::All, 0, "present");
        let _ = pend(&mut fences, &[at(f, 3), at(other, 3)], WaitMode::All, 0, "both");
        let turn = fences.always_signaled(f);
        assert_eq!(turn.released, ["present"]);
        assert_eq!(turn.updates, if kind == FenceKind::Native { vec![monitored(f, NO_WAITER)] } else { vec![] });
        assert!(fences.always_signaled(f).is_empty());
        assert!(fences.sample(f, 0).is_empty(), "its words say nothing any more");
        let outcome = fences.wait(&[at(f, 77)], WaitMode::All, &mut |_| panic!("sampled a failed fence"), "future");
        assert_eq!(outcome, WaitOutcome::Satisfied("future"));
        assert_eq!(fences.sample(other, 3).released, ["both"], "the other condition was still open");
    }
}

#[test]
fn cross_adapter_and_monitored_fences_interrupt_at_each_signal_and_never_update() {
    // spec: sync §1.2, §1.3, §3.12, §6 B6
    // seed: N68
    for kind in [FenceKind::NativeCrossAdapter, FenceKind::Monitored] {
        let mut fences = Waits::new();
        let f = fences.create(kind);
        assert_eq!(fences.monitored_value(f), 0);
        let (wait, updates) = pend(&mut fences, &[at(f, 10)], WaitMode::All, 0, "cancelled");
        assert_eq!(updates, []);
        assert_eq!(fences.cancel(wait), Some(("cancelled", vec![])));
        let _ = pend(&mut fences, &[at(f, 10)], WaitMode::All, 0, "released");
        for value in 1..=12 {
            assert!(value > fences.monitored_value(f), "signal of {value} interrupts");
            assert_eq!(fences.sample(f, value), sampled(if value == 10 { &["released"] } else { &[] }, &[]));
        }
    }
}

#[test]
fn waits_of_some_waiters_end_and_those_of_others_stay() {
    // spec: sync §2.3, §3.4
    let mut fences = Waits::new();
    let (f, g) = (fences.create(FenceKind::Native), fences.create(FenceKind::Native));
    let _ = pend(&mut fences, &[at(f, 5), at(g, 3)], WaitMode::All, 0, "cpu, both");
    let _ = pend(&mut fences, &[at(f, 5), at(f, 7)], WaitMode::All, 0, "queue");
    let _ = pend(&mut fences, &[at(g, 9)], WaitMode::All, 0, "cpu, other");
    let closed = fences.end_waits_on(f, &mut |who| who.starts_with("cpu"));
    assert_eq!(closed, sampled(&["cpu, both"], &[monitored(g, 8)]));
    assert_eq!(fences.monitored_value(f), 4, "the queue still waits");
    assert_eq!(fences.sample(f, 7).released, ["queue"]);
    assert_eq!(fences.sample(g, 9).released, ["cpu, other"]);
}

/// However each of a party's waits has ended before, the others end with the party, in the order of their registration.
#[test]
fn a_party_ends_with_its_waits_and_with_no_others() {
    // spec: sync §3.16
    let mut fences = Waits::new();
    let (f, g) = (fences.create(FenceKind::Native), fences.create(FenceKind::Native));
    let h = fences.create(FenceKind::Native);
    let (lost, other) = (Party(7), Party(8));
    let mut wait = |party, point, what| match fences.wait_of(party, &[point], WaitMode::All, &mut |_| 0, what) {
        WaitOutcome::Pending { wait, .. } => wait,
        WaitOutcome::Satisfied(what) => panic!("{what} is not reached"),
    };
    wait(Some(lost), at(f, 1), "reached");
    let cancelled = wait(Some(lost), at(f, 9), "cancelled");
    wait(Some(lost), at(h, 9), "destroyed");
    wait(Some(lost), at(g, 5), "first");
    wait(Some(other), at(f, 8), "of another party");
    wait(None, at(g, 7), "of none");
    wait(Some(lost), at(f, 6), "second");
    assert_eq!(fences.sample(f, 1).released, ["reached"]);
    assert_eq!(fences.cancel(cancelled).map(|(what, _)| what), Some("cancelled"));
    assert_eq!(fences.destroy(h).released, ["destroyed"]);
    let ended = sampled(&["first", "second"], &[monitored(f, 7), monitored(g, 6)]);
    assert_eq!(fences.end_waits_of(lost), ended);
    assert_eq!(fences.end_waits_of(lost), sampled(&[], &[]), "the party has none any more");
    assert_eq!(fences.sample(f, 8).released, ["of another party"]);
    assert_eq!(fences.sample(g, 7).released, ["of none"]);
}

#[test]
fn a_wait_for_no_points_holds() {
    for mode in [WaitMode::All, WaitMode::Any] {
        assert_eq!(Waits::new().wait(&[], mode, &mut |_| 0, "none"), WaitOutcome::Satisfied("none"));
    }
}

#[test]
#[should_panic(expected = "names a fence that was destroyed")]
fn a_stale_id_is_a_bug_of_the_kernel() {
    let mut fences = Waits::new();
    let f = fences.create(FenceKind::Native);
    let _ = fences.destroy(f);
    let _ = fences.create(FenceKind::Native);
    let _ = fences.sample(f, 1);
}
