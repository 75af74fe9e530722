//! The displays of such a driver: it may refuse to show an address, and break the contract of its flip queue.

use ddi::{
    AllocationListEntry, Display, DriverStatus, FlipCaps, FlipQueue, FlipQueueCaps, FlipRefusal, QueueFlip,
    RenderStatus, SetFlipQueueLogBuffer, SetVidPnSourceAddress,
};
use miniport_filter::{DisplayFilter, FlipQueueFilter};
use wddm_types::VidPnSourceId;

use super::Stubborn;

/// The driver's answer to an address.
pub type Address = dyn FnMut(SetVidPnSourceAddress) -> Result<(), DriverStatus> + Send;

type Listed = dyn FnMut(&[AllocationListEntry]) -> Result<(), RenderStatus> + Send;
type Queue = dyn FnMut(&mut dyn FlipQueue, QueueFlip) -> Result<(), FlipRefusal> + Send;

/// The differences of its flip queue.
pub struct QueueWhims {
    /// It has no entry points for it.
    pub absent: bool,
    /// Its answer to a flip.
    pub queue: Box<Queue>,
    /// Its answer to a log, and to none.
    pub log_buffer: Box<dyn FnMut(bool) -> Result<(), DriverStatus> + Send>,
    /// Where it says that its log ends.
    pub log_end: Box<dyn FnMut(u32) -> u32 + Send>,
    /// The flip up to which it reports that it took flips back.
    pub cancelled: Box<dyn FnMut(u64) -> u64 + Send>,
    /// Its answer to a flip that comes with a list.
    pub listed: Box<Listed>,
}

impl Default for QueueWhims {
    fn default() -> QueueWhims {
        QueueWhims {
            absent: false,
            queue: Box::new(|driver, flip| driver.queue_flip(flip)),
            log_buffer: Box::new(|_| Ok(())),
            log_end: Box::new(|end| end),
            cancelled: Box::new(|first| first),
            listed: Box::new(|_| Ok(())),
        }
    }
}

impl FlipQueueFilter for Stubborn {
    fn flip_queue_caps(&self, _honest: FlipQueueCaps) -> FlipQueueCaps {
        FlipQueueCaps { max_hw_queued_flips: 16 }
    }
    fn set_flip_queue_log_buffer(
        &mut self,
        next: &mut dyn FlipQueue,
        set: SetFlipQueueLogBuffer,
    ) -> Result<(), DriverStatus> {
        (self.whims.flip_queue.log_buffer)(set.buffer.is_some())?;
        next.set_flip_queue_log_buffer(set)
    }
    fn queue_flip(&mut self, next: &mut dyn FlipQueue, flip: QueueFlip) -> Result<(), FlipRefusal> {
        (self.whims.flip_queue.queue)(next, flip)
    }
    fn update_flip_queue_log(&mut self, next: &mut dyn FlipQueue, source: VidPnSourceId, layer: u32) -> u32 {
        let end = next.update_flip_queue_log(source, layer);
        (self.whims.flip_queue.log_end)(end)
    }
    fn cancel_flips(&mut self, next: &mut dyn FlipQueue, source: VidPnSourceId, layer: u32, first: u64) -> u64 {
        let cancelled = next.cancel_flips(source, layer, first);
        (self.whims.flip_queue.cancelled)(cancelled)
    }
}

impl DisplayFilter for Stubborn {
    fn flip_caps(&self, honest: FlipCaps) -> FlipCaps {
        FlipCaps { flip_immediate: false, ..honest }
    }
    fn set_vidpn_source_address(
        &mut self,
        next: &mut dyn Display,
        set: SetVidPnSourceAddress,
    ) -> Result<(), DriverStatus> {
        (self.whims.screen)(set)?;
        next.set_vidpn_source_address(set)
    }
}
