//! The device's queue of flips, as the contract has it. PresentIds are the device's ids, its clock is the adapter's, and it writes the log
//! by itself. It cannot queue an immediate flip behind others: such a flip waits until the queue is empty.

use ddi::{
    DrainNeeded, DriverStatus, FlipQueue, FlipQueueCaps, FlipRefusal, QueueFlip, SetFlipQueueLogBuffer,
    SetVidPnSourceAddressFlags,
};
use softgpu_spec::bus::SYSTEM_BASE;
use softgpu_spec::display as sheet;
use wddm_types::VidPnSourceId;

use crate::driver::SoftGpuKmd;

impl SoftGpuKmd {
    /// Whether flips are queued on the device: with one entry there is no queue (sync §4.6).
    pub(super) fn queues_flips(&self) -> bool {
        self.negotiated.flip_queue && self.flip_queue_caps().max_hw_queued_flips > 1
    }

    /// The entry of a display's log behind the last one that is written.
    pub(super) fn first_free(&self, number: usize) -> u32 {
        self.port.write_register(sheet::DISPLAY_SELECT, number as u64);
        let entries = u64::from(self.outputs[number].log_entries.max(1));
        // CAST: less than the entries.
        (self.port.read_register(sheet::DISPLAY_LOG_COUNT) % entries) as u32
    }

    fn write_display(&self, source: VidPnSourceId, register: u32, value: u64) {
        self.port.write_register(sheet::DISPLAY_SELECT, u64::from(source.0));
        self.port.write_register(register, value);
    }
}

// spec: sync §4.6
impl FlipQueue for SoftGpuKmd {
    fn flip_queue_caps(&self) -> FlipQueueCaps {
        let entries = self.outputs.iter().map(|output| output.queue_entries).min();
        FlipQueueCaps { max_hw_queued_flips: entries.unwrap_or(0) }
    }

    fn set_flip_queue_log_buffer(&mut self, set: SetFlipQueueLogBuffer) -> Result<(), DriverStatus> {
        let (address, entries) = set.buffer.map_or((0, 0), |(address, entries)| (SYSTEM_BASE + address, entries));
        self.output(set.source)?.log_entries = entries;
        self.write_display(set.source, sheet::DISPLAY_LOG_ENTRIES, u64::from(entries));
        self.write_display(set.source, sheet::DISPLAY_LOG, address);
        self.write_display(set.source, sheet::DISPLAY_TOLD_ID, ddi::NO_PRESENT_ID);
        Ok(())
    }

    fn queue_flip(&mut self, flip: QueueFlip) -> Result<(), FlipRefusal> {
        let address = self
            .shown_at(flip.source, flip.allocation, flip.segment, flip.physical_address)
            .map_err(FlipRefusal::Failed)?;
        self.port.write_register(sheet::DISPLAY_SELECT, u64::from(flip.source.0));
        let waiting = self.port.read_register(sheet::DISPLAY_FLIP);
        if flip.flags.contains(SetVidPnSourceAddressFlags::FLIP_IMMEDIATE) && waiting > 0 {
            return Err(FlipRefusal::Retry(DrainNeeded::Plane));
        }
        if waiting >= u64::from(self.outputs[flip.source.0 as usize].queue_entries) {
            return Err(FlipRefusal::Failed(DriverStatus::InvalidParameter("more flips than MaxHwQueuedFlips")));
        }
        // A time of 0 means something else to the device: one flip a blank.
        let time = flip.target_flip_time.max(1);
        self.write_flip(flip.source, address, time, flip.present_id, Some(flip.flags));
        Ok(())
    }

    fn update_flip_queue_log(&mut self, source: VidPnSourceId, _layer: u32) -> u32 {
        match self.output(source) {
            Ok(_) => self.first_free(source.0 as usize),
            Err(_) => 0,
        }
    }

    fn set_interrupt_target_present_id(&mut self, source: VidPnSourceId, _layer: u32, present_id: u64) {
        self.write_display(source, sheet::DISPLAY_TOLD_ID, present_id);
    }

    fn cancel_flips(&mut self, source: VidPnSourceId, _layer: u32, first: u64) -> u64 {
        self.write_display(source, sheet::DISPLAY_CANCEL, first);
        self.port.read_register(sheet::DISPLAY_CANCEL)
    }
}
