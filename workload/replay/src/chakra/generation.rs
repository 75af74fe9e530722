//! Trap 1: which storage an id means at a moment of the trace.
//!
//! An id is an address; after the storage's death the allocator hands the address out again. A node that returns an
//! id which it did not take has brought a new storage into the world, unless a node inside it has done so: then that
//! one is the birthplace and the outer node passes the storage on. The new generation begins *when the birthplace
//! begins*, right after its arguments were taken, so that everything inside it already means the new storage.
//! (Looking for nodes inside that merely return the id is not enough: an operator that fills its result through views
//! has many of them, none of which is a birthplace.)
//!
//! A collective returns what it was given, on whichever of its layers: it gives birth to nothing (`collective`).
//!
//! *Code that a compiler made allocates without telling the recorder.* What a compiled graph needs from outside it takes as
//! its arguments, and the backward graph besides what the forward graph saved. So whatever else appears for the first time in a run
//! of a graph was born in it, though its id was seen in an earlier run, and so was what an operator directly inside it is given
//! as the place for its result. The same holds for a gradient that no node has shown before
//! it is handed over. Such a storage is born as the node that shows it begins, before its arguments are taken. If that node
//! cannot have written it (it reads it), a kernel did that the trace does not have.
//!
//! *fully_shard gives full parameters their memory past the recorder*, each time that it gathers a layer, and takes it away behind the
//! layer (it resizes their storages, or makes others). The operator that fills them overwrites each whole, so the full parameters are born
//! as the range around it begins, under whatever id: views of them come first there.
//!
//! Moments are odd and even numbers: node *i* takes its arguments at 2*i*, births in it are at 2*i*+1 (those that no node
//! tells of at 2*i*), and it returns
//! after everything inside it, at 2*end*+1. A storage that was there before the trace has generation 0.
//! Called by `chakra`; knows nothing of sizes.

use std::collections::{BTreeMap, BTreeSet};

use super::trace::{Kind, Node, Tree};

/// One storage: an id and which of its generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StorageKey {
    id: u64,
    generation: usize,
}

impl StorageKey {
    /// Whether no node of the trace returned it as new: weights, optimiser state, inputs of the step.
    pub fn older_than_the_trace(self) -> bool {
        self.generation == 0
    }
}

/// The births of all ids.
pub(super) struct Generations {
    /// Moments of birth of each id, ascending.
    births: BTreeMap<u64, Vec<usize>>,
    /// The last index inside each node.
    ends: Vec<usize>,
    /// Storages that no node of the trace can have made, each with the compiled graph in which it appears (none: elsewhere).
    unexplained: BTreeMap<StorageKey, Option<usize>>,
}

/// How the autograd function of a compiled graph is called, forward and backward.
const COMPILED_GRAPH: &str = "CompiledFunction";

/// The node that hands a gradient over to its parameter.
pub(super) const ACCUMULATE_GRADIENT: &str = "torch::autograd::AccumulateGrad";

/// The operator with which fully_shard fills a layer's full parameters from an all-gather's output.
const FILL_PARAMETERS: &str = "fsdp::split_with_sizes_copy";

/// The range in which fully_shard does so; the module's name stands behind it.
pub(super) const COPY_OUT: &str = "FSDP::all_gather_copy_out";

impl Generations {
    /// Finds all births.
    pub fn new(nodes: &[Node], tree: &Tree) -> Generations {
        let mut births = told_births(nodes, tree);
        let untold = untold_births(nodes, tree);
        for birth in &untold {
            births.entry(birth.id).or_default().push(2 * birth.node);
        }
        births.values_mut().for_each(|moments| moments.sort_unstable());
        let mut generations = Generations { births, ends: tree.ends.clone(), unexplained: BTreeMap::new() };
        for birth in untold.iter().filter(|birth| !birth.is_explained) {
            generations.unexplained.insert(generations.taken(birth.node, birth.id), birth.graph);
        }
        generations
    }

    /// Storages that only kernels can have made which the trace does not have, each with the compiled graph that shows it.
    pub fn unexplained(&self) -> &BTreeMap<StorageKey, Option<usize>> {
        &self.unexplained
    }

    /// Whether node `index` itself brought the storage into the world that it returns under an id.
    pub fn is_birthplace(&self, index: usize, id: u64) -> bool {
        self.births.get(&id).is_some_and(|births| births.binary_search(&(2 * index + 1)).is_ok())
    }

    /// Whether the trace tells where a storage was born.
    pub fn is_told(&self, key: StorageKey) -> bool {
        key.generation > 0 && self.births[&key.id][key.generation - 1] % 2 == 1
    }

    /// Whether a storage was born as node `index` began, without the trace telling of it.
    pub fn is_untold_birth(&self, index: usize, key: StorageKey) -> bool {
        key.generation > 0 && self.births[&key.id][key.generation - 1] == 2 * index
    }

    /// The node that brought the storage into the world; `None`: it is older than the trace.
    pub fn born_in(&self, key: StorageKey) -> Option<usize> {
        self.births.get(&key.id)?.get(key.generation.checked_sub(1)?).map(|moment| moment / 2)
    }

    /// The node that brings another storage into the world under the id of this one, once this one is gone; `None`: none does.
    pub fn successor_born_in(&self, key: StorageKey) -> Option<usize> {
        self.births.get(&key.id)?.get(key.generation).map(|moment| moment / 2)
    }

    /// The storage that node `index` means by an id among its arguments.
    pub fn taken(&self, index: usize, id: u64) -> StorageKey {
        self.at(id, 2 * index)
    }

