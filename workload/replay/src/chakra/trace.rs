//! The text of an execution trace as nodes and tensors, and the tree that the nodes form.
//!
//! A tensor in the text is `[tensor id, storage id, offset, elements, bytes per element, device]`. Type, shape and
//! (from schema 1.1.1) strides stand beside it in lists of the same nesting. Traces place these lists in one of two
//! ways, and both are read: `inputs: {values, shapes, types, strides}` (every schema with "chakra" in its name), or flat
//! fields `inputs`, `input_shapes`, `input_types` beside `parent` and `op_schema`. Nothing is interpreted here
//! beyond a tensor's reach in bytes. Called by `chakra`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::collective::{self, Access, Layer};
use super::schema;
use crate::Fault;

/// A node of the trace, reduced to what the import needs.
#[derive(Debug, Deserialize)]
#[serde(try_from = "RawNode")]
pub(super) struct Node {
    /// Unique; rises in the order in which nodes began.
    pub id: u64,
    /// The enclosing node's id; the trace's root names itself, or an id that the trace does not have.
    pub parent: u64,
    /// Such as `aten::mm`.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The schema says that the operator writes an argument.
    pub declares_write: bool,
    /// Tensors taken.
    pub inputs: Vec<Tensor>,
    /// Tensors returned.
    pub outputs: Vec<Tensor>,
}

/// The kind of a node, by its name, its schema and the recorder's field for its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An operator of the dispatcher: it has a schema.
    Operator {
        /// It takes tensors, by its schema.
        takes_tensors: bool,
        /// It only asks for a tensor's description.
        is_query: bool,
    },
    /// A kernel that a compiler made (Triton): it has no schema, and all its tensors stand among its inputs.
    Kernel,
    /// A part of a collective.
    Collective(Layer),
    /// A range, an autograd function, a thread: it only encloses the nodes that do the work.
    Range,
}

/// A tensor of a node.
#[derive(Debug)]
pub(super) struct Tensor {
    /// The tensor's id: an address, reused after death.
    pub id: u64,
    /// The storage's id as in the trace: an address, reused after death.
    pub storage: u64,
    /// Bytes from the storage's begin to the end of the furthest element.
    pub bytes: u64,
    /// The trace has no strides for it; its bytes are those of a dense tensor of so many elements.
    pub dense: bool,
    /// Where it stands.
    pub device: Device,
    /// The node's access to it, if it is an input.
    pub access: Access,
}

/// Where a tensor stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Device {
    /// `cpu`.
    Host,
    /// No bytes exist.
    Meta,
    /// Anything else, such as `cuda:0`.
    Accelerator(String),
}

/// Parses the text and brings the nodes into the order of their ids. The second result counts the nodes of id 0: a
/// recorder that fails while a call begins (it cannot describe a nested tensor, for one) writes that instead of an id.
pub(super) fn parse(text: &[u8]) -> Result<(Vec<Node>, u64), Fault> {
    #[derive(Deserialize)]
    struct Document {
        nodes: Vec<Node>,
    }
    let Document { mut nodes } = serde_json::from_slice(text).map_err(|e| Fault::from_json(&e))?;
    let all = nodes.len();
    nodes.retain(|node| node.id != 0);
    nodes.sort_by_key(|node| node.id);
    let damaged = (all - nodes.len()) as u64;
    unwrap_subclasses(&mut nodes);
    Ok((nodes, damaged))
}

/// Makes ranges of operators on tensors of a Python class that wraps others (`DTensor`). Such a tensor has no storage, and the recorder
/// gives all of them one id. What the class does with the wrapped tensors is recorded inside, in nodes of their own.
fn unwrap_subclasses(nodes: &mut [Node]) {
    const SUBCLASS: &str = "PythonSubclass";
    let dispatched: BTreeSet<u64> =
        nodes.iter().filter(|node| node.name == SUBCLASS).flat_map(|node| [node.id, node.parent]).collect();
    for node in nodes.iter_mut().filter(|node| dispatched.contains(&node.id)) {
        (node.kind, node.declares_write) = (Kind::Range, false);
        node.inputs.clear();
        node.outputs.clear();
    }
}

/// The nesting of nodes, by index into the nodes.
pub(super) struct Tree {
    /// The enclosing node; always of smaller index. `None` for roots.
    pub parents: Vec<Option<usize>>,
    /// The last index inside the node; its own if it encloses none. Traces of several threads interleave, so not
    /// everything between is inside.
    pub ends: Vec<usize>,
}

