//! Importer of PyTorch execution traces (Chakra host traces): from nested nodes to one step's operations and deaths.
//!
//! A trace lists nodes: every call that the dispatcher, the autograd engine or a profiler range saw, each inside its
//! parent, with the tensors that it took and returned. It does not say which node touched memory, how large a storage
//! is, or when it was freed. Four traps lie on the way:
//!
//! 1. *Ids are reused.* A storage id stands for an address, and names a new storage once the old one is gone.
//!    `generation` splits ids where a node returns one that it did not take.
//! 2. *Sizes are not recorded.* A storage is as large as the furthest element that any tensor in it reaches, by offset,
//!    shape and strides; an expanded tensor has stride 0 and reaches less than its element count (`trace`).
//! 3. *Nothing is freed.* A storage that was born in the step dies after the last operation that uses it. Gradients
//!    are the exception: the parameter holds them until they are cleared when the next step begins.
//! 4. *On the `meta` device all storages share one id.* Such a trace cannot be told apart and is refused.
//!
//! Which nodes are the operations is the fifth question, and the one that decides whether the peak comes out right:
//! `unit` answers it. Against exact recordings of the same steps the derived peak is off by +0.0001 % (a transformer) and
//! +0.4 % (a convolutional network).
//!
//! Sets hold what stands on the accelerator if the trace has one, otherwise what stands on the host: the question is
//! what one memory must hold. Called by `source`; not a reader of Chakra's protobuf format.

mod generation;
mod trace;
mod unit;

use std::collections::{BTreeMap, BTreeSet};

use crate::{Event, Fault, SourceKind, Storage, Workload};
use generation::{Generations, StorageKey};
use trace::{Device, Node};
use unit::Unit;

/// The schemas that are known. 1.0.2 has no strides: there a tensor reaches as far as its offset and element count say.
pub(crate) const SCHEMAS: [&str; 2] = ["1.0.2", "1.1.1"];

/// Whether a trace of this schema can be imported: one of [`SCHEMAS`], alone or with the Chakra version behind it.
pub(crate) fn knows(schema: &str) -> bool {
    SCHEMAS.iter().any(|known| schema.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}

/// Parses the expanded text of a trace whose schema is known.
pub(crate) fn parse(name: &str, text: &[u8]) -> Result<Workload, Fault> {
    let nodes = trace::parse(text)?;
    let device = the_device(&nodes)?;
    let tree = trace::Tree::new(&nodes)?;
    let generations = Generations::new(&nodes, &tree);
    let bytes = sizes(&nodes, &generations, &device);
    let (units, gradients) = unit::find(&nodes, &tree, &generations, &bytes);
    assemble(name, &units, &gradients, &bytes)
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

/// Trap 2: every storage on the device reaches as far as the furthest tensor in it. Empty ones are left out.
fn sizes(nodes: &[Node], generations: &Generations, device: &Device) -> BTreeMap<StorageKey, u64> {
    let mut bytes = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let inputs = node.inputs.iter().map(|tensor| (generations.taken(index, tensor.storage), tensor));
        let outputs = node.outputs.iter().map(|tensor| (generations.returned(index, tensor.storage), tensor));
        for (key, tensor) in inputs.chain(outputs).filter(|(_, tensor)| tensor.bytes > 0 && tensor.device == *device) {
            let most = bytes.entry(key).or_insert(0);
            *most = tensor.bytes.max(*most);
        }
    }
    bytes
}

/// Turns units into events, adds the deaths (trap 3) and hands everything to the workload's judge.
fn assemble(
    name: &str,
    units: &[Unit<'_>],
    gradients: &BTreeSet<StorageKey>,
    bytes: &BTreeMap<StorageKey, u64>,
) -> Result<Workload, Fault> {
    let mut last_use = BTreeMap::new();
    for (at, unit) in units.iter().enumerate() {
        last_use.extend(unit.all().map(|key| (key, at)));
    }
    let index: BTreeMap<StorageKey, u32> = last_use.keys().copied().zip(0..).collect();
    let storages =
        index.keys().map(|key| Storage { bytes: bytes[key], persistent: key.older_than_the_trace() }).collect();

    let mut names = BTreeMap::new();
    let mut events = Vec::new();
    for (at, unit) in units.iter().enumerate() {
        let next = names.len() as u32; // CAST: fewer names than nodes, and the workload's judge counts them
        let set = |keys: &BTreeSet<StorageKey>| keys.iter().map(|key| index[key]).collect();
        let name = *names.entry(unit.name).or_insert(next);
        events.push(Event::Op { adapter: None, name, reads: set(&unit.reads), writes: set(&unit.writes) });
        let ends = |key: &StorageKey| last_use[key] == at && !key.older_than_the_trace() && !gradients.contains(key);
        let dead: BTreeSet<StorageKey> = unit.all().filter(ends).collect();
        events.extend(dead.iter().map(|key| Event::Death(index[key])));
    }
    let mut op_names = vec![String::new(); names.len()];
    for (name, index) in names {
        op_names[index as usize] = name.to_owned();
    }
    Workload::new(name.to_owned(), SourceKind::ExecutionTrace, storages, op_names, events)
}
