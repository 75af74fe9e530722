//! Finds the operations among the nodes of a trace: the units that touch memory, and what each needs resident together.
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
//! | has no unit inside it | a unit, unless it is one of the three below |
//! | returns only storages that it took, and declares no write | no unit: a view moves no bytes |
//! | allocates, or changes only a tensor's description | no unit |
//! | only asks for a tensor's description | no unit |
//! | is the outermost part of a collective | a unit, with everything inside it: it reads what goes in, writes what comes out |
//!
//! A kernel that a compiler made (Triton) has no schema. It is a unit of all its tensors. The trace does not say which of
//! them it writes: those born in it count as written; if none was, all do, so that no change is lost.
//!
//! A factory such as `aten::zeros_like` takes a tensor for its shape alone: its inputs do not count. A unit needs its
//! inputs, its results, and the temporaries of everything inside it, which count as written.
//!
//! `torch::autograd::AccumulateGrad` is where a gradient becomes a parameter's: its input, or the copy that it
//! makes, lives until the gradients are cleared; an input that it adds to an existing gradient does not.
//! Called by `chakra`.

use std::collections::{BTreeMap, BTreeSet};

use super::collective::Layer;
use super::generation::{ACCUMULATE_GRADIENT, Generations, StorageKey};
use super::schema::short_name;
use super::trace::{Kind, Node, Tree};

/// An operation of the workload.
pub(super) struct Unit<'a> {
    /// The node's index.
    pub node: usize,
    /// The node's name.
    pub name: &'a str,
    /// Storages that it takes.
    pub reads: BTreeSet<StorageKey>,
    /// Storages that it writes: new ones, declared ones, temporaries.
    pub writes: BTreeSet<StorageKey>,
}

impl Unit<'_> {
    /// All storages that it needs resident together; a storage that it both reads and writes comes twice.
    pub fn all(&self) -> impl Iterator<Item = StorageKey> {
        self.reads.iter().chain(&self.writes).copied()
    }
}

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

/// The units and gradients of a trace.
pub(super) struct Found<'a> {
    /// The units, in the order in which they began.
    pub units: Vec<Unit<'a>>,
    /// The storages that become parameters' gradients.
    pub gradients: BTreeSet<StorageKey>,
    /// Of each node: it is a unit or lies inside one, or units lie inside it.
    pub accounted: Vec<bool>,
}

/// Finds the units. Storages without an entry in `bytes` are empty or stand on another device, and do not count.
pub(super) fn find<'a>(
    nodes: &'a [Node],
    tree: &Tree,
    generations: &Generations,
    bytes: &BTreeMap<StorageKey, u64>,
) -> Found<'a> {
    let mut inside: Vec<Inside> = (0..nodes.len()).map(|_| Inside::default()).collect();
    let mut units: Vec<Option<Unit<'a>>> = (0..nodes.len()).map(|_| None).collect();
    let mut gradients = BTreeSet::new();
    let mut accounted = vec![false; nodes.len()];
    for (index, node) in nodes.iter().enumerate().rev() {
        let within = std::mem::take(&mut inside[index]);
        let touches = Touches::of(index, node, generations, bytes);
        if node.name == ACCUMULATE_GRADIENT {
            gradients.extend(match (within.written.is_empty(), within.has_units) {
                (false, _) => &within.written,
                (true, false) => &touches.taken,
                (true, true) => &within.updated,
            });
        }
        units[index] = judge(index, node, &touches, &within);
        accounted[index] = units[index].is_some() || within.has_units;
        if let Some(parent) = tree.parents[index] {
            inside[parent].add(units[index].as_ref(), touches, within);
        }
    }
    // A unit owns everything inside it: a unit found there is part of it, not an operation of its own.
    let mut owned = vec![false; nodes.len()];
    for index in 0..nodes.len() {
        owned[index] = tree.parents[index].is_some_and(|parent| owned[parent] || units[parent].is_some());
        accounted[index] |= owned[index];
    }
    let units = units.into_iter().zip(owned).filter_map(|(unit, owned)| unit.filter(|_| !owned)).collect();
    Found { units: without_echoes(nodes, units), gradients, accounted }
}

