//! The contexts that engines ran, and those that waited for them, from the scheduling logs alone: by the nodes' clocks, brought onto the
//! processor's line.

use std::collections::BTreeMap;

use events::{ContextSchedule, Event};

use super::clock::Clocks;

/// A time in which an engine treated a context in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSpan {
    /// The engine's node.
    pub node: u16,
    /// The kernel's number of the context; 0: its own, for paging.
    pub context: u64,
    /// The process that the context belongs to.
    pub process: u32,
    /// Its only queue; 0: it has several.
    pub queue: u64,
    /// Running or ready: idle contexts are not drawn.
    pub state: ContextSchedule,
    /// From when on.
    pub begin_ns: u64,
    /// Until when; `None`: the log ends before.
    pub end_ns: Option<u64>,
}

/// Every such time that lasted at all, in the order in which they end.
// spec: sync §4.2
pub fn of(events: &[(u64, Event)]) -> Vec<ContextSpan> {
    let clocks = Clocks::of(events);
    let mut open: BTreeMap<(u16, u64), ContextSpan> = BTreeMap::new();
    let mut turns = Vec::new();
    for (_, event) in events {
        let Event::ContextScheduled { node, context, process, queue, state, at } = *event else { continue };
        let Some(begin_ns) = clocks.ns(node, at) else { continue };
        if let Some(before) = open.remove(&(node, context)) {
            turns.push(ContextSpan { end_ns: Some(begin_ns), ..before });
        }
        if state != ContextSchedule::Idle {
            open.insert((node, context), ContextSpan { node, context, process, queue, state, begin_ns, end_ns: None });
        }
    }
    turns.extend(open.into_values());
    turns.retain(|turn| turn.end_ns.is_none_or(|end_ns| end_ns > turn.begin_ns));
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use ContextSchedule::{Idle, Ready, Running};

    #[test]
    fn a_turn_lasts_until_the_context_is_treated_otherwise() {
        // spec: sync §4.2
        let told = |context, state, at| Event::ContextScheduled { node: 1, context, process: 3, queue: 8, state, at };
        let events = [
            (500, Event::GpuClockCalibrated { node: 1, frequency_hz: 1_000_000_000, counter: 100 }),
            // Read together, later.
            (9_000, told(4, Running, 200)),
            (9_000, told(5, Ready, 250)),
            (9_000, told(4, Idle, 300)),
            (9_000, told(5, Running, 300)),
            // A turn of no length, to another context.
            (9_000, told(5, Ready, 400)),
            (9_000, told(4, Running, 400)),
            (9_000, told(4, Idle, 400)),
        ];
        let turn = |context, state, begin_ns, end_ns| ContextSpan {
            node: 1,
            context,
            process: 3,
            queue: 8,
            state,
            begin_ns,
            end_ns,
        };
        let expected = [
            turn(4, Running, 600, Some(700)),
            turn(5, Ready, 650, Some(700)),
            turn(5, Running, 700, Some(800)),
            turn(5, Ready, 800, None),
        ];
        assert_eq!(of(&events), expected);
        assert_eq!(of(&events[1..]), [], "without a clock there are no times");
    }
}
