//! Trap 3: when storages die. The trace has no frees.
//!
//! Two moments of a life are certain: it lasts to the storage's last use, and it is over before its id names another storage.
//! Between them the rule depends on the holder:
//!
//! | a storage that was born in the trace | dies |
//! |---|---|
//! | and that nothing below holds | after the last operation that uses it |
//! | used last inside an autograd function of C++ | as that function ends (`held`) |
//! | that fully_shard keeps for its next transfer | where the trace shows that it lets go (`held`) |
//! | that is a parameter's gradient, and an optimizer updates with it | where the program clears it, see below |
//! | a gradient that goes into a bucket of DistributedDataParallel, or through a reduce-scatter, and that nothing uses afterwards | there: its successor in that role is the bucket's part or the shard |
//! | a gradient that no optimizer uses | at the first clearing behind its last use, if gradients are handed over again behind that |
//!
//! *Gradients.* The parameter holds its gradient until the program clears it. In a trace of one iteration the gradient
//! outlives it. In a trace of several, the gradient has a successor, the next one of the same parameter (`updates` finds it),
//! and is gone before that is born. A program clears all gradients of one backward pass before the next pass begins:
//! where the first successor is born at the latest. Three signs tell it more precisely, and the earliest counts:
//!
//! 1. `Optimizer.zero_grad`, or else the begin of the next `ProfilerStep`, between the last use and the successor's birth;
//! 2. the id of a gradient of the pass names another storage: that one is cleared, so the others are, or are as soon as
//!    the update has used them;
//! 3. neither: the birth of the first successor of the pass.
//!
//! Called by `chakra`.

use std::collections::{BTreeMap, BTreeSet};

use super::generation::{ACCUMULATE_GRADIENT, Generations, StorageKey};
use super::held::Held;
use super::trace::{Node, Tree};
use super::unit::Unit;
use super::updates::{Updates, Uses};

/// How a profiler marks an iteration, and how an optimizer marks that it clears gradients.
const ITERATION: &str = "ProfilerStep#";
const CLEARING: &str = "Optimizer.zero_grad";

/// When storages die, and how many iterations that shows.
pub(super) struct Lives {
    /// Before the unit of this index, in the order of their keys.
    pub deaths: BTreeMap<usize, BTreeSet<StorageKey>>,
    /// Iterations in the trace, at least 1.
    pub iterations: u32,
}

impl Lives {
    /// Follows all storages that the units use.
    pub fn new(
        nodes: &[Node],
        tree: &Tree,
        generations: &Generations,
        units: &[Unit<'_>],
        gradients: &BTreeSet<StorageKey>,
    ) -> Lives {
        let uses = Uses::of(units);
        let trace = Trace {
            nodes,
            tree,
            generations,
            units,
            updates: Updates::of(nodes, tree, generations, units, gradients, &uses),
            markers: Markers::of(nodes),
            held: Held::of(nodes, tree, generations),
            uses,
        };
        let passes = trace.ends_of_passes();
        let mut deaths: BTreeMap<usize, BTreeSet<StorageKey>> = BTreeMap::new();
        for (&key, &at) in trace.uses.last.iter().filter(|(key, _)| !key.older_than_the_trace()) {
            let end = if trace.updates.gradients.contains(&key) {
                trace.end_of_gradient(key, at, &passes)
            } else {
                Some(trace.held.until(&units[at], key).map_or(at + 1, |node| trace.before_node(node + 1)))
            };
            let end = end.into_iter().chain(trace.end_of_id(key)).min();
            if let Some(end) = end {
                deaths.entry(end.max(at + 1)).or_default().insert(key);
            }
        }
        let iterations = trace.markers.iterations.max(trace.updates.rounds);
        Lives { deaths, iterations }
    }
}

/// All that is known when the lives are drawn up. Moments are indices of units: something is over before that unit.
struct Trace<'a> {
    nodes: &'a [Node],
    tree: &'a Tree,
    generations: &'a Generations,
    units: &'a [Unit<'a>],
    uses: Uses,
    updates: Updates,
    markers: Markers,
    held: Held<'a>,
}

impl Trace<'_> {
    fn before_node(&self, node: usize) -> usize {
        self.units.partition_point(|unit| unit.node < node)
    }

    /// Where the id of a storage names another one; `None`: it never does.
    fn end_of_id(&self, key: StorageKey) -> Option<usize> {
        let node = self.generations.successor_born_in(key)?;
        let next = self.units.partition_point(|unit| unit.node <= node);
        let is_inside = |unit: &Unit<'_>| node <= self.tree.ends[unit.node];
        Some(if next > 0 && is_inside(&self.units[next - 1]) { next - 1 } else { next })
    }

    /// Where a gradient dies by its own last use, its role and the pass that it belongs to; `None`: it outlives the trace.
    fn end_of_gradient(&self, key: StorageKey, at: usize, passes: &BTreeMap<usize, usize>) -> Option<usize> {
        let node = self.units[at].node;
        match self.updates.passes.get(&key) {
            Some(pass) if !self.updates.is_in_reducer(self.nodes, self.tree, node) => passes.get(pass).copied(),
            _ if self.updates.passed_on.contains(&key) || self.updates.is_in_reducer(self.nodes, self.tree, node) => {
                Some(at + 1)
            }
            _ => self.markers.cleared_and_handed_over(node).map(|node| self.before_node(node)),
        }
    }

    /// For each backward pass with a known end: where its gradients are cleared, if the update has used them.
    fn ends_of_passes(&self) -> BTreeMap<usize, usize> {
        let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
        let mut add = |pass: usize, end: usize| {
            ends.entry(pass).and_modify(|known| *known = end.min(*known)).or_insert(end);
        };
        for (&key, &pass) in &self.updates.passes {
            let at = self.uses.last[&key];
            if let Some(next) = self.updates.successors.get(&key) {
                let born = self.uses.first[next];
                let (node, born_in) = (self.units[at].node, self.units[born].node);
                add(pass, self.markers.between(node, born_in).map_or(born, |mark| self.before_node(mark)));
            }
            if let Some(end) = self.end_of_id(key) {
                add(pass, end);
            }
        }
        ends
    }
}

/// Nodes that mark iterations.
struct Markers {
    clearings: Vec<usize>,
    begins: Vec<usize>,
    handed_over: Vec<usize>,
    iterations: u32,
}

impl Markers {
    fn of(nodes: &[Node]) -> Markers {
        let named = |is: &dyn Fn(&str) -> bool| -> Vec<usize> {
            nodes.iter().enumerate().filter(|(_, node)| is(&node.name)).map(|(index, _)| index).collect()
        };
        let begins = named(&|name| name.starts_with(ITERATION));
        // CAST: more iterations than this number holds are not told apart in words.
        let iterations = u32::try_from(begins.len().max(1)).unwrap_or(u32::MAX);
        Markers {
            clearings: named(&|name| name.starts_with(CLEARING)),
            begins,
            handed_over: named(&|name| name == ACCUMULATE_GRADIENT),
            iterations,
        }
    }

    /// The first clearing strictly between two nodes, or else the first begin of an iteration.
    fn between(&self, after: usize, before: usize) -> Option<usize> {
        let first = |marks: &[usize]| {
            marks.get(marks.partition_point(|mark| *mark <= after)).copied().filter(|mark| *mark < before)
        };
        first(&self.clearings).or_else(|| first(&self.begins))
    }

    /// The first such mark behind a node, if gradients are handed over behind it.
    fn cleared_and_handed_over(&self, after: usize) -> Option<usize> {
        let last = *self.handed_over.last()?;
        self.between(after, last)
    }
}
