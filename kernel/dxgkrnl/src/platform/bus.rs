//! The seam to the bus: the CPU's way to what devices show of their memory. The kernel finds the MonitoredValue of a fence there whose
//! words lie in the device's memory (sync §1.5); it moves no content by it.

use std::sync::atomic::AtomicU64;

/// The CPU's way to what devices show of their memory on the bus.
pub trait BusMemory: Send + Sync + std::fmt::Debug {
    /// The 64-bit word at an aligned bus address; `None` where no device answers. Lent for one use: the device there may change.
    fn word(&self, address: u64) -> Option<&AtomicU64>;
}
