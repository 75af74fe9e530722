//! Trap 3: when storages die. The trace has no frees.
//!
//! A storage born in the trace dies after the last operation that uses it; in recordings that show frees 72 % of storages do.
//! *Gradients are the exception*: the parameter holds them until they are cleared. In a trace of one iteration they outlive it.
//! In a trace of several, a gradient of an earlier iteration has a successor: the gradient of the same parameter in the next
//! one. The optimizer shows the succession: it updates the same storage (a parameter, its moments) with one gradient and then
//! with the other. The gradient dies where the program clears it (`Optimizer.zero_grad`, else the begin of the next
//! `ProfilerStep`), and where the trace does not show that, when its successor is born.
//!
//! A gradient that DistributedDataParallel copies into a bucket and that nothing uses afterwards dies there: the bucket's part
//! has become the parameter's (`gradient_as_bucket_view`).
//!
//! A gradient that no optimizer uses has no successor; it dies at the first clearing behind its last use, if gradients are
//! handed over again behind that. Called by `chakra`.

use std::collections::{BTreeMap, BTreeSet};

use super::generation::{ACCUMULATE_GRADIENT, StorageKey};
use super::trace::{Node, Tree};
use super::unit::Unit;

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
    pub fn new(nodes: &[Node], tree: &Tree, units: &[Unit<'_>], gradients: &BTreeSet<StorageKey>) -> Lives {
        let (mut first_use, mut last_use) = (BTreeMap::new(), BTreeMap::new());
        for (at, unit) in units.iter().enumerate() {
            for key in unit.all() {
                first_use.entry(key).or_insert(at);
                last_use.insert(key, at);
            }
        }
        let updates = Updates::of(units, gradients, &last_use);
        let markers = Markers::of(nodes);
        let before_node = |node: usize| units.partition_point(|unit| unit.node < node);
        let mut deaths: BTreeMap<usize, BTreeSet<StorageKey>> = BTreeMap::new();
        for (&key, &at) in last_use.iter().filter(|(key, _)| !key.older_than_the_trace()) {
            let node = units[at].node;
            let end = match (gradients.contains(&key), updates.successors.get(&key)) {
                (false, _) => Some(at + 1),
                (true, None) if is_in_reducer(nodes, tree, node) => Some(at + 1),
                (true, Some(next)) => {
                    let born = units[first_use[next]].node;
                    Some(markers.between(node, born).map_or(first_use[next], before_node))
                }
                (true, None) if updates.with.contains(&key) => None,
                (true, None) => markers.cleared_and_handed_over(node).map(before_node),
            };
            if let Some(end) = end {
                deaths.entry(end.max(at + 1)).or_default().insert(key);
            }
        }
        Lives { deaths, iterations: markers.iterations.max(updates.rounds) }
    }
}

/// Whether a node lies in one of DistributedDataParallel's copies into a bucket.
fn is_in_reducer(nodes: &[Node], tree: &Tree, node: usize) -> bool {
    const INTO_BUCKET: &str = "torch::distributed::reducer::";
    std::iter::successors(Some(node), |inner| tree.parents[*inner])
        .any(|around| nodes[around].name.starts_with(INTO_BUCKET))
}

/// The optimizers' updates with gradients.
struct Updates {
    /// Gradients with which something is updated.
    with: BTreeSet<StorageKey>,
    /// For each gradient the next one with which the same storage is updated, if the first is not used any more by then.
    successors: BTreeMap<StorageKey, StorageKey>,
    /// The most gradients that followed each other at one storage.
    rounds: u32,
}

impl Updates {
    fn of(units: &[Unit<'_>], gradients: &BTreeSet<StorageKey>, last_use: &BTreeMap<StorageKey, usize>) -> Updates {
        let mut updates = Updates { with: BTreeSet::new(), successors: BTreeMap::new(), rounds: 1 };
        let mut at_storage: BTreeMap<StorageKey, (u32, BTreeSet<StorageKey>)> = BTreeMap::new();
        for (at, unit) in units.iter().enumerate() {
            let only_read = unit.reads.difference(&unit.writes).copied();
            let with: BTreeSet<StorageKey> = only_read.filter(|key| gradients.contains(key)).collect();
            // Of a fused update of many parameters one storage stands for all: each iteration lists the same.
            let mut updated = unit.writes.intersection(&unit.reads).filter(|key| !gradients.contains(key));
            let (Some(&next), Some(updated)) = (with.first(), updated.next()) else { continue };
            let (rounds, before) = at_storage.entry(*updated).or_insert((1, BTreeSet::new()));
            let done: Vec<StorageKey> = before.iter().filter(|old| last_use[*old] < at).copied().collect();
            *rounds += u32::from(!done.is_empty());
            updates.rounds = updates.rounds.max(*rounds);
            for old in done {
                before.remove(&old);
                updates.successors.entry(old).or_insert(next);
            }
            before.extend(&with);
            updates.with.extend(with);
        }
        updates
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
