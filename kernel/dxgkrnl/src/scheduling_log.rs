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
//!
//! [`SchedulingLogs`] owns the logs, and which of the two of an engine its engine writes. It is not where their memory comes from, nor who
//! is behind a context: `adapter/scheduling_log.rs` gives it pages and names, and takes the pages back that it hands out. Between calls:
//! a node has one log at most, and an engine writes none that is not here.

use ddi::{KmdContext, SCHEDULING_LOG_HEADER_WORDS, SchedulingLogBuffer, SetSchedulingLogBuffer};
use events::{ContextSchedule, Event};
use shared_words::scheduling_log::{self as layout, ContextState, Entry};
use shared_words::{Memory, Word, log};
use wddm_types::{AdapterIndex, EngineId, GpuVa, NodeId, PAGE_BYTES, PageRun, Pages, ProcessId};

use crate::driver::EntryPoints;
use crate::effect::Cx;
use crate::number::{ContextNumber, QueueNumber};
use crate::store::ObjectNumber;

/// Pages of each of an engine's two logs. Policy: room for 2,047 changes, of which half are read at once.
const LOG_PAGES: Pages = Pages(16);
/// Pages of the two logs of an engine.
pub const NODE_PAGES: Pages = Pages(2 * LOG_PAGES.0);
const ENTRIES: u64 = layout::entries(LOG_PAGES.0 * PAGE_BYTES);

/// The logs of an adapter.
#[derive(Debug, Default)]
pub struct SchedulingLogs {
    /// A tool wants them.
    on: bool,
    /// By node; fewer where the hardware says nothing of a node.
    nodes: Vec<NodeLog>,
}

/// The pages of the two logs of an engine, one behind the other, and where the engine finds them.
#[derive(Clone, Copy, Debug)]
pub struct LogPages {
    pub run: PageRun,
    pub va: GpuVa,
}

/// Two logs of an engine.
#[derive(Clone, Copy, Debug)]
struct NodeLog {
    node: NodeId,
    pages: LogPages,
    /// Which of them the engine writes.
    second: bool,
    /// The engine writes it.
    is_set: bool,
}

impl NodeLog {
    /// System address of the log that the engine writes.
    fn at(&self) -> u64 {
        self.pages.run.first * PAGE_BYTES + self.offset()
    }

    fn offset(&self) -> u64 {
        if self.second { LOG_PAGES.bytes() } else { 0 }
    }

    /// How many entries were ever written.
    fn written(&self, memory: &Memory) -> u64 {
        log::total(Word::load(memory.word(self.at() + layout::POSITION_OFFSET)), ENTRIES)
    }
}

/// A context as a log names it.
#[derive(Clone, Copy, Debug)]
pub struct Logged {
    /// `None`: the kernel's own, for paging.
    pub context: Option<ContextNumber>,
    pub process: ProcessId,
    /// Its queue, where it has only one.
    pub queue: Option<QueueNumber>,
}

/// The leaves and the turn of one call, and the names.
pub struct Lent<'a, 'b> {
    /// The adapter, as events name it.
    pub adapter: AdapterIndex,
    pub driver: EntryPoints<'a>,
    pub memory: &'a Memory,
    pub cx: &'a mut Cx<'b>,
    /// The adapter has not stopped. Else its driver is asked for nothing.
    pub runs: bool,
    /// The context that the driver names so.
    pub whose: &'a dyn Fn(KmdContext) -> Option<Logged>,
}

impl SchedulingLogs {
    /// A tool begins or ceases to trace. Whether it did not before.
    pub fn want(&mut self, on: bool) -> bool {
        std::mem::replace(&mut self.on, on) != on
    }

    /// Whether a tool wants them.
    pub fn are_wanted(&self) -> bool {
        self.on
    }

    /// Whether a node has no log.
    pub fn lack(&self, node: NodeId) -> bool {
        self.nodes.iter().all(|log| log.node != node)
    }

    /// A node that had no log has one from now on, which its engine does not write yet.
    pub fn add(&mut self, node: NodeId, pages: LogPages) {
        debug_assert!(self.lack(node), "a node has one log: {node:?}");
        debug_assert_eq!(pages.run.count, NODE_PAGES, "a node has pages for two logs");
        self.nodes.push(NodeLog { node, pages, second: false, is_set: false });
    }

    /// The engine of a node writes its log from now on. If it cannot, the pages that it does not need.
    #[must_use = "the pages are the kernel's again"]
    pub fn begin(&mut self, lent: &mut Lent<'_, '_>, node: NodeId) -> Option<LogPages> {
        let at = self.nodes.iter().position(|log| log.node == node)?;
        let is_set = self.set(lent, at);
        (!is_set).then(|| self.nodes.remove(at).pages)
    }

