//! The flip queue of the hardware (sync §4.6), which came with WDDM 3.0: flips that are given ahead, each with the time from which it may
//! be shown, and a log that says afterwards what became of them. Without it the kernel keeps the queue and hands one flip over after
//! another ([`crate::Display::set_vidpn_source_address`]).
//!
//! Its times are those of the adapter's clock ([`crate::Miniport::calibrate_gpu_clock`] of node 0): WDDM says the performance counter, which
//! neither side of this contract reads. There is one plane a source, layer 0.

use wddm_types::{SegmentId, VidPnSourceId};

use crate::adapter::DriverStatus;
use crate::allocation::KmdAllocation;
use crate::display::SetVidPnSourceAddressFlags;

/// Bytes of `DXGK_FLIPQUEUE_LOG_ENTRY`: PresentId, PresentTimestamp.
pub const FLIP_LOG_ENTRY_BYTES: u64 = 16;
/// `DXGK_HWFLIPQUEUE_TIMESTAMP_CANCELLED`: the PresentTimestamp of a flip that was never shown; others are greater.
pub const FLIP_CANCELLED: u64 = 0;
/// As InterruptTargetPresentId: no blank interrupts.
pub const NO_PRESENT_ID: u64 = u64::MAX;
/// As InterruptTargetPresentId: every blank does.
pub const EVERY_VSYNC: u64 = 0;

/// The driver's limits of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlipQueueCaps {
    /// `MaxHwQueuedFlips`: flips that a source takes before the first of them is shown. There is a queue where it is 2 at least.
    pub max_hw_queued_flips: u32,
}

/// `DXGKARG_SETFLIPQUEUELOGBUFFER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFlipQueueLogBuffer {
    /// Of which source.
    pub source: VidPnSourceId,
    /// Of which plane.
    pub layer: u32,
    /// Where it lies in system memory, and how many entries it has; `None`: from now on there is none.
    pub buffer: Option<(u64, u32)>,
}

/// `DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3`, of one plane, as a flip of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFlip {
    /// Of which source.
    pub source: VidPnSourceId,
    /// Of which plane.
    pub layer: u32,
    /// PresentId, greater than every one before it on the source since its mode.
    pub present_id: u64,
    /// TargetFlipTime: from then on it may be shown, as if it came only then. Never less than that of the flip queued before it.
    pub target_flip_time: u64,
    /// The segment that the primary lies in.
    pub segment: SegmentId,
    /// Its GPU address there.
    pub physical_address: u64,
    /// The driver's handle of it.
    pub allocation: KmdAllocation,
    /// Whether a mode begins, and when the flip happens.
    pub flags: SetVidPnSourceAddressFlags,
}

/// The queues that must drain before the flip is handed over (`HwFlipQueueDrainNeeded` and its companions).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainNeeded {
    /// The plane's queue.
    Plane,
    /// The queues of all planes of the source.
    AllPlanes,
    /// Those of all sources.
    AllSources,
}

/// Why a flip is not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlipRefusal {
    /// `STATUS_RETRY`: not while others are queued. When none is, it must be taken.
    Retry(DrainNeeded),
    /// Anything else: bug check 0x119, parameter 0xB.
    Failed(DriverStatus),
}

/// The flip queue. Called only while feature HWFLIPQUEUE is enabled, and only for sources that have a mode.
pub trait FlipQueue {
    /// The queue's limits; the kernel asks at adapter start.
    fn flip_queue_caps(&self) -> FlipQueueCaps;

    /// `DxgkDdiSetFlipQueueLogBuffer`, passive level: before a mode is shown, and without a buffer when it is over. The log is empty then:
    /// its next entry is the first. An entry is written for each flip that is shown or passed over, no later than the interrupt that
    /// speaks of it, or than `update_flip_queue_log` returns.
    ///
    /// # Errors
    /// `NoMemory`, `NotSupported`: the mode is not set. Without a buffer it must succeed.
    fn set_flip_queue_log_buffer(&mut self, set: SetFlipQueueLogBuffer) -> Result<(), DriverStatus>;

    /// `DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3`, at device interrupt level. The kernel keeps to `max_hw_queued_flips`.
    ///
    /// # Errors
    /// [`FlipRefusal`]; the flip is not queued.
    fn queue_flip(&mut self, flip: QueueFlip) -> Result<(), FlipRefusal>;

    /// `DxgkDdiUpdateFlipQueueLog`, at device interrupt level. Returns FirstFreeFlipQueueLogEntryIndex: the entry behind the last one that is
    /// written.
    fn update_flip_queue_log(&mut self, source: VidPnSourceId, layer: u32) -> u32;

    /// `DxgkDdiSetInterruptTargetPresentId`: from now on blanks interrupt at which this flip or one behind it is on the screen, and
    /// immediate flips that are this one or one behind it. [`EVERY_VSYNC`]; [`NO_PRESENT_ID`], as at first.
    fn set_interrupt_target_present_id(&mut self, source: VidPnSourceId, layer: u32, present_id: u64);

    /// `DxgkDdiCancelFlips`, at device interrupt level: takes back what is queued, from `first` to the last. Returns PresentIdCancelled: from
    /// this one on, to the last, flips will not be shown, and the log says nothing of them; 0: of none.
    fn cancel_flips(&mut self, source: VidPnSourceId, layer: u32, first: u64) -> u64;
}
