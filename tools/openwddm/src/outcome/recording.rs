//! The recording of an adapter: events of the kernel, observations at the device, and the names of queues and operations.

use super::Demotion;

/// The recording of an adapter. Both lists count nanoseconds of the same clock.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Name of its profile.
    pub adapter: String,
    /// The kernel's events.
    pub events: Vec<(u64, events::Event)>,
    /// Observations at the device.
    pub observations: Vec<(u64, device_port::Observation)>,
    /// The purposes of the device's queues.
    pub queues: Vec<QueueLabel>,
    /// The submission that each progress value completes; one track for each process.
    pub ops: Vec<OpTrack>,
    /// Every move of memory, if the run keeps the log.
    pub demotions: Vec<Demotion>,
    /// Video memory that the workload was given, in bytes.
    pub vram_bytes: u64,
    /// Records left out because a limit was reached.
    pub dropped: u64,
}

impl Recording {
    /// Nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.observations.is_empty()
    }
}

/// One hardware queue, by its number on the device.
#[derive(Clone, Debug)]
pub struct QueueLabel {
    /// Number on the device.
    pub device_queue: u32,
    /// The queue's purpose.
    pub label: String,
    /// The engine that serves it.
    pub engine: u32,
}

/// The queue that runs the workload's operations, and how to tell them apart.
#[derive(Clone, Debug, Default)]
pub struct OpTrack {
    /// The queue's number on the device.
    pub device_queue: u32,
    /// Bus address of its progress fence.
    pub progress_bus: u64,
    /// The operation that progress value `i + 1` completes.
    pub names: Vec<String>,
    /// The step that it belongs to.
    pub steps: Vec<u32>,
}
