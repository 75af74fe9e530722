//! Pages for the logs of queues: two or three equal buffers side by side, out of the kernel's own system memory, mapped in the queue's process
//! and in the paging process, both read/write (sync §3.14). A process keeps its pages for its next queue: no other process ever has
//! them before it has gone.

use kmt_calls::Refusal;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::refusal::no_memory;
use crate::sync::LogShape;

/// The pages of a queue's logs.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogPages {
    pub run: PageRun,
    pub va: GpuVa,
    pub system_va: GpuVa,
    /// How many logs lie there.
    pub logs: u64,
}

impl LogPages {
    /// Bytes of each log.
    pub fn log_bytes(&self) -> u64 {
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

impl Adapter {
    /// Pages for two logs of 4 KB each, or for more and longer ones while a tool traces.
    // spec: sync §3.14 (setup 1), sync §2.7
    pub(super) fn take_log_pages(&mut self, cx: &mut Cx<'_>, process: ProcessId) -> Result<LogPages, Refusal> {
        let pool = &mut self.processes.get_mut(&process).expect("a queue's process is on the adapter").logs;
        let LogShape { logs, pages: count } = self.sync.log_shape();
        if let Some(at) = pool.free.iter().position(|pages| pages.run.count == count && pages.logs == logs) {
            return Ok(pool.free.swap_remove(at));
        }
        let pages = LogPages { logs, ..self.map_log_pages(cx, process, count)? };
        let on_adapter = self.processes.get_mut(&process).expect("just seen");
        on_adapter.logs.all.push(pages);
        Ok(pages)
    }

    fn map_log_pages(&mut self, cx: &mut Cx<'_>, process: ProcessId, count: Pages) -> Result<LogPages, Refusal> {
        let run = self.take_kernel_pages(cx, count).ok_or_else(|| no_memory("no system memory left for fence logs"))?;
        // Another owner's bytes there are not for this process.
        cx.memory.fill(run.first * PAGE_BYTES, run.count.bytes(), 0);
        let (system, space) = (self.owners.space_of(ProcessId::SYSTEM), self.owners.space_of(process));
        let mapped = self.map_pages(cx, system, run, true).and_then(|system_va| {
            let va = self.map_pages(cx, space, run, true);
            if va.is_err() {
                self.defer_system_mapping(system_va, count);
            }
            Ok((va?, system_va))
        });
        let (va, system_va) = match mapped {
            Ok(addresses) => addresses,
            Err(refusal) => {
                self.defer_pages(run);
                return Err(refusal);
            }
        };
        let mapped_at = self.ring.queued();
        self.processes.get_mut(&process).expect("just seen").words_mapped_at = mapped_at;
        Ok(LogPages { run, va, system_va, logs: 1 })
    }

    /// Keeps the pages for the process's next queue. Pages that are more than queues get now, because a tool has gone, are free again
    /// when the paging ring has got past every use of them.
    // spec: sync §3.14 (re-creation)
    pub(super) fn give_back_log_pages(&mut self, cx: &mut Cx<'_>, process: ProcessId, pages: LogPages) {
        let wanted = self.sync.log_shape().pages;
        let on_adapter = self.processes.get_mut(&process).expect("a queue's process is on the adapter");
        if pages.run.count <= wanted || self.life.has_stopped() {
            on_adapter.logs.free.push(pages);
            return;
        }
        on_adapter.logs.all.retain(|kept| kept.run.first != pages.run.first);
        let space = self.owners.space_of(process);
        self.unmap_pages(cx, space, pages.va, pages.run.count);
        self.defer_system_mapping(pages.system_va, pages.run.count);
        self.defer_pages(pages.run);
    }

    /// Gives the pages of a process back that has gone, when the paging ring has got past every use of them.
    pub fn release_logs(&mut self, pool: LogPool) {
        for pages in pool.all {
            self.defer_system_mapping(pages.system_va, pages.run.count);
            self.defer_pages(pages.run);
        }
    }
}
