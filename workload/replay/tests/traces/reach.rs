//! Sizes of storages without strides: a view does not make one larger than it was born.

use replay::Storage;
use serde_json::{Value, json};

use crate::hand::{ADD, MM, import, node, tensor};

const EXPAND: &str = "aten::expand(Tensor(a) self, SymInt[] size) -> Tensor(a)";
const SUM: &str = "aten::sum(Tensor self) -> Tensor";

/// Another tensor in the same storage.
fn other(id: u64, storage: u64, elements: u64) -> Value {
    json!([id, storage, 0, elements, 4, "cpu"])
}

fn sizes(schema: &str, nodes: &[Value]) -> Vec<u64> {
    import(schema, nodes).unwrap().storages().iter().map(|storage: &Storage| storage.bytes).collect()
}

#[test]
fn an_expanded_tensor_does_not_enlarge_its_storage() {
    let nodes = [
        node(1, 0, "aten::mm", MM, &[tensor(5, 100)], &[tensor(7, 20)]),
        node(2, 0, "aten::expand", EXPAND, &[tensor(7, 20)], &[other(90, 7, 2_000)]),
        node(3, 0, "aten::sum", SUM, &[other(90, 7, 2_000)], &[tensor(8, 1)]),
        // A view that the trace does not show.
        node(6, 0, "aten::sum", SUM, &[other(92, 7, 3_000)], &[]),
        // An older storage, expanded.
        node(4, 0, "aten::expand", EXPAND, &[tensor(5, 100)], &[other(91, 5, 5_000)]),
        node(5, 0, "aten::sum", SUM, &[other(91, 5, 5_000)], &[tensor(9, 1)]),
    ];
    for schema in ["1.0.2", "1.0.3-chakra.0.0.4", "1.1.0"] {
        assert_eq!(sizes(schema, &nodes), [400, 80, 4, 4], "{schema}");
    }
}

/// The outer call returns the expanded tensor, the inner one the storage.
#[test]
fn the_birthplace_says_how_large_a_storage_is() {
    let nodes = [
        node(1, 0, "mine::broadcast_mm", MM, &[tensor(5, 100)], &[other(90, 7, 2_000)]),
        node(2, 1, "aten::mm", MM, &[tensor(5, 100)], &[tensor(7, 20)]),
        node(3, 1, "aten::expand", EXPAND, &[tensor(7, 20)], &[other(90, 7, 2_000)]),
    ];
    assert_eq!(sizes("1.0.2", &nodes), [400, 80]);
}

#[test]
fn what_is_written_larger_is_larger() {
    let grow = "aten::cat.out(Tensor[] tensors, *, Tensor(a!) out) -> Tensor(a!)";
    let nodes = [
        node(1, 0, "aten::mm", MM, &[tensor(5, 100)], &[tensor(7, 20)]),
        node(2, 0, "aten::cat", grow, &[tensor(5, 100), tensor(7, 20)], &[other(1007, 7, 60)]),
        node(3, 0, "aten::add_", ADD, &[tensor(5, 100), other(92, 5, 150)], &[tensor(5, 100)]),
    ];
    assert_eq!(sizes("1.0.2", &nodes), [600, 240], "a result grows; a base appears behind its part");
}
