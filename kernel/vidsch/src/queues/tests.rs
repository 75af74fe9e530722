//! The steps that a queue gives out and when: one rule per test.

use wddm_types::{Blame, FencePoint};

use super::*;
use crate::packet::SoftwareTurn;

type Named = Queues<&'static str, u32>;

fn points(fence: u32, value: u64) -> Vec<FencePoint<u32>> {
    vec![FencePoint { fence, value }]
}

fn queue_with(in_flight_max: u32, packets: Vec<Packet<&'static str, u32>>) -> (Named, QueueId) {
    let mut queues = Named::new(Limits::default());
    let queue = queues.create_queue(NodeId(0), QueueKind::Kernel, in_flight_max);
    for packet in packets {
        assert_eq!(queues.submit(queue, packet), Ok(()));
    }
    (queues, queue)
}

fn due(queues: &mut Named, queue: QueueId) -> Vec<Step<&'static str, u32>> {
    std::iter::from_fn(|| queues.next(queue)).collect()
}

#[test]
fn a_wait_holds_what_is_behind_it_until_it_is_over() {
    // spec: sync §3.8, §4.1
    let (mut queues, queue) =
        queue_with(0, vec![Packet::Work("before"), Packet::Wait(points(7, 1)), Packet::Work("behind")]);
    assert_eq!(due(&mut queues, queue), [Step::Start("before"), Step::Wait(points(7, 1))]);
    queues.completed(queue, 1);
    assert_eq!((due(&mut queues, queue), queues.state(queue)), (vec![], QueueState::Waiting));
    assert!(!queues.is_idle(queue));
    queues.waited(queue);
    assert_eq!(due(&mut queues, queue), [Step::Start("behind")]);
    queues.completed(queue, 1);
    assert!(queues.is_idle(queue));
}

#[test]
fn the_next_is_work_if_the_queue_would_start_it_now() {
    // spec: sync §4.1
    let (mut queues, queue) =
        queue_with(1, vec![Packet::Work("first"), Packet::Work("second"), Packet::Signal(points(7, 1))]);
    assert!(queues.next_is_work(queue));
    queues.suspend(queue);
    assert!(!queues.next_is_work(queue), "a suspended queue starts nothing");
    queues.resume(queue);
    assert_eq!(queues.next(queue), Some(Step::Start("first")));
    assert!(!queues.next_is_work(queue), "the hardware has no room");
    queues.preempted(queue, "first");
    assert!(queues.next_is_work(queue), "the one that came back is next");
    queues.suspend(queue);
    assert!(!queues.next_is_work(queue), "and is not started while the queue is suspended");
    queues.resume(queue);
    for work in ["first", "second"] {
        assert_eq!(queues.next(queue), Some(Step::Start(work)));
        queues.completed(queue, 1);
    }
    assert!(!queues.next_is_work(queue), "a signal is next");
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
    let (mut queues, queue) = queue_with(0, packets);
    assert!(queues.next_is_work(queue));
    assert_eq!(due(&mut queues, queue), [Step::Start("work"), Step::Software("submitted")]);
    queues.completed(queue, 1);
    assert_eq!(due(&mut queues, queue), [Step::Software("completed"), Step::Software("holds")]);
    assert_eq!((due(&mut queues, queue), queues.state(queue)), (vec![], QueueState::Waiting));
    queues.waited(queue);
    assert_eq!(due(&mut queues, queue), [Step::Software("behind")]);
    assert!(queues.is_idle(queue));
}

#[test]
fn room_for_several_packets_is_asked_for_before() {
    let mut queues = Named::new(Limits { packets_per_queue: 2 });
    let queue = queues.create_queue(NodeId(0), QueueKind::Kernel, 0);
    assert_eq!((queues.may_submit(queue, 2), queues.may_submit(queue, 3)), (Ok(()), Err(SubmitError::TooMany)));
    assert_eq!(queues.submit(queue, Packet::Software("one", SoftwareTurn::Holds)), Ok(()));
    assert_eq!((queues.may_submit(queue, 1), queues.may_submit(queue, 2)), (Ok(()), Err(SubmitError::TooMany)));
    queues.fail(queue).abandon();
    assert_eq!(queues.may_submit(queue, 1), Err(SubmitError::Stopped));
}

#[test]
fn a_queue_that_only_waits_is_not_idle() {
    // spec: sync §4.1
    let (mut queues, queue) = queue_with(0, vec![Packet::Wait(points(7, 1))]);
    assert_eq!(due(&mut queues, queue), [Step::Wait(points(7, 1))]);
    assert_eq!((queues.held(queue), queues.in_flight(queue), queues.is_idle(queue)), (0, 0, false));
    queues.suspend(queue);
    assert!(!queues.is_idle(queue));
    queues.waited(queue);
    assert!(queues.is_idle(queue));
}

