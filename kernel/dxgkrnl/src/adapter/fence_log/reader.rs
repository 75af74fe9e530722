//! Reads logs (sync §3.14): has the driver commit the entries of the queues with news, takes them out of the logs (`fence_log`), and says what
//! they tell: to a tool at once, to the fences by [`LogNews`].
//!
//! Lost wait entries matter to a tool that traces only (sync §6 C12). Lost signal entries matter to the kernel, too: it then looks at all
//! fences of the process that have waiters (`adapter/fence/signaled.rs`), because it does not know which of them the entries named.

use std::collections::{BTreeMap, BTreeSet};

use ddi::KmdQueue;
use events::Event;
use wddm_types::{AdapterIndex, ProcessId, RawHandle};

use crate::adapter::Adapter;
use crate::due::{DriverRefusal, RefusedWork, Verdict};
use crate::effect::Cx;
use crate::fence_log::{Entry, LogKind, Source};
use crate::number::{FenceNumber, FenceOpenNumber, QueueNumber};
use crate::object::Object;
use crate::process::Process;
use crate::store::ObjectNumber;

/// The processes, by whose names entries call fences.
pub struct Names<'a>(pub &'a BTreeMap<ProcessId, Process>);

impl Names<'_> {
    /// The open that a process's handle of a fence of this adapter names.
    fn open(&self, adapter: AdapterIndex, process: ProcessId, handle: RawHandle) -> Option<FenceOpenNumber> {
        match self.0.get(&process)?.handles.get(handle)? {
            Object::Fence(index, open) if *index == adapter => Some(*open),
            _ => None,
        }
    }
}

/// The news of logs. The reader reports nothing twice.
#[derive(Debug, Default)]
#[must_use]
pub struct LogNews {
    /// Fences and the values that signals have brought them to, in the order of the entries; a value may appear twice.
    pub signalled: Vec<(FenceNumber, u64)>,
    /// Processes some of whose signals are not among these.
    pub incomplete: BTreeSet<ProcessId>,
    /// Queues whose signal log had something new.
    pub spoken: BTreeSet<QueueNumber>,
}

impl Adapter {
    /// Reads what is new in the logs of these queues; those without logs have nothing to say.
    // spec: sync §3.14 (consumer)
    pub(in crate::adapter) fn read_logs(
        &mut self,
        cx: &mut Cx<'_>,
        names: &Names<'_>,
        queues: &[QueueNumber],
    ) -> LogNews {
        let mut news = LogNews::default();
        if self.life.is_off() || self.life.has_stopped() {
            return news;
        }
        let fresh: Vec<(QueueNumber, Source, u64)> =
            queues.iter().flat_map(|queue| self.fresh_logs(cx, *queue)).collect();
        let mut named: Vec<KmdQueue> = fresh.iter().map(|(queue, ..)| self.queues[*queue].kmd).collect();
        named.dedup();
        if named.is_empty() {
            return news;
        }
        let driver = self.driver.call(cx).native_fence_logs().expect("checked at adapter start");
        let updated = driver.update_logs(&named);
        if let Err(status) = updated {
            let nodes = fresh.iter().map(|(queue, ..)| self.queues.node_of(*queue));
            let verdict = Verdict::Stop(format!("UpdateNativeFenceLogs failed: {status}"));
            self.due.refused(DriverRefusal::new(RefusedWork::Logs, None, nodes, verdict));
            return news;
        }
        for (queue, source, new) in fresh {
            self.read_log(cx, names, (queue, source), new, &mut news);
        }
        news
    }

    /// Logs of a queue with news, with what each counts now.
    fn fresh_logs(&self, cx: &Cx<'_>, queue: QueueNumber) -> Vec<(QueueNumber, Source, u64)> {
        let Some(known) = self.queues.get(queue) else { return Vec::new() };
        let fresh = known.logs.fresh(cx.memory, self.sync.is_traced());
        fresh.into_iter().map(|(source, new)| (queue, source, new)).collect()
    }

    fn read_log(
        &mut self,
        cx: &mut Cx<'_>,
        names: &Names<'_>,
        (number, source): (QueueNumber, Source),
        new: u64,
        news: &mut LogNews,
    ) {
        let kind = source.kind;
        let process = self.owners.process_of(self.queues[number].device);
        let taken = self.queues.logs(number).take(cx.memory, source, new);
        if kind == LogKind::Signals {
            news.spoken.insert(number);
            if !taken.complete {
                news.incomplete.insert(process);
            }
        }
        // spec: sync §3.14: lost events matter to a tool
        if taken.lost > 0 && self.sync.is_traced() {
            cx.emit(
                self.index,
                match kind {
                    LogKind::Submissions => Event::SubmissionLogOverrun { queue: number.raw(), lost: taken.lost },
                    _ => {
                        Event::FenceLogOverrun { queue: number.raw(), waits: kind == LogKind::Waits, lost: taken.lost }
                    }
                },
            );
        }
        for (position, entry) in taken.entries {
            self.check_time(cx, number, source, entry.end);
            let Some(fence) = self.fence_of_entry(names, process, kind, entry) else {
                cx.emit(
                    self.index,
                    Event::FenceLogEntryIgnored { queue: number.raw(), waits: kind == LogKind::Waits, position },
                );
                continue;
            };
            let Entry { value, observed, end, .. } = entry;
            match kind {
                LogKind::Waits => cx.emit(
                    self.index,
                    Event::FenceWaitUnblocked { queue: number.raw(), fence: fence.raw(), value, observed, end },
                ),
                LogKind::Submissions => {
                    cx.emit(self.index, Event::SubmissionBegun { queue: number.raw(), value, at: end })
                }
                LogKind::Signals => {
                    cx.emit(
                        self.index,
                        Event::FenceSignalExecuted { queue: number.raw(), fence: fence.raw(), value, end },
                    );
                    news.signalled.push((fence, value));
                }
            }
        }
    }

    /// The fence that an entry speaks of; none for an entry of another kind. The handle means what it means in the queue's own process.
    // spec: sync §3.14 (validation)
    fn fence_of_entry(
        &self,
        names: &Names<'_>,
        process: ProcessId,
        kind: LogKind,
        entry: Entry,
    ) -> Option<FenceNumber> {
        let open = names.open(self.index, process, entry.handle).filter(|_| entry.is_of(kind))?;
        self.sync.driver_fence_of(open)
    }

    /// The page is the process's, so the kernel reports a time that goes back, and goes on.
    // spec: sync §3.14
    fn check_time(&mut self, cx: &mut Cx<'_>, number: QueueNumber, source: Source, end: u64) {
        if let Some(before) = self.queues.logs(number).note_time(source, end) {
            let waits = source.kind == LogKind::Waits;
            cx.emit(self.index, Event::FenceLogTimeReversed { queue: number.raw(), waits, before, end });
        }
    }
}
