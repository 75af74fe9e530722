//! The build of a device: sizes, whether bulk content is real, the cost model. A driver programs none of it: it has the registers. The
//! host that powers a device on passes it.

use softgpu_spec::page_table::Shape;

use crate::timing::Timing;

/// The parts list of one device.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Bytes of local memory (rounded up to a page).
    pub local_bytes: u64,
    /// Bytes of the aperture, a multiple of 4096 (rounded down to it).
    pub aperture_bytes: u64,
    /// How its MMU cuts virtual addresses.
    pub shape: Shape,
    /// Whether bulk content exists.
    pub data: DataMode,
    /// Bits that an engine stores in one piece for SignalAlways: 64 or 32.
    pub signal_bits: u32,
    /// The costs of commands in virtual time.
    pub timing: Timing,
    /// How often a thread looks again before it gives up: at the word of a wait before the queue is parked, at an empty
    /// ring before the engine sleeps. 0 never polls. Virtual time never polls.
    pub poll_spins: u32,
    /// Doorbells with a page of their own, [`softgpu_spec::doorbell::PAGES_MAX`] at most.
    pub doorbells: u32,
    /// Its displays.
    pub displays: DisplayConfig,
    /// A bit for each engine of those that are reset together; 0: none.
    pub reset_group: u64,
}

/// The displays of a device; all have the same rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisplayConfig {
    /// How many, [`softgpu_spec::display::DISPLAYS_MAX`] at most.
    pub count: u32,
    /// Nanoseconds from one blank to the next.
    pub period_ns: u64,
    /// How many flips may wait on each.
    pub queue_entries: u32,
}

impl DisplayConfig {
    /// A device that computes and shows nothing.
    pub const NONE: DisplayConfig = DisplayConfig { count: 0, period_ns: 0, queue_entries: 0 };
}

/// Whether bulk content is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataMode {
    /// Every byte is.
    Stored,
    /// Copies, fills and kernels move nothing: they are translated page by page, fault where they would, and take their
    /// time. Page-table and aperture writes, signals, waits, timestamps, logs and ring fetches stay real, so that a
    /// device of any size runs in the memory of its page tables.
    Modelled,
}
