//! The outcome of a run: the numbers and the recording.
//!
//! It is plain data without logic. `run` fills it; `table`, `report`, `perfetto` and the JSON file read it. The JSON names
//! of [`Summary`] are a promise, explained in `JSON.md`: fields are only ever added.

mod plan;
mod recording;

use std::collections::BTreeMap;

use events::Cause;
use serde::Serialize;

use crate::imported::Imported;

pub use plan::{PlanSummary, StreamSummary};
pub use recording::{OpTrack, QueueLabel, Recording};

/// Everything that a run leaves behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The numbers.
    pub summary: Summary,
    /// The recording of each adapter.
    pub recordings: Vec<Recording>,
    /// Name of the adapter profile; of several all.
    pub profile: String,
    /// Ctrl-C ended the run early; all other fields are those reached until then.
    pub interrupted: bool,
}

/// How [`Summary::demotion_log`] begins when the list had no room for all.
pub const INCOMPLETE: &str = "incomplete";

/// The numbers of a run. Bytes are bytes, `_ns` are nanoseconds of the run's clock.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Name of the workload.
    pub workload: String,
    /// Name of the adapter.
    pub adapter: String,
    /// `client`: made of the events that a client of a served kernel has of its own; what the device and other processes did is 0 then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_by: Option<&'static str>,
    /// Operations submitted, over all steps.
    pub ops: u64,
    /// Steps done.
    pub steps: u64,
    /// Most bytes alive at once: with so many the workload runs without paging.
    pub peak_bytes: u64,
    /// Video memory that it was given.
    pub vram_bytes: u64,
    /// The files of adapters that say so, where no argument does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vram_files: Vec<String>,
    /// Copied from system memory into video memory.
    pub paged_in_bytes: u64,
    /// Copied from video memory to system memory.
    pub paged_out_bytes: u64,
    /// Used by operations where it lay, in system memory, which the link carried like copies; `None`: nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_bytes: Option<u64>,
    /// The fewest bytes that any memory manager copies in and out together in that memory; `None`: no bound is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fewest_bytes: Option<u64>,
    /// The fewest that any copies in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fewest_paged_in_bytes: Option<u64>,
    /// Left video memory without a copy.
    pub discarded_bytes: u64,
    /// Filled with zeros at the first commit.
    pub filled_bytes: u64,
    /// Copied to another place of their segment.
    pub relocated_bytes: u64,
    /// Came within the GPU's reach where it lies, in system memory; nothing was copied.
    pub mapped_bytes: u64,
    /// Left the GPU's reach there.
    pub unmapped_bytes: u64,
    /// `paged_in_bytes` by the name of its cause.
    pub page_in_by_cause: BTreeMap<String, u64>,
    /// `paged_out_bytes` by the name of its cause.
    pub page_out_by_cause: BTreeMap<String, u64>,
    /// How often a leaf table of 64-KB entries got 4-KB ones, by the name of the cause.
    pub tables_converted_by_cause: BTreeMap<String, u64>,
    /// How often the kernel suspended the contexts of a process for a change of its page tables, by the name of the cause.
    pub stood_still_by_cause: BTreeMap<String, u64>,
    /// How often a node gave back the packets that it had, by the name of the cause.
    pub preemptions_by_cause: BTreeMap<String, u64>,
    /// The same bytes per step.
    pub per_step: Vec<StepSummary>,
    /// From the first submission to the last completion.
    pub elapsed_ns: u64,
    /// Time that the same work takes when nothing is ever paged: where all workloads have times and the run uses them, on one
    /// adapter, the sum of these over the submitted operations.
    pub ideal_ns: u64,
    /// With such times: `ideal_ns` as a share of `elapsed_ns`, in millionths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_ideal_millionths: Option<u64>,
    /// With `--link`: bytes in a microsecond each way, both ways at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_bytes_per_us: Option<u64>,
    /// Time in which the compute queue waited for paging.
    pub stall_ns: u64,
    /// Signals of fences, by GPU and CPU.
    pub fence_signals: u64,
    /// Waits that a GPU queue carried out.
    pub gpu_waits: u64,
    /// Waits that the CPU carried out.
    pub cpu_waits: u64,
    /// Signals that raised an interrupt.
    pub interrupts_raised: u64,
    /// Signals that raised none, because by MonitoredValue no CPU waiter needed it.
    pub interrupts_suppressed: u64,
    /// Dispatched fence interrupts that released at least one wait.
    pub interrupt_dispatches_releasing: u64,
    /// How often a queue got a doorbell that was taken from another one.
    pub doorbells_passed_on: u64,
    /// Creations that waited until destructions had given system memory back.
    pub creations_waited: u64,
    /// `ok`, `off`, or what did not match.
    pub verify: String,
    /// The state of a lost device, because of which the run ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<&'static str>,
    /// How often the kernel reset hardware or kept a process away from it, by kind.
    pub recoveries: BTreeMap<String, u64>,
    /// Lost and wrong entries of the logs of a recorded run, by kind.
    pub log_faults: BTreeMap<String, u64>,
    /// Whether the demotion log adds up to what the kernel has, after every step and at the end: `ok`, `off` without a log,
    /// [`INCOMPLETE`] and how many moves it lacks, or what did not match.
    pub demotion_log: String,
    /// `real` or `virtual`.
    pub time: String,
    /// The path by which work reached the engine: `packet`, `hardware` or `user`.
    pub stage: String,
    /// Eviction policy.
    pub policy: String,
    /// The choices of the memory manager, by name.
    pub choices: BTreeMap<String, String>,
    /// Seed of everything random.
    pub seed: u64,
    /// Hash of the whole event stream, in hexadecimal digits.
    pub trace_hash: String,
    /// The imports of recordings that are not exactly what runs: derived ones, and ones with times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<Imported>,
    /// With `--constants`: counts of the maps of all processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constants: Option<Constants>,
    /// With several workloads: the numbers of each process; else empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessSummary>,
    /// Bytes that left video memory for want of room, by their owner and the process that needed the room; largest first.
    pub displaced: Vec<Displaced>,
    /// With `--stage`: the numbers of a run at each stage that was asked for, in that order; all other fields are those of the last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageSummary>,
    /// With several adapters: the numbers of each; else empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub adapters: Vec<AdapterSummary>,
    /// Where evictions are planned: planned against actual, of each memory segment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<PlanSummary>,
}

