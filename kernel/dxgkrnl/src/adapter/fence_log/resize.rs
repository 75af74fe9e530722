//! Longer logs for a queue that has work queued, and shorter ones when no tool traces any more (sync §3.14, resize). The procedure
//! suspends no context: the kernel maps the queue's new logs and tells the driver of them; it disconnects the doorbell with RETRY, so
//! that the user-mode driver, which finds that out when it has rung, connects again and is told the new addresses; and it leaves the old
//! logs where they are, and reads them, until every command buffer is done that was queued before.

use events::DoorbellTaken;

use super::Names;
use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::QueueNumber;

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
            self.queues[number].logs.replace(logs);
            self.lend_doorbells(cx, |doorbells, lent| doorbells.disconnect(lent, doorbell, DoorbellTaken::Logs));
        }
    }

    /// The process of a queue connects its doorbell: from now on it names the logs that it is told of.
    pub fn logs_known(&mut self, cx: &Cx<'_>, number: QueueNumber) {
        let queue = &mut self.queues[number];
        let Some(queued) = self.doorbells.queued(cx.memory, queue.doorbell) else { return };
        queue.logs.known(queued);
    }

    /// Reads and then frees the logs that no command names any more.
    // spec: sync §3.14 (resize)
    pub(super) fn free_retired_logs(&mut self, cx: &mut Cx<'_>, names: &Names<'_>) {
        let over = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.logs.any_over(|| self.sync.current_value(cx.memory, queue.progress)));
        for number in over.map(|(number, _)| number).collect::<Vec<_>>() {
            let news = self.read_logs(cx, names, &[number]);
            self.heed_logs(cx, &news);
            let (current, process) = (
                self.sync.current_value(cx.memory, self.queues[number].progress),
                self.owners.process_of(self.queues[number].device),
            );
            let over = self.queues[number].logs.take_over(current);
            over.into_iter().for_each(|logs| self.end_logs(cx, process, logs));
        }
    }
}
