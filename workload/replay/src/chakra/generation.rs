//! Trap 1: which storage an id means at a moment of the trace.
//!
//! An id is an address; after the storage's death the allocator hands the address out again. A node that returns an
//! id which it did not take has brought a new storage into the world, unless a node inside it has done so: then that
//! one is the birthplace and the outer node passes the storage on. The new generation begins *when the birthplace
//! begins*, right after its arguments were taken, so that everything inside it already means the new storage.
//! (Looking for nodes inside that merely return the id is not enough: an operator that fills its result through views
//! has many of them, none of which is a birthplace.)
//!
//! Moments are odd and even numbers: node *i* takes its arguments at 2*i*, births in it are at 2*i*+1, and it returns
//! after everything inside it, at 2*end*+1. A storage that was there before the trace has generation 0.
//! Called by `chakra`; knows nothing of sizes.

use std::collections::{BTreeMap, BTreeSet};

use super::trace::{Node, Tree};

/// One storage: an id and which of its generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StorageKey {
    id: u64,
    generation: usize,
}

impl StorageKey {
    /// Whether nobody in the trace returned it newly: weights, optimiser state, inputs of the step.
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
}

impl Generations {
    /// Finds all births.
    pub fn new(nodes: &[Node], tree: &Tree) -> Generations {
        let mut births: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut born_inside: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); nodes.len()];
        for index in (0..nodes.len()).rev() {
            let node = &nodes[index];
            let taken: BTreeSet<u64> = node.inputs.iter().map(|tensor| tensor.storage).collect();
            let mut born = std::mem::take(&mut born_inside[index]);
            let returned: BTreeSet<u64> = node.outputs.iter().map(|tensor| tensor.storage).collect();
            for id in returned.difference(&taken) {
                if born.insert(*id) {
                    births.entry(*id).or_default().push(2 * index + 1);
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
        for moments in births.values_mut() {
            moments.reverse(); // they were found from the end
        }
        Generations { births, ends: tree.ends.clone() }
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
