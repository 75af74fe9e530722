//! Logs of native fences (sync §3.14): what engines write of the waits and signals of queues that the kernel does not feed, and so does
//! not see. [`Log`] is one, [`QueueLogs`] are those of a queue at a time, [`Logs`] all that it has; `reader` takes entries out of them,
//! [`LogPool`] keeps the pages of a process's logs. Nothing here decides which waits are over, takes memory, or knows who is told of an
//! entry: `adapter/fence_log` brings pages and carries out what the reader finds, and `adapter/fence` ends waits.
//!
//! A queue that its process feeds has two, for waits and for signals, and while a tool wants it one of submissions; a queue that the kernel
//! feeds has none, for its waits and signals are the kernel's own. The user-mode driver chooses the entry of each command and never touches
//! the log; the engine writes the entry and then the header.

mod generation;
mod pages;
mod reader;

use std::sync::atomic::AtomicU64;

use ddi::{KmdQueue, SetNativeFenceLogBuffer};
use kmt_calls::{NativeFenceLogDetail, Refusal};
use shared_words::{Memory, Word, log};
use wddm_types::{GpuVa, PAGE_BYTES};

pub use generation::Logs;
pub use pages::{LogPages, LogPool};
pub use reader::{Entry, LogKind, Source};

use crate::driver::EntryPoints;
use crate::refusal::from_driver;

/// The logs of a queue at a time.
#[derive(Debug)]
pub struct QueueLogs {
    waits: Log,
    signals: Log,
    /// While a tool wants it.
    submissions: Option<Log>,
    pages: LogPages,
}

/// One log.
#[derive(Debug)]
struct Log {
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
    /// Empty logs on these pages.
    pub fn begin(memory: &Memory, pages: LogPages) -> QueueLogs {
        let (bytes, entries) = (pages.log_bytes(), log::entries(pages.log_bytes()));
        let begin = |nth: u64, log_type: u32| {
            let at = pages.run.first * PAGE_BYTES + nth * bytes;
            let (va, system_va) = (pages.va.offset(nth * bytes), pages.system_va.offset(nth * bytes));
            Log::begin(memory, at, va, system_va, entries, log_type)
        };
        let submissions = (pages.logs > 2).then(|| begin(2, log::SUBMISSIONS));
        QueueLogs { waits: begin(0, log::WAITS), signals: begin(1, log::SIGNALS), submissions, pages }
    }

    /// `DxgkDdiSetNativeFenceLogBuffer`, once for each log.
    ///
    /// # Errors
    /// The driver's.
    pub fn tell(&self, driver: EntryPoints<'_>, memory: &Memory, queue: KmdQueue) -> Result<(), Refusal> {
        let driver = driver.native_fence_logs().expect("checked at adapter start");
        for log in [&self.waits, &self.signals].into_iter().chain(&self.submissions) {
            // CAST: as below.
            let set = SetNativeFenceLogBuffer {
                queue,
                entries: log.entries as u32,
                log: log.words(memory),
                va: log.va,
                system_va: log.system_va,
            };
            driver.set_log_buffer(set).map_err(from_driver)?;
        }
        Ok(())
    }

    /// The pages of logs that no engine writes into any more.
    pub fn end(self) -> LogPages {
        self.pages
    }

    /// The user-mode driver's view of the logs.
    // spec: sync §2.9, sync §6 C3
    fn detail(&self) -> NativeFenceLogDetail {
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
