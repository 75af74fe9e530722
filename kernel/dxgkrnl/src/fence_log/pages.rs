//! The pages of the logs of a process's queues: two or three equal buffers side by side (sync §3.14). A process keeps its pages for its
//! next queue: no other process ever has them before it has gone. Where pages come from, and how they are mapped, the adapter knows.

use wddm_types::{GpuVa, PageRun};

use crate::sync::LogShape;

/// The pages of a queue's logs.
#[derive(Clone, Copy, Debug)]
pub struct LogPages {
    pub run: PageRun,
    pub va: GpuVa,
    pub system_va: GpuVa,
    /// How many logs lie there.
    pub logs: u64,
}

impl LogPages {
    /// Bytes of each log.
    pub(super) fn log_bytes(&self) -> u64 {
        self.run.count.bytes() / self.logs
    }
}

/// The pages of a process's logs.
#[derive(Default)]
pub struct LogPool {
    all: Vec<LogPages>,
    free: Vec<LogPages>,
}

/// Shows the logs in use: how many pages wait for the next queue is no state.
impl std::fmt::Debug for LogPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pairs of logs", self.all.len() - self.free.len())
    }
}

impl LogPool {
    /// Pages of this shape that no queue uses.
    pub fn take(&mut self, shape: LogShape) -> Option<LogPages> {
        let fits = |pages: &LogPages| LogShape { logs: pages.logs, pages: pages.run.count } == shape;
        let at = self.free.iter().position(fits)?;
        Some(self.free.swap_remove(at))
    }

    /// The process has these pages, too, and a queue uses them.
    pub fn add(&mut self, pages: LogPages) {
        self.all.push(pages);
    }

    /// Pages that no queue uses any more wait for the process's next.
    pub fn give_back(&mut self, pages: LogPages) {
        debug_assert!(self.is_used(), "pages that come back were a queue's: {pages:?}");
        self.free.push(pages);
    }

    /// The process has these pages no more.
    pub fn remove(&mut self, pages: LogPages) {
        debug_assert!(self.is_used(), "pages that go were a queue's: {pages:?}");
        self.all.retain(|kept| kept.run.first != pages.run.first);
    }

    /// Whether a queue uses any.
    pub fn is_used(&self) -> bool {
        self.all.len() > self.free.len()
    }

    /// All pages of a process that has gone, which the caller frees.
    pub fn into_all(self) -> Vec<LogPages> {
        self.all
    }
}
