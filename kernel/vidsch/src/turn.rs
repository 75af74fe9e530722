//! The context whose packet a node takes next, and the one that must give way: the rule of bands, quanta and shares ([`engine_time`]) for
//! packets, which the driver holds before they run and gives back only as a whole. A pure function of the ready contexts, the holder of the
//! node, their ranks and the time used so far; `node`, its only caller, keeps what a node has.
//!
//! ```text
//! no context holds the node               the context that should have it takes it
//! the holder must quiesce                 the scheduler preempts the node, if it can; else the holder gets nothing more
//! another context should have the node    nothing more for the holder; after the grace period the scheduler preempts, if it can
//! the holder should have it               it goes on, as far as the hardware queue has room
//! ```
//! Packets of one context at a time are on a node, so a fault costs exactly one device its packets. The kernel's paging buffers bypass this
//! rule: they run before every context (memory §7.4), and no context is charged for them.

use engine_time::{Contender, EngineTime, Policy, Who};

/// The packets that a node has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupied<C> {
    /// Packets that were handed over and are not done, paging buffers among them.
    pub in_flight: usize,
    /// As many may be (`HwQueuePacketCap`).
    pub in_flight_max: usize,
    /// The context that has packets there.
    pub holder: Option<Contender<C>>,
    /// The holder's device must quiesce.
    pub must_quiesce: bool,
    /// The driver takes packets back.
    pub preemptible: bool,
}

/// The decision about a node.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeDecision<C> {
    /// The context's next packet is handed over.
    Start(C),
    /// The scheduler preempts the node for this context.
    Preempt(C),
    /// The holder must quiesce: the scheduler preempts the node for no other context.
    Clear(C),
    /// Nothing until something changes, or this time has come.
    Wait {
        /// When to ask again; `None`: when something changes.
        again_ns: Option<u64>,
    },
}

/// A node's time.
pub(crate) struct NodeTime<C>(EngineTime<C>);

impl<C: Copy + Ord> NodeTime<C> {
    /// The state of a node that no context has used.
    pub(crate) fn new(policy: Policy) -> Self {
        NodeTime(EngineTime::new(policy))
    }

    /// Charges the holder of the node for the time, without a decision.
    pub(crate) fn passes(&mut self, now_ns: u64, holder: Option<Contender<C>>) {
        self.0.passes(now_ns, holder);
    }

