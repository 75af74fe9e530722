//! Which gradient follows which: the optimizers' updates, found by following what is made of gradients.
//!
//! A parameter's gradients of two iterations are different storages, and no node says that they are the same parameter's.
//! The update shows it: *what an update changes is older than the gradient*. A parameter and an optimizer's state were there
//! before the gradient was born; whatever is younger is a temporary on the way.
//!
//! | an operation that takes a gradient, or what was made of one, and writes | does |
//! |---|---|
//! | a storage older than that gradient | updates it with the gradient |
//! | a younger storage | carries the gradient on: an update with that storage is one with the gradient |
//! | the gradient itself, or another | neither: a gradient stands for itself (clipping scales each by the norm of all) |
//! | the output of a reduce-scatter | passes the role on: the output is the gradient, of the shard |
//!
//! `p.sub_(p.grad * rate)` so is an update of `p` with the gradient, and so is one by Adafactor's factored moments.
//! The next gradient with which the same storage is updated is the successor. A state that is born in the trace is
//! younger than the first gradient and older than the second: it carries the one and is updated with the other.
//!
//! A pass is what one run of the backward pass hands over: gradients between whose births there is no update.
//! What goes into the buckets of DistributedDataParallel is no update. Called by `lives`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::generation::{Generations, StorageKey};
use super::trace::{Kind, Node, Tree};
use super::unit::Unit;

/// The first and the last unit that uses each storage.
pub(super) struct Uses {
    pub first: BTreeMap<StorageKey, usize>,
    pub last: BTreeMap<StorageKey, usize>,
}

