//! The logs of native fences at work (sync §3.14): their pages come out of the kernel's own system memory, and are mapped in the queue's
//! process and in the paging process, both read/write. `reader` has what engines wrote taken out of them and says it,
//! `tracing` serves a tool that wants them. The logs themselves are `crate::fence_log`.

mod reader;
mod tracing;

pub use reader::{LogNews, Names};

use ddi::KmdQueue;
use events::DoorbellTaken;
use kmt_calls::Refusal;
use wddm_types::{PAGE_BYTES, Pages, ProcessId};

use super::Adapter;
use crate::effect::Cx;
use crate::fence_log::{LogPages, LogPool, QueueLogs};
use crate::number::QueueNumber;
use crate::refusal::no_memory;

impl Adapter {
    /// The logs of a new queue that its process feeds; the driver has heard of both.
    // spec: sync §3.14
    pub(super) fn make_logs(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        queue: KmdQueue,
    ) -> Result<QueueLogs, Refusal> {
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
    pub(super) fn end_logs(&mut self, cx: &mut Cx<'_>, process: ProcessId, logs: QueueLogs) {
        self.give_back_log_pages(cx, process, logs.end());
    }

    /// Pages for two logs of 4 KB each, or for more and longer ones while a tool traces.
    // spec: sync §3.14 (setup 1), sync §2.7
    fn take_log_pages(&mut self, cx: &mut Cx<'_>, process: ProcessId) -> Result<LogPages, Refusal> {
        let shape = self.sync.log_shape();
        if let Some(pages) = self.queues.log_pages(process).take(shape) {
            return Ok(pages);
        }
        let pages = LogPages { logs: shape.logs, ..self.map_log_pages(cx, process, shape.pages)? };
        self.queues.log_pages(process).add(pages);
        Ok(pages)
    }

    fn map_log_pages(&mut self, cx: &mut Cx<'_>, process: ProcessId, count: Pages) -> Result<LogPages, Refusal> {
        let run = self.take_kernel_pages(cx, count).ok_or_else(|| no_memory("no system memory left for fence logs"))?;
        // Another owner's bytes there are not for this process.
        cx.memory.fill(run.first * PAGE_BYTES, run.count.bytes(), 0);
        let (system, space) = (self.owners.space_of(ProcessId::SYSTEM), self.owners.space_of(process));
        let mapped = self.map_pages(cx, system, run, true).and_then(|system_va| {
            let va = self.map_pages(cx, space, run, true);
            if va.is_err() {
                self.defer_system_mapping(system_va, count);
            }
            Ok((va?, system_va))
        });
        let (va, system_va) = match mapped {
            Ok(addresses) => addresses,
            Err(refusal) => {
                self.defer_pages(run);
                return Err(refusal);
            }
        };
        let mapped_at = self.memory.ring.queued();
        self.sync.mapped_at(process, mapped_at);
        Ok(LogPages { run, va, system_va, logs: 1 })
    }

    /// Keeps the pages for the process's next queue. Pages that are more than queues get now, because a tool has gone, are free again
    /// when the paging ring has got past every use of them.
    // spec: sync §3.14 (re-creation)
    fn give_back_log_pages(&mut self, cx: &mut Cx<'_>, process: ProcessId, pages: LogPages) {
        let wanted = self.sync.log_shape().pages;
        if pages.run.count <= wanted || self.life.has_stopped() {
            self.queues.log_pages(process).give_back(pages);
            return;
        }
        self.queues.log_pages(process).remove(pages);
        let space = self.owners.space_of(process);
        self.unmap_pages(cx, space, pages.va, pages.run.count);
        self.defer_system_mapping(pages.system_va, pages.run.count);
        self.defer_pages(pages.run);
    }

    /// Gives the pages of a process back that has gone, when the paging ring has got past every use of them.
    pub(super) fn release_logs(&mut self, pool: LogPool) {
        for pages in pool.into_all() {
            self.defer_system_mapping(pages.system_va, pages.run.count);
            self.defer_pages(pages.run);
        }
    }
}

/// Longer logs for a queue that has work queued, and shorter ones when no tool traces any more (sync §3.14, resize). The procedure
/// suspends no context: the kernel maps the queue's new logs and tells the driver of them; it disconnects the doorbell with RETRY, so
/// that the user-mode driver, which finds that out when it has rung, connects again and is told the new addresses; and it leaves the old
/// logs where they are, and reads them, until every command buffer is done that was queued before.
impl Adapter {
    /// Gives queues that are there already the logs that a new one would get. One for which memory is short keeps its own.
    // spec: sync §3.14 (resize)
    pub(super) fn resize_logs(&mut self, cx: &mut Cx<'_>) {
        let wanted = self.sync.log_shape();
        let short = self.queues.iter().filter_map(|(number, queue)| {
            let other = queue.logs.differ_from(wanted);
            queue.doorbell.filter(|_| other).map(|doorbell| (number, doorbell))
        });
        for (number, doorbell) in short.collect::<Vec<_>>() {
            let (kmd, process) = (self.queues[number].kmd, self.owners.process_of(self.queues[number].device));
            let Ok(logs) = self.make_logs(cx, process, kmd) else { continue };
            self.queues.logs(number).replace(logs);
            self.lend_doorbells(cx, |doorbells, lent| doorbells.disconnect(lent, doorbell, DoorbellTaken::Logs));
        }
    }

    /// The process of a queue connects its doorbell: from now on it names the logs that it is told of.
    pub(super) fn logs_known(&mut self, cx: &Cx<'_>, number: QueueNumber) {
        let Some(queued) = self.doorbells.queued(cx.memory, self.queues[number].doorbell) else { return };
        self.queues.logs(number).known(queued);
    }

    /// Reads and then frees the logs that no command names any more.
    // spec: sync §3.14 (resize)
    pub(super) fn free_retired_logs(&mut self, cx: &mut Cx<'_>, names: &Names<'_>) {
        let over = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.logs.any_over(|| self.sync.current_value(cx.memory, queue.progress)));
        for number in over.map(|(number, _)| number).collect::<Vec<_>>() {
            // Their pages go behind works.
            self.touch();
            let news = self.read_logs(cx, names, &[number]);
            self.heed_logs(cx, &news);
            let (current, process) = (
                self.sync.current_value(cx.memory, self.queues[number].progress),
                self.owners.process_of(self.queues[number].device),
            );
            let over = self.queues.logs(number).take_over(current);
            over.into_iter().for_each(|logs| self.end_logs(cx, process, logs));
        }
    }
}
