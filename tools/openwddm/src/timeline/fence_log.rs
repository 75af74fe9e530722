//! Waits and signals as boxes, each from its submission to its completion. For queues that their processes feed the fence logs have both ends: a box
//! begins when its process submitted it, by the processor's clock, and ends when the device went on, by the device's. The kernel
//! calibrates both clocks against each other at some moments, so all times lie on one line. For queues and contexts that the kernel feeds
//! its events have both ends. This module uses no observations of the device: it draws what a tool without access to them sees.

use std::collections::{BTreeMap, VecDeque};

use events::Event;

use super::clock::Clocks;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A wait.
    Wait,
    /// A signal.
    Signal,
    /// A submission: where queues have logs of those too.
    Submission,
}

/// The feeder of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feed {
    /// Its process: the queue's logs have its waits and signals.
    Process,
    /// The kernel.
    Kernel,
    /// The kernel, by packets: the queue is a context's.
    Packets,
}

/// A wait or a signal of a queue, or one of its submissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The feeder of the queue.
    pub feed: Feed,
    /// The kernel's number of the queue, or of the packet context.
    pub queue: u64,
    /// The kernel's number of the fence.
    pub fence: u64,
    /// The value.
    pub value: u64,
    /// Its kind.
    pub kind: Kind,
    /// When it was recorded, where the process has said so: perhaps long before it was submitted.
    pub recorded_ns: Option<u64>,
    /// When it was submitted; of a submission, when engines began it.
    pub queued_ns: u64,
    /// When the engine met a wait that did not hold, and parked its queue.
    pub observed_ns: Option<u64>,
    /// When it was executed, or went on.
    pub done_ns: u64,
}

/// Every wait and signal of which both ends are known, in the order in which they were read.
// spec: sync §3.14
// seed: N90, N92, N102
pub fn of(events: &[(u64, Event)]) -> Vec<Logged> {
    let (clocks, nodes) = (Clocks::of(events), nodes(events));
    let ns = |queue: u64, counter: u64| clocks.ns(nodes.get(&queue).copied().unwrap_or(0), counter);
    let mut queued: BTreeMap<Key, VecDeque<(u64, Option<u64>)>> = BTreeMap::new();
    let mut logged = Vec::new();
    for (at, event) in events {
        let (key, observed_ns, done_ns) = match *event {
            Event::FenceWaitQueued { queue, fence, value, recorded_ns } => {
                queued
                    .entry((Feed::Process, queue, fence, value, false))
                    .or_default()
                    .push_back((*at, Some(recorded_ns)));
                continue;
            }
            Event::FenceSignalQueued { queue, fence, value, recorded_ns } => {
                queued
                    .entry((Feed::Process, queue, fence, value, true))
                    .or_default()
                    .push_back((*at, Some(recorded_ns)));
                continue;
            }
            Event::KernelFedFenceQueued { queue, packets, fence, value, signal } => {
                queued.entry((feed(packets), queue, fence, value, signal)).or_default().push_back((*at, None));
                continue;
            }
            Event::FenceSignalExecuted { queue, fence, value, end } => {
                ((Feed::Process, queue, fence, value, true), None, ns(queue, end))
            }
            Event::FenceWaitUnblocked { queue, fence, value, observed, end } => {
                ((Feed::Process, queue, fence, value, false), ns(queue, observed), ns(queue, end))
            }
            Event::KernelFedFenceDone { queue, packets, fence, value, signal } => {
                ((feed(packets), queue, fence, value, signal), None, Some(*at))
            }
            _ => continue,
        };
        let begun = queued.get_mut(&key).and_then(VecDeque::pop_front);
        // An entry submitted before the tool began to listen has no beginning; one without a time has no end.
        let (Some((queued_ns, recorded_ns)), Some(done_ns)) = (begun, done_ns) else { continue };
        let (feed, queue, fence, value, signal) = key;
        let (done_ns, kind) = (done_ns.max(queued_ns), if signal { Kind::Signal } else { Kind::Wait });
        logged.push(Logged { feed, queue, fence, value, kind, recorded_ns, queued_ns, observed_ns, done_ns });
    }
    logged.extend(submissions(events, &ns));
    logged
}

/// The feeder, the queue, the fence, the value, whether it is a signal.
type Key = (Feed, u64, u64, u64, bool);

fn feed(packets: bool) -> Feed {
    if packets { Feed::Packets } else { Feed::Kernel }
}

/// The node of each queue: its times are by that one's clock.
fn nodes(events: &[(u64, Event)]) -> BTreeMap<u64, u16> {
    let created = events.iter().filter_map(|(_, event)| match event {
        Event::QueueCreated { queue, node, .. } => Some((*queue, *node)),
        _ => None,
    });
    created.collect()
}

