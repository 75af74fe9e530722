//! The logs of native fences at work (sync §3.14): `pages` places them, `reader` has what engines wrote taken out of them and says it,
//! `tracing` serves a tool that wants them, `resize` gives a queue longer ones. The logs themselves are `crate::fence_log`.

mod pages;
mod reader;
mod resize;
mod tracing;

pub use reader::{LogNews, Names};

use ddi::KmdQueue;
use kmt_calls::Refusal;
use wddm_types::ProcessId;

use super::Adapter;
use crate::fence_log::QueueLogs;
use crate::machine::Cx;

impl Adapter {
    /// The logs of a new queue that its process feeds; the driver has heard of both.
    // spec: sync §3.14
    pub fn make_logs(&mut self, cx: &mut Cx<'_>, process: ProcessId, queue: KmdQueue) -> Result<QueueLogs, Refusal> {
        let pages = self.take_log_pages(cx, process)?;
        let logs = QueueLogs::begin(cx.memory, pages);
        match logs.tell(self.driver.call(cx), cx.memory, queue) {
            Ok(()) => Ok(logs),
            Err(refusal) => {
                self.end_logs(cx, process, logs);
                Err(refusal)
            }
        }
    }

    /// The queue has gone, or was not made: no engine writes into its logs any more.
    pub fn end_logs(&mut self, cx: &mut Cx<'_>, process: ProcessId, logs: QueueLogs) {
        self.give_back_log_pages(cx, process, logs.end());
    }
}
