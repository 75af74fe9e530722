//! Counts the work of a trace that did not become an operation, by reason, for the table and the report.
//!
//! | counts as left out | because |
//! |---|---|
//! | a kernel of a compiler, a collective, an operator that takes tensors, of which the trace shows no tensor | the trace does not tell what it touches |
//! | an operator or kernel all of whose tensors stand elsewhere | the workload is about one memory |
//! | a node without an id | its recorder failed |
//! | a compiled graph that runs kernels which the trace does not have | a storage appears in it that nothing recorded can have made, or none of its kernels is there at all |
//!
//! Views, allocations and questions move no bytes: they are counted apart. Called by `chakra`.

use std::collections::{BTreeMap, BTreeSet};

use super::collective::Layer;
use super::generation::{Generations, StorageKey};
use super::trace::{Device, Kind, Node, Tree};
use super::unit::{Found, moves_nothing};
use crate::{Import, LeftOut, Reason};

/// Ranges around what a compiler made.
const COMPILED_REGIONS: [&str; 2] = ["Torch-Compiled Region", "CompiledFunction"];

/// Counts what `found` does not hold. `damaged` nodes have no id.
pub(super) fn count(
    nodes: &[Node],
    tree: &Tree,
    generations: &Generations,
    bytes: &BTreeMap<StorageKey, u64>,
    device: &Device,
    found: &Found<'_>,
    damaged: u64,
) -> Import {
    let mut kernels: BTreeMap<Reason, u64> = BTreeMap::new();
    let mut no_work = 0;
    for (index, node) in nodes.iter().enumerate().filter(|(index, _)| !found.accounted[*index]) {
        let is_part = tree.parents[index].is_some_and(|parent| matches!(nodes[parent].kind, Kind::Collective(_)));
        match judge(node, device) {
            _ if is_part => {} // the collective itself is judged
            Verdict::NoWork => no_work += 1,
            Verdict::LeftOut(reason) => *kernels.entry(reason).or_default() += 1,
            Verdict::NotAKernel => {}
        }
    }
    if damaged > 0 {
        kernels.insert(Reason::Damaged, damaged);
    }
    let left_out = |(reason, kernels)| LeftOut { reason, kernels, storages: 0, bytes: 0 };
    let mut left_out: Vec<LeftOut> = kernels.into_iter().map(left_out).collect();
    left_out.extend(not_recorded(nodes, tree, generations, bytes));
    Import { no_work, left_out, ..Import::exact() }
}

enum Verdict {
    NotAKernel,
    NoWork,
    LeftOut(Reason),
}

/// A node that is no unit, lies in none and holds none.
fn judge(node: &Node, device: &Device) -> Verdict {
    let takes_tensors = match node.kind {
        Kind::Range | Kind::Collective(Layer::Parameters) => return Verdict::NotAKernel,
        // Ranks that only meet, and a bracket around collectives that are recorded each.
        Kind::Collective(_) if ["barrier", "coalesced"].iter().any(|end| node.name.ends_with(end)) => {
            return Verdict::NoWork;
        }
        Kind::Operator { takes_tensors, .. } => takes_tensors,
        Kind::Kernel | Kind::Collective(_) => true,
    };
    let ids = |tensors: &[super::trace::Tensor]| tensors.iter().map(|tensor| tensor.storage).collect::<BTreeSet<u64>>();
    let tensors = || node.inputs.iter().chain(&node.outputs);
    let is_operator = matches!(node.kind, Kind::Operator { .. });
    if is_operator && moves_nothing(node, &ids(&node.inputs), &ids(&node.outputs)) {
        return Verdict::NoWork;
    }
    if tensors().next().is_none() {
        return if takes_tensors { Verdict::LeftOut(Reason::NoTensors) } else { Verdict::NotAKernel };
    }
    match tensors().any(|tensor| tensor.bytes > 0 && tensor.device != *device) {
        true => Verdict::LeftOut(Reason::OtherDevice),
        false => Verdict::NoWork, // tensors without elements
    }
}

/// Compiled graphs whose kernels the trace does not have, and the storages that these made.
fn not_recorded(
    nodes: &[Node],
    tree: &Tree,
    generations: &Generations,
    bytes: &BTreeMap<StorageKey, u64>,
) -> Option<LeftOut> {
    let is_region =
        |node: &Node| node.kind == Kind::Range && COMPILED_REGIONS.iter().any(|region| node.name.starts_with(region));
    // The outermost region of each node, and whether a kernel of a compiler is in it.
    let mut outermost: Vec<Option<usize>> = Vec::with_capacity(nodes.len());
    let (mut regions, mut with_kernels) = (BTreeSet::new(), BTreeSet::new());
    for (index, node) in nodes.iter().enumerate() {
        let around = tree.parents[index].and_then(|parent| outermost[parent]);
        let region = around.or_else(|| is_region(node).then_some(index));
        outermost.push(region);
        regions.extend(region);
        with_kernels.extend(region.filter(|_| node.kind == Kind::Kernel));
    }
    let made = generations.unexplained().iter().filter_map(|(key, graph)| Some((bytes.get(key)?, graph)));
    let made: Vec<(&u64, &Option<usize>)> = made.collect();
    let mut silent: BTreeSet<usize> = regions.difference(&with_kernels).copied().collect();
    silent.extend(made.iter().filter_map(|(_, graph)| outermost[(**graph)?]));
    let sum = made.iter().fold(0u64, |sum, (bytes, _)| sum.saturating_add(**bytes));
    (!silent.is_empty() || !made.is_empty()).then_some(LeftOut {
        reason: Reason::NotRecorded,
        kernels: silent.len() as u64,
        storages: made.len() as u64,
        bytes: sum,
    })
}
