//! Execution traces made by hand: tensors, sides, nodes, and an imported workload told back in rows.

use replay::{Event, Fault, Workload};
use serde_json::{Value, json};

/// `[tensor id, storage id, offset, elements, bytes per element, device]`.
pub fn tensor(storage: u64, elements: u64) -> Value {
    json!([storage + 1000, storage, 0, elements, 4, "cpu"])
}

/// One side of a node in the layout of schema 1.0.2: tensors of one dimension, no strides.
pub fn side(tensors: &[Value]) -> Value {
    let types = vec!["Tensor(float)"; tensors.len()];
    let shapes: Vec<Value> = tensors.iter().map(|tensor| json!([tensor[3]])).collect();
    json!({"values": tensors, "shapes": shapes, "types": types})
}

pub fn node(id: u64, parent: u64, name: &str, schema: &str, inputs: &[Value], outputs: &[Value]) -> Value {
    json!({"id": id, "name": name, "ctrl_deps": parent, "inputs": side(inputs), "outputs": side(outputs),
        "attrs": [{"name": "op_schema", "type": "string", "value": schema}]})
}

pub fn import(schema: &str, nodes: &[Value]) -> Result<Workload, Fault> {
    Workload::from_bytes("hand", json!({"schema": schema, "nodes": nodes}).to_string().as_bytes())
}

/// Operations as `(name, bytes read, bytes written)` and deaths as `("", bytes, [])`, in order.
pub fn told(workload: &Workload) -> Vec<(String, Vec<u64>, Vec<u64>)> {
    let bytes = |set: &[u32]| set.iter().map(|&index| workload.storages()[index as usize].bytes).collect::<Vec<_>>();
    let tell = |event: &Event| match event {
        Event::Op { name, reads, writes, .. } => {
            (workload.op_names()[*name as usize].clone(), bytes(reads), bytes(writes))
        }
        &Event::Death(index) => (String::new(), bytes(&[index]), Vec::new()),
    };
    workload.events().iter().map(tell).collect()
}

pub fn row(name: &str, reads: &[u64], writes: &[u64]) -> (String, Vec<u64>, Vec<u64>) {
    (name.to_owned(), reads.to_vec(), writes.to_vec())
}

pub const MM: &str = "aten::mm(Tensor self, Tensor mat2) -> Tensor";
pub const EMPTY: &str = "aten::empty.memory_format(SymInt[] size) -> Tensor";
pub const COPY: &str = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)";
pub const ADD: &str = "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)";
