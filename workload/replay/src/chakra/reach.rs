//! Trap 2: how large each storage is, from the tensors that lie in it.
//!
//! A tensor with strides says how far it reaches; a storage is as large as the furthest. Without strides (schemas before
//! 1.1.1) an expanded tensor looks as if all its elements lay one behind the other, 64 MiB in a storage of one. Therefore
//! such a tensor counts only where it cannot be a view:
//!
//! | a tensor without strides | counts |
//! |---|---|
//! | that the node returns which brings the storage into the world | yes: that is its size at birth |
//! | that a node returns which declares a write to it (a resize, a result that grows) | yes |
//! | of a storage born in the trace, anywhere else | no |
//! | of a storage from before the trace, returned by a node that took it | no: a view |
//! | of such a storage otherwise, unless it is such a view | yes |
//!
//! Called by `chakra`.

use std::collections::{BTreeMap, BTreeSet};

use super::generation::{Generations, StorageKey};
use super::trace::{Device, Node, Tensor};

/// The size of every storage on the device that is not empty.
pub(super) fn sizes(nodes: &[Node], generations: &Generations, device: &Device) -> BTreeMap<StorageKey, u64> {
    let mut sizes = Sizes { bytes: BTreeMap::new(), views: BTreeMap::new() };
    let counts = |tensor: &&Tensor| tensor.bytes > 0 && tensor.device == *device;
    for (index, node) in nodes.iter().enumerate() {
        for tensor in node.inputs.iter().filter(counts) {
            let key = generations.taken(index, tensor.storage);
            let is_view = sizes.views.get(&tensor.id) == Some(&key);
            if !tensor.dense || !(is_view || generations.is_told(key)) {
                sizes.reach(key, tensor.bytes);
            }
        }
        let taken: BTreeSet<u64> = node.inputs.iter().map(|tensor| tensor.storage).collect();
        let written = |id: u64| node.inputs.iter().any(|input| input.storage == id && input.access.written);
        for tensor in node.outputs.iter().filter(counts) {
            let (id, key) = (tensor.storage, generations.returned(index, tensor.storage));
            if tensor.dense && taken.contains(&id) && !written(id) {
                sizes.views.insert(tensor.id, key);
            } else if !tensor.dense || written(id) || generations.is_birthplace(index, id) || !generations.is_told(key)
            {
                sizes.reach(key, tensor.bytes);
            }
        }
    }
    sizes.bytes
}

struct Sizes {
    bytes: BTreeMap<StorageKey, u64>,
    /// Tensors that a node has returned as views, by id, and of which storage.
    views: BTreeMap<u64, StorageKey>,
}

impl Sizes {
    fn reach(&mut self, key: StorageKey, bytes: u64) {
        let most = self.bytes.entry(key).or_insert(0);
        *most = bytes.max(*most);
    }
}
