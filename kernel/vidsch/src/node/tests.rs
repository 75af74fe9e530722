//! The rules of nodes one by one, on nodes of cap 3 whose driver gives packets back unless a test says otherwise.

use engine_time::{Quanta, Rank};

use super::*;
use crate::{Limits, QueueKind, Queues};

mod history;
mod report;

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);
const ELSEWHERE: NodeId = NodeId(2);

fn id(number: u32) -> PacketFenceId {
    PacketFenceId(number)
}

/// A context of a process of its own.
fn of(context: u64) -> Contender<u64> {
    Contender { context, rank: Rank::ordinary(context), quanta: Quanta::default() }
}

/// One that goes before the other contexts of the process.
fn above(context: u64, process: u64) -> Contender<u64> {
    let rank = Rank { in_process: 1, ..Rank::ordinary(process) };
    Contender { context, rank, quanta: Quanta::default() }
}

fn running(context: u64, packet: u64) -> Running<u64> {
    Running { context, packet, portion: None }
}

fn nodes(preemptible: bool) -> Nodes<u64, u64> {
    Nodes::new(NodeTerms { in_flight_max: 3, preemptible }, 2, Policy::default())
}

/// Packets by number: those from 100 on are paging buffers, of the others the hundreds are no matter and the context is 1.
fn hand_over(nodes: &mut Nodes<u64, u64>, node: NodeId, packets: &[u64]) -> Vec<PacketFenceId> {
    let each = packets.iter().map(|&packet| {
        let id = nodes.node(node).handed_last.next();
        let of = if packet >= 100 { PacketOf::Paging } else { PacketOf::Context(running(1, packet)) };
        nodes.handed_over(node, id, of, packet);
        id
    });
    each.collect()
}

fn seen(nodes: &Nodes<u64, u64>, node: NodeId) -> Seen<u64> {
    Seen { holder: nodes.holder(node).map(of), must_quiesce: false, kept: false }
}

fn next(nodes: &mut Nodes<u64, u64>, ready: &[Contender<u64>]) -> NodeStep<u64> {
    let seen = seen(nodes, N0);
    nodes.next(0, N0, ready, seen)
}

fn numbers(packets: TakenOut<u64, u64>) -> Vec<u64> {
    packets.into_packets().into_iter().map(|packet| packet.packet).collect()
}

#[test]
fn a_request_that_the_driver_refuses_is_over_and_a_later_one_has_another_number() {
    // spec: sync §4.3
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[10]);
    assert_eq!(nodes.ask(N0), Some(PreemptionNumber(1)));
    nodes.refused(N0, PreemptionNumber(2));
    assert!(!nodes.is_fed(N0), "another request was refused");
    nodes.refused(N0, PreemptionNumber(1));
    assert!(nodes.is_fed(N0));
    assert_eq!(nodes.front(N0), Some(PacketOf::Context(running(1, 10))), "the node has what it had");
    assert_eq!(nodes.ask(N0), Some(PreemptionNumber(2)));
    nodes.reset_begins(N0);
    nodes.refused(N0, PreemptionNumber(2));
    assert!(!nodes.is_fed(N0), "the request is over, and the node is being reset");
}

#[test]
fn a_node_is_handed_packets_under_rising_ids_as_far_as_it_has_room() {
    // spec: sync §4.1, memory §7.4
    let mut nodes = nodes(true);
    assert_eq!(next(&mut nodes, &[]), NodeStep::Wait);
    for (packet, given) in [(10, 1), (11, 2), (12, 3)] {
        assert_eq!(next(&mut nodes, &[of(1)]), NodeStep::Start(1, id(given)));
        assert_eq!(next(&mut nodes, &[of(1)]), NodeStep::Start(1, id(given)), "the driver refused it");
        nodes.handed_over(N0, id(given), PacketOf::Context(running(1, packet)), packet);
    }
    assert_eq!(next(&mut nodes, &[of(1)]), NodeStep::Wait, "the node is full");
    assert_eq!(next(&mut nodes, &[of(2)]), NodeStep::Wait, "not beside the packets of another context");
    assert_eq!(numbers(nodes.completed(N0, id(3)).unwrap()), [10, 11, 12]);
    assert_eq!(next(&mut nodes, &[of(2)]), NodeStep::Start(2, id(4)));
    let seen = seen(&nodes, N1);
    assert_eq!(nodes.next(0, N1, &[of(1)], seen), NodeStep::Start(1, id(1)), "each node has ids of its own");
}

