//! The effect of each command. One command at a time, on behalf of the engine that holds it; long ones give way between pieces when a
//! register access asks for the engine.

mod entry;
mod fences;
mod run;

use std::sync::atomic::Ordering;
use std::time::Instant;

use device_port::{Observation, Unit};
use shared_words::{Memory, Word};
use softgpu_spec::bus::aperture_entry;
use softgpu_spec::register::{fault, record};
use softgpu_spec::{Command, FenceCommand};

use crate::bus::Fault;
use crate::device::SoftGpu;
use crate::engine::{EngineFace, Flight};
use crate::interrupt::Record;
use crate::mmu::{Access, Flush, Mmu, Space, Target};
use crate::queue::QueueRun;
use crate::ring::{Nested, Window};

/// The result of a command.
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
    /// The engine, as a unit with a store buffer.
    pub(crate) unit: Unit,
    pub(crate) mmu: &'a mut Mmu,
    pub(crate) queue: &'a mut QueueRun,
    pub(crate) flight: &'a mut Flight,
    /// No other queue of the engine is active.
    pub(crate) alone: bool,
    pub(crate) waiting: &'a mut u32,
}

impl<'a> Execution<'a> {
    /// Executes the command that the words are, or a piece of it.
    #[inline(always)]
    pub(crate) fn execute(&mut self, words: &[u64]) -> Result<Outcome, Fault> {
        match FenceCommand::decode(words) {
            Some(FenceCommand::Wait { va, value, log }) => self.wait(va, value, log),
            Some(FenceCommand::Signal { current_va, monitored_va, value, log }) => {
                self.signal(current_va, monitored_va, value, log)
            }
            None => self.execute_other(words),
        }
    }

    /// Executes a command other than a wait or a signal.
    fn execute_other(&mut self, words: &[u64]) -> Result<Outcome, Fault> {
        let Ok((command, _)) = Command::decode(words) else {
            return Err(self.refused(fault::BAD_COMMAND));
        };
        if command.is_privileged() && !self.queue.privileged && !self.completes_in_ring(&command) {
            return Err(self.refused(fault::PRIVILEGE));
        }
        match command {
            // Its time is over when it gets here; without virtual time it has none.
            Command::Nop | Command::Work { .. } => Ok(Outcome::Done),
            Command::Wait { .. } | Command::Signal { .. } => unreachable!("the same words were no wait and no signal"),
            Command::SignalAlways { va, value } => self.signal_always(va, value),
            Command::Log { slot, operation, value } => self.log(slot, operation, value),
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
                    let spent = started.elapsed().as_nanos() as u64;
                    self.face.counters.busy_ns.add(spent);
                    self.gpu.queues[self.queue.number as usize].busy_ns.add(spent);
                }
                outcome
            }
        }
    }

    fn branch(&mut self, va: u64, words: u32, physical: bool) -> Result<Outcome, Fault> {
        if self.queue.nested.is_some() {
            return Err(self.refused(fault::BAD_COMMAND));
        }
        if words == 0 {
            return Ok(Outcome::Done);
        }
        let branch_words = self.flight.words as u64;
        if self.gpu.is_probed()
            && let (Unit::Engine(engine), Some(value)) =
                (self.unit, self.queue.completion_behind(&self.gpu.bus, branch_words))
        {
            self.gpu.trace(|| Observation::Buffer { engine, queue: self.queue.number, value });
        }
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

    /// The word at which `count` entries of a table from `first` on begin, if there is memory for them; only the table's maker knows how
    /// long it is.
    fn table_entry(&self, table: u64, first: u32, count: u64) -> Result<(&'a Memory, u64), Fault> {
        let refused = Fault { address: table, cause: fault::BAD_ADDRESS, level: 0 };
        let found = self.gpu.bus.table(table, u64::from(first) + count).ok_or(refused)?;
        Ok((found.memory, found.offset + u64::from(first) * 8))
    }

    /// The 64-bit word at an address of the queue's space.
    #[inline(always)]
    pub(crate) fn word(&mut self, va: u64, access: Access) -> Result<Target<'a>, Fault> {
        self.mmu.word(&self.gpu.bus, self.queue.space(), va, access)
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
