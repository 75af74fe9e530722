//! The rules of a driver's reports one by one, and that a report that cannot be true changes nothing.

use std::collections::BTreeSet;

use super::*;

/// No packet.
fn none() -> TakenOut<u64, u64> {
    TakenOut::new(Vec::new())
}

#[test]
fn a_packet_that_is_done_ends_all_before_it_and_no_other() {
    // spec: memory §7.4, sync §4.4
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[10, 11, 12]);
    hand_over(&mut nodes, N1, &[20, 21, 22, 23, 24]);
    assert_eq!(numbers(nodes.completed(N0, id(2)).unwrap()), [10, 11]);
    let wrong = [
        (N0, 2, ReportBreach::DoneBefore),
        (N0, 1, ReportBreach::Elsewhere(N1)),
        (N0, 0, ReportBreach::LeftBehind(id(2))),
        (N0, 4, ReportBreach::Elsewhere(N1)),
        (N0, 6, ReportBreach::NeverHandedOver),
        (ELSEWHERE, 3, ReportBreach::NoSuchNode),
    ];
    for (node, reported, breach) in wrong {
        assert_eq!(nodes.completed(node, id(reported)), Err(breach), "{reported} of {node:?}");
        assert_eq!(nodes.faulted(node, id(reported)), Err(breach), "{reported} of {node:?}");
    }
    assert_eq!(numbers(nodes.completed(N0, id(3)).unwrap()), [12]);
    assert_eq!(numbers(nodes.completed(N1, id(5)).unwrap()), [20, 21, 22, 23, 24]);
    assert_eq!(nodes.completed(N0, id(1)), Err(ReportBreach::LeftBehind(id(3))));
    let fresh = super::nodes(true).completed(N0, id(0));
    assert_eq!(fresh, Err(ReportBreach::LeftBehind(id(0))), "0 is no packet that was done before");
}

#[test]
fn the_packets_of_a_dropped_context_may_be_reported_until_a_later_one_is() {
    // spec: sync §4.4, memory §8.6
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[100, 10, 11, 12]);
    nodes.drop_of(N0, 2);
    assert_eq!(nodes.holder(N0), Some(1), "of another context");
    nodes.drop_of(N0, 1);
    assert_eq!((nodes.holder(N0), nodes.front(N0)), (None, Some(PacketOf::Paging)));
    assert_eq!(numbers(nodes.completed(N0, id(1)).unwrap()), [100]);
    assert_eq!(nodes.faulted(N0, id(2)), Ok(Faulted { done: none(), of: None }));
    assert_eq!(nodes.completed(N0, id(3)), Ok(none()));
    assert_eq!(nodes.completed(N0, id(3)), Err(ReportBreach::DoneBefore));
    assert_eq!(nodes.completed(N0, id(2)), Err(ReportBreach::LeftBehind(id(3))));
    assert_eq!(nodes.faulted(N0, id(2)), Err(ReportBreach::LeftBehind(id(3))));
    assert_eq!(nodes.completed(N0, id(4)), Ok(none()));
}

#[test]
fn a_report_of_a_dropped_packet_is_one_of_all_before_it_too() {
    // spec: memory §5.8, memory §7.4
    for reported in [2, 3] {
        let mut nodes = nodes(true);
        hand_over(&mut nodes, N0, &[100, 10, 11, 101]);
        nodes.drop_of(N0, 1);
        assert_eq!(numbers(nodes.completed(N0, id(reported)).unwrap()), [100]);
        assert_eq!(nodes.front(N0), Some(PacketOf::Paging), "not of what comes behind it");
        assert_eq!(numbers(nodes.completed(N0, id(4)).unwrap()), [101]);
    }
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[100, 10, 101]);
    nodes.drop_of(N0, 1);
    let faulted = nodes.faulted(N0, id(2)).unwrap();
    assert_eq!((numbers(faulted.done), faulted.of), (vec![100], None));
    assert_eq!(numbers(nodes.completed(N0, id(3)).unwrap()), [101]);
}

#[test]
fn what_was_handed_over_before_a_faulted_packet_is_done() {
    // spec: memory §5.8, sync §4.4
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[100, 10, 11]);
    let first = nodes.faulted(N0, id(1)).unwrap();
    assert_eq!((numbers(first.done), first.of), (vec![], Some(PacketOf::Paging)));
    let second = nodes.faulted(N0, id(3)).unwrap();
    let of = Some(PacketOf::Context(running(1, 11)));
    assert_eq!((numbers(second.done), second.of), (vec![100, 10], of));
    assert_eq!(nodes.front(N0), of, "it is in flight still");
    assert_eq!(nodes.completed(N0, id(2)), Err(ReportBreach::DoneBefore));
}

#[test]
fn an_answer_gives_back_what_is_not_done_and_the_node_goes_on_behind_it() {
    // spec: memory §7.4, sync §4.3
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[10, 11, 12]);
    assert!(nodes.is_fed(N0));
    let number = nodes.ask(N0).unwrap();
    assert_eq!((number, nodes.ask(N0), nodes.is_fed(N0)), (PreemptionNumber(1), None, false));
    assert_eq!(numbers(nodes.preempted(N0, number, id(1)).unwrap()), [10]);
    assert_eq!(nodes.preempted(N0, number, id(1)), Err(AnswerBreach::NotAsked), "it is answered");
    assert_eq!(next(&mut nodes, &[of(1)]), NodeStep::Wait);
    assert_eq!(numbers(nodes.give_back(N0)), [12, 11]);
    assert!(nodes.owes(N0), "the caller does not say yet that all is in its queues");
    nodes.goes_on(N0);
    assert!(!nodes.owes(N0));
    assert_eq!(next(&mut nodes, &[of(2)]), NodeStep::Start(2, id(4)), "with ids that were not given out");
    assert_eq!(nodes.ask(N0), Some(PreemptionNumber(2)));
    assert_eq!(nodes.preempted(N0, PreemptionNumber(2), id(1)), Ok(none()), "nothing was done since");
}

