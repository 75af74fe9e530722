//! Execution traces made by hand, one for each trap and for each layout that traces have.

use crate::hand::{ADD, COPY, EMPTY, MM, import, node, row, side, tensor, told};
use replay::{Fault, Lifetime, Storage};
use serde_json::{Value, json};

/// A weight of 400 bytes, an input of 40; the result's id 7 is used again, by a larger storage, after its death.
fn reused_id() -> Vec<Value> {
    vec![
        json!({"id": 1, "name": "[process]", "ctrl_deps": 1, "inputs": side(&[]), "outputs": side(&[])}),
        node(2, 1, "aten::mm", MM, &[tensor(5, 100), tensor(6, 10)], &[tensor(7, 20)]),
        node(3, 2, "aten::empty", EMPTY, &[], &[tensor(7, 20)]),
        node(4, 1, "aten::add_", ADD, &[tensor(7, 20), tensor(6, 10)], &[tensor(7, 20)]),
        node(5, 1, "aten::mm", MM, &[tensor(5, 100), tensor(6, 10)], &[tensor(7, 30)]),
    ]
}

fn reused_id_told() -> Vec<(String, Vec<u64>, Vec<u64>)> {
    vec![
        row("aten::mm", &[400, 40], &[80]),
        row("aten::add_", &[40, 80], &[80]),
        row("", &[80], &[]),
        row("aten::mm", &[400, 40], &[120]),
        row("", &[120], &[]),
    ]
}

#[test]
fn all_schemas_and_their_chakra_names_are_known() {
    for schema in [
        "1.0.2",
        "1.0.2-chakra.0.0.4",
        "1.0.3",
        "1.0.4-chakra.0.0.4",
        "1.1.0-chakra.0.0.4",
        "1.1.1",
        "1.1.1-chakra.0.0.4",
    ] {
        let workload = import(schema, &reused_id()).unwrap();
        assert_eq!(told(&workload), reused_id_told(), "{schema}");
        assert_eq!(workload.storages().iter().filter(|storage| storage.persistent).count(), 2);
    }
    for schema in ["1.0.1", "1.0.20", "1.0.30-chakra.0.0.4", "1.1.10", "2.0", ""] {
        let Err(Fault::UnknownSchema { found }) = import(schema, &reused_id()) else { panic!("{schema} was imported") };
        assert_eq!(found, schema);
    }
    let refusal = import("9.9", &reused_id()).unwrap_err().to_string();
    assert!(["9.9", "1.0.2", "1.1.1"].iter().all(|schema| refusal.contains(schema)), "{refusal}");
}

/// The flat layout: `parent`, `input_shapes`, `op_schema` beside the lists themselves.
#[test]
fn the_flat_layout_says_the_same() {
    let flat = |node: &Value| {
        let (inputs, outputs) = (&node["inputs"], &node["outputs"]);
        json!({"id": node["id"], "name": node["name"], "parent": node["ctrl_deps"],
            "op_schema": node["attrs"][0]["value"].as_str().unwrap_or(""),
            "inputs": inputs["values"], "input_shapes": inputs["shapes"], "input_types": inputs["types"],
            "outputs": outputs["values"], "output_shapes": outputs["shapes"], "output_types": outputs["types"]})
    };
    let nodes: Vec<Value> = reused_id().iter().map(flat).collect();
    assert_eq!(told(&import("1.0.2", &nodes).unwrap()), reused_id_told());
}

/// Trap 1, the hard half: a node that fills its result through views is the birthplace, though nodes inside it return
/// the id; and an id that a temporary inside it bore before is another storage.
#[test]
fn a_birthplace_may_enclose_views_and_dead_temporaries() {
    let slice = "aten::slice(Tensor(a) self) -> Tensor(a)";
    let nodes = [
        node(1, 0, "aten::mm", MM, &[tensor(5, 100)], &[tensor(7, 20)]),
        node(2, 0, "aten::cat", "aten::cat(Tensor[] tensors) -> Tensor", &[tensor(5, 100)], &[tensor(7, 50)]),
        node(3, 2, "aten::slice", slice, &[tensor(7, 50)], &[tensor(7, 10)]),
    ];
    let expected = vec![
        row("aten::mm", &[400], &[80]),
        row("", &[80], &[]),
        row("aten::cat", &[400], &[200]),
        row("", &[200], &[]),
    ];
    assert_eq!(told(&import("1.1.1", &nodes).unwrap()), expected);
}

