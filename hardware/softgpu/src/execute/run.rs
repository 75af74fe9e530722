//! Signals that stand one behind the other. Called by [`Execution::signal`](super::Execution).
//!
//! An engine that has executed a signal looks at the command behind it before it retires the one that it has, and executes it at once if it is a
//! signal too: each of them stores, puts its barrier and asks as ever, but the way from command to command, which takes longer than the
//! signal itself, is gone once for all of them. They are retired together, as if they were one. The engine stops for whatever it would stop for
//! between two commands.

use std::sync::atomic::AtomicU64;

use shared_words::{Word, log};
use softgpu_spec::{Command, FenceCommand, LogSlot};

use super::Execution;
use super::fences::exceeds;

/// Most signals that are executed behind one: the read pointer stands still meanwhile.
const RUN_MAX: usize = 64;
/// Entries of a run that have the time of one look at the clock, which takes longer than a signal: the resolution of their times. Nothing
/// comes between them that their queue would have waited for, and all of them had been announced before the look. The engine looks anew
/// behind a signal that has told anybody of its value. But it does not see who merely reads the words: an entry can have a time at which
/// another engine still found the value missing, by as much as the signals since the look have taken. If the host takes the processor from
/// the engine between two of them, its entries can have the time of a look that lies before all of that.
const ENTRIES_A_LOOK: u32 = 8;
/// Words of a signal, without a place in a log and with one.
const PLAIN_WORDS: usize = 4;
const LOGGED_WORDS: usize = PLAIN_WORDS + LogSlot::WORDS;

/// The time for the entries of a run.
#[derive(Default)]
struct EntryTime {
    ns: u64,
    left: u32,
}

impl<'a> Execution<'a> {
    /// Executes the signals behind the one at the head, as many as are at hand.
    pub(super) fn signals_behind(&mut self) {
        // A probe wants to see each command by itself, and in virtual time each has a time of its own.
        if !self.alone || self.gpu.is_virtual() || self.gpu.is_probed() {
            return;
        }
        let mut ahead = self.queue.at_hand(&self.gpu.bus, self.mmu, self.flight.words as u64);
        let (mut executed, mut time) = (0, EntryTime::default());
        while executed < RUN_MAX && !(self.face.is_asked() || self.face.has_news()) {
            let Some(length) = self.signal_of_run(ahead, &mut time) else { break };
            ahead = &ahead[length..];
            self.flight.words += length;
            executed += 1;
        }
    }

    /// Executes the command at the begin of these words, if it is a signal and all of its words are found; its length. Else it is fetched when
    /// its turn comes, and its faults are told then.
    // spec: sync §3.7, sync §3.14
    #[inline(always)]
    fn signal_of_run(&mut self, ahead: &'a [AtomicU64], time: &mut EntryTime) -> Option<usize> {
        // Each word is read once.
        let first = Word::load(ahead.first()?);
        let (command, length) = match Command::length(first) {
            Ok(PLAIN_WORDS) => (FenceCommand::decode(&words::<PLAIN_WORDS>(first, ahead)?)?, PLAIN_WORDS),
            Ok(LOGGED_WORDS) => (FenceCommand::decode(&words::<LOGGED_WORDS>(first, ahead)?)?, LOGGED_WORDS),
            _ => return None,
        };
        let FenceCommand::Signal { current_va, monitored_va, value, log } = command else { return None };
        let signal = self.signal_of(current_va, monitored_va, value).ok()?;
        let entry = match log {
            None => None,
            Some(slot) => Some(self.entry(slot).ok()?),
        };
        let (gpu, unit) = (self.gpu, self.unit);
        if gpu.is_sealed(unit, signal.current.site) {
            return None;
        }
        let exceeds = exceeds(gpu, unit, &signal, || {
            if let Some(entry) = entry {
                entry.write(gpu, unit, [value, 0, time.of_entry(|| gpu.now())], log::SIGNAL_EXECUTED);
            }
        });
        if self.tell(&signal, exceeds) {
            // A party that was told may note the time now, and the next signal comes behind that.
            time.left = 0;
        }
        Some(length)
    }
}

impl EntryTime {
    /// The time of the next entry.
    #[inline(always)]
    fn of_entry(&mut self, now: impl FnOnce() -> u64) -> u64 {
        if self.left == 0 {
            (self.ns, self.left) = (now(), ENTRIES_A_LOOK);
        }
        self.left -= 1;
        self.ns
    }
}

/// The words of a command whose first has been read.
#[inline(always)]
fn words<const N: usize>(first: u64, from: &[AtomicU64]) -> Option<[u64; N]> {
    let from: &[AtomicU64; N] = from.first_chunk()?;
    Some(std::array::from_fn(|at| if at == 0 { first } else { Word::load(&from[at]) }))
}
