//! Who holds a storage beyond its last use, as far as the trace shows it.
//!
//! | holder | what it holds | until |
//! |---|---|---|
//! | an autograd function of C++ (`MmBackward0`: the engine numbers these names) | what it takes and what is made inside it: the gradients that come in, the tensors that the forward pass saved, temporaries of its formula | it ends |
//! | a module under fully_shard | its full parameters, used or not | its `FSDP::post_forward`, if it is gathered again before its `FSDP::post_backward_reshard`; else that |
//! | fully_shard, forward | the output of an all-gather | the next `FSDP::all_gather_copy_out`, or the end of the root's `FSDP::post_forward` |
//! | fully_shard, backward | the input of a reduce-scatter | the next `FSDP::post_backward_rs_wait`, or `FSDP::post_backward_reduce` where recorders do not know the first, or the end of the backward pass |
//!
//! C++ keeps arguments, variables and temporaries of an expression until the function or the expression is over, used or
//! not. Functions of Python let go of a temporary as soon as it is used, and their variables are not in the trace.
//! fully_shard marks what it does by ranges with the module's name behind them, the root's without. It keeps the buffers of a
//! transfer because that runs beside the computation. Called by `lives`.

use std::collections::BTreeMap;

use super::generation::{COPY_OUT, Generations, StorageKey};
use super::trace::{Kind, Node, Tree};
use super::unit::Unit;

/// The ranges of fully_shard besides: it begins and ends a module's forward pass, …
const PRE_FORWARD: &str = "FSDP::pre_forward";
const POST_FORWARD: &str = "FSDP::post_forward";
/// … takes its full parameters away, scatters its gradients, and waits for those of the module before.
const RESHARD: &str = "FSDP::post_backward_reshard";
const SCATTER: &str = "FSDP::post_backward_reduce";
const SCATTER_WAIT: &str = "FSDP::post_backward_rs_wait";
const ROOT_ENDS: &str = "FSDP::root_post_backward_callback";

/// The holders of a trace.
pub(super) struct Held<'a> {
    nodes: &'a [Node],
    tree: &'a Tree,
    generations: &'a Generations,
    /// Of each module: the nodes of its ranges of a kind.
    modules: BTreeMap<(&'static str, &'a str), Vec<usize>>,
    copies_out: Vec<usize>,
    scatters: Vec<usize>,
    backward_ends: Vec<usize>,
}

impl<'a> Held<'a> {
    /// Finds the nodes at which fully_shard lets go.
    pub fn of(nodes: &'a [Node], tree: &'a Tree, generations: &'a Generations) -> Held<'a> {
        let named = |start: &str| -> Vec<usize> {
            nodes.iter().enumerate().filter(|(_, node)| node.name.starts_with(start)).map(|(index, _)| index).collect()
        };
        let mut modules: BTreeMap<(&'static str, &'a str), Vec<usize>> = BTreeMap::new();
        for kind in [COPY_OUT, POST_FORWARD, RESHARD] {
            for index in named(kind) {
                modules.entry((kind, &nodes[index].name[kind.len()..])).or_default().push(index);
            }
        }
        let waits = named(SCATTER_WAIT);
        Held {
            nodes,
            tree,
            generations,
            modules,
            copies_out: named(COPY_OUT),
            scatters: if waits.is_empty() { named(SCATTER) } else { waits },
            backward_ends: named(ROOT_ENDS).into_iter().map(|index| tree.ends[index]).collect(),
        }
    }

    /// The last node while which a storage is held that `unit` uses last; `None`: nothing holds it beyond the unit.
    pub fn until(&self, unit: &Unit<'_>, key: StorageKey) -> Option<usize> {
        let is_only_read = unit.reads.contains(&key) && !unit.writes.contains(&key);
        let is_transfer = matches!(self.nodes[unit.node].kind, Kind::Collective(_));
        let held = if is_only_read && self.is_in(unit, COPY_OUT) && self.is_in(unit, PRE_FORWARD) {
            let root_ends = self.first(POST_FORWARD, "", unit.node).map(|index| self.tree.ends[index]);
            first_behind(unit.node, &self.copies_out).into_iter().chain(root_ends).min()
        } else if is_only_read && is_transfer && self.is_in(unit, SCATTER) {
            let backward_ends = first_behind(unit.node, &self.backward_ends);
            first_behind(unit.node, &self.scatters).into_iter().chain(backward_ends).min()
        } else {
            self.resharded(key)
        };
        let function = || self.tree.around(unit.node).find(|index| is_autograd_function(&self.nodes[*index].name));
        held.or_else(|| function().map(|function| self.tree.ends[function]))
    }

    /// Where a module's full parameter is taken away; `None`: the storage is none.
    fn resharded(&self, key: StorageKey) -> Option<usize> {
        let copied = self.generations.born_in(key)?;
        let module = self.nodes[copied].name.strip_prefix(COPY_OUT)?;
        let after_forward = self.first(POST_FORWARD, module, copied);
        let after_backward = self.first(RESHARD, module, copied);
        let again = self.first(COPY_OUT, module, copied);
        let is_kept = after_backward.is_some_and(|reshard| again.is_none_or(|again| reshard < again));
        let index = if is_kept { after_backward } else { after_forward }?;
        Some(self.tree.ends[index])
    }

    /// The first range of a kind and a module behind a node.
    fn first(&self, kind: &'static str, module: &str, node: usize) -> Option<usize> {
        first_behind(node, self.modules.get(&(kind, module))?)
    }

    fn is_in(&self, unit: &Unit<'_>, range: &str) -> bool {
        self.tree.around(unit.node).any(|index| self.nodes[index].name.starts_with(range))
    }
}

/// The first mark behind a node.
fn first_behind(node: usize, marks: &[usize]) -> Option<usize> {
    marks.get(marks.partition_point(|mark| *mark <= node)).copied()
}

/// Whether a range is an autograd function of C++: a name such as `MmBackward0`.
fn is_autograd_function(name: &str) -> bool {
    let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    bare.len() < name.len() && bare.ends_with("Backward") && !name.contains(':')
}