/// An operator that reads for itself is one unit with its temporaries; one whose calls touch all that it takes is
/// none; views and allocations touch nothing.
#[test]
fn units_are_where_memory_is_touched() {
    let nodes = [
        node(
            1,
            0,
            "aten::linear",
            "aten::linear(Tensor x, Tensor w) -> Tensor",
            &[tensor(5, 100), tensor(6, 10)],
            &[tensor(9, 25)],
        ),
        node(2, 1, "aten::t", "aten::t(Tensor(a) self) -> Tensor(a)", &[tensor(5, 100)], &[tensor(5, 100)]),
        node(3, 1, "aten::addmm", MM, &[tensor(5, 100), tensor(6, 10)], &[tensor(9, 25)]),
        node(4, 3, "aten::empty", EMPTY, &[], &[tensor(8, 15)]),
        node(5, 3, "aten::copy_", COPY, &[tensor(8, 15), tensor(6, 10)], &[tensor(8, 15)]),
    ];
    let expected = vec![row("aten::addmm", &[400, 40], &[60, 100]), row("", &[60], &[]), row("", &[100], &[])];
    assert_eq!(told(&import("1.1.1", &nodes).unwrap()), expected);
}

/// A factory takes a tensor for its shape only, so that its argument's life does not reach it.
#[test]
fn factories_do_not_read_what_they_imitate() {
    let fill = "aten::zero_(Tensor(a!) self) -> Tensor(a!)";
    let nodes = [
        node(1, 0, "aten::mm", MM, &[tensor(5, 100)], &[tensor(6, 10)]),
        node(2, 0, "aten::zeros_like", "aten::zeros_like(Tensor self) -> Tensor", &[tensor(6, 10)], &[tensor(7, 10)]),
        node(3, 2, "aten::empty_like", "aten::empty_like(Tensor self) -> Tensor", &[tensor(6, 10)], &[tensor(7, 10)]),
        node(4, 2, "aten::zero_", fill, &[tensor(7, 10)], &[tensor(7, 10)]),
    ];
    let workload = import("1.1.1", &nodes).unwrap();
    assert_eq!(told(&workload)[1], row("", &[40], &[]), "dead before the factory runs");
    assert_eq!(workload.ops(), 2);
}

/// Trap 3 and its exception.
#[test]
fn gradients_outlive_the_step() {
    let nodes = [
        node(1, 0, "aten::mm", MM, &[tensor(5, 100)], &[tensor(6, 10)]),
        node(2, 0, "torch::autograd::AccumulateGrad", "", &[tensor(6, 10)], &[]),
        node(3, 0, "aten::add_", ADD, &[tensor(5, 100), tensor(6, 10)], &[tensor(5, 100)]),
    ];
    let workload = import("1.1.1", &nodes).unwrap();
    assert_eq!(workload.lifetimes(), [Lifetime::Kept, Lifetime::LeftOver]);
    assert_eq!(told(&workload).last().unwrap(), &row("aten::add_", &[400, 40], &[400]), "no death");
}

/// Writes that only the schema declares: nothing is returned.
#[test]
fn declared_writes_count() {
    let schema = "aten::_foreach_add_(Tensor(a!)[] self, Tensor[] other) -> ()";
    let mut list = node(1, 0, "aten::_foreach_add_", schema, &[], &[]);
    list["inputs"] = json!({
        "values": [[tensor(5, 100), tensor(6, 10)], [tensor(7, 1), "<None>"]],
        "shapes": [[[100], [10]], [[1], []]],
        "types": ["GenericList[Tensor(float),Tensor(float)]", "GenericList[Tensor(float),None]"],
    });
    let workload = import("1.1.1", &[list]).unwrap();
    assert_eq!(told(&workload), [row("aten::_foreach_add_", &[400, 40, 4], &[400, 40])]);
}