#[test]
fn a_context_that_should_have_the_node_gets_it_and_a_quiesced_one_gives_it_up() {
    // spec: sync §4.1, sync §4.2, sync §4.3
    let mut known = nodes(true);
    hand_over(&mut known, N0, &[10]);
    let rank = NodeStep::Preempt(PreemptionNumber(1), PreemptFor::Rank(2));
    assert_eq!(next(&mut known, &[of(1), above(2, 1)]), rank);
    assert_eq!(next(&mut known, &[of(1), above(2, 1)]), NodeStep::Wait, "it is asked");
    let mut known = nodes(true);
    hand_over(&mut known, N0, &[10]);
    let still = Seen { must_quiesce: true, ..seen(&known, N0) };
    let standstill = NodeStep::Preempt(PreemptionNumber(1), PreemptFor::Standstill(1));
    assert_eq!(known.next(0, N0, &[of(1)], still), standstill);
    let mut stubborn = nodes(false);
    hand_over(&mut stubborn, N0, &[10]);
    assert_eq!(next(&mut stubborn, &[of(1), above(2, 1)]), NodeStep::Wait);
}

#[test]
fn a_node_that_is_kept_for_something_else_is_handed_nothing() {
    // spec: sync §4.2, memory §7.4
    let mut nodes = nodes(true);
    let both = [of(1), of(2)];
    hand_over(&mut nodes, N0, &[10, 11, 12]);
    assert_eq!(next(&mut nodes, &both), NodeStep::Wait);
    assert_eq!(nodes.deadline_ns(), Some(2_000_000), "the end of the holder's quantum");
    let kept = Seen { kept: true, ..seen(&nodes, N0) };
    assert_eq!(nodes.next(1_000_000, N0, &both, kept), NodeStep::Wait);
    assert_eq!(nodes.deadline_ns(), None, "no decision is due while it is kept");
    assert_eq!(numbers(nodes.completed(N0, id(3)).unwrap()), [10, 11, 12]);
    // Paging has the node until here, for which no context is charged: the first one has half of its quantum left.
    let kept = Seen { kept: true, ..seen(&nodes, N0) };
    assert_eq!(nodes.next(1_000_000, N0, &both, kept), NodeStep::Wait);
    let seen_now = seen(&nodes, N0);
    assert_eq!(nodes.next(9_000_000, N0, &both, seen_now), NodeStep::Start(1, id(4)));
    hand_over(&mut nodes, N0, &[13, 14, 15]);
    let seen_now = seen(&nodes, N0);
    assert_eq!(nodes.next(9_000_000, N0, &both, seen_now), NodeStep::Wait);
    assert_eq!(nodes.deadline_ns(), Some(10_000_000));
}

#[test]
fn the_next_decision_is_due_at_the_first_deadline_of_all_nodes() {
    // spec: sync §4.2
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[10, 11, 12]);
    hand_over(&mut nodes, N1, &[20, 21, 22]);
    let seen_0 = seen(&nodes, N0);
    assert_eq!(nodes.next(1_000, N1, &[of(1), of(2)], seen_0), NodeStep::Wait);
    assert_eq!(nodes.next(500, N0, &[of(1), of(2)], seen_0), NodeStep::Wait);
    assert_eq!(nodes.deadline_ns(), Some(2_000_500));
    nodes.rest();
    assert_eq!(nodes.deadline_ns(), None);
}

#[test]
#[should_panic(expected = "the caller asks with the holder")]
fn a_caller_that_does_not_know_the_holder_has_a_bug() {
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[10]);
    let _ = nodes.next(0, N0, &[], Seen { holder: None, must_quiesce: false, kept: false });
}

#[test]
fn a_paging_buffer_goes_before_every_context_and_keeps_its_id() {
    // spec: memory §7.4, sync §4.3
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[10]);
    assert_eq!(nodes.next_paging(N0, None), PagingStep::Preempt(PreemptionNumber(1)), "contexts give way");
    assert_eq!(nodes.next_paging(N0, None), PagingStep::Wait, "the node is asked");
    assert_eq!(numbers(nodes.preempted(N0, PreemptionNumber(1), id(1)).unwrap()), [10]);
    assert_eq!(nodes.next_paging(N0, None), PagingStep::Wait, "what came back is not in its queues yet");
    assert_eq!(numbers(nodes.give_back(N0)), []);
    nodes.goes_on(N0);
    assert_eq!(nodes.next_paging(N0, None), PagingStep::Start(id(2)));
    hand_over(&mut nodes, N0, &[100, 101]);
    // A context behind them is preempted, and the second of them comes back with it.
    hand_over(&mut nodes, N0, &[11]);
    assert_eq!(nodes.next_paging(N0, None), PagingStep::Preempt(PreemptionNumber(2)));
    assert_eq!(numbers(nodes.preempted(N0, PreemptionNumber(2), id(2)).unwrap()), [100]);
    assert_eq!(numbers(nodes.give_back(N0)), [11, 101], "the youngest first");
    nodes.goes_on(N0);
    assert_eq!(nodes.next_paging(N0, Some(id(3))), PagingStep::Start(id(3)), "it has its id still");
    nodes.handed_over(N0, id(3), PacketOf::Paging, 101);
    assert_eq!(nodes.next_paging(N0, None), PagingStep::Start(id(5)), "and no other gets one that was given out");
    hand_over(&mut nodes, N0, &[102, 103]);
    assert_eq!(nodes.next_paging(N0, None), PagingStep::Wait, "the node is full");
}

