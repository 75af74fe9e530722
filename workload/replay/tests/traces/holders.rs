//! Who holds a storage beyond its last use: autograd functions, and fully_shard by its ranges.

use serde_json::{Value, json};

use crate::hand::{EMPTY, MM, import, node, tensor, told};

/// Nodes by nesting: `(depth, name, schema, inputs, outputs)`.
type Line<'a> = (usize, &'a str, &'a str, Vec<Value>, Vec<Value>);

/// What happens, in order: names of operations, and bytes of the storages that die.
fn story(lines: &[Line<'_>]) -> String {
    let mut around: Vec<u64> = Vec::new();
    let mut nodes = Vec::new();
    for (index, (depth, name, schema, inputs, outputs)) in lines.iter().enumerate() {
        let id = index as u64 + 1;
        around.truncate(*depth);
        nodes.push(node(id, around.last().copied().unwrap_or(0), name, schema, inputs, outputs));
        around.push(id);
    }
    let workload = import("1.1.1", &nodes).unwrap();
    let tell =
        |(name, bytes, _): (String, Vec<u64>, Vec<u64>)| if name.is_empty() { bytes[0].to_string() } else { name };
    told(&workload).into_iter().map(tell).collect::<Vec<_>>().join(" ").replace("aten::", "")
}

fn op(depth: usize, takes: &[u64], gives: &[u64]) -> Line<'static> {
    let tensors = |ids: &[u64]| ids.iter().map(|id| tensor(*id, *id)).collect();
    (depth, "aten::mm", MM, tensors(takes), tensors(gives))
}

fn range(depth: usize, name: &str) -> Line<'_> {
    (depth, name, "", vec![], vec![])
}

#[test]
fn a_function_of_cpp_holds_what_it_uses_until_it_ends() {
    let of = |function| {
        story(&[op(0, &[], &[1]), range(0, function), op(1, &[1], &[2]), op(1, &[2], &[3]), op(0, &[3], &[])])
    };
    assert_eq!(of("MmBackward0"), "mm mm mm 4 8 mm 12");
    assert_eq!(of("MyFunctionBackward"), "mm mm 4 mm 8 mm 12", "a function of Python lets go");
    assert_eq!(of("MmBackward"), "mm mm 4 mm 8 mm 12");
}

/// One module: gathered, run, and gathered again for the backward pass if it was resharded.
fn sharded(again: bool) -> Vec<Line<'static>> {
    let fill = |full: u64| -> Line<'static> {
        let schema = "fsdp::split_with_sizes_copy(Tensor all_gather_output, *, Tensor(a!)[] out) -> ()";
        (2, "fsdp::split_with_sizes_copy", schema, vec![tensor(9, 9), tensor(full, full)], vec![])
    };
    let gather = |range_: &'static str, copy: &'static str, full| {
        vec![range(0, range_), (1, "aten::empty", EMPTY, vec![], vec![tensor(9, 9)]), range(1, copy), fill(full)]
    };
    let mut lines = gather("FSDP::pre_forward (a)", "FSDP::all_gather_copy_out (a)", 5);
    lines.extend([op(0, &[5], &[]), op(0, &[1], &[]), range(0, "FSDP::post_forward (a)"), op(0, &[1], &[])]);
    if again {
        lines.extend(gather("FSDP::pre_backward (a)", "FSDP::all_gather_copy_out (a)", 6));
    }
    lines.extend([range(0, "FSDP::post_backward_reshard (a)"), op(0, &[1], &[])]);
    lines
}

#[test]
fn full_parameters_live_until_the_module_is_resharded() {
    let filled = "fsdp::split_with_sizes_copy";
    assert_eq!(
        story(&sharded(true)),
        format!("{filled} mm mm 20 mm 36 {filled} 24 36 mm"),
        "and a gather's output until the next"
    );
    assert_eq!(story(&sharded(false)), format!("{filled} 36 mm mm mm 20 mm"), "kept for the backward pass");
}

/// A scatter's input waits for the next scatter.
#[test]
fn the_input_of_a_scatter_lives_until_the_next_wait() {
    let schema = "c10d::_reduce_scatter_base_(Tensor output_tensor, Tensor input_tensor) -> (Tensor, Work)";
    let scatter = |from: u64, to: u64| -> Line<'static> {
        (1, "c10d::_reduce_scatter_base_", schema, vec![tensor(to, to), tensor(from, from)], vec![tensor(to, to)])
    };
    let lines = [
        op(0, &[], &[5, 6]),
        range(0, "FSDP::post_backward_reduce (b)"),
        scatter(5, 1),
        op(0, &[1], &[]),
        range(0, "FSDP::post_backward_rs_wait (a)"),
        range(0, "FSDP::post_backward_reduce (a)"),
        scatter(6, 2),
        op(0, &[1], &[]),
    ];
    assert_eq!(
        story(&lines),
        "mm c10d::_reduce_scatter_base_ mm 20 c10d::_reduce_scatter_base_ 24 mm",
        "the last one nothing waits for"
    );
}

/// A wrapper class has no storage: its tensors share an id, and what is wrapped does the work.
#[test]
fn operators_on_wrappers_only_enclose_the_work() {
    let mut outer = op(0, &[7], &[7]);
    outer.3.push(json!([1, 7, 0, 1000, 4, "cpu"]));
    let lines = [outer, range(1, "PythonSubclass"), op(2, &[3], &[4]), op(0, &[4], &[])];
    assert_eq!(story(&lines), "mm mm 16");
}
