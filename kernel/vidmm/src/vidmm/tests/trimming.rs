//! The devices that TrimResidency asks, and when (memory §5.4).

use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{EvictFlags, NextResume, SegmentGroup, TrimFlags, TrimRequest};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const PERIODIC: TrimFlags = TrimFlags { periodic: true, restart_periodic: false, to_budget: false };
const RESTART: TrimFlags = TrimFlags { periodic: false, restart_periodic: true, to_budget: false };
const BUDGET: TrimFlags = TrimFlags { periodic: false, restart_periodic: false, to_budget: true };

#[test]
fn over_budget_the_longest_lists_are_asked_first_and_again_after_a_pause() {
    // seed: R08
    // spec: memory §5.4
    let (mut mm, [(space, a), _]) = with_processes::<2>(64);
    let also = mm.create_device(space);
    let [x, y] = [(a, 10), (also, 30)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("room");
    mm.make_resident(also, &[y]).expect("room");
    assert!(!mm.trim_pending() && mm.trim_requests(1).is_empty());
    mm.set_budget(space, SegmentGroup::Local, Some(5 * PAGE_BYTES));
    let asked = [(also, 30), (a, 5)].map(|(device, n)| TrimRequest { device, flags: BUDGET, bytes: n * PAGE_BYTES });
    assert!(mm.trim_pending());
    assert_eq!(mm.trim_requests(10), asked);
    assert_eq!(mm.trim_requests(11), [], "not all the time");
    mm.evict(also, &[y], LAZY, &[]).expect("counted");
    let pause = mm.policy.trim_retry_ns;
    assert_eq!(mm.trim_requests(10 + pause), [TrimRequest { device: a, flags: BUDGET, bytes: 5 * PAGE_BYTES }]);
    mm.evict(a, &[x], LAZY, &[]).expect("counted");
    assert_eq!(mm.trim_requests(u64::MAX), []);
}

#[test]
fn periodic_trims_need_pressure_and_start_over_after_a_suspension() {
    // spec: memory §5.4
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let period = mm.policy.trim_period_ns;
    let [x, y] = [(a, 60), (b, 30)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("alone");
    assert_eq!(mm.trim_requests(10 * period), [], "no content was evicted for room");
    mm.make_resident(b, &[y]).expect("within its share");
    // The one that had to go is over its budget.
    let asked = mm.trim_requests(20 * period);
    assert_eq!(asked[0].flags, BUDGET);
    assert_eq!((asked[1].device, asked[1].flags, asked[1].bytes), (b, PERIODIC, 0));
    assert_eq!(asked.len(), 2, "the suspended device gets no periodic trim");
    assert_eq!(mm.next_to_resume(20 * period), NextResume::Resume(a));
    let _ = mm.resume(a).expect("its turn");
    let asked = mm.trim_requests(40 * period);
    assert_eq!(asked.len(), 1, "b is suspended now");
    assert_eq!((asked[0].device, asked[0].flags), (a, TrimFlags { to_budget: true, ..RESTART }));
}