impl Tree {
    /// Builds the tree of nodes that are sorted by id. A parent that the trace does not contain makes a root.
    ///
    /// # Errors
    /// Two nodes of one id; a parent that began later than its child (only so can circles arise).
    pub fn new(nodes: &[Node]) -> Result<Tree, Fault> {
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(Fault::NodeTwice { node: pair[0].id });
        }
        let indices: BTreeMap<u64, usize> = nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
        let mut parents = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let parent = indices.get(&node.parent).copied().filter(|&parent| parent != index);
            if parent.is_some_and(|parent| parent > index) {
                return Err(Fault::YoungerParent { node: node.id, parent: node.parent });
            }
            parents.push(parent);
        }
        let mut ends: Vec<usize> = (0..nodes.len()).collect();
        for index in (0..nodes.len()).rev() {
            if let Some(parent) = parents[index] {
                ends[parent] = ends[parent].max(ends[index]);
            }
        }
        Ok(Tree { parents, ends })
    }

    /// The node itself and those around it, from inside to outside.
    pub fn around(&self, node: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(node), |inner| self.parents[*inner])
    }
}

/// A node as the text has it. Every field that only one of the two layouts has is optional.
#[derive(Deserialize)]
struct RawNode {
    id: u64,
    name: String,
    ctrl_deps: Option<u64>,
    parent: Option<u64>,
    inputs: Value,
    input_shapes: Option<Value>,
    input_types: Option<Value>,
    outputs: Value,
    output_shapes: Option<Value>,
    output_types: Option<Value>,
    op_schema: Option<String>,
    #[serde(default)]
    attrs: Vec<RawAttribute>,
}

#[derive(Deserialize)]
struct RawAttribute {
    name: String,
    #[serde(default)]
    value: Value,
}

impl TryFrom<RawNode> for Node {
    /// Words only: the JSON parser adds the place.
    type Error = String;

    fn try_from(raw: RawNode) -> Result<Node, String> {
        let node = |what: &str| format!("node {} ({}): {what}", raw.id, raw.name);
        let attribute = |name: &str| raw.attrs.iter().find(|attribute| attribute.name == name)?.value.as_str();
        let schema = attribute("op_schema").or(raw.op_schema.as_deref()).unwrap_or("");
        let parent = raw.ctrl_deps.or(raw.parent).ok_or_else(|| node("neither \"ctrl_deps\" nor \"parent\""))?;
        let arguments = schema::arguments(schema);
        let kind = kind(&raw.name, schema, attribute("kernel_backend").unwrap_or(""));
        let declares_write = arguments.iter().any(|argument| argument.written);
        let by_names = !declares_write && (kind == Kind::Collective(Layer::Operator) || raw.name.starts_with("fsdp::"));
        let accesses = if by_names {
            collective::by_names(&raw.name, &arguments)
        } else {
            let is_out = |argument: &schema::Argument| argument.written && argument.name.starts_with("out");
            let access =
                |argument: &schema::Argument| Access { read: true, written: argument.written, out: is_out(argument) };
            arguments.iter().map(access).collect()
        };
        let beyond = match kind {
            Kind::Collective(Layer::Backend) => collective::by_backend(&raw.name),
            _ => Access::READ,
        };
        let inputs = Lists::of(&raw.inputs, raw.input_shapes.as_ref(), raw.input_types.as_ref());
        let inputs =
            inputs.and_then(|lists| lists.tensors(&accesses, beyond)).map_err(|e| node(&format!("inputs: {e}")))?;
        let outputs = Lists::of(&raw.outputs, raw.output_shapes.as_ref(), raw.output_types.as_ref());
        let outputs =
            outputs.and_then(|lists| lists.tensors(&[], Access::READ)).map_err(|e| node(&format!("outputs: {e}")))?;
        let declares_write = inputs.iter().any(|tensor| tensor.access.written) || declares_write;
        Ok(Node { id: raw.id, parent, name: raw.name, kind, declares_write, inputs, outputs })
    }
}

