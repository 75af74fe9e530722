//! Logs of native fences between kernel and driver (sync §2.6, §2.7, §3.14): where a queue's two logs lie, and the barrier before the
//! kernel reads them. The hardware alone writes them, in the layout of `shared_words::log`.

use std::sync::atomic::AtomicU64;

use wddm_types::GpuVa;

use crate::adapter::DriverStatus;
use crate::queue::KmdQueue;

/// 64-bit words of a log's header.
pub const LOG_HEADER_WORDS: usize = 5;

/// `DXGKARG_SETNATIVEFENCELOGBUFFER` (sync §2.7).
#[derive(Clone, Copy, Debug)]
pub struct SetNativeFenceLogBuffer<'a> {
    /// The queue, which its process feeds itself.
    pub queue: KmdQueue,
    /// `NumberOfEntries`.
    pub entries: u32,
    /// `LogBufferCpuVa`, lent for the call: the words of the whole log, the driver's to read and to write. The first
    /// [`LOG_HEADER_WORDS`] are the header, which the kernel has initialised; which of the two logs it is, Header.Type says, and
    /// nothing else.
    pub log: &'a [AtomicU64],
    /// Where the queue's process has the log: read/write.
    pub va: GpuVa,
    /// Where the paging process has it.
    pub system_va: GpuVa,
}

/// The answer of `DxgkDdiCalibrateGpuClock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuClock {
    /// `GpuFrequency`: ticks of a second.
    pub frequency_hz: u64,
    /// `GpuClockCounter`: the clock.
    pub counter: u64,
}

/// Logs of native fences. Called only while feature NATIVE_FENCE is enabled; a driver that says NativeGpuFence has them.
pub trait NativeFenceLogs {
    /// `DxgkDdiSetNativeFenceLogBuffer`, at dispatch level: twice for each queue that its process feeds, once a log, and again
    /// whenever the kernel has made a log anew.
    ///
    /// # Errors
    /// `InvalidParameter` for a queue that the kernel feeds, or a header that is none. Then the queue is not created.
    fn set_log_buffer(&mut self, set: SetNativeFenceLogBuffer<'_>) -> Result<(), DriverStatus>;

    /// A tool switches further types of logs on or off (sync §3.14, which leaves them to the future: there is no WDDM name). While they
    /// are on, the kernel calls [`NativeFenceLogs::set_log_buffer`] for each of them too; when they go off, the kernel frees their
    /// buffers as soon as the work queued until then is done. The user-mode driver learns it when it connects its doorbell again.
    fn set_verbose_logs(&mut self, _on: bool) {}

    /// `DxgkDdiUpdateNativeFenceLogs`, at dispatch level: a barrier in each of these queues. On return every entry that a header
    /// counted before the call is where the kernel's processor reads it, in both logs of each queue.
    ///
    /// # Errors
    /// Any status stops the adapter, unless a fault explains it: see [`crate::PacketScheduling::submit_command`].
    fn update_logs(&mut self, queues: &[KmdQueue]) -> Result<(), DriverStatus>;
}
