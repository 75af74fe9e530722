//! Interrupts that name a queue, whose log says what was signalled (sync §3.15): what is looked at when the log does not say it. Two
//! queues of one process, on a device each, with logs of two entries that the kernel reads when their interrupt comes. The first signals
//! a fence that the second's device has open and that the CPU waits for, and then others of its own, so that the entry is overwritten
//! when the kernel is late; or it calls the fence, which others share, by another name.
//!
//! | the entry of what is waited for | released by |
//! |---|---|
//! | is read | the entry |
//! | was overwritten | a look at all that the process has open, and not the device alone |
//! | names another fence | a look at what the process shares |

use shared_words::fence::signal;
use shared_words::log::{position, total, write_entry};
use shared_words::{Barrier, Word};

use crate::buffers::{Cell, PlainCell, Program, again, drained, explore};
use crate::explore::{Ending, Explored};

const ENTRIES: u64 = 2;
/// CurrentValue of the fence that is waited for, and of another for each queue.
const WANTED: Cell = Cell(0);
const OTHERS: [Cell; 2] = [Cell(1), Cell(2)];
/// MonitoredValue of each: every signal interrupts.
const MONITORED: Cell = Cell(3);
/// An interrupt names this queue.
const NAMED: [Cell; 2] = [Cell(4), Cell(5)];
/// There is an interrupt.
const RAISED: Cell = Cell(6);
/// The waiter goes on.
const WOKEN: Cell = Cell(7);
/// Of each queue: the position and two entries.
const LOGS: usize = 8;
const LOG_WORDS: usize = 3;
const MEMORY: [u64; LOGS + 2 * LOG_WORDS] = [0; LOGS + 2 * LOG_WORDS];

/// The fence that an entry names.
const NAMES_WANTED: u64 = 1;
const NAMES_OTHER: u64 = 2;

fn log_position(queue: usize) -> Cell {
    Cell(LOGS + queue * LOG_WORDS)
}

fn log_entry(queue: usize, number: u64) -> PlainCell {
    // CAST: two entries.
    PlainCell(LOGS + queue * LOG_WORDS + 1 + (number % ENTRIES) as usize)
}

/// The fences that the kernel looks at beside the entries.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// All fences of the process, when entries are lost; else those of the queue's device, of which the one that is waited for is none.
    pub process: bool,
    /// Those that it shares, whatever the entries say.
    pub shared: bool,
}

/// The kernel looks at both.
pub const WHOLE: Looks = Looks { process: true, shared: true };

/// How the first queue's entry calls the fence that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// By its name.
    Itself,
    /// By the name of another.
    Another,
}

/// Signals the fence that is waited for, if it is this queue's to do, and then its own so often.
fn engine<S: Barrier + 'static>(queue: usize, called: Option<Called>, others: u64) -> Program {
    Program::new(vec![0], move |knows| {
        let number = knows[0];
        let first = u64::from(called.is_some());
        if number == first + others {
            return 0;
        }
        let (fence, value, name) = match called {
            Some(called) if number == 0 => {
                (WANTED, 1, if called == Called::Itself { NAMES_WANTED } else { NAMES_OTHER })
            }
            _ => (OTHERS[queue], number + 1, NAMES_OTHER),
        };
        let announced = position(number + 1, ENTRIES);
        let write = || write_entry(&[log_entry(queue, number)], &log_position(queue), [name], announced);
        if signal(S::full, &fence, &MONITORED, value, write) {
            NAMED[queue].raise();
            RAISED.raise();
        }
        again(vec![number + 1])
    })
}

/// At each interrupt reads what is new in the logs of the queues that are named, until the waiter has gone on.
fn kernel(looks: Looks, shares: bool) -> Program {
    Program::new(vec![0, 0, 0], move |knows| {
        // CAST: which of two queues is next.
        let (mut known, queue) = ([knows[0], knows[1]], knows[2] as usize);
        if queue == 0 {
            RAISED.reached(1);
            RAISED.exchange(0);
        }
        if NAMED[queue].exchange(0) == 1 {
            let new = total(log_position(queue).load(), ENTRIES);
            drained(queue);
            let first = known[queue].max(new.saturating_sub(ENTRIES));
            let told = (first..new).any(|number| log_entry(queue, number).load() == NAMES_WANTED);
            // The engine writes the entry behind the last announced before it announces it: that slot is lost as well.
            let announced = total(log_position(queue).load(), ENTRIES);
            let lost = announced + 1 > known[queue] + ENTRIES;
            let looks = lost && looks.process || shares && looks.shared;
            if told || looks && WANTED.load() >= 1 {
                WOKEN.store(1);
                return 0;
            }
            known[queue] = new;
        }
        again(vec![known[0], known[1], 1 - knows[2]])
    })
}

/// The first queue signals the awaited fence and then its own fence `others` times; the second signals its own once. Lost is a waiter that
/// sleeps for ever although the fence has come to its value.
pub fn two_devices<S: Barrier + 'static>(looks: Looks, called: Called, others: u64) -> Explored {
    let shares = called == Called::Another;
    let programs = [engine::<S>(0, Some(called), others), engine::<S>(1, None, 1), kernel(looks, shares)];
    let judge = |memory: &[u64], said: &[Option<u64>]| {
        let lost = said[2].is_none() && memory[WANTED.0] >= 1;
        Ending { lost, twice: memory[WOKEN.0] == 1 && memory[NAMED[0].0] == 1 }
    };
    explore(&MEMORY, &programs, judge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Removed;
    use crate::buffers::Full;

    /// Signals behind the one that is waited for: none, as many as leave its entry there, and more.
    const BEHIND: [u64; 4] = [0, 1, 2, 3];

    #[test]
    fn whatever_the_log_says_the_waiter_is_woken() {
        // spec: sync §3.15, sync §3.14 (overrun), sync §3.19
        for called in [Called::Itself, Called::Another] {
            for others in BEHIND {
                let explored = two_devices::<Full>(WHOLE, called, others);
                assert!(explored.lost == 0 && explored.executions > 0, "{called:?}, {others}: {explored:?}");
            }
        }
    }

    #[test]
    fn a_look_at_the_device_alone_is_found_when_the_entry_is_lost() {
        // spec: sync §3.14 (overrun), sync §3.15
        let lost = |others| two_devices::<Full>(Looks { process: false, ..WHOLE }, Called::Itself, others).lost;
        assert_eq!(BEHIND.map(|others| lost(others) > 0), [false, false, true, true], "with an overrun, and only then");
    }

    #[test]
    fn a_shared_fence_that_is_looked_at_only_by_its_name_is_found() {
        // spec: sync §3.15, sync §6 C10
        let looks = Looks { shared: false, ..WHOLE };
        assert!(two_devices::<Full>(looks, Called::Another, 0).lost > 0);
    }

    #[test]
    fn the_barrier_before_the_question_removed_is_found() {
        // spec: sync §3.14
        assert!(two_devices::<Removed>(WHOLE, Called::Itself, 0).lost > 0);
    }
}
