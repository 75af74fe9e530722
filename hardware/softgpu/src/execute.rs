//! Commands: what each does. One command at a time, on behalf of the engine that holds it; long ones give way between
//! pieces when somebody asks for the engine.

use std::sync::atomic::Ordering;
use std::time::Instant;

use device_port::Observation;
use shared_words::{Barrier, HardwareBarrier, Memory, Word, fence, log};
use softgpu_spec::bus::{PAGE_BYTES, aperture_entry};
use softgpu_spec::register::{fault, record};
use softgpu_spec::{Command, DecodeError, LogSlot};

use crate::bus::Fault;
use crate::device::SoftGpu;
use crate::engine::{EngineFace, Flight};
use crate::interrupt::Record;
use crate::mmu::{Access, Flush, Mmu, Space, Target};
use crate::queue::QueueRun;
use crate::ring::{Nested, Window};

/// Looks at a word, or at doorbells, that follow each other without a pause.
pub(crate) const EAGER_LOOKS: u32 = 256;

/// What came of a command.
pub(crate) enum Outcome {
    /// It is done.
    Done,
    /// It is done when every engine has forgotten these translations.
    Flush(Flush),
    /// The queue goes on in a nested buffer.
    Nested,
    /// There is more of it to do.
    Again,
    /// The queue waits and is parked.
    Parked,
}

/// One command under execution.
pub(crate) struct Execution<'a> {
    pub(crate) gpu: &'a SoftGpu,
    pub(crate) face: &'a EngineFace,
    pub(crate) mmu: &'a mut Mmu,
    pub(crate) queue: &'a mut QueueRun,
    pub(crate) flight: &'a mut Flight,
    /// No other queue of the engine is active.
    pub(crate) alone: bool,
    pub(crate) waiting: &'a mut u32,
}

