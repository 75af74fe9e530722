//! The importer counts the work of a trace that it leaves out, by reason.

use replay::{Fault, LeftOut, Reason, Workload};
use serde_json::{Value, json};

use crate::hand::{COPY, EMPTY, MM, import, node, tensor};

fn left_out(workload: &Workload) -> Vec<(Reason, u64)> {
    workload.import().left_out.iter().map(|left: &LeftOut| (left.reason, left.kernels)).collect()
}

fn work(id: u64) -> Value {
    node(id, 0, "aten::mm", MM, &[tensor(5, 100)], &[tensor(7, 20)])
}

#[test]
fn kernels_without_tensors_are_counted() {
    let nodes = [
        work(1),
        node(2, 0, "triton_poi_fused_add_0", "", &[], &[]),
        node(3, 0, "graph_0_cpp_fused_add_0", "", &[], &[]),
        node(4, 0, "aten::cat", "aten::cat(Tensor[] tensors) -> Tensor", &[], &[]),
        node(5, 0, "c10d::barrier", "c10d::barrier(Tensor tensor, int timeout) -> int", &[], &[]),
        node(8, 0, "nccl:all_reduce", "", &[], &[]),
        node(9, 0, "nccl:coalesced", "", &[], &[]),
        node(10, 0, "c10d::send", "c10d::send(Tensor[] tensors) -> int", &[], &[]),
        node(11, 10, "gloo:send", "", &[], &[]),
        node(6, 0, "aten::manual_seed", "aten::manual_seed(int seed) -> ()", &[], &[]),
        node(7, 0, "ProfilerStep#3", "", &[], &[]),
    ];
    let workload = import("1.1.1", &nodes).unwrap();
    assert_eq!(left_out(&workload), [(Reason::NoTensors, 5)], "a seed and a mark are no kernels");
    assert_eq!((workload.ops(), workload.import().kernels_left_out()), (1, 5));
    assert_eq!(workload.import().no_work, 2, "where ranks only meet, nothing moves");
}

#[test]
fn work_elsewhere_is_counted() {
    let gpu = |storage: u64| json!([9, storage, 0, 10, 4, "cuda:0"]);
    let nodes = [
        node(1, 0, "aten::mm", MM, &[gpu(5)], &[gpu(6)]),
        node(2, 0, "aten::mm", MM, &[tensor(7, 10)], &[tensor(8, 10)]),
        node(3, 0, "aten::copy_", COPY, &[gpu(5), tensor(7, 10)], &[gpu(5)]),
        node(4, 0, "aten::t", "aten::t(Tensor(a) self) -> Tensor(a)", &[tensor(7, 10)], &[tensor(7, 10)]),
        node(5, 0, "aten::empty", EMPTY, &[], &[tensor(8, 10)]),
    ];
    let workload = import("1.1.1", &nodes).unwrap();
    assert_eq!(left_out(&workload), [(Reason::OtherDevice, 1)], "what crosses is here; a view moves nothing anywhere");
    assert_eq!((workload.ops(), workload.import().no_work), (2, 2));
}

/// A recorder that fails while a call begins writes node 0 for it, each time.
#[test]
fn nodes_that_the_recorder_damaged_are_counted() {
    let nodes = [work(1), node(0, 0, "aten::mm", MM, &[], &[]), node(0, 0, "aten::add", MM, &[], &[])];
    assert_eq!(left_out(&import("1.1.1", &nodes).unwrap()), [(Reason::Damaged, 2)]);
}

#[test]
fn compiled_graphs_without_their_kernels_are_counted() {
    let graph = node(1, 0, "Torch-Compiled Region: 0/0", "", &[], &[]);
    let function = node(2, 1, "CompiledFunction", "", &[tensor(5, 100)], &[]);
    let nodes = [graph, function, node(3, 2, "aten::mm", MM, &[tensor(5, 100), tensor(9, 11)], &[tensor(7, 20)])];
    let workload = import("1.1.1", &nodes).unwrap();
    let expected = LeftOut { reason: Reason::NotRecorded, kernels: 1, storages: 1, bytes: 44 };
    assert_eq!(workload.import().left_out, [expected], "nothing recorded made storage 9");
    let mut kernel = nodes.to_vec();
    kernel.push(node(4, 2, "triton_poi_fused_add_0", "", &[tensor(7, 20), tensor(8, 20)], &[]));
    kernel[2] = node(3, 2, "aten::mm", MM, &[tensor(5, 100)], &[tensor(7, 20)]);
    assert_eq!(import("1.1.1", &kernel).unwrap().import().left_out, [], "its kernels are there");
}

#[test]
fn a_trace_of_which_nothing_is_left_says_why() {
    let nodes = [node(1, 0, "triton_poi_fused_add_0", "", &[], &[]), node(2, 0, "nccl:all_reduce", "", &[], &[])];
    let fault = import("1.1.1", &nodes).unwrap_err();
    assert!(matches!(&fault, Fault::AllLeftOut { reasons } if *reasons == ["2 no tensors"]), "{fault}");
    assert!(fault.remedy().contains("record_shapes"), "{}", fault.remedy());
}
