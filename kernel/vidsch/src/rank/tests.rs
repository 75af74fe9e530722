//! Ranks alone: one rule per test.

use super::*;
use crate::{Limits, OwnPriority, QueueKind, Queues};
use engine_time::Band;
use wddm_types::NodeId;

const NORMAL: u32 = 2;
const HIGH: u32 = 4;

/// Three contexts: 'h' of a process of class HIGH, 'n' and 'm' of a normal one; and a queue of each.
fn world() -> (Ranks<u32, char>, [QueueId; 3]) {
    let mut ranks = Ranks::default();
    ranks.enter('h', 1, HIGH);
    ranks.enter('n', 2, NORMAL);
    ranks.enter('m', 2, NORMAL);
    let mut queues = Queues::<(), u32>::new(Limits::default());
    (ranks, [(); 3].map(|()| queues.create_queue(NodeId(0), QueueKind::Kernel, 0)))
}

fn bands(ranks: &Ranks<u32, char>) -> [Band; 3] {
    let bands: Vec<Band> = ranks.ranks_of("hnm".chars()).iter().map(|rank| rank.band).collect();
    bands.try_into().unwrap()
}

fn steps(steps: i32) -> ContextPriority {
    ContextPriority::default().with_own(OwnPriority::Steps(steps)).unwrap()
}

fn told(news: Vec<(char, Rank)>) -> Vec<(char, Band)> {
    news.into_iter().map(|(context, rank)| (context, rank.band)).collect()
}

#[test]
fn a_context_that_is_waited_for_ranks_as_its_waiter_while_it_holds_the_signal() {
    // spec: sync §4.2
    use Band::{Focus, Normal};
    let (mut ranks, [high, normal, _]) = world();
    ranks.awaits(high, 'h', vec![(7, 5)]);
    assert_eq!(bands(&ranks), [Focus, Normal, Normal], "no context has promised it");
    ranks.promise(1, 'n', vec![(7, 5)]);
    assert_eq!(bands(&ranks), [Focus, Focus, Normal]);
    // And the context that this one waits for in turn.
    ranks.awaits(normal, 'n', vec![(8, 1)]);
    ranks.promise(2, 'm', vec![(8, 1)]);
    assert_eq!(bands(&ranks), [Focus; 3]);
    assert_eq!(ranks.waits_no_more(normal), [(8, 1)]);
    assert_eq!(ranks.waits_no_more(normal), [], "once");
    assert_eq!(bands(&ranks), [Focus, Focus, Normal]);
    ranks.over(1);
    assert_eq!(bands(&ranks), [Focus, Normal, Normal]);
}

#[test]
fn a_context_that_waits_for_itself_raises_no_rank_and_one_that_leaves_waits_no_more() {
    // spec: sync §4.2
    use Band::{Focus, Normal};
    let (mut ranks, [high, ..]) = world();
    ranks.promise(1, 'h', vec![(7, 5)]);
    ranks.promise(2, 'n', vec![(7, 5)]);
    ranks.awaits(high, 'h', vec![(7, 5)]);
    assert_eq!(ranks.raised().len(), 2);
    assert_eq!(bands(&ranks), [Focus, Focus, Normal]);
    ranks.over(2);
    assert!(ranks.raised().is_empty(), "it is the only one to keep its promise");
    ranks.promise(2, 'n', vec![(7, 5)]);
    ranks.over(1);
    ranks.leave('h');
    assert_eq!(ranks.ranks_of(['n', 'm']).iter().map(|rank| rank.band).collect::<Vec<_>>(), [Normal, Normal]);
    ranks.enter('h', 1, HIGH);
    assert_eq!(bands(&ranks), [Focus, Normal, Normal], "another one of that name waits for nothing");
}

#[test]
fn the_driver_is_told_of_each_change_of_a_context_that_it_knows_and_of_no_other() {
    // spec: sync §4.2
    use Band::{Focus, Idle, Normal};
    let (mut ranks, [high, ..]) = world();
    assert_eq!(ranks.tell('n').band, Normal);
    assert_eq!(told(ranks.to_tell()), []);
    ranks.promise(1, 'n', vec![(7, 5)]);
    ranks.promise(2, 'm', vec![(7, 5)]);
    assert_eq!(told(ranks.to_tell()), [], "no context waits");
    ranks.awaits(high, 'h', vec![(7, 5)]);
    assert_eq!(told(ranks.to_tell()), [('n', Focus)], "the driver does not know the other");
    assert_eq!(told(ranks.to_tell()), [], "once");
    assert_eq!(ranks.waits_no_more(high), [(7, 5)]);
    assert_eq!(told(ranks.to_tell()), [('n', Normal)]);
    assert_eq!(told(ranks.to_tell()), []);
    // What it is told of the context's own rank holds until the next look at what it inherits.
    ranks.awaits(high, 'h', vec![(7, 5)]);
    assert_eq!(told(ranks.to_tell()), [('n', Focus)]);
    ranks.set_priority('n', steps(-1));
    assert_eq!(ranks.priority('n'), steps(-1));
    assert_eq!((ranks.tell('n').band, told(ranks.to_tell())), (Idle, vec![('n', Focus)]));
    // The last promise goes, and with it the rank.
    ranks.over(1);
    ranks.over(2);
    assert_eq!(told(ranks.to_tell()), [('n', Idle)]);
}

#[test]
fn a_process_of_another_class_has_other_ranks() {
    // spec: sync §4.2
    use Band::{Focus, Normal};
    let (mut ranks, _) = world();
    assert_eq!([ranks.tell('h').band, ranks.tell('m').band], [Focus, Normal]);
    assert_eq!(told(ranks.set_class(2, HIGH)), [('m', Focus)], "the driver was not told of the other");
    assert_eq!(bands(&ranks), [Focus; 3]);
    assert_eq!(ranks.ranks_of(['n'])[0].process, 2);
    assert_eq!(told(ranks.to_tell()), []);
}

#[test]
#[should_panic(expected = "'n' enters once")]
fn a_context_that_enters_twice_is_a_bug_of_the_kernel() {
    world().0.enter('n', 2, NORMAL);
}

#[test]
#[should_panic(expected = "'x' has not entered, or has left")]
fn a_context_that_is_not_there_has_no_rank() {
    let _ = world().0.priority('x');
}
