//! The steps that a queue gives out and when: one rule per test.

use wddm_types::{Blame, FencePoint};

use super::*;
use crate::packet::SoftwareTurn;

type Scheduler = VidSch<&'static str, u32>;

fn points(fence: u32, value: u64) -> Vec<FencePoint<u32>> {
    vec![FencePoint { fence, value }]
}

fn queue_with(in_flight_max: u32, packets: Vec<Packet<&'static str, u32>>) -> (Scheduler, QueueId) {
    let mut vidsch = Scheduler::new(Limits::default());
    let queue = vidsch.create_queue(NodeId(0), QueueKind::Kernel, in_flight_max);
    for packet in packets {
        assert_eq!(vidsch.submit(queue, packet), Ok(()));
    }
    (vidsch, queue)
}

fn due(vidsch: &mut Scheduler, queue: QueueId) -> Vec<Step<&'static str, u32>> {
    std::iter::from_fn(|| vidsch.next(queue)).collect()
}

#[test]
fn a_wait_holds_what_is_behind_it_until_it_is_over() {
    // spec: sync §3.8, §4.1
    let (mut vidsch, queue) =
        queue_with(0, vec![Packet::Work("before"), Packet::Wait(points(7, 1)), Packet::Work("behind")]);
    assert_eq!(due(&mut vidsch, queue), [Step::Start("before"), Step::Wait(points(7, 1))]);
    vidsch.completed(queue, 1);
    assert_eq!((due(&mut vidsch, queue), vidsch.state(queue)), (vec![], QueueState::Waiting));
    assert!(!vidsch.is_idle(queue));
    vidsch.waited(queue);
    assert_eq!(due(&mut vidsch, queue), [Step::Start("behind")]);
    vidsch.completed(queue, 1);
    assert!(vidsch.is_idle(queue));
}

#[test]
fn the_next_is_work_if_the_queue_would_start_it_now() {
    // spec: sync §4.1
    let (mut vidsch, queue) =
        queue_with(1, vec![Packet::Work("first"), Packet::Work("second"), Packet::Signal(points(7, 1))]);
    assert!(vidsch.next_is_work(queue));
    vidsch.suspend(queue);
    assert!(!vidsch.next_is_work(queue), "a suspended queue starts nothing");
    vidsch.resume(queue);
    assert_eq!(vidsch.next(queue), Some(Step::Start("first")));
    assert!(!vidsch.next_is_work(queue), "the hardware has no room");
    vidsch.preempted(queue, "first");
    assert!(vidsch.next_is_work(queue), "the one that came back is next");
    vidsch.suspend(queue);
    assert!(!vidsch.next_is_work(queue), "and is not started while the queue is suspended");
    vidsch.resume(queue);
    for work in ["first", "second"] {
        assert_eq!(vidsch.next(queue), Some(Step::Start(work)));
        vidsch.completed(queue, 1);
    }
    assert!(!vidsch.next_is_work(queue), "a signal is next");
}

#[test]
fn software_packets_come_out_when_their_turn_has_come() {
    // spec: sync §2.4, §3.7
    let packets = vec![
        Packet::Work("work"),
        Packet::Software("submitted", SoftwareTurn::Submitted),
        Packet::Software("completed", SoftwareTurn::Completed),
        Packet::Software("holds", SoftwareTurn::Holds),
        Packet::Software("behind", SoftwareTurn::Submitted),
    ];
    let (mut vidsch, queue) = queue_with(0, packets);
    assert!(vidsch.next_is_work(queue));
    assert_eq!(due(&mut vidsch, queue), [Step::Start("work"), Step::Software("submitted")]);
    vidsch.completed(queue, 1);
    assert_eq!(due(&mut vidsch, queue), [Step::Software("completed"), Step::Software("holds")]);
    assert_eq!((due(&mut vidsch, queue), vidsch.state(queue)), (vec![], QueueState::Waiting));
    vidsch.waited(queue);
    assert_eq!(due(&mut vidsch, queue), [Step::Software("behind")]);
    assert!(vidsch.is_idle(queue));
}

