//! Waits and signals as boxes, from the fence logs alone: each begins when its process submitted it, by the processor's clock, and ends
//! when the device went on, by the device's. Both clocks are set beside each other at some moments, so that all times lie on one line.
//! Nothing that the device was observed to do is used: what is drawn here is what a tool sees that has no other eyes.

use std::collections::{BTreeMap, VecDeque};

use events::Event;

use super::clock::Clocks;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A wait.
    Wait,
    /// A signal.
    Signal,
    /// A submission: where queues have logs of those too.
    Submission,
}

/// A wait or a signal of a queue that its process feeds, or one of its submissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The kernel's number of the queue.
    pub queue: u64,
    /// The kernel's number of the fence.
    pub fence: u64,
    /// The value.
    pub value: u64,
    /// What it is.
    pub kind: Kind,
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
    let mut queued: BTreeMap<(u64, u64, u64, bool), VecDeque<u64>> = BTreeMap::new();
    let mut logged = Vec::new();
    for (at, event) in events {
        let (queue, fence, value, signal, observed, end) = match *event {
            Event::FenceWaitQueued { queue, fence, value } => {
                queued.entry((queue, fence, value, false)).or_default().push_back(*at);
                continue;
            }
            Event::FenceSignalQueued { queue, fence, value } => {
                queued.entry((queue, fence, value, true)).or_default().push_back(*at);
                continue;
            }
            Event::FenceSignalExecuted { queue, fence, value, end } => (queue, fence, value, true, 0, end),
            Event::FenceWaitUnblocked { queue, fence, value, observed, end } => {
                (queue, fence, value, false, observed, end)
            }
            _ => continue,
        };
        let begun = queued.get_mut(&(queue, fence, value, signal)).and_then(VecDeque::pop_front);
        // What was submitted before the tool began to listen has no beginning; what has no time, no end.
        let (Some(queued_ns), Some(done_ns)) = (begun, ns(queue, end)) else { continue };
        let (done_ns, observed_ns) = (done_ns.max(queued_ns), ns(queue, observed));
        let kind = if signal { Kind::Signal } else { Kind::Wait };
        logged.push(Logged { queue, fence, value, kind, queued_ns, observed_ns, done_ns });
    }
    logged.extend(submissions(events, &ns));
    logged
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
        Some(Logged { queue, fence, value, kind: Kind::Submission, queued_ns, observed_ns: None, done_ns })
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
            (1_500, Event::FenceWaitQueued { queue: 1, fence: 9, value: 7 }),
            (1_600, Event::FenceSignalQueued { queue: 2, fence: 9, value: 7 }),
            (1_700, Event::FenceSignalQueued { queue: 2, fence: 9, value: 8 }),
            (9_000, Event::FenceSignalExecuted { queue: 2, fence: 9, value: 7, end: 570 }),
            (9_000, Event::FenceWaitUnblocked { queue: 1, fence: 9, value: 7, observed: 400, end: 580 }),
            // An adapter that wrote no time, and what was submitted before anybody listened.
            (9_000, Event::FenceSignalExecuted { queue: 2, fence: 9, value: 8, end: 0 }),
            (9_000, Event::FenceSignalExecuted { queue: 2, fence: 9, value: 9, end: 590 }),
        ];
        let (queue, fence, value, kind) = (2, 9, 7, Kind::Signal);
        let signal = Logged { queue, fence, value, kind, queued_ns: 1_600, observed_ns: None, done_ns: 2_000 };
        let (queued_ns, observed_ns, done_ns) = (1_500, Some(1_660), 2_020);
        let wait = Logged { queue: 1, kind: Kind::Wait, queued_ns, observed_ns, done_ns, ..signal.clone() };
        assert_eq!(of(&events), [signal, wait]);
    }

    #[test]
    fn a_submission_lasts_from_its_own_entry_to_that_of_its_progress() {
        // spec: sync §3.14
        // seed: N121
        let created = Event::QueueCreated { queue: 2, node: 0, user_mode: true, process: 1, fence: 9 };
        let events = vec![
            (500, created),
            (1_000, Event::GpuClockCalibrated { node: 0, frequency_hz: 1_000_000_000, counter: 1_000 }),
            // The logs are read one after the other.
            (9_000, Event::FenceSignalExecuted { queue: 2, fence: 9, value: 7, end: 1_900 }),
            (9_000, Event::SubmissionBegun { queue: 2, value: 7, at: 1_200 }),
            // One that has not ended, and one of a queue that nobody knows.
            (9_000, Event::SubmissionBegun { queue: 2, value: 8, at: 1_950 }),
            (9_000, Event::SubmissionBegun { queue: 3, value: 7, at: 1_200 }),
        ];
        let (kind, queued_ns, observed_ns, done_ns) = (Kind::Submission, 1_200, None, 1_900);
        assert_eq!(of(&events), [Logged { queue: 2, fence: 9, value: 7, kind, queued_ns, observed_ns, done_ns }]);
    }
}
