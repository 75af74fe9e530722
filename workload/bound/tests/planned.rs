//! The eviction planner alone, driven by reference strings, against the bound's own cost of a further step.
//!
//! No kernel: the memory here keeps bytes and their order as VidMm does, tells [`foresight::Foresight`] what it does, and takes the victims
//! that it is told. Its pages have one byte, so figures compare with the bound to the byte.

mod planned {
    pub mod memory;
}

use std::path::Path;

use bound::fewest_bytes;
use planned::memory::run;
use replay::{Workload, lru_bytes};

const GPT: &str = "../../examples/gpt.cpu.rrs.json.gz";

fn open(file: &str) -> Workload {
    Workload::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// Bytes that four steps move, and the bound's cost of a further step.
fn moved(workload: &Workload, tenths: u64) -> ([u64; 4], u64) {
    let capacity = workload.peak_bytes(2) * tenths / 10;
    let bytes = |steps| fewest_bytes(workload, steps, capacity, &mut || f64::INFINITY).unwrap().moved_bytes;
    (run(workload, 4, capacity).0.try_into().unwrap(), bytes(3) - bytes(2))
}

#[test]
fn a_training_step_that_repeats_moves_hardly_more_than_the_bound() {
    let workload = open(GPT);
    for tenths in 5..=9 {
        let (steps, further) = moved(&workload, tenths);
        assert!(steps[1] * 100 <= further * 115, "step 2 at 0.{tenths}: {steps:?}, {further}");
        assert!(steps[2].max(steps[3]) * 100 <= further * 105, "at 0.{tenths}: {steps:?}, {further}");
    }
    let at_half = workload.peak_bytes(2) / 2;
    let lru = |steps| lru_bytes(&workload, steps, at_half, 1).map(|moved| moved.paged_in + moved.paged_out).unwrap();
    assert!((lru(3) - lru(2)) * 100 > moved(&workload, 5).1 * 109, "LRU moves more");
}
