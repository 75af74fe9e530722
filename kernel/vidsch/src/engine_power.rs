//! Engines with less power (sync §3.17): which node's engine is in F1, and when it may go there.
//!
//! ```text
//!        may_lower ─▶ the caller takes the doorbells away ─▶ lowered, nothing was rung
//!  F0 ──────────────────────────────────────────────────────────────────────────────────▶ F1
//!   ◀──────────────────────────────── raise, all_have_power ─────────────────────────────
//! ```
//! The way down is two calls, because the caller acts between them: it takes the doorbells of the node's queues away, passes a full
//! barrier, and only then looks whether anything was rung (decision 0019). Doorbells, words and the driver are the caller's.
//!
//! Work is handed to an engine only with a [`Powered`], which only a raise gives out: every function that calls the driver with work takes
//! one, so that a new way to submit cannot forget to raise the engine.
//!
//! Processes may hold all engines in F0, each by a handle of the adapter. An engine that asks meanwhile is remembered, because the hardware
//! asks once, and has its turn when the last process lets go.

use std::collections::BTreeSet;

use wddm_types::{NodeId, ProcessId, RawHandle};

/// An engine in F0. It is spent with the work that is handed over: another work, later, needs another raise.
// spec: sync §3.17
#[must_use = "the engine was raised for work that is handed to it now"]
#[derive(Debug)]
pub struct Powered(NodeId);

impl Powered {
    /// The engine's node.
    pub fn node(&self) -> NodeId {
        self.0
    }
}

/// The answer of a raise.
#[must_use = "the driver is told, and the engine given its work"]
#[derive(Debug)]
pub struct Raised {
    /// The engine goes back to F0 now: the caller tells the driver before anything else.
    pub goes_up: bool,
    /// The engine.
    pub powered: Powered,
}

/// The engines of one adapter that have less power.
#[derive(Clone, Debug, Default)]
pub struct EnginePower {
    low: BTreeSet<NodeId>,
    /// The processes that hold all engines in F0, and by which handles.
    held_by: BTreeSet<(ProcessId, RawHandle)>,
    /// The engines that have asked for less power while they were held.
    asked: BTreeSet<NodeId>,
}

impl EnginePower {
    /// Whether an engine has power to lose. If so the caller takes its doorbells away, and then says [`lowered`](Self::lowered).
    #[must_use]
    pub fn may_lower(&self, node: NodeId) -> bool {
        !self.low.contains(&node)
    }

    /// An engine asks for less power. Whether it has power to lose, and no process holds it; the caller then takes its doorbells away.
    #[must_use]
    pub fn asks(&mut self, node: NodeId) -> bool {
        if !self.held_by.is_empty() {
            self.asked.insert(node);
            return false;
        }
        self.may_lower(node)
    }

    /// A process holds all engines in F0, by a handle. Those that go there now, and the caller tells the driver.
    // spec: sync §3.17
    #[must_use = "the driver is told of it"]
    pub fn hold(&mut self, by: (ProcessId, RawHandle)) -> Vec<NodeId> {
        self.held_by.insert(by);
        std::mem::take(&mut self.low).into_iter().collect()
    }

    /// Processes let go. The engines that asked while they were held, if no process holds them any more.
    // spec: sync §3.17
    #[must_use = "they ask again"]
    pub fn let_go(&mut self, ended: impl Fn((ProcessId, RawHandle)) -> bool) -> Vec<NodeId> {
        self.held_by.retain(|by| !ended(*by));
        match self.held_by.is_empty() {
            true => std::mem::take(&mut self.asked).into_iter().collect(),
            false => Vec::new(),
        }
    }

    /// The doorbells of a node are taken away, and its engine has work all the same, or none. True: the engine goes to F1 now, and the
    /// caller tells the driver.
    // spec: sync §3.17
    #[must_use = "the driver is told of it"]
    pub fn lowered(&mut self, node: NodeId, has_work: bool) -> bool {
        let goes_down = !has_work && self.low.insert(node);
        debug_assert!(!goes_down || !self.may_lower(node), "{node:?} went to F1 and has power to lose");
        goes_down
    }

    /// An engine is about to be given work.
    // spec: sync §3.17
    pub fn raise(&mut self, node: NodeId) -> Raised {
        let goes_up = self.low.remove(&node);
        // It asks anew when that is done.
        self.asked.remove(&node);
        debug_assert!(self.may_lower(node), "{node:?} is given work in F1");
        Raised { goes_up, powered: Powered(node) }
    }

    /// The engines in F1.
    pub fn low(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.low.iter().copied()
    }

    /// The hardware was started, reset or switched on, and its engines with it.
    pub fn all_have_power(&mut self) {
        self.low.clear();
        self.asked.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_without_work_goes_down_once_and_up_before_it_is_given_work() {
        // spec: sync §3.17
        let (first, second) = (NodeId(0), NodeId(1));
        let mut power = EnginePower::default();
        assert!(!power.raise(first).goes_up, "it has power");
        assert!(power.may_lower(first));
        assert!(!power.lowered(first, true), "something was rung while its doorbells went");
        assert!(power.may_lower(first));
        assert!(power.lowered(first, false));
        assert_eq!([first, second].map(|node| power.may_lower(node)), [false, true], "each node by itself");
        assert!(!power.lowered(first, false), "it is down already");
        assert_eq!([second, first, first].map(|node| power.raise(node).goes_up), [false, true, false]);
        assert!(power.may_lower(first));
    }

    #[test]
    fn an_engine_that_is_held_keeps_its_power_and_has_its_turn_behind_the_last_holder() {
        // spec: sync §3.17
        let [first, second] = [0, 1].map(NodeId);
        let [one, other] = [(ProcessId(1), RawHandle(1)), (ProcessId(2), RawHandle(1))];
        let mut power = EnginePower::default();
        assert!(power.asks(first) && power.lowered(first, false));
        assert_eq!(power.hold(one), [first], "it goes up");
        assert_eq!(power.hold(other), [], "it is up");
        assert_eq!([first, second].map(|node| power.asks(node)), [false, false]);
        assert!(!power.raise(second).goes_up, "the second is given work, and will ask again");
        assert_eq!(power.let_go(|by| by == one), [], "the other one holds it");
        assert_eq!(power.let_go(|by| by == other), [first]);
        assert!(power.asks(first) && power.lowered(first, false));
    }

    #[test]
    fn hardware_that_was_switched_on_has_all_its_power() {
        // spec: sync §3.17
        let mut power = EnginePower::default();
        assert_eq!([0, 1].map(|node| power.lowered(NodeId(node), false)), [true, true]);
        power.all_have_power();
        assert_eq!([0, 1].map(|node| power.may_lower(NodeId(node))), [true, true]);
        assert!(!power.raise(NodeId(0)).goes_up, "the driver is told of nothing that is so already");
    }
}
