//! Kernels of compilers and collectives are operations, as those of the dispatcher are; questions are none.

use serde_json::{Value, json};

use crate::hand::{ADD, EMPTY, MM, import, node, row, side, tensor, told};

/// A Triton kernel as recorders since PyTorch 2.3 write it: all tensors among the inputs, stream behind them.
fn triton(id: u64, parent: u64, name: &str, tensors: &[Value]) -> Value {
    let mut kernel = node(id, parent, name, "", tensors, &[]);
    for (list, value) in [("values", json!(0)), ("shapes", json!([])), ("types", json!("Int"))] {
        kernel["inputs"][list].as_array_mut().unwrap().push(value);
    }
    kernel["attrs"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "kernel_backend", "type": "string", "value": "triton"}));
    kernel
}

#[test]
fn a_trace_of_compiled_kernels_alone_imports() {
    let nodes = [
        triton(1, 0, "triton_poi_fused_add_0", &[tensor(5, 100), tensor(6, 10)]),
        node(2, 0, "triton_red_fused_sum_1", "", &[tensor(6, 10)], &[]),
        triton(3, 0, "a_kernel_of_mine", &[tensor(6, 10)]),
    ];
    let workload = import("1.1.1", &nodes).unwrap();
    let expected = [
        row("triton_poi_fused_add_0", &[400, 40], &[400, 40]),
        row("triton_red_fused_sum_1", &[40], &[40]),
        row("a_kernel_of_mine", &[40], &[40]),
    ];
    assert_eq!(told(&workload), expected, "known by what the recorder says and by Inductor's names");
}

/// A storage that a compiled graph shows and does not take was made in it: by the kernel that shows it, as the place for a
/// result, or by kernels that are not recorded.
#[test]
fn what_a_compiled_graph_shows_first_was_born_in_it() {
    let out = "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)";
    let graph = node(1, 0, "CompiledFunction", "", &[tensor(5, 100)], &[]);
    let nodes = [
        graph.clone(),
        triton(2, 1, "triton_poi_fused_relu_0", &[tensor(5, 100), tensor(7, 20)]),
        node(3, 1, "aten::mm", out, &[tensor(5, 100), tensor(7, 20), tensor(8, 30)], &[tensor(8, 30)]),
        node(4, 1, "aten::mm", out, &[tensor(5, 100), tensor(9, 40), tensor(8, 50)], &[tensor(8, 50)]),
    ];
    let workload = import("1.1.1", &nodes).unwrap();
    let expected = [
        row("triton_poi_fused_relu_0", &[400], &[80]),
        row("aten::mm", &[400, 80, 120], &[120]),
        row("", &[80], &[]),
        row("", &[120], &[]),
        row("aten::mm", &[400, 200, 160], &[200]),
        row("", &[200], &[]),
        row("", &[160], &[]),
    ];
    assert_eq!(told(&workload), expected);
    assert_eq!(workload.persistent_bytes(), 400, "only what the graph takes was there before");
    let outside = [graph, triton(2, 0, "triton_poi_fused_relu_0", &[tensor(5, 100), tensor(7, 20)])];
    assert_eq!(import("1.1.1", &outside).unwrap().persistent_bytes(), 480, "outside nothing says that it is new");
}

/// Storages 5, 6, 7, 8 have 40, 80, 120, 160 bytes.
fn of(storages: &[u64]) -> Vec<Value> {
    storages.iter().map(|storage| tensor(*storage, (storage - 4) * 10)).collect()
}

/// A collective whose arguments are lists of storages; it returns what it was given first, as a view would.
fn collective(schema: &str, lists: &[&[u64]]) -> Value {
    let name = format!("c10d::{}", schema.split('(').next().unwrap());
    let mut node = node(1, 0, &name, &format!("c10d::{schema}"), &[], &of(lists[0]));
    let sides: Vec<Value> = lists.iter().map(|list| side(&of(list))).collect();
    let part = |part: &str| sides.iter().map(|side| side[part].clone()).collect::<Vec<_>>();
    let kinds = lists.iter().map(|list| json!(format!("GenericList[{}]", vec!["Tensor(float)"; list.len()].join(","))));
    node["inputs"] = json!({"values": part("values"), "shapes": part("shapes"), "types": kinds.collect::<Vec<_>>()});
    node
}

