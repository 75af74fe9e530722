//! Waits and signals: the commands by which engines order their work. Called by [`Execution::execute`].
//!
//! While the only queue of an engine waits, the engine has nothing better to do than to get ready for the next command. If that is a
//! signal, the engine finds all of it before the value comes ([`Execution::signal_behind`]), and stores the signal's value as soon as the
//! value has come; it notes both commands in their logs behind it, and retires them together. A queue that waits for an answer to its own
//! signal gets it one cache line and a few instructions later.

use std::sync::atomic::Ordering;

use device_port::{Observation, Unit};
use shared_words::{Word, fence, log};
use softgpu_spec::register::{fault, record};
use softgpu_spec::{FenceCommand, LogSlot};

use super::entry::Entry;
use super::{Execution, Outcome};
use crate::bus::Fault;
use crate::device::SoftGpu;
use crate::interrupt::Record;
use crate::mmu::{Access, Target};

/// Pauses between two looks at a word: a look that meets the store that it looks for on its way holds that store up. With none a
/// value takes a fifth longer from engine to engine, with three a tenth.
const LOOK_PAUSES: u32 = 2;

/// A signal whose words are found.
pub(super) struct Signal<'a> {
    pub(super) current: Target<'a>,
    monitored: Target<'a>,
    current_va: u64,
    value: u64,
}

/// A signal that stands behind the wait at the head, ready to be given.
struct Behind<'a> {
    signal: Signal<'a>,
    entry: Option<Entry<'a>>,
    /// Its length.
    words: usize,
}

impl<'a> Execution<'a> {
    /// Goes on when the value is there; polls for a while if no other queue wants the engine, then parks.
    // spec: sync §3.8
    #[inline(always)]
    pub(super) fn wait(&mut self, va: u64, value: u64, slot: Option<LogSlot>) -> Result<Outcome, Fault> {
        let target = self.word(va, Access::Read)?;
        // The log's words are found before the wait, so that nothing but stores lies between the value and what follows.
        let entry = match slot {
            Some(slot) => Some(self.entry(slot)?),
            None => None,
        };
        if self.queue.parked {
            // It was parked here, and the unit that made the queue ready has seen the value.
            self.queue.parked = false;
            *self.waiting -= 1;
            return self.wait_over(target, value, entry);
        }
        self.face.counters.waits.add(1);
        if Word::load(&self.gpu.ordered(self.unit, target)) >= value {
            return self.wait_over(target, value, entry);
        }
        self.face.counters.waits_unsatisfied.add(1);
        if entry.is_some() {
            self.queue.observed = Some(self.gpu.now());
        }
        self.gpu.trace_wait(true, self.queue.number, target.site, value);
        if self.alone && !self.gpu.is_virtual() {
            let behind = self.signal_behind();
            if self.poll(target, value) {
                return match behind {
                    Some(behind) if !self.gpu.is_sealed(self.unit, behind.signal.current.site) => {
                        Ok(self.wait_over_and_signal(value, entry, &behind))
                    }
                    _ => self.wait_over(target, value, entry),
                };
            }
        }
        // The count rises before the queue is parked: a signal that unparks it at once finds it counted.
        self.queue.parked = true;
        *self.waiting += 1;
        if self.gpu.park(self.unit, self.queue.number, target, value) {
            self.face.counters.waits_parked.add(1);
            return Ok(Outcome::Parked);
        }
        self.queue.parked = false;
        *self.waiting -= 1;
        self.wait_over(target, value, entry)
    }

    /// The engine's full barrier.
    #[inline(always)]
    fn barrier(&self) {
        self.gpu.barrier(self.unit);
    }

    /// Looks at the word as often as the device's patience allows, unless the engine is wanted.
    #[inline(always)]
    fn poll(&self, target: Target<'_>, value: u64) -> bool {
        for _ in 0..self.gpu.config.poll_spins {
            if Word::load(&self.gpu.ordered(self.unit, target)) >= value {
                return true;
            }
            if self.face.is_asked() || self.face.has_news() {
                return false;
            }
            (0..LOOK_PAUSES).for_each(|_| std::hint::spin_loop());
        }
        false
    }

