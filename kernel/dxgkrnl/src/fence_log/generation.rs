//! All logs of a queue: those that it has now, and those that it had before, which commands that are queued still name (sync §3.14,
//! resize). The kernel leaves the old ones where they are, and reads them, until progress has come to what was queued when the queue's
//! process heard of the new ones.
//!
//! ```text
//!  tracing begins          the process connects again          progress has come to what was queued then
//!  ─────┬──────────────────────────┬──────────────────────────────────┬─────────────
//!       │ commands name the old logs, some still when the new ones are known │ old pages are free
//! ```
//! A queue without logs had none before.

use kmt_calls::NativeFenceLogDetail;
use shared_words::Memory;

use super::{Log, LogKind, QueueLogs, Source};
use crate::sync::LogShape;

/// The logs of a queue; none, if the kernel feeds it.
#[derive(Debug)]
pub struct Logs {
    now: Option<QueueLogs>,
    /// The oldest first.
    retired: Vec<RetiredLogs>,
}

/// Logs that a queue had before.
#[derive(Debug)]
struct RetiredLogs {
    logs: QueueLogs,
    /// Progress of the queue behind which no command names them; `None`: its process does not know the new ones yet.
    until: Option<u64>,
}

impl RetiredLogs {
    fn is_over(&self, progress: u64) -> bool {
        self.until.is_some_and(|until| progress >= until)
    }
}

impl Logs {
    /// Of a new queue.
    pub fn new(now: Option<QueueLogs>) -> Logs {
        Logs { now, retired: Vec::new() }
    }

    /// Whether the queue has logs.
    pub fn are_there(&self) -> bool {
        self.now.is_some()
    }

    /// The user-mode driver's view of those that it has now.
    pub fn detail(&self) -> Option<NativeFenceLogDetail> {
        self.now.as_ref().map(QueueLogs::detail)
    }

    /// Whether a new queue would get other logs than it has.
    pub fn differ_from(&self, wanted: LogShape) -> bool {
        self.now.as_ref().is_some_and(|logs| LogShape { logs: logs.pages.logs, pages: logs.pages.run.count } != wanted)
    }

    /// The queue has new logs, and its process does not know them yet.
    pub fn replace(&mut self, logs: QueueLogs) {
        let old = self.now.replace(logs).expect("it had logs");
        self.retired.push(RetiredLogs { logs: old, until: None });
    }

    /// The queue's process knows the new logs from now on, when it has queued so much.
    pub fn known(&mut self, queued: u64) {
        for retired in self.retired.iter_mut().filter(|retired| retired.until.is_none()) {
            retired.until = Some(queued);
        }
    }

    /// Whether it had some before that no command names any more. Few queues had any, so progress is read only for those.
    pub fn any_over(&self, progress: impl Fn() -> u64) -> bool {
        self.retired.iter().any(|retired| retired.until.is_some() && retired.is_over(progress()))
    }

    /// Those, which the queue has no more.
    #[must_use]
    pub fn take_over(&mut self, progress: u64) -> Vec<QueueLogs> {
        let retired = std::mem::take(&mut self.retired);
        let (over, kept) = retired.into_iter().partition::<Vec<_>, _>(|retired| retired.is_over(progress));
        self.retired = kept;
        over.into_iter().map(|retired| retired.logs).collect()
    }

    /// All of a queue that has gone.
    pub fn into_all(self) -> impl Iterator<Item = QueueLogs> {
        self.now.into_iter().chain(self.retired.into_iter().map(|retired| retired.logs))
    }

    /// Whether one of those that it has now is half full of entries that the reader has not accounted for.
    pub fn any_half_full(&self, memory: &Memory) -> bool {
        let half_full = |log: &Log| log.fresh(memory) > log.entries / 2;
        self.now.as_ref().is_some_and(|logs| {
            half_full(&logs.waits) || half_full(&logs.signals) || logs.submissions.as_ref().is_some_and(half_full)
        })
    }

    /// The oldest first.
    pub(super) fn generations(&self) -> impl Iterator<Item = &QueueLogs> {
        self.retired.iter().map(|retired| &retired.logs).chain(&self.now)
    }

    pub(super) fn log_mut(&mut self, source: Source) -> &mut Log {
        let logs = match self.retired.get_mut(source.generation) {
            Some(retired) => &mut retired.logs,
            None => self.now.as_mut().expect("a queue whose log has news"),
        };
        match source.kind {
            LogKind::Waits => &mut logs.waits,
            LogKind::Signals => &mut logs.signals,
            LogKind::Submissions => logs.submissions.as_mut().expect("it has news"),
        }
    }
}