#[test]
fn another_queue_of_the_same_node_does_not_care() {
    // spec: sync §4.1
    let (mut queues, waiting) = queue_with(0, vec![Packet::Wait(points(7, 1))]);
    let other = queues.create_queue(NodeId(0), QueueKind::Kernel, 0);
    let elsewhere = queues.create_queue(NodeId(1), QueueKind::User, 0);
    assert_eq!(queues.submit(other, Packet::Work("free")), Ok(()));
    assert_eq!(due(&mut queues, waiting), [Step::Wait(points(7, 1))]);
    assert_eq!(due(&mut queues, other), [Step::Start("free")]);
    assert_eq!(queues.queues_on(NodeId(0)).collect::<Vec<_>>(), [waiting, other]);
    assert_eq!((queues.node(elsewhere), queues.kind(elsewhere)), (NodeId(1), QueueKind::User));
}

#[test]
fn a_signal_comes_out_when_all_work_before_it_has_completed() {
    // spec: sync §3.7
    let (mut queues, queue) =
        queue_with(0, vec![Packet::Work("a"), Packet::Work("b"), Packet::Signal(points(1, 5)), Packet::Work("c")]);
    assert_eq!(due(&mut queues, queue), [Step::Start("a"), Step::Start("b")]);
    queues.completed(queue, 1);
    assert_eq!(due(&mut queues, queue), []);
    queues.completed(queue, 1);
    assert_eq!(due(&mut queues, queue), [Step::Signal(points(1, 5)), Step::Start("c")]);
}

#[test]
fn a_signal_with_nothing_before_it_comes_out_at_once() {
    // spec: sync §3.7
    let (mut queues, queue) = queue_with(0, vec![Packet::Signal(points(1, 5)), Packet::Signal(points(1, 6))]);
    assert_eq!(due(&mut queues, queue), [Step::Signal(points(1, 5)), Step::Signal(points(1, 6))]);
}

#[test]
fn no_more_work_is_in_flight_than_the_node_takes() {
    // spec: sync §2.9
    let (mut queues, queue) = queue_with(2, ["a", "b", "c", "d"].map(Packet::Work).into());
    assert_eq!(due(&mut queues, queue), [Step::Start("a"), Step::Start("b")]);
    queues.completed(queue, 1);
    assert_eq!(due(&mut queues, queue), [Step::Start("c")]);
    assert_eq!((queues.in_flight(queue), queues.held(queue)), (2, 1));
    queues.completed(queue, 2);
    assert_eq!(due(&mut queues, queue), [Step::Start("d")]);
}

#[test]
fn a_suspended_queue_takes_packets_and_hands_out_none() {
    // spec: sync §4.1
    let (mut queues, queue) = queue_with(0, vec![Packet::Work("a"), Packet::Signal(points(1, 1))]);
    assert_eq!(due(&mut queues, queue), [Step::Start("a")]);
    queues.suspend(queue);
    queues.suspend(queue);
    queues.completed(queue, 1);
    assert_eq!(queues.submit(queue, Packet::Work("b")), Ok(()));
    assert_eq!(due(&mut queues, queue), []);
    queues.resume(queue);
    assert_eq!(due(&mut queues, queue), [Step::Signal(points(1, 1)), Step::Start("b")]);
}

#[test]
fn a_wait_may_end_while_its_queue_is_suspended() {
    // spec: sync §4.1
    let (mut queues, queue) = queue_with(0, vec![Packet::Wait(points(7, 1)), Packet::Work("behind")]);
    assert_eq!(due(&mut queues, queue), [Step::Wait(points(7, 1))]);
    queues.suspend(queue);
    queues.waited(queue);
    assert_eq!((due(&mut queues, queue), queues.state(queue)), (vec![], QueueState::Suspended));
    queues.resume(queue);
    assert_eq!(due(&mut queues, queue), [Step::Start("behind")]);
}

#[test]
fn a_failed_queue_gives_back_what_it_held_and_takes_nothing() {
    // spec: sync §3.16
    let held = vec![Packet::Wait(points(7, 1)), Packet::Work("b"), Packet::Signal(points(1, 1))];
    let (mut queues, queue) = queue_with(1, [vec![Packet::Work("a")], held.clone()].concat());
    assert_eq!(queues.next(queue), Some(Step::Start("a")));
    assert_eq!(queues.fail(queue).into_packets(), held);
    assert_eq!(queues.fail(queue).into_packets(), []);
    assert_eq!(queues.submit(queue, Packet::Work("c")), Err(SubmitError::Stopped));
    queues.resume(queue);
    assert_eq!((due(&mut queues, queue), queues.state(queue)), (vec![], QueueState::Failed));
    assert!(!queues.is_idle(queue), "the engine still has a");
    assert_eq!(queues.lose_in_flight(queue), 1);
    queues.completed(queue, 1);
    queues.waited(queue);
    assert!(queues.is_idle(queue));
}