/// Decides the kind of a node. Inductor names its Triton kernels `triton_…`; recorders since PyTorch 2.3 also say which compiler made
/// them. Its kernels for the CPU appear only on request, as `…cpp_fused_…`.
fn kind(name: &str, schema: &str, kernel_backend: &str) -> Kind {
    if let Some(layer) = collective::layer(name, !schema.is_empty()) {
        return Kind::Collective(layer);
    }
    if !schema.is_empty() {
        let takes_tensors = schema::arguments(schema).iter().any(|argument| argument.has_tensors);
        return Kind::Operator { takes_tensors, is_query: schema::is_query(name, schema) };
    }
    let is_kernel = !kernel_backend.is_empty() || name.starts_with("triton_") || name.contains("cpp_fused_");
    if is_kernel { Kind::Kernel } else { Kind::Range }
}

/// The parallel lists of one side of a node, whichever layout they came from.
struct Lists<'a> {
    values: &'a [Value],
    types: &'a [Value],
    shapes: &'a [Value],
    strides: &'a [Value],
}

impl<'a> Lists<'a> {
    fn of(side: &'a Value, shapes: Option<&'a Value>, types: Option<&'a Value>) -> Result<Lists<'a>, String> {
        let list = |value: Option<&'a Value>, what: &str| match value {
            Some(Value::Array(list)) => Ok(list.as_slice()),
            Some(other) => Err(format!("{what} is not a list but {}", short(other))),
            None => Err(format!("no {what}")),
        };
        let lists = match side {
            Value::Object(side) => Lists {
                values: list(side.get("values"), "\"values\"")?,
                types: list(side.get("types"), "\"types\"")?,
                shapes: list(side.get("shapes"), "\"shapes\"")?,
                strides: side.get("strides").map_or(Ok(&[][..]), |strides| list(Some(strides), "\"strides\""))?,
            },
            flat => Lists {
                values: list(Some(flat), "this")?,
                types: list(types, "list of types")?,
                shapes: list(shapes, "list of shapes")?,
                strides: &[],
            },
        };
        if lists.types.len() != lists.values.len() {
            return Err(format!("{} values, but {} types", lists.values.len(), lists.types.len()));
        }
        Ok(lists)
    }

    /// All tensors of the side, those in lists too. `accesses` says of each argument what the node does with it, `beyond`
    /// of those that the schema does not name.
    fn tensors(&self, accesses: &[Access], beyond: Access) -> Result<Vec<Tensor>, String> {
        let mut tensors = Vec::new();
        for (at, (value, kind)) in self.values.iter().zip(self.types).enumerate() {
            if kind.as_str().is_some_and(|kind| kind.contains("Tensor")) {
                let access = accesses.get(at).copied().unwrap_or(beyond);
                collect(value, self.shapes.get(at), self.strides.get(at), access, &mut tensors)?;
            }
        }
        Ok(tensors)
    }
}

/// Walks a value and the lists beside it in step, down to single tensors.
fn collect(
    value: &Value,
    shape: Option<&Value>,
    strides: Option<&Value>,
    access: Access,
    to: &mut Vec<Tensor>,
) -> Result<(), String> {
    let Value::Array(parts) = value else { return Ok(()) }; // an absent optional tensor is a text
    let is_tensor = parts.first().is_some_and(Value::is_number) && parts.last().is_some_and(Value::is_string);
    if !is_tensor {
        for (at, part) in parts.iter().enumerate() {
            let (shape, strides) = (shape.and_then(|list| list.get(at)), strides.and_then(|list| list.get(at)));
            collect(part, shape, strides, access, to)?;
        }
        return Ok(());
    }
    let [id, storage, offset, elements, element_bytes, Value::String(device)] = &parts[..] else {
        return Err(format!("a tensor has six parts, found {}", short(value)));
    };
    let number = |part: &Value, what: &str| {
        part.as_u64().ok_or_else(|| format!("{what} is {}, a whole number from 0 is needed", short(part)))
    };
    let id = number(id, "a tensor's id")?;
    let storage = number(storage, "a storage's id")?;
    let sizes = [number(offset, "offset")?, number(elements, "elements")?, number(element_bytes, "bytes per element")?];
    let strided = strided_end(sizes, shape, strides);
    let bytes = bytes_to(strided.unwrap_or_else(|| dense_end(sizes)), sizes)
        .ok_or_else(|| format!("{} reaches beyond 2^64 bytes", short(value)))?;
    let device = match device.as_str() {
        "" => return Ok(()), // an undefined tensor has no storage
        "cpu" => Device::Host,
        "meta" => Device::Meta,
        other => Device::Accelerator(other.to_owned()),
    };
    to.push(Tensor { id, storage, bytes, dense: strided.is_none(), device, access });
    Ok(())
}