impl Uses {
    /// Counts the uses.
    pub fn of(units: &[Unit<'_>]) -> Uses {
        let mut uses = Uses { first: BTreeMap::new(), last: BTreeMap::new() };
        for (at, unit) in units.iter().enumerate() {
            for key in unit.all() {
                uses.first.entry(key).or_insert(at);
                uses.last.insert(key, at);
            }
        }
        uses
    }
}

/// The optimizers' updates with gradients.
pub(super) struct Updates {
    /// All gradients: those handed over, and the shards that come out of a reduce-scatter of such.
    pub gradients: BTreeSet<StorageKey>,
    /// Gradients with which something is updated, each with the backward pass that it belongs to.
    pub passes: BTreeMap<StorageKey, usize>,
    /// For each gradient the next one with which the same storage is updated, if the first is not used any more by then.
    pub successors: BTreeMap<StorageKey, StorageKey>,
    /// Gradients that went through a reduce-scatter.
    pub passed_on: BTreeSet<StorageKey>,
    /// The most gradients that followed each other at one storage.
    pub rounds: u32,
}

/// Gradients that were made into something. Lists of parameters share one set.
type Origins = Rc<BTreeSet<StorageKey>>;

impl Updates {
    /// Follows all gradients through the units.
    pub fn of(
        nodes: &[Node],
        tree: &Tree,
        generations: &Generations,
        units: &[Unit<'_>],
        gradients: &BTreeSet<StorageKey>,
        uses: &Uses,
    ) -> Updates {
        let mut updates = Updates {
            gradients: gradients.clone(),
            passes: BTreeMap::new(),
            successors: BTreeMap::new(),
            passed_on: BTreeSet::new(),
            rounds: 1,
        };
        let mut carried: BTreeMap<StorageKey, Origins> = BTreeMap::new();
        let mut at_storage: BTreeMap<StorageKey, Round> = BTreeMap::new();
        let mut moments = Vec::new();
        for (at, unit) in units.iter().enumerate() {
            let Some(origins) = updates.origins(unit, &carried) else { continue };
            if updates.is_in_reducer(nodes, tree, unit.node) {
                continue;
            }
            if is_scatter(&nodes[unit.node]) {
                updates.gradients.extend(results(unit, &nodes[unit.node], generations));
                updates.passed_on.extend(origins.iter());
                continue;
            }
            let youngest = origins.iter().map(|key| uses.first[key]).max().unwrap_or(0);
            let is_older = |key: &StorageKey| key.older_than_the_trace() || uses.first[key] < youngest;
            let written = || unit.writes.iter().filter(|key| !updates.gradients.contains(key));
            for key in written().filter(|key| !is_older(key)) {
                carried.insert(*key, Rc::clone(&origins));
            }
            // Of an update of many parameters one storage stands for all: each iteration lists the same.
            let Some(updated) = written().find(|key| is_older(key)).copied() else { continue };
            for key in written().filter(|key| is_older(key)).copied().collect::<Vec<_>>() {
                carried.remove(&key);
            }
            for key in origins.iter() {
                let born = uses.first[key];
                let pass = moments.partition_point(|moment| *moment < born);
                updates.passes.entry(*key).or_insert(pass);
            }
            moments.push(at);
            at_storage.entry(updated).or_default().follow(&origins, uses, &mut updates);
        }
        updates
    }

    /// The gradients that a unit takes, itself or in what was made of them; `None`: none.
    fn origins(&self, unit: &Unit<'_>, carried: &BTreeMap<StorageKey, Origins>) -> Option<Origins> {
        let mut own: BTreeSet<StorageKey> = unit.reads.intersection(&self.gradients).copied().collect();
        let mut made = unit.reads.iter().filter_map(|key| carried.get(key));
        let first = made.next();
        if let (Some(first), true) = (first, own.is_empty())
            && made.clone().all(|other| Rc::ptr_eq(first, other))
        {
            return Some(Rc::clone(first));
        }
        for set in first.into_iter().chain(made) {
            own.extend(set.iter().filter(|key| !self.successors.contains_key(key)));
        }
        (!own.is_empty()).then(|| Rc::new(own))
    }

    /// Whether a node lies in one of DistributedDataParallel's copies into a bucket.
    pub fn is_in_reducer(&self, nodes: &[Node], tree: &Tree, node: usize) -> bool {
        const INTO_BUCKET: &str = "torch::distributed::reducer::";
        tree.around(node).any(|around| nodes[around].name.starts_with(INTO_BUCKET))
    }
}

/// The gradients with which one storage was updated and that have no successor yet.
#[derive(Default)]
struct Round {
    open: BTreeSet<StorageKey>,
    followed: u32,
}

impl Round {
    /// Enters an update.
    fn follow(&mut self, origins: &BTreeSet<StorageKey>, uses: &Uses, updates: &mut Updates) {
        self.open.extend(origins.iter().filter(|key| !updates.successors.contains_key(key)));
        let mut by_birth: Vec<(usize, StorageKey)> = origins.iter().map(|key| (uses.first[key], *key)).collect();
        by_birth.sort_unstable();
        let next = |last: usize| by_birth.get(by_birth.partition_point(|(born, _)| *born <= last)).map(|(_, key)| *key);
        let open = self.open.len();
        self.open.retain(|old| match next(uses.last[old]) {
            Some(next) => {
                updates.successors.entry(*old).or_insert(next);
                false
            }
            None => true,
        });
        self.followed += u32::from(self.open.len() < open);
        updates.rounds = updates.rounds.max(self.followed + 1);
    }
}

/// A collective after which each rank has the sum of its own part.
fn is_scatter(node: &Node) -> bool {
    matches!(node.kind, Kind::Collective(_)) && node.name.contains("reduce_scatter")
}

/// Where a collective's result goes: not the temporaries of its backend.
fn results<'a>(
    unit: &'a Unit<'_>,
    node: &'a Node,
    generations: &'a Generations,
) -> impl Iterator<Item = StorageKey> + 'a {
    let written = node.inputs.iter().filter(|tensor| tensor.access.written);
    let taken = written.map(|tensor| generations.taken(unit.node, tensor.storage));
    let returned = node.outputs.iter().map(|tensor| generations.returned(unit.node, tensor.storage));
    taken.chain(returned).filter(|key| unit.writes.contains(key) && !unit.reads.contains(key))
}
