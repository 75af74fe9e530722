//! Timeout detection alone: one rule per test. The delay is 80 ns, so a look's share is 10.

use super::*;

type Known = Timeouts<u32, char, &'static str>;

const SHARE: Passed = Passed { passed_ns: 10, delay_ns: 80 };
const NODE: NodeId = NodeId(0);

fn known() -> Known {
    Known::new(Some(80), 4)
}

fn queue(queue: char, reached: u64, suspended: bool) -> SeenQueue<char, u8> {
    SeenQueue { queue, device: queue as u8, reached, suspended }
}

fn packet(node: u16, running: u32, suspended: bool) -> SeenPacket<u32, u8> {
    SeenPacket { node: NodeId(node), running, device: node as u8, suspended }
}

/// The devices that stand, in so many looks one after the other.
fn looks(known: &mut Known, looks: u32, queues: &[SeenQueue<char, u8>], packets: &[SeenPacket<u32, u8>]) -> Vec<u8> {
    (0..looks).flat_map(|_| known.standing(SHARE, queues, packets)).collect()
}

#[test]
fn the_kernel_looks_eight_times_in_a_delay_and_only_for_something() {
    // spec: sync §4.4
    let mut known = known();
    assert!(known.is_on());
    known.arm(5, false);
    assert_eq!(known.deadline_ns(), None);
    known.arm(5, true);
    assert_eq!(known.deadline_ns(), Some(15));
    known.arm(9, true);
    assert_eq!(known.deadline_ns(), Some(15), "it is armed");
    assert_eq!((known.is_due(14), known.begin_look(14)), (false, None));
    assert!(known.is_due(15));
    assert_eq!(known.begin_look(15), Some(SHARE));
    assert_eq!((known.deadline_ns(), known.begin_look(16)), (None, None), "once");
    known.arm(20, true);
    known.arm(21, false);
    assert_eq!(known.deadline_ns(), None, "there is nothing left to look for");
}

#[test]
fn no_look_counts_for_more_than_its_share_and_none_for_no_time() {
    // spec: sync §4.4
    let mut known = known();
    known.arm(5, true);
    assert_eq!(known.begin_look(1_000), Some(SHARE), "the computer was stopped");
    known.arm(1_000, true);
    let mut early = Known::new(Some(3), 1);
    early.arm(0, true);
    assert_eq!(early.deadline_ns(), Some(1), "a delay of less than eight");
    assert_eq!(early.begin_look(7), Some(Passed { passed_ns: 1, delay_ns: 3 }));
}

#[test]
fn without_a_delay_the_kernel_never_looks() {
    // spec: sync §4.4
    let mut known = Known::new(None, 1);
    assert!(!known.is_on());
    known.arm(0, true);
    known.called();
    assert_eq!((known.deadline_ns(), known.begin_look(1_000)), (None, None));
    assert!(!known.watches_waits());
}

#[test]
fn waits_are_looked_at_for_one_delay_after_a_call() {
    // spec: sync §4.4
    let mut known = known();
    assert!(!known.watches_waits(), "no process has called");
    known.called();
    for look in 0..8 {
        assert!(known.watches_waits(), "look {look}");
        known.arm(look * 10, true);
        assert!(known.begin_look(look * 10 + 10).is_some());
    }
    assert!(!known.watches_waits());
    known.arm(80, true);
    assert!(known.begin_look(90).is_some());
    assert!(!known.watches_waits());
}

#[test]
fn a_queue_that_stands_for_the_delay_is_asked_once_until_a_process_calls() {
    // spec: sync §4.4
    let mut known = known();
    let stands = [queue('q', 5, false)];
    assert_eq!(looks(&mut known, 8, &stands, &[]), [], "the first look only sees it");
    assert!(known.watches_queue('q'));
    assert_eq!(looks(&mut known, 1, &stands, &[]), [b'q']);
    assert!(!known.watches_queue('q') && known.watches_queue('p'));
    assert_eq!(looks(&mut known, 9, &stands, &[]), [], "it was in vain");
    known.called();
    assert!(known.watches_queue('q'));
    assert_eq!(looks(&mut known, 9, &stands, &[]), [b'q'], "from the beginning");
}

#[test]
fn a_queue_that_goes_further_or_is_suspended_does_not_stand() {
    // spec: sync §4.4
    let mut known = known();
    assert_eq!(looks(&mut known, 8, &[queue('q', 5, false)], &[]), []);
    assert_eq!(looks(&mut known, 8, &[queue('q', 6, false)], &[]), [], "progress");
    known.called();
    assert_eq!(looks(&mut known, 20, &[queue('q', 6, true)], &[]), [], "its device does not run");
    assert_eq!(
        looks(&mut known, 1, &[queue('q', 6, false)], &[]),
        [b'q'],
        "a call forgets no time of a queue that runs"
    );
    assert_eq!(looks(&mut known, 1, &[], &[]), [], "its work is done");
    assert!(known.watches_queue('q'));
    assert_eq!(looks(&mut known, 8, &[queue('q', 6, false)], &[]), []);
}