#[test]
fn room_for_several_packets_is_asked_for_before() {
    let mut vidsch = Scheduler::new(Limits { packets_per_queue: 2 });
    let queue = vidsch.create_queue(NodeId(0), QueueKind::Kernel, 0);
    assert_eq!((vidsch.may_submit(queue, 2), vidsch.may_submit(queue, 3)), (Ok(()), Err(SubmitError::TooMany)));
    assert_eq!(vidsch.submit(queue, Packet::Software("one", SoftwareTurn::Holds)), Ok(()));
    assert_eq!((vidsch.may_submit(queue, 1), vidsch.may_submit(queue, 2)), (Ok(()), Err(SubmitError::TooMany)));
    vidsch.fail(queue);
    assert_eq!(vidsch.may_submit(queue, 1), Err(SubmitError::Stopped));
}

#[test]
fn a_queue_that_only_waits_is_not_idle() {
    // spec: sync §4.1
    let (mut vidsch, queue) = queue_with(0, vec![Packet::Wait(points(7, 1))]);
    assert_eq!(due(&mut vidsch, queue), [Step::Wait(points(7, 1))]);
    assert_eq!((vidsch.held(queue), vidsch.in_flight(queue), vidsch.is_idle(queue)), (0, 0, false));
    vidsch.suspend(queue);
    assert!(!vidsch.is_idle(queue));
    vidsch.waited(queue);
    assert!(vidsch.is_idle(queue));
}

#[test]
fn another_queue_of_the_same_node_does_not_care() {
    // spec: sync §4.1
    let (mut vidsch, waiting) = queue_with(0, vec![Packet::Wait(points(7, 1))]);
    let other = vidsch.create_queue(NodeId(0), QueueKind::Kernel, 0);
    let elsewhere = vidsch.create_queue(NodeId(1), QueueKind::User, 0);
    assert_eq!(vidsch.submit(other, Packet::Work("free")), Ok(()));
    assert_eq!(due(&mut vidsch, waiting), [Step::Wait(points(7, 1))]);
    assert_eq!(due(&mut vidsch, other), [Step::Start("free")]);
    assert_eq!(vidsch.queues_on(NodeId(0)).collect::<Vec<_>>(), [waiting, other]);
    assert_eq!((vidsch.node(elsewhere), vidsch.kind(elsewhere)), (NodeId(1), QueueKind::User));
}

#[test]
fn a_signal_comes_out_when_all_work_before_it_has_completed() {
    // spec: sync §3.7
    let (mut vidsch, queue) =
        queue_with(0, vec![Packet::Work("a"), Packet::Work("b"), Packet::Signal(points(1, 5)), Packet::Work("c")]);
    assert_eq!(due(&mut vidsch, queue), [Step::Start("a"), Step::Start("b")]);
    vidsch.completed(queue, 1);
    assert_eq!(due(&mut vidsch, queue), []);
    vidsch.completed(queue, 1);
    assert_eq!(due(&mut vidsch, queue), [Step::Signal(points(1, 5)), Step::Start("c")]);
}

#[test]
fn a_signal_with_nothing_before_it_comes_out_at_once() {
    // spec: sync §3.7
    let (mut vidsch, queue) = queue_with(0, vec![Packet::Signal(points(1, 5)), Packet::Signal(points(1, 6))]);
    assert_eq!(due(&mut vidsch, queue), [Step::Signal(points(1, 5)), Step::Signal(points(1, 6))]);
}

#[test]
fn no_more_work_is_in_flight_than_the_node_takes() {
    // spec: sync §2.9
    let (mut vidsch, queue) = queue_with(2, ["a", "b", "c", "d"].map(Packet::Work).into());
    assert_eq!(due(&mut vidsch, queue), [Step::Start("a"), Step::Start("b")]);
    vidsch.completed(queue, 1);
    assert_eq!(due(&mut vidsch, queue), [Step::Start("c")]);
    assert_eq!((vidsch.in_flight(queue), vidsch.held(queue)), (2, 1));
    vidsch.completed(queue, 2);
    assert_eq!(due(&mut vidsch, queue), [Step::Start("d")]);
}

