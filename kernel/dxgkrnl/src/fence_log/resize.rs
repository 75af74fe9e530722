//! Longer logs for a queue that has work queued, and shorter ones when no tool traces any more (sync §3.14, resize). The procedure
//! suspends no context: the kernel maps the queue's new logs and tells the driver of them; it disconnects the doorbell with RETRY, so
//! that the user-mode driver, which finds that out when it has rung, connects again and is told the new addresses; and it leaves the old
//! logs where they are, and reads them, until every command buffer is done that was queued before.
//!
//! ```text
//!  tracing begins          the process connects again          progress has come to what was queued then
//!  ─────┬──────────────────────────┬──────────────────────────────────┬─────────────
//!       │ commands name the old logs, some still when the new ones are known │ old pages are free
//! ```

use events::DoorbellTaken;

use super::{Names, QueueLogs};
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::QueueNumber;
use crate::sync::LogShape;

/// Logs that a queue had before.
#[derive(Debug)]
pub struct RetiredLogs {
    pub logs: QueueLogs,
    /// Progress of the queue behind which no command names them; `None`: its process does not know the new ones yet.
    until: Option<u64>,
}

impl Adapter {
    /// Gives queues that are there already the logs that a new one would get. One for which memory is short keeps its own.
    // spec: sync §3.14 (resize)
    pub(super) fn resize_logs(&mut self, cx: &mut Cx<'_>) {
        let wanted = self.sync.log_shape();
        let short = self.queues.iter().filter_map(|(number, queue)| {
            let other = |logs: &QueueLogs| (LogShape { logs: logs.pages.logs, pages: logs.pages.run.count }) != wanted;
            let other = queue.logs.as_ref().is_some_and(other);
            queue.doorbell.filter(|_| other).map(|doorbell| (number, doorbell))
        });
        for (number, doorbell) in short.collect::<Vec<_>>() {
            let (kmd, process) = (self.queues[number].kmd, self.owners.process_of(self.queues[number].device));
            let Ok(logs) = self.make_logs(cx, process, kmd) else { continue };
            let queue = &mut self.queues[number];
            let old = queue.logs.replace(logs).expect("it had logs");
            queue.retired_logs.push(RetiredLogs { logs: old, until: None });
            self.lend_doorbells(cx, |doorbells, lent| doorbells.disconnect(lent, doorbell, DoorbellTaken::Logs));
        }
    }

    /// The process of a queue connects its doorbell: from now on it names the logs that it is told of.
    pub fn logs_known(&mut self, cx: &Cx<'_>, number: QueueNumber) {
        let queue = &mut self.queues[number];
        let Some(queued) = self.doorbells.queued(cx.memory, queue.doorbell) else { return };
        for retired in queue.retired_logs.iter_mut().filter(|retired| retired.until.is_none()) {
            retired.until = Some(queued);
        }
    }

    /// Reads and then frees the logs that no command names any more.
    // spec: sync §3.14 (resize)
    pub(super) fn free_retired_logs(&mut self, cx: &mut Cx<'_>, names: &Names<'_>) {
        let over = |number: &QueueNumber| {
            let queue = &self.queues[*number];
            let over = |until: u64| self.sync.current_value(cx.memory, queue.progress) >= until;
            queue.retired_logs.iter().any(|retired| retired.until.is_some_and(over))
        };
        let retired = self.queues.iter().filter(|(_, queue)| !queue.retired_logs.is_empty()).map(|(number, _)| number);
        for number in retired.filter(over).collect::<Vec<_>>() {
            let news = self.read_logs(cx, names, &[number]);
            self.heed_logs(cx, &news);
            let (current, process) = (
                self.sync.current_value(cx.memory, self.queues[number].progress),
                self.owners.process_of(self.queues[number].device),
            );
            let retired = std::mem::take(&mut self.queues[number].retired_logs);
            let (over, kept): (Vec<_>, Vec<_>) =
                retired.into_iter().partition(|retired| retired.until.is_some_and(|until| current >= until));
            self.queues[number].retired_logs = kept;
            over.into_iter().for_each(|retired| self.end_logs(cx, process, retired.logs));
        }
    }
}