#[test]
fn a_packet_that_has_its_node_for_the_delay_is_asked_once_until_a_process_calls() {
    // spec: sync §4.4
    let mut known = known();
    let runs = [packet(0, 7, false), packet(1, 8, true)];
    assert_eq!(looks(&mut known, 8, &[], &runs), []);
    assert_eq!(looks(&mut known, 20, &[], &runs), [0], "the other's device is suspended");
    assert!(!known.watches_packet(7) && known.watches_packet(8));
    known.called();
    assert!(known.watches_packet(7));
    assert_eq!(looks(&mut known, 8, &[], &runs), [], "from the beginning");
    assert_eq!(looks(&mut known, 1, &[], &[packet(0, 9, false)]), [], "another one runs");
    assert_eq!(looks(&mut known, 7, &[], &[packet(0, 9, false)]), []);
    known.called();
    assert_eq!(looks(&mut known, 1, &[], &[packet(0, 9, false)]), [0], "a call forgets no time of one not asked");
}

#[test]
fn a_packet_that_the_node_was_spared_for_is_asked_anew() {
    // spec: sync §4.4
    let mut known = known();
    let runs = [packet(0, 7, false), packet(1, 8, false)];
    assert_eq!(looks(&mut known, 9, &[], &runs), [0, 1]);
    known.ask_anew(7);
    assert!(known.watches_packet(7) && !known.watches_packet(8));
    assert_eq!(looks(&mut known, 8, &[], &runs), [], "its time begins again");
    assert_eq!(looks(&mut known, 1, &[], &runs), [0]);
}

/// The steps of the ring, but for those where there is nothing to do.
fn ring(known: &mut Known, looks: u32, reached: Option<u64>, owes: bool, by_packets: bool) -> Vec<(u32, RingStep)> {
    let steps = (1..=looks).map(|look| (look, known.ring(SHARE, reached, owes, by_packets)));
    steps.filter(|(_, step)| *step != RingStep::Nothing).collect()
}

#[test]
fn a_ring_that_stands_leaves_the_engine_once_until_a_process_calls() {
    // spec: sync §4.4
    for (by_packets, step) in [(false, RingStep::TakeOff), (true, RingStep::Preempt)] {
        let mut known = known();
        assert_eq!(ring(&mut known, 20, None, false, by_packets), [], "it has nothing to do");
        assert_eq!(ring(&mut known, 9, Some(3), false, by_packets), [(9, step)]);
        assert!(known.watches_ring());
        assert_eq!(ring(&mut known, 20, Some(3), false, by_packets), [], "it has left, and stands all the same");
        assert!(!known.watches_ring());
        known.called();
        assert!(known.watches_ring());
        assert_eq!(ring(&mut known, 9, Some(3), false, by_packets), [(9, step)]);
        assert_eq!(ring(&mut known, 9, Some(4), false, by_packets), [(9, step)], "it went on, and stands again");
    }
}

#[test]
fn packets_of_a_ring_that_do_not_leave_for_the_delay_are_hung_and_a_context_counts_for_itself() {
    // spec: sync §4.4
    let mut known = known();
    assert_eq!(ring(&mut known, 9, Some(3), false, true), [(9, RingStep::Preempt)]);
    assert_eq!(ring(&mut known, 20, Some(3), true, true), [(8, RingStep::Hung)]);
    assert!(!known.watches_ring());
    let mut known = self::known();
    assert_eq!(ring(&mut known, 9, Some(3), false, false), [(9, RingStep::TakeOff)]);
    assert_eq!(ring(&mut known, 20, Some(3), true, false), [], "of a context the suspension is watched");
    assert!(known.watches_ring());
}

#[test]
fn the_answer_that_a_ring_owes_counts_for_what_it_runs_next() {
    // spec: sync §4.4
    let mut known = known();
    assert_eq!(ring(&mut known, 9, Some(3), false, true), [(9, RingStep::Preempt)]);
    assert_eq!(ring(&mut known, 5, Some(3), true, true), []);
    assert_eq!(ring(&mut known, 1, Some(4), true, true), [], "it went further without an answer");
    known.called();
    assert_eq!(
        ring(&mut known, 3, Some(4), true, true),
        [(3, RingStep::Hung)],
        "a call forgets no request that is open"
    );
    // One that was in vain is none: a new request is made.
    assert_eq!(ring(&mut known, 9, Some(5), true, true), [(9, RingStep::Preempt)]);
    known.adapter_was_reset();
    assert_eq!(ring(&mut known, 9, Some(5), true, true), [(9, RingStep::Preempt)], "another ring");
}