    #[inline(always)]
    fn wait_over(&mut self, target: Target<'_>, value: u64, entry: Option<Entry<'_>>) -> Result<Outcome, Fault> {
        if let Some(entry) = entry {
            let observed = self.queue.observed.take().unwrap_or(0);
            entry.write(self.gpu, self.unit, [value, observed, self.gpu.now()], log::WAIT_UNBLOCKED);
            // The kernel, told of anything that comes behind, finds the entry announced.
            self.barrier();
        }
        self.gpu.trace_wait(false, self.queue.number, target.site, value);
        Ok(Outcome::Done)
    }

    /// The signal that stands behind the wait at the head, if there is one with all that it needs, in the part of the ring that is at
    /// hand. Its words are executed as they are read here: the producer may not change words that the doorbell has announced. A nested
    /// buffer is not looked into, because the wait may be for the buffer's own content. A probe wants to see each command by itself.
    fn signal_behind(&mut self) -> Option<Behind<'a>> {
        self.queue.look_ahead(&self.gpu.bus, self.flight.words as u64);
        if self.gpu.is_probed() {
            return None;
        }
        let mut words = [0; FenceCommand::WORDS_MAX];
        let length = self.queue.fetch_behind(&self.gpu.bus, self.mmu, self.flight.words as u64, &mut words)?;
        let Some(FenceCommand::Signal { current_va, monitored_va, value, log }) =
            FenceCommand::decode(&words[..length])
        else {
            return None;
        };
        let entry = match log {
            Some(slot) => Some(self.entry(slot).ok()?),
            None => None,
        };
        Some(Behind { signal: self.signal_of(current_va, monitored_va, value).ok()?, entry, words: length })
    }

    /// The value waited for is there: gives the signal behind the wait, and writes both entries when its value is stored. No other unit
    /// had the engine meanwhile, so all that was found is still true.
    // spec: sync §3.7, sync §3.14
    #[inline]
    fn wait_over_and_signal(&mut self, waited: u64, entry: Option<Entry<'_>>, behind: &Behind<'_>) -> Outcome {
        let Behind { signal, entry: signal_entry, words } = behind;
        let observed = self.queue.observed.take().unwrap_or(0);
        let exceeds = exceeds(self.gpu, self.unit, signal, || {
            if entry.is_none() && signal_entry.is_none() {
                return;
            }
            let now = self.gpu.now();
            entry
                .iter()
                .for_each(|entry| entry.write(self.gpu, self.unit, [waited, observed, now], log::WAIT_UNBLOCKED));
            signal_entry
                .iter()
                .for_each(|entry| entry.write(self.gpu, self.unit, [signal.value, 0, now], log::SIGNAL_EXECUTED));
        });
        self.tell(signal, exceeds);
        // Both are retired as if they were one.
        self.flight.words += words;
        Outcome::Done
    }

    /// A signal of its own.
    // spec: sync §3.7, sync §3.14
    #[inline(always)]
    pub(super) fn signal(
        &mut self,
        current_va: u64,
        monitored_va: u64,
        value: u64,
        slot: Option<LogSlot>,
    ) -> Result<Outcome, Fault> {
        let signal = self.signal_of(current_va, monitored_va, value)?;
        if self.gpu.is_sealed(self.unit, signal.current.site) {
            // The value stays; the entry is given out to this command, and the next command has the next one.
            let (operation, operand) = (log::SIGNAL_EXECUTED, value);
            return slot.map_or(Ok(Outcome::Done), |slot| self.log(slot, operation, operand));
        }
        let (gpu, unit) = (self.gpu, self.unit);
        let mut logged = Ok(());
        // A waiter for the value does not wait for its log: the log's words are found, and the clock is read, when the value is stored. A
        // log that is not there is a fault all the same, of this queue alone.
        let exceeds = exceeds(gpu, self.unit, &signal, || {
            if let Some(slot) = slot {
                let entry = self.entry(slot);
                logged = entry.map(|entry| entry.write(gpu, unit, [value, 0, gpu.now()], log::SIGNAL_EXECUTED));
            }
        });
        self.tell(&signal, exceeds);
        // The waiters have been told, log or no log.
        logged?;
        self.signals_behind();
        Ok(Outcome::Done)
    }

    /// An entry for what was no signal and no wait, or changed nothing.
    // spec: sync §3.14
    pub(super) fn log(&mut self, slot: LogSlot, operation: u32, value: u64) -> Result<Outcome, Fault> {
        self.entry(slot)?.write(self.gpu, self.unit, [value, 0, self.gpu.now()], operation);
        self.barrier();
        Ok(Outcome::Done)
    }

    /// The words of a signal.
    #[inline(always)]
    pub(super) fn signal_of(&mut self, current_va: u64, monitored_va: u64, value: u64) -> Result<Signal<'a>, Fault> {
        let current = self.word(current_va, Access::Write)?;
        let monitored = self.word(monitored_va, Access::Read)?;
        Ok(Signal { current, monitored, current_va, value })
    }

    /// The value is stored, the barrier put, and MonitoredValue loaded: counts the signal, interrupts for a CPU waiter, unparks queues,
    /// tells peers. Whether it has told anybody.
    #[inline(always)]
    pub(super) fn tell(&self, signal: &Signal<'_>, exceeds: bool) -> bool {
        let &Signal { current, monitored, current_va, value } = signal;
        // A receiver of the interrupt finds the signal counted.
        self.face.counters.signals.add(1);
        // The engine asks the CMP only where its own look said so.
        let interrupt = exceeds && self.ask_cmp(monitored, current, value);
        // Sealed between: the barrier stands behind our store, and another one behind this.
        if self.gpu.is_sealed(self.unit, current.site) {
            Word::store(&self.gpu.ordered(self.unit, current), u64::MAX);
            self.barrier();
        }
        self.gpu.trace(|| Observation::Signal { queue: self.queue.number, bus: current.site.bus(), value, interrupt });
        if interrupt {
            self.face.counters.interrupts_raised.add(1);
            self.gpu
                .interrupts
                .raise(Record { kind: record::FENCE, fields: [u64::from(self.queue.number), current_va, value] });
        }
        let unparked = self.gpu.unpark_after_store(self.unit, current.site);
        let told_peers = self.gpu.tell_peers(self.unit, current.site, value);
        interrupt || unparked || told_peers
    }

    /// The engine's look behind its barrier said that a CPU waiter needs the value: the CMP decides whether to interrupt.
    // spec: sync §3.9
    #[inline]
    fn ask_cmp(&self, monitored: Target<'_>, current: Target<'_>, value: u64) -> bool {
        self.gpu.trace(|| Observation::Asked { queue: self.queue.number, bus: current.site.bus(), value });
        self.gpu.cmp_decides(monitored, value)
    }

    /// Stores the value without a load of MonitoredValue: the processor is always interrupted.
    // spec: sync §3.7
    pub(super) fn signal_always(&mut self, va: u64, value: u64) -> Result<Outcome, Fault> {
        if !va.is_multiple_of(8) {
            return Err(Fault { address: va, cause: fault::BAD_ADDRESS, level: 0 });
        }
        let target = self.word(va, Access::Write)?;
        if self.gpu.config.signal_bits == 64 {
            Word::store(&self.gpu.ordered(self.unit, target), value);
        } else {
            // The other half belongs to another word, and is whole all the time.
            let half = u64::from(u32::MAX);
            let store = |word: u64| Some(word & !half | value & half);
            let _ = target.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, store);
        }
        // The kernel, interrupted from here on, and an engine that parks from here on see the value.
        self.barrier();
        self.face.counters.signals.add(1);
        self.face.counters.interrupts_raised.add(1);
        self.gpu.trace(|| Observation::Signal {
            queue: self.queue.number,
            bus: target.site.bus(),
            value,
            interrupt: true,
        });
        self.gpu.interrupts.raise(Record { kind: record::SIGNALED, fields: [u64::from(self.queue.number), va, value] });
        self.gpu.unpark_after_store(self.unit, target.site);
        Ok(Outcome::Done)
    }
}

/// Value, log, barrier, question, in this order. Whether the value exceeds what is monitored.
// spec: sync §3.7, sync §3.9
#[inline(always)]
pub(super) fn exceeds(gpu: &SoftGpu, unit: Unit, signal: &Signal<'_>, log: impl FnOnce()) -> bool {
    let (current, monitored) = (gpu.ordered(unit, signal.current), gpu.ordered(unit, signal.monitored));
    fence::signal(|| gpu.barrier(unit), &current, &monitored, signal.value, log)
}
