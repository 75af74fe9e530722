//! Logs of native fences (sync §2.7, §3.14). The command that writes an entry names its place, and the
//! user-mode driver has the place from the kernel: so this driver keeps only that a queue has logs, and serves a reader only with
//! the device's barrier.

use ddi::{DriverStatus, KmdQueue, LOG_HEADER_WORDS, NativeFenceLogs, SetNativeFenceLogBuffer};
use shared_words::{Word, log};
use softgpu_spec::register::{self, queue_control};

use crate::driver::SoftGpuKmd;
use crate::queues::{QueueStage, Ring};

/// The logs that the kernel has given a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Logged {
    waits: bool,
    signals: bool,
}

/// Words of the header by their offsets (sync §2.7).
const TYPE: usize = (log::TYPE_OFFSET / 8) as usize;
const ENTRIES: usize = (log::ENTRIES_OFFSET / 8) as usize;

impl NativeFenceLogs for SoftGpuKmd {
    // spec: sync §2.7, sync §3.14
    fn set_log_buffer(&mut self, set: SetNativeFenceLogBuffer<'_>) -> Result<(), DriverStatus> {
        let refused = |rule| Err(DriverStatus::InvalidParameter(rule));
        let Some(queue) = self.queues.handles.get_mut(set.queue.0) else {
            return refused("no such hardware queue");
        };
        if !matches!(queue.ring, Ring::User(_)) {
            return refused("a queue that the kernel feeds has no logs");
        }
        if set.log.len() < LOG_HEADER_WORDS
            || Word::load(&set.log[ENTRIES]) != u64::from(set.entries)
            || set.entries == 0
        {
            return refused("a log's header and the call say how many entries it has");
        }
        match u32::try_from(Word::load(&set.log[TYPE])) {
            Ok(log::WAITS) => queue.logged.waits = true,
            Ok(log::SIGNALS) => queue.logged.signals = true,
            Ok(log::SUBMISSIONS) if self.verbose_logs => {}
            _ => return refused("a log is of waits or of signals"),
        }
        Ok(())
    }

    fn set_verbose_logs(&mut self, on: bool) {
        self.verbose_logs = on;
    }

    // spec: sync §2.7, sync §3.14
    fn update_logs(&mut self, queues: &[KmdQueue]) -> Result<(), DriverStatus> {
        for handle in queues {
            let queue = self.queues.handles.get(handle.0).ok_or(DriverStatus::InvalidParameter("no such queue"))?;
            if queue.logged != (Logged { waits: true, signals: true }) {
                return Err(DriverStatus::InvalidParameter("a queue without its logs"));
            }
            // The device writes entries only for queues that it knows.
            if queue.state == QueueStage::Enabled {
                self.port.write_register(register::QUEUE_SELECT, u64::from(queue.index));
                self.port.write_register(register::QUEUE_CONTROL, queue_control::COMMIT);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