    /// `DxgkDdiSetSchedulingLogBuffer` of the log that the engine is to write, which counts nothing yet. Its entries are not zeroed.
    // spec: sync §4.2
    fn set(&mut self, lent: &mut Lent<'_, '_>, at: usize) -> bool {
        let log = &mut self.nodes[at];
        let word = |offset: u64| lent.memory.word(log.at() + offset);
        Word::store(word(layout::POSITION_OFFSET), 0);
        Word::store(word(layout::ENTRIES_OFFSET), ENTRIES);
        let header: [_; SCHEDULING_LOG_HEADER_WORDS] = std::array::from_fn(|nth| word(nth as u64 * 8));
        // CAST: a log has fewer entries than its pages have bytes.
        let buffer = SchedulingLogBuffer {
            entries: ENTRIES as u32,
            header: &header,
            va: log.pages.va.offset(log.offset()),
            interrupt_entry: ENTRIES as u32 / 2,
        };
        let set = SetSchedulingLogBuffer { node: log.node, engine: EngineId(0), buffer: Some(buffer) };
        let hardware = lent.driver.again().hardware_queues();
        log.is_set = hardware.is_some_and(|hardware| hardware.set_scheduling_log_buffer(set).is_ok());
        log.is_set
    }

    /// No tool traces any more: the pages of all logs, which no engine writes ([`SchedulingLogs::take`]).
    #[must_use = "the pages are the kernel's again"]
    pub fn end(&mut self) -> Vec<LogPages> {
        std::mem::take(&mut self.nodes).into_iter().map(|log| log.pages).collect()
    }

    /// Engines write nothing more: they are about to lose power, or no tool traces any more.
    pub fn take(&mut self, lent: &mut Lent<'_, '_>) {
        if lent.runs {
            let driver = &mut lent.driver;
            // A driver that cannot has a device that writes on: the pages are its own for good then.
            self.nodes.retain(|log| {
                let none = SetSchedulingLogBuffer { node: log.node, engine: EngineId(0), buffer: None };
                let hardware = driver.again().hardware_queues();
                !log.is_set || hardware.is_some_and(|hardware| hardware.set_scheduling_log_buffer(none).is_ok())
            });
        }
        self.lose(lent);
    }

    /// Engines write nothing more, because the hardware was reset.
    pub fn lose(&mut self, lent: &mut Lent<'_, '_>) {
        for log in &mut self.nodes {
            if std::mem::take(&mut log.is_set) {
                log.tell(lent);
            }
        }
    }

    /// Reads what engines have written until now: before a name there means nothing any more.
    pub fn read(&mut self, lent: &mut Lent<'_, '_>) {
        (0..self.nodes.len()).for_each(|at| self.read_at(lent, at));
    }

    /// Interrupt 15: the engine of a node has come half way. A turn may have read the log meanwhile, or ended it.
    // spec: sync §2.8, sync §4.2
    pub fn read_half_full(&mut self, lent: &mut Lent<'_, '_>, node: NodeId) {
        self.read_long(lent, |log, written| log.node == node && written > ENTRIES / 2);
    }

    /// Reads the logs that have become long.
    pub fn drain(&mut self, lent: &mut Lent<'_, '_>) {
        self.read_long(lent, |_, written| written > ENTRIES / 4);
    }

    fn read_long(&mut self, lent: &mut Lent<'_, '_>, long: impl Fn(&NodeLog, u64) -> bool) {
        for at in 0..self.nodes.len() {
            let log = &self.nodes[at];
            if long(log, log.written(lent.memory)) {
                self.read_at(lent, at);
            }
        }
    }

    fn read_at(&mut self, lent: &mut Lent<'_, '_>, at: usize) {
        let log = self.nodes[at];
        if !log.is_set || !lent.runs || log.written(lent.memory) == 0 {
            return;
        }
        self.nodes[at].second = !log.second;
        if self.set(lent, at) {
            log.tell(lent);
        } else {
            // The engine writes on where it did: the kernel can no longer read that.
            self.nodes[at] = NodeLog { is_set: false, ..log };
        }
    }
}

impl NodeLog {
    /// Reports the entries of a log that no engine writes.
    // spec: sync §4.2, sync §2.7
    fn tell(&self, lent: &mut Lent<'_, '_>) {
        let (total, node) = (self.written(lent.memory), self.node.0);
        let lost = total.saturating_sub(ENTRIES);
        if lost > 0 {
            lent.cx.emit(lent.adapter, Event::SchedulingLogOverrun { node, lost });
        }
        for number in lost..total {
            let at = self.at() + layout::entry_offset(number % ENTRIES);
            let words = [0, 8, 16, 24].map(|field| Word::load(lent.memory.word(at + field)));
            let told = Entry::from_words(words).and_then(|entry| self.scheduled(entry, lent.whose));
            lent.cx.emit(lent.adapter, told.unwrap_or(Event::SchedulingLogEntryIgnored { node, position: number }));
        }
    }

    /// The event of an entry. The kernel's own context, for paging, is context 0 of process 0.
    fn scheduled(&self, entry: Entry, whose: impl Fn(KmdContext) -> Option<Logged>) -> Option<Event> {
        let Logged { context, process, queue } = whose(KmdContext(entry.context))?;
        let state = match entry.state {
            ContextState::Idle => ContextSchedule::Idle,
            ContextState::Running => ContextSchedule::Running,
            ContextState::Ready => ContextSchedule::Ready,
            ContextState::ReadyStandby => ContextSchedule::Standby,
        };
        let context = context.map_or(0, ObjectNumber::raw);
        let queue = queue.map_or(0, ObjectNumber::raw);
        Some(Event::ContextScheduled { node: self.node.0, context, process: process.0, queue, state, at: entry.time })
    }
}