#[test]
fn collectives_read_what_goes_in_and_write_what_comes_out() {
    struct Row<'a>(&'a str, &'a [&'a [u64]], &'a [u64], &'a [u64]);
    let rows = [
        Row("allreduce_(Tensor[] tensors) -> (Tensor[], int)", &[&[5, 6]], &[40, 80], &[40, 80]),
        Row("allreduce_coalesced_(Tensor[] tensors) -> int", &[&[5, 6]], &[40, 80], &[40, 80]),
        Row("broadcast_(Tensor[] tensors, int root) -> (Tensor[], int)", &[&[5]], &[40], &[40]),
        Row("reduce_(Tensor[] tensors, int root) -> int", &[&[5]], &[40], &[40]),
        Row(
            "allgather_(Tensor[][] output_tensors, Tensor[] input_tensors) -> int",
            &[&[7, 8], &[5]],
            &[40],
            &[120, 160],
        ),
        Row("gather_(Tensor[][] output_tensors, Tensor[] input_tensors) -> int", &[&[7, 8], &[5]], &[40], &[120, 160]),
        Row("scatter_(Tensor[] output_tensors, Tensor[][] input_tensors) -> int", &[&[5], &[7, 8]], &[120, 160], &[40]),
        Row("_reduce_scatter_base_(Tensor output_tensor, Tensor input_tensor) -> int", &[&[5], &[8]], &[160], &[40]),
        Row(
            "allgather_into_tensor_coalesced_(Tensor[] outputs, Tensor[] inputs) -> int",
            &[&[7, 8], &[5, 6]],
            &[40, 80],
            &[120, 160],
        ),
        Row(
            "alltoall_base_(Tensor output, Tensor input, int[] input_split_sizes) -> int",
            &[&[7], &[8]],
            &[160],
            &[120],
        ),
        Row("send(Tensor[] tensors, int dst) -> int", &[&[5]], &[40], &[]),
        Row("recv_(Tensor[] tensors, int src) -> int", &[&[5]], &[], &[40]),
        Row("recv_any_source_(Tensor[] tensors) -> int", &[&[5]], &[], &[40]),
    ];
    for Row(schema, lists, reads, writes) in rows {
        let workload = import("1.1.1", &[collective(schema, lists)]).unwrap();
        let name = format!("c10d::{}", schema.split('(').next().unwrap());
        assert_eq!(told(&workload), [row(&name, reads, writes)], "{schema}");
        assert!(workload.storages().iter().all(|storage| storage.persistent), "{schema} brings nothing into the world");
    }
}

/// One collective, recorded three times one inside the other, is one operation with what the backend needs besides.
#[test]
fn the_layers_of_a_collective_are_one_operation() {
    let gather = "c10d::_allgather_base_(Tensor output_tensor, Tensor input_tensor) -> (Tensor, int)";
    let (output, input) = ([tensor(7, 80)], [tensor(5, 10)]);
    let both = [output[0].clone(), input[0].clone()];
    let nodes = [
        node(1, 0, "c10d::_allgather_base_", gather, &both, &output),
        node(2, 1, "record_param_comms", "", &input, &output),
        node(3, 2, "aten::empty", EMPTY, &[], &[tensor(9, 3)]),
        node(4, 2, "nccl:_all_gather_base", "", &input, &[]),
        // The recorder took this one off the wrong stack.
        node(5, 0, "nccl:_all_gather_base", "", &input, &[]),
        node(6, 0, "aten::add_", ADD, &both, &output),
    ];
    let workload = import("1.1.1", &nodes).unwrap();
    let expected =
        [row("c10d::_allgather_base_", &[40], &[320, 12]), row("", &[12], &[]), row("aten::add_", &[40, 320], &[320])];
    assert_eq!(told(&workload), expected, "and the output is the same storage afterwards");
    let alone = import("1.1.1", &[nodes[1].clone(), nodes[3].clone()]).unwrap();
    assert_eq!(told(&alone), [row("record_param_comms", &[40], &[320])], "without the dispatcher's layer");
    // One that has another tensor, too, repeats nothing: neither where the known one stands first, nor behind it.
    for tensors in [[tensor(5, 10), tensor(11, 4)], [tensor(11, 4), tensor(5, 10)]] {
        let other = node(5, 0, "nccl:_all_gather_base", "", &tensors, &[]);
        let workload = import("1.1.1", &[&nodes[..4], &[other, nodes[5].clone()]].concat()).unwrap();
        assert!(told(&workload).iter().any(|(name, ..)| name == "nccl:_all_gather_base"), "{:?}", told(&workload));
    }
    let reduce = node(1, 0, "gloo:all_reduce", "", &input, &[]);
    assert_eq!(
        told(&import("1.1.1", &[reduce]).unwrap()),
        [row("gloo:all_reduce", &[40], &[40])],
        "the backend's alone"
    );
}

