//! What the host may choose about the driver. A wrong choice fails `start_device`, never panics.

use ddi::DriverStatus;
use softgpu_spec::bus::PAGE_BYTES;

use crate::queues::SUBMISSION_BYTES;

/// Choices of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KmdConfig {
    /// Page in which local memory is managed: 4096 or 65536 (`USE_64KB_PAGES`, memory §1.5).
    pub segment_page_bytes: u64,
    /// Bytes of a kernel-mode queue's ring: a power of two from 4096.
    pub ring_bytes: u64,
    /// Bytes of a paging buffer: a multiple of 4096.
    pub paging_buffer_bytes: u32,
    /// `MaxInFlightHwQueueBuffers` of each node, not 0: so many submissions have room in a ring.
    pub max_in_flight: u16,
    /// Local memory is reported as `CPU_VISIBLE`: all of it is behind a resized BAR (memory §1.7).
    pub cpu_visible: bool,
    /// A connected doorbell is reported as `CONNECTED_NOTIFY_KMD` (sync §2.9): clients tell the kernel after each ring. Not
    /// needed by clients that look at the doorbell's second word and tell the kernel only when the engine sleeps.
    pub notify_after_ring: bool,
}

impl Default for KmdConfig {
    fn default() -> KmdConfig {
        KmdConfig {
            segment_page_bytes: 65536,
            ring_bytes: 64 << 10,
            paging_buffer_bytes: 64 << 10,
            max_in_flight: 256,
            cpu_visible: true,
            notify_after_ring: false,
        }
    }
}

impl KmdConfig {
    /// Checks the choices against each other.
    ///
    /// # Errors
    /// `InvalidParameter` with the rule.
    pub(crate) fn check(&self) -> Result<(), DriverStatus> {
        let rules = [
            (matches!(self.segment_page_bytes, 4096 | 65536), "a segment's page is 4096 or 65536 bytes"),
            (
                self.ring_bytes.is_power_of_two() && self.ring_bytes >= PAGE_BYTES,
                "a ring is a power of two from 4096 bytes",
            ),
            (
                self.paging_buffer_bytes > 0 && u64::from(self.paging_buffer_bytes).is_multiple_of(PAGE_BYTES),
                "a paging buffer is whole pages",
            ),
            (self.max_in_flight > 0, "a ring has an end: the buffers in flight are limited"),
            // One more than the limit, because the engine moves its read pointer after it has signalled.
            (
                SUBMISSION_BYTES * (u64::from(self.max_in_flight) + 1) <= self.ring_bytes,
                "the ring holds the buffers in flight",
            ),
        ];
        match rules.iter().find(|(kept, _)| !kept) {
            Some((_, rule)) => Err(DriverStatus::InvalidParameter(rule)),
            None => Ok(()),
        }
    }
}