#[test]
fn refusals_say_whose_fault_they_are() {
    // spec: sync §2.5, §5
    let mut queues = Named::new(Limits { packets_per_queue: 2 });
    let user = queues.create_queue(NodeId(0), QueueKind::User, 0);
    for packet in [Packet::Work("w"), Packet::Wait(points(1, 1)), Packet::Signal(points(1, 1))] {
        assert_eq!(queues.submit(user, packet), Err(SubmitError::UserQueue));
    }
    let kernel = queues.create_queue(NodeId(0), QueueKind::Kernel, 0);
    let answers = ["a", "b", "c"].map(|work| queues.submit(kernel, Packet::Work(work)));
    assert_eq!(answers, [Ok(()), Ok(()), Err(SubmitError::TooMany)]);
    assert_eq!(queues.next(kernel), Some(Step::Start("a")));
    assert_eq!(queues.submit(kernel, Packet::Work("d")), Ok(()), "what is in flight does not count");
    assert_eq!(queues.destroy_queue(kernel).into_packets(), [Packet::Work("b"), Packet::Work("d")]);
    let blames = [SubmitError::UserQueue, SubmitError::TooMany, SubmitError::Stopped].map(SubmitError::blame);
    assert_eq!(blames, [Blame::Caller, Blame::Scarcity, Blame::Driver]);
}

#[test]
#[should_panic(expected = "1 works completed, 0 were in flight")]
fn more_completions_than_starts_are_a_bug_of_the_kernel() {
    let (mut queues, queue) = queue_with(0, vec![Packet::Work("a")]);
    queues.completed(queue, 1);
}

#[test]
#[should_panic(expected = "Waited cannot happen to a queue in Ready")]
fn the_end_of_a_wait_that_was_not_handed_out_is_a_bug_of_the_kernel() {
    let (mut queues, queue) = queue_with(0, vec![]);
    queues.waited(queue);
}

#[test]
#[should_panic(expected = "names a queue that was destroyed")]
fn a_stale_id_is_a_bug_of_the_kernel() {
    let (mut queues, queue) = queue_with(0, vec![]);
    assert_eq!(queues.destroy_queue(queue).into_packets(), []);
    let _ = queues.create_queue(NodeId(0), QueueKind::Kernel, 0);
    let _ = queues.next(queue);
}

#[test]
fn what_queues_hold_and_have_in_flight_is_counted_for_their_owner_until_it_is_over() {
    let mut queues = Named::new(Limits::default());
    let mut queue_of = |owner| {
        let queue = queues.create_queue(NodeId(0), QueueKind::Kernel, 1);
        queues.count_for(queue, owner);
        queue
    };
    let (first, second, other) = (queue_of(7), queue_of(7), queue_of(8));
    for queue in [first, first, second, other] {
        assert_eq!(queues.submit(queue, Packet::Work("work")), Ok(()));
    }
    assert_eq!((queues.unfinished_of(7), queues.unfinished_of(8), queues.unfinished_of(9)), (3, 1, 0));
    assert_eq!(due(&mut queues, first), [Step::Start("work")], "one in flight, one held");
    assert_eq!(queues.unfinished_of(7), 3);
    queues.preempted(first, "work");
    assert_eq!(queues.unfinished_of(7), 3, "what comes back was not done");
    assert_eq!(due(&mut queues, first), [Step::Start("work")]);
    queues.completed(first, 1);
    assert_eq!(queues.unfinished_of(7), 2);
    assert_eq!(due(&mut queues, first), [Step::Start("work")]);
    assert!(queues.fail(first).into_packets().is_empty() && queues.lose_in_flight(first) == 1);
    assert_eq!(queues.unfinished_of(7), 1, "what is lost is over");
    queues.destroy_queue(second).abandon();
    queues.destroy_queue(other).abandon();
    assert_eq!((queues.unfinished_of(7), queues.unfinished_of(8)), (0, 0));
}

/// Of every queue that is not named nothing is due: what comes out, goes back and ends is named, and not named, as it is held.
#[test]
fn the_queues_that_hold_packets_are_known_by_name() {
    let mut queues = Named::new(Limits::default());
    let [first, second, third] = [0; 3].map(|_| queues.create_queue(NodeId(0), QueueKind::Kernel, 1));
    let holding = |queues: &Named| queues.holding().collect::<Vec<_>>();
    assert_eq!(holding(&queues), []);
    for queue in [third, first] {
        assert_eq!(queues.submit(queue, Packet::Work("work")), Ok(()));
    }
    assert_eq!(holding(&queues), [first, third], "oldest first");
    assert_eq!(queues.next(first), Some(Step::Start("work")));
    assert_eq!(holding(&queues), [third], "what is in flight is not held");
    queues.preempted(first, "work");
    assert_eq!(holding(&queues), [first, third], "what came back is");
    assert_eq!(queues.fail(first).into_packets().len(), 1);
    assert_eq!(queues.submit(second, Packet::Wait(points(7, 1))), Ok(()));
    assert_eq!(holding(&queues), [second, third]);
    queues.destroy_queue(third).abandon();
    assert_eq!(holding(&queues), [second]);
}