/// Trap 2: where the furthest element ends, in elements from the storage's begin. `None`: the trace has no strides for the
/// tensor. `Some(None)`: the number does not fit.
fn strided_end([offset, ..]: [u64; 3], shape: Option<&Value>, strides: Option<&Value>) -> Option<Option<u64>> {
    let numbers = |list: Option<&Value>| -> Option<Vec<u64>> { list?.as_array()?.iter().map(Value::as_u64).collect() };
    let (shape, strides) = (numbers(shape)?, numbers(strides)?);
    if shape.len() != strides.len() {
        return None;
    }
    let far = |end: u64, (&count, &stride): (&u64, &u64)| end.checked_add(count.checked_sub(1)?.checked_mul(stride)?);
    Some(offset.checked_add(1).and_then(|end| shape.iter().zip(&strides).try_fold(end, far)))
}

/// Where a dense tensor ends, in elements from the storage's begin. `None`: the number does not fit.
fn dense_end([offset, elements, _]: [u64; 3]) -> Option<u64> {
    offset.checked_add(elements)
}

/// Bytes to the end of the furthest element; none if there is no element.
fn bytes_to(end: Option<u64>, [_, elements, element_bytes]: [u64; 3]) -> Option<u64> {
    if elements == 0 { Some(0) } else { end?.checked_mul(element_bytes) }
}

/// A value's text, shortened for a message.
fn short(value: &Value) -> String {
    const LETTERS_MAX: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LETTERS_MAX {
        return text;
    }
    text.chars().take(LETTERS_MAX).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reach(sizes: [u64; 3], shape: Option<&Value>, strides: Option<&Value>) -> Option<u64> {
        bytes_to(strided_end(sizes, shape, strides).unwrap_or_else(|| dense_end(sizes)), sizes)
    }

    #[test]
    fn reach_follows_strides() {
        let reach_of = |sizes, shape: Value, strides: Value| reach(sizes, Some(&shape), Some(&strides));
        assert_eq!(reach_of([0, 12, 4], json!([3, 4]), json!([4, 1])), Some(48), "dense");
        assert_eq!(reach_of([5, 12, 4], json!([3, 4]), json!([1, 0])), Some((5 + 3) * 4), "expanded: stride 0");
        assert_eq!(reach_of([0, 6, 2], json!([3, 2]), json!([10, 1])), Some(22 * 2), "a slice with gaps");
        assert_eq!(reach_of([7, 0, 4], json!([0]), json!([1])), Some(0), "empty");
        assert_eq!(reach_of([1, 1, 8], json!([]), json!([])), Some(16), "a scalar in a larger storage");
        assert_eq!(reach([5, 12, 4], Some(&json!([3, 4])), None), Some(17 * 4), "no strides");
        assert_eq!(reach_of([u64::MAX, 12, 4], json!([3, 4]), json!([4, 1])), None);
        assert_eq!(reach([1 << 62, 1, 4], None, None), None);
    }

    #[test]
    fn kinds_are_known_by_schema_backend_and_name() {
        let operator = |takes_tensors, is_query| Kind::Operator { takes_tensors, is_query };
        let rows = [
            ("aten::mm", "aten::mm(Tensor self, Tensor mat2) -> Tensor", "", operator(true, false)),
            ("aten::size", "aten::size.int(Tensor self, int dim) -> int", "", operator(true, true)),
            ("aten::empty", "aten::empty.memory_format(SymInt[] size) -> Tensor", "", operator(false, false)),
            ("triton_poi_fused_add_0", "", "triton", Kind::Kernel),
            ("my_kernel", "", "triton", Kind::Kernel),
            ("triton_red_fused_sum_3", "", "", Kind::Kernel),
            ("graph_0_cpp_fused_add_0", "", "", Kind::Kernel),
            (
                "c10d::allreduce_",
                "c10d::allreduce_(Tensor[] tensors) -> Tensor[]",
                "",
                Kind::Collective(Layer::Operator),
            ),
            ("MmBackward0", "", "", Kind::Range),
        ];
        for (name, schema, backend, expected) in rows {
            assert_eq!(kind(name, schema, backend), expected, "{name}");
        }
    }
}