#[test]
fn an_engine_that_is_reset_alone_is_reset_now() {
    // spec: sync §4.4
    let mut known = known();
    assert_eq!(known.hung(0, NodeId(2), Hung::Packets, 0b100), HungStep::Reset);
    assert!(!known.is_any_preparing() && !known.is_preparing(NodeId(2)));
}

#[test]
fn a_driver_names_nodes_that_are_there_and_the_hung_one_among_them() {
    // spec: sync §5
    let mut known = known();
    for group in [0b1_0001, 0b0010, 0, u64::MAX] {
        assert_eq!(known.hung(0, NODE, Hung::Packets, group), HungStep::BadGroup, "{group:#b}");
    }
    assert!(!known.is_any_preparing());
    assert_eq!(known.hung(0, NODE, Hung::Packets, 0b1111), HungStep::Prepare((0..4).map(NodeId).collect()));
    let mut all = Known::new(None, 64);
    assert!(matches!(all.hung(0, NODE, Hung::Packets, u64::MAX), HungStep::Prepare(nodes) if nodes.len() == 64));
    let mut none = Known::new(None, 0);
    assert_eq!(none.hung(0, NODE, Hung::Packets, 0b11), HungStep::BadGroup);
}

#[test]
fn a_group_is_over_when_the_others_have_left_or_its_time_is_or_the_hung_one_has_left() {
    // spec: sync §4.4
    const HALF_SECOND_NS: u64 = 500_000_000;
    let over = |known: &Known, now_ns, room: bool, owing: &[u16]| {
        known.group_over(now_ns, |_, hung| room && hung == Hung::Context("ring"), |node| owing.contains(&node.0))
    };
    let mut known = known();
    assert_eq!(over(&known, u64::MAX, true, &[]), None);
    assert_eq!(known.group_deadline_ns(), None);
    let step = known.hung(7, NodeId(1), Hung::Context("ring"), 0b0111);
    assert_eq!(step, HungStep::Prepare(vec![NodeId(0), NodeId(1), NodeId(2)]));
    assert_eq!([0, 1, 2, 3].map(|node| known.is_preparing(NodeId(node))), [true, true, true, false]);
    assert_eq!(known.group_deadline_ns(), Some(7 + HALF_SECOND_NS));
    let reset = Some(GroupEnd::Reset(NodeId(1), vec![NodeId(0), NodeId(1), NodeId(2)]));
    assert_eq!(over(&known, 6 + HALF_SECOND_NS, true, &[1, 2]), None);
    assert_eq!(over(&known, 7 + HALF_SECOND_NS, true, &[1, 2]), reset, "they had their time");
    assert_eq!(over(&known, 8, true, &[1, 3]), reset, "the others have left");
    assert_eq!(over(&known, 8, false, &[0, 1, 2]), Some(GroupEnd::CalledOff(NodeId(1))));
    assert!(known.is_any_preparing(), "until that is carried out");
    // A node of no group may be hung meanwhile.
    assert_eq!(known.hung(9, NodeId(3), Hung::Packets, 0b1001), HungStep::Prepare(vec![NodeId(0), NodeId(3)]));
    assert_eq!(known.group_deadline_ns(), Some(7 + HALF_SECOND_NS), "the first");
    assert!(!known.group_ended(NodeId(1)), "another one is prepared");
    assert_eq!([0, 1, 2, 3].map(|node| known.is_preparing(NodeId(node))), [true, false, false, true]);
    assert!(known.group_ended(NodeId(3)));
    assert!(!known.is_any_preparing());
}

#[test]
fn a_reset_of_the_adapter_ends_all_preparations() {
    // spec: sync §4.4
    let mut known = known();
    assert!(matches!(known.hung(0, NODE, Hung::Packets, 0b11), HungStep::Prepare(_)));
    known.adapter_was_reset();
    assert!(!known.is_any_preparing() && known.group_deadline_ns().is_none());
}

#[test]
#[should_panic(expected = "a node is hung that another reset decides about")]
fn a_node_of_a_group_that_is_prepared_is_not_prepared_again() {
    let mut known = known();
    assert!(matches!(known.hung(0, NODE, Hung::Packets, 0b11), HungStep::Prepare(_)));
    let _ = known.hung(0, NodeId(1), Hung::Packets, 0b11);
}