/// Drops what backends repeat. A backend that works on a thread of its own may appear beside the collective to which it
/// belongs instead of inside it: the recorder then takes it off the wrong stack.
fn without_echoes<'a>(nodes: &[Node], mut units: Vec<Unit<'a>>) -> Vec<Unit<'a>> {
    let mut collective = BTreeSet::new();
    units.retain(|unit| match nodes[unit.node].kind {
        Kind::Collective(Layer::Backend) => unit.all().any(|key| !collective.contains(&key)),
        Kind::Collective(_) => {
            collective = unit.all().collect();
            true
        }
        _ => true,
    });
    units
}

/// The storages that one node takes and returns.
#[derive(Default)]
struct Touches {
    taken: BTreeSet<StorageKey>,
    returned: BTreeSet<StorageKey>,
    /// Taken, and read.
    read: BTreeSet<StorageKey>,
    /// Taken, and declared as written by the schema or by what is known of the node.
    written: BTreeSet<StorageKey>,
    /// Born as the node began, without the trace telling of it.
    born: BTreeSet<StorageKey>,
}

impl Touches {
    fn of(index: usize, node: &Node, generations: &Generations, bytes: &BTreeMap<StorageKey, u64>) -> Touches {
        let mut touches = Touches::default();
        for tensor in &node.inputs {
            let key = generations.taken(index, tensor.storage);
            if bytes.contains_key(&key) {
                touches.taken.insert(key);
                touches.read.extend(tensor.access.read.then_some(key));
                touches.written.extend(tensor.access.written.then_some(key));
                touches.born.extend(generations.is_untold_birth(index, key).then_some(key));
            }
        }
        let returned = node.outputs.iter().map(|tensor| generations.returned(index, tensor.storage));
        touches.returned.extend(returned.filter(|key| bytes.contains_key(key)));
        touches
    }
}

/// Sums over the nodes inside a node.
#[derive(Default)]
struct Inside {
    /// Whether any unit does.
    has_units: bool,
    /// Storages that units in it touch.
    by_units: BTreeSet<StorageKey>,
    /// Storages that units in it write without reading them.
    written: BTreeSet<StorageKey>,
    /// Storages that units in it read and write.
    updated: BTreeSet<StorageKey>,
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
                self.updated.extend(unit.writes.intersection(&unit.reads));
            }
            None => {
                merge(&mut self.by_units, within.by_units);
                merge(&mut self.written, within.written);
                merge(&mut self.updated, within.updated);
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
fn judge<'a>(index: usize, node: &'a Node, touches: &Touches, within: &Inside) -> Option<Unit<'a>> {
    let (reads, mut writes, owns_all) = match node.kind {
        Kind::Range => return None,
        Kind::Operator { .. } if moves_nothing(node, &touches.taken, &touches.returned) => return None,
        Kind::Operator { .. } => {
            let reads = if is_factory(node) { BTreeSet::new() } else { touches.read.clone() };
            let mut writes: BTreeSet<StorageKey> = touches.returned.difference(&touches.taken).copied().collect();
            writes.extend(&touches.written);
            (reads, writes, false)
        }
        Kind::Kernel if touches.born.is_empty() => (touches.taken.clone(), touches.taken.clone(), false),
        Kind::Kernel => (touches.taken.difference(&touches.born).copied().collect(), touches.born.clone(), false),
        Kind::Collective(layer) => {
            let mut writes = touches.written.clone();
            if layer == Layer::Parameters {
                writes.extend(&touches.returned);
            }
            (touches.read.clone(), writes, true)
        }
    };
    if within.has_units && !owns_all && reads.is_subset(&within.by_units) {
        return None;
    }
    if owns_all && reads.is_empty() && writes.is_empty() {
        return None; // a barrier without a tensor is no memory's business, whatever its parts do
    }
    let temporaries = within.by_anyone.difference(&touches.taken).filter(|key| !touches.returned.contains(key));
    writes.extend(temporaries);
    (!reads.is_empty() || !writes.is_empty()).then_some(Unit { node: index, name: &node.name, reads, writes })
}

/// Whether an operator is a view, an allocation, or has to do with a tensor's description only. Any name of storages does.
pub(super) fn moves_nothing<K: Ord>(node: &Node, taken: &BTreeSet<K>, returned: &BTreeSet<K>) -> bool {
    let is_view = !returned.is_empty() && returned.is_subset(taken) && !node.declares_write;
    let is_query = matches!(node.kind, Kind::Operator { is_query: true, .. });
    is_view || is_query || DESCRIPTION_ONLY.contains(&short_name(&node.name))
}

fn is_factory(node: &Node) -> bool {
    let short_name = short_name(&node.name);
    short_name.ends_with("_like") || short_name.starts_with("new_")
}