impl<'a> Execution<'a> {
    /// Executes a decoded command, or a piece of it.
    #[inline]
    pub(crate) fn execute(&mut self, decoded: Result<(Command<'_>, usize), DecodeError>) -> Result<Outcome, Fault> {
        let Ok((command, _)) = decoded else {
            return Err(self.refused(fault::BAD_COMMAND));
        };
        if command.is_privileged() && !self.queue.privileged && !self.completes_in_ring(&command) {
            return Err(self.refused(fault::PRIVILEGE));
        }
        match command {
            Command::Nop => Ok(Outcome::Done),
            Command::Wait { va, value, log } => self.wait(va, value, log),
            Command::Signal { current_va, monitored_va, value, log } => {
                self.signal(current_va, monitored_va, value, log)
            }
            Command::SignalAlways { va, value } => self.signal_always(va, value),
            Command::Branch { va, words } => self.branch(va, words, false),
            Command::BranchPhysical { bus, words } => self.branch(bus, words, true),
            Command::Complete { value } => {
                let fields = [u64::from(self.queue.number), value, 0];
                self.gpu.interrupts.raise(Record { kind: record::COMPLETED, fields });
                Ok(Outcome::Done)
            }
            Command::Timestamp { va } => {
                let target = self.word(va, Access::Write)?;
                Word::store(target.word, self.gpu.now());
                Ok(Outcome::Done)
            }
            Command::Store { va, words } => {
                for (index, value) in (0u64..).zip(words) {
                    Word::store(self.word(va.wrapping_add(index * 8), Access::Write)?.word, *value);
                }
                Ok(Outcome::Done)
            }
            Command::StoreRun { va, count, first, step } => self.store_run(va, count, first, step),
            Command::CopyRun { source_va, target_va, count } => self.copy_run(source_va, target_va, count),
            Command::TouchPhysical { bus, write } => self.touch_physical(bus, write),
            Command::WriteEntries { table, first, entries } => {
                let (memory, word) = self.table_entry(table, first, entries.len() as u64)?;
                entries.iter().zip(0..).for_each(|(entry, index)| Word::store(memory.word(word + index * 8), *entry));
                self.face.counters.entries_written.add(entries.len() as u64);
                Ok(Outcome::Done)
            }
            Command::WriteEntryRun { table, first, count, entry, step } => {
                let (memory, word) = self.table_entry(table, first, u64::from(count))?;
                let entry_at = |index: u64| entry.wrapping_add(step.wrapping_mul(index));
                // Stored as bulk content: walkers of other engines may load an entry meanwhile, and get the old or the new one,
                // because an aligned word is written whole however wide the processor's stores are.
                memory.store_words(word, u64::from(count), entry_at);
                self.face.counters.entries_written.add(u64::from(count));
                Ok(Outcome::Done)
            }
            Command::MapAperture { first, count, system_address, step } => {
                self.map_aperture(first, count, system_address, step)
            }
            Command::FlushTlb { root, first_va, last_va } => {
                Ok(Outcome::Flush(Flush { root, first: first_va, last: last_va }))
            }
            bulk => {
                let started = (!self.gpu.is_virtual()).then(Instant::now);
                let outcome = self.bulk(&bulk);
                if let Some(started) = started {
                    // CAST: 2^64 nanoseconds are 584 years.
                    self.face.counters.busy_ns.add(started.elapsed().as_nanos() as u64);
                }
                outcome
            }
        }
    }

    /// Goes on when the value is there; polls for a while if nobody else wants the engine, then parks.
    // spec: sync §3.8
    #[inline]
    fn wait(&mut self, va: u64, value: u64, log: Option<LogSlot>) -> Result<Outcome, Fault> {
        let target = self.word(va, Access::Read)?;
        // The log's words are found before the wait, so that nothing but stores lies between the value and what follows.
        let log = match log {
            Some(slot) => Some((slot, self.log_words(slot)?)),
            None => None,
        };
        if self.queue.parked {
            // It was parked here, and whoever made the queue ready has seen the value.
            self.queue.parked = false;
            *self.waiting -= 1;
            return self.wait_over(target, value, log);
        }
        self.face.counters.waits.add(1);
        if Word::load(target.word) >= value {
            return self.wait_over(target, value, log);
        }
        self.face.counters.waits_unsatisfied.add(1);
        if log.is_some() {
            self.queue.observed = Some(self.gpu.now());
        }
        self.gpu.trace_wait(true, self.queue.number, target.site, value);
        if self.alone && !self.gpu.is_virtual() {
            self.queue.look_ahead(&self.gpu.bus, self.flight.words as u64);
            if self.poll(target, value) {
                return self.wait_over(target, value, log);
            }
        }
        // The count rises before the queue is parked: a signal that unparks it at once finds it counted.
        self.queue.parked = true;
        *self.waiting += 1;
        if self.gpu.park(self.queue.number, target, value) {
            self.face.counters.waits_parked.add(1);
            return Ok(Outcome::Parked);
        }
        self.queue.parked = false;
        *self.waiting -= 1;
        self.wait_over(target, value, log)
    }

    /// Looks at the word as often as the device's patience allows, unless the engine is wanted.
    #[inline]
    fn poll(&self, target: Target<'_>, value: u64) -> bool {
        for turn in 0..self.gpu.config.poll_spins {
            if Word::load(target.word) >= value {
                return true;
            }
            if self.face.is_asked() || self.face.has_news() {
                return false;
            }
            // A pause costs as much as a cache line's way on some processors: the first looks do without.
            if turn >= EAGER_LOOKS {
                std::hint::spin_loop();
            }
        }
        false
    }

    #[inline]
    fn wait_over(
        &mut self,
        target: Target<'_>,
        value: u64,
        log: Option<(LogSlot, [Target<'_>; 5])>,
    ) -> Result<Outcome, Fault> {
        if let Some((slot, words)) = log {
            let observed = self.queue.observed.take().unwrap_or(0);
            write_log(&words, value, slot, log::WAIT_UNBLOCKED, observed, self.gpu.now());
        }
        self.gpu.trace_wait(false, self.queue.number, target.site, value);
        Ok(Outcome::Done)
    }

    /// Value, log, barrier, question, in this order.
    // spec: sync §3.7, sync §3.14
    #[inline]
    fn signal(
        &mut self,
        current_va: u64,
        monitored_va: u64,
        value: u64,
        slot: Option<LogSlot>,
    ) -> Result<Outcome, Fault> {
        let current = self.word(current_va, Access::Write)?;
        let monitored = self.word(monitored_va, Access::Read)?;
        if self.gpu.is_sealed(current.site) {
            return Ok(Outcome::Done);
        }
        let mut logged = Ok(());
        let interrupt = match slot {
            None => fence::signal::<HardwareBarrier>(&current.word, &monitored.word, value, || ()),
            Some(slot) => {
                // Who waits for the value does not wait for its log: the log's words are found, and the clock is read, when
                // the value is stored. A log that is not there is a fault all the same, of this queue alone.
                let (gpu, write) = (self.gpu, &mut logged);
                fence::signal::<HardwareBarrier>(&current.word, &monitored.word, value, || {
                    *write = self
                        .log_words(slot)
                        .map(|words| write_log(&words, value, slot, log::SIGNAL_EXECUTED, 0, gpu.now()));
                })
            }
        };
        // The engine asks the CMP only where its own look said so.
        let interrupt = interrupt && self.gpu.cmp_decides(monitored, value);
        // Sealed between: the barrier stands behind our store.
        if self.gpu.is_sealed(current.site) {
            Word::store(current.word, u64::MAX);
        }
        self.face.counters.signals.add(1);
        self.gpu.trace(|| Observation::Signal { queue: self.queue.number, bus: current.site.bus(), value, interrupt });
        if interrupt {
            self.face.counters.interrupts_raised.add(1);
            self.gpu
                .interrupts
                .raise(Record { kind: record::FENCE, fields: [u64::from(self.queue.number), current_va, value] });
        }
        self.gpu.unpark_after_store(current.site);
        self.gpu.tell_peers(current.site, value);
        // Whoever waits has been told, log or no log.
        logged.map(|()| Outcome::Done)
    }

    /// Value, then the question to nobody: the processor is always interrupted.
    // spec: sync §3.7
    fn signal_always(&mut self, va: u64, value: u64) -> Result<Outcome, Fault> {
        if !va.is_multiple_of(8) {
            return Err(Fault { address: va, cause: fault::BAD_ADDRESS, level: 0 });
        }
        let target = self.word(va, Access::Write)?;
        if self.gpu.config.signal_bits == 64 {
            Word::store(target.word, value);
        } else {
            // The other half is somebody else's, and whole all the time.
            let half = u64::from(u32::MAX);
            let store = |word: u64| Some(word & !half | value & half);
            let _ = target.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, store);
        }
        self.face.counters.signals.add(1);
        self.face.counters.interrupts_raised.add(1);
        self.gpu.trace(|| Observation::Signal {
            queue: self.queue.number,
            bus: target.site.bus(),
            value,
            interrupt: true,
        });
        self.gpu.interrupts.raise(Record { kind: record::SIGNALED, fields: [u64::from(self.queue.number), va, value] });
        HardwareBarrier::full();
        self.gpu.unpark_after_store(target.site);
        Ok(Outcome::Done)
    }

    fn branch(&mut self, va: u64, words: u32, physical: bool) -> Result<Outcome, Fault> {
        if self.queue.nested.is_some() {
            return Err(self.refused(fault::BAD_COMMAND));
        }
        if words == 0 {
            return Ok(Outcome::Done);
        }
        let branch_words = self.flight.words as u64;
        self.queue.nested = Some(Nested { va, words: u64::from(words), done: 0, branch_words, physical });
        if physical {
            self.queue.nested_window = Window::CLOSED;
        }
        Ok(Outcome::Nested)
    }

    fn map_aperture(&self, first: u64, count: u64, system_address: u64, step: u64) -> Result<Outcome, Fault> {
        let Some(entries) = self.gpu.bus.aperture_entries(first, count) else {
            return Err(self.refused(fault::BAD_ADDRESS));
        };
        for index in 0..count {
            let page = system_address.wrapping_add(step.wrapping_mul(index));
            Word::store(self.gpu.bus.local.word(entries + index * 8), aperture_entry::to(page));
        }
        self.face.counters.entries_written.add(count);
        Ok(Outcome::Done)
    }

    /// One word, for the bus's sake: the sequentially consistent access orders everything before it.
    fn touch_physical(&self, bus: u64, write: bool) -> Result<Outcome, Fault> {
        if !bus.is_multiple_of(8) {
            return Err(Fault { address: bus, cause: fault::BAD_ADDRESS, level: 0 });
        }
        let site = self.gpu.bus.site(bus)?;
        if write {
            self.gpu.bus.write_word(site).fetch_or(0, Ordering::SeqCst);
        } else {
            std::hint::black_box(self.gpu.bus.read_word(site).load(Ordering::SeqCst));
        }
        Ok(Outcome::Done)
    }

    /// Words that go on by a step, piece by piece of consecutive memory.
    fn store_run(&mut self, va: u64, count: u32, first: u64, step: u64) -> Result<Outcome, Fault> {
        if !va.is_multiple_of(8) {
            return Err(Fault { address: va, cause: fault::BAD_ADDRESS, level: 0 });
        }
        let (space, mut done) = (Space::Virtual(self.queue.root), 0);
        while done < u64::from(count) {
            let left = (u64::from(count) - done) * 8;
            let run = space.run(&self.gpu.bus, va.wrapping_add(done * 8), left, true)?;
            if let Some((memory, offset)) = self.gpu.bus.memory(run.site) {
                let word = |index: u64| first.wrapping_add(step.wrapping_mul(done + index));
                memory.store_words(offset, run.bytes / 8, word);
            }
            done += run.bytes / 8;
        }
        self.face.counters.entries_written.add(u64::from(count));
        Ok(Outcome::Done)
    }

    /// Words from one place to another, word by word: a walker may look at them meanwhile.
    fn copy_run(&mut self, source_va: u64, target_va: u64, count: u32) -> Result<Outcome, Fault> {
        for offset in (0..u64::from(count)).map(|index| index * 8) {
            let value = Word::load(self.word(source_va.wrapping_add(offset), Access::Read)?.word);
            Word::store(self.word(target_va.wrapping_add(offset), Access::Write)?.word, value);
        }
        self.face.counters.entries_written.add(u64::from(count));
        Ok(Outcome::Done)
    }

    /// The word at which `count` entries of a table from `first` on begin, if there is memory for them; how long the table
    /// is nobody knows but who made it.
    fn table_entry(&self, table: u64, first: u32, count: u64) -> Result<(&'a Memory, u64), Fault> {
        let refused = Fault { address: table, cause: fault::BAD_ADDRESS, level: 0 };
        let found = self.gpu.bus.table(table, u64::from(first) + count).ok_or(refused)?;
        Ok((found.memory, found.offset + u64::from(first) * 8))
    }

    /// The 64-bit word at an address of the queue's space.
    #[inline]
    pub(crate) fn word(&mut self, va: u64, access: Access) -> Result<Target<'a>, Fault> {
        self.mmu.word(&self.gpu.bus, self.queue.space(), va, access)
    }

    /// The words of a log slot, found before anything is stored. An entry inside one page is translated once.
    fn log_words(&mut self, slot: LogSlot) -> Result<[Target<'a>; 5], Fault> {
        let position = self.word(slot.position_va, Access::Write)?;
        let first = self.word(slot.entry_va, Access::Write)?;
        let one_page = slot.entry_va % PAGE_BYTES + log::ENTRY_BYTES <= PAGE_BYTES;
        let mut entry = |offset: u64| {
            if one_page {
                let site = first.site.plus(offset);
                return Ok(Target { site, word: self.gpu.bus.write_word(site) });
            }
            self.mmu.word(&self.gpu.bus, self.queue.space(), slot.entry_va.wrapping_add(offset), Access::Write)
        };
        Ok([
            entry(log::entry::FENCE_VALUE)?,
            entry(log::entry::HANDLE_AND_OPERATION)?,
            entry(log::entry::OBSERVED)?,
            entry(log::entry::END)?,
            position,
        ])
    }

    /// Whether this is a completion that stands in a ring which only the driver can write.
    fn completes_in_ring(&self, command: &Command<'_>) -> bool {
        matches!(command, Command::Complete { .. }) && self.queue.ring_physical && self.queue.nested.is_none()
    }

    /// A fault of the command itself.
    pub(crate) fn refused(&self, cause: u64) -> Fault {
        Fault { address: self.queue.head(), cause, level: 0 }
    }
}

/// Writes an entry and then the position word.
fn write_log(words: &[Target<'_>; 5], value: u64, slot: LogSlot, operation: u32, observed: u64, end: u64) {
    let [fence_value, handle, observed_word, end_word, position] = words.map(|target| target.word);
    let handle_and_operation = u64::from(slot.handle) | u64::from(operation) << 32;
    let entry = [fence_value, handle, observed_word, end_word];
    log::write_entry(&entry, &position, [value, handle_and_operation, observed, end], slot.position);
}