#[test]
fn paging_waits_for_contexts_where_the_driver_gives_nothing_back() {
    // spec: memory §7.4, sync §4.3
    let mut nodes = nodes(false);
    hand_over(&mut nodes, N0, &[10]);
    assert_eq!((nodes.next_paging(N0, None), nodes.ask(N0)), (PagingStep::Wait, None));
    assert_eq!(numbers(nodes.completed(N0, id(1)).unwrap()), [10]);
    assert_eq!(nodes.next_paging(N0, None), PagingStep::Start(id(2)));
}

#[test]
fn lost_hardware_has_no_packet_and_owes_no_answer() {
    // spec: sync §4.4
    let mut nodes = nodes(true);
    hand_over(&mut nodes, N0, &[10]);
    nodes.drop_of(N0, 1);
    hand_over(&mut nodes, N0, &[11]);
    hand_over(&mut nodes, N1, &[20]);
    assert!(nodes.ask(N0).is_some());
    nodes.reset_begins(N1);
    nodes.lost();
    assert_eq!((nodes.owes(N0), nodes.owes(N1)), (false, false));
    assert_eq!(nodes.completed(N0, id(1)), Err(ReportBreach::LeftBehind(id(0))));
    assert_eq!(nodes.completed(N0, id(2)), Err(ReportBreach::LeftBehind(id(0))));
    // The caller may be about to say that an answer is carried out: the node may be asked anew already.
    assert!(nodes.ask(N0).is_some());
    nodes.goes_on(N0);
    nodes.goes_on(N1);
    assert_eq!((nodes.is_fed(N0), nodes.is_fed(N1)), (false, true));
}

#[test]
#[should_panic(expected = "the kernel acted on a node out of turn")]
fn a_node_that_is_asked_cannot_be_asked() {
    let mut nodes = nodes(true);
    assert!(nodes.ask(N0).is_some());
    nodes.node_mut(N0).ask();
}

#[test]
fn contexts_are_found_by_their_queues() {
    let mut sched: Queues<(), ()> = Queues::new(Limits::default());
    let mut queue = || sched.create_queue(N0, QueueKind::Kernel, 0);
    let (first, second, third, other) = (queue(), queue(), queue(), queue());
    let mut nodes = nodes(true);
    nodes.enter(9, N0, first);
    nodes.enter(7, N1, second);
    nodes.enter(8, N0, third);
    let all = || [first, second, third, other].into_iter();
    assert_eq!(nodes.contexts_of(all()), [7, 8, 9], "by name");
    assert_eq!(nodes.contexts_on(N0, all()), [8, 9]);
    assert_eq!(nodes.contexts_on(N0, [second, third].into_iter()), [8]);
    nodes.leave(first);
    assert_eq!(nodes.contexts_of(all()), [7, 8]);
}

#[test]
fn a_node_says_what_it_has() {
    let mut nodes = nodes(true);
    assert_eq!(nodes.all().collect::<Vec<_>>(), [N0, N1]);
    assert_eq!((nodes.front(N1), nodes.holder(N1), nodes.owes(N1)), (None, None, false));
    hand_over(&mut nodes, N1, &[100, 10]);
    nodes.handed_over(N1, id(3), PacketOf::Context(running(2, 20)), 20);
    assert_eq!((nodes.front(N1), nodes.holder(N1), nodes.owes(N1)), (Some(PacketOf::Paging), Some(1), true));
    assert_eq!(nodes.fronts().collect::<Vec<_>>(), [(N1, PacketOf::Paging)]);
    assert_eq!((PacketOf::<u64>::Paging.context(), PacketOf::Context(running(2, 20)).context()), (None, Some(2)));
    nodes.change_each(N1, 1, |packet| *packet += 5);
    assert_eq!(numbers(nodes.completed(N1, id(3)).unwrap()), [100, 15, 20]);
}