#[test]
fn a_suspended_queue_takes_packets_and_hands_out_none() {
    // spec: sync §4.1
    let (mut vidsch, queue) = queue_with(0, vec![Packet::Work("a"), Packet::Signal(points(1, 1))]);
    assert_eq!(due(&mut vidsch, queue), [Step::Start("a")]);
    vidsch.suspend(queue);
    vidsch.suspend(queue);
    vidsch.completed(queue, 1);
    assert_eq!(vidsch.submit(queue, Packet::Work("b")), Ok(()));
    assert_eq!(due(&mut vidsch, queue), []);
    vidsch.resume(queue);
    assert_eq!(due(&mut vidsch, queue), [Step::Signal(points(1, 1)), Step::Start("b")]);
}

#[test]
fn a_wait_may_end_while_its_queue_is_suspended() {
    // spec: sync §4.1
    let (mut vidsch, queue) = queue_with(0, vec![Packet::Wait(points(7, 1)), Packet::Work("behind")]);
    assert_eq!(due(&mut vidsch, queue), [Step::Wait(points(7, 1))]);
    vidsch.suspend(queue);
    vidsch.waited(queue);
    assert_eq!((due(&mut vidsch, queue), vidsch.state(queue)), (vec![], QueueState::Suspended));
    vidsch.resume(queue);
    assert_eq!(due(&mut vidsch, queue), [Step::Start("behind")]);
}

#[test]
fn a_failed_queue_gives_back_what_it_held_and_takes_nothing() {
    // spec: sync §3.16
    let held = vec![Packet::Wait(points(7, 1)), Packet::Work("b"), Packet::Signal(points(1, 1))];
    let (mut vidsch, queue) = queue_with(1, [vec![Packet::Work("a")], held.clone()].concat());
    assert_eq!(vidsch.next(queue), Some(Step::Start("a")));
    assert_eq!(vidsch.fail(queue), held);
    assert_eq!(vidsch.fail(queue), []);
    assert_eq!(vidsch.submit(queue, Packet::Work("c")), Err(SubmitError::Stopped));
    vidsch.resume(queue);
    assert_eq!((due(&mut vidsch, queue), vidsch.state(queue)), (vec![], QueueState::Failed));
    assert!(!vidsch.is_idle(queue), "the engine still has a");
    assert_eq!(vidsch.lose_in_flight(queue), 1);
    vidsch.completed(queue, 1);
    vidsch.waited(queue);
    assert!(vidsch.is_idle(queue));
}

#[test]
fn refusals_say_whose_fault_they_are() {
    // spec: sync §2.5, §5
    let mut vidsch = Scheduler::new(Limits { packets_per_queue: 2 });
    let user = vidsch.create_queue(NodeId(0), QueueKind::User, 0);
    for packet in [Packet::Work("w"), Packet::Wait(points(1, 1)), Packet::Signal(points(1, 1))] {
        assert_eq!(vidsch.submit(user, packet), Err(SubmitError::UserQueue));
    }
    let kernel = vidsch.create_queue(NodeId(0), QueueKind::Kernel, 0);
    let answers = ["a", "b", "c"].map(|work| vidsch.submit(kernel, Packet::Work(work)));
    assert_eq!(answers, [Ok(()), Ok(()), Err(SubmitError::TooMany)]);
    assert_eq!(vidsch.next(kernel), Some(Step::Start("a")));
    assert_eq!(vidsch.submit(kernel, Packet::Work("d")), Ok(()), "what is in flight does not count");
    assert_eq!(vidsch.destroy_queue(kernel), [Packet::Work("b"), Packet::Work("d")]);
    let blames = [SubmitError::UserQueue, SubmitError::TooMany, SubmitError::Stopped].map(SubmitError::blame);
    assert_eq!(blames, [Blame::Caller, Blame::Scarcity, Blame::Driver]);
}

