//! Scheduling logs (sync §4.2): engines write there which contexts they run and which wait, where hardware schedules. For a tool: without
//! one no engine writes any, and there is no memory for them.
//!
//! Each engine has two buffers, and writes one. The kernel reads a log by giving the engine the other: because that is synchronous, the
//! entries in the first are whole and stay. It does so when a turn finds a log a quarter full, when the engine says that it is half full
//! (interrupt 15), before a name in it means nothing any more, and when no tool traces any more. If the kernel comes later than an engine
//! fills the other half, the oldest entries are lost; the wrap count says how many.
//!
//! ```text
//!        trace, power up, behind a reset                    trace ends, power down, a reset
//! off ─────────────────────────────────▶ engine writes A ───────────────────────────────────▶ off
//!                                          │       ▲
//!                             read A, then ▼       │ read B, then
//!                                        engine writes B
//! ```
//! The names in an entry are the driver's: the kernel reports an unknown context or state as such, and nothing follows from it.

use ddi::{KmdContext, SCHEDULING_LOG_HEADER_WORDS, SchedulingLogBuffer, SetSchedulingLogBuffer};
use events::{ContextSchedule, Event};
use shared_words::scheduling_log::{self as layout, ContextState, Entry};
use shared_words::{Memory, Word, log};
use wddm_types::{EngineId, GpuVa, NodeId, PAGE_BYTES, PageRun, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::machine::{Cx, Machine};
use crate::store::ObjectNumber;

/// Pages of each of an engine's two logs. Policy: room for 2,047 changes, of which half are read at once.
const LOG_PAGES: Pages = Pages(16);
const ENTRIES: u64 = layout::entries(LOG_PAGES.0 * PAGE_BYTES);

/// The logs of an adapter.
#[derive(Debug, Default)]
pub struct SchedulingLogs {
    /// A tool wants them.
    on: bool,
    /// By node; fewer where the hardware says nothing of a node.
    nodes: Vec<NodeLog>,
}

/// Two logs of an engine.
#[derive(Clone, Copy, Debug)]
struct NodeLog {
    node: NodeId,
    /// The pages of both, one behind the other.
    run: PageRun,
    va: GpuVa,
    /// Which of them the engine writes.
    second: bool,
    /// The engine writes it.
    is_set: bool,
}

impl NodeLog {
    /// System address of the log that the engine writes.
    fn at(&self) -> u64 {
        self.run.first * PAGE_BYTES + self.offset()
    }

    fn offset(&self) -> u64 {
        if self.second { LOG_PAGES.bytes() } else { 0 }
    }

    /// How many entries were ever written.
    fn written(&self, memory: &Memory) -> u64 {
        log::total(Word::load(memory.word(self.at() + layout::POSITION_OFFSET)), ENTRIES)
    }
}

impl Machine {
    /// A tool begins or ceases to trace the contexts that engines run where hardware schedules.
    // spec: sync §4.2
    pub fn trace_scheduling(&mut self, cx: &mut Cx<'_>, on: bool) {
        for adapter in &mut self.adapters {
            adapter.trace_scheduling(cx, on);
            adapter.settle(cx);
        }
        self.after_turn(cx);
    }
}

impl Adapter {
    fn trace_scheduling(&mut self, cx: &mut Cx<'_>, on: bool) {
        if on == self.scheduling_logs.on {
            return;
        }
        self.scheduling_logs.on = on;
        match on {
            true => self.begin_scheduling_logs(cx),
            false => self.end_scheduling_logs(cx),
        }
        self.calibrate_clocks(cx);
    }

    /// Engines write their logs from now on, if a tool wants them and they have power.
    pub fn begin_scheduling_logs(&mut self, cx: &mut Cx<'_>) {
        if !self.scheduling_logs.on
            || self.life.has_stopped()
            || self.life.is_off()
            || self.driver.call(cx).hardware_queues().is_none()
        {
            return;
        }
        // CAST: at most 64 nodes.
        for node in self.driver.node_ids() {
            let known = self.scheduling_logs.nodes.iter().position(|log| log.node == node);
            let Some(at) = known.or_else(|| self.make_scheduling_log(cx, node)) else { continue };
            if !self.set_scheduling_log(cx, at) {
                let log = self.scheduling_logs.nodes.remove(at);
                self.free_scheduling_log(log);
            }
        }
    }

    /// Where memory is short a node has none.
    fn make_scheduling_log(&mut self, cx: &mut Cx<'_>, node: NodeId) -> Option<usize> {
        let run = self.take_kernel_pages(cx, Pages(2 * LOG_PAGES.0))?;
        let space = self.owners.space_of(ProcessId::SYSTEM);
        let Ok(va) = self.map_pages(cx, space, run, true) else {
            self.defer_pages(run);
            return None;
        };
        self.scheduling_logs.nodes.push(NodeLog { node, run, va, second: false, is_set: false });
        Some(self.scheduling_logs.nodes.len() - 1)
    }

    /// `DxgkDdiSetSchedulingLogBuffer` of the log that the engine is to write, which counts nothing yet. Its entries are not zeroed.
    // spec: sync §4.2
    fn set_scheduling_log(&mut self, cx: &Cx<'_>, at: usize) -> bool {
        let log = self.scheduling_logs.nodes[at];
        let word = |offset: u64| cx.memory.word(log.at() + offset);
        Word::store(word(layout::POSITION_OFFSET), 0);
        Word::store(word(layout::ENTRIES_OFFSET), ENTRIES);
        let header: [_; SCHEDULING_LOG_HEADER_WORDS] = std::array::from_fn(|nth| word(nth as u64 * 8));
        // CAST: a log has fewer entries than its pages have bytes.
        let buffer = SchedulingLogBuffer {
            entries: ENTRIES as u32,
            header: &header,
            va: log.va.offset(log.offset()),
            interrupt_entry: ENTRIES as u32 / 2,
        };
        let set = SetSchedulingLogBuffer { node: log.node, engine: EngineId(0), buffer: Some(buffer) };
        let hardware = self.driver.call(cx).hardware_queues();
        let is_set = hardware.is_some_and(|hardware| hardware.set_scheduling_log_buffer(set).is_ok());
        self.scheduling_logs.nodes[at].is_set = is_set;
        is_set
    }

    /// No tool traces any more.
    fn end_scheduling_logs(&mut self, cx: &mut Cx<'_>) {
        self.take_scheduling_logs(cx);
        for log in std::mem::take(&mut self.scheduling_logs.nodes) {
            self.free_scheduling_log(log);
        }
    }

    /// Engines write nothing more: they are about to lose power, or no tool traces any more.
    pub fn take_scheduling_logs(&mut self, cx: &mut Cx<'_>) {
        if !self.life.has_stopped() {
            let driver = &mut self.driver;
            // A driver that cannot has a device that writes on: the pages are its own for good then.
            self.scheduling_logs.nodes.retain(|log| {
                let none = SetSchedulingLogBuffer { node: log.node, engine: EngineId(0), buffer: None };
                let hardware = driver.call(cx).hardware_queues();
                !log.is_set || hardware.is_some_and(|hardware| hardware.set_scheduling_log_buffer(none).is_ok())
            });
        }
        self.scheduling_logs_lost(cx);
    }

    /// Engines write nothing more, because the hardware was reset.
    pub fn scheduling_logs_lost(&mut self, cx: &mut Cx<'_>) {
        for at in 0..self.scheduling_logs.nodes.len() {
            let log = self.scheduling_logs.nodes[at];
            self.scheduling_logs.nodes[at].is_set = false;
            if log.is_set {
                self.tell_scheduling_log(cx, log);
            }
        }
    }

    fn free_scheduling_log(&mut self, log: NodeLog) {
        // The hardware of an adapter that has stopped may still write: these pages stay taken.
        if !self.life.has_stopped() {
            self.defer_system_mapping(log.va, log.run.count);
            self.defer_pages(log.run);
        }
    }

    /// Reads what engines have written until now: before a name there means nothing any more.
    pub fn read_scheduling_logs(&mut self, cx: &mut Cx<'_>) {
        (0..self.scheduling_logs.nodes.len()).for_each(|at| self.read_scheduling_log(cx, at));
    }

    /// Interrupt 15.
    // spec: sync §2.8, sync §4.2
    pub fn scheduling_log_interrupt(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        // A turn may have read it meanwhile, or ended it.
        self.read_long_logs(cx, |log, written| log.node == node && written > ENTRIES / 2);
    }

    /// Reads the logs that have become long.
    pub fn drain_scheduling_logs(&mut self, cx: &mut Cx<'_>) {
        self.read_long_logs(cx, |_, written| written > ENTRIES / 4);
    }

    fn read_long_logs(&mut self, cx: &mut Cx<'_>, long: impl Fn(&NodeLog, u64) -> bool) {
        for at in 0..self.scheduling_logs.nodes.len() {
            let log = self.scheduling_logs.nodes[at];
            if long(&log, log.written(cx.memory)) {
                self.read_scheduling_log(cx, at);
            }
        }
    }

    fn read_scheduling_log(&mut self, cx: &mut Cx<'_>, at: usize) {
        let log = self.scheduling_logs.nodes[at];
        if !log.is_set || self.life.has_stopped() || log.written(cx.memory) == 0 {
            return;
        }
        self.scheduling_logs.nodes[at].second = !log.second;
        if self.set_scheduling_log(cx, at) {
            self.tell_scheduling_log(cx, log);
        } else {
            // The engine writes on where it did: the kernel can no longer read that.
            self.scheduling_logs.nodes[at] = NodeLog { is_set: false, ..log };
        }
    }

    /// Reports the entries of a log that no engine writes.
    // spec: sync §4.2, sync §2.7
    fn tell_scheduling_log(&self, cx: &mut Cx<'_>, log: NodeLog) {
        let (total, node) = (log.written(cx.memory), log.node.0);
        let lost = total.saturating_sub(ENTRIES);
        if lost > 0 {
            cx.emit(self.index, Event::SchedulingLogOverrun { node, lost });
        }
        for number in lost..total {
            let at = log.at() + layout::entry_offset(number % ENTRIES);
            let words = [0, 8, 16, 24].map(|field| Word::load(cx.memory.word(at + field)));
            let entry = Entry::from_words(words);
            let told = entry.and_then(|entry| self.context_scheduled(node, entry));
            cx.emit(self.index, told.unwrap_or(Event::SchedulingLogEntryIgnored { node, position: number }));
        }
    }

    /// The event of an entry. The kernel's own context, for paging, is context 0 of process 0.
    fn context_scheduled(&self, node: u16, entry: Entry) -> Option<Event> {
        let kmd = KmdContext(entry.context);
        let state = match entry.state {
            ContextState::Idle => ContextSchedule::Idle,
            ContextState::Running => ContextSchedule::Running,
            ContextState::Ready => ContextSchedule::Ready,
            ContextState::ReadyStandby => ContextSchedule::Standby,
        };
        let (context, process, queue) = match self.contexts.iter().find(|(_, context)| context.kmd == kmd) {
            Some((number, context)) => {
                let only = context.queues.first().filter(|_| context.queues.len() == 1);
                (number.raw(), self.owners.process_of(context.device).0, only.map_or(0, |queue| queue.raw()))
            }
            None if self.ring.kmd_queue().is_some() && self.ring.context == kmd => (0, ProcessId::SYSTEM.0, 0),
            None => return None,
        };
        Some(Event::ContextScheduled { node, context, process, queue, state, at: entry.time })
    }
}
