//! Reads logs (sync §3.14). The reader compares each header with the one that it saw last, has the driver commit the entries of the
//! queues with news, and only then reads them. Every entry is an allegation: the page is the process's, and so is every payload.
//!
//! ```text
//!   total:    before                  new              what the header counts while entries are read: now
//!   ring:   ───┼───────────────────────┼──────────────────┼──▶      `n` entries have room
//!              │◀─ lost ─▶│◀── read ──▶│                  entries below now − n are overwritten, and so are lost too
//! ```
//! `lost` = new − before − n, if that is positive. No engine waits for the reader, so an overrun breaks no rule.
//!
//! Lost wait entries matter to a tool that traces only (sync §6 C12). Lost signal entries matter to the kernel, too: it then looks at all
//! fences of the process that have waiters (`adapter/fence/signaled.rs`), because it does not know which of them the entries named.

use std::collections::{BTreeMap, BTreeSet};

use ddi::KmdQueue;
use events::Event;
use shared_words::{Memory, Word, log};
use wddm_types::{AdapterIndex, ProcessId, RawHandle};

use super::{Log, QueueLogs};
use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::machine::Cx;
use crate::number::{FenceNumber, FenceOpenNumber};
use crate::object::{Object, Process, Queue, QueueNumber};
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

/// An entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    value: u64,
    handle: RawHandle,
    operation: u32,
    observed: u64,
    end: u64,
}

/// Which of a queue's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Waits,
    Signals,
    /// The submissions that have begun.
    Submissions,
}

/// A log that has news: its queue, its kind, and its generation among the queue's logs that are still used.
#[derive(Clone, Copy, Debug)]
struct Source {
    queue: QueueNumber,
    which: Which,
    generation: usize,
}

impl QueueLogs {
    fn of(&self, which: Which) -> Option<&Log> {
        match which {
            Which::Waits => Some(&self.waits),
            Which::Signals => Some(&self.signals),
            Which::Submissions => self.submissions.as_ref(),
        }
    }
}

impl Queue {
    /// Its logs, the retired ones first.
    fn generations(&self) -> impl Iterator<Item = &QueueLogs> {
        self.retired_logs.iter().map(|retired| &retired.logs).chain(&self.logs)
    }

    fn log_mut(&mut self, source: Source) -> &mut Log {
        let logs = match self.retired_logs.get_mut(source.generation) {
            Some(retired) => &mut retired.logs,
            None => self.logs.as_mut().expect("a queue whose log has news"),
        };
        match source.which {
            Which::Waits => &mut logs.waits,
            Which::Signals => &mut logs.signals,
            Which::Submissions => logs.submissions.as_mut().expect("it has news"),
        }
    }
}

impl Log {
    /// How many entries were ever written: both halves of the header by one load.
    fn written(&self, memory: &Memory) -> u64 {
        log::total(Word::load(memory.word(self.at + log::POSITION_OFFSET)), self.entries)
    }

    /// How many entries the reader has not accounted for.
    pub fn fresh(&self, memory: &Memory) -> u64 {
        self.written(memory).saturating_sub(self.read)
    }

    fn entry(&self, memory: &Memory, number: u64) -> Entry {
        let at = self.at + log::entry_offset(number % self.entries);
        let word = |offset: u64| Word::load(memory.word(at + offset));
        let named = word(log::entry::HANDLE_AND_OPERATION);
        // CAST: the two halves of the word.
        let (handle, operation) = (RawHandle(named as u32), (named >> 32) as u32);
        let (value, observed, end) = (word(log::entry::FENCE_VALUE), word(log::entry::OBSERVED), word(log::entry::END));
        Entry { value, handle, operation, observed, end }
    }

    /// The entries from the last reading to `new`, with their numbers, and how many were overwritten before they were read.
    // spec: sync §3.14 (overrun), sync §6 C6
    fn take(&mut self, memory: &Memory, new: u64) -> Taken {
        let before = std::mem::replace(&mut self.read, new);
        // A header that goes back is the process's doing, and tells nothing but that.
        let Some(fresh) = new.checked_sub(before) else { return Taken { complete: false, ..Taken::default() } };
        let first = before + fresh.saturating_sub(self.entries);
        let mut entries: Vec<(u64, Entry)> = (first..new).map(|number| (number, self.entry(memory, number))).collect();
        let now = self.written(memory);
        // The engine went on meanwhile, and may be writing the entry behind the last that it has counted.
        entries.retain(|(number, _)| now == new || number + self.entries > now);
        let lost = fresh - entries.len() as u64;
        // Of a log that is exactly full the oldest entry may be the one that is being written.
        Taken { entries, lost, complete: lost == 0 && fresh < self.entries }
    }
}

/// Entries taken from a log.
#[derive(Debug, Default)]
struct Taken {
    entries: Vec<(u64, Entry)>,
    lost: u64,
    /// Everything that was written is here as it was written.
    complete: bool,
}

