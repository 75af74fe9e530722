//! The scheduling log of an engine: the owners that it runs, and those that wait for it, written into memory that a driver has named
//! (sync §4.2). The driver names an owner for each queue; the log tells which state an owner is in.
//!
//! ```text
//! RUNNING   a command of one of its queues is under way
//! READY     one of its queues has a command, and another owner has the engine, or none: the engine stands
//! IDLE      none has: its rings are empty, its waits are parked, it is not enabled
//! ```
//! Of one moment the log tells first the owners that leave the engine, then those that come to wait or cease to, then the one that takes
//! it. The engine owns the log with its state, so an entry is whole, and the log gets none while another thread has the state. An engine
//! without a log makes one test a command, and that is its whole cost.

use std::sync::Mutex;

use device_port::Unit;
use shared_words::Memory;
use shared_words::scheduling_log::{self as layout, ContextState, Entry};
use softgpu_spec::bus::PAGE_BYTES;
use softgpu_spec::register::{self, record};

use crate::bus::Site;
use crate::device::SoftGpu;
use crate::engine::{EngineState, unit};
use crate::interrupt::Record;
use crate::lock;
use crate::mmu::{Access, Target, translate};

/// Most pages of a log: the engine looks a log's pages up one by one.
const PAGES_MAX: u64 = 1 << 16;

/// The registers, by engine where it matters.
#[derive(Debug, Default)]
pub(crate) struct LogRegisters(Mutex<Written>);

#[derive(Clone, Copy, Debug, Default)]
struct Written {
    engine: usize,
    address: u64,
    entries: u64,
    interrupt: u64,
}

/// An engine's state of its log.
#[derive(Debug, Default)]
pub(crate) struct SchedulingLog {
    buffer: Option<Buffer>,
    /// Owners that are not idle, as the log has told last, by owner.
    told: Vec<(u64, ContextState)>,
}

#[derive(Debug)]
struct Buffer {
    pages: Vec<Site>,
    /// Byte of the first page where the header is.
    first: u64,
    entries: u64,
    interrupt: u64,
    /// Entries written so far.
    written: u64,
}

impl SoftGpu {
    pub(crate) fn read_scheduling_log(&self, offset: u32) -> u64 {
        let written = *lock(&self.log_registers.0);
        match offset {
            register::SCHEDULING_LOG_ENGINE => written.engine as u64,
            register::SCHEDULING_LOG_CONTROL => u64::from(self.engines[written.engine].ask(|state| state.log.is_on())),
            _ => 0,
        }
    }

    pub(crate) fn write_scheduling_log(&self, offset: u32, value: u64) {
        let mut written = lock(&self.log_registers.0);
        match offset {
            // An engine that there is not cannot be selected: the selection stays.
            register::SCHEDULING_LOG_ENGINE => {
                if let Some(engine) = usize::try_from(value).ok().filter(|engine| *engine < self.engines.len()) {
                    written.engine = engine;
                }
            }
            register::SCHEDULING_LOG_ADDRESS => written.address = value,
            register::SCHEDULING_LOG_ENTRIES => written.entries = value,
            register::SCHEDULING_LOG_INTERRUPT => written.interrupt = value,
            register::SCHEDULING_LOG_CONTROL => {
                let written = *written;
                let buffer = (value == 1).then(|| self.log_buffer(written)).flatten();
                self.engines[written.engine].ask(|state| {
                    state.log.take(buffer);
                    state.log_schedule(self, written.engine);
                });
            }
            _ => {}
        }
    }

    /// Where a log lies; `None`: nowhere that could be written.
    fn log_buffer(&self, written: Written) -> Option<Buffer> {
        let Written { address, entries, interrupt, .. } = written;
        let bytes = entries.checked_mul(layout::ENTRY_BYTES)?.checked_add(layout::HEADER_BYTES)?;
        let first = address % PAGE_BYTES;
        let count = first.checked_add(bytes)?.div_ceil(PAGE_BYTES);
        if entries == 0 || !address.is_multiple_of(layout::ENTRY_BYTES) || count > PAGES_MAX {
            return None;
        }
        let root = self.cmp.root.load(std::sync::atomic::Ordering::Relaxed);
        let site = |page: u64| {
            let va = (address - first).checked_add(page * PAGE_BYTES)?;
            translate(&self.bus, root, va, Access::Write).ok()
        };
        let pages = (0..count).map(site).collect::<Option<Vec<_>>>()?;
        Some(Buffer { pages, first, entries, interrupt, written: 0 })
    }
}