#[test]
fn an_answer_that_cannot_be_true_changes_nothing() {
    // spec: sync §4.3
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[10, 11, 12, 13]);
    assert_eq!(nodes.preempted(N0, PreemptionNumber(0), id(2)), Err(AnswerBreach::NotAsked));
    assert_eq!(numbers(nodes.completed(N0, id(2)).unwrap()), [10, 11]);
    let number = nodes.ask(N0).unwrap();
    let other = PreemptionNumber(9);
    assert_eq!(nodes.preempted(N0, other, id(3)), Err(AnswerBreach::OtherAsked(number)));
    assert_eq!(nodes.preempted(ELSEWHERE, number, id(3)), Err(AnswerBreach::NoSuchNode));
    let behind = AnswerBreach::LeftBehind { last: id(1), done: id(2) };
    assert_eq!(nodes.preempted(N0, number, id(1)), Err(behind));
    assert_eq!(nodes.preempted(N0, number, id(5)), Err(AnswerBreach::NotThere(id(5))));
    assert_eq!(numbers(nodes.preempted(N0, number, id(3)).unwrap()), [12]);
    assert_eq!(numbers(nodes.give_back(N0)), [13]);
    nodes.reset_begins(N0);
    assert_eq!(nodes.preempted(N0, number, id(3)), Err(AnswerBreach::NotAsked), "a reset is no request");
}

#[test]
fn an_answer_may_name_a_packet_of_a_dropped_context_and_the_node_forgets_them_with_it() {
    // spec: sync §4.3, memory §8.6
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[100, 10, 11, 101]);
    nodes.drop_of(N0, 1);
    let number = nodes.ask(N0).unwrap();
    assert_eq!(numbers(nodes.preempted(N0, number, id(2)).unwrap()), [100]);
    assert_eq!(numbers(nodes.give_back(N0)), [101]);
    nodes.goes_on(N0);
    assert_eq!(nodes.completed(N0, id(3)), Err(ReportBreach::LeftBehind(id(2))), "it came back, and was dropped");
    assert_eq!(nodes.completed(N0, id(2)), Err(ReportBreach::DoneBefore));
}

#[test]
fn a_reset_loses_what_had_begun_and_gives_back_the_rest() {
    // spec: sync §4.4
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[10, 11, 12]);
    let number = nodes.ask(N0);
    nodes.reset_begins(N0);
    assert_eq!((nodes.next_paging(N0, None), nodes.ask(N0)), (PagingStep::Wait, None));
    assert_eq!(numbers(nodes.completed(N0, id(1)).unwrap()), [10], "done meanwhile");
    let breach = AbortBreach { completed: id(1), handed_over: id(3) };
    assert_eq!(nodes.aborted(N0, id(4)), Err(breach));
    let aborted = Aborted { contexts: BTreeSet::from([1]), then: AfterReset::GoesOn };
    assert_eq!(nodes.aborted(N0, id(2)), Ok(aborted));
    nodes.drop_of(N0, 1);
    assert_eq!(numbers(nodes.give_back(N0)), []);
    assert_eq!(nodes.completed(N0, id(2)), Ok(none()), "the driver may speak of it still");
    nodes.goes_on(N0);
    assert_eq!((number, nodes.ask(N0)), (Some(PreemptionNumber(1)), Some(PreemptionNumber(2))));
}

#[test]
fn a_reset_under_a_paging_buffer_is_one_of_the_adapter() {
    // spec: sync §4.4
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[100, 10]);
    nodes.reset_begins(N0);
    let lost = Aborted { contexts: BTreeSet::new(), then: AfterReset::PagingLost };
    assert_eq!(nodes.aborted(N0, id(1)), Ok(lost));
    let both = Aborted { contexts: BTreeSet::from([1]), then: AfterReset::PagingLost };
    assert_eq!(nodes.aborted(N0, id(2)), Ok(both));
    let nothing = Aborted { contexts: BTreeSet::new(), then: AfterReset::GoesOn };
    assert_eq!(nodes.aborted(N0, id(0)), Ok(nothing), "it did not begin");
    assert_eq!(numbers(nodes.give_back(N0)), [10, 100]);
}

#[test]
fn a_reset_that_loses_nothing_is_believed_once_for_a_packet() {
    // spec: sync §4.4
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[10, 11]);
    let after = |then| Ok(Aborted { contexts: BTreeSet::new(), then });
    let spared = |packet| AfterReset::Spared(running(1, packet));
    assert_eq!(nodes.aborted(N0, id(0)), after(spared(10)));
    // It came back and is handed over again, under another id.
    assert_eq!(numbers(nodes.give_back(N0)), [11, 10]);
    hand_over(&mut nodes, N0, &[10, 11]);
    assert_eq!(nodes.aborted(N0, id(0)), after(AfterReset::HungAgain));
    assert_eq!(numbers(nodes.completed(N0, id(3)).unwrap()), [10]);
    assert_eq!(nodes.aborted(N0, id(3)), after(spared(11)), "another one");
    nodes.lost();
    hand_over(&mut nodes, N0, &[11]);
    assert_eq!(nodes.aborted(N0, id(3)), after(spared(11)), "the hardware that had it is gone");
}
