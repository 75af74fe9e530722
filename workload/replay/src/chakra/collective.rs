//! Recognises collectives among the nodes, and what they do with each of their arguments.
//!
//! A collective is recorded up to three times, one inside the other, and no schema declares a write:
//!
//! | node | has | tells apart |
//! |---|---|---|
//! | `c10d::allreduce_`, `c10d::_allgather_base_`, … | a schema | by the names of its arguments |
//! | `record_param_comms` | the tensors that go in as inputs, those that come out as outputs | by the side |
//! | `nccl:all_reduce`, `gloo:all_gather`, … | the tensors that go in | by the name |
//!
//! An argument with `output` in its name is written, one with `input` read; `tensors` are both, but for a send and a
//! receive. `fsdp::all_gather_copy_in` keeps to the same names. Every collective writes into tensors that are there: it brings
//! no storage into the world. Called by `trace`.

use super::schema::{Argument, short_name};

/// A node's access to an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    /// Reads its content.
    pub read: bool,
    /// Writes it.
    pub written: bool,
    /// Overwrites all of it: the argument is where the result goes.
    pub out: bool,
}

impl Access {
    /// An ordinary argument.
    pub const READ: Access = Access { read: true, written: false, out: false };
    const WRITTEN: Access = Access { read: false, written: true, out: false };
    const BOTH: Access = Access { read: true, written: true, out: false };
}

/// Which of the nested recordings of a collective a node is, by its name and schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// The dispatcher's operator: `c10d::…`.
    Operator,
    /// `record_param_comms`.
    Parameters,
    /// The backend's part: `nccl:…`.
    Backend,
}

/// The layer that a node belongs to; `None`: it is no collective.
pub(super) fn layer(name: &str, has_schema: bool) -> Option<Layer> {
    if has_schema && name.starts_with("c10d::") {
        return Some(Layer::Operator);
    }
    if name == "record_param_comms" {
        return Some(Layer::Parameters);
    }
    const BACKENDS: [&str; 9] = ["nccl", "gloo", "mpi", "ucc", "xccl", "hccl", "mccl", "custom", "fake"];
    let (backend, rest) = name.split_once(':')?;
    (!has_schema && !rest.starts_with(':') && BACKENDS.contains(&backend)).then_some(Layer::Backend)
}

/// The accesses of an operator without declared writes, by the names of its arguments.
pub(super) fn by_names(name: &str, arguments: &[Argument]) -> Vec<Access> {
    let whole = by_operation(name);
    let access = |argument: &Argument| match argument.name.as_str() {
        name if name.contains("output") => Access::WRITTEN,
        name if name.contains("input") => Access::READ,
        _ => whole,
    };
    arguments.iter().map(access).collect()
}

/// The access of a backend's node to the tensors that it shows.
pub(super) fn by_backend(name: &str) -> Access {
    let operation = name.split_once(':').map_or(name, |(_, operation)| operation);
    let into_others = ["gather", "scatter", "to_all", "toall", "send"];
    if into_others.iter().any(|part| operation.contains(part)) { Access::READ } else { by_operation(operation) }
}

fn by_operation(name: &str) -> Access {
    match short_name(name) {
        name if name.starts_with("send") => Access::READ,
        name if name.starts_with("recv") => Access::WRITTEN,
        _ => Access::BOTH,
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::arguments;
    use super::*;

    /// `r`, `w`, `rw` for each argument.
    fn told(name: &str, schema: &str) -> String {
        let accesses = by_names(name, &arguments(schema));
        let one = |a: &Access| format!("{}{}", if a.read { "r" } else { "" }, if a.written { "w" } else { "" });
        accesses.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn arguments_are_told_apart_by_name() {
        let rows = [
            ("c10d::allreduce_", "(Tensor[] tensors)", "rw"),
            ("c10d::broadcast_", "(Tensor[] tensors)", "rw"),
            ("c10d::send", "(Tensor[] tensors)", "r"),
            ("c10d::recv_any_source_", "(Tensor[] tensors)", "w"),
            ("c10d::allgather_", "(Tensor[][] output_tensors, Tensor[] input_tensors)", "w r"),
            ("c10d::_reduce_scatter_base_", "(Tensor output_tensor, Tensor input_tensor)", "w r"),
            ("c10d::allgather_into_tensor_coalesced_", "(Tensor[] outputs, Tensor[] inputs)", "w r"),
            ("c10d::alltoall_base_", "(Tensor output, Tensor input)", "w r"),
            ("c10d::gather_", "(Tensor[][] output_tensors, Tensor[] input_tensors)", "w r"),
            ("fsdp::all_gather_copy_in", "(Tensor[] all_gather_inputs, Tensor all_gather_output)", "r w"),
        ];
        for (name, schema, expected) in rows {
            assert_eq!(told(name, schema), expected, "{name}");
        }
    }

    #[test]
    fn layers_and_backends_are_known_by_name() {
        assert_eq!(layer("c10d::allreduce_", true), Some(Layer::Operator));
        assert_eq!(layer("record_param_comms", false), Some(Layer::Parameters));
        assert_eq!(layer("nccl:_all_gather_base", false), Some(Layer::Backend));
        assert_eq!(layer("torch::autograd::AccumulateGrad", false), None);
        assert_eq!(layer("autograd::engine::evaluate_function: MmBackward0", false), None);
        assert_eq!(layer("_c10d_functional::wait_tensor", true), None, "an ordinary operator");
        assert_eq!(by_backend("gloo:all_reduce"), Access::BOTH);
        assert_eq!(by_backend("nccl:_all_gather_base"), Access::READ);
        assert_eq!(by_backend("nccl:recv 0<-1"), Access::WRITTEN);
        assert_eq!(by_backend("gloo:all_to_all"), Access::READ);
    }
}
