//! The front's choice of a victim, what it makes of refusals, and its sums.

use super::refusal::REFUSALS_MAX;
use super::*;
use crate::history::History;

/// Process 2 uses slot 4 once, then process 1 repeats slots 0 to 3. Each slot has 100 pages, all resident.
fn two_streams() -> (Subjects, Recall, Front) {
    let (mut subjects, mut recall, mut front) = (Subjects::default(), Recall::default(), Front::new(1 << 16));
    recall.foresee_from_now_on();
    let mut operation = |process, slot| {
        let item = Item { key: Key::new(slot, 0), pages: 100, kind: 0, has_content: true };
        subjects.used(process, &item);
        subjects.moved(&Moved { key: item.key, resident: 100, dirty: 0, paged_in: 0, paged_out: 0 });
        recall.used(process, &[item], &subjects, 1 << 16);
        front.used(recall.latest(), &[item], false);
        recall.ended(item.key, false);
        front.ended(item.key);
    };
    operation(2, 4);
    for _ in 0..8 {
        (0..4).for_each(|slot| operation(1, slot));
    }
    (subjects, recall, front)
}

#[test]
fn what_goes_before_a_victim_and_is_not_asked_for_makes_room_too() {
    let (subjects, recall, front) = two_streams();
    let view = View { subjects: &subjects, recall: &recall, spare: 1000, at_most: 1000 };
    let history = History::new(64);
    let ahead = Ahead::new(1, (31, 4), &history);
    let order = [Key::new(4, 0), Key::new(0, 0)];
    let candidate = front.candidate(&view, &ahead, &mut order.into_iter()).expect("the second may go");
    assert_eq!((candidate.key, candidate.next, candidate.unripe), (Key::new(0, 0), 32, 100));
}

#[test]
fn an_answer_without_effect_is_not_given_a_third_time_before_the_next_use() {
    let (mut subjects, recall, mut front) = two_streams();
    let key = Key::new(0, 0);
    subjects.moved(&Moved { key, resident: 10, dirty: 0, paged_in: 0, paged_out: 0 });
    let view = View { subjects: &subjects, recall: &recall, spare: 1000, at_most: 1000 };
    let refused = |front: &Front| front.marks[0].refused;
    for _ in 0..REFUSALS_MAX {
        front.hear_refusal(&view);
        assert!(!refused(&front));
        front.remember(&view, Some(Wanted::Fetch { key, pages: 64, instead_of: None }));
    }
    front.hear_refusal(&view);
    assert!(refused(&front));
    let history = History::new(64);
    let ahead = Ahead::new(1, (31, 4), &history);
    assert!(front.candidate(&view, &ahead, &mut [key].into_iter()).is_none());
    front.used(1, &[Item { key, pages: 100, kind: 0, has_content: true }], false);
    assert!(!refused(&front));
}

#[test]
fn a_sum_that_drifts_is_found() {
    let (_, _, mut front) = two_streams();
    assert_eq!(front.check(), Ok(()));
    front.lead += 1;
    assert!(front.check().is_err(), "the lead");
    front.lead -= 1;
    front.demands[1].born(1);
    assert!(front.check().is_err(), "the living");
    front.demands[1].died(1);
    front.marks[0].missing_at = Some(40);
    assert!(front.check().is_err(), "the missing");
}

#[test]
fn a_departure_is_looked_for_no_longer_than_an_operation_may_look() {
    let (_, recall, mut front) = two_streams();
    let ahead = recall.ahead().expect("it came as foreseen");
    let candidate = Candidate { key: Key::new(0, 0), resident: 100, next: 36, unripe: 0 };
    front.needs = vec![70, 0, 0, 0];
    let clear = Some(Wanted::Clear { key: Key::new(0, 0), pages: 70 });
    front.looks_left = 4;
    assert_eq!((front.departure(&ahead, &candidate, 0, 100), front.looks_left), (clear, 0));
    assert_eq!(front.departure(&ahead, &candidate, 0, 100), None, "nothing is left to look");
    front.needs[0] = 100;
    let clear = Some(Wanted::Clear { key: Key::new(0, 0), pages: 100 });
    assert_eq!(front.departure(&ahead, &candidate, 0, 100), clear, "more is not asked for, whatever comes then");
}
