//! Scheduling logs between kernel and driver (sync §4.2): hardware that schedules by itself writes there which context an engine runs.
//! Their layout is that of `shared_words::scheduling_log`. They name contexts by the driver's handles.

use std::sync::atomic::AtomicU64;

use wddm_types::{EngineId, GpuVa, NodeId};

/// 64-bit words of a scheduling log's header.
pub const SCHEDULING_LOG_HEADER_WORDS: usize = 4;

/// `DXGKARG_SETSCHEDULINGLOGBUFFER`.
#[derive(Clone, Copy, Debug)]
pub struct SetSchedulingLogBuffer<'a> {
    /// `NodeOrdinal`.
    pub node: NodeId,
    /// `EngineOrdinal`.
    pub engine: EngineId,
    /// The log; `None`: no log from now on. WDDM's kernel never takes one away, this one does when no tool listens any more.
    pub buffer: Option<SchedulingLogBuffer<'a>>,
}

/// Where a log lies. FirstFreeEntryIndex and WraparoundCount are zero and NumberOfEntries is set; the entries are not zeroed.
#[derive(Clone, Copy, Debug)]
pub struct SchedulingLogBuffer<'a> {
    /// `NumberOfEntries`.
    pub entries: u32,
    /// `LogBufferCpuVa`, lent for the call: the header's words.
    pub header: &'a [&'a AtomicU64; SCHEDULING_LOG_HEADER_WORDS],
    /// `LogBufferGpuVa`, in the paging process.
    pub va: GpuVa,
    /// `InterruptEntry`: the index of the entry that is told by an interrupt whenever it is written; one that there is not: none is.
    pub interrupt_entry: u32,
}
