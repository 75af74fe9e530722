//! An engine that writes the signal log of its queue, in a ring of two entries, against the kernel that reads it
//! ([`shared_words::log`], sync §3.14). The second engine signals another fence from another queue with a log of its own; the
//! interrupt of either makes the kernel read both.
//!
//! The engine writes value, entry, position, in this order, and its one barrier stands before it asks MonitoredValue. Between
//! entry and position there is none: entries are plain stores. The kernel makes up for that: it has all stores of the queues
//! committed (UpdateNativeFenceLogs) before it reads entries, and looks at the position once more behind them, for what
//! was overwritten meanwhile is nothing.

use shared_words::fence::signal;
use shared_words::log::{position, total, write_entry};
use shared_words::{Barrier, Word};

use crate::buffers::{Cell, PlainCell, Program, again, drained, explore};
use crate::explore::{Ending, Explored};

const ENTRIES: u64 = 2;
/// Of one queue: CurrentValue, position, two entries of value and handle, and how far the kernel has read.
const QUEUE_WORDS: usize = 7;
/// Every signal of the fences interrupts: MonitoredValue is 0.
const MONITORED: Cell = Cell(2 * QUEUE_WORDS);
const RAISED: Cell = Cell(2 * QUEUE_WORDS + 1);
/// Entry 0 is there already and has not been read.
const WRITTEN: u64 = 1;

#[derive(Clone, Copy)]
struct Queue(usize);

impl Queue {
    fn current(self) -> Cell {
        Cell(self.0 * QUEUE_WORDS)
    }
    fn position(self) -> Cell {
        Cell(self.0 * QUEUE_WORDS + 1)
    }
    fn entry(self, number: u64) -> [PlainCell; 2] {
        // CAST: two entries.
        let at = self.0 * QUEUE_WORDS + 2 + 2 * (number % ENTRIES) as usize;
        [PlainCell(at), PlainCell(at + 1)]
    }
    fn read(self) -> Cell {
        Cell(self.0 * QUEUE_WORDS + 6)
    }
}

/// Which parts of the kernel's side are there.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// UpdateNativeFenceLogs before entries are read.
    pub commit: bool,
    /// The second look at the position.
    pub look_again: bool,
}

/// The protocol with both parts.
pub const WHOLE: Parts = Parts { commit: true, look_again: true };

/// Signals with an entry each.
fn engine<S: Barrier + 'static>(queue: Queue, signals: u64) -> Program {
    Program::new(vec![WRITTEN], move |knows| {
        let number = knows[0];
        if number == WRITTEN + signals {
            return 0;
        }
        let next = position(number + 1, ENTRIES);
        let write = || write_entry(&queue.entry(number), &queue.position(), [said(number); 2], next);
        if signal(S::full, &queue.current(), &MONITORED, number, write) {
            RAISED.raise();
        }
        again(vec![number + 1])
    })
}

/// The content of the entry of a number.
fn said(number: u64) -> u64 {
    10 + number
}

/// At each interrupt reads what is new in both logs. Says 1 when it has read what is no entry.
fn kernel(parts: Parts) -> Program {
    Program::new(vec![0, 0, 0], move |knows| {
        // CAST: which of two logs is next.
        let (mut known, number) = ([knows[0], knows[1]], knows[2] as usize);
        if number == 0 {
            RAISED.reached(1);
            RAISED.exchange(0);
        }
        match read(Queue(number), known[number], parts) {
            Some(next) => known[number] = next,
            None => return 1,
        }
        Queue(number).read().store(known[number]);
        again(vec![known[0], known[1], 1 - knows[2]])
    })
}

/// Reads what is new in a queue's log: how far it has got, or that an entry was none.
fn read(queue: Queue, known: u64, parts: Parts) -> Option<u64> {
    let new = total(queue.position().load(), ENTRIES);
    if new == known {
        return Some(new);
    }
    if parts.commit {
        drained(queue.0);
    }
    // Entries further back have been overwritten: lost, and counted.
    let first = known.max(new.saturating_sub(ENTRIES));
    let entries: Vec<[u64; 2]> = (first..new).map(|number| queue.entry(number).map(|word| word.load())).collect();
    // The engine writes the entry behind the last announced before it announces it: that slot is lost as well.
    let announced = if parts.look_again { total(queue.position().load(), ENTRIES) } else { 0 };
    let whole = |number: u64| number + ENTRIES > announced;
    let sound = (first..new).zip(entries).all(|(number, words)| !whole(number) || words == [said(number); 2]);
    sound.then_some(new)
}

/// Two engines with a log each, the first with two signals, against the kernel. Lost is: an entry that is none, or one that the kernel has
/// not read although its interrupt came.
pub fn two_logs<S: Barrier + 'static>(parts: Parts, second: u64) -> Explored {
    let mut memory = [0; 2 * QUEUE_WORDS + 2];
    for queue in [Queue(0), Queue(1)] {
        memory[queue.position().0] = position(WRITTEN, ENTRIES);
        for word in queue.entry(0) {
            memory[word.0] = said(0);
        }
    }
    let programs = [engine::<S>(Queue(0), 2), engine::<S>(Queue(1), second), kernel(parts)];
    let judge = |memory: &[u64], said: &[Option<u64>]| {
        let unread = |queue: Queue| memory[queue.read().0] != total(memory[queue.position().0], ENTRIES);
        let lost = said[2].is_some() || unread(Queue(0)) || unread(Queue(1));
        Ending { lost, twice: false }
    };
    explore(&memory, &programs, judge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Removed;
    use crate::buffers::Full;

    #[test]
    fn every_entry_is_read_whole_or_known_to_be_lost() {
        // spec: sync §3.14, sync §3.19
        let explored = two_logs::<Full>(WHOLE, 2);
        assert!(explored.lost == 0 && explored.executions > 0, "{explored:?}");
    }

    #[test]
    fn the_barrier_behind_the_position_removed_is_found() {
        // spec: sync §3.14
        assert!(two_logs::<Removed>(WHOLE, 1).lost > 0, "an interrupt whose entry is not there yet");
    }

    #[test]
    fn entries_that_are_read_before_they_are_committed_are_found() {
        // spec: sync §3.14
        assert!(two_logs::<Full>(Parts { commit: false, ..WHOLE }, 1).lost > 0);
    }

    #[test]
    fn entries_that_are_overwritten_while_they_are_read_are_found() {
        // spec: sync §3.14
        assert!(two_logs::<Full>(Parts { look_again: false, ..WHOLE }, 1).lost > 0);
    }
}
