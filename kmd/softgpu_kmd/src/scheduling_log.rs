//! Scheduling logs (sync §4.2): the device writes which owner an engine runs. This driver names the owner, its handle of the context,
//! when it enables a queue. The rings of packets have the owner [`NO_OWNER`]: the kernel itself decides which packet is next.

use ddi::{DriverStatus, KmdContext, SetSchedulingLogBuffer};
use shared_words::{Word, scheduling_log};
use softgpu_spec::{engine, register};

use crate::driver::SoftGpuKmd;

/// Word of the header by its offset.
const ENTRIES: usize = (scheduling_log::ENTRIES_OFFSET / 8) as usize;

/// The owner of a ring of packets: the log has no entries for it.
pub(crate) const NO_OWNER: KmdContext = KmdContext(0);

impl SoftGpuKmd {
    // spec: sync §4.2
    pub(crate) fn set_scheduling_log(&mut self, set: SetSchedulingLogBuffer<'_>) -> Result<(), DriverStatus> {
        let refused = |rule| Err(DriverStatus::InvalidParameter(rule));
        if u32::from(set.node.0) >= engine::COUNT || set.engine.0 != 0 {
            return refused("no such engine");
        }
        let Some(buffer) = set.buffer else {
            self.drop_scheduling_log(u32::from(set.node.0));
            return Ok(());
        };
        if Word::load(buffer.header[ENTRIES]) != u64::from(buffer.entries) || buffer.entries == 0 {
            return refused("a log's header and the call say how many entries it has");
        }
        for (register, value) in [
            (register::SCHEDULING_LOG_ENGINE, u64::from(set.node.0)),
            (register::SCHEDULING_LOG_ADDRESS, buffer.va.0),
            (register::SCHEDULING_LOG_ENTRIES, u64::from(buffer.entries)),
            (register::SCHEDULING_LOG_INTERRUPT, u64::from(buffer.interrupt_entry)),
            (register::SCHEDULING_LOG_CONTROL, 1),
        ] {
            self.port.write_register(register, value);
        }
        match self.port.read_register(register::SCHEDULING_LOG_CONTROL) {
            1 => Ok(()),
            _ => refused("the device cannot write where the log is to be"),
        }
    }

    /// An engine writes no log any more.
    pub(crate) fn drop_scheduling_log(&self, engine: u32) {
        self.port.write_register(register::SCHEDULING_LOG_ENGINE, u64::from(engine));
        self.port.write_register(register::SCHEDULING_LOG_CONTROL, 0);
    }

    /// No engine writes a log any more: the kernel may reuse the memory of the buffers.
    pub(crate) fn drop_scheduling_logs(&self) {
        (0..engine::COUNT).for_each(|engine| self.drop_scheduling_log(engine));
    }

    /// Writes the owner of the selected queue, before the driver enables it.
    pub(crate) fn write_owner(&self, context: KmdContext) {
        self.port.write_register(register::QUEUE_OWNER, context.0);
    }
}

#[cfg(test)]
mod tests;