/// `fsdp::all_gather_copy_in` returns parts of what it was given and declares no write: no view nevertheless.
#[test]
fn copies_of_fully_sharded_parameters_read_and_write() {
    let schema = "fsdp::all_gather_copy_in(Tensor[] all_gather_inputs, Tensor all_gather_output, SymInt rank) -> (Tensor, Tensor)";
    let place = tensor(7, 80);
    let fused = node(
        1,
        0,
        "fsdp::all_gather_copy_in",
        schema,
        &[tensor(5, 10), place.clone()],
        &[place.clone(), place.clone()],
    );
    assert_eq!(
        told(&import("1.1.1", std::slice::from_ref(&fused)).unwrap()),
        [row("fsdp::all_gather_copy_in", &[40], &[320])]
    );
    let copy = "aten::_foreach_copy_(Tensor(a!)[] self, Tensor[] src) -> ()";
    let inner = node(2, 1, "aten::_foreach_copy_", copy, &[place, tensor(5, 10)], &[]);
    let called = import("1.1.1", &[fused, inner]).unwrap();
    assert_eq!(
        told(&called),
        [row("aten::_foreach_copy_", &[40, 320], &[320])],
        "where it only calls, the copy is the work"
    );
}

#[test]
fn questions_are_no_work() {
    let ask = |id, name: &str, schema: &str| node(id, 0, name, schema, &[tensor(7, 20), tensor(5, 100)], &[]);
    let nodes = [
        node(1, 0, "aten::mm", MM, &[tensor(5, 100), tensor(6, 10)], &[tensor(7, 20)]),
        ask(2, "aten::size", "aten::size.int(Tensor self, int dim) -> int"),
        ask(3, "aten::is_same_size", "aten::is_same_size(Tensor self, Tensor other) -> bool"),
        ask(4, "aten::result_type", "aten::result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType"),
        ask(5, "aten::sym_numel", "aten::sym_numel(Tensor self) -> SymInt"),
        ask(6, "aten::is_contiguous", "aten::is_contiguous(Tensor self) -> bool"),
        ask(7, "aten::record_stream", "aten::record_stream(Tensor(a!) self, Stream s) -> ()"),
        ask(8, "aten::_fused_sdp_choice", "aten::_fused_sdp_choice(Tensor query, Tensor key) -> int"),
    ];
    let workload = import("1.1.1", &nodes).unwrap();
    assert_eq!(
        told(&workload),
        [row("aten::mm", &[400, 40], &[80]), row("", &[80], &[])],
        "nor do they keep anything alive"
    );
    assert_eq!(workload.import().no_work, 7);
    let item = node(2, 0, "aten::item", "aten::item(Tensor self) -> Scalar", &[tensor(5, 100)], &[]);
    assert_eq!(told(&import("1.1.1", &[item]).unwrap()), [row("aten::item", &[400], &[])], "content is read");
}
