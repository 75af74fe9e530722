//! Importer of PyTorch execution traces (Chakra host traces): from nested nodes to one step's operations and deaths.
//!
//! A trace lists nodes: every call that the dispatcher, the autograd engine or a profiler range saw, each inside its
//! parent, with the tensors that it took and returned. It does not say which node touched memory, how large a storage
//! is, or when it was freed. Four traps lie on the way:
//!
//! 1. *Ids are reused.* A storage id stands for an address, and names a new storage once the old one is gone.
//!    `generation` splits ids where a node returns one that it did not take.
//! 2. *Sizes are not recorded.* A storage is as large as the furthest element that any tensor in it reaches, by offset,
//!    shape and strides; an expanded tensor has stride 0 and reaches less than its element count (`reach`).
//! 3. *Nothing is freed.* A storage that was born in the step dies after the last operation that uses it. Gradients
//!    are the exception: the parameter holds them until they are cleared (`lives`). A trace of several iterations is
//!    imported as one step of all of them.
//! 4. *On the `meta` device all storages share one id.* Such a trace cannot be told apart and is refused.
//!
//! Which nodes are the operations is the fifth question, and the one that decides whether the peak comes out right:
//! `unit` answers it, with what `schema` and `collective` know of nodes. Against exact recordings of the same steps the derived
//! peak is off by +0.0001 % (a transformer), +0.4 % (a convolutional network) and -0.01 % (a small perceptron).
//! `tally` counts the work of the trace that is left out.
//!
//! Sets hold the storages on the accelerator if the trace has one, otherwise those on the host: the question is
//! what one memory must hold. Called by `source`; not a reader of Chakra's protobuf format.

mod collective;
mod generation;
mod held;
mod lives;
mod reach;
mod schema;
mod tally;
mod trace;
mod unit;
mod updates;

use std::collections::{BTreeMap, BTreeSet};

use crate::{Event, Fault, SourceKind, Storage, Workload};
use generation::{Generations, StorageKey};
use lives::Lives;
use trace::{Device, Node};
use unit::Found;

/// The schemas that are known. 1.0.3 names process groups, 1.0.4 kernels of compilers, 1.1.0 more of collectives; 1.1.1
/// has strides. The importer reads a node by the fields that it has, whatever the schema.
pub(crate) const SCHEMAS: [&str; 5] = ["1.0.2", "1.0.3", "1.0.4", "1.1.0", "1.1.1"];

/// Whether a trace of this schema can be imported: one of [`SCHEMAS`], alone or with the Chakra version behind it.
pub(crate) fn knows(schema: &str) -> bool {
    SCHEMAS.iter().any(|known| schema.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}

/// Parses the expanded text of a trace whose schema is known.
pub(crate) fn parse(name: &str, text: &[u8]) -> Result<Workload, Fault> {
    let (nodes, damaged) = trace::parse(text)?;
    let device = the_device(&nodes)?;
    let tree = trace::Tree::new(&nodes)?;
    let generations = Generations::new(&nodes, &tree);
    let bytes = reach::sizes(&nodes, &generations, &device);
    let found = unit::find(&nodes, &tree, &generations, &bytes);
    let mut import = tally::count(&nodes, &tree, &generations, &bytes, &device, &found, damaged);
    if found.units.is_empty() && !import.left_out.is_empty() {
        let reasons = import.left_out.iter().map(|left| format!("{} {}", left.kernels, left.reason)).collect();
        return Err(Fault::AllLeftOut { reasons });
    }
    let lives = Lives::new(&nodes, &tree, &generations, &found.units, &found.gradients);
    import.iterations = lives.iterations;
    Ok(assemble(name, &found, &lives, &bytes)?.with_import(import))
}

/// The one device whose memory the workload is about.
fn the_device(nodes: &[Node]) -> Result<Device, Fault> {
    let mut accelerators = BTreeSet::new();
    for node in nodes {
        for tensor in node.inputs.iter().chain(&node.outputs).filter(|tensor| tensor.bytes > 0) {
            match &tensor.device {
                Device::Meta => return Err(Fault::MetaDevice { node: node.id, name: node.name.clone() }),
                Device::Accelerator(name) => {
                    accelerators.insert(name.clone());
                }
                Device::Host => {}
            }
        }
    }
    if accelerators.len() > 1 {
        return Err(Fault::SeveralDevices { devices: accelerators.into_iter().collect() });
    }
    Ok(accelerators.pop_first().map_or(Device::Host, Device::Accelerator))
}

/// Turns units and deaths into events and hands everything to the workload's judge.
fn assemble(
    name: &str,
    found: &Found<'_>,
    lives: &Lives,
    bytes: &BTreeMap<StorageKey, u64>,
) -> Result<Workload, Fault> {
    let used: BTreeSet<StorageKey> = found.units.iter().flat_map(|unit| unit.all()).collect();
    let index: BTreeMap<StorageKey, u32> = used.iter().copied().zip(0..).collect();
    let storages =
        used.iter().map(|key| Storage { bytes: bytes[key], persistent: key.older_than_the_trace() }).collect();

    let mut names = BTreeMap::new();
    let mut events = Vec::new();
    for (at, unit) in found.units.iter().enumerate() {
        let next = names.len() as u32; // CAST: fewer names than nodes, and the workload's judge counts them
        let set = |keys: &BTreeSet<StorageKey>| keys.iter().map(|key| index[key]).collect();
        let name = *names.entry(unit.name).or_insert(next);
        events.push(Event::Op { adapter: None, name, reads: set(&unit.reads), writes: set(&unit.writes) });
        let dead = lives.deaths.get(&(at + 1)).into_iter().flatten();
        events.extend(dead.map(|key| Event::Death(index[key])));
    }
    let mut op_names = vec![String::new(); names.len()];
    for (name, index) in names {
        op_names[index as usize] = name.to_owned();
    }
    Workload::new(name.to_owned(), SourceKind::ExecutionTrace, storages, op_names, events)
}