#[test]
#[should_panic(expected = "1 works completed, 0 were in flight")]
fn more_completions_than_starts_are_a_bug_of_the_kernel() {
    let (mut vidsch, queue) = queue_with(0, vec![Packet::Work("a")]);
    vidsch.completed(queue, 1);
}

#[test]
#[should_panic(expected = "Waited cannot happen to a queue in Ready")]
fn the_end_of_a_wait_that_was_not_handed_out_is_a_bug_of_the_kernel() {
    let (mut vidsch, queue) = queue_with(0, vec![]);
    vidsch.waited(queue);
}

#[test]
#[should_panic(expected = "names a queue that was destroyed")]
fn a_stale_id_is_a_bug_of_the_kernel() {
    let (mut vidsch, queue) = queue_with(0, vec![]);
    assert_eq!(vidsch.destroy_queue(queue), []);
    let _ = vidsch.create_queue(NodeId(0), QueueKind::Kernel, 0);
    let _ = vidsch.next(queue);
}

#[test]
fn what_queues_hold_and_have_in_flight_is_counted_for_their_owner_until_it_is_over() {
    let mut vidsch = Scheduler::new(Limits::default());
    let mut queue_of = |owner| {
        let queue = vidsch.create_queue(NodeId(0), QueueKind::Kernel, 1);
        vidsch.count_for(queue, owner);
        queue
    };
    let (first, second, other) = (queue_of(7), queue_of(7), queue_of(8));
    for queue in [first, first, second, other] {
        assert_eq!(vidsch.submit(queue, Packet::Work("work")), Ok(()));
    }
    assert_eq!((vidsch.unfinished_of(7), vidsch.unfinished_of(8), vidsch.unfinished_of(9)), (3, 1, 0));
    assert_eq!(due(&mut vidsch, first), [Step::Start("work")], "one in flight, one held");
    assert_eq!(vidsch.unfinished_of(7), 3);
    vidsch.preempted(first, "work");
    assert_eq!(vidsch.unfinished_of(7), 3, "what comes back was not done");
    assert_eq!(due(&mut vidsch, first), [Step::Start("work")]);
    vidsch.completed(first, 1);
    assert_eq!(vidsch.unfinished_of(7), 2);
    assert_eq!(due(&mut vidsch, first), [Step::Start("work")]);
    assert!(vidsch.fail(first).is_empty() && vidsch.lose_in_flight(first) == 1);
    assert_eq!(vidsch.unfinished_of(7), 1, "what is lost is over");
    vidsch.destroy_queue(second);
    vidsch.destroy_queue(other);
    assert_eq!((vidsch.unfinished_of(7), vidsch.unfinished_of(8)), (0, 0));
}

/// Of every queue that is not named nothing is due: what comes out, goes back and ends is named, and not named, as it is held.
#[test]
fn the_queues_that_hold_packets_are_known_by_name() {
    let mut vidsch = Scheduler::new(Limits::default());
    let [first, second, third] = [0; 3].map(|_| vidsch.create_queue(NodeId(0), QueueKind::Kernel, 1));
    let holding = |vidsch: &Scheduler| vidsch.holding().collect::<Vec<_>>();
    assert_eq!(holding(&vidsch), []);
    for queue in [third, first] {
        assert_eq!(vidsch.submit(queue, Packet::Work("work")), Ok(()));
    }
    assert_eq!(holding(&vidsch), [first, third], "oldest first");
    assert_eq!(vidsch.next(first), Some(Step::Start("work")));
    assert_eq!(holding(&vidsch), [third], "what is in flight is not held");
    vidsch.preempted(first, "work");
    assert_eq!(holding(&vidsch), [first, third], "what came back is");
    assert_eq!(vidsch.fail(first).len(), 1);
    assert_eq!(vidsch.submit(second, Packet::Wait(points(7, 1))), Ok(()));
    assert_eq!(holding(&vidsch), [second, third]);
    vidsch.destroy_queue(third);
    assert_eq!(holding(&vidsch), [second]);
}