/// Trap 2: with strides an expanded tensor reaches no further than its elements; without them it is taken as dense.
#[test]
fn strides_decide_a_storages_size() {
    let mut expanded =
        node(1, 0, "aten::sum", "aten::sum(Tensor self) -> Tensor", &[json!([9, 5, 0, 1000, 4, "cpu"])], &[]);
    expanded["inputs"]["shapes"] = json!([[100, 10]]);
    assert_eq!(import("1.0.2", &[expanded.clone()]).unwrap().storages()[0].bytes, 4000);
    expanded["inputs"]["strides"] = json!([[0, 1]]);
    let workload = import("1.1.1", &[expanded]).unwrap();
    assert_eq!(workload.storages(), [Storage { bytes: 40, persistent: true }]);
}

#[test]
fn meta_tensors_are_refused_with_the_way_out() {
    let meta = node(4, 0, "aten::mm", MM, &[json!([9, 5, 0, 10, 4, "meta"])], &[]);
    let fault = import("1.1.1", &[meta]).unwrap_err();
    assert!(matches!(&fault, Fault::MetaDevice { node: 4, name } if name == "aten::mm"));
    assert!(fault.remedy().contains("record the step exactly"), "{}", fault.remedy());
}

#[test]
fn one_accelerator_is_the_subject_and_several_are_refused() {
    let gpu = |storage: u64, device: &str| json!([9, storage, 0, 10, 4, device]);
    let mixed = node(1, 0, "aten::copy_", COPY, &[gpu(5, "cuda:0"), tensor(6, 77)], &[gpu(5, "cuda:0")]);
    let host = node(2, 0, "aten::mm", MM, &[tensor(6, 77)], &[]);
    let workload = import("1.1.1", &[mixed.clone(), host]).unwrap();
    assert_eq!(told(&workload), [row("aten::copy_", &[40], &[40])], "host memory and host work stay out");
    let other = node(3, 0, "aten::mm", MM, &[gpu(7, "cuda:1")], &[]);
    let fault = import("1.1.1", &[mixed, other]).unwrap_err();
    assert!(matches!(&fault, Fault::SeveralDevices { devices } if *devices == ["cuda:0", "cuda:1"]));
}

#[test]
fn broken_nodes_are_refused_with_their_place() {
    let nodes = reused_id();
    let twice = [nodes[1].clone(), nodes[1].clone()];
    assert!(matches!(import("1.1.1", &twice), Err(Fault::NodeTwice { node: 2 })));
    let circle = [node(3, 4, "a", "", &[], &[]), node(4, 3, "b", "", &[], &[])];
    assert!(matches!(import("1.1.1", &circle), Err(Fault::YoungerParent { node: 3, parent: 4 })));
    assert!(matches!(import("1.1.1", &nodes[..1]), Err(Fault::NoOps)));
    assert!(matches!(import("1.1.1", &[]), Err(Fault::NoOps)));
    let tensors = [
        (json!([1, -5, 0, 1, 4, "cpu"]), "storage's id is -5"),
        (json!([1, 5.5, 0, 1, 4, "cpu"]), "storage's id is 5.5"),
        (json!([1, 5, 0, u64::MAX, 4, "cpu"]), "beyond 2^64"),
        (json!([1, 5, 0, 1, "cpu"]), "six parts"),
    ];
    for (tensor, words) in tensors {
        let broken = node(8, 0, "aten::mm", MM, &[tensor], &[]);
        let Err(Fault::WrongValue { line: 1, column, what }) = import("1.1.1", &[broken]) else { panic!("{words}") };
        assert!(column > 0 && what.contains(words) && what.contains("node 8 (aten::mm): inputs"), "{what}");
    }
}
