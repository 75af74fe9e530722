//! Everything comes on demand, or is read where it lies.

use foresight::Report;
use replay::Workload;

use crate::planned::memory::{Watch, watched};

/// Watches nothing.
struct InPlace;

impl Watch for InPlace {
    fn operates(&mut self, _: u32, _: u64) {}
    fn works_ahead(&self) -> bool {
        false
    }
    fn reads_in_place(&self) -> bool {
        true
    }
    fn comes(&mut self, _: u64, _: u64) {}
    fn goes(&mut self, _: u64, _: u64, _: u64) {}
    fn is_done(&mut self) {}
}

/// The bytes that each step moves, and the planner's report.
pub fn run_in_place(workload: &Workload, steps: u32, capacity: u64) -> (Vec<u64>, Report) {
    let (moved, report, _) = watched(workload, steps, capacity, InPlace);
    (moved, report)
}
