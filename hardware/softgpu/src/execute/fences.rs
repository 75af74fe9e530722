//! Waits and signals: the commands that engines tell each other the time by. Called by [`Execution::execute`].
//!
//! While the only queue of an engine waits, the engine has nothing better to do than to get ready for what comes behind. Where that
//! is a signal, all of it is found before the value comes ([`Execution::signal_behind`]), and when the value has come the signal's
//! value is stored at once; both commands are noted in their logs behind it, and retired together. Whoever waits for an answer to
//! its own signal gets it one cache line and a few instructions later.

use std::sync::atomic::Ordering;

use device_port::Observation;
use shared_words::{Barrier, HardwareBarrier, Word, fence, log};
use softgpu_spec::bus::PAGE_BYTES;
use softgpu_spec::register::{fault, record};
use softgpu_spec::{FenceCommand, LogSlot};

use super::{Execution, Outcome};
use crate::bus::Fault;
use crate::interrupt::Record;
use crate::mmu::{Access, Target};

/// Pauses between two looks at a word: a look that meets the store that it looks for on its way holds that store up. With none a
/// value takes a fifth longer from engine to engine, with three a tenth.
const LOOK_PAUSES: u32 = 2;

/// A signal whose words are found.
struct Signal<'a> {
    current: Target<'a>,
    monitored: Target<'a>,
    current_va: u64,
    value: u64,
}

/// Where an entry of a log goes, and what the command says of it.
#[derive(Clone, Copy)]
struct Entry<'a> {
    slot: LogSlot,
    words: [Target<'a>; 5],
}

/// A signal that stands behind the wait at the head, ready to be given.
struct Behind<'a> {
    signal: Signal<'a>,
    entry: Option<Entry<'a>>,
    /// Its length.
    words: usize,
}

