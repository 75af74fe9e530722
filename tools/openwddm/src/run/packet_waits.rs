//! How long packets waited while nothing of their context ran, and how long the kernel held hardware queues, from the kernel's events:
//! the counterpart of the device's own counter of waits for ring submissions. Fed by `recorder`.

use std::collections::BTreeMap;

use events::Event;

/// The contexts, and the sum.
#[derive(Clone, Debug, Default)]
pub struct PacketWaits {
    contexts: BTreeMap<u64, Context>,
    /// Since when queues are held.
    held: BTreeMap<u64, u64>,
    total_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Context {
    queued: u64,
    running: u64,
    since_ns: Option<u64>,
}

impl PacketWaits {
    /// Hears an event.
    pub fn event(&mut self, now_ns: u64, event: &Event) {
        match event {
            Event::QueueHeld { queue, .. } => {
                self.held.entry(*queue).or_insert(now_ns);
            }
            Event::QueueReleased { queue } | Event::QueueDestroyed { queue } => {
                let since_ns = self.held.remove(queue).unwrap_or(now_ns);
                self.total_ns += now_ns.saturating_sub(since_ns);
            }
            _ => {}
        }
        let of = match event {
            Event::PacketQueued { context, .. }
            | Event::PacketStarted { context, .. }
            | Event::PacketCompleted { context, .. }
            | Event::PacketPreempted { context, .. }
            | Event::PacketContextDestroyed { context } => *context,
            _ => return,
        };
        let context = self.contexts.entry(of).or_default();
        match event {
            Event::PacketQueued { .. } => context.queued += 1,
            Event::PacketStarted { .. } => {
                context.queued = context.queued.saturating_sub(1);
                context.running += 1;
            }
            Event::PacketCompleted { .. } => context.running = context.running.saturating_sub(1),
            // The packet waits again.
            Event::PacketPreempted { .. } => {
                context.running = context.running.saturating_sub(1);
                context.queued += 1;
            }
            _ => *context = Context { since_ns: context.since_ns, ..Context::default() },
        }
        let waits = context.queued > 0 && context.running == 0;
        match (waits, context.since_ns) {
            (true, None) => context.since_ns = Some(now_ns),
            (false, Some(since_ns)) => {
                self.total_ns += now_ns.saturating_sub(since_ns);
                context.since_ns = None;
            }
            _ => {}
        }
    }

    /// The sum of what has ended.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_waits_while_it_has_packets_and_none_runs() {
        let mut waits = PacketWaits::default();
        let queued = |packet| Event::PacketQueued { context: 3, packet };
        let started = |packet| Event::PacketStarted { context: 3, packet, node: 0, fence_id: 1, patched: true };
        let completed = |packet| Event::PacketCompleted { context: 3, packet };
        let told = [
            (10, queued(1)),
            (14, started(1)),
            (15, queued(2)),
            (20, completed(1)),
            (27, started(2)),
            (30, completed(2)),
        ];
        for (at, event) in &told {
            waits.event(*at, event);
        }
        assert_eq!(waits.total_ns(), 4 + 7);
        let came_back = Event::PacketPreempted { context: 3, packet: 4, node: 0, fence_id: 1 };
        for (at, event) in [(31, queued(4)), (31, started(4)), (33, came_back), (38, started(4)), (39, completed(4))] {
            waits.event(at, &event);
        }
        assert_eq!(waits.total_ns(), 4 + 7 + 5, "what came back waits");
        waits.event(40, &queued(3));
        waits.event(41, &Event::PacketContextDestroyed { context: 3 });
        waits.event(99, &completed(3));
        assert_eq!(waits.total_ns(), 4 + 7 + 5 + 1);
    }

    #[test]
    fn a_queue_waits_while_the_kernel_holds_it() {
        let mut waits = PacketWaits::default();
        let held = |queue| Event::QueueHeld { queue, fence: 1, value: 2 };
        for (at, event) in [
            (10, held(1)),
            (12, held(2)),
            (15, Event::QueueReleased { queue: 1 }),
            (16, Event::QueueReleased { queue: 1 }),
            (20, Event::QueueDestroyed { queue: 2 }),
            (30, Event::QueueDestroyed { queue: 1 }),
        ] {
            waits.event(at, &event);
        }
        assert_eq!(waits.total_ns(), 5 + 8);
    }
}
