//! The bound beside the bytes of a run: the fewest that any memory manager moves for the same steps in the same memory. Called by `run`
//! when a run has ended; `openwddm bound` says more.

use std::time::Instant;

use bound::fewest_bytes;
use dxgk_host::Profile;

use super::setup::{PROCESS_SYSTEM_BYTES, Setup};
use super::{RunOptions, Terms};
use crate::outcome::Summary;

/// Operations of all workloads and steps up to which the bound is a matter of moments.
const OPERATIONS_CHEAP: u64 = 200_000;
/// Seconds for the solver: where they do not do, the run says no bound.
const SECONDS: f64 = 2.0;

/// Writes the bound into the summary of a run that came to its end, on one adapter. Several processes cannot do better than each
/// alone in all of the memory; a budget bounds what a process requires, not what the kernel leaves in place.
pub(super) fn note(
    summary: &mut Summary,
    options: &RunOptions,
    setup: &Setup,
    workloads: &[(replay::Workload, Terms)],
    is_whole: bool,
) {
    let [adapter] = &setup.adapters[..] else { return };
    let is_wanted = options.bounded && is_whole && summary.ops <= OPERATIONS_CHEAP;
    if !is_wanted || !has_bound(&adapter.profile, summary, workloads.len() as u64) {
        return;
    }
    let began = Instant::now();
    let mut left = || SECONDS - began.elapsed().as_secs_f64();
    let (mut moved, mut paged_in) = (0u64, 0u64);
    for (workload, _) in workloads {
        let Ok(bound) = fewest_bytes(workload, options.steps, summary.vram_bytes, &mut left) else { return };
        moved = moved.saturating_add(bound.moved_bytes);
        paged_in = paged_in.saturating_add(bound.paged_in_bytes);
    }
    summary.fewest_bytes = Some(moved);
    summary.fewest_paged_in_bytes = Some(paged_in);
}

/// Whether the bound is one of this run. Content that the GPU reads where it lies, in system memory, pages nothing in and is no subject of
/// it, unless the planner counts it (`read_in_place`): then it is bytes that the link carried. What a process maps beside its storages is not meant.
pub(crate) fn has_bound(profile: &Profile, summary: &Summary, processes: u64) -> bool {
    let counted = summary.in_place_bytes.is_some();
    profile.has_memory_segments() && (counted || summary.mapped_bytes <= PROCESS_SYSTEM_BYTES.saturating_mul(processes))
}
