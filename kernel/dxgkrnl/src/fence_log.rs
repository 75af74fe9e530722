//! Logs of native fences (sync §3.14): what engines write of the waits and signals of queues that the kernel does not feed, and so does
//! not see. `pages` places the logs, `reader` reads them, `tracing` serves a tool that wants them, `resize` gives a queue longer ones.
//! Nothing here decides which waits are over: `adapter/fence` does.
//!
//! A queue that its process feeds has two, for waits and for signals, and while a tool wants it one of submissions; a queue that the kernel feeds has none, for its waits and
//! signals are the kernel's own. The user-mode driver chooses the entry of each command and never touches the log; the engine writes
//! the entry and then the header.

mod pages;
mod reader;
mod resize;
mod tracing;

use std::sync::atomic::AtomicU64;

use ddi::{KmdQueue, SetNativeFenceLogBuffer};
use kmt_calls::{NativeFenceLogDetail, Refusal};
use shared_words::{Memory, Word, log};
use wddm_types::{GpuVa, PAGE_BYTES, ProcessId};

pub use pages::LogPool;
pub use reader::{LogNews, Names};
pub use resize::RetiredLogs;

use self::pages::LogPages;

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::refusal::from_driver;

/// The logs of a queue.
#[derive(Debug)]
pub struct QueueLogs {
    pub waits: Log,
    pub signals: Log,
    /// While a tool wants it.
    submissions: Option<Log>,
    pages: LogPages,
}

/// One log.
#[derive(Debug)]
pub struct Log {
    /// System address of the buffer.
    at: u64,
    /// Where the queue's process has it.
    va: GpuVa,
    system_va: GpuVa,
    entries: u64,
    /// Entries that the kernel has accounted for.
    read: u64,
    /// The latest time in any of them.
    last_end: u64,
}

impl Log {
    /// An empty log in a buffer: its header is written, its entries mean nothing yet.
    // spec: sync §3.14 (setup 2), sync §6 C5
    fn begin(memory: &Memory, at: u64, va: GpuVa, system_va: GpuVa, entries: u64, log_type: u32) -> Log {
        let word = |offset: u64, value: u64| Word::store(memory.word(at + offset), value);
        word(log::TYPE_OFFSET, u64::from(log_type));
        word(log::ENTRIES_OFFSET, entries);
        word(log::POSITION_OFFSET, 0);
        Log { at, va, system_va, entries, read: 0, last_end: 0 }
    }

    /// Header and entries, as the driver's CPU mapping has them.
    // spec: sync §2.7
    fn words<'a>(&self, memory: &'a Memory) -> &'a [AtomicU64] {
        memory.words(self.at, log::entry_offset(self.entries) / 8)
    }
}

impl QueueLogs {
    /// The user-mode driver's view of the logs.
    // spec: sync §2.9, sync §6 C3
    pub fn detail(&self) -> NativeFenceLogDetail {
        // CAST: a log has fewer entries than its pages have bytes.
        NativeFenceLogDetail {
            wait_entries: self.waits.entries as u32,
            signal_entries: self.signals.entries as u32,
            wait_base: self.waits.va,
            signal_base: self.signals.va,
            submission_entries: self.submissions.as_ref().map_or(0, |log| log.entries as u32),
            submission_base: self.submissions.as_ref().map_or(GpuVa::NULL, |log| log.va),
        }
    }
}

impl Adapter {
    /// The logs of a new queue that its process feeds; the driver has heard of both.
    // spec: sync §3.14
    pub fn make_logs(&mut self, cx: &mut Cx<'_>, process: ProcessId, queue: KmdQueue) -> Result<QueueLogs, Refusal> {
        let pages = self.take_log_pages(cx, process)?;
        let logs = self.begin_logs(cx, pages);
        match self.tell_logs(cx, queue, &logs) {
            Ok(()) => Ok(logs),
            Err(refusal) => {
                self.end_logs(cx, process, logs);
                Err(refusal)
            }
        }
    }

    /// The queue has gone, or was not made: no engine writes into its logs any more.
    pub fn end_logs(&mut self, cx: &mut Cx<'_>, process: ProcessId, logs: QueueLogs) {
        self.give_back_log_pages(cx, process, logs.pages);
    }

    fn begin_logs(&self, cx: &Cx<'_>, pages: LogPages) -> QueueLogs {
        let (bytes, entries) = (pages.log_bytes(), log::entries(pages.log_bytes()));
        let begin = |nth: u64, log_type: u32| {
            let at = pages.run.first * PAGE_BYTES + nth * bytes;
            let (va, system_va) = (pages.va.offset(nth * bytes), pages.system_va.offset(nth * bytes));
            Log::begin(cx.memory, at, va, system_va, entries, log_type)
        };
        let submissions = (pages.logs > 2).then(|| begin(2, log::SUBMISSIONS));
        QueueLogs { waits: begin(0, log::WAITS), signals: begin(1, log::SIGNALS), submissions, pages }
    }

    /// `DxgkDdiSetNativeFenceLogBuffer`, once for each log.
    fn tell_logs(&mut self, cx: &Cx<'_>, queue: KmdQueue, logs: &QueueLogs) -> Result<(), Refusal> {
        let driver = self.driver.call(cx).native_fence_logs().expect("checked at adapter start");
        for log in [&logs.waits, &logs.signals].into_iter().chain(&logs.submissions) {
            // CAST: as above.
            let set = SetNativeFenceLogBuffer {
                queue,
                entries: log.entries as u32,
                log: log.words(cx.memory),
                va: log.va,
                system_va: log.system_va,
            };
            driver.set_log_buffer(set).map_err(from_driver)?;
        }
        Ok(())
    }
}
