//! What a run hands over: the numbers and the recording.
//!
//! It is plain data without logic. `run` fills it; `table`, `report`, `perfetto` and the JSON file read it. The JSON names
//! of [`Summary`] are a promise, explained in `JSON.md`: fields are only ever added.

use std::collections::BTreeMap;

use serde::Serialize;

/// Everything that a run leaves behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The numbers.
    pub summary: Summary,
    /// What happened, in time.
    pub recording: Recording,
    /// Name of the adapter profile.
    pub profile: String,
    /// Ctrl-C ended the run early; everything else says what was reached until then.
    pub interrupted: bool,
}

/// The numbers of a run. Bytes are bytes, `_ns` are nanoseconds of the run's clock.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Name of the workload.
    pub workload: String,
    /// Name of the adapter.
    pub adapter: String,
    /// Operations submitted, over all steps.
    pub ops: u64,
    /// Steps done.
    pub steps: u64,
    /// Most bytes alive at once: what the workload needs to run without paging.
    pub peak_bytes: u64,
    /// Video memory that it was given.
    pub vram_bytes: u64,
    /// Copied from system memory into video memory.
    pub paged_in_bytes: u64,
    /// Copied from video memory to system memory.
    pub paged_out_bytes: u64,
    /// Left video memory without a copy.
    pub discarded_bytes: u64,
    /// Filled with zeros at the first commit.
    pub filled_bytes: u64,
    /// `paged_in_bytes` by the name of its cause.
    pub page_in_by_cause: BTreeMap<String, u64>,
    /// `paged_out_bytes` by the name of its cause.
    pub page_out_by_cause: BTreeMap<String, u64>,
    /// The same per step.
    pub per_step: Vec<StepSummary>,
    /// From the first submission to the last completion.
    pub elapsed_ns: u64,
    /// What the same work takes when nothing is ever paged.
    pub ideal_ns: u64,
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
    /// Signals that raised none, because MonitoredValue said that nobody waits.
    pub interrupts_suppressed: u64,
    /// Dispatched fence interrupts that released at least one wait.
    pub interrupt_dispatches_releasing: u64,
    /// `ok`, `off`, or what did not match.
    pub verify: String,
    /// `real` or `virtual`.
    pub time: String,
    /// Eviction policy.
    pub policy: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Hash of the whole event stream, in hexadecimal digits.
    pub trace_hash: String,
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
}

/// What happened, in time. Both lists count nanoseconds of the same clock.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// What the kernel said.
    pub events: Vec<(u64, events::Event)>,
    /// What was seen at the device.
    pub observations: Vec<(u64, device_port::Observation)>,
    /// What the device's queues are for.
    pub queues: Vec<QueueLabel>,
    /// Which operation each progress value stands for.
    pub ops: OpTrack,
    /// Video memory that the workload was given, in bytes.
    pub vram_bytes: u64,
    /// Records left out because a limit was reached.
    pub dropped: u64,
}

/// One hardware queue, by its number on the device.
#[derive(Clone, Debug)]
pub struct QueueLabel {
    /// Number on the device.
    pub device_queue: u32,
    /// What it is for.
    pub label: String,
    /// The engine that serves it.
    pub engine: u32,
}

/// The queue that runs the workload's operations, and how to tell them apart.
#[derive(Clone, Debug, Default)]
pub struct OpTrack {
    /// Its number on the device.
    pub device_queue: u32,
    /// Bus address of its progress fence.
    pub progress_bus: u64,
    /// The operation that progress value `i + 1` completes.
    pub names: Vec<String>,
    /// The step that it belongs to.
    pub steps: Vec<u32>,
}