impl Adapter {
    /// Reads what is new in the logs of these queues; those without logs have nothing to say.
    // spec: sync §3.14 (consumer)
    pub fn read_logs(&mut self, cx: &mut Cx<'_>, names: &Names<'_>, queues: &[QueueNumber]) -> LogNews {
        let mut news = LogNews::default();
        if self.life.is_off() || self.life.has_stopped() {
            return news;
        }
        let fresh: Vec<(Source, u64)> = queues.iter().flat_map(|queue| self.fresh_logs(cx, *queue)).collect();
        let mut named: Vec<KmdQueue> = fresh.iter().map(|(source, _)| self.queues[source.queue].kmd).collect();
        named.dedup();
        if named.is_empty() {
            return news;
        }
        let driver = self.driver.call(cx).native_fence_logs().expect("checked at adapter start");
        let updated = driver.update_logs(&named);
        let updated = updated.map_err(|status| Breach(format!("UpdateNativeFenceLogs failed: {status}")));
        if self.heed(cx, updated).is_none() {
            return news;
        }
        for (source, new) in fresh {
            self.read_log(cx, names, source, new, &mut news);
        }
        news
    }

    /// Logs of a queue whose header is another than the one that was seen last, with what it counts now.
    fn fresh_logs(&self, cx: &Cx<'_>, queue: QueueNumber) -> Vec<(Source, u64)> {
        let Some(known) = self.queues.get(queue) else { return Vec::new() };
        let all = [Which::Signals, Which::Waits, Which::Submissions];
        let which = if self.sync.is_traced() { &all[..] } else { &all[..1] };
        let mut fresh = Vec::new();
        for (generation, logs) in known.generations().enumerate() {
            for which in which.iter().copied() {
                let Some(log) = logs.of(which) else { continue };
                let new = log.written(cx.memory);
                if new != log.read {
                    fresh.push((Source { queue, which, generation }, new));
                }
            }
        }
        fresh
    }

    fn read_log(&mut self, cx: &mut Cx<'_>, names: &Names<'_>, of: Source, new: u64, news: &mut LogNews) {
        let Source { queue: number, which, .. } = of;
        let queue = &mut self.queues[number];
        let process = self.owners.process_of(queue.device);
        let taken = queue.log_mut(of).take(cx.memory, new);
        if which == Which::Signals {
            news.spoken.insert(number);
            if !taken.complete {
                news.incomplete.insert(process);
            }
        }
        // spec: sync §3.14: lost events matter to a tool
        if taken.lost > 0 && self.sync.is_traced() {
            cx.emit(
                self.index,
                match which {
                    Which::Submissions => Event::SubmissionLogOverrun { queue: number.raw(), lost: taken.lost },
                    _ => Event::FenceLogOverrun { queue: number.raw(), waits: which == Which::Waits, lost: taken.lost },
                },
            );
        }
        for (position, entry) in taken.entries {
            self.check_time(cx, of, entry.end);
            let Some(fence) = self.fence_of_entry(names, process, which, entry) else {
                cx.emit(
                    self.index,
                    Event::FenceLogEntryIgnored { queue: number.raw(), waits: which == Which::Waits, position },
                );
                continue;
            };
            let Entry { value, observed, end, .. } = entry;
            match which {
                Which::Waits => cx.emit(
                    self.index,
                    Event::FenceWaitUnblocked { queue: number.raw(), fence: fence.raw(), value, observed, end },
                ),
                Which::Submissions => {
                    cx.emit(self.index, Event::SubmissionBegun { queue: number.raw(), value, at: end })
                }
                Which::Signals => {
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
    fn fence_of_entry(&self, names: &Names<'_>, process: ProcessId, which: Which, entry: Entry) -> Option<FenceNumber> {
        let operation = match which {
            Which::Waits => log::WAIT_UNBLOCKED,
            Which::Signals => log::SIGNAL_EXECUTED,
            Which::Submissions => log::SUBMISSION_BEGUN,
        };
        let open = names.open(self.index, process, entry.handle).filter(|_| entry.operation == operation)?;
        self.sync.driver_fence_of(open)
    }

    /// Times of one log never go back; 0 is no time, and a time may repeat. The page is the process's, so the kernel reports a wrong time
    /// and goes on.
    // spec: sync §3.14
    fn check_time(&mut self, cx: &mut Cx<'_>, of: Source, end: u64) {
        let Source { queue: number, which, .. } = of;
        let log = self.queues[number].log_mut(of);
        let before = log.last_end;
        if end != 0 && end < before {
            cx.emit(
                self.index,
                Event::FenceLogTimeReversed { queue: number.raw(), waits: which == Which::Waits, before, end },
            );
        }
        log.last_end = before.max(end);
    }
}

#[cfg(test)]
mod tests;