    /// The storage that node `index` means by an id among its results.
    pub fn returned(&self, index: usize, id: u64) -> StorageKey {
        self.at(id, 2 * self.ends[index] + 1)
    }

    fn at(&self, id: u64, moment: usize) -> StorageKey {
        let generation = self.births.get(&id).map_or(0, |births| births.partition_point(|&birth| birth <= moment));
        StorageKey { id, generation }
    }
}

/// Births that the trace tells of: an id returned and not taken.
fn told_births(nodes: &[Node], tree: &Tree) -> BTreeMap<u64, Vec<usize>> {
    let mut births: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut born_inside: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); nodes.len()];
    for index in (0..nodes.len()).rev() {
        let node = &nodes[index];
        let mut born = std::mem::take(&mut born_inside[index]);
        if !matches!(node.kind, Kind::Collective(_)) {
            let taken: BTreeSet<u64> = node.inputs.iter().map(|tensor| tensor.storage).collect();
            let returned: BTreeSet<u64> = node.outputs.iter().map(|tensor| tensor.storage).collect();
            for id in returned.difference(&taken) {
                if born.insert(*id) {
                    births.entry(*id).or_default().push(2 * index + 1);
                }
            }
        }
        if let Some(parent) = tree.parents[index].filter(|_| !born.is_empty()) {
            let outer = &mut born_inside[parent];
            if outer.len() < born.len() {
                std::mem::swap(outer, &mut born); // the smaller set moves
            }
            outer.extend(born);
        }
    }
    births
}

/// A birth that the trace does not tell of.
struct Untold {
    id: u64,
    /// The node that shows the storage first.
    node: usize,
    /// The compiled graph that the node is in.
    graph: Option<usize>,
    /// The node itself wrote the storage.
    is_explained: bool,
}

fn untold_births(nodes: &[Node], tree: &Tree) -> Vec<Untold> {
    let (mut seen, mut untold) = (BTreeMap::new(), Vec::new());
    let mut graphs: Vec<Option<Graph>> = Vec::with_capacity(nodes.len());
    let mut runs = GraphRuns::default();
    for (index, node) in nodes.iter().enumerate() {
        if is_graph(node) {
            runs.begin(index, &node.name);
        }
        let parent = tree.parents[index];
        let own = parent.filter(|parent| is_graph(&nodes[*parent])).map(|parent| runs.graph(parent));
        let graph = own.or_else(|| graphs[parent?]);
        graphs.push(graph);
        let mut firsts = BTreeSet::new();
        for tensor in node.inputs.iter().filter(|tensor| tensor.bytes > 0) {
            let id = tensor.storage;
            let is_new = match graph {
                Some(graph) => graph.is_first(&seen, id) && !takes(&nodes[graph.node], id),
                None => node.name == ACCUMULATE_GRADIENT && !seen.contains_key(&id),
            };
            let is_place = graph.is_some_and(|graph| {
                parent == Some(graph.node) && is_result_place(node, id) && !takes(&nodes[graph.node], id)
            });
            let is_full_parameter = node.name == FILL_PARAMETERS && id != node.inputs[0].storage;
            if (is_new || is_place || is_full_parameter) && firsts.insert(id) {
                let is_explained = is_place || is_full_parameter || node.kind == Kind::Kernel;
                let copy = || tree.around(index).find(|around| nodes[*around].name.starts_with(COPY_OUT));
                let node = if is_full_parameter { copy().unwrap_or(index) } else { index };
                untold.push(Untold { id, node, graph: graph.map(|graph| graph.node), is_explained });
            }
        }
        seen.extend(node.inputs.iter().chain(&node.outputs).map(|tensor| (tensor.storage, index)));
    }
    untold
}

/// One run of a compiled graph.
#[derive(Clone, Copy)]
struct Graph {
    node: usize,
    /// What was seen from here on may come from outside though the graph does not take it: the forward graph saved it.
    saved_from: usize,
}

impl Graph {
    /// Whether a storage that the graph does not take appears in it for the first time.
    fn is_first(self, seen: &BTreeMap<u64, usize>, id: u64) -> bool {
        seen.get(&id).is_none_or(|last| *last < self.saved_from)
    }
}

/// The runs of compiled graphs. A backward graph uses what a forward graph saved, and the trace does not say of which one: the
/// first that has no backward run yet is the bound.
#[derive(Default)]
struct GraphRuns {
    saved_from: BTreeMap<usize, usize>,
    open: Vec<usize>,
}

impl GraphRuns {
    fn begin(&mut self, node: usize, name: &str) {
        let is_backward = name[COMPILED_GRAPH.len()..].starts_with("Backward");
        let saved_from = if is_backward { self.open.first().copied().unwrap_or(0) } else { node };
        self.saved_from.insert(node, saved_from);
        if is_backward {
            self.open.pop();
        } else {
            self.open.push(node);
        }
    }

    fn graph(&self, node: usize) -> Graph {
        Graph { node, saved_from: self.saved_from[&node] }
    }
}

/// A compiled graph that shows what it takes.
fn is_graph(node: &Node) -> bool {
    node.kind == Kind::Range && node.name.starts_with(COMPILED_GRAPH) && !node.inputs.is_empty()
}

fn takes(node: &Node, id: u64) -> bool {
    node.inputs.iter().any(|input| input.storage == id)
}

/// Whether an operator is given the storage as the place for its result and for nothing else.
fn is_result_place(node: &Node, id: u64) -> bool {
    let mut uses = node.inputs.iter().filter(|tensor| tensor.storage == id).peekable();
    uses.peek().is_some() && uses.all(|tensor| tensor.access.out)
}
