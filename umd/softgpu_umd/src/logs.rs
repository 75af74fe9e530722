//! The logs of waits and signals of a queue that this process feeds (sync §3.14). The driver cannot read a log, and need not:
//! it counts the entries that it has given out, and each command says which one it writes; the GPU advances the log's header. Entries
//! are used in their order, over and over: the GPU overwrites the oldest entry without waiting for the kernel to read it.

use d3dkmt::{Fence, NativeFenceLogDetail};
use shared_words::log;
use softgpu_spec::{Command, LogSlot};
use wddm_types::{GpuVa, RawHandle};

use crate::gpu::UmdError;

/// A native fence as commands name it: where its words are, and the handle that entries of logs bear.
#[derive(Clone, Copy, Debug)]
pub struct FenceName {
    /// Its handle in this process.
    pub handle: RawHandle,
    /// GPU address of CurrentValue.
    pub current: GpuVa,
    /// GPU address of MonitoredValue; null for a monitored fence.
    pub monitored: GpuVa,
}

impl From<&Fence> for FenceName {
    fn from(fence: &Fence) -> FenceName {
        FenceName { handle: fence.handle(), current: fence.current_va(), monitored: fence.monitored_va() }
    }
}

impl FenceName {
    /// Whether it is a native fence: a monitored one has no MonitoredValue.
    // spec: sync §1.2, sync §5
    pub(crate) fn check_native(&self) -> Result<(), UmdError> {
        match self.monitored.is_null() {
            true => Err(UmdError::NotNative(self.current.0)),
            false => Ok(()),
        }
    }

    /// Whether a signal by this name can wake a waiter.
    pub(crate) fn check(&self) -> Result<(), UmdError> {
        match self.current == self.monitored {
            true => Err(UmdError::MonitorsItself(self.current.0)),
            false => Ok(()),
        }
    }
}

/// Both logs of a queue.
#[derive(Debug)]
pub(crate) struct Logs {
    pub(crate) waits: LogCursor,
    pub(crate) signals: LogCursor,
    /// The log of begun submissions, while a tool wants it.
    pub(crate) submissions: Option<LogCursor>,
}

impl Logs {
    /// The logs of a new queue: they have no entry yet.
    pub(crate) fn of(detail: NativeFenceLogDetail) -> Logs {
        let cursor = |base, entries: u32| LogCursor { base, entries: u64::from(entries), given: 0 };
        Logs {
            waits: cursor(detail.wait_base, detail.wait_entries),
            signals: cursor(detail.signal_base, detail.signal_entries),
            submissions: (detail.submission_entries != 0)
                .then(|| cursor(detail.submission_base, detail.submission_entries)),
        }
    }

    /// The doorbell is connected again, and the kernel has named the queue's logs once more. A log that the queue had before keeps its
    /// entries, and its header goes on: the driver goes on behind the last entry that it gave out. The kernel keeps the pages of a
    /// log until the process has been told of the next one, so a log at the same place is the same log.
    // spec: sync §3.14 (producer, resize)
    pub(crate) fn reconnected(&mut self, detail: NativeFenceLogDetail) {
        let before = std::mem::replace(self, Logs::of(detail));
        self.waits.go_on_from(&before.waits);
        self.signals.go_on_from(&before.signals);
        if let (Some(submissions), Some(before)) = (&mut self.submissions, &before.submissions) {
            submissions.go_on_from(before);
        }
    }
}

/// The next entry of a log.
#[derive(Debug)]
pub(crate) struct LogCursor {
    base: GpuVa,
    entries: u64,
    given: u64,
}

impl LogCursor {
    fn go_on_from(&mut self, before: &LogCursor) {
        if (self.base, self.entries) == (before.base, before.entries) {
            self.given = before.given;
        }
    }

    /// The next entry, for a command on this fence.
    // spec: sync §3.14, sync §6 C2
    // seed: N98, N99, N107
    pub(crate) fn next(&mut self, handle: RawHandle) -> LogSlot {
        let entry_va = self.base.offset(log::entry_offset(self.given % self.entries)).0;
        self.given += 1;
        LogSlot { entry_va, header_va: self.base.0, handle: handle.0 }
    }
}

/// Words of [`log_begin`].
pub(crate) const BEGIN_WORDS: usize = 2 + LogSlot::WORDS;

/// The command that writes the next entry of the log of submissions. No wait or signal goes with it, so it is a command of its own.
// spec: sync §3.14
pub(crate) fn log_begin(log: &mut LogCursor, progress: RawHandle, value: u64, into: &mut Vec<u64>) {
    Command::Log { slot: log.next(progress), operation: log::SUBMISSION_BEGUN, value }.encode(into);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_go_upwards_and_begin_again_behind_the_last() {
        // spec: sync §3.14
        // seed: N99
        let detail = NativeFenceLogDetail {
            wait_entries: 3,
            signal_entries: 84,
            wait_base: GpuVa(0x1000),
            signal_base: GpuVa(0x2000),
            submission_entries: 0,
            submission_base: GpuVa::NULL,
        };
        let mut logs = Logs::of(detail);
        let seen: Vec<_> = (0..4).map(|_| logs.waits.next(RawHandle(7))).collect();
        let entry = |index: u64| 0x1000 + 40 + 48 * index;
        assert_eq!(seen.iter().map(|slot| slot.entry_va).collect::<Vec<_>>(), [entry(0), entry(1), entry(2), entry(0)]);
        assert!(seen.iter().all(|slot| slot.header_va == 0x1000 && slot.handle == 7));
        assert_eq!(logs.signals.next(RawHandle(7)).entry_va, 0x2000 + 40, "each log has its own");
    }

    #[test]
    fn a_log_that_a_reconnect_names_again_goes_on_and_another_begins() {
        // spec: sync §3.14, sync §3.17
        // seed: N99
        let detail = NativeFenceLogDetail {
            wait_entries: 84,
            signal_entries: 84,
            wait_base: GpuVa(0x1000),
            signal_base: GpuVa(0x2000),
            submission_entries: 84,
            submission_base: GpuVa(0x3000),
        };
        let mut logs = Logs::of(detail);
        let next = |logs: &mut Logs| {
            let submissions = logs.submissions.as_mut().expect("a tool traces");
            let cursors = [&mut logs.waits, &mut logs.signals, submissions];
            cursors.map(|cursor| (cursor.next(RawHandle(7)).entry_va - cursor.base.0 - 40) / 48)
        };
        assert_eq!(next(&mut logs), [0, 0, 0]);
        logs.reconnected(detail);
        assert_eq!(next(&mut logs), [1, 1, 1], "the same logs");
        logs.reconnected(NativeFenceLogDetail { signal_base: GpuVa(0x9000), ..detail });
        assert_eq!(next(&mut logs), [2, 0, 2], "the log of signals is another");
        logs.reconnected(NativeFenceLogDetail { wait_entries: 168, signal_base: GpuVa(0x9000), ..detail });
        assert_eq!(next(&mut logs), [0, 1, 3], "the log of waits has another length");
        logs.reconnected(NativeFenceLogDetail { submission_entries: 0, ..detail });
        assert!(logs.submissions.is_none(), "the tool has gone");
    }
}