impl<'a> Execution<'a> {
    /// Goes on when the value is there; polls for a while if nobody else wants the engine, then parks.
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
            // It was parked here, and whoever made the queue ready has seen the value.
            self.queue.parked = false;
            *self.waiting -= 1;
            return self.wait_over(target, value, entry);
        }
        self.face.counters.waits.add(1);
        if Word::load(target.word) >= value {
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
                    Some(behind) if !self.gpu.is_sealed(behind.signal.current.site) => {
                        Ok(self.wait_over_and_signal(value, entry, &behind))
                    }
                    _ => self.wait_over(target, value, entry),
                };
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
        self.wait_over(target, value, entry)
    }

    /// Looks at the word as often as the device's patience allows, unless the engine is wanted.
    #[inline(always)]
    fn poll(&self, target: Target<'_>, value: u64) -> bool {
        for _ in 0..self.gpu.config.poll_spins {
            if Word::load(target.word) >= value {
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
            entry.write(value, log::WAIT_UNBLOCKED, observed, self.gpu.now());
        }
        self.gpu.trace_wait(false, self.queue.number, target.site, value);
        Ok(Outcome::Done)
    }

    /// The signal that stands behind the wait at the head, if there is one with all that it needs, in the part of the ring that is at
    /// hand. Its words are executed as they are read here: what the doorbell has announced nobody may change. A nested buffer is not
    /// looked into, because what is waited for may be the buffer's own content. A probe wants to see each command by itself.
    fn signal_behind(&mut self) -> Option<Behind<'a>> {
        self.queue.look_ahead(&self.gpu.bus, self.flight.words as u64);
        if self.gpu.probe.is_some() {
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

    /// The value waited for is there: gives the signal behind the wait, and writes both entries when its value is stored. The
    /// engine was nobody else's meanwhile, so all that was found is still true.
    // spec: sync §3.7, sync §3.14
    #[inline]
    fn wait_over_and_signal(&mut self, waited: u64, entry: Option<Entry<'_>>, behind: &Behind<'_>) -> Outcome {
        let Behind { signal, entry: signal_entry, words } = behind;
        let interrupt =
            fence::signal::<HardwareBarrier>(&signal.current.word, &signal.monitored.word, signal.value, || {
                if entry.is_none() && signal_entry.is_none() {
                    return;
                }
                let (observed, now) = (self.queue.observed.take().unwrap_or(0), self.gpu.now());
                entry.iter().for_each(|entry| entry.write(waited, log::WAIT_UNBLOCKED, observed, now));
                signal_entry.iter().for_each(|entry| entry.write(signal.value, log::SIGNAL_EXECUTED, 0, now));
            });
        self.tell(signal, interrupt);
        // Both are retired as if they were one.
        self.flight.words += words;
        Outcome::Done
    }

    /// Value, log, barrier, question, in this order.
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
        if self.gpu.is_sealed(signal.current.site) {
            return Ok(Outcome::Done);
        }
        let mut logged = Ok(());
        // Who waits for the value does not wait for its log: the log's words are found, and the clock is read, when the value is
        // stored. A log that is not there is a fault all the same, of this queue alone.
        let interrupt = fence::signal::<HardwareBarrier>(&signal.current.word, &signal.monitored.word, value, || {
            if let Some(slot) = slot {
                let entry = self.entry(slot);
                logged = entry.map(|entry| entry.write(value, log::SIGNAL_EXECUTED, 0, self.gpu.now()));
            }
        });
        self.tell(&signal, interrupt);
        // Whoever waits has been told, log or no log.
        logged.map(|()| Outcome::Done)
    }

    /// The words of a signal.
    #[inline(always)]
    fn signal_of(&mut self, current_va: u64, monitored_va: u64, value: u64) -> Result<Signal<'a>, Fault> {
        let current = self.word(current_va, Access::Write)?;
        let monitored = self.word(monitored_va, Access::Read)?;
        Ok(Signal { current, monitored, current_va, value })
    }

    /// The value is stored, the barrier put, and the question answered: tells whoever waits.
    #[inline(always)]
    fn tell(&self, signal: &Signal<'_>, interrupt: bool) {
        let &Signal { current, monitored, current_va, value } = signal;
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
    }

    /// Value, then the question to nobody: the processor is always interrupted.
    // spec: sync §3.7
    pub(super) fn signal_always(&mut self, va: u64, value: u64) -> Result<Outcome, Fault> {
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

    /// The words of a log slot, found before anything is stored. An entry inside one page is translated once.
    #[inline(always)]
    fn entry(&mut self, slot: LogSlot) -> Result<Entry<'a>, Fault> {
        let position = self.word(slot.position_va, Access::Write)?;
        let first = self.word(slot.entry_va, Access::Write)?;
        let one_page = slot.entry_va % PAGE_BYTES + log::ENTRY_BYTES <= PAGE_BYTES;
        let mut word = |offset: u64| {
            if one_page {
                let site = first.site.plus(offset);
                return Ok(Target { site, word: self.gpu.bus.write_word(site) });
            }
            self.mmu.word(&self.gpu.bus, self.queue.space(), slot.entry_va.wrapping_add(offset), Access::Write)
        };
        let words = [
            word(log::entry::FENCE_VALUE)?,
            word(log::entry::HANDLE_AND_OPERATION)?,
            word(log::entry::OBSERVED)?,
            word(log::entry::END)?,
            position,
        ];
        Ok(Entry { slot, words })
    }
}

impl Entry<'_> {
    /// Writes the entry and then the position word.
    fn write(&self, value: u64, operation: u32, observed: u64, end: u64) {
        let [fence_value, handle, observed_word, end_word, position] = self.words.map(|target| target.word);
        let handle_and_operation = u64::from(self.slot.handle) | u64::from(operation) << 32;
        let entry = [fence_value, handle, observed_word, end_word];
        log::write_entry(&entry, &position, [value, handle_and_operation, observed, end], self.slot.position);
    }
}
