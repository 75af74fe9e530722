//! Recordings that imported wrongly once, with the values that are right: a table.

use std::path::{Path, PathBuf};

use replay::{Event, Reason, Workload};

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(file)
}

fn open(file: &str) -> Workload {
    Workload::open(path(file)).unwrap()
}

const MIB: u64 = 1 << 20;

#[test]
fn each_recording_has_its_operations_and_its_peak() {
    let rows = [
        ("f3_triton_kernels.json", 3, 44 * MIB),
        ("f4_three_steps.json", 6, 40 * MIB),
        ("f5_collective.json", 2, 28 * MIB),
        ("f6_expanded_1.0.2.json", 2, 3 * MIB + 4), // the sum itself has four bytes
        ("f14_queries.json", 1, 24 * MIB),
        ("bom.json", 1, 12 * MIB),
        ("padded.json.gz", 1, 12 * MIB),
        ("schema_1.0.3-chakra.0.0.4.json", 1, 12 * MIB),
        ("schema_1.1.0-chakra.0.0.4.json", 1, 12 * MIB),
        ("et_hand_update_4.json.gz", 16, 25 * MIB),
        ("et_fsdp2_4.json.gz", 36, 12 * MIB),
        ("et_autograd_temporaries.json.gz", 6, 49 * MIB),
    ];
    for (file, ops, peak) in rows {
        let workload = open(file);
        assert_eq!((workload.ops(), workload.peak_bytes(1)), (ops, peak), "{file}");
        assert_eq!(workload.import().left_out, [], "{file}");
    }
}

/// 0.01 % of the exact recording's peak, one step as three.
#[test]
fn three_iterations_need_what_one_needs() {
    let exact = open("mlp_one_step.exact.rrs.json.gz").peak_bytes(1);
    assert_eq!(exact, 8_931_376);
    for (file, ops, iterations) in [("et_mlp_one_step.json.gz", 139, 1), ("et_mlp_three_steps.json.gz", 417, 3)] {
        let workload = open(file);
        let peak = workload.peak_bytes(2);
        assert!(peak.abs_diff(exact) * 10_000 <= exact, "{file}: {peak} against {exact}");
        assert_eq!((workload.ops(), workload.import().iterations), (ops, iterations), "{file}");
    }
}

/// Operations of a name: how many, and of how many bytes each what it reads and writes.
fn collectives(workload: &Workload, name: &str) -> Vec<(u64, u64)> {
    let bytes = |set: &[u32]| set.iter().map(|&index| workload.storages()[index as usize].bytes).sum();
    let of_event = |event: &Event| match event {
        Event::Op { name: found, reads, writes, .. } if workload.op_names()[*found as usize] == name => {
            Some((bytes(reads), bytes(writes)))
        }
        _ => None,
    };
    workload.events().iter().filter_map(of_event).collect()
}

#[test]
fn collectives_of_real_recordings_are_operations() {
    let ddp = open("et_mlp_ddp_rank0.json.gz");
    let bucket = 279_616 * 4;
    assert_eq!(collectives(&ddp, "c10d::allreduce_"), [(bucket, bucket)]);
    assert_eq!(collectives(&ddp, "gloo:all_reduce"), [], "a part of it");
    let fsdp = open("et_mlp_fsdp_rank0.json.gz");
    let gathers = collectives(&fsdp, "c10d::_allgather_base_");
    // The shard lies in the gathered parameters; gloo needs as much again on the way.
    let layer = 65_792 * 4;
    assert_eq!(gathers.len(), 9);
    assert_eq!(gathers[1], (layer, 2 * layer));
    // A scatter reads all gradients of the layer, copies them for gloo, and writes its half.
    let scatters = collectives(&fsdp, "c10d::_reduce_scatter_base_");
    assert_eq!(scatters.len(), 5);
    assert!(scatters.contains(&(layer, layer + layer / 2)), "{scatters:?}");
    assert_eq!(collectives(&fsdp, "gloo:all_gather"), [], "those beside their collective are its parts, too");
}

#[test]
fn a_compiled_step_says_how_much_is_left_out() {
    let compiled = open("et_mlp_compiled_step.json.gz");
    let [left] = &compiled.import().left_out[..] else { panic!("{:?}", compiled.import().left_out) };
    assert_eq!((left.reason, left.kernels, left.storages, left.bytes), (Reason::NotRecorded, 2, 9, 2_101_504));
    assert_eq!(compiled.ops(), 119);
}
