//! Waits and signals as boxes, from the fence logs alone: each begins when its process submitted it, by the processor's clock, and ends
//! when the device went on, by the device's. Both clocks are set beside each other at some moments, so that all times lie on one line.
//! Nothing that the device was observed to do is used: what is drawn here is what a tool sees that has no other eyes.

use std::collections::{BTreeMap, VecDeque};

use events::Event;

/// A wait or a signal of a queue that its process feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The kernel's number of the queue.
    pub queue: u64,
    /// The kernel's number of the fence.
    pub fence: u64,
    /// The value.
    pub value: u64,
    /// A signal, else a wait.
    pub signal: bool,
    /// When it was submitted.
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
    let clock = Clock::of(events);
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
        let (Some(queued_ns), Some(done_ns)) = (begun, clock.ns(end)) else { continue };
        let (done_ns, observed_ns) = (done_ns.max(queued_ns), clock.ns(observed));
        logged.push(Logged { queue, fence, value, signal, queued_ns, observed_ns, done_ns });
    }
    logged
}

/// The device's clock on the processor's line.
struct Clock {
    /// Device's, processor's, ticks of a second; in the order of the device's.
    set: Vec<(u64, u64, u64)>,
}

impl Clock {
    /// Of adapters whose nodes have one clock.
    fn of(events: &[(u64, Event)]) -> Clock {
        let mut set: Vec<_> = events
            .iter()
            .filter_map(|(at, event)| match event {
                Event::GpuClockCalibrated { node: 0, frequency_hz, counter } => Some((*counter, *at, *frequency_hz)),
                _ => None,
            })
            .collect();
        set.sort_unstable();
        Clock { set }
    }

    /// When the device's clock showed this; 0 is no time.
    fn ns(&self, counter: u64) -> Option<u64> {
        let nth = self.set.partition_point(|(set, ..)| *set <= counter);
        let (set, ns, hz) = *self.set.get(nth.saturating_sub(1)).filter(|_| counter != 0)?;
        let since = i128::from(counter) - i128::from(set);
        u64::try_from(i128::from(ns) + since * 1_000_000_000 / i128::from(hz.max(1))).ok()
    }
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
        let (queue, fence, value, signal) = (2, 9, 7, true);
        let signal = Logged { queue, fence, value, signal, queued_ns: 1_600, observed_ns: None, done_ns: 2_000 };
        let (queued_ns, observed_ns, done_ns) = (1_500, Some(1_660), 2_020);
        let wait = Logged { queue: 1, signal: false, queued_ns, observed_ns, done_ns, ..signal.clone() };
        assert_eq!(of(&events), [signal, wait]);
    }
}