    /// Decides which context's packet the node takes next, or which one gives way.
    // spec: sync §4.1, sync §4.2, sync §4.3
    pub(crate) fn next_turn(&mut self, now_ns: u64, node: Occupied<C>, ready: &[Contender<C>]) -> NodeDecision<C> {
        debug_assert!(node.holder.is_none() || node.in_flight > 0, "a context holds a node that has no packet");
        let idle = NodeDecision::Wait { again_ns: None };
        if let Some(holder) = node.holder.filter(|_| node.must_quiesce) {
            self.0.passes(now_ns, Some(holder));
            return if node.preemptible { NodeDecision::Clear(holder.context) } else { idle };
        }
        let full = node.in_flight >= node.in_flight_max;
        if node.holder.is_none() && full {
            self.0.passes(now_ns, None);
            return idle;
        }
        let verdict = self.0.ask(now_ns, node.holder, ready);
        match verdict.who {
            Who::Takes(context) => {
                debug_assert!(!full, "a packet goes to a node with {} of {}", node.in_flight, node.in_flight_max);
                debug_assert!(node.holder.is_none(), "a context takes a node that another one holds");
                NodeDecision::Start(context)
            }
            Who::GivesWay { to, from_ns } if from_ns <= now_ns && node.preemptible => NodeDecision::Preempt(to),
            Who::KeepsIt => {
                let more = node.holder.filter(|holder| ready.iter().any(|one| one.context == holder.context));
                match more.filter(|_| !full) {
                    Some(holder) => NodeDecision::Start(holder.context),
                    None => NodeDecision::Wait { again_ns: verdict.again_ns },
                }
            }
            Who::GivesWay { .. } | Who::NoContender => NodeDecision::Wait { again_ns: verdict.again_ns },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_time::{Band, Quanta, Rank};

    fn of(context: u64, process: u64, in_process: i32) -> Contender<u64> {
        let rank = Rank { in_process, ..Rank::ordinary(process) };
        Contender { context, rank, quanta: Quanta::default() }
    }

    fn node(in_flight: usize, holder: Option<Contender<u64>>) -> Occupied<u64> {
        Occupied { in_flight, in_flight_max: 4, holder, must_quiesce: false, preemptible: true }
    }

    fn turn(now_ns: u64, node: Occupied<u64>, ready: &[Contender<u64>]) -> NodeDecision<u64> {
        NodeTime::new(Policy::default()).next_turn(now_ns, node, ready)
    }

    const NOTHING: NodeDecision<u64> = NodeDecision::Wait { again_ns: None };

    #[test]
    fn every_row_of_the_table() {
        // spec: sync §4.1, sync §4.2, sync §4.3
        let (low, even, high) = (of(3, 1, -1), of(1, 1, 0), of(2, 1, 1));
        // No context holds the node: the highest rank takes it.
        let all = [even, high, low];
        assert_eq!(turn(0, node(0, None), &all), NodeDecision::Start(2));
        assert_eq!(turn(0, node(3, None), &all), NodeDecision::Start(2), "behind paging buffers, too");
        assert_eq!(turn(0, node(4, None), &all), NOTHING, "as far as there is room");
        assert_eq!(turn(0, node(0, None), &[]), NOTHING);
        // The holder must quiesce.
        for (preemptible, expected) in [(true, NodeDecision::Clear(1)), (false, NOTHING)] {
            let still = Occupied { preemptible, must_quiesce: true, ..node(1, Some(even)) };
            assert_eq!(turn(0, still, &[low]), expected);
        }
        // A context of the same process should have it: no grace period.
        assert_eq!(turn(0, node(4, Some(even)), &[even, high]), NodeDecision::Preempt(2));
        let stubborn = Occupied { preemptible: false, ..node(1, Some(even)) };
        assert_eq!(turn(0, stubborn, &[even, high]), NOTHING);
        // The holder should: the others ask again when its quantum, or that of its process, is over.
        assert_eq!(turn(0, node(3, Some(even)), &[even, of(9, 1, 0)]), NodeDecision::Start(1));
        let quantum = NodeDecision::Wait { again_ns: Some(1_000_000) };
        assert_eq!(turn(0, node(4, Some(even)), &[even, of(9, 1, 0)]), quantum);
        assert_eq!(turn(0, node(1, Some(even)), &[of(9, 1, 0)]), quantum, "not beside the holder");
        assert_eq!(turn(0, node(1, Some(even)), &[of(9, 2, 7)]), NodeDecision::Wait { again_ns: Some(2_000_000) });
        assert_eq!(turn(0, node(4, Some(even)), &[even]), NOTHING);
    }

    #[test]
    fn who_gives_way_gets_nothing_more_and_is_preempted_after_the_grace_period() {
        // spec: sync §4.2, sync §4.3
        let mut time = NodeTime::new(Policy::default());
        let (one, other) = (of(1, 1, 0), of(2, 2, 0));
        assert_eq!(time.next_turn(0, node(0, None), &[one, other]), NodeDecision::Start(1));
        assert_eq!(time.next_turn(0, node(1, Some(one)), &[one, other]), NodeDecision::Start(1));
        let over = 2_000_000;
        let waits = NodeDecision::Wait { again_ns: Some(over + 100_000) };
        assert_eq!(time.next_turn(over, node(2, Some(one)), &[one, other]), waits);
        assert_eq!(time.next_turn(over + 100_000, node(2, Some(one)), &[one, other]), NodeDecision::Preempt(2));
        assert_eq!(time.next_turn(over + 100_000, node(0, None), &[one, other]), NodeDecision::Start(2));
    }

    #[test]
    fn no_context_is_charged_for_paging() {
        // spec: memory §7.4
        let mut time = NodeTime::new(Policy::default());
        let (one, other) = (of(1, 1, 0), of(2, 2, 0));
        assert_eq!(time.next_turn(0, node(0, None), &[one, other]), NodeDecision::Start(1));
        time.passes(0, Some(one));
        // It has the node for half of its quantum, then paging has it, then it goes on with the other half.
        time.passes(1_000_000, None);
        time.passes(9_000_000, None);
        assert_eq!(time.next_turn(9_000_000, node(0, None), &[one, other]), NodeDecision::Start(1));
        let left = NodeDecision::Wait { again_ns: Some(10_000_000) };
        assert_eq!(time.next_turn(9_000_000, node(4, Some(one)), &[one, other]), left);
    }

    #[test]
    fn a_band_above_preempts_at_once_and_leaves_the_one_below_its_share() {
        // spec: sync §4.2
        let focus = Contender { rank: Rank { band: Band::Focus, ..Rank::ordinary(2) }, ..of(2, 2, 0) };
        let normal = of(1, 1, 0);
        assert_eq!(turn(0, node(1, Some(normal)), &[normal, focus]), NodeDecision::Preempt(2));
        let mut time = NodeTime::new(Policy::default());
        assert_eq!(time.next_turn(0, node(0, None), &[normal, focus]), NodeDecision::Start(2));
        let owed = 18_000_000;
        let waits = NodeDecision::Wait { again_ns: Some(owed) };
        assert_eq!(time.next_turn(0, node(4, Some(focus)), &[normal, focus]), waits);
        assert_eq!(time.next_turn(owed, node(4, Some(focus)), &[normal, focus]), NodeDecision::Preempt(1));
    }
}
