//! Which nodes of a trace are its operations: the units that touch memory, and what each needs resident together.
//!
//! Nodes nest: `aten::linear` calls `aten::addmm`, which calls `aten::copy_` for the bias and then multiplies by
//! itself. Taking the outermost nodes makes operations far too large; taking the innermost loses the multiplication
//! with everything that it reads, and activations then seem to die before the backward pass needs them (this alone
//! makes a convolutional network's peak 5 % too small). So the question is put to the data:
//!
//! | an operator that | is |
//! |---|---|
//! | takes a storage which no unit inside it touches | a unit: it reads that storage itself, whatever it calls besides |
//! | takes only what units inside it touch | no unit: it only called them |
//! | has no unit inside it | a unit, unless it is one of the two below |
//! | returns only storages that it took, and declares no write | no unit: a view moves no bytes |
//! | allocates, or changes only a tensor's description | no unit |
//!
//! A factory such as `aten::zeros_like` takes a tensor for its shape alone: what it takes does not count. A unit
//! needs what it takes, what it returns, and the temporaries of everything inside it, which count as written.
//!
//! `torch::autograd::AccumulateGrad` is where a gradient becomes a parameter's: what it takes, or the copy that it
//! makes, lives until the gradients are cleared. Called by `chakra`.

use std::collections::{BTreeMap, BTreeSet};

use super::generation::{Generations, StorageKey};
use super::trace::{Node, Tree};

/// An operation of the workload.
pub(super) struct Unit<'a> {
    /// The node's name.
    pub name: &'a str,
    /// Storages that it takes.
    pub reads: BTreeSet<StorageKey>,
    /// Storages that it writes: new ones, declared ones, temporaries.
    pub writes: BTreeSet<StorageKey>,
}

impl Unit<'_> {
    /// Everything that it needs resident together; what it both reads and writes comes twice.
    pub fn all(&self) -> impl Iterator<Item = StorageKey> {
        self.reads.iter().chain(&self.writes).copied()
    }
}

/// The node that hands a gradient over to its parameter.
const ACCUMULATE_GRADIENT: &str = "torch::autograd::AccumulateGrad";

/// Operators that allocate or change only a tensor's description, though their schema declares a write or a result.
const DESCRIPTION_ONLY: [&str; 14] = [
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
    "set_",
    "as_strided_",
    "detach_",
    "transpose_",
    "t_",
    "squeeze_",
    "unsqueeze_",
];

/// Finds the units in the order in which they began, and the storages that become parameters' gradients. Storages
/// without an entry in `bytes` are empty or stand on another device, and do not count.
pub(super) fn find<'a>(
    nodes: &'a [Node],
    tree: &Tree,
    generations: &Generations,
    bytes: &BTreeMap<StorageKey, u64>,
) -> (Vec<Unit<'a>>, BTreeSet<StorageKey>) {
    let mut inside: Vec<Inside> = (0..nodes.len()).map(|_| Inside::default()).collect();
    let mut units: Vec<Option<Unit<'a>>> = (0..nodes.len()).map(|_| None).collect();
    let mut gradients = BTreeSet::new();
    for (index, node) in nodes.iter().enumerate().rev() {
        let within = std::mem::take(&mut inside[index]);
        let touches = Touches::of(index, node, generations, bytes);
        if node.name == ACCUMULATE_GRADIENT {
            gradients.extend(if within.written.is_empty() { &touches.taken } else { &within.written });
        }
        units[index] = judge(node, &touches, &within);
        if let Some(parent) = tree.parents[index] {
            inside[parent].add(units[index].as_ref(), touches, within);
        }
    }
    // A unit owns everything inside it: what was found there is part of it, not an operation of its own.
    let mut owned = vec![false; nodes.len()];
    for index in 0..nodes.len() {
        owned[index] = tree.parents[index].is_some_and(|parent| owned[parent] || units[parent].is_some());
    }
    let found = units.into_iter().zip(owned).filter_map(|(unit, owned)| unit.filter(|_| !owned));
    (found.collect(), gradients)
}

/// What one node takes and returns, by storage.
struct Touches {
    taken: BTreeSet<StorageKey>,
    returned: BTreeSet<StorageKey>,
    /// Taken, and declared as written by the schema.
    written: BTreeSet<StorageKey>,
}

impl Touches {
    fn of(index: usize, node: &Node, generations: &Generations, bytes: &BTreeMap<StorageKey, u64>) -> Touches {
        let mut touches = Touches { taken: BTreeSet::new(), returned: BTreeSet::new(), written: BTreeSet::new() };
        for tensor in &node.inputs {
            let key = generations.taken(index, tensor.storage);
            if bytes.contains_key(&key) {
                touches.taken.insert(key);
                if tensor.written {
                    touches.written.insert(key);
                }
            }
        }
        let returned = node.outputs.iter().map(|tensor| generations.returned(index, tensor.storage));
        touches.returned.extend(returned.filter(|key| bytes.contains_key(key)));
        touches
    }
}

/// What lies inside a node.
#[derive(Default)]
struct Inside {
    /// Whether any unit does.
    has_units: bool,
    /// Storages that units in it touch.
    by_units: BTreeSet<StorageKey>,
    /// Storages that units in it write without reading them.
    written: BTreeSet<StorageKey>,
    /// Storages that any node in it takes or returns.
    by_anyone: BTreeSet<StorageKey>,
}

impl Inside {
    /// Adds a child: itself and what lies inside it.
    fn add(&mut self, unit: Option<&Unit<'_>>, child: Touches, within: Inside) {
        self.has_units |= unit.is_some() || within.has_units;
        match unit {
            Some(unit) => {
                self.by_units.extend(unit.all());
                self.written.extend(unit.writes.difference(&unit.reads));
            }
            None => {
                merge(&mut self.by_units, within.by_units);
                merge(&mut self.written, within.written);
            }
        }
        merge(&mut self.by_anyone, within.by_anyone);
        self.by_anyone.extend(child.taken);
        self.by_anyone.extend(child.returned);
    }
}

/// Adds a set to another; the smaller one moves.
fn merge(to: &mut BTreeSet<StorageKey>, mut from: BTreeSet<StorageKey>) {
    if to.len() < from.len() {
        std::mem::swap(to, &mut from);
    }
    to.extend(from);
}

/// The table above.
fn judge<'a>(node: &'a Node, touches: &Touches, within: &Inside) -> Option<Unit<'a>> {
    let short_name = node.name.rsplit("::").next().unwrap_or(&node.name);
    let is_view = !touches.returned.is_empty() && touches.returned.is_subset(&touches.taken) && !node.declares_write;
    if !node.is_operator || is_view || DESCRIPTION_ONLY.contains(&short_name) {
        return None;
    }
    let is_factory = short_name.ends_with("_like") || short_name.starts_with("new_");
    let reads = if is_factory { BTreeSet::new() } else { touches.taken.clone() };
    if within.has_units && reads.is_subset(&within.by_units) {
        return None;
    }
    let mut writes: BTreeSet<StorageKey> = touches.returned.difference(&touches.taken).copied().collect();
    writes.extend(&touches.written);
    let temporaries = within.by_anyone.difference(&touches.taken).filter(|key| !touches.returned.contains(key));
    writes.extend(temporaries);
    (!reads.is_empty() || !writes.is_empty()).then_some(Unit { name: &node.name, reads, writes })
}
