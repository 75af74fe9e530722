//! A planned memory that copies nothing ahead of need (`planned::memory`).

use foresight::Report;
use replay::Workload;

use super::memory::{Watch, watched};

/// Nothing is copied ahead of need: a link that is never idle.
pub struct OnDemand;

impl Watch for OnDemand {
    fn operates(&mut self, _: u32, _: u64) {}
    fn works_ahead(&self) -> bool {
        false
    }
    fn comes(&mut self, _: u64, _: u64) {}
    fn goes(&mut self, _: u64, _: u64, _: u64) {}
    fn is_done(&mut self) {}
}

/// Runs joined steps on demand alone; the bytes that each moves, and the planner's report.
pub fn run(workload: &Workload, steps: u32, capacity: u64) -> (Vec<u64>, Report) {
    let (moved, report, OnDemand) = watched(workload, steps, capacity, OnDemand);
    (moved, report)
}
