//! Scheduling logs (sync §4.2): the device writes whom an engine runs, by the owners that this driver names when it enables queues,
//! which are its handles of contexts. The packets of a node are nobody's: whose are next there is the kernel's own decision.

use ddi::{DriverStatus, KmdContext, SetSchedulingLogBuffer};
use shared_words::{Word, scheduling_log};
use softgpu_spec::{engine, register};

use crate::driver::SoftGpuKmd;

/// Word of the header by its offset.
const ENTRIES: usize = (scheduling_log::ENTRIES_OFFSET / 8) as usize;

/// Of whom the log says nothing.
pub(crate) const NOBODY: KmdContext = KmdContext(0);

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

    /// None does: what lies in memory is not the device's any more.
    pub(crate) fn drop_scheduling_logs(&self) {
        (0..engine::COUNT).for_each(|engine| self.drop_scheduling_log(engine));
    }

    /// Says whose the selected queue is, before it is enabled.
    pub(crate) fn write_owner(&self, context: KmdContext) {
        self.port.write_register(register::QUEUE_OWNER, context.0);
    }
}

#[cfg(test)]
mod tests;