/// Counts of the CPU's maps for constants, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Constants {
    /// Maps: one for each operation.
    pub maps: u64,
    /// Those that threw the content away and went on in another instance.
    pub renames: u64,
    /// How often the GPU was still drawing in all instances when the CPU asked not to wait.
    pub still_drawing: u64,
    /// How often the CPU then waited.
    pub waits: u64,
    /// Bytes of instances given back because the kernel asked (TrimResidency).
    pub trimmed_bytes: u64,
}

/// The numbers of one of several adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AdapterSummary {
    /// Its number, as operations name it.
    pub adapter: u32,
    /// Name of its profile.
    pub profile: String,
    /// The path by which work reached its engine: `packet`, `hardware` or `user`.
    pub stage: &'static str,
    /// Video memory that it was given.
    pub vram_bytes: u64,
    /// Operations that it ran.
    pub ops: u64,
    /// Bytes of content that came to it from other adapters.
    pub arrived_bytes: u64,
    /// As in [`Summary`], of this adapter's memory.
    pub paged_in_bytes: u64,
    /// As in [`Summary`].
    pub paged_out_bytes: u64,
    /// As in [`Summary`].
    pub discarded_bytes: u64,
    /// Time in which its compute engine worked, on copies to and from other adapters too.
    pub busy_ns: u64,
    /// Time in which its compute queue waited, for paging or for another adapter.
    pub wait_ns: u64,
    /// As in [`Summary`].
    pub interrupts_raised: u64,
    /// As in [`Summary`].
    pub interrupts_suppressed: u64,
}

