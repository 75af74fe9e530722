//! Waits and signals that a process reports of commands in a queue that it feeds itself: the kernel sees none of those commands. Only
//! tools hear of them; every field is an allegation.

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

/// A wait for a native fence, or a signal of one, in what is submitted next.
// spec: sync §3.14 (FENCE_WAIT_QUEUED, FENCE_SIGNAL_QUEUED)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedFence {
    /// The fence's handle in this process.
    pub fence: RawHandle,
    /// The value.
    pub value: u64,
    /// A signal; else a wait.
    pub signal: bool,
    /// When it was recorded, by the kernel's clock: that may be long before it is submitted.
    pub recorded_ns: u64,
}
