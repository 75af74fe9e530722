//! The displays of such a driver: it may refuse to show an address, and break the contract of its flip queue.

use ddi::{
    AllocationListEntry, Display, DriverStatus, FlipCaps, FlipQueue, FlipQueueCaps, FlipRefusal, KmdAllocation,
    KmdNotification, NotificationId, QueueFlip, RenderStatus, SetFlipQueueLogBuffer, SetVidPnSourceAddress, Surface,
    VidPnPath,
};
use wddm_types::{VidPnSourceId, VidPnTargetId};

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

impl FlipQueue for Stubborn {
    fn flip_queue_caps(&self) -> FlipQueueCaps {
        FlipQueueCaps { max_hw_queued_flips: 16 }
    }
    fn set_flip_queue_log_buffer(&mut self, set: SetFlipQueueLogBuffer) -> Result<(), DriverStatus> {
        (self.whims.flip_queue.log_buffer)(set.buffer.is_some())?;
        self.queues().set_flip_queue_log_buffer(set)
    }
    fn queue_flip(&mut self, flip: QueueFlip) -> Result<(), FlipRefusal> {
        let driver = self.inner.flip_queue().expect("it has flip queues");
        (self.whims.flip_queue.queue)(driver, flip)
    }
    fn update_flip_queue_log(&mut self, source: VidPnSourceId, layer: u32) -> u32 {
        let end = self.queues().update_flip_queue_log(source, layer);
        (self.whims.flip_queue.log_end)(end)
    }
    fn set_interrupt_target_present_id(&mut self, source: VidPnSourceId, layer: u32, present_id: u64) {
        self.queues().set_interrupt_target_present_id(source, layer, present_id);
    }
    fn cancel_flips(&mut self, source: VidPnSourceId, layer: u32, first: u64) -> u64 {
        let cancelled = self.queues().cancel_flips(source, layer, first);
        (self.whims.flip_queue.cancelled)(cancelled)
    }
}

impl Stubborn {
    fn queues(&mut self) -> &mut dyn FlipQueue {
        self.inner.flip_queue().expect("it has flip queues")
    }

    fn displays(&mut self) -> &mut dyn Display {
        self.inner.display().expect("it has displays")
    }
}

impl Display for Stubborn {
    fn vidpn_paths(&self) -> Vec<VidPnPath> {
        // The kernel asks this of every driver: the answer equals the profiles'.
        vec![VidPnPath { source: VidPnSourceId(0), target: VidPnTargetId(0), refresh_ns: 16_666_667 }]
    }
    fn flip_caps(&self) -> FlipCaps {
        FlipCaps { max_queued_flip_on_vsync: 1, flip_immediate: false }
    }
    fn describe_allocation(&mut self, allocation: KmdAllocation) -> Option<Surface> {
        self.displays().describe_allocation(allocation)
    }
    fn commit_vidpn(&mut self, source: VidPnSourceId, primary: Option<KmdAllocation>) -> Result<(), DriverStatus> {
        self.displays().commit_vidpn(source, primary)
    }
    fn set_vidpn_source_address(&mut self, set: SetVidPnSourceAddress) -> Result<(), DriverStatus> {
        (self.whims.screen)(set)?;
        self.displays().set_vidpn_source_address(set)
    }
    fn set_vidpn_source_visibility(&mut self, source: VidPnSourceId, visible: bool) {
        self.displays().set_vidpn_source_visibility(source, visible);
    }
    fn control_interrupt(&mut self, source: VidPnSourceId, enable: bool) {
        self.displays().control_interrupt(source, enable);
    }
    fn create_periodic_frame_notification(
        &mut self,
        target: VidPnTargetId,
        time_100ns: u64,
        id: NotificationId,
    ) -> Result<KmdNotification, DriverStatus> {
        self.displays().create_periodic_frame_notification(target, time_100ns, id)
    }
    fn destroy_periodic_frame_notification(&mut self, notification: KmdNotification) {
        self.displays().destroy_periodic_frame_notification(notification);
    }
}