/// The numbers by which runs at several stages are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StageSummary {
    /// `packet`, `hardware` or `user`.
    pub stage: &'static str,
    /// Submissions of work.
    pub submissions: u64,
    /// Calls of all kinds into the kernel.
    pub calls: u64,
    /// Processor time of the threads that drive the workloads, in the driver and in kernel calls; in virtual time the cost of the
    /// calls by the adapter's cost model.
    pub cpu_ns: u64,
    /// Interrupts in which the driver found something, those of paging too.
    pub interrupts: u64,
    /// From a submission to an idle engine until the CPU knows that it is done: the median.
    pub round_trip_ns: u64,
    /// As in [`Summary`].
    pub elapsed_ns: u64,
}

/// The numbers of one of several processes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProcessSummary {
    /// Its number in traces.
    pub process: u32,
    /// Name of its workload.
    pub workload: String,
    /// Its priority class.
    pub priority: &'static str,
    /// Most bytes that it was allowed to have resident, if it has a budget.
    pub budget_bytes: Option<u64>,
    /// Operations submitted.
    pub ops: u64,
    /// Steps done.
    pub steps: u64,
    /// Most bytes alive at once.
    pub peak_bytes: u64,
    /// Of its own memory, copied into video memory.
    pub paged_in_bytes: u64,
    /// Of its own memory, copied out.
    pub paged_out_bytes: u64,
    /// Of its own memory, left without a copy.
    pub discarded_bytes: u64,
    /// From its first submission to its last completion.
    pub elapsed_ns: u64,
    /// As in [`Summary`].
    pub verify: String,
    /// As in [`Summary`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<&'static str>,
}

/// One process's memory that made room for another's, or for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Displaced {
    /// The process whose memory left.
    pub victim: u32,
    /// The process that needed the room.
    pub requester: u32,
    /// How much.
    pub bytes: u64,
}

/// One line of the demotion log: some of an allocation's memory moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Demotion {
    /// With several adapters: on which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<u32>,
    /// When the kernel decided it.
    pub decided_ns: u64,
    /// When the hardware had done it; `None` if the run ended before.
    pub completed_ns: Option<u64>,
    /// Number of the paging work; 0: the hardware had nothing to do for it.
    pub work: u64,
    /// `page in`, `page out`, `discard`, `fill`, `relocate`, `map`, `unmap`.
    pub how: &'static str,
    /// `make resident`, `pressure`, `evict`, `lock`, `destroy`, and others as they come.
    pub cause: &'static str,
    /// With `pressure`: the allocation that needed the room.
    pub for_allocation: Option<u64>,
    /// The process on whose behalf it was.
    pub requester: u32,
    /// The process whose memory it was.
    pub owner: u32,
    /// The allocation.
    pub allocation: u64,
    /// The segment; 0: the allocation's own pages of system memory, which no aperture shows.
    pub segment: u8,
    /// Bytes that moved.
    pub bytes: u64,
    /// The 4-KB pages of the segment: first and how many, in the order of the allocation.
    pub pages: Vec<(u64, u64)>,
}

impl Demotion {
    /// Content was copied and stays where it was.
    pub fn stays(&self) -> bool {
        Cause::STAYING.iter().any(|cause| cause.name() == self.cause)
    }
}

/// The numbers of one step.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepSummary {
    /// Number of the step, from 0.
    pub step: u64,
    /// As in [`Summary`].
    pub paged_in_bytes: u64,
    /// As in [`Summary`].
    pub paged_out_bytes: u64,
    /// As in [`Summary`].
    pub discarded_bytes: u64,
    /// As in [`Summary`].
    pub elapsed_ns: u64,
    /// As in [`Summary`].
    pub stall_ns: u64,
    /// With recorded times of a single workload on one adapter: their sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal_ns: Option<u64>,
    /// Where evictions are planned: what a least recently used policy would have copied in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lru_bytes: Option<u64>,
    /// As in [`Summary`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_bytes: Option<u64>,
}

impl Summary {
    /// What the link carried: copied in, copied out, and used in place.
    pub fn carried_bytes(&self) -> u64 {
        self.paged_in_bytes + self.paged_out_bytes + self.in_place_bytes.unwrap_or(0)
    }
}

impl StepSummary {
    /// As of [`Summary`].
    pub fn carried_bytes(&self) -> u64 {
        self.paged_in_bytes + self.paged_out_bytes + self.in_place_bytes.unwrap_or(0)
    }
}
