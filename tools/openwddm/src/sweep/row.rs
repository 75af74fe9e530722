//! One run of a sweep as a row: the run's identity, its figures, and the bound beside them. Plain data; `docs/sweep.md` explains each
//! column, and `columns` writes them in this order.

use serde::{Deserialize, Serialize};

/// A row. Bytes are bytes, `_ns` nanoseconds of virtual time, `_millionths` of the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The version of this program.
    pub program: String,
    /// Name of the workload.
    pub workload: String,
    /// Hash of the workload's file.
    pub workload_hash: String,
    /// Name of the adapter profile.
    pub adapter: String,
    /// Bytes in a microsecond each way, both ways at once; `None`: as the adapter has it, one way at a time.
    pub link_bytes_per_us: Option<u64>,
    /// How victims are chosen.
    pub policy: String,
    /// Processes that replay the workload at the same time.
    pub processes: u64,
    /// Steps of each.
    pub steps: u64,
    /// Video memory asked for.
    pub asked_bytes: u64,
    /// Video memory given, in whole pages.
    pub vram_bytes: u64,
    /// Most bytes that one process keeps alive at once.
    pub peak_bytes: u64,
    /// Operations of all processes over all steps.
    pub ops: u64,
    /// From the first submission to the last completion.
    pub elapsed_ns: u64,
    /// The same work with memory enough.
    pub ideal_ns: u64,
    /// Time in which the compute queue waited for paging.
    pub stall_ns: u64,
    /// Copied into video memory, over all steps.
    pub paged_in_bytes: u64,
    /// Copied out of it.
    pub paged_out_bytes: u64,
    /// Left it without a copy.
    pub discarded_bytes: u64,
    /// Came within the GPU's reach where it lies.
    pub mapped_bytes: u64,
    /// The last step's time; `None` with one step or several processes, as are the next three.
    pub last_step_elapsed_ns: Option<u64>,
    /// Its ideal.
    pub last_step_ideal_ns: Option<u64>,
    /// Copied in by it.
    pub last_step_paged_in_bytes: Option<u64>,
    /// Copied out by it.
    pub last_step_paged_out_bytes: Option<u64>,
    /// The ideal as a share of the time: of the last step where it is known, else of the whole run.
    pub share_millionths: u64,
    /// What that share is at most, by the bound and the link's rate; `None`: no bound is known, as for the next five.
    pub share_at_best_millionths: Option<u64>,
    /// The fewest bytes that any memory manager moves, in and out, over all steps.
    pub fewest_bytes: Option<u64>,
    /// The fewest that it pages in.
    pub fewest_paged_in_bytes: Option<u64>,
    /// The fewest bytes of a further step.
    pub further_step_fewest_bytes: Option<u64>,
    /// The least time of all steps over the link, or that of the work if it is longer.
    pub least_ns: Option<u64>,
    /// The same of a further step.
    pub further_step_least_ns: Option<u64>,
    /// Hash of the run's event stream, in hexadecimal digits.
    pub trace_hash: String,
}

impl Row {
    /// Bytes moved, in and out.
    pub fn moved_bytes(&self) -> u64 {
        self.paged_in_bytes.saturating_add(self.paged_out_bytes)
    }

    /// Whether both are the same run, whatever came out.
    pub(super) fn is_of_same_run(&self, other: &Row) -> bool {
        self.identity() == other.identity()
    }

    /// Whether both runs came out equal. The bound is left out: it depends on how long its solver may work.
    pub(super) fn came_out_as(&self, other: &Row) -> bool {
        self.without_bound() == other.without_bound()
    }

    /// Whether both lie on one curve: they differ in memory alone.
    pub(super) fn is_on_curve_of(&self, other: &Row) -> bool {
        self.policy == other.policy && self.is_in_table_of(other)
    }

    /// Whether both stand in one table: they differ in memory and policy alone.
    pub(super) fn is_in_table_of(&self, other: &Row) -> bool {
        let shared = |row: &Row| Row { asked_bytes: 0, policy: String::new(), ..row.identity() };
        shared(self) == shared(other)
    }

    /// What is asked of the run, all else left empty.
    fn identity(&self) -> Row {
        Row {
            program: self.program.clone(),
            workload_hash: self.workload_hash.clone(),
            adapter: self.adapter.clone(),
            link_bytes_per_us: self.link_bytes_per_us,
            policy: self.policy.clone(),
            processes: self.processes,
            steps: self.steps,
            asked_bytes: self.asked_bytes,
            ..Row::default()
        }
    }

    fn without_bound(&self) -> Row {
        Row {
            // Files may have been renamed.
            workload: String::new(),
            share_at_best_millionths: None,
            fewest_bytes: None,
            fewest_paged_in_bytes: None,
            further_step_fewest_bytes: None,
            least_ns: None,
            further_step_least_ns: None,
            ..self.clone()
        }
    }
}