impl SchedulingLog {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.buffer.is_some()
    }

    /// Another log, or none. One behind another goes on where that ended.
    fn take(&mut self, buffer: Option<Buffer>) {
        if self.buffer.is_none() || buffer.is_none() {
            self.told.clear();
        }
        self.buffer = buffer;
    }

    /// Writes what has changed: the owner that runs now, and those that would. Whether the entry was written that is to interrupt.
    #[must_use]
    fn tell(&mut self, gpu: &SoftGpu, unit: Unit, running: Option<u64>, wanting: &[u64]) -> bool {
        let Some(buffer) = &mut self.buffer else { return false };
        let now = |owner: u64| match running {
            Some(runs) if runs == owner => ContextState::Running,
            _ if wanting.contains(&owner) => ContextState::Ready,
            _ => ContextState::Idle,
        };
        for owner in wanting.iter().copied().chain(running) {
            if let Err(at) = self.told.binary_search_by_key(&owner, |(owner, _)| *owner) {
                self.told.insert(at, (owner, ContextState::Idle));
            }
        }
        let turn = |before: ContextState, after: ContextState| match (before, after) {
            (ContextState::Running, _) => 0,
            (_, ContextState::Running) => 2,
            _ => 1,
        };
        let mut reached = false;
        for round in 0..3 {
            for (owner, state) in &mut self.told {
                let (before, after) = (*state, now(*owner));
                if before != after && turn(before, after) == round {
                    reached |= buffer.write(gpu, unit, Entry { time: gpu.now(), context: *owner, state: after });
                    *state = after;
                }
            }
        }
        self.told.retain(|(_, state)| *state != ContextState::Idle);
        reached
    }
}

impl Buffer {
    /// Appends an entry. Whether it is the one that is to be told.
    fn write(&mut self, gpu: &SoftGpu, unit: Unit, entry: Entry) -> bool {
        let index = self.written % self.entries;
        let at = |offset: u64| {
            let byte = self.first + offset;
            // CAST: below the count of pages.
            let site = self.pages[(byte / PAGE_BYTES) as usize].plus(byte % PAGE_BYTES);
            gpu.ordered(unit, Target { site, word: gpu.bus.write_word(site) })
        };
        let words = [0, 8, 16, 24].map(|field| at(layout::entry_offset(index) + field));
        layout::write(&words, &at(layout::POSITION_OFFSET), entry.words(), self.written, self.entries);
        self.written += 1;
        index == self.interrupt
    }
}

impl EngineState {
    /// Tells the log which owner has the engine and which want it, if there is one.
    #[inline]
    pub(crate) fn log_schedule(&mut self, gpu: &SoftGpu, engine: usize) {
        if self.log.is_on() {
            self.tell_schedule(gpu, engine);
        }
    }

    #[cold]
    fn tell_schedule(&mut self, gpu: &SoftGpu, engine: usize) {
        let named = |owner: &u64| *owner != 0;
        let owner = |at: usize| self.queues[at].as_ref().map_or(0, |queue| queue.owner);
        let running = self.flight.as_ref().map(|flight| owner(flight.queue)).filter(named);
        let doorbells: &Memory = &gpu.bells.window;
        let wants = |at: &usize| self.queues[*at].as_ref().is_some_and(|queue| queue.wants(doorbells));
        let wanting: Vec<u64> = self.active_queues().filter(wants).map(owner).filter(named).collect();
        let due = self.log.tell(gpu, unit(engine), running, &wanting);
        // The kernel, once interrupted, finds the entries announced.
        gpu.barrier(unit(engine));
        if due {
            gpu.interrupts.raise(Record { kind: record::SCHEDULING_LOG, fields: [engine as u64, 0, 0] });
        }
    }
}
