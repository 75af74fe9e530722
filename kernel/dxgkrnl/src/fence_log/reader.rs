//! Takes entries out of logs (sync §3.14). The reader compares each header with the one that it saw last, has the driver commit the entries
//! of the queues with news, and only then takes them. Every entry is an allegation: the page is the process's, and so is every payload.
//!
//! ```text
//!   total:    before                  new              what the header counts while entries are read: now
//!   ring:   ───┼───────────────────────┼──────────────────┼──▶      `n` entries have room
//!              │◀─ lost ─▶│◀── read ──▶│                  entries below now − n are overwritten, and so are lost too
//! ```
//! `lost` = new − before − n, if that is positive. No engine waits for the reader, so an overrun breaks no rule.

use shared_words::{Memory, Word, log};
use wddm_types::RawHandle;

use super::{Log, Logs, QueueLogs};

/// An entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub value: u64,
    pub handle: RawHandle,
    operation: u32,
    pub observed: u64,
    pub end: u64,
}

impl Entry {
    /// Whether it speaks of what this log is for.
    // spec: sync §3.14 (validation)
    pub fn is_of(&self, kind: LogKind) -> bool {
        self.operation
            == match kind {
                LogKind::Waits => log::WAIT_UNBLOCKED,
                LogKind::Signals => log::SIGNAL_EXECUTED,
                LogKind::Submissions => log::SUBMISSION_BEGUN,
            }
    }
}

/// Which of a queue's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    Waits,
    Signals,
    /// The submissions that have begun.
    Submissions,
}

/// A log that has news: its kind, and its generation among the queue's logs that are still used.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub kind: LogKind,
    pub(super) generation: usize,
}

impl QueueLogs {
    fn of(&self, kind: LogKind) -> Option<&Log> {
        match kind {
            LogKind::Waits => Some(&self.waits),
            LogKind::Signals => Some(&self.signals),
            LogKind::Submissions => self.submissions.as_ref(),
        }
    }
}

impl Logs {
    /// The logs whose header is another than the one that was seen last, with what it counts now: those of signals, and all while a tool
    /// traces.
    pub fn fresh(&self, memory: &Memory, traced: bool) -> Vec<(Source, u64)> {
        let all = [LogKind::Signals, LogKind::Waits, LogKind::Submissions];
        let kinds = if traced { &all[..] } else { &all[..1] };
        let mut fresh = Vec::new();
        for (generation, logs) in self.generations().enumerate() {
            for kind in kinds.iter().copied() {
                let Some(log) = logs.of(kind) else { continue };
                let new = log.written(memory);
                if new != log.read {
                    fresh.push((Source { kind, generation }, new));
                }
            }
        }
        fresh
    }

    /// The entries of a log up to `new`, which its header counted.
    pub fn take(&mut self, memory: &Memory, source: Source, new: u64) -> Taken {
        self.log_mut(source).take(memory, new)
    }

    /// Notes the time of an entry. Times of one log never go back; 0 is no time, and a time may repeat. Answers with the time before, if
    /// this one is earlier.
    // spec: sync §3.14
    pub fn note_time(&mut self, source: Source, end: u64) -> Option<u64> {
        let log = self.log_mut(source);
        let before = log.last_end;
        log.last_end = before.max(end);
        (end != 0 && end < before).then_some(before)
    }
}

impl Log {
    /// How many entries were ever written: both halves of the header by one load.
    fn written(&self, memory: &Memory) -> u64 {
        log::total(Word::load(memory.word(self.at + log::POSITION_OFFSET)), self.entries)
    }

    /// How many entries the reader has not accounted for.
    pub(super) fn fresh(&self, memory: &Memory) -> u64 {
        self.written(memory).saturating_sub(self.read)
    }

    /// The nth entry of all that were ever written.
    fn entry(&self, memory: &Memory, nth: u64) -> Entry {
        let at = self.at + log::entry_offset(nth % self.entries);
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
        debug_assert!(entries.len() as u64 <= fresh.min(self.entries), "{} of {fresh} are read", entries.len());
        let lost = fresh - entries.len() as u64;
        // Of a log that is exactly full the oldest entry may be the one that is being written.
        Taken { entries, lost, complete: lost == 0 && fresh < self.entries }
    }
}

/// Entries taken from a log.
#[derive(Debug, Default)]
pub struct Taken {
    /// With their numbers, in their order.
    pub entries: Vec<(u64, Entry)>,
    /// Entries that were overwritten before they were read.
    pub lost: u64,
    /// Everything that was written is here as it was written.
    pub complete: bool,
}

#[cfg(test)]
mod tests;
