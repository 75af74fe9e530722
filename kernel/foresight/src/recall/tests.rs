//! What streams together may keep, and what a stream may plan.

use super::*;

fn operation(recall: &mut Recall, process: u32, slots: &[u32]) {
    let item = |slot: &u32| Item { key: Key::new(*slot, 0), pages: 3, kind: 0, has_content: false };
    let list: Vec<Item> = slots.iter().map(item).collect();
    recall.used(process, &list, &Subjects::default(), 8);
}

#[test]
fn all_streams_together_keep_no_more_than_one_alone() {
    let mut recall = Recall::default();
    operation(&mut recall, 0, &[0]);
    assert_eq!(recall.kept_max(), KEPT_TOTAL);
    for process in 1..100 {
        operation(&mut recall, process, &[0]);
        assert!(recall.kept_max() * (process as usize + 1) <= KEPT_TOTAL);
        assert!(recall.streams.iter().all(|stream| stream.history.kept_max() == recall.kept_max()));
    }
    (1..100).for_each(|process| assert!(recall.gone(process).is_some()));
    assert_eq!((recall.kept_max(), recall.streams[0].history.kept_max()), (KEPT_TOTAL, KEPT_TOTAL));
    operation(&mut recall, 7, &[0]);
    assert_eq!(recall.streams.len(), 100, "the place of one that has ended is used again");
}

#[test]
fn a_stream_plans_no_more_than_it_has_earned() {
    let mut recall = Recall::default();
    recall.foresee_from_now_on();
    let step = |recall: &mut Recall| (0..40).for_each(|slot| operation(recall, 1, &[slot]));
    (0..2).for_each(|_| step(&mut recall));
    let stream = &mut recall.streams[0];
    assert_eq!(stream.plans, 1, "as soon as an offset is followed");
    stream.credit = 0;
    stream.plan_at = Some(80);
    operation(&mut recall, 1, &[0]);
    assert_eq!((recall.streams[0].plans, recall.streams[0].plan_at), (1, Some(81)), "16 are earned, and 40 asked for");
    operation(&mut recall, 1, &[1]);
    operation(&mut recall, 1, &[2]);
    assert_eq!((recall.streams[0].plans, recall.streams[0].credit), (2, 3 * 2 * PLANNED_PER_USE - 40));
}

#[test]
fn while_everything_fits_operations_are_followed_and_nothing_is_foreseen_of_them() {
    let mut recall = Recall::default();
    (0..3).for_each(|_| (0..40).for_each(|slot| operation(&mut recall, 1, &[slot])));
    let place = |recall: &Recall, slot| recall.place(Key::new(slot, 0), false, 3);
    assert_eq!((recall.report()[0].repeats_after, place(&recall, 7)), (Some(40), place::UNKNOWN));
    assert!(recall.ahead().is_none() && recall.renewed().is_none());
    recall.foresee_from_now_on();
    assert!((0..39).all(|slot| place(&recall, slot) > place(&recall, slot + 1)), "the farthest goes first");
    let renewed = std::iter::from_fn(|| recall.renewed()).count();
    assert_eq!((renewed, recall.ahead().is_some()), (40, true), "each is ranked anew, once");
    operation(&mut recall, 1, &[0]);
    assert_eq!(recall.streams[0].plans, 1, "with the first operation that does not fit");
}

#[test]
fn of_the_streams_that_have_ended_the_latest_are_reported_on() {
    let mut recall = Recall::default();
    for process in 0..100 {
        operation(&mut recall, process, &[0]);
        recall.gone(process);
    }
    operation(&mut recall, 3, &[0]);
    let ended: Vec<(u32, bool)> = recall.report().iter().map(|known| (known.process, known.ended)).collect();
    assert_eq!((ended.len(), ended[0]), (1 + ENDED_MAX, (3, false)));
    assert_eq!((ended[1], ended[ENDED_MAX]), ((100 - ENDED_MAX as u32, true), (99, true)));
}