/// Submissions, from the log of when they begin to the entry that says that their progress was signalled.
// spec: sync §3.14
fn submissions(events: &[(u64, Event)], ns: &impl Fn(u64, u64) -> Option<u64>) -> Vec<Logged> {
    let (mut progress, mut ends) = (BTreeMap::new(), BTreeMap::new());
    for (_, event) in events {
        match *event {
            Event::QueueCreated { queue, fence, .. } => drop(progress.insert(queue, fence)),
            Event::FenceSignalExecuted { queue, fence, value, end } => drop(ends.insert((queue, fence, value), end)),
            _ => {}
        }
    }
    let submission = |(_, event): &(u64, Event)| {
        let Event::SubmissionBegun { queue, value, at } = *event else { return None };
        let fence = *progress.get(&queue)?;
        let (queued_ns, done_ns) = (ns(queue, at)?, ns(queue, *ends.get(&(queue, fence, value))?)?);
        let done_ns = done_ns.max(queued_ns);
        let (feed, kind, recorded_ns, observed_ns) = (Feed::Process, Kind::Submission, None, None);
        Some(Logged { feed, queue, fence, value, kind, recorded_ns, queued_ns, observed_ns, done_ns })
    };
    events.iter().filter_map(submission).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_begins_by_one_clock_and_ends_by_the_other() {
        // spec: sync §3.14
        // seed: N90, N91, N92, N100, N101, N102
        let events = vec![
            (1_000, Event::GpuClockCalibrated { node: 0, frequency_hz: 500_000_000, counter: 70 }),
            (1_500, Event::FenceWaitQueued { queue: 1, fence: 9, value: 7, recorded_ns: 1_100 }),
            (1_600, Event::FenceSignalQueued { queue: 2, fence: 9, value: 7, recorded_ns: 1_600 }),
            (1_700, Event::FenceSignalQueued { queue: 2, fence: 9, value: 8, recorded_ns: 1_600 }),
            (9_000, Event::FenceSignalExecuted { queue: 2, fence: 9, value: 7, end: 570 }),
            (9_000, Event::FenceWaitUnblocked { queue: 1, fence: 9, value: 7, observed: 400, end: 580 }),
            // An entry for which the adapter wrote no time, and one submitted before the tool listened.
            (9_000, Event::FenceSignalExecuted { queue: 2, fence: 9, value: 8, end: 0 }),
            (9_000, Event::FenceSignalExecuted { queue: 2, fence: 9, value: 9, end: 590 }),
        ];
        let (feed, queue, fence, value, kind, recorded_ns) = (Feed::Process, 2, 9, 7, Kind::Signal, Some(1_600));
        let (queued_ns, observed_ns, done_ns) = (1_600, None, 2_000);
        let signal = Logged { feed, queue, fence, value, kind, recorded_ns, queued_ns, observed_ns, done_ns };
        let (recorded_ns, queued_ns, observed_ns, done_ns) = (Some(1_100), 1_500, Some(1_660), 2_020);
        let wait =
            Logged { queue: 1, kind: Kind::Wait, recorded_ns, queued_ns, observed_ns, done_ns, ..signal.clone() };
        assert_eq!(of(&events), [signal, wait]);
    }

    /// Numbers of queues and of packet contexts are not one another's.
    #[test]
    fn what_the_kernel_feeds_has_boxes_by_the_kernel_s_clock_alone() {
        // spec: sync §3.14
        // seed: N90, N126
        let op = |packets, signal| (packets, signal);
        let queued = |(packets, signal)| Event::KernelFedFenceQueued { queue: 3, packets, fence: 9, value: 7, signal };
        let done = |(packets, signal)| Event::KernelFedFenceDone { queue: 3, packets, fence: 9, value: 7, signal };
        let events = vec![
            (1_000, queued(op(false, false))),
            (1_100, queued(op(true, false))),
            (1_200, queued(op(false, true))),
            // One that does not end.
            (1_300, queued(op(false, false))),
            (2_000, done(op(true, false))),
            (3_000, done(op(false, false))),
            (4_000, done(op(false, true))),
            // One that began before the tool listened.
            (5_000, done(op(true, true))),
        ];
        let drawn: Vec<_> = of(&events).iter().map(|op| (op.feed, op.kind, op.queued_ns, op.done_ns)).collect();
        let expected = [
            (Feed::Packets, Kind::Wait, 1_100, 2_000),
            (Feed::Kernel, Kind::Wait, 1_000, 3_000),
            (Feed::Kernel, Kind::Signal, 1_200, 4_000),
        ];
        assert_eq!(drawn, expected);
    }

    #[test]
    fn a_submission_lasts_from_its_own_entry_to_that_of_its_progress() {
        // spec: sync §3.14
        // seed: N121
        let created = Event::QueueCreated { queue: 2, node: 0, user_mode: true, process: 1, fence: 9, owner: 1 };
        let events = vec![
            (500, created),
            (1_000, Event::GpuClockCalibrated { node: 0, frequency_hz: 1_000_000_000, counter: 1_000 }),
            // The logs are read one after the other.
            (9_000, Event::FenceSignalExecuted { queue: 2, fence: 9, value: 7, end: 1_900 }),
            (9_000, Event::SubmissionBegun { queue: 2, value: 7, at: 1_200 }),
            // One that has not ended, and one of a queue without a creation event.
            (9_000, Event::SubmissionBegun { queue: 2, value: 8, at: 1_950 }),
            (9_000, Event::SubmissionBegun { queue: 3, value: 7, at: 1_200 }),
        ];
        let (feed, kind, recorded_ns, queued_ns, observed_ns, done_ns) =
            (Feed::Process, Kind::Submission, None, 1_200, None, 1_900);
        let expected =
            Logged { feed, queue: 2, fence: 9, value: 7, kind, recorded_ns, queued_ns, observed_ns, done_ns };
        assert_eq!(of(&events), [expected]);
    }
}
